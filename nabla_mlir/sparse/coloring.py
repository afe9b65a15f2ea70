"""Colorings of patterns: groups of columns or rows that one product computes, and the check that every entry can be read."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nabla_mlir.base import thresholds
from nabla_mlir.base.errors import PatternError, user_frame
from nabla_mlir.base.locks import cached_property
from nabla_mlir.sparse import greedy, lattice
from nabla_mlir.sparse.bounds import check_kind, lower_bound
from nabla_mlir.sparse.orders import ORDERS
from nabla_mlir.sparse.pattern import Pattern, conflicts, lists, neighbours
from nabla_mlir.sparse.trees import depth_of, is_acyclic, mirror
from nabla_mlir.sparsity.rows import Rows


@dataclass(frozen=True, eq=False)
class Coloring:
    """Groups of columns, or rows, of a pattern. One product computes a group.

    Attributes:
      pattern: the pattern of the matrix.
      kind: column, row, bidirectional, star or acyclic.
      columns: the color of each column; -1 for a column in no product.
      rows: the color of each row, in the same form; only row and bidirectional colorings have it.
      order: the order of the vertices in which it was found, or "lattice".
    """

    pattern: Pattern
    kind: str
    columns: np.ndarray
    rows: np.ndarray
    order: str

    @property
    def num_column_colors(self) -> int:
        """The number of products with columns: derivatives in forward mode, or Hessian-vector products."""
        return int(self.columns.max(initial=-1)) + 1

    @property
    def num_row_colors(self) -> int:
        """The number of products with rows: derivatives in reverse mode."""
        return int(self.rows.max(initial=-1)) + 1

    @property
    def num_colors(self) -> int:
        """The number of products."""
        return self.num_column_colors + self.num_row_colors

    @cached_property
    def depth(self) -> int:
        """The largest number of entries that follow from each other by substitution; 1 if each entry is read."""
        return depth_of(self.pattern, self.columns) if self.kind == "acyclic" else min(1, self.num_colors)

    @cached_property
    def by_column(self) -> np.ndarray:
        """An array of truth values: True if the product of the color of its column has the entry alone in its row."""
        return _alone(self.pattern.row_of_entry, self.columns[self.pattern.indices], self.num_column_colors)

    @cached_property
    def by_row(self) -> np.ndarray:
        """An array of truth values: True if the product of the color of its row has the entry alone in its column."""
        return _alone(self.pattern.indices, self.rows[self.pattern.row_of_entry], self.num_row_colors)

    def verify(self) -> None:
        """Raises PatternError if the colors do not fit the pattern, or if an entry cannot be read; the message names the first one.

        Example:
          >>> import nabla_mlir as nm
          >>> nm.sparse.color(nm.sparse.Pattern.of(np.eye(3))).verify()
        """
        lengths = self.rows.shape, self.columns.shape
        if lengths != tuple((n,) for n in self.pattern.shape):
            raise PatternError(
                f"a coloring requires a color for each row and column, got {lengths} for {self.pattern!r}.", where=user_frame()
            )
        if self.kind == "acyclic":
            readable = np.full(self.pattern.nnz, is_acyclic(self.pattern, self.columns))
        elif self.kind == "star":
            readable = self.by_column | _mirror_flags(self.pattern, self.by_column)
        else:
            readable = self.by_column | self.by_row
        if not readable.all():
            entry = int(np.nonzero(~readable)[0][0])
            where = (int(self.pattern.row_of_entry[entry]), int(self.pattern.indices[entry]))
            raise PatternError(
                f"a {self.kind} coloring requires that every entry can be read, got none for {where}.", where=user_frame()
            )

    def plot(self, axes: Any = None) -> Any:
        """Draws the pattern, with each entry in the color of the product from which it is read; see `Pattern.plot`."""
        of_column, of_row = self.columns[self.pattern.indices], self.rows[self.pattern.row_of_entry]
        mirror_images = self.columns[self.pattern.row_of_entry]  # the color from which the entry is read by symmetry
        other = mirror_images if self.kind in ("star", "acyclic") else self.num_column_colors + of_row
        color = np.where(self.by_column, of_column, other)
        axes = self.pattern.plot(axes, color % 20)
        axes.set_title(f"{self.num_colors} {self.kind} colors")
        return axes

    def __repr__(self) -> str:
        return f"Coloring({self.kind}, {self.num_colors} colors, {self.order}, of {self.pattern!r})"


def _alone(line: np.ndarray, color: np.ndarray, colors: int) -> np.ndarray:
    """True for each entry that is the only one of its color in its line; False for entries without a color."""
    if not colors:
        return np.zeros(len(line), bool)
    keys = line * colors + color
    counts = np.bincount(np.where(color < 0, 0, keys + 1))
    return np.where(color < 0, False, counts[np.where(color < 0, 0, keys + 1)] == 1)


def _mirror_flags(pattern: Pattern, flags: np.ndarray) -> np.ndarray:
    """The flag of the mirror image (j, i) for each entry (i, j) of a symmetric pattern."""
    return flags[mirror(pattern)]


def color(pattern: Pattern, kind: str = "column", order: str | Sequence[int] = "best", depth: int | None = None) -> Coloring:
    """A coloring of a pattern. Fewer colors mean fewer products.

    Args:
      pattern: the pattern of the matrix, in any form that `Pattern.of` accepts.
      kind: one of these:
        "column": no two columns of a color share a row;
        "row": no two rows of a color share a column;
        "bidirectional": both, for dense rows together with dense columns;
        "star": for a symmetric matrix; each entry is read from its column or from its mirror image;
        "acyclic": for a symmetric matrix, by substitution, with about half as many colors. It is a star coloring if no acyclic
        one has fewer colors.
      order: natural, largest_first, smallest_last, incidence_degree, dynamic_largest_first, random, "lattice" (for stencils),
        "best" of all within a fixed amount of work, or a list of the vertices.
      depth: for an acyclic coloring, the largest number of entries that follow from each other. A smaller depth adds up fewer
        rounding errors, and needs more colors; 1 is a star coloring.

    Raises:
      PatternError: the kind or the order does not exist, the pattern is not symmetric or not a stencil as the kind needs, or the
        depth is less than 1 or belongs to another kind.

    Example:
      >>> import nabla_mlir as nm
      >>> tridiagonal = nm.sparse.Pattern.of(np.tri(100, k=1) - np.tri(100, k=-2))
      >>> [nm.sparse.color(tridiagonal, kind).num_colors for kind in ("column", "star", "acyclic")]
      [3, 3, 2]
    """
    pattern = Pattern.of(pattern)
    check_kind("color", kind, pattern)
    if isinstance(order, str) and order not in (*ORDERS, "best", "lattice"):
        known = ", ".join([*ORDERS, "lattice", "best"])
        raise PatternError(f"color requires an order among {known}, got {order!r}.", where=user_frame())
    if depth is not None and (kind != "acyclic" or depth < 1):
        raise PatternError(
            f"color requires a depth of 1 or more, of kind 'acyclic', got depth={depth} of {kind!r}.",
            where=user_frame(),
            help="only acyclic colorings substitute; the others read each entry.",
        )
    if kind == "bidirectional":
        return _bidirectional(pattern, order)
    if kind == "row":
        found = color(Pattern(pattern.T.rows), "column", order)
        return Coloring(pattern, kind, np.full(pattern.shape[1], -1), found.columns, found.order)
    best: Coloring | None = None
    least = lower_bound(pattern, kind)
    for name, colors in _trials(pattern, kind, order, least, depth):
        if best is None or colors.max(initial=-1) + 1 < best.num_colors:
            best = Coloring(pattern, kind, colors, np.full(pattern.shape[0], -1), name)
        if best.num_colors <= least:
            break
    if best is None:
        raise PatternError(
            f"color requires a stencil for order 'lattice', got {pattern!r}.",
            where=user_frame(),
            help="order='best' uses a lattice if there is one.",
        )
    if kind == "acyclic" and order == "best" and best.num_colors > least and (depth is not None or not _has_diagonal(pattern)):
        star = color(pattern, "star")  # of depth 1; without a diagonal, some of its colors may be unread
        if star.num_colors < best.num_colors:
            return star
    if kind == "star" and order == "best" and best.num_colors > least and not _has_diagonal(pattern):
        columns = color(pattern, "column")  # without a diagonal, neighbours may have the same color
        if columns.num_colors < best.num_colors:
            best = Coloring(pattern, kind, columns.columns, columns.rows, columns.order)
    return _drop_unread_colors(best)


def _has_diagonal(pattern: Pattern) -> bool:
    return np.count_nonzero(pattern.row_of_entry == pattern.indices) == pattern.shape[0]


def _trials(
    pattern: Pattern, kind: str, order: str | Sequence[int], least: int, depth: int | None
) -> Iterator[tuple[str, np.ndarray]]:
    """Colorings as arrays of colors, each with the name of its order; a trial may be worse than earlier ones.

    `kind` is "column", "star" or "acyclic", `order` a name in ORDERS, "best", "lattice" or a list of columns, `least` a lower bound
    on the number of colors, and `depth` a bound on the trees of an acyclic coloring, or None.
    """
    if not pattern.nnz:
        yield "natural", np.full(pattern.shape[1], -1)
        return
    most = pattern.shape[1]
    if order in ("best", "lattice"):
        for grid, colors in _lattice_colorings(pattern, kind, least, most, depth):
            most = int(colors.max()) + 1
            yield "lattice", colors
            is_long = kind == "column" and len(grid) > 1 and _edges(pattern) > thresholds.LATTICE_ALONE
            if most <= least * (thresholds.LATTICE_ENOUGH if is_long else 1.0):
                return
    if order == "lattice":
        return
    paint, graph, work = _painter(pattern, kind, depth)
    if not isinstance(order, str):
        yield "given", np.array(paint(_check_order(order, pattern.shape[1])), np.int64)
        return
    total = 1 if most < pattern.shape[1] else 0  # a lattice coloring makes greedy colorings optional
    for name in ORDERS if order == "best" else (order,):
        if total and total + work > thresholds.COLORING_WORK:
            return
        total += work
        vertices = ORDERS[name](graph() if name != "natural" else [[]] * pattern.shape[1])
        yield name, np.array(paint(vertices), np.int64)


def _check_order(order: Sequence[int], count: int) -> list[int]:
    """The order of the columns as a list; raises unless each column is in it once."""
    vertices = [int(v) for v in order]
    if sorted(vertices) != list(range(count)):
        raise PatternError(
            f"color requires an order with each of {count} columns once, got {len(vertices)} numbers.", where=user_frame()
        )
    return vertices


def _painter(
    pattern: Pattern, kind: str, depth: int | None
) -> tuple[Callable[[list[int]], list[int]], Callable[[], Sequence[list[int]]], int]:
    """A function that colors the vertices in an order, one that gives the graph for orders, and the work of both, in edges."""
    if kind == "column":
        members = lists(pattern.T.rows)
        graph = functools.cache(lambda: neighbours(conflicts(pattern.rows)))
        return lambda order: greedy.distance_two(members, pattern.shape[0], order), graph, _edges(pattern)
    near = neighbours(pattern.rows)
    if kind == "star":
        return lambda order: greedy.star(near, order), lambda: near, 4 * pattern.nnz
    return lambda order: greedy.acyclic(near, order, depth), lambda: near, 4 * pattern.nnz * (1 if depth is None else 4 * depth)


def _edges(pattern: Pattern) -> int:
    """The number of pairs of columns that share a row; a pair counts once for each shared row."""
    lengths = pattern.rows.lengths()
    return int((lengths * lengths).sum())


def _lattice_colorings(
    pattern: Pattern, kind: str, least: int, most: int, depth: int | None
) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
    """Pairs of a grid that the columns may form and a lattice coloring of it; each coloring has fewer colors than those before."""
    middle = pattern.shape[0] // 2
    together = pattern.indices[pattern.indptr[middle] : pattern.indptr[middle + 1]]
    for grid in lattice.grids_of(pattern.shape[1], pattern.grids, together):
        found = lattice.candidates(pattern.rows, grid, least, most, adjacent=kind == "acyclic")
        for trial, colors in enumerate(found):
            if kind != "acyclic" or (is_acyclic(pattern, colors) and (depth is None or depth_of(pattern, colors) <= depth)):
                most = int(colors.max()) + 1
                yield grid, colors
                break
            if trial >= thresholds.LATTICE_TRIALS:
                break


def _drop_unread_colors(coloring: Coloring) -> Coloring:
    """The coloring without colors from which no entry is read; their columns are then in no product."""
    pattern, kind = coloring.pattern, coloring.kind
    if kind == "column":
        nonempty = pattern.T.rows.lengths() > 0
        columns = np.where(nonempty, coloring.columns, -1)
    elif kind == "star":
        read_by_column = coloring.by_column
        # An entry and its mirror image have the same number; of the two products that have it, one is enough.
        useful = read_by_column & ~(
            _mirror_flags(pattern, read_by_column) & (coloring.columns[pattern.row_of_entry] < coloring.columns[pattern.indices])
        )
        useful_colors = np.zeros(coloring.num_colors, bool)
        useful_colors[coloring.columns[pattern.indices[useful]]] = True
        columns = np.where(useful_colors[coloring.columns], coloring.columns, -1) if len(useful_colors) else coloring.columns
    else:
        columns = coloring.columns
    return Coloring(pattern, kind, _renumber(columns), coloring.rows, coloring.order)


def _renumber(colors: np.ndarray) -> np.ndarray:
    """The colors renumbered, so that those that occur are 0, 1, 2, ...; -1 (no color) stays."""
    found = np.unique(colors[colors >= 0])
    positions = np.full(int(colors.max(initial=-1)) + 2, -1)
    positions[found] = np.arange(len(found))
    return positions[colors]


def _bidirectional(pattern: Pattern, order: str | Sequence[int]) -> Coloring:
    """The bidirectional coloring with the fewest colors.

    Candidates: long rows by rows, the others by columns; the reverse; and star colorings of the bipartite graph.
    """
    if not pattern.nnz:
        return Coloring(pattern, "bidirectional", np.full(pattern.shape[1], -1), np.full(pattern.shape[0], -1), "natural")
    found = [_long_rows_by_rows(pattern, order), _exchange_sides(_long_rows_by_rows(Pattern(pattern.T.rows), order), pattern)]
    best = min(found, key=lambda c: c.num_colors)
    for coloring in _star_colorings(pattern, order, lower_bound(pattern, "bidirectional")):
        best = min(best, coloring, key=lambda c: c.num_colors)
    return best


def _star_colorings(pattern: Pattern, order: str | Sequence[int], least: int) -> Iterator[Coloring]:
    """Star colorings of the bipartite graph of columns and rows, until one has at most `least` colors."""
    m, n = pattern.shape
    if order == "lattice" or not isinstance(order, str):
        return
    row, column = pattern.row_of_entry, pattern.indices
    # The nodes of the graph are the columns 0 ... n - 1 and the rows n ... n + m - 1; an entry is an edge in both directions.
    keys = np.concatenate([column * (m + n) + n + row, (n + row) * (m + n) + column])
    graph = lists(Rows.of(keys, m + n, m + n))
    work, total = 8 * pattern.nnz, 0
    for name in ORDERS if order == "best" else (order,):
        if total and total + work > thresholds.COLORING_WORK:
            return
        total += work
        colors = np.array(greedy.star(graph, ORDERS[name](graph)), np.int64)
        found = _drop_needless_colors(Coloring(pattern, "bidirectional", _renumber(colors[:n]), _renumber(colors[n:]), name))
        yield found
        if found.num_colors <= least:
            return


def _drop_needless_colors(coloring: Coloring) -> Coloring:
    """The coloring without colors of columns and rows that are not needed.

    It keeps a color if an entry can be read from it only, then adds the colors from which most remaining entries can be
    read.
    """
    pattern, split = coloring.pattern, coloring.num_column_colors
    of_column, of_row = coloring.columns[pattern.indices], coloring.rows[pattern.row_of_entry] + split
    is_read = np.zeros(coloring.num_colors, bool)
    is_read[of_column[coloring.by_column & ~coloring.by_row]] = True
    is_read[of_row[coloring.by_row & ~coloring.by_column]] = True
    while True:
        by_column, by_row = coloring.by_column & is_read[of_column], coloring.by_row & is_read[of_row]
        unread = ~(by_column | by_row)
        if not unread.any():
            break
        counts = np.bincount(of_column[unread & coloring.by_column], minlength=len(is_read))
        counts += np.bincount(of_row[unread & coloring.by_row], minlength=len(is_read))
        is_read[counts.argmax()] = True
    columns = np.where(is_read[coloring.columns], coloring.columns, -1)
    rows = np.where(is_read[coloring.rows + split], coloring.rows, -1)
    return Coloring(pattern, coloring.kind, _renumber(columns), _renumber(rows), coloring.order)


def _exchange_sides(coloring: Coloring, pattern: Pattern) -> Coloring:
    return Coloring(pattern, coloring.kind, coloring.rows, coloring.columns, coloring.order)


def _long_rows_by_rows(pattern: Pattern, order: str | Sequence[int]) -> Coloring:
    """The coloring that computes the longest rows by rows; their number is the one with the fewest colors."""
    lengths = pattern.rows.lengths()
    longest = np.argsort(-lengths, kind="stable")
    best: Coloring | None = None
    # More rows help only where the next row is shorter.
    ends = np.nonzero(np.diff(lengths[longest]))[0] + 1
    for count in [0, *ends.tolist()]:
        remaining = int(lengths[longest[count]])
        if best is not None and remaining + _least_rows(pattern, longest[:count]) >= best.num_colors:
            continue
        lines = np.zeros(pattern.shape[0], bool)
        lines[longest[:count]] = True
        trial = _color_both(pattern, lines, order)
        if best is None or trial.num_colors < best.num_colors:
            best = trial
    assert best is not None
    return best


def _least_rows(pattern: Pattern, rows: np.ndarray) -> int:
    """A lower bound on the colors of some rows: the largest number of them that one column meets."""
    part = pattern.rows.take(rows)
    return int(np.bincount(part.indices, minlength=1).max(initial=0)) if part.indices.size else 0


def _color_both(pattern: Pattern, lines: np.ndarray, order: str | Sequence[int]) -> Coloring:
    """The coloring that computes the rows in the mask `lines` by rows, and the entries of the others by columns."""
    numbers = np.arange(pattern.shape[0])
    others = Pattern(pattern.rows.take(np.where(lines, -1, numbers)), pattern.grids)
    part = Pattern(pattern.rows.take(np.where(lines, numbers, -1)))
    by_column = color(others, "column", order if isinstance(order, str) else "natural")
    by_row = color(Pattern(part.T.rows), "column", "natural" if order == "lattice" or not isinstance(order, str) else order)
    return Coloring(pattern, "bidirectional", by_column.columns, by_row.columns, by_column.order)
