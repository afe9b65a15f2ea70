"""`nabla_mlir.numpy` under the name of `jax.numpy`."""

from nabla_mlir.numpy import *  # noqa: F403
from nabla_mlir.numpy import __getattr__ as __getattr__
