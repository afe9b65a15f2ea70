"""Zero tangents, and `stop_gradient` as a primitive, under the private name."""

from nabla_mlir.jax.operations import primitive
from nabla_mlir.jax.primitives import Zero as Zero

stop_gradient_p = primitive("stop_gradient")
