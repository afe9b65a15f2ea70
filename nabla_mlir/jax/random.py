"""`nabla_mlir.random` under the name of `jax.random`."""

from nabla_mlir.jax.mirrored import mirror as _mirror
from nabla_mlir.random import *  # noqa: F403

_mirror(globals())
