"""The records of the operations, one file for each family. Importing this package loads them; an incomplete record fails."""

# ruff: noqa: F401  # each import registers the records of its module

from nabla_mlir.ops import (
    autodiff,
    barrier,
    chlo,
    collectives,
    composites,
    contraction,
    convolution,
    custom_call,
    eigen,
    elementwise,
    fourier,
    gamma,
    gather,
    guards,
    lapack,
    linalg,
    logic,
    random,
    reduction,
    scatter,
    select_and_scatter,
    shape,
    sorting,
    windows,
)
