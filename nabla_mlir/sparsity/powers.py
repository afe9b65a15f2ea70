"""Patterns of loops whose iterations are all equal: the pattern after many iterations, by repeated squaring."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from nabla_mlir.sparsity.relation import Relation
from nabla_mlir.sparsity.rows import Rows, product


def after(iteration: Sequence[Relation], state: Sequence[Relation], count: int) -> list[Relation]:
    """The pattern of each carry after `count` iterations: its dependence on the columns.

    Args:
      iteration: the pattern of one iteration: the dependence of each carry on the columns, followed by the previous elements
        of all carries.
      state: the current pattern of each carry.
      count: the number of iterations.

    Raises:
      PatternError: there are too many entries.
    """
    columns, parts = state[0].columns, [r.rows for r in iteration]
    front = (
        columns if any((p.indices < columns).any() for p in parts) else 0
    )  # with the columns as part of the state, since they do not change
    shift = columns - front
    step = _below_identity([Rows(p.offsets, p.indices - shift, p.columns - shift) for p in parts], front)
    now = _below_identity([r.rows for r in state], front)
    while count:
        if count % 2:
            now = product(step, now)
        count //= 2
        if count:
            twice = product(step, step)
            if np.array_equal(twice.offsets, step.offsets) and np.array_equal(twice.indices, step.indices):
                now, count = product(step, now), 0  # every further power is the same
            step = twice
    ends = np.cumsum([front, *(math.prod(r.shape) for r in state)]).tolist()
    return [
        Relation.of_rows(r.shape, now.take(np.arange(first, end)))
        for r, (first, end) in zip(state, itertools.pairwise(ends), strict=True)
    ]


def _below_identity(parts: Sequence[Rows], size: int) -> Rows:
    """The rows of an identity matrix of this size, followed by the rows of all parts."""
    lengths = np.concatenate([np.ones(size, np.int64), *(p.lengths() for p in parts)])
    indices = np.concatenate([np.arange(size), *(p.indices for p in parts)])
    return Rows(np.concatenate([[0], np.cumsum(lengths)]), indices, parts[0].columns)
