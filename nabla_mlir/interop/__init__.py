"""Connections to other systems: importers (StableHLO, JAX, PyTorch, ONNX), solvers (SciPy, Ipopt) and frameworks (PyMC, ...).

Each is a plugin (nabla_mlir/base/plugins.py), which is imported at its first use: `nm.interop.casadi`. Plugins of other
packages have the same names.
"""

from __future__ import annotations

import sys
from types import ModuleType

from nabla_mlir.base.names import explained, no_attribute
from nabla_mlir.base.plugins import plugin, plugins


def __getattr__(name: str) -> ModuleType:
    """The interop module with this name, imported as a plugin."""
    if name not in plugins():
        raise no_attribute("module 'nabla_mlir.interop'", name, sys.modules[__name__])
    try:
        return plugin(name)
    except ModuleNotFoundError as error:
        raise explained(f"nm.interop.{name}", error) from None


def __dir__() -> list[str]:
    return sorted([*globals(), *plugins()])
