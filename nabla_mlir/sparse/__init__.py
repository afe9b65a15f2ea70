"""Sparse derivatives: patterns found on the IR, colorings, and compressed Jacobians and Hessians."""

import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from nabla_mlir.base.names import no_attribute as _no_attribute
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

if not _TYPE_CHECKING:  # type checkers would accept every name

    def __getattr__(name: str) -> _Any:
        """Raises AttributeError, with the path of the name if it is elsewhere."""
        raise _no_attribute(f"module {__name__!r}", name, _sys.modules[__name__])
