"""Norms, condition numbers and ranks of vectors and matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.dialects.types import is_complex
from nabla_mlir.numpy import extrema
from nabla_mlir.numpy import reductions as red
from nabla_mlir.numpy.axes import Axis, axes_of
from nabla_mlir.numpy.factorizations import eigvalsh, matrices, svdvals
from nabla_mlir.numpy.operands import convert, inexact
from nabla_mlir.numpy.pseudo_inverses import significant
from nabla_mlir.numpy.special_values import root
from nabla_mlir.numpy.systems import inv
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import logic as lg
from nabla_mlir.ops.autodiff import stop_gradient
from nabla_mlir.ops.shape import reshaped, transposed
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import Defaults
from nabla_mlir.table.tensor import Tensor, full, full_like


@library
def norm(x: ArrayLike, ord: Any = None, axis: Static[Axis] = None, keepdims: bool = False) -> Tensor:
    """The norm of vectors or matrices. The derivative is 0 where a root of 0 is computed.

    Args:
      x: an array.
      ord: for vectors any number: ``sum(|x|**ord)**(1/ord)``, with the limits inf, -inf and 0 (the number of non-zeros);
        for matrices 1, -1, inf, -inf (sums of columns or rows), 2, -2 (singular values), "fro" or "nuc". None is 2 for
        vectors and "fro" for matrices.
      axis: one axis of vectors or two of matrices; None means all of `x`, flattened if `ord` is None.
      keepdims: True leaves the reduced axes with size 1.

    Raises:
      ShapeError: the norm is unknown, or `axis` has neither one axis nor two.

    Example:
      >>> import numpy as np
      >>> float(norm(np.array([3.0, 4.0])))
      5.0
    """
    x = inexact(x)
    dtype, x = red.real_kind(x.dtype), red.widened(x)
    axes = axes_of("norm", axis, x.ndim)
    if axis is None and ord is None:
        out = root(red.sum(_squares(x), axes))
    elif len(axes) == 1:
        out = _vector_norm(x, ord, axes[0])
    elif len(axes) == 2:
        out = _matrix_norm(x, ord, axes)
    else:
        raise ShapeError(f"norm requires one axis or two, got {axes} of shape {x.shape}.", where=user_frame())
    return convert(red.keep(out, x.shape, axes) if keepdims else out, dtype)


def _squares(x: Tensor) -> Tensor:
    """The squares of absolute values."""
    return ew.real(x) * ew.real(x) + ew.imag(x) * ew.imag(x) if is_complex(x.dtype) else x * x


def _vector_norm(x: Tensor, ord: Any, axis: int) -> Tensor:
    """The norm of order `ord` of vectors along an axis."""
    if ord is None or ord == 2:
        return root(red.sum(_squares(x), axis))
    if isinstance(ord, str):
        raise ShapeError(f"norm requires a number as the order of a vector norm, got {ord!r}.", where=user_frame())
    size = ew.absolute(x)
    if math.isinf(ord):
        return (extrema.max if ord > 0 else extrema.min)(size, axis)
    if ord == 0:
        return convert(red.count_nonzero(x, axis), size.dtype)
    if ord == 1:
        return red.sum(size, axis)
    # Numbers are divided by the largest one, so that their powers neither overflow nor underflow.
    scale = _scale((extrema.max if ord > 0 else extrema.min)(size, axis), ord) if abs(ord) > 1 and x.shape[axis] else None
    size = size if scale is None else size / red.spread(scale, size.shape, (axis % x.ndim,))
    out = root(red.sum(ew.power(size, full_like(size, ord)), axis), ord)
    return out if scale is None else scale * out


def _scale(size: Tensor, ord: float) -> Tensor:
    """A constant by which numbers are divided, so that no power overflows and the power of the largest keeps its digits; often 1.

    Large numbers are divided by the largest of them. The scale of small numbers makes the largest power ``tiny / eps`` and not 1,
    because the scale also multiplies a factor of the norm.

    Args:
      size: the number of the largest power.
      ord: the exponent.
    """
    size, info = stop_gradient(size), np.finfo(size.dtype)
    powers, scale = ew.power(size, full_like(size, ord)), full_like(size, 1)
    for bound, word in ((float(info.tiny / info.eps), "LT"), (float(info.max * info.eps), "GT")):
        is_outside = lg.compare(powers, full_like(size, bound), comparison_direction=word)
        scale = lg.select(is_outside, size * bound ** (-1 / ord) if word == "LT" else size, scale)
    scale = size if ord < 0 else scale  # the derivative of the root is a power that is larger than those of the sum
    ends = ((0.0, "GT"), (math.inf, "LT"))
    is_number = lg.logical_and(*(lg.compare(scale, full_like(size, end), comparison_direction=word) for end, word in ends))
    return lg.select(is_number, scale, full_like(size, 1))


def _matrix_norm(x: Tensor, ord: Any, axes: Sequence[int]) -> Tensor:
    """The norm of order `ord` of matrices along two axes, (rows, columns)."""
    rows, columns = axes
    if ord in (None, "fro"):
        return root(red.sum(_squares(x), (rows, columns)))
    x = transposed(x, (*(d for d in range(x.ndim) if d not in axes), rows, columns))
    if ord in (1, 2, math.inf) and 0 in x.shape[-2:]:  # the largest of no numbers, which are not negative
        return full(x.shape[:-2], 0, red.real_kind(x.dtype))
    if ord in (1, -1, math.inf, -math.inf):  # sums of columns for 1 and -1, sums of rows for inf and -inf
        return (extrema.max if ord > 0 else extrema.min)(red.sum(ew.absolute(x), -2 if abs(ord) == 1 else -1), -1)
    if ord == "nuc":
        return red.sum(svdvals(x), -1)
    if ord in (2, -2):
        return (extrema.max if ord > 0 else extrema.min)(svdvals(x), -1)
    raise ShapeError(f"norm requires 1, -1, 2, -2, inf, -inf, 'fro' or 'nuc' for matrices, got {ord!r}.", where=user_frame())


@library
def vector_norm(x: ArrayLike, axis: Static[Axis] = None, keepdims: bool = False, ord: Any = 2) -> Tensor:
    """The norm of the elements along one, several or all axes as one vector; see `norm`.

    Example:
      >>> import numpy as np
      >>> vector_norm(np.ones((3, 2, 2)), axis=(0, 2), ord=1).tolist()
      [6.0, 6.0]
    """
    x = inexact(x)
    dtype, x = red.real_kind(x.dtype), red.widened(x)
    axes = axes_of("vector_norm", axis, x.ndim)
    rest = [d for d in range(x.ndim) if d not in axes]
    vectors = reshaped(transposed(x, (*rest, *axes)), (*(x.shape[d] for d in rest), math.prod(x.shape[d] for d in axes)))
    out = _vector_norm(vectors, ord, -1)
    return convert(red.keep(out, x.shape, axes) if keepdims else out, dtype)


@library
def cond(x: ArrayLike, p: ArrayLike | None = None) -> Tensor:
    """The condition number ``norm(x, p) * norm(inv(x), p)``; the ratio of singular values if `p` is None, 2 or -2.

    Example:
      >>> import numpy as np
      >>> round(float(cond(np.array([[4.0, 0.0], [0.0, 2.0]]))), 6)
      2.0
    """
    a = matrices("cond", x)
    if p in (None, 2, -2):
        s = svdvals(a)
        ratio = extrema.max(s, -1) / extrema.min(s, -1)
        return 1.0 / ratio if p == -2 else ratio
    return norm(a, p, (-2, -1)) * norm(inv(a), p, (-2, -1))


@library
def matrix_rank(M: Any, rtol: Any = None, *, hermitian: bool = False, tol: Any = None) -> Tensor:
    """The number of singular values above ``rtol * largest``; `rtol` is one number, or one for each matrix.

    The default of `rtol` is max(m, n) times the machine epsilon. `tol` is an absolute bound; both together raise ShapeError. If
    `hermitian` is True, the absolute eigenvalues are counted. A vector that is not 0 has rank 1.

    Example:
      >>> import numpy as np
      >>> int(matrix_rank(np.array([[1.0, 2.0], [2.0, 4.0]])))
      1
    """
    if rtol is not None and tol is not None:
        raise ShapeError(f"matrix_rank requires either rtol or tol, got {rtol} and {tol}.", where=user_frame())
    if np.ndim(M) < 2:
        return convert(red.any(M), Defaults.int)
    a = matrices("matrix_rank", M)
    s = ew.absolute(eigvalsh(a)) if hermitian else svdvals(a)
    if tol is not None:
        return red.count_nonzero(lg.compare(s, full_like(s, tol), comparison_direction="GT"), -1)
    rtol = max(a.shape[-2:]) * float(np.finfo(a.dtype).eps) if rtol is None else rtol
    return red.count_nonzero(significant(s, rtol), -1)
