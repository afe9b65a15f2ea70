"""`ravel_pytree` under its private name."""

from nabla_mlir.jax.flatten_util import ravel_pytree as ravel_pytree
