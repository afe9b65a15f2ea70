"""Sums of padded pieces become concatenations without zeros; the transposes of slices produce such sums."""

from __future__ import annotations

from nabla_mlir.ops import shape as sh
from nabla_mlir.ops.elementwise import add
from nabla_mlir.passes.simplify.pattern import defining, has_free_zeros, has_one_use, pattern
from nabla_mlir.table.tensor import Tensor, full, splat_of

MAX_PIECES = 8  # of both summands together
Piece = tuple[int, Tensor | None]  # length along the axis; None for zeros


@pattern("stablehlo.add")
def sum_of_pieces(a: Tensor, b: Tensor) -> Tensor | None:
    """pad(x) + pad(y) -> concatenate(x alone, x + y where they overlap, y alone), without zeros to add."""
    if a.dtype.kind not in "fc" or not (has_one_use(a) and has_one_use(b) and has_free_zeros(a)):
        return None
    for axis in range(a.ndim):
        left, right = _pieces(a, axis), _pieces(b, axis)
        if left is None or right is None or len(left) + len(right) > MAX_PIECES:
            continue
        return _concatenate_sum(left, right, axis, a)
    return None


@pattern("stablehlo.add")
def sum_of_columns(a: Tensor, b: Tensor) -> Tensor | None:
    """The sum of two values with zeros between their elements, as a sum of matrices with one nonzero column each; else None.

    `sum_of_pieces` then makes one concatenation of the columns: [x0, 0, x1, 0] + [0, y0, 0, y1] -> [[x0, y0], [x1, y1]].
    """
    pad = defining(a, "stablehlo.pad") or defining(b, "stablehlo.pad")
    if a.dtype.kind not in "fc" or pad is None or not (has_one_use(a) and has_one_use(b)):
        return None
    for axis in range(a.ndim):
        left, right = _as_columns(a, axis), _as_columns(b, axis)
        if left is not None and right is not None and left.shape == right.shape:
            return sh.reshape(add(left, right), shape=a.shape)
    return None


def _as_columns(x: Tensor, axis: int) -> Tensor | None:
    """The matrix with one nonzero column whose reshape is `x`, if `x` has zeros between its elements along the axis; else None.

    For example, [0, a, 0, b] is the reshape of [[0, a], [0, b]]. For an `x` that is a reshape of such a matrix, returns the matrix.
    """
    pad = defining(x, "stablehlo.pad")
    if pad is None:
        matrix = defining(x, "stablehlo.reshape")
        is_split = matrix is not None and matrix[0][0].shape[:axis] == x.shape[:axis] and matrix[0][0].ndim == x.ndim + 1
        return matrix[0][0] if matrix and is_split and matrix[0][0].shape[axis + 2 :] == x.shape[axis + 1 :] else None
    (inner, value), p = pad
    low, high, between = (list(p[f]) for f in ("edge_padding_low", "edge_padding_high", "interior_padding"))
    step, first = between[axis] + 1, low[axis]
    fills_rows = step > 1 and 0 <= first < step and first + high[axis] == step - 1
    if splat_of(value) != 0 or not fills_rows or any(n for f in (low, high, between) for d, n in enumerate(f) if d != axis):
        return None
    column = sh.reshape(inner, shape=(*inner.shape[: axis + 1], 1, *inner.shape[axis + 1 :]))
    low, high = ([n if d == axis + 1 else 0 for d in range(column.ndim)] for n in (first, high[axis]))
    return sh.pad(column, value, edge_padding_low=low, edge_padding_high=high, interior_padding=[0] * column.ndim)


def _pieces(x: Tensor, axis: int) -> list[Piece] | None:
    """The pieces of a value padded by zeros, or concatenated, along an axis: pairs of length and array (None for zeros).

    The result is None for a value of another kind.
    """
    pad = defining(x, "stablehlo.pad")
    if pad is not None:
        (inner, value), p = pad
        low, high, between = p["edge_padding_low"], p["edge_padding_high"], p["interior_padding"]
        elsewhere = any(low[d] or high[d] for d in range(x.ndim) if d != axis)
        if splat_of(value) != 0 or any(between) or elsewhere or low[axis] < 0 or high[axis] < 0:
            return None
        return [p for p in ((low[axis], None), (inner.shape[axis], inner), (high[axis], None)) if p[0]]
    concatenation = defining(x, "stablehlo.concatenate")
    if concatenation is None or concatenation[1]["dimension"] != axis:
        return None
    return [(y.shape[axis], None if splat_of(y) == 0 else y) for y in concatenation[0]]


def _concatenate_sum(left: list[Piece], right: list[Piece], axis: int, like: Tensor) -> Tensor:
    """The sum of two lists of pieces (see `_pieces`) of equal total length as one concatenation; `like` has its shape and dtype."""
    parts: list[Tensor] = []
    i = j = i_used = j_used = 0
    while i < len(left) and j < len(right):
        # The longest part that lies in one piece of each list.
        length = min(left[i][0] - i_used, right[j][0] - j_used)
        x, y = _slice_piece(left[i][1], axis, i_used, length), _slice_piece(right[j][1], axis, j_used, length)
        if x is not None and y is not None:
            parts.append(add(x, y))
        elif x is not None or y is not None:
            parts.append(x if x is not None else y)  # type: ignore[arg-type]
        else:
            shape = tuple(length if d == axis else n for d, n in enumerate(like.shape))
            parts.append(full(shape, 0, like.dtype))
        i_used, j_used = i_used + length, j_used + length
        if i_used == left[i][0]:
            i, i_used = i + 1, 0
        if j_used == right[j][0]:
            j, j_used = j + 1, 0
    return parts[0] if len(parts) == 1 else sh.concatenate(*parts, dimension=axis)


def _slice_piece(x: Tensor | None, axis: int, start: int, length: int) -> Tensor | None:
    """The slice of a piece along an axis, from `start` on; None if the piece is None, which stands for zeros."""
    if x is None or length == x.shape[axis]:
        return x
    return sh.sliced(x, axis, start, start + length)
