"""The rule table. Importing this package loads every record; an incomplete one fails here."""

from nabla_mlir.ops import (
    autodiff,
    chlo,
    collectives,
    composites,
    contraction,
    control,
    convolution,
    custom_call,
    elementwise,
    fourier,
    indexing,
    lapack,
    linalg,
    misc,
    promotion,
    reduction,
    shape,
    windows,
)

# The modules that hold records, one family each, and the operators of Tensor.
FAMILIES = (
    autodiff, chlo, collectives, composites, contraction, control, convolution, custom_call, elementwise, fourier, indexing,
    lapack, linalg, misc, promotion, reduction, shape, windows,
)  # fmt: skip
