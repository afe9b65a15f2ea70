"""`nabla_mlir.nn.initializers` under the name of `jax.nn.initializers`."""

from nabla_mlir.jax.mirrored import mirror as _mirror
from nabla_mlir.nn.initializers import *  # noqa: F403

_mirror(globals())
