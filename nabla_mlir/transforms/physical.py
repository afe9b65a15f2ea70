"""Physical operations, which move axes by hand between the batch prefix and the logical axes of a tensor.

A tensor has b axes of *prefix* before its logical axes; together they are its physical axes. An operation on tensors with a
prefix acts on each entry of the prefix, and prefixes are aligned at their ends. `axis` counts physical axes from 0, and
negative ones from the last. The vocabulary is that of the first Nabla. An axis that a transform adds in front (a mapped axis,
the unit vectors of a Jacobian) is not part of the prefix. So every operation here means the same under vmap and under
derivatives of any order.

The prefix consists of named axes (see `nm.vectorize`), whose names state the distance of each from the logical axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import nabla_mlir.transforms.vectorized  # noqa: F401  (makes what has named axes a pytree)
from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.ops.elementwise import divide
from nabla_mlir.ops.reduction import identity_of, reduce
from nabla_mlir.ops.shape import move_axis, reshape
from nabla_mlir.staging.eager import staged
from nabla_mlir.table.promotion import as_tensor, broadcast_to
from nabla_mlir.table.tensor import NamedAxes, Tensor, full, full_like
from nabla_mlir.table.vectorized import name_inside, unwrapped, whole, with_axes

Shape = Sequence[int]


def _with_prefix(x: Tensor, count: int) -> Tensor:
    """The tensor with its first `count` axes as its batch prefix."""
    axes = _prefix(x.shape[:count])
    name_inside([name for name, _ in axes])
    return with_axes(x, axes)


def _prefix(sizes: Shape) -> NamedAxes:
    """Names for the axes of a prefix of these sizes; the name states the distance from the logical axes."""
    return tuple((f"prefix_{len(sizes) - 1 - i}", n) for i, n in enumerate(sizes))


def _on_whole(x: Any, run: Callable[[Tensor, int], tuple[Tensor, int]]) -> Any:
    """The tensor `x` after an operation on all of its physical axes, those of the batch prefix first.

    `run` gets the array without a prefix, and the length of the prefix; it returns the new array and the new length.
    """

    def emit(x: Any) -> Any:
        tensor = unwrapped(as_tensor(x))
        return _with_prefix(*run(whole(tensor), len(tensor.axes)))

    return staged(emit)(x)


def _check_axis(what: str, axis: int, rank: int) -> int:
    """The axis of an array of the given rank as a number from 0; raises ShapeError, which names `what`, if it is out of range."""
    if not -rank <= axis < rank:
        raise ShapeError(f"{what} requires one of {rank} axes, got {axis}.", where=user_frame())
    return axis % rank


def batch_dims(x: Any) -> int:
    """The number of axes in the prefix of an array, which operations treat as batch axes.

    Example:
      >>> import numpy as np
      >>> batch_dims(incr_batch_dims(np.zeros((2, 3))))
      1
    """
    return len(getattr(x, "axes", ()))


def incr_batch_dims(x: Any) -> Any:
    """Makes the first logical axis the last axis of the prefix: b + 1. The data do not move.

    Raises:
      ShapeError: there is no logical axis.

    Example:
      >>> import numpy as np
      >>> incr_batch_dims(np.zeros((2, 3))).shape
      (3,)
    """

    def run(t: Tensor, b: int) -> tuple[Tensor, int]:
        """The array `t`, whose prefix had `b` axes, and the new number b + 1."""
        if b == t.ndim:
            raise ShapeError("incr_batch_dims requires a logical axis, got none.", where=user_frame())
        return t, b + 1

    return _on_whole(x, run)


def decr_batch_dims(x: Any) -> Any:
    """Makes the last axis of the prefix the first logical axis: b - 1. The data do not move.

    Raises:
      ShapeError: there is no prefix.

    Example:
      >>> import numpy as np
      >>> decr_batch_dims(incr_batch_dims(np.zeros((2, 3)))).shape
      (2, 3)
    """

    def run(t: Tensor, b: int) -> tuple[Tensor, int]:
        """The array `t`, whose prefix had `b` axes, and the new number b - 1."""
        if b == 0:
            raise ShapeError("decr_batch_dims requires a prefix, got none.", where=user_frame())
        return t, b - 1

    return _on_whole(x, run)


def moveaxis_physical(x: Any, source: int, destination: int) -> Any:
    """Moves one physical axis to another position. The length of the prefix stays, so axes may enter or leave it.

    Example:
      >>> import numpy as np
      >>> moveaxis_physical(np.zeros((2, 3, 4)), 0, 2).shape
      (3, 4, 2)
    """

    def run(t: Tensor, b: int) -> tuple[Tensor, int]:
        positions = [_check_axis("moveaxis_physical", axis, t.ndim) for axis in (source, destination)]
        return move_axis(t, *positions), b

    return _on_whole(x, run)


def move_axis_to_batch_dims(x: Any, axis: int) -> Any:
    """Makes a logical axis the first axis of the prefix: b + 1. `axis` counts logical axes.

    Example:
      >>> import numpy as np
      >>> move_axis_to_batch_dims(np.zeros((2, 3)), 1).shape
      (2,)
    """

    def run(t: Tensor, b: int) -> tuple[Tensor, int]:
        return move_axis(t, b + _check_axis("move_axis_to_batch_dims", axis, t.ndim - b), 0), b + 1

    return _on_whole(x, run)


def move_axis_from_batch_dims(x: Any, batch_axis: int = 0, logical_destination: int = 0) -> Any:
    """Makes an axis of the prefix a logical axis, at `logical_destination` among the logical axes: b - 1.

    Example:
      >>> import numpy as np
      >>> move_axis_from_batch_dims(move_axis_to_batch_dims(np.zeros((2, 3)), 1), 0, 1).shape
      (2, 3)
    """

    def run(t: Tensor, b: int) -> tuple[Tensor, int]:
        """The array `t` with an axis moved out of its prefix, which had `b` axes, and the new number b - 1."""
        source = _check_axis("move_axis_from_batch_dims", batch_axis, b)
        target = _check_axis("move_axis_from_batch_dims", logical_destination, t.ndim - b + 1)
        return move_axis(t, source, b - 1 + target), b - 1

    return _on_whole(x, run)


def broadcast_batch_dims(x: Any, shape: Shape) -> Any:
    """Broadcasts the whole prefix to `shape`, aligned at its end: b = len(shape).

    Raises:
      ShapeError: the prefix does not broadcast to it.

    Example:
      >>> import numpy as np
      >>> y = broadcast_batch_dims(np.zeros((2, 4)), (3,))
      >>> batch_dims(y), y.shape
      (1, (2, 4))
    """

    def run(t: Tensor, b: int) -> tuple[Tensor, int]:
        """The array `t` with its first `b` axes, the prefix, broadcast to `shape`, and the number of axes of `shape`."""
        target = tuple(shape)
        _check_broadcast("broadcast_batch_dims", t.shape[:b], target)
        return broadcast_to(t, (*target, *t.shape[b:])), len(target)

    return _on_whole(x, run)


def broadcast_to_physical(x: Any, shape: Shape) -> Any:
    """Broadcasts all physical axes to `shape`, aligned at their ends. New axes come before the prefix, if there is one.

    Example:
      >>> import numpy as np
      >>> broadcast_to_physical(np.zeros((2, 3)), (4, 2, 3)).shape
      (4, 2, 3)
    """

    def run(t: Tensor, b: int) -> tuple[Tensor, int]:
        """The array `t` broadcast to `shape`, and the length of its prefix, which was `b`: new axes belong to it if there
        was one.
        """
        target = tuple(shape)
        _check_broadcast("broadcast_to_physical", t.shape, target)
        return broadcast_to(t, target), b + len(target) - t.ndim if b else 0

    return _on_whole(x, run)


def _check_broadcast(what: str, shape: Shape, target: Shape) -> None:
    """Raises ShapeError unless `shape` broadcasts to `target`."""
    offset = len(target) - len(shape)
    if offset < 0 or any(n not in (1, m) for n, m in zip(shape, target[offset:], strict=True)):
        raise ShapeError(f"{what} requires a shape that {tuple(shape)} broadcasts to, got {tuple(target)}.", where=user_frame())


def unsqueeze_physical(x: Any, axis: int) -> Any:
    """Inserts an axis of size 1 at the physical position `axis` of the result. Before the end of the prefix, it is part of it.

    Example:
      >>> import numpy as np
      >>> unsqueeze_physical(np.zeros((3, 4)), 0).shape
      (1, 3, 4)
    """

    def run(t: Tensor, b: int) -> tuple[Tensor, int]:
        at = _check_axis("unsqueeze_physical", axis, t.ndim + 1)
        return reshape(t, shape=(*t.shape[:at], 1, *t.shape[at:])), b + 1 if at < b else b

    return _on_whole(x, run)


def squeeze_physical(x: Any, axis: int) -> Any:
    """Removes a physical axis of size 1. The prefix shrinks if the axis was part of it.

    Raises:
      ShapeError: the axis has another size.

    Example:
      >>> import numpy as np
      >>> squeeze_physical(np.zeros((1, 3, 4)), 0).shape
      (3, 4)
    """

    def run(t: Tensor, b: int) -> tuple[Tensor, int]:
        """The array without the axis of size 1, and the length of its prefix, which was `b`."""
        at = _check_axis("squeeze_physical", axis, t.ndim)
        if t.shape[at] != 1:
            raise ShapeError(f"squeeze_physical requires an axis of size 1, got {t.shape[at]}.", where=user_frame())
        return _drop_axis(t, at), b - 1 if at < b else b

    return _on_whole(x, run)


def _drop_axis(t: Tensor, at: int) -> Tensor:
    """The array without an axis of size 1."""
    return reshape(t, shape=(*t.shape[:at], *t.shape[at + 1 :]))


def _reduce(what: str, x: Any, axis: int, keepdims: bool, fold: Callable[[Tensor, int], Tensor]) -> Any:
    """The array `x` reduced along a physical axis by `fold`, a function of the array and the axis; `what` names it for errors."""

    def run(t: Tensor, b: int) -> tuple[Tensor, int]:
        """The reduced array, and the length of its prefix, which was `b`."""
        at = _check_axis(what, axis, t.ndim)
        total = fold(t, at)
        if not keepdims:
            return total, b - 1 if at < b else b
        return reshape(total, shape=(*t.shape[:at], 1, *t.shape[at + 1 :])), b

    return _on_whole(x, run)


def _reduction(body: str) -> Callable[[Tensor, int], Tensor]:
    """The function that reduces an axis by a named combiner."""

    def fold(t: Tensor, at: int) -> Tensor:
        return reduce(t, full((), identity_of(body, t.dtype), t.dtype), dimensions=(at,), body=body)

    return fold


def reduce_sum_physical(x: Any, axis: int, keepdims: bool = False) -> Any:
    """The sum over a physical axis. Without `keepdims`, the prefix shrinks if the axis was part of it.

    Example:
      >>> import numpy as np
      >>> reduce_sum_physical(np.ones((2, 3)), 0).tolist()
      [2.0, 2.0, 2.0]
    """
    return _reduce("reduce_sum_physical", x, axis, keepdims, _reduction("add"))


def reduce_max_physical(x: Any, axis: int, keepdims: bool = False) -> Any:
    """The largest element along a physical axis; elements that tie share the derivative. See `reduce_sum_physical`.

    Example:
      >>> import numpy as np
      >>> reduce_max_physical(np.array([[1.0, 5.0], [3.0, 2.0]]), 1).tolist()
      [5.0, 3.0]
    """
    return _reduce("reduce_max_physical", x, axis, keepdims, _reduction("max"))


def reduce_min_physical(x: Any, axis: int, keepdims: bool = False) -> Any:
    """The smallest element along a physical axis; elements that tie share the derivative. See `reduce_sum_physical`.

    Example:
      >>> import numpy as np
      >>> reduce_min_physical(np.array([[1.0, 5.0], [3.0, 2.0]]), 1).tolist()
      [1.0, 2.0]
    """
    return _reduce("reduce_min_physical", x, axis, keepdims, _reduction("min"))


def mean_physical(x: Any, axis: int, keepdims: bool = False) -> Any:
    """The mean over a physical axis of a floating-point tensor. See `reduce_sum_physical`.

    Example:
      >>> import numpy as np
      >>> mean_physical(np.array([[1.0, 5.0], [3.0, 2.0]]), 1).tolist()
      [3.0, 2.5]
    """

    def fold(t: Tensor, at: int) -> Tensor:
        total = _reduction("add")(t, at)
        return divide(total, full_like(total, t.shape[at]))

    return _reduce("mean_physical", x, axis, keepdims, fold)
