"""Programs of other systems, and solvers and frameworks that take ours: StableHLO, JAX, PyTorch, ONNX, SciPy, Ipopt, CasADi."""

from __future__ import annotations

import importlib
from types import ModuleType

_MODULES = ("casadi", "ipopt", "jax", "onnx", "scipy", "threadpools", "torch")  # each is imported when it is first asked for


def __getattr__(name: str) -> ModuleType:
    if name not in _MODULES:
        raise AttributeError(f"module 'nabla_mlir.interop' has no attribute {name!r}")
    return importlib.import_module(f"nabla_mlir.interop.{name}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])
