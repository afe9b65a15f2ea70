"""The class `Tracer` of `jax.core`; `isinstance(x, Tracer)` is True if `x` is traced."""

from nabla_mlir.table.tensor import Tensor as Tracer

__all__ = ["Tracer"]
