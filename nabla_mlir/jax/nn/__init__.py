"""`nabla_mlir.nn` under the name of `jax.nn`."""

from nabla_mlir.jax.mirrored import mirror as _mirror
from nabla_mlir.nn import *  # noqa: F403

_mirror(globals())
