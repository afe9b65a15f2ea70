"""Functions under the names of SciPy."""

from nabla_mlir.scipy import fft as fft
from nabla_mlir.scipy import integrate as integrate
from nabla_mlir.scipy import interpolate as interpolate
from nabla_mlir.scipy import linalg as linalg
from nabla_mlir.scipy import ndimage as ndimage
from nabla_mlir.scipy import optimize as optimize
from nabla_mlir.scipy import signal as signal
from nabla_mlir.scipy import sparse as sparse
from nabla_mlir.scipy import spatial as spatial
from nabla_mlir.scipy import special as special
from nabla_mlir.scipy import stats as stats
