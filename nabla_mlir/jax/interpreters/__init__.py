"""The tables of rules of primitives, under the names of `jax.interpreters`."""

from nabla_mlir.jax.interpreters import ad as ad
from nabla_mlir.jax.interpreters import batching as batching
from nabla_mlir.jax.interpreters import mlir as mlir
from nabla_mlir.jax.interpreters import partial_eval as partial_eval
from nabla_mlir.jax.interpreters import pxla as pxla
from nabla_mlir.jax.interpreters import xla as xla
