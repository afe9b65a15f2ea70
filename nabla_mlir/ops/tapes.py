"""Tapes: arrays with one row for each iteration of a loop, written by one loop and read by another."""

from __future__ import annotations

import numpy as np

from nabla_mlir.ops.elementwise import add, convert, multiply
from nabla_mlir.ops.loops import Counter
from nabla_mlir.ops.shape import dynamic_slice, dynamic_update_slice, reshape
from nabla_mlir.ops.tensor import Tensor, full

INDEX = np.dtype(np.int32)  # of the rows


def empty_tape(length: int, like: Tensor) -> Tensor:
    """A tape of zeros for values like `like`."""
    return full((length, *like.shape), 0, like.dtype)


def write_row(tape: Tensor, value: Tensor, index: Tensor, axis: int = 0) -> Tensor:
    """The tape with `value` as its row `index` along an axis."""
    zero = full((), 0, INDEX)
    row = reshape(value, shape=(*value.shape[:axis], 1, *value.shape[axis:]))
    return dynamic_update_slice(tape, row, *[zero] * axis, index, *[zero] * (value.ndim - axis))


def read_row(tape: Tensor, index: Tensor, axis: int = 0) -> Tensor:
    """The row `index` of the tape along an axis."""
    zero = full((), 0, INDEX)
    before, after = tape.shape[:axis], tape.shape[axis + 1 :]
    starts = [*[zero] * axis, index, *[zero] * len(after)]
    row = dynamic_slice(tape, *starts, slice_sizes=(*before, 1, *after))
    return reshape(row, shape=(*before, *after))


def count_at(index: Tensor, counter: Counter, dtype: np.dtype) -> Tensor:
    """The value of the loop's own counter in iteration `index`."""
    value = index if dtype == INDEX else convert(index, dtype=dtype)
    if counter.step != 1:
        value = multiply(value, full((), counter.step, dtype))
    return value if counter.start == 0 else add(value, full((), counter.start, dtype))
