"""Blocks, rows, columns and parts of stacked matrices, for the derivatives of factorisations."""

from __future__ import annotations

import numpy as np

from nabla_mlir.dialects.types import is_complex
from nabla_mlir.ops.autodiff import stop_gradient
from nabla_mlir.ops.elementwise import absolute, convert, imag, make_complex, real
from nabla_mlir.ops.linalg import mask_like, on_diagonal
from nabla_mlir.ops.logic import select
from nabla_mlir.ops.reduction import reduce
from nabla_mlir.ops.shape import broadcast_in_dim, pad, reduce_sum, slice_
from nabla_mlir.table.tensor import Tensor, full, full_like


def block(x: Tensor, rows: tuple[int, int], columns: tuple[int, int]) -> Tensor:
    """The block of each stacked matrix with the given rows and columns, each a pair (start, stop)."""
    if rows == (0, x.shape[-2]) and columns == (0, x.shape[-1]):
        return x
    stack = x.shape[:-2]
    return slice_(
        x,
        start_indices=(*(0 for _ in stack), rows[0], columns[0]),
        limit_indices=(*stack, rows[1], columns[1]),
        strides=(1,) * x.ndim,
    )


def padded(x: Tensor, rows: int, columns: int, *, before: bool = False) -> Tensor:
    """The matrix `x` in the upper left corner of a larger zero matrix; with `before` in the lower right corner."""
    if x.shape[-2:] == (rows, columns):
        return x
    none = (0,) * x.ndim
    more = (*none[2:], rows - x.shape[-2], columns - x.shape[-1])
    low, high = (more, none) if before else (none, more)
    return pad(x, full((), 0, x.dtype), edge_padding_low=low, edge_padding_high=high, interior_padding=none)


def in_columns(v: Tensor, rows: int) -> Tensor:
    """A matrix with `rows` rows whose column j is filled with entry j of a vector."""
    return broadcast_in_dim(v, shape=(*v.shape[:-1], rows, v.shape[-1]), broadcast_dimensions=(*range(v.ndim - 1), v.ndim))


def in_rows(v: Tensor, columns: int) -> Tensor:
    """A matrix with `columns` columns whose row i is filled with entry i of a vector."""
    return broadcast_in_dim(v, shape=(*v.shape, columns), broadcast_dimensions=tuple(range(v.ndim)))


def diagonal_of(x: Tensor) -> Tensor:
    """The vectors of the diagonals of square matrices."""
    return reduce_sum(on_diagonal(x), (x.ndim - 1,))


def as_dtype(x: Tensor, dtype: np.dtype) -> Tensor:
    """The tensor converted to a dtype; itself if it has this dtype."""
    return x if x.dtype == dtype else convert(x, dtype=dtype)


def real_part(x: Tensor) -> Tensor:
    """The real part; a real tensor itself."""
    return real(x) if is_complex(x.dtype) else x


def imaginary_part(x: Tensor) -> Tensor:
    """The imaginary part times i, as a complex tensor."""
    return make_complex(full_like(real(x), 0), imag(x))


def rotation(inner: Tensor, gaps: Tensor) -> Tensor:
    """The matrix inner / gaps off the diagonal, with zeros on the diagonal: the rotation of eigenvectors or singular vectors.

    Args:
      inner: the tangent of the matrix in the basis of the vectors.
      gaps: the differences of the eigenvalues. If a difference is 0, the rotation is not determined, and the result is infinite or
        NaN, even if `inner` is 0 and a limit exists.
    """
    off = mask_like(inner, "NE")
    # Both are divided by the largest gap, because derivatives contain squares of gaps, which overflow and underflow.
    sizes, axes = absolute(stop_gradient(gaps)), (gaps.ndim - 2, gaps.ndim - 1)
    largest = reduce(sizes, full((), float(np.finfo(sizes.dtype).tiny), sizes.dtype), dimensions=axes, body="max")
    unit = as_dtype(broadcast_in_dim(largest, shape=gaps.shape, broadcast_dimensions=tuple(range(gaps.ndim - 2))), inner.dtype)
    return select(off, inner / unit, full_like(inner, 0)) / select(off, gaps / unit, full_like(inner, 1))
