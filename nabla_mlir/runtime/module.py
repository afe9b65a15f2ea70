"""Loaded artifacts. The entry points of a `Module` check and flatten arguments, and rebuild results, by the manifest."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from iree.runtime.version import VERSION

from nabla_mlir.base.errors import DeployError, DtypeError, user_frame
from nabla_mlir.base.plugins import plugin, plugins
from nabla_mlir.runtime.array import Array
from nabla_mlir.runtime.device import pooled
from nabla_mlir.runtime.element_types import dtype_named
from nabla_mlir.runtime.executable import Executable, Recipe, Runnable
from nabla_mlir.runtime.fitting import check_fit, choose
from nabla_mlir.runtime.interrupts import Interrupts
from nabla_mlir.runtime.manifest import Code, EntryPoint, Manifest
from nabla_mlir.runtime.outline import outline
from nabla_mlir.runtime.reference import check_numbers
from nabla_mlir.runtime.storage import Artifact
from nabla_mlir.runtime.transfer import DeployDtypeError, DeployShapeError, DeployTreeError, as_array, mismatch
from nabla_mlir.targets import TARGETS


class Module:
    """A loaded artifact. Its entry points are attributes and items; they accept and return trees of arrays.

    Example:
      module = load("hvp.vmfb")
      module.hvp(params, v, data)
      module["hvp"](params=params, v=v, data=data)

    It can be pickled and copied: the code travels, and a process opens equal code once; the state does not. The copy has fresh
    state, as a `clone` has.
    """

    executable: Runnable
    manifest: Manifest
    code: Code

    def __init__(
        self,
        executable: Runnable,
        manifest: Manifest,
        code: Code,
        stablehlo: Callable[[], bytes],
        others: Mapping[str, Runnable] | None = None,
    ):
        """Makes an entry for each entry point of the manifest.

        `others` has the executables of the entry points that run on other drivers, by their names.
        """
        self.executable, self.manifest, self.code, self._stablehlo = executable, manifest, code, stablehlo
        self._others = dict(others or {})
        is_bounded = all(e.estimate.is_bounded for e in manifest.entry_points)
        self._interrupts = None if is_bounded else Interrupts("take a clone() of the module from before, or load it anew.")
        self._entries = {e.name: self._entry(e) for e in manifest.entry_points}
        # An attribute of the object is found faster than through `__getattr__`.
        self.__dict__.update({name: entry for name, entry in self._entries.items() if not hasattr(Module, name)})

    @property
    def entry_points(self) -> dict[str, EntryPoint]:
        """The descriptions of the entry points, by name: their arguments and results."""
        return {e.name: e for e in self.manifest.entry_points}

    def _entry(self, entry: EntryPoint) -> _Entry:
        """A callable for an entry point; Ctrl-C and time limits can end its calls if their time has no bound."""
        function = self._others.get(entry.name, self.executable).function(entry.function or entry.name)
        if self._interrupts is None:
            return _Entry(entry, function)
        if entry.estimate.is_bounded:
            return _Entry(entry, functools.partial(self._free, entry.name, function))
        return _Entry(entry, functools.partial(self._interrupts.call, entry.name, function))

    def _free(self, name: str, function: Callable[..., list[Array]], *call: Any) -> list[Array]:
        """The results of a call with the arguments `call`, which ends by itself; raises if an abandoned call may use the code."""
        assert self._interrupts is not None
        self._interrupts.check(name)
        return function(*call)

    @property
    def driver(self) -> str:
        """The driver on which it runs. If entry points have separate drivers, it is the driver of the longest."""
        return self.executable.driver

    def driver_of(self, name: str) -> str:
        """The driver that an entry point runs on."""
        return self._others.get(name, self.executable).driver

    @property
    def threads(self) -> int:
        """The largest number of threads on which its calls compute."""
        return max(e.device.threads for e in (self.executable, *self._others.values()))

    def clone(self) -> Module:
        """The same code with fresh state. Give each thread a clone to let them run in parallel."""
        clones = {other.driver: other.clone() for other in self._others.values()}
        others = {name: clones[other.driver] for name, other in self._others.items()}
        return Module(self.executable.clone(), self.manifest, self.code, self._stablehlo, others)

    def on(self, driver: str) -> Module:
        """The same code with fresh state, completely on another driver, with separate memory for results."""
        return Module(self.executable.on(pooled(driver)), self.manifest, self.code, self._stablehlo)

    @property
    def digest(self) -> str:
        """A SHA-256 of the code and of the manifest. Equal artifacts have equal digests, in every process."""
        codes = [self.executable.digest, *(self._others[name].digest for name in sorted(self._others))]
        return hashlib.sha256("\n".join([*codes, self.manifest.to_json()]).encode()).hexdigest()

    def __dask_tokenize__(self) -> tuple[str, str]:
        return "nabla_mlir.Module", self.digest

    def __reduce__(self) -> Recipe:
        """The recipe of pickle: it sends the manifest, the StableHLO, and a recipe for each executable."""
        recipes = {other.driver: other.recipe() for other in self._others.values()}
        names = {name: other.driver for name, other in self._others.items()}
        return _restored, (self.manifest, self.code, _Source.of(self._stablehlo), self.executable.recipe(), recipes, names)

    def __copy__(self) -> Module:
        return self.clone()

    def __deepcopy__(self, memo: Any) -> Module:
        return self.clone()

    def lower(self) -> Any:
        """The stage `Lowered` from which it was compiled, to compile it for another target or to transform it.

        Only this method needs the compiler. Custom nodes of trees become dicts.

        Raises:
          DeployError: the artifact was saved without its StableHLO, that file is missing or damaged, or the compiler is not
            installed.
        """
        if "stages" not in plugins():
            raise DeployError(
                "lower requires the compiler, got an installation of the runtime alone.",
                where=user_frame(),
                help="install nabla_mlir from the repository or its wheel, as docs/learn/install.md says.",
            )
        return plugin("stages").Lowered.restore(self._stablehlo(), self.manifest)

    def __getitem__(self, name: str) -> _Entry:
        """Returns the entry point with this name; raises DeployError if there is none."""
        try:
            return self._entries[name]
        except KeyError:
            raise DeployError(f"an entry point requires one of {', '.join(self._entries)}, got {name!r}.") from None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Returns the entry point with this name; raises AttributeError if there is none."""
        entries = self.__dict__.get("_entries", {})
        if name in entries:
            return entries[name]
        raise AttributeError(f"this module has the entry points {', '.join(entries) or 'none'}, not {name!r}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._entries]

    def __repr__(self) -> str:
        """The target and the driver, then each entry point with its documentation and its large arguments, as lines of text."""
        lines = [f"Module for {self.code.label}, on {self.driver}"]
        for entry in self.manifest.entry_points:
            lines.append(f"  {entry}")
            if entry.doc:
                lines.append(f"      {entry.doc.strip().splitlines()[0]}")
            for argument in entry.arguments:
                if argument.tree.kind != "leaf":
                    lines += outline([leaf.name for leaf in argument.leaves], argument.leaves, "      ")
            if entry.result.kind != "leaf":
                lines += outline([leaf.name for leaf in entry.result_leaves], entry.result_leaves, "      -> ")
        return "\n".join(lines)


@dataclass(frozen=True)
class _Source:
    """The StableHLO of a module that is sent to another process, or the reason why the module has none."""

    data: bytes
    absence: str = ""

    @staticmethod
    def of(reading: Callable[[], bytes]) -> _Source:
        """The StableHLO that the function `reading` returns, or the message of its error if it raises DeployError."""
        try:
            return _Source(reading())
        except DeployError as error:
            return _Source(b"", error.message)

    def __call__(self) -> bytes:
        """The StableHLO; raises DeployError with the reason if there is none."""
        if self.absence:
            raise DeployError(self.absence)
        return self.data


def _restored(
    manifest: Manifest, code: Code, source: _Source, recipe: Recipe, recipes: dict[str, Recipe], names: dict[str, str]
) -> Module:
    """The module in the process that received it; raises DeployError if its code does not fit the runtime or the machine.

    `recipe` makes the executable, and `recipes` those of other drivers; `names` has the driver of each entry point that uses one.
    """
    _check_version(manifest)
    if code.kind in TARGETS:  # the interpreter fits every machine
        check_fit(code.target)
    executable, *others = [make(*args) for make, args in (recipe, *recipes.values())]
    by_driver = dict(zip(recipes, others, strict=True))
    return Module(executable, manifest, code, source, {name: by_driver[driver] for name, driver in names.items()})


_ARRAYS = {Array, np.ndarray}


class _Entry:
    """An entry point as a callable: it binds, flattens and checks the arguments, and builds the result."""

    spec: EntryPoint
    __name__: str

    def __init__(self, spec: EntryPoint, function: Callable[..., list[Array]]):
        """The entry point that `spec` describes; `function` computes the arrays of its result from the arrays of its arguments."""
        self.spec, self._function = spec, function
        self.__name__, self.__doc__ = spec.name, f"{spec}\n\n{spec.doc}"
        self._names = [argument.name for argument in spec.arguments]
        self._checks = [[(leaf.shape, dtype_named(leaf.dtype), leaf) for leaf in a.leaves] for a in spec.arguments]
        self._trees = [argument.tree for argument in spec.arguments]
        self._wanted = [(shape, dtype) for checks in self._checks for shape, dtype, _ in checks]
        self._types = [(leaf.shape, dtype_named(leaf.dtype)) for leaf in spec.result_leaves]
        self._is_flat = all(tree.kind == "leaf" for tree in self._trees)
        self._is_single = spec.result.kind == "leaf"
        self._storage = sum(len(argument.leaves) for argument in spec.arguments if argument.output)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls it with positional or keyword arguments by the names in the manifest.

        Raises:
          TreeError: an argument has another structure.
          ShapeError, DtypeError: an array has another shape or dtype; nothing is cast.
          TreeError: an argument is missing, unknown or passed twice.
          DeployError: the call fails. The other errors are DeployErrors, too, except those about the structure of a tree.
        """
        results = self.run(self.leaves(*args, **kwargs))
        return results[0] if self._is_single else self.spec.result.unflatten(results)

    def run(self, leaves: Sequence[Any]) -> list[Array]:
        """The leaves of the result for leaves that have been checked."""
        return self._function(leaves, self._storage, self._types)

    def leaves(self, *args: Any, **kwargs: Any) -> Sequence[Any]:
        """The arrays of the arguments of a call, in the order of the leaves, after checks; raises the errors of a call."""
        leaves = None if kwargs else self._leaves_of_right_types(args)
        return self._checked_leaves(args, kwargs) if leaves is None else leaves

    def _leaves_of_right_types(self, args: tuple[Any, ...]) -> Sequence[Any] | None:
        """The leaves of the arguments if all are arrays with the right types; None if they must be checked one by one.

        This is the fast path of a call.
        """
        if len(args) != len(self._trees):
            return None
        leaves: Sequence[Any] = args
        if not self._is_flat:
            leaves = []
            if not all(tree.collect(value, leaves) for tree, value in zip(self._trees, args, strict=True)):
                return None
        for leaf, (shape, dtype) in zip(leaves, self._wanted):  # noqa: B905  (as many; saying so takes time)
            if type(leaf) not in _ARRAYS or leaf.shape != shape or (leaf.dtype is not dtype and leaf.dtype != dtype):
                return None
        return leaves

    def _checked_leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The arrays of the arguments, in order, after Python scalars are converted; raises one error that lists all problems."""
        leaves: list[Array | np.ndarray] = []
        problems: list[tuple[type[Exception], str]] = []
        for value, argument, checks in zip(self._bind(args, kwargs), self.spec.arguments, self._checks, strict=True):
            for leaf, (shape, dtype, spec) in zip(argument.tree.flatten(value, argument.name), checks, strict=True):
                if argument.output and not hasattr(leaf, "__array__"):
                    problems.append((DtypeError, f"{spec.name} requires an array to write, got {type(leaf).__name__}"))
                if type(leaf) is not Array:
                    leaf = as_array(leaf, spec, dtype, problems)
                if leaf.shape != shape or leaf.dtype != dtype:
                    problems.append(mismatch(leaf, spec))
                leaves.append(leaf)
        if problems:
            self._refuse(problems)
        return leaves

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any]:
        """The arguments of a call in the order of the manifest; raises DeployTreeError for missing, unknown or repeated ones."""
        names = self._names
        if not kwargs and len(args) == len(names):
            return args
        problems = []
        if len(args) > len(names):
            problems.append(f"{len(args)} positional arguments")
        by_name = dict(zip(names, args, strict=False))
        problems += [f"{name} twice" for name in kwargs if name in by_name]
        problems += [f"an unknown argument {name}" for name in kwargs if name not in names]
        problems += [f"no {name}" for name in names if name not in by_name and name not in kwargs]
        if problems:
            message = f"{self.spec.name} requires the arguments ({', '.join(names)}), got {', '.join(problems)}."
            raise DeployTreeError(message, where=user_frame(), help=f"call {self.spec}.")
        by_name |= kwargs
        return [by_name[name] for name in names]

    def _refuse(self, problems: list[tuple[type[Exception], str]]) -> None:
        """Raises the error of the first problem (the class of an error and a text), with the text of at most eight problems."""
        kind = problems[0][0]
        lines = [text for _, text in problems]
        if len(lines) > 8:
            lines = [*lines[:8], f"and {len(lines) - 8} more"]
        head = f"{self.spec.name} requires the arrays it was compiled for, got {len(problems)} other(s)."
        message = "\n    ".join([head, *lines])
        if issubclass(kind, DtypeError):
            help = "convert explicitly, such as x.astype(np.float32): nothing is cast here."
            raise DeployDtypeError(message, where=user_frame(), help=help)
        help = "the shapes are fixed when a function is traced: trace and compile it anew for others."
        raise DeployShapeError(message, where=user_frame(), help=help)

    def __repr__(self) -> str:
        return f"<entry point {self.spec}>"


