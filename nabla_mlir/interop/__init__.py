"""Connections to other systems: importers (StableHLO, JAX, PyTorch, ONNX), solvers (SciPy, Ipopt) and frameworks (PyMC, ...)."""

from __future__ import annotations

import importlib
from types import ModuleType

# Each is imported when it is first asked for.
_MODULES = (
    "casadi", "ipopt", "jax", "keras", "laplace", "numpyro", "onnx", "pytensor", "safetensors", "samplers", "scipy", "threadpools",
    "torch",
)  # fmt: skip


def __getattr__(name: str) -> ModuleType:
    if name not in _MODULES:
        raise AttributeError(f"module 'nabla_mlir.interop' has no attribute {name!r}")
    return importlib.import_module(f"nabla_mlir.interop.{name}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])
