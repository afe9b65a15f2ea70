"""Linear algebra with the names and semantics of `numpy.linalg`, differentiable to any order and batched.

Matrices are the last two axes; all axes in front of them are stacked.
"""

from __future__ import annotations

from nabla_mlir.numpy.factorizations import cholesky as cholesky
from nabla_mlir.numpy.factorizations import eig as eig
from nabla_mlir.numpy.factorizations import eigh as eigh
from nabla_mlir.numpy.factorizations import eigvals as eigvals
from nabla_mlir.numpy.factorizations import eigvalsh as eigvalsh
from nabla_mlir.numpy.factorizations import qr as qr
from nabla_mlir.numpy.factorizations import svd as svd
from nabla_mlir.numpy.factorizations import svdvals as svdvals
from nabla_mlir.numpy.hermitian_functions import matrix_function as matrix_function
from nabla_mlir.numpy.least_squares import lstsq as lstsq
from nabla_mlir.numpy.least_squares import tensorinv as tensorinv
from nabla_mlir.numpy.least_squares import tensorsolve as tensorsolve
from nabla_mlir.numpy.matrix_functions import expm as expm
from nabla_mlir.numpy.matrix_functions import matrix_power as matrix_power
from nabla_mlir.numpy.norms import cond as cond
from nabla_mlir.numpy.norms import matrix_rank as matrix_rank
from nabla_mlir.numpy.norms import norm as norm
from nabla_mlir.numpy.norms import vector_norm as vector_norm
from nabla_mlir.numpy.products import cross as cross
from nabla_mlir.numpy.products import matmul as matmul
from nabla_mlir.numpy.products import multi_dot as multi_dot
from nabla_mlir.numpy.products import tensordot as tensordot
from nabla_mlir.numpy.products import vecdot as vecdot
from nabla_mlir.numpy.pseudo_inverses import pinv as pinv
from nabla_mlir.numpy.shapes import matrix_transpose as matrix_transpose
from nabla_mlir.numpy.stacks import diagonal as diagonal
from nabla_mlir.numpy.stacks import matrix_norm as matrix_norm
from nabla_mlir.numpy.stacks import outer as outer
from nabla_mlir.numpy.stacks import trace as trace
from nabla_mlir.numpy.systems import SlogdetResult as SlogdetResult
from nabla_mlir.numpy.systems import det as det
from nabla_mlir.numpy.systems import inv as inv
from nabla_mlir.numpy.systems import slogdet as slogdet
from nabla_mlir.numpy.systems import solve as solve
from nabla_mlir.numpy.systems import triangular_solve as triangular_solve
