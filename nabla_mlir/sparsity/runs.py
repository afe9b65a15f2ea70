"""Sets of columns as immutable runs of consecutive numbers, which can be joined cheaply."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from nabla_mlir.base import thresholds
from nabla_mlir.base.errors import PatternError
from nabla_mlir.sparsity.rows import Rows, check_size

Runs = tuple[int, ...]  # the start and end of each run, in order, with a gap between runs


class Union:
    """Joins sets; counts the steps, and raises if all calls together take more than `thresholds.PATTERN_MOVES` steps."""

    def __init__(self) -> None:
        self.steps = 0

    def __call__(self, parts: Iterable[Runs]) -> Runs:
        """The union of the sets; one of the sets itself if it contains the others.

        Raises:
          PatternError: the joins take too many steps.
        """
        distinct = dict.fromkeys(parts)
        if len(distinct) < 2:
            return next(iter(distinct), ())
        # A set is a tuple (start, end, start, end, ...) of its runs: columns 1, 2, 5 are (1, 3, 5, 6).
        ends = sorted(itertools.chain.from_iterable(zip(runs[::2], runs[1::2], strict=True) for runs in distinct))
        self.steps += len(ends)
        if self.steps > thresholds.PATTERN_MOVES:
            raise PatternError(f"a loop requires sets of at most {thresholds.PATTERN_MOVES} runs of columns.")
        joint: list[int] = []
        limit = -1
        for start, end in ends:
            if start > limit:
                joint += (start, end)
                limit = end
            elif end > limit:
                joint[-1] = limit = end
        runs = tuple(joint)
        return next((part for part in distinct if part == runs), runs)


def runs_of(rows: Rows, ranks: np.ndarray) -> list[Runs]:
    """The ranks of the columns of each row as runs of consecutive ranks, each its start and end: 1, 2, 5 gives (1, 3, 5, 6).

    `ranks` has the rank of each column, which is its position in an order that makes the runs long.
    """
    width = max(rows.columns, 1)
    # A key is the pair (row, rank) as one number.
    keys = np.sort(rows.row_of_entry() * width + ranks[rows.indices])
    row = keys // width
    breaks = np.nonzero((np.diff(keys) != 1) | (np.diff(row) != 0))[0] + 1
    first = np.concatenate([[0], breaks]) if keys.size else breaks
    last = np.concatenate([breaks, [keys.size]]) - 1 if keys.size else breaks
    ends = np.stack([keys[first], keys[last] + 1], axis=1) - (row[first] * width)[:, None]
    offsets = (2 * np.searchsorted(row[first], np.arange(rows.count + 1))).tolist()
    numbers = ends.reshape(-1).tolist()
    return [tuple(numbers[a:b]) for a, b in itertools.pairwise(offsets)]


def rows_of(sets: Sequence[Runs], columns: int, order: np.ndarray) -> Rows:
    """Sets of ranks as rows of columns, the inverse of `runs_of`; the column with rank k is order[k].

    Raises:
      PatternError: there are too many entries.
    """
    counts = np.array([len(runs) // 2 for runs in sets], np.int64)
    ends = np.fromiter(itertools.chain.from_iterable(sets), np.int64, 2 * int(counts.sum())).reshape(-1, 2)
    lengths = ends[:, 1] - ends[:, 0]
    size = int(lengths.sum())
    check_size(size, len(sets), columns)
    row = np.repeat(np.repeat(np.arange(len(sets)), counts), lengths)
    ranks = np.arange(size) + np.repeat(ends[:, 0] - np.cumsum(lengths) + lengths, lengths)
    return Rows.of(row * max(columns, 1) + order[ranks], len(sets), columns)
