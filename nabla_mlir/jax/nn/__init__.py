"""`nabla_mlir.nn` under the name of `jax.nn`."""

from nabla_mlir.nn import *  # noqa: F403
