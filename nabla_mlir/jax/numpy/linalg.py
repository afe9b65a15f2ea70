"""`nabla_mlir.numpy.linalg` under the name of `jax.numpy.linalg`."""

from nabla_mlir.jax.mirrored import mirror as _mirror
from nabla_mlir.numpy.linalg import *  # noqa: F403

_mirror(globals())
