"""The rule table. Importing this package loads every record; an incomplete one fails here."""

from nabla_mlir.ops import (
    autodiff,
    checkpoint,
    chlo,
    collectives,
    composites,
    contraction,
    control,
    convolution,
    custom_call,
    custom_rules,
    eigen,
    elementwise,
    fourier,
    gamma,
    indexing,
    lapack,
    linalg,
    linear_solve,
    misc,
    promotion,
    reduction,
    shape,
    sorting,
    tridiagonal,
    windows,
)

# The modules that hold records, one family each, and the operators of Tensor.
FAMILIES = (
    autodiff, checkpoint, chlo, collectives, composites, contraction, control, convolution, custom_call, custom_rules,
    eigen, elementwise, fourier, gamma, indexing, lapack, linalg, linear_solve, misc, promotion, reduction, shape,
    sorting, tridiagonal, windows,
)  # fmt: skip
