"""The switch that puts the mirror under the name `jax` in a process that asks for it: `install`."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Sequence
from typing import Any

from nabla_mlir.base.errors import InstallError, user_frame
from nabla_mlir.base.names import module_named
from nabla_mlir.table.narrowing import narrow_everywhere

_MIRROR = __package__  # "nabla_mlir.jax"


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports ``jax.x`` as the module ``nabla_mlir.jax.x`` itself, so that each class exists once."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a module ``jax.x`` if the mirror has the module or distribution, otherwise None."""
        if fullname != "jax" and not fullname.startswith("jax."):
            return None
        mirrored = importlib.util.find_spec(_mirrored(fullname))
        if mirrored is None and _namespace(fullname) is not None:
            return importlib.machinery.ModuleSpec(fullname, self)
        if mirrored is None:
            return None  # the folder of the mirror has no such module either, so that Python raises ModuleNotFoundError
        return importlib.machinery.ModuleSpec(fullname, self, is_package=mirrored.submodule_search_locations is not None)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """Returns the mirror's own module or distribution, and keeps its spec for `exec_module`."""
        if (namespace := _namespace(spec.name)) is not None:
            return namespace
        module = module_named(_mirrored(spec.name))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Gives the module its own spec again; its code has run already."""
        # Python has just set the spec of the alias; relative imports and `importlib.reload` need that of the mirror.
        state = getattr(getattr(module, "__spec__", None), "loader_state", None)
        if isinstance(state, importlib.machinery.ModuleSpec):
            module.__spec__ = state


def _namespace(fullname: str) -> Any:
    """A distribution of `jax.scipy.stats`, which is a module in JAX and an object here; None for other names."""
    parent, _, name = fullname.rpartition(".")
    return getattr(sys.modules.get(_mirrored(parent)), name, None) if parent == "jax.scipy.stats" else None


def _mirrored(fullname: str) -> str:
    """The name of the module of the mirror for a name that begins with "jax"."""
    return _MIRROR + fullname[len("jax") :]


_FINDER = _Finder()


def install() -> None:
    """Puts nabla_mlir under the name `jax`: `import jax` and `import jax.numpy` give `nabla_mlir.jax` in this process from now on.

    Packages that are written for JAX then run on nabla_mlir, with no JAX installed. Call it before the first import of such a
    package. From then on, 64-bit data of NumPy become 32-bit data everywhere in the process, as in JAX. An installed JAX stays on
    the disk, but this process does not import it. A second call does nothing.

    Raises:
      InstallError: JAX itself is already imported.

    Example:
      >>> import nabla_mlir.jax
      >>> nabla_mlir.jax.install()  # doctest: +SKIP
      >>> import jax.numpy as jnp  # doctest: +SKIP
      >>> import optax  # doctest: +SKIP
    """
    present = sys.modules.get("jax")
    if _FINDER in sys.meta_path and present in (None, sys.modules[_MIRROR]):
        return
    if present is not None:
        raise InstallError(
            f"install requires a process that has not imported JAX, got {getattr(present, '__file__', None) or present!r}.",
            where=user_frame(),
            help="call nabla_mlir.jax.install() before the first import of jax and of packages that import it.",
        )
    sys.meta_path.insert(0, _FINDER)
    narrow_everywhere()
    module_named("jax")
