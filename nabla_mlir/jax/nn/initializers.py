"""`nabla_mlir.nn.initializers` under the name of `jax.nn.initializers`."""

from nabla_mlir.nn.initializers import *  # noqa: F403
