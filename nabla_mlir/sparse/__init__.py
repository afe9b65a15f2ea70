"""Sparse derivatives: patterns found on the IR, colorings, and compressed Jacobians and Hessians."""

from nabla_mlir.sparse.bounds import lower_bound as lower_bound
from nabla_mlir.sparse.coloring import Coloring as Coloring
from nabla_mlir.sparse.coloring import color as color
from nabla_mlir.sparse.curvature import gauss_newton as gauss_newton
from nabla_mlir.sparse.curvature import lagrangian as lagrangian
from nabla_mlir.sparse.curvature import lagrangian_hessian as lagrangian_hessian
from nabla_mlir.sparse.derivatives import cheapest as cheapest
from nabla_mlir.sparse.derivatives import check_pattern as check_pattern
from nabla_mlir.sparse.derivatives import hessian as hessian
from nabla_mlir.sparse.derivatives import jacobian as jacobian
from nabla_mlir.sparse.detection import hessian_pattern as hessian_pattern
from nabla_mlir.sparse.detection import jacobian_pattern as jacobian_pattern
from nabla_mlir.sparse.matrix import SparseMatrix as SparseMatrix
from nabla_mlir.sparse.pattern import Pattern as Pattern
