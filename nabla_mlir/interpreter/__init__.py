"""The reference interpreter: it runs programs without rewrites, with NumPy, one operation after the other.

A program is read once, block by block, and then run on host memory. `evaluations` has a function for each operation; a
simple elementwise operation uses NumPy's function from its record.
"""

from nabla_mlir.interpreter import (
    callbacks,
    contractions,
    elementwise,
    indexing,
    lapack,
    linalg,
    reductions,
    schur,
    shape,
    windows,
    zeta,
)
from nabla_mlir.interpreter.blocks import Function, Instead, Watch, functions, interpreted
from nabla_mlir.interpreter.evaluations import EVALUATIONS
from nabla_mlir.interpreter.frames import Budget, OutOfStepsError

__all__ = [
    "EVALUATIONS",
    "Budget",
    "Function",
    "Instead",
    "OutOfStepsError",
    "Watch",
    "callbacks",
    "contractions",
    "elementwise",
    "functions",
    "indexing",
    "interpreted",
    "lapack",
    "linalg",
    "reductions",
    "schur",
    "shape",
    "windows",
    "zeta",
]
