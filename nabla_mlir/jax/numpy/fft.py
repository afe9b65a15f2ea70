"""`nabla_mlir.numpy.fft` under the name of `jax.numpy.fft`."""

from nabla_mlir.jax.mirrored import mirror as _mirror
from nabla_mlir.numpy.fft import *  # noqa: F403

_mirror(globals())
