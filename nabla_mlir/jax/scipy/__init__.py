"""Functions under the names of SciPy."""

from nabla_mlir.jax.mirrored import mirror as _mirror
from nabla_mlir.jax.scipy import cluster as cluster
from nabla_mlir.jax.scipy import fft as fft
from nabla_mlir.jax.scipy import integrate as integrate
from nabla_mlir.jax.scipy import interpolate as interpolate
from nabla_mlir.jax.scipy import linalg as linalg
from nabla_mlir.jax.scipy import ndimage as ndimage
from nabla_mlir.jax.scipy import optimize as optimize
from nabla_mlir.jax.scipy import signal as signal
from nabla_mlir.jax.scipy import sparse as sparse
from nabla_mlir.jax.scipy import spatial as spatial
from nabla_mlir.jax.scipy import special as special
from nabla_mlir.jax.scipy import stats as stats

for _module in (fft, integrate, interpolate, linalg, ndimage, optimize, signal, special, stats, sparse.linalg, spatial.transform):
    _mirror(vars(_module))
