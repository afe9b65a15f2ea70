"""`nabla_mlir.numpy.linalg` under the name of `jax.numpy.linalg`."""

from nabla_mlir.numpy.linalg import *  # noqa: F403
