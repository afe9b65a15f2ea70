"""Maps over the unit vectors of an array, in blocks if all of them together would need too much memory."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.base import pytree, thresholds
from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.base.progress import watch
from nabla_mlir.dialects.batch import VmapOp
from nabla_mlir.dialects.regions import move_here
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.interpreter.iterations import counted
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import logic as lg
from nabla_mlir.ops.linalg import unit_vectors
from nabla_mlir.ops.shape import broadcast_in_dim, dynamic_update_slice, iota, reshape
from nabla_mlir.rules.loops import find_counter
from nabla_mlir.staging.tracing import is_tracing, trace_region
from nabla_mlir.table.tensor import Tensor, full, wrap
from nabla_mlir.transforms.control import INDEX, while_loop
from nabla_mlir.transforms.vectorize import vmap
from nabla_mlir.transforms.vectorized_trees import axes_of_spec

_DERIVATIVES = ("ad.jvp", "ad.vjp")


def checked_batch_size(what: str, batch_size: int | None) -> int | None:
    """The number `batch_size` of vectors in a block, or None for all; `what` is the name of the transform, for errors.

    Raises:
      ShapeError: it is not an integer of at least 1.
    """
    if batch_size is not None and (not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size < 1):
        raise ShapeError(f"{what} requires batch_size of at least 1, got {batch_size!r}.", where=user_frame())
    return batch_size


def shown(what: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """The function `call` with a progress line, named `what`, on a terminal if a call outside a trace takes over a second."""

    @functools.wraps(call)
    def run(*args: Any, **kwargs: Any) -> Any:
        """The result of `call`; outside a trace, a display shows the progress of its loops."""
        if is_tracing():
            return call(*args, **kwargs)
        with counted() as iterations, watch(what, iterations):
            return call(*args, **kwargs)

    return run


def over_unit_vectors(
    along: Callable[[Tensor], Any], x: Tensor, batch_size: int | None = None, is_last: bool = False
) -> tuple[list[Tensor], pytree.TreeSpec]:
    """The results of a function for all unit vectors of arrays like `x`, stacked: their leaves, and their structure.

    All vectors are mapped over at once if their values fit into `thresholds.UNIT_VECTOR_MEMORY`. Otherwise a loop maps over
    blocks of them. Both give the same numbers.

    Args:
      along: a function of an array like `x`.
      x: an array; only its shape and dtype count.
      batch_size: the number of vectors in a block; None means as many as fit.
      is_last: True makes the axis of the vectors the last one of the results, False the first one.
    """
    at_once = lambda vectors: vmap(along, out_axes=-1 if is_last else 0)(vectors)  # noqa: E731
    spec: Any = None

    def body() -> list[Any]:  # the leaves of the results for all unit vectors, whose structure is recorded in `spec`
        nonlocal spec
        leaves, spec = pytree.flatten(at_once(unit_vectors(x.shape, x.dtype)))
        return leaves

    block, holder, outs = trace_region(body, [], "the function of unit vectors")
    size = _largest_block(holder, x.size) if batch_size is None else batch_size
    if size < x.size:
        return _in_blocks(at_once, x, size, is_last, outs, spec), spec
    *ops, terminator = (op.operation for op in block.operations)
    terminator.erase()
    move_here(ops)
    return [wrap(out.value) for out in outs], spec


def _in_blocks(
    at_once: Callable[[Tensor], Any], x: Tensor, size: int, is_last: bool, outs: list[Tensor], spec: pytree.TreeSpec
) -> list[Tensor]:
    """The stacked results, computed by a loop over blocks of `size` vectors.

    Each block is written at its offset; the last block ends with the last vector, so it may overlap the block before.

    Args:
      at_once: a function from vectors to stacked results.
      x: an array; only its shape and dtype count.
      size: the number of vectors in a block.
      is_last: True if the axis of the vectors is the last one.
      outs: results of all vectors, of which only the types count.
      spec: the structure of the results.
    """
    n = x.size
    positions = [out.ndim - 1 if is_last else len(axes) for out, axes in zip(outs, axes_of_spec(spec), strict=True)]
    index = lambda value: full((), value, INDEX)  # noqa: E731

    def step(state: tuple[Tensor, list[Tensor]]) -> tuple[Tensor, list[Tensor]]:
        """The next iteration's number and the arrays, after one block of unit vectors has been written to the arrays.

        `state` is the number of the iteration, and one array for each result. The last block overlaps the one before if sizes do
        not divide.
        """
        i, wholes = state
        start = ew.minimum(ew.multiply(i, index(size)), index(n - size))
        parts, _ = pytree.flatten(at_once(_some_unit_vectors(x, start, size)))
        results = [
            dynamic_update_slice(whole, part, *(start if d == position else index(0) for d in range(whole.ndim)))
            for whole, part, position in zip(wholes, parts, positions, strict=True)
        ]
        return ew.add(i, index(1)), results

    count = index(-(-n // size))
    empty = [full(out.shape, 0, out.dtype) for out in outs]
    return while_loop(lambda state: lg.compare(state[0], count, comparison_direction="LT"), step, (index(0), empty))[1]


def _some_unit_vectors(x: Tensor, start: Tensor, size: int) -> Tensor:
    """The `size` unit vectors of the array `x` from index `start` on, stacked.

    Example: for x of shape (3,), start 1 and size 2: [[0, 1, 0], [0, 0, 1]].
    """
    row, column = (iota(shape=(size, x.size), dtype=INDEX, iota_dimension=d) for d in (0, 1))
    position = ew.add(row, broadcast_in_dim(start, shape=row.shape, broadcast_dimensions=()))
    return reshape(ew.convert(lg.compare(position, column, comparison_direction="EQ"), dtype=x.dtype), shape=(size, *x.shape))


def _largest_block(holder: ir.Operation, n: int) -> int:
    """The largest number of vectors in a block; `holder` contains the map over all `n` vectors."""
    each = _bytes_inside(holder, 1, False, 0) // max(n, 1)
    return max(1, thresholds.UNIT_VECTOR_MEMORY // max(each, 1))


def _bytes_inside(op: ir.Operation, times: int, is_reversed: bool, order: int) -> int:
    """The bytes of all values that the maps inside an operation compute, an upper bound for the live bytes.

    Args:
      op: the operation.
      times: the number of entries of the enclosing maps; values outside all maps do not count.
      is_reversed: True if reverse mode stores the values of its loops.
      order: the number of enclosing derivatives; each adds another copy of all values.
    """
    total = 0
    for region in op.regions:
        for block in region.blocks:
            for item in block.operations:
                inner = item.operation
                if times > 1:
                    total += times * sum(map(_bytes_of, inner.results))
                if len(inner.regions):
                    total += _bytes_inside(inner, *_within(inner, times, is_reversed, order))
    return total


def _within(op: ir.Operation, times: int, is_reversed: bool, order: int) -> tuple[int, bool, int]:
    """The numbers `times`, `is_reversed` and `order` for the operations in the regions of `op`, from those for `op` itself.

    `times` is the number of values that enclosing maps and stored iterations make of one, `is_reversed` is True in reverse mode,
    and `order` is the number of enclosing derivatives.
    """
    if op.name == VmapOp.name:
        times *= math.prod(VmapOp(op).sizes)
    elif op.name in _DERIVATIVES:
        return times * (2 if order else 1), is_reversed or op.name == "ad.vjp", order + 1
    elif op.name == "stablehlo.while" and is_reversed and (counter := find_counter(op)) is not None:
        times *= max(counter.trips, 1)
    return times, is_reversed, order


def _bytes_of(value: ir.Value) -> int:
    shape, dtype = shape_and_dtype(value.type)
    return math.prod(shape) * np.dtype(dtype).itemsize
