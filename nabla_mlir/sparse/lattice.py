"""Colorings of stencils: the color is a linear form of the index in a grid, modulo the number of colors.

color(i, j, ...) = (a i + b j + ...) mod k. The coloring is valid for the whole grid if no index difference of two
columns that must differ is mapped to zero. Example: a periodic five-point stencil needs 5 colors with (1, 2), while
greedy colorings need more. All differences that occur are checked, also those across the edge of a periodic grid.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from nabla_mlir.base import thresholds
from nabla_mlir.sparsity.rows import Rows

Shape = tuple[int, ...]


def candidates(rows: Rows, grid: Shape, least: int, most: int, adjacent: bool = False) -> Iterator[np.ndarray]:
    """Colorings of the columns with at least `least` and fewer than `most` colors; those with the fewest colors come first.

    Args:
      rows: a pattern whose columns are the elements of `grid`.
      adjacent: True if only the row and column of each entry of a symmetric pattern must differ; False if all columns
        that share a row must.
    """
    if math.prod(grid) != rows.columns or rows.columns < 2 or not rows.indices.size:
        return
    positions = np.stack(np.unravel_index(np.arange(rows.columns), grid), axis=1)
    # A few rows show what stencil it is. Each candidate is then checked on all rows.
    ends, middle = np.arange(min(64, rows.count)), np.linspace(0, rows.count - 1, 512).astype(np.int64)
    sample = np.unique(np.concatenate([ends, middle, rows.count - 1 - ends]))
    for part in (_only_rows(rows, sample), rows):
        differences = _differences(part, positions, adjacent)
        if differences is None or not len(differences):
            return
        is_refuted = False
        for colors in _forms(differences, positions, grid, least, min(most, 2 * least + 8)):
            is_refuted = not _is_valid(rows, colors, adjacent)
            if is_refuted:
                break
            yield colors
        if not is_refuted:
            return


def _only_rows(rows: Rows, sample: np.ndarray) -> Rows:
    """The pattern with only the rows of `sample`."""
    source = np.full(rows.count, -1)
    source[sample] = sample
    return rows.take(source)


def _forms(differences: np.ndarray, positions: np.ndarray, grid: Shape, least: int, most: int) -> Iterator[np.ndarray]:
    """Colorings of the columns, one for each linear form that maps no difference to zero, with the fewest colors first.

    A linear form has an integer for each axis of the grid, and gives a column the color positions · form modulo k, the number of
    colors. `differences` are those of the positions of two columns that need different colors; k is from `least` to `most` - 1.
    With more than `thresholds.LATTICE_FORMS` forms the search ends.
    """
    for k in range(max(2, least), most):
        if k ** len(grid) > thresholds.LATTICE_FORMS:
            return
        forms = np.indices((k,) * len(grid)).reshape(len(grid), -1).T
        for form in forms[((differences @ forms.T) % k != 0).all(axis=0)]:
            yield (positions @ form) % k


def _is_valid(rows: Rows, colors: np.ndarray, adjacent: bool) -> bool:
    """True if the columns of each row differ in color; with `adjacent`, if row and column of each entry off the diagonal differ.

    `rows` has the columns of the entries of each row.
    """
    row = rows.row_of_entry()
    if adjacent:
        return bool(((colors[row] != colors[rows.indices]) | (row == rows.indices)).all())
    return int(np.bincount(row * (int(colors.max()) + 1) + colors[rows.indices]).max()) == 1


def _differences(rows: Rows, positions: np.ndarray, adjacent: bool) -> np.ndarray | None:
    """The index differences in the grid of columns that must differ in color, without duplicates; None if there are too many.

    `rows` has the columns of the entries of each row, `positions` the index of each column in the grid. With `adjacent`, only the
    row and the column of an entry must differ.
    """
    extent = positions.max(axis=0) * 2 + 1
    # A code is a grid position as one number, so that equal differences of codes are equal differences of positions.
    codes = positions @ np.append(np.cumprod(extent[:0:-1])[::-1], 1)
    row, column = rows.row_of_entry(), rows.indices
    if adjacent:
        pairs = [(row, column)]
    else:
        longest = int(rows.lengths().max())
        if longest > thresholds.LATTICE_DIFFERENCES:
            return None
        together = [row[:-s] == row[s:] for s in range(1, longest)]
        pairs = [(column[:-s][same], column[s:][same]) for s, same in enumerate(together, 1)]
    examples: dict[int, np.ndarray] = {}
    for a, b in pairs:
        for value, k in _examples(codes[b] - codes[a]):
            if value:
                examples[value] = positions[b[k]] - positions[a[k]]
        if len(examples) > thresholds.LATTICE_DIFFERENCES**2:
            return None
    return np.array(list(examples.values()), np.int64).reshape(-1, positions.shape[1])


def _examples(numbers: np.ndarray) -> Iterator[tuple[int, int]]:
    """Each number that occurs, with an index at which it occurs."""
    if not numbers.size:
        return
    least = int(numbers.min())
    span = int(numbers.max()) - least + 1
    if span > 8 * numbers.size + 1024:  # a table would be larger than the numbers
        found, positions = np.unique(numbers, return_index=True)
    else:
        table = np.full(span, -1)
        table[numbers - least] = np.arange(numbers.size)
        found = np.nonzero(table >= 0)[0]
        found, positions = found + least, table[found]
    yield from zip(found.tolist(), positions.tolist(), strict=True)


def grids_of(columns: int, known: Sequence[Shape], together: np.ndarray) -> list[Shape]:
    """The grids that the columns may form: known grids first, then grids of several fields, and last the line.

    Known grids have no axes of size 1, and the one with most axes comes first. Fields that are concatenated, such as states and
    controls, show in the columns of one row, `together`: the distance of two of these columns is the length of a field.
    """
    plain = [tuple(n for n in grid if n > 1) for grid in known if math.prod(grid) == columns]
    plain = [grid for grid in plain if len(grid) > 1]
    if len(together) > thresholds.LATTICE_DIFFERENCES:
        together = together[:0]
    distances = np.unique(np.subtract.outer(together, together)).tolist()
    fields = [(columns // d, d) for d in distances if d > 1 and columns % d == 0 and columns // d <= thresholds.LATTICE_FIELDS]
    return list(dict.fromkeys([*sorted(plain, key=len, reverse=True), *fields, (columns,)]))