def load(
    path: str | os.PathLike[str] | bytes,
    driver: str | None = None,
    *,
    target: str | None = None,
    threads: int | None = None,
    sha256: str | None = None,
    max_bytes: int | None = None,
    check: bool = False,
) -> Module:
    """Loads an artifact. If it has several targets, the first that fits this machine is used, in the order of compilation.

    Args:
      path: the .zip, the folder, the .json, the .vmfb of the only target, or the stem of these files; or the content of a
        .zip, such as `compiled.to_bytes()`.
      driver: the driver. None uses the driver that the manifest states, or chooses by its estimates, separately for each entry
        point if they share no state.
      target: the target, by its name, such as "cuda", or as `nabla-mlir info` prints it, "cpu-generic".
      threads: the number of threads on a CPU. None uses the number that the target states, or the cores that the process may use,
        by its affinity and its control group. All modules with this number share one pool, so they do not compete for cores.
      sha256: the required SHA-256 of the .zip, or of the manifest, which names those of the other files; None accepts any. An
        artifact is machine code: like a shared library, it can do whatever the process can.
      max_bytes: the largest unpacked size of each file; None accepts any plausible size.
      check: True calls each entry point on drawn arguments, and compares the results with the interpreter's, of which the
        artifact carries sums and samples. A warning names entry points without them: the interpreter would take too long.

    Raises:
      WrongNumbersError: a number differs from the interpreter's by more than rounding explains.
      DeployError: the SHA-256 differs, or a file is too large; or a file is missing or damaged, or needs another runtime or
        another machine. The message says what to do.
    """
    artifact = Artifact(path, sha256, max_bytes)
    manifest = artifact.manifest
    _check_version(manifest)
    code = choose(manifest, target, driver)
    vmfb = artifact.vmfb(code)
    if threads is not None:
        code = replace(code, target=code.target | {"threads": threads})
    executable = Executable.load(vmfb, pooled(driver or manifest.best_driver(code), code.threads))
    others = {} if driver else split_by_driver(manifest, code, executable)
    module = Module(executable, manifest, code, artifact.stablehlo, others)
    if check:
        check_numbers(module)
    return module


def split_by_driver(manifest: Manifest, code: Code, executable: Executable) -> dict[str, Executable]:
    """The executable for each entry point that runs faster on another driver than `executable` does, by its name."""
    drivers = {e.name: manifest.driver_of(code, e) for e in manifest.entry_points}
    executables = {driver: executable.on(pooled(driver, code.threads)) for driver in {*drivers.values()} - {executable.driver}}
    return {name: executables[driver] for name, driver in drivers.items() if driver in executables}


def _check_version(manifest: Manifest) -> None:
    """Raises DeployError if the artifact excludes this version of IREE's runtime."""
    first, last = (_numbers(version) for version in manifest.iree_range)
    if not first <= _numbers(VERSION) < last:
        low, high = manifest.iree_range
        raise DeployError(
            f"the artifact requires an IREE runtime from {low} to before {high}, got {VERSION}.",
            help=f'pip install "iree-base-runtime>={low},<{high}", or compile it again with this version.',
        )


def _numbers(version: str) -> tuple[int, int]:
    """The first two numbers of a version: "3.13.0rc1" -> (3, 13)."""
    major, minor = version.split(".")[:2]
    return int(major), int("".join(c for c in minor if c.isdigit()) or 0)
