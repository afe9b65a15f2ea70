"""The class `Tracer` of `jax.core`, by which a program asks whether a value is traced."""

from nabla_mlir.table.tensor import Tensor as Tracer

__all__ = ["Tracer"]
