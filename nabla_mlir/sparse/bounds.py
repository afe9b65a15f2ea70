"""Lower bounds on the number of colors."""

from __future__ import annotations

import numpy as np

from nabla_mlir.base.errors import PatternError, user_frame
from nabla_mlir.sparse.pattern import Pattern

KINDS = ("column", "row", "bidirectional", "star", "acyclic")


def check_kind(what: str, kind: str, pattern: Pattern) -> None:
    """Raises PatternError if the kind of coloring does not exist, or does not fit the pattern."""
    if kind not in KINDS:
        raise PatternError(f"{what} requires a kind among {', '.join(KINDS)}, got {kind!r}.", where=user_frame())
    if kind in ("star", "acyclic") and not pattern.is_symmetric:
        raise PatternError(
            f"{what} requires a symmetric pattern for kind {kind!r}, got {pattern!r}, which is not.",
            where=user_frame(),
            help="pass pattern.symmetric_part(), or a kind for any matrix: column, row or bidirectional.",
        )


def lower_bound(pattern: Pattern, kind: str = "column") -> int:
    """A lower bound on the number of products from which a method of this kind can recover every matrix of a pattern.

    - Column colorings need the number of entries of the longest row, and row colorings that of the longest column.
    - Bidirectional: r row and c column colors give r n + c m - r c numbers of an m x n matrix, which must be at least its number
      of entries.
    - Symmetric: p products of an n x n matrix give p n - p (p - 1) / 2 numbers that are independent under symmetry. A star
      coloring needs three colors if there is a path of four vertices, or a triangle, and the diagonal is full.

    Args:
      pattern: the pattern of the matrix, in any form that `Pattern.of` accepts.
      kind: the kind of the coloring, as in `color`.

    Raises:
      PatternError: the kind does not exist, or needs a symmetric pattern.

    Example:
      >>> import nabla_mlir as nm
      >>> pattern = nm.sparse.Pattern.of(np.tri(5, k=1) - np.tri(5, k=-2))
      >>> nm.sparse.lower_bound(pattern), nm.sparse.lower_bound(pattern, "acyclic")
      (3, 2)
    """
    pattern = Pattern.of(pattern)
    check_kind("lower_bound", kind, pattern)
    m, n = pattern.shape
    if not pattern.nnz:
        return 0
    widest, tallest = (int(p.rows.lengths().max()) for p in (pattern, pattern.T))
    if kind == "column":
        return widest
    if kind == "row":
        return tallest
    if kind == "bidirectional":
        r = np.arange(m + 1)
        short = np.maximum(pattern.nnz - r * n, 0)
        c = -(-short // np.maximum(m - r, 1))
        fits = (c <= n) & ((r < m) | (short == 0))
        return int((r + c)[fits].min())
    floor = 3 if kind == "star" and _has_path(pattern) else 0
    entries = int((pattern.row_of_entry <= pattern.indices).sum())
    p = np.arange(n + 1)
    return max(floor, int(p[p * n - p * (p - 1) // 2 >= entries][0]))


def _has_path(pattern: Pattern) -> bool:
    """True if an entry joins two vertices that both have another neighbour: a path of four vertices, or a triangle.

    The pattern is the adjacency of the vertices. False if the diagonal is not full, because a column without a diagonal entry may
    be in no product.
    """
    row, column = pattern.row_of_entry, pattern.indices
    off_diagonal = row != column
    if pattern.nnz - np.count_nonzero(off_diagonal) < pattern.shape[0]:
        return False
    degree = np.bincount(row[off_diagonal], minlength=pattern.shape[0])
    return bool(((degree[row] > 1) & (degree[column] > 1) & off_diagonal).any())
