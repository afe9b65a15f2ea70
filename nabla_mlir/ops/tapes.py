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


def write_row(tape: Tensor, value: Tensor, index: Tensor) -> Tensor:
    """The tape with `value` as its row `index`."""
    zero = full((), 0, INDEX)
    row = reshape(value, shape=(1, *value.shape))
    return dynamic_update_slice(tape, row, index, *([zero] * value.ndim))


def read_row(tape: Tensor, index: Tensor) -> Tensor:
    """The row `index` of the tape."""
    zero = full((), 0, INDEX)
    rest = tape.shape[1:]
    return reshape(dynamic_slice(tape, index, *([zero] * len(rest)), slice_sizes=(1, *rest)), shape=rest)


def count_at(index: Tensor, counter: Counter, dtype: np.dtype) -> Tensor:
    """The value of the loop's own counter in iteration `index`."""
    value = index if dtype == INDEX else convert(index, dtype=dtype)
    if counter.step != 1:
        value = multiply(value, full((), counter.step, dtype))
    return value if counter.start == 0 else add(value, full((), counter.start, dtype))
