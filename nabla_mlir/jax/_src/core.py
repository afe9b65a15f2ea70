"""`jax.core` under its private name."""

from nabla_mlir.jax.core import ShapedArray as ShapedArray
from nabla_mlir.jax.core import Tracer as Tracer
from nabla_mlir.jax.core import get_aval as get_aval
from nabla_mlir.jax.core import trace_state_clean as trace_state_clean
