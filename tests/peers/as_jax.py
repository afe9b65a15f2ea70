"""Pytest plugin: `jax` is `nabla_mlir.jax` for JAX's own tests, which also use JAX's private test utilities.

The real JAX is loaded for these utilities. Then the public modules in `sys.modules` look up names in the mirror alone, and the
utilities call the mirror where they call public functions. While files are collected, the real object stands in for a name that
the mirror lacks, so that one name does not lose a file. A test in which a primitive of the real JAX ran is marked `real`.

PEERS_RESULTS is the file to which each result is added as a line of JSON.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import types
import warnings
from collections.abc import Iterator
from typing import Any, ClassVar

import jax as real
import pytest

import nabla_mlir
import nabla_mlir.jax as ours
from nabla_mlir.table.narrowing import narrow_everywhere
from nabla_mlir.table.tensor import Tensor

MODULES = """numpy numpy.linalg numpy.fft lax lax.linalg nn nn.initializers random scipy scipy.linalg scipy.special scipy.stats
scipy.ndimage scipy.signal scipy.optimize scipy.interpolate scipy.integrate scipy.fft scipy.sparse scipy.sparse.linalg
scipy.spatial scipy.spatial.transform tree tree_util flatten_util image ops debug ad_checkpoint custom_batching
custom_derivatives dlpack typing dtypes errors core api_util sharding stages extend extend.core extend.linear_util interpreters
interpreters.ad interpreters.batching interpreters.mlir experimental experimental.jet experimental.ode experimental.checkify
experimental.sparse example_libraries example_libraries.stax example_libraries.optimizers""".split()
# Submodules that files import and the mirror lacks: loaded, so that the real ones stand in for them while files are collected.
STAND_INS = (
    "experimental.pjit",
    "experimental.multihost_utils",
    "experimental.serialize_executable",
    "experimental.compilation_cache",
)
UTILITIES = ("_src.test_util", "_src.public_test_util", "_src.internal_test_util.lax_test_util")
SETTINGS = ("version", "__version__", "check_tracer_leaks", "log_compiles", "debug_key_reuse", "legacy_prng_key")
RESULTS = os.environ["PEERS_RESULTS"]


class _Run:
    """The state of the run: whether files are collected, and the primitives of the real JAX that ran in this test."""

    is_collecting = True
    real: ClassVar[set[str]] = set()


class Face(types.ModuleType):
    """A public module of JAX with the names of the mirror."""

    def __init__(self, path: str, mine: Any, theirs: Any):
        super().__init__("jax" + (path and "." + path), getattr(mine, "__doc__", None))
        self.__dict__.update(_path=path, _mine=mine, _theirs=theirs, __path__=[])

    def __getattr__(self, name: str) -> Any:
        if hasattr(self._mine, name):
            return getattr(self._mine, name)
        is_setting = not self._path and name in SETTINGS
        if hasattr(self._theirs, name) and (_Run.is_collecting or is_setting or name == "_src"):
            return getattr(self._theirs, name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


def _module(package: str, path: str) -> Any:
    try:
        return importlib.import_module(f"{package}.{path}")
    except ImportError:
        return None


def _put() -> dict[int, tuple[Any, Any]]:
    """Puts the mirror in the place of JAX; returns the public functions of both, by the identity of those of JAX."""
    for path in STAND_INS:
        _module("jax", path)
    utilities = [module for path in UTILITIES if (module := _module("jax", path)) is not None]
    pairs = {path: (_module("nabla_mlir.jax", path), _module("jax", path)) for path in MODULES}
    faces = {path: Face(path, mine, theirs) for path, (mine, theirs) in pairs.items() if mine is not None}
    root = Face("", ours, real)
    exchanged: dict[int, tuple[Any, Any]] = {id(real): (real, root)}
    for face in (root, *faces.values()):
        exchanged[id(face._theirs)] = face._theirs, face
        for name in dir(face._theirs):
            theirs, mine = getattr(face._theirs, name, None), getattr(face._mine, name, None)
            if not name.startswith("_") and mine is not None and callable(theirs) and not isinstance(theirs, type):
                exchanged.setdefault(id(theirs), (theirs, mine))
    interface = types.ModuleType("jax._src.api")  # by which the utilities call jvp, vjp and jit
    interface.__getattr__ = lambda name: getattr(ours if hasattr(ours, name) else real._src.api, name)  # type: ignore[method-assign]
    exchanged[id(real._src.api)] = real._src.api, interface
    sys.modules["jax"] = root
    for path, face in faces.items():
        parent, _, name = path.rpartition(".")
        (faces.get(parent) or root).__dict__[name] = face
        sys.modules[face.__name__] = face
    root.__dict__.update(config=_Config(), enable_x64=_both_enable_x64, _src=real._src)
    for module in utilities:
        _exchange(module, exchanged)
    for name in ours.errors.__all__:  # the tests name some of these classes by JAX's private module
        if hasattr(real._src.core, name):
            setattr(real._src.core, name, getattr(ours.errors, name))
    is_weak = real._src.dtypes.is_weakly_typed
    real._src.dtypes.is_weakly_typed = lambda x: x.weak if isinstance(x, (ours.Array, Tensor)) else is_weak(x)
    bind = real._src.core.Primitive.bind

    def noted(self: Any, *args: Any, **params: Any) -> Any:
        _Run.real.add(self.name)
        return bind(self, *args, **params)

    real._src.core.Primitive.bind = noted
    return exchanged


def _exchange(module: types.ModuleType, exchanged: dict[int, tuple[Any, Any]]) -> None:
    for name, value in list(vars(module).items()):
        if id(value) in exchanged and exchanged[id(value)][0] is value:
            setattr(module, name, exchanged[id(value)][1])


class _Config:
    """The settings of the mirror; those of the real JAX that its test utilities read."""

    def __getattr__(self, name: str) -> Any:
        return getattr(ours.config, name) if hasattr(ours.config, name) else getattr(real.config, name)

    def update(self, name: str, value: Any) -> None:
        with contextlib.suppress(nabla_mlir.errors.TraceError):
            ours.config.update(name, value)
        real.config.update(name, value)


@contextlib.contextmanager
def _both_enable_x64(new_val: bool = True) -> Iterator[None]:
    with ours.enable_x64(new_val), _real_enable_x64(new_val):
        yield


warnings.filterwarnings("ignore")
_real_enable_x64 = real.enable_x64
_EXCHANGED = _put()
narrow_everywhere()  # as `nabla_mlir.jax.install` does
ours.config.update("jax_enable_x64", os.environ.get("JAX_ENABLE_X64") == "1")
nabla_mlir.set_execution(os.environ.get("PEERS_EXECUTION", "interpret"))  # type: ignore[arg-type]


def pytest_collection_finish(session: pytest.Session) -> None:
    """The names of the mirror alone, from the first test on."""
    _Run.is_collecting = False
    for module in {item.module for item in session.items if isinstance(item, pytest.Function)}:
        _exchange(module, _EXCHANGED)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """No primitive of the real JAX has run in this test."""
    _Run.real.clear()


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Adds the result of a test, or of its failed setup, to the file of results."""
    if call.when == "teardown" or (call.when == "setup" and call.excinfo is None):
        return
    result: dict[str, Any] = {"test": item.nodeid, "real": sorted(_Run.real)[:4], "status": "passed"}
    if call.excinfo is not None:
        kind = call.excinfo.typename
        result["status"] = "skipped" if kind in ("Skipped", "SkipTest") else "failed"
        line = str(call.excinfo.traceback[-1].statement) if call.excinfo.traceback else ""
        place = str(call.excinfo.traceback[-1].path) if call.excinfo.traceback else ""
        result["in_jax"] = "/jax/_src/" in place and "test_util" not in place
        own = [entry for entry in call.excinfo.traceback if str(entry.path) == str(item.path)]
        at = str(own[-1].statement) if own else ""
        result.update(kind=kind, message=str(call.excinfo.value)[:600], line=line[:200], at=at[:200])
    with open(RESULTS, "a") as file:
        file.write(json.dumps(result) + "\n")
