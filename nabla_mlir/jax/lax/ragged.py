"""Products of groups of rows with separate matrices, under the names of `jax.lax`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.jax.lax.convolution import dot_general
from nabla_mlir.numpy.logic import where
from nabla_mlir.numpy.operands import require_integer, tensor
from nabla_mlir.numpy.running import cumsum
from nabla_mlir.numpy.shapes import moveaxis
from nabla_mlir.ops.shape import broadcast_in_dim, reshaped, transposed
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import broadcast_to
from nabla_mlir.table.tensor import Tensor


class RaggedDotDimensionNumbers(NamedTuple):
    """The axes of `ragged_dot_general`.

    Attributes:
      dot_dimension_numbers: the axes as in `dot_general`.
      lhs_ragged_dimensions: the one axis of the left factor that consists of groups.
      rhs_group_dimensions: the axis of the right factor that has one entry for each group, if the ragged axis is neither
        contracted nor a batch axis.
    """

    dot_dimension_numbers: Any
    lhs_ragged_dimensions: Sequence[int]
    rhs_group_dimensions: Sequence[int]


_ROWS = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))


def ragged_dot(
    lhs: Any, rhs: Any, group_sizes: Any, precision: Any = None, preferred_element_type: Any = None, group_offset: None = None
) -> Any:
    """Multiplies groups of rows by separate matrices: the first ``group_sizes[0]`` rows by ``rhs[0]``, and so on.

    Every row is multiplied by every matrix, and one of the products is selected. So the cost grows with the number of groups.

    Args:
      lhs: rows of shape (m, k); rows after the last group give zeros.
      rhs: one matrix for each group, of shape (g, k, n).
      group_sizes: g integers.
      precision: has no effect.
      preferred_element_type: the dtype of the result.
      group_offset: must be None.

    Raises:
      ShapeError: the shapes do not fit, or `group_offset` is not None.
      DtypeError: the sizes are not integers.

    Example:
      >>> ragged_dot(np.ones((3, 1)), np.array([[[1.0]], [[2.0]]]), np.array([1, 2])).tolist()
      [[1.0], [2.0], [2.0]]
    """
    shapes = [tuple(np.shape(v)) for v in (lhs, rhs, group_sizes)]
    require_integer("ragged_dot", group_sizes)
    if [len(s) for s in shapes] != [2, 3, 1] or group_offset is not None:
        raise ShapeError(
            f"ragged_dot requires shapes (m, k), (g, k, n) and (g,) and no group_offset, got {shapes}.", where=user_frame()
        )
    return ragged_dot_general(lhs, rhs, group_sizes, _ROWS, precision, preferred_element_type, group_offset)


@library
def ragged_dot_general(
    lhs: Any,
    rhs: Any,
    group_sizes: Any,
    ragged_dot_dimension_numbers: Static[Any],
    precision: Any = None,
    preferred_element_type: Any = None,
    group_offset: None = None,
) -> Tensor:
    """A `dot_general` in which one axis of the left factor consists of consecutive groups.

    The ragged axis decides the result. If it is a row axis, each group is multiplied by its own entry of the right factor. If it
    is contracted or a batch axis, the result has a product for each group, along a new first axis.

    Args:
      lhs, rhs: the factors.
      group_sizes: the lengths of the groups: g integers, or an array (..., g) with the batch axes and the axes of the same
        kind that precede the ragged axis.
      ragged_dot_dimension_numbers: a `RaggedDotDimensionNumbers`.
      precision: has no effect.
      preferred_element_type: the dtype of the result.
      group_offset: must be None.

    Raises:
      ShapeError: the shapes do not fit, or `group_offset` is not None.
      DtypeError: the sizes are not integers.

    Example:
      >>> numbers = RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), (0,), ())
      >>> ragged_dot_general(np.ones(3), np.ones(3), np.array([1, 2]), numbers).tolist()
      [1.0, 2.0]
    """
    x, y = tensor(lhs), tensor(rhs)
    sizes = require_integer("ragged_dot_general", tensor(group_sizes))
    ((lc, rc), (lb, rb)), ragged, group = (tuple(v) for v in ragged_dot_dimension_numbers)
    lc, rc, lb, rb = (tuple(int(d) for d in axes) for axes in (lc, rc, lb, rb))
    if len(ragged) != 1 or not 0 <= ragged[0] < x.ndim or group_offset is not None:
        raise ShapeError(
            f"ragged_dot_general requires one ragged axis of {x.shape} and no group_offset, got {ragged}.", where=user_frame()
        )
    (at,) = ragged
    is_row = at not in (*lc, *lb)
    if len(group) != is_row or any(not 0 <= d < y.ndim or d in (*rc, *rb) for d in group):
        raise ShapeError(
            f"ragged_dot_general requires one group axis of {y.shape}, not contracted and no batch axis, for a ragged axis "
            f"of rows, and none otherwise, got {group}.",
            where=user_frame(),
        )
    rows = tuple(d for d in range(x.ndim) if d not in (*lc, *lb))
    own = lb if at in lb else (*lb, *(lc if at in lc else rows))
    before = tuple(own[: own.index(at)])
    groups = sizes.shape[-1] if sizes.ndim else 0
    prefix = tuple(x.shape[d] for d in before)
    if sizes.ndim == 1:
        sizes = broadcast_to(sizes, (*prefix, groups))
    if sizes.shape != (*prefix, groups) or (is_row and y.shape[group[0]] != groups):
        raise ShapeError(
            f"ragged_dot_general requires group sizes of shape {(*prefix, 'g')} and g matrices, got {sizes.shape} and the right "
            f"factor {y.shape}.",
            where=user_frame(),
        )
    ends = cumsum(sizes, -1)
    positions = tensor(np.arange(x.shape[at], dtype=sizes.dtype))
    low, high = (reshaped(v, (*prefix, groups, 1)) for v in (ends - sizes, ends))
    mask = moveaxis((positions >= low) & (positions < high), len(prefix), 0)  # (g, ..., length of the ragged axis)
    order = (*before, at)
    if not is_row:
        pairs = dict(zip((*lc, *lb), (*rc, *rb), strict=True))
        left, right = _masked(x, mask, order), _masked(y, mask, tuple(pairs[d] for d in order))
        lc, rc, lb, rb = (tuple(d + 1 for d in axes) for axes in (lc, rc, lb, rb))
        return dot_general(left, right, ((lc, rc), ((0, *lb), (0, *rb))), None, preferred_element_type)
    # Each row is multiplied by all matrices; a product with zeros would be NaN where another group has an infinity.
    products = dot_general(x, y, ((lc, rc), (lb, rb)), None, preferred_element_type)
    columns = [d for d in range(y.ndim) if d not in (*rc, *rb)]
    group_axis = len(lb) + len(rows) + columns.index(group[0])
    target = {**{d: k for k, d in enumerate(lb)}, **{d: len(lb) + k for k, d in enumerate(rows)}}
    mask = _spread(mask, (group_axis, *(target[d] for d in order)), products.shape)
    return where(mask, products, 0).sum(group_axis, dtype=products.dtype)


def _spread(mask: Tensor, axes: Sequence[int], shape: Sequence[int]) -> Tensor:
    """The mask broadcast to a shape; `axes` are the axes of the shape that the axes of the mask become."""
    order = tuple(int(k) for k in np.argsort(axes))
    return broadcast_in_dim(transposed(mask, order), shape=tuple(shape), broadcast_dimensions=tuple(sorted(axes)))


def _masked(x: Tensor, mask: Tensor, axes: Sequence[int]) -> Tensor:
    """A copy of `x` for each group, along a new first axis; elements outside of the group are zero.

    `axes` are the axes of `x` for the axes of `mask` after the first, that of the groups.
    """
    shape = (mask.shape[0], *x.shape)
    return where(_spread(mask, (0, *(d + 1 for d in axes)), shape), broadcast_to(x, shape), 0).astype(x.dtype)
