"""`nabla_mlir.random` under the name of `jax.random`."""

from nabla_mlir.random import *  # noqa: F403
