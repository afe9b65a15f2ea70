"""Patterns in compressed rows: the sorted columns of each row. All operations work on all rows at once."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nabla_mlir.base import thresholds
from nabla_mlir.base.errors import PatternError, user_frame
from nabla_mlir.sparsity.boxes import Box


@dataclass(frozen=True, eq=False)
class Rows:
    """A pattern in compressed rows.

    Attributes:
      offsets: the index of the first entry of each row in `indices`, and at the end the number of all entries.
      indices: the columns, sorted within each row and without duplicates.
      columns: the number of columns of the matrix.
    """

    offsets: np.ndarray
    indices: np.ndarray
    columns: int

    @staticmethod
    def of(keys: np.ndarray, rows: int, columns: int) -> Rows:
        """Rows from the keys ``row * columns + column`` of the entries, in any order and with duplicates."""
        keys = unique(keys)
        width = max(columns, 1)
        row = keys // width
        offsets = np.zeros(rows + 1, np.int64)
        np.cumsum(np.bincount(row, minlength=rows), out=offsets[1:])
        return Rows(offsets, keys - row * width, columns)

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.offsets) - 1

    def lengths(self) -> np.ndarray:
        """The number of entries of each row."""
        return np.diff(self.offsets)

    def row_of_entry(self) -> np.ndarray:
        """The row of each entry."""
        return np.repeat(np.arange(self.count), self.lengths())

    def keys(self) -> np.ndarray:
        """The keys ``row * columns + column`` of the entries, sorted."""
        return self.row_of_entry() * max(self.columns, 1) + self.indices

    def runs(self) -> list[tuple[int, int]] | None:
        """The columns of all rows in sequence as runs of consecutive numbers (start, size); None if there are too many runs."""
        ends = np.nonzero(np.diff(self.indices) != 1)[0] + 1
        if len(ends) >= thresholds.PATTERN_PIECES:
            return None
        firsts = [0, *ends.tolist()]
        return [(int(self.indices[a]), b - a) for a, b in itertools.pairwise([*firsts, len(self.indices)])]

    def union(self, other: Rows) -> Rows:
        """The pattern with the entries of both patterns."""
        if other is self:
            return self
        return Rows.of(np.concatenate([self.keys(), other.keys()]), self.count, self.columns)

    def take(self, source: np.ndarray) -> Rows:
        """The pattern whose row r is row source[r] of this one; a row is empty if source[r] is negative."""
        source = source.reshape(-1)
        lengths = np.where(source < 0, 0, self.lengths()[source]) if self.count else np.zeros(source.size, np.int64)
        offsets = np.zeros(source.size + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        check_size(int(offsets[-1]), source.size, self.columns)
        first = np.where(source < 0, 0, self.offsets[source])
        # The entries of row r are indices[first[r]], indices[first[r] + 1], ...
        positions = np.arange(offsets[-1]) + np.repeat(first - offsets[:-1], lengths)
        return Rows(offsets, self.indices[positions], self.columns)

    def grouped(self, target: np.ndarray, rows: int) -> Rows:
        """A pattern of `rows` rows: row r of this pattern is added to row target[r], or dropped if target[r] is negative."""
        row = target.reshape(-1)[self.row_of_entry()]
        inside = row >= 0
        return Rows.of((row * max(self.columns, 1) + self.indices)[inside], rows, self.columns)

    def transposed(self) -> Rows:
        """The transposed pattern: its row c lists the rows of this pattern that have an entry in column c."""
        order = np.argsort(self.indices, kind="stable")
        offsets = np.zeros(self.columns + 1, np.int64)
        np.cumsum(np.bincount(self.indices, minlength=self.columns), out=offsets[1:])
        return Rows(offsets, self.row_of_entry()[order], self.count)


def check_size(entries: int, rows: int, columns: int) -> None:
    """Raises PatternError if a pattern has too many entries to be stored."""
    if entries > thresholds.PATTERN_ENTRIES:
        raise PatternError(
            f"a sparsity pattern requires at most {thresholds.PATTERN_ENTRIES} entries, got one of {entries} for {rows} rows and "
            f"{columns} columns.",
            where=user_frame(),
            help="is it dense? `explain()` of a smaller example names the operations that made it so.",
        )


def rows_of(boxes: Sequence[Box], layout: Sequence[int], columns: int) -> Rows:
    """The rows that boxes describe, for an array of the shape `layout`; they need no sorting if the boxes are in column order."""
    lengths = np.zeros(layout, np.int64)
    windows = [tuple(slice(s, s + t * c, t) for s, t, c in zip(b.starts, b.steps, b.counts, strict=True)) for b in boxes]
    for box, window in zip(boxes, windows, strict=True):
        lengths[window] += box.width
    offsets = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths.reshape(-1), out=offsets[1:])
    positions = offsets[:-1].copy().reshape(layout)  # the index of the next entry of each row
    indices = np.empty(offsets[-1], np.int64)
    for k in sorted(range(len(boxes)), key=lambda k: _distance_to_columns(boxes[k], layout)):
        box, window = boxes[k], windows[k]
        first = positions[window]
        indices[first[..., None] + np.arange(box.width) if box.free else first] = _columns(box)
        positions[window] += box.width
    return _sort_rows(Rows(offsets, indices, columns))


def _distance_to_columns(box: Box, layout: Sequence[int]) -> int:
    """The column of the first row of a box, minus the row-major index of this row."""
    row = 0
    for start, size in zip(box.starts, layout, strict=True):
        row = row * size + start
    return box.base - row


def _columns(box: Box) -> np.ndarray:
    """The columns of the entries of a box; if a row has several, they are along a last axis."""
    columns = np.array(box.base, np.int64)
    for count, stride in zip(box.counts, box.strides, strict=True):
        columns = columns[..., None] + np.arange(count) * stride if count > 1 else columns[..., None]
    if not box.free:
        return columns
    free = np.zeros(1, np.int64)
    for count, stride in box.free[::-1]:
        free = (free[:, None] + np.arange(count) * stride).reshape(-1)
    return columns[..., None] + free


def _sort_rows(rows: Rows) -> Rows:
    """The same pattern with the entries of each row in order and without duplicates."""
    is_wrong = np.zeros(rows.indices.size + 1, bool)  # True for an entry that is not larger than the one before it in its row
    np.less_equal(rows.indices[1:], rows.indices[:-1], out=is_wrong[1:-1])
    is_wrong[rows.offsets] = False  # the first entry of a row
    wrong = np.nonzero(is_wrong)[0]
    if not wrong.size:
        return rows
    row = rows.row_of_entry()
    # A key is the pair (row, column) as one number, so sorting the keys sorts each row.
    keys = row * max(rows.columns, 1) + rows.indices
    wrong_rows = np.zeros(rows.count, bool)
    wrong_rows[row[wrong]] = True
    unsorted = wrong_rows[row]
    keys[unsorted] = np.sort(keys[unsorted])
    first = np.concatenate([[True], keys[1:] != keys[:-1]])
    if first.all():
        return Rows(rows.offsets, keys - row * max(rows.columns, 1), rows.columns)
    return Rows.of(keys[first], rows.count, rows.columns)


def unique(keys: np.ndarray) -> np.ndarray:
    """The sorted keys without duplicates."""
    if keys.size < 2:
        return keys
    steps = np.diff(keys)
    if not (steps > 0).all():
        keys = np.sort(keys)
        keys = keys[np.concatenate([[True], np.diff(keys) != 0])]
    return keys


def product(outer: Rows, inner: Rows) -> Rows:
    """The boolean product: for each row of `outer`, the columns of all rows of `inner` that its entries name.

    If that would list many columns more than once, rows are computed as bit sets.

    Raises:
      PatternError: both forms need too much memory.
    """
    terms = int(inner.lengths()[outer.indices].sum())
    if terms <= thresholds.PATTERN_TERMS:
        inner_rows = inner.take(outer.indices)
        row = np.repeat(outer.row_of_entry(), inner_rows.lengths())
        return Rows.of(row * max(inner.columns, 1) + inner_rows.indices, outer.count, inner.columns)
    words = -(-inner.columns // 64)
    memory, work = max(inner.count, outer.count) * words * 8, outer.indices.size * words
    if memory > thresholds.PATTERN_ENTRIES or work > 8 * thresholds.PATTERN_ENTRIES:
        raise PatternError(
            f"a product of sparsity patterns requires at most {thresholds.PATTERN_TERMS} terms, got {terms} for "
            f"{outer.count} rows and {inner.columns} columns.",
            where=user_frame(),
        )
    return _from_bits(_unite_bits(outer, _to_bits(inner, words)), inner.columns)


def _to_bits(rows: Rows, words: int) -> np.ndarray:
    """Each row as a bit set of `words` 64-bit words."""
    bits = np.zeros((rows.count, 64 * words), np.uint8)
    bits[rows.row_of_entry(), rows.indices] = 1
    return np.packbits(bits, axis=1).view(np.uint64)


def _unite_bits(outer: Rows, bits: np.ndarray) -> np.ndarray:
    """Unions of bit sets, one for each row of `outer`: the union of bits[k] for all columns k of this row.

    They are computed for a few rows at a time, to limit the memory.
    """
    found = np.zeros((outer.count, bits.shape[1]), np.uint64)
    offsets, lengths, step = outer.offsets, outer.lengths(), max(1, thresholds.PATTERN_TERMS // bits.shape[1])
    first = 0
    while first < outer.count:
        end = max(first + 1, int(np.searchsorted(offsets, offsets[first] + step, side="right")) - 1)
        nonempty = np.nonzero(lengths[first:end])[0] + first  # `reduceat` would give an empty row the entry after it
        if nonempty.size:
            entries = bits[outer.indices[offsets[first] : offsets[end]]]
            found[nonempty] = np.bitwise_or.reduceat(entries, offsets[nonempty] - offsets[first], axis=0)
        first = end
    return found


def _from_bits(bits: np.ndarray, columns: int) -> Rows:
    """The rows that bit sets describe: bit k of a row is set for column k."""
    row, column = np.nonzero(np.unpackbits(bits.view(np.uint8), axis=1, count=columns))
    offsets = np.zeros(len(bits) + 1, np.int64)
    np.cumsum(np.bincount(row, minlength=len(bits)), out=offsets[1:])
    return Rows(offsets, column.astype(np.int64), columns)
