"""nabla_mlir: differentiable programs as StableHLO, compiled ahead of time by IREE.

Write functions with the names of NumPy, `import nabla_mlir.numpy as nnp`. Then `nm.grad(f)(x)`, `nm.hvp(f)(x, v)` and
`nm.hessian(f)(x)` transform them, `nm.jit(f)` compiles them, and `nm.trace(f, *specs).lower().compile(target).save(path)` makes a
file. `dir(nm)` lists all names; docs/reference.md says which name is for which task.
"""

# `__init__.pyi` lists the public names. Each is imported when it is first used, so that `nabla_mlir.runtime` runs where only
# `iree-base-runtime` and NumPy are installed, and starts in a fraction of the time.

from __future__ import annotations

import importlib
import sys
from typing import Any

from nabla_mlir.base.names import explained, imported, installed_version, no_attribute, public_names

_HOMES = public_names(__file__)
# Modules that run without the compiler.
_LIGHT = (
    "nabla_mlir.base",
    "nabla_mlir.prepared.estimates",
    "nabla_mlir.prepared.operators",
    "nabla_mlir.prepared.preconditioners",
    "nabla_mlir.prepared.sum_operator",
    "nabla_mlir.runtime",
    "nabla_mlir.targets",
)

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    """The public object `name`, whose module is imported when the name is first used."""
    if name == "__version__":
        return installed_version()
    if name not in _HOMES:
        raise no_attribute("module 'nabla_mlir'", name, sys.modules[__name__])
    home = _HOMES[name]
    try:
        if home not in _LIGHT and name != "targets":
            importlib.import_module("nabla_mlir.numpy")  # gives tensors and arrays their methods
        value = imported(__name__, home, name)
    except ModuleNotFoundError as error:
        raise explained(f"nm.{name}", error) from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*_HOMES, *(name for name in globals() if name.startswith("__"))})
