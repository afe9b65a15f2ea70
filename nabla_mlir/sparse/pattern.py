"""The sparsity pattern of a matrix: the entries that can be nonzero."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from nabla_mlir.base.errors import PatternError, user_frame
from nabla_mlir.base.figures import axes_or_new
from nabla_mlir.base.locks import cached_property
from nabla_mlir.sparsity.rows import Rows

Shape = tuple[int, ...]
# The help for a matrix that has a full row or column.
DENSE = "one such row or column: kind='bidirectional'; many: products (nm.hvp, nm.jvp, nm.HessianOperator) need no entries."
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # the dots of a braille character, by row and column


@dataclass(frozen=True, eq=False)
class Pattern:
    """The entries of a matrix that can be nonzero, row by row.

    Attributes:
      rows: the columns of each row, sorted.
      grids: shapes whose elements are the columns, in row-major order; colorings of stencils use them.
      causes: the operations that made rows dense, with their lines, if `nm.sparse` found the pattern.

    Example:
      >>> from nabla_mlir.sparse.pattern import Pattern
      >>> Pattern.of(np.array([[1, 0], [1, 1]]))
      Pattern(2x2, nnz=3)
    """

    rows: Rows
    grids: tuple[Shape, ...] = ()
    causes: tuple[str, ...] = ()

    @staticmethod
    def of(matrix: Any) -> Pattern:
        """A pattern from a pattern, a matrix of SciPy, a dense array (its nonzeros), or ``(rows, columns, shape)``.

        Raises:
          PatternError: the argument has another form, or an index is out of range.
        """
        if isinstance(matrix, Pattern):
            return matrix
        if isinstance(matrix, tuple) and len(matrix) == 3:
            row, column, shape = map(np.asarray, matrix)
            is_whole = all(part.dtype.kind in "iu" or not part.size for part in (row, column, shape))
            if not is_whole or row.ndim != 1 or row.shape != column.shape or shape.shape != (2,) or shape.min() < 0:
                raise PatternError(
                    "a pattern requires as many rows as columns, whole numbers, and a shape of two, got arrays of shapes "
                    f"{row.shape}, {column.shape} and {shape.shape} of {row.dtype}, {column.dtype} and {shape.dtype}.",
                    where=user_frame(),
                    help="give a dense matrix as an array: np.array(rows).",
                )
            return Pattern._from_positions(row.astype(np.int64), column.astype(np.int64), (int(shape[0]), int(shape[1])))
        if hasattr(matrix, "tocoo"):
            found = matrix.tocoo()
            return Pattern._from_positions(found.row.astype(np.int64), found.col.astype(np.int64), found.shape)
        dense = np.asarray(matrix)
        if dense.ndim != 2:
            raise PatternError(
                f"a pattern requires a matrix, got an array of shape {dense.shape}.",
                where=user_frame(),
                help="give a matrix of SciPy, a dense matrix, or (rows, columns, shape).",
            )
        row, column = np.nonzero(dense)
        return Pattern._from_positions(row, column, dense.shape)

    @staticmethod
    def _from_positions(row: np.ndarray, column: np.ndarray, shape: tuple[int, int]) -> Pattern:
        """The pattern with the entries (row[k], column[k]); raises PatternError if one is out of range."""
        for what, positions, size in (("row", row, shape[0]), ("column", column, shape[1])):
            if positions.size and (positions.min() < 0 or positions.max() >= size):
                bad = int(positions[(positions < 0) | (positions >= size)][0])
                raise PatternError(f"a pattern requires {what}s from 0 to {size - 1}, got {bad}.", where=user_frame())
        return Pattern(Rows.of(row * max(shape[1], 1) + column, *shape))

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the matrix."""
        return self.rows.count, self.rows.columns

    @property
    def nnz(self) -> int:
        """The number of entries."""
        return int(self.rows.indices.size)

    @property
    def density(self) -> float:
        """The number of entries divided by the size of the matrix; 0 for an empty matrix."""
        return self.nnz / max(1, math.prod(self.shape))

    @property
    def indptr(self) -> np.ndarray:
        """The start of each row in `indices`, and at the end the number of entries, as in CSR."""
        return self.rows.offsets

    @property
    def indices(self) -> np.ndarray:
        """The column of each entry, row by row."""
        return self.rows.indices

    @cached_property
    def row_of_entry(self) -> np.ndarray:
        """The row of each entry."""
        return self.rows.row_of_entry()

    @cached_property
    def T(self) -> Pattern:  # noqa: N802  # its name everywhere
        """The transpose."""
        return Pattern(self.rows.transposed())

    @cached_property
    def is_symmetric(self) -> bool:
        """True if the pattern equals its transpose."""
        if self.shape[0] != self.shape[1]:
            return False
        return np.array_equal(self.indptr, self.T.indptr) and np.array_equal(self.indices, self.T.indices)

    @cached_property
    def _digest(self) -> bytes:
        """A hash of the entries, by which patterns are compared."""
        parts = (str(self.shape).encode(), self.indptr.tobytes(), self.indices.tobytes(), str(self.grids).encode())
        return hashlib.sha256(b" ".join(parts)).digest()

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Pattern) and self._digest == other._digest)

    def __hash__(self) -> int:
        return hash(self._digest)

    def __dask_tokenize__(self) -> tuple[str, str]:
        return "nabla_mlir.Pattern", self._digest.hex()

    def __reduce__(self) -> tuple[Any, ...]:
        return Pattern, (self.rows, self.grids, self.causes)  # cached properties are recomputed

    def symmetric_part(self) -> Pattern:
        """The entries whose mirror images are entries, too; it contains the pattern of a Hessian."""
        if self.is_symmetric:
            return self
        keys = np.intersect1d(self.rows.keys(), self.T.rows.keys(), assume_unique=True)
        return Pattern(Rows.of(keys, *self.shape), self.grids, self.causes)

    def to_dense(self) -> np.ndarray:
        """The pattern as a dense boolean matrix."""
        found = np.zeros(self.shape, bool)
        found[self.row_of_entry, self.indices] = True
        return found

    def to_scipy(self) -> Any:
        """The pattern as a boolean SciPy matrix in CSR form."""
        from scipy.sparse import csr_matrix

        return csr_matrix((np.ones(self.nnz, bool), self.indices, self.indptr), shape=self.shape)

    def explain(self) -> str:
        """A text with the density of the pattern, and the operations that made it dense.

        Example:
          >>> from nabla_mlir.sparse.pattern import Pattern
          >>> print(Pattern.of(np.eye(3)).explain())
          3x3, 3 entries (33.3 %), up to 1 in a row and 1 in a column
        """
        longest, tallest = (int(r.lengths().max(initial=0)) for r in (self.rows, self.T.rows))
        lines = [
            f"{self.shape[0]}x{self.shape[1]}, {self.nnz} entries ({100 * self.density:.3g} %), "
            f"up to {longest} in a row and {tallest} in a column"
        ]
        lines += [f"made dense by {cause}" for cause in self.causes]
        lines += [f"help: {DENSE}"] if self.causes else []
        return "\n".join(lines)

    def picture(self, width: int = 40, height: int = 20) -> str:
        """The pattern in braille: a dot is a part of the matrix with an entry.

        Example:
          >>> from nabla_mlir.sparse.pattern import Pattern
          >>> print(Pattern.of(np.eye(8)).picture())
          ⠑⢄⠀⠀
          ⠀⠀⠑⢄
        """
        m, n = self.shape
        rows, columns = min(m, 4 * height), min(n, 2 * width)
        cells = np.zeros((-(-max(rows, 1) // 4), -(-max(columns, 1) // 2)), np.int64)
        if self.nnz:
            row, column = self.row_of_entry * rows // m, self.indices * columns // n
            dots = np.array(_DOTS)[row % 4, column % 2]
            np.bitwise_or.at(cells, (row // 4, column // 2), dots)
        return "\n".join("".join(chr(0x2800 + int(c)) for c in line) for line in cells)

    def plot(self, axes: Any = None, color: Any = None) -> Any:
        """Draws the entries as points, the first row on top.

        Args:
          axes: axes of Matplotlib; by default new ones.
          color: the color of the points: one color, or a number for each entry.

        Returns:
          The axes.

        Raises:
          DeployError: Matplotlib is not installed.
        """
        axes = axes_or_new(axes)
        size = float(np.clip(2e4 / max(1, *self.shape) ** 1.4, 0.2, 40))
        colors = {} if color is None else {"c": color, "cmap": "tab20"}
        axes.scatter(self.indices, self.row_of_entry, s=size, marker="s", linewidths=0, **colors)
        for axis in (axes.xaxis, axes.yaxis):
            axis.get_major_locator().set_params(integer=True)
        axes.set(xlim=(-0.5, self.shape[1] - 0.5), ylim=(self.shape[0] - 0.5, -0.5), aspect="equal", title=repr(self))
        return axes

    def __repr__(self) -> str:
        return f"Pattern({self.shape[0]}x{self.shape[1]}, nnz={self.nnz})"

    def __str__(self) -> str:
        return f"{self!r}\n{self.picture()}"


def conflicts(rows: Rows) -> Rows:
    """The pairs of columns that share a row (each column with itself, too), as a graph: row i has the columns that share one with
    i.

    `rows` has the columns of each row.
    """
    first, second = joined(rows.row_of_entry(), rows)
    keys = rows.indices[first] * max(rows.columns, 1) + rows.indices[second]
    return Rows.of(keys, rows.columns, rows.columns)


def joined(lines: np.ndarray, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of an element k of `lines` and an entry of row lines[k], as the indices of both.

    For example, a row number 5 in `lines` is paired with each entry of row 5. `rows` has the columns of each row.
    """
    repeats = rows.lengths()[lines]
    first = np.repeat(np.arange(len(lines)), repeats)
    within = np.arange(len(first)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    return first, rows.offsets[lines][first] + within


def lists(rows: Rows) -> Sequence[list[int]]:
    """The columns of each row as lists, which Python loops read fastest.

    `rows` has them in one array, with the offset of each row.
    """
    indices, offsets = rows.indices.tolist(), rows.offsets.tolist()
    return [indices[a:b] for a, b in pairwise(offsets)]


def neighbours(rows: Rows) -> Sequence[list[int]]:
    """The neighbours of each vertex, without the vertex itself; `rows` is the adjacency matrix."""
    keys = rows.keys()
    row = rows.row_of_entry()
    return lists(Rows.of(keys[row != rows.indices], rows.count, rows.columns))
