"""What values of a trace are: the name `Tracer` of `jax.core`, by which programs ask whether they are traced."""

from nabla_mlir.table.tensor import Tensor as Tracer

__all__ = ["Tracer"]
