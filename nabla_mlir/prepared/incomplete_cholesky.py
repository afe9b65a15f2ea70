"""Incomplete Cholesky factors of sparse symmetric matrices, as preconditioners."""

from __future__ import annotations

from typing import Any

import numpy as np

from nabla_mlir.base.errors import NotFiniteError, ShapeError, TraceError, user_frame

try:
    from scipy.sparse import coo_array, csc_array, issparse
    from scipy.sparse.linalg import LinearOperator, splu
except ImportError as error:  # pragma: no cover
    raise ImportError("preconditioners require SciPy: pip install scipy") from error

_NAME = "IncompleteCholeskyPreconditioner"
_SHIFT = 1e-3  # the first shift of the diagonal after a breakdown; Lin and Moré's


class IncompleteCholeskyPreconditioner(LinearOperator):
    """The inverse of ``L Lᵀ`` with the pattern of a sparse symmetric matrix A: an incomplete Cholesky factorisation, IC(0).

    L Lᵀ has the entries of ``A + shift * D`` in the pattern of A, and D is the diagonal of the lengths of its columns. The shift is
    zero if the factorisation exists. Otherwise, and if A is not positive definite, it is doubled from 0.001 on until all pivots
    are positive (Manteuffel, 1980; Lin and Moré, SIAM J. Sci. Comput. 21, 1999, with their scaling by the columns). Of a
    tridiagonal matrix, or another one whose factor has no fill, L is the Cholesky factor itself.

    Args:
      matrix: a matrix of `scipy.sparse`, a `nm.sparse.SparseMatrix`, or an operator with such a `matrix`, for example of
        `nm.sparse_hessian_module`. The entries on and below the diagonal are read.

    Attributes:
      factor: L, a lower triangular matrix of `scipy.sparse`.
      shift: the shift of the diagonal.

    Raises:
      TraceError: it is no sparse matrix, and has none. ShapeError: it is not square. NotFiniteError: an entry is NaN or infinite.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> hessian = nm.sparse.hessian(lambda x: ((x[1:] - x[:-1]) ** 2).sum() + (x**2).sum())(np.zeros(4))
      >>> M = nm.IncompleteCholeskyPreconditioner(hessian)
      >>> bool(np.allclose(M @ (hessian.to_scipy() @ np.arange(4.0)), np.arange(4.0))), M.shift
      (True, 0.0)
    """

    def __init__(self, matrix: Any):
        """Factorises the matrix, with larger and larger shifts until it succeeds; the class describes the argument."""
        lower = _lower_triangle(matrix)
        n, columns = lower.shape[0], np.repeat(np.arange(lower.shape[0]), np.diff(lower.indptr))
        size = np.abs(lower.data).max(initial=0.0) or 1.0
        relative = lower.data / size  # whose squares do not overflow
        both = np.bincount(columns, relative**2, n) + np.bincount(lower.indices, relative**2, n)
        squares = both - relative[lower.indptr[:-1]] ** 2  # the diagonal counts once
        lengths = np.where(squares > 0, np.sqrt(squares), 1.0)
        # The matrix D A D, whose columns have similar lengths, for the diagonal D of 1 / sqrt(lengths).
        scaled = relative / np.sqrt(lengths[columns]) / np.sqrt(lengths[lower.indices])
        steps, smallest = _Steps(lower.indptr, lower.indices), scaled[lower.indptr[:-1]].min(initial=1.0)
        self.shift: float = 0.0 if smallest > 0 else _SHIFT - float(smallest)
        while (entries := steps.factor(scaled, self.shift)) is None:
            self.shift = max(2 * self.shift, _SHIFT)
        entries = entries * np.sqrt(lengths * size)[lower.indices]
        self.factor: csc_array = csc_array((entries, lower.indices, lower.indptr), shape=lower.shape)
        self._solver = splu(self.factor, permc_spec="NATURAL", diag_pivot_thresh=0.0)
        super().__init__(np.dtype(float), lower.shape)

    def _matvec(self, v: np.ndarray) -> np.ndarray:
        """The solution of ``L Lᵀ x = v``."""
        return self._matmat(np.asarray(v).reshape(-1, 1))[:, 0]

    def _matmat(self, vs: np.ndarray) -> np.ndarray:
        """The solutions of ``L Lᵀ x = v`` for the columns v of a matrix: first by L, then by Lᵀ."""
        return self._solver.solve(self._solver.solve(np.asarray(vs, float)), trans="T")

    def _adjoint(self) -> IncompleteCholeskyPreconditioner:
        """The operator itself, which is symmetric."""
        return self


class _Steps:
    """The order in which the entries of the factor are computed, for one pattern.

    Columns are divided into levels; a column reads only columns of earlier levels, so a level is computed at once.

    Args:
      starts, rows: the pattern of the lower triangle with its whole diagonal, in the form CSC with sorted rows.
    """

    def __init__(self, starts: np.ndarray, rows: np.ndarray):
        """Computes the levels of the columns, and the order of the terms.

        Column i has a higher level than each column k with an entry (i, k), because its elimination needs column k; columns of one
        level are computed at once. `starts` and `rows` are the compressed columns of the lower triangle.
        """
        n, starts, rows = len(starts) - 1, starts.astype(np.int64), rows.astype(np.int64)
        columns = np.repeat(np.arange(n), np.diff(starts))
        below = np.flatnonzero(rows != columns)
        below = below[np.lexsort((columns[below], rows[below]))]  # row by row
        levels = [0] * n
        for i, k in zip(rows[below].tolist(), columns[below].tolist(), strict=True):
            levels[i] = max(levels[i], levels[k] + 1)
        level = np.array(levels, np.int64)
        entry, first, second = _products(rows, columns, below, n)
        order = np.argsort(level[columns[entry]], kind="stable")
        self._entry, self._first, self._second = entry[order], first[order], second[order]
        self._diagonal, self._columns = starts[:-1], columns
        bounds = np.arange(level.max(initial=-1) + 2)
        self._ends = np.searchsorted(level[columns[self._entry]], bounds).tolist()
        self._pivots = np.argsort(level, kind="stable")
        self._pivot_ends = np.searchsorted(level[self._pivots], bounds).tolist()
        self._below = below[np.argsort(level[columns[below]], kind="stable")]
        self._below_ends = np.searchsorted(level[columns[self._below]], bounds).tolist()

    def factor(self, entries: np.ndarray, shift: float) -> np.ndarray | None:
        """The entries of L, where ``L Lᵀ`` is the matrix with its diagonal shifted; None if a pivot is not positive.

        `entries` and the result have the entries of the lower triangle, in the order of the pattern; `shift` is added to the
        diagonal. The columns of a level are computed at once.
        """
        values = entries.copy()
        values[self._diagonal] += shift
        for level in range(len(self._ends) - 1):
            part = slice(self._ends[level], self._ends[level + 1])
            np.subtract.at(values, self._entry[part], values[self._first[part]] * values[self._second[part]])
            pivots = self._diagonal[self._pivots[self._pivot_ends[level] : self._pivot_ends[level + 1]]]
            if not np.all(values[pivots] > np.finfo(float).eps):
                return None
            values[pivots] = np.sqrt(values[pivots])
            below = self._below[self._below_ends[level] : self._below_ends[level + 1]]
            values[below] /= values[self._diagonal[self._columns[below]]]
        return values


def _products(rows: np.ndarray, columns: np.ndarray, below: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The positions of the entries (i, j), (i, k) and (j, k), for each term k of ``l_ij = (a_ij - Σ_k l_ik l_jk) / l_jj``.

    Terms whose entry (i, k) is not in the pattern are left out: they are the fill that an incomplete factor drops.

    Args:
      rows, columns: the row and column of each entry of the lower triangle, column by column.
      below: the positions of the entries below the diagonal in these arrays, row by row.
      n: the number of rows of the matrix.
    """
    starts = np.searchsorted(rows[below], np.arange(n + 1))  # where each row begins in `below`
    counts = (starts[1:] - starts[:-1])[columns]  # entry (i, j): the entries (j, k) of row j
    entry = np.repeat(np.arange(len(rows)), counts)
    within = np.arange(len(entry)) - np.repeat(np.cumsum(counts) - counts, counts)
    second = below[starts[columns[entry]] + within]
    keys, wanted = columns * n + rows, columns[second] * n + rows[entry]  # a key is the pair (column, row) as one number
    first = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    is_present = keys[first] == wanted
    return entry[is_present], first[is_present], second[is_present]


def _lower_triangle(matrix: Any) -> Any:
    """The lower triangle of a matrix in the form CSC, with its whole diagonal; raises for a matrix that is not sparse or square."""
    given = matrix
    if hasattr(matrix, "to_scipy"):
        matrix = matrix.to_scipy()
    elif not issparse(matrix) and callable(getattr(matrix, "matrix", None)) and len(getattr(matrix, "shape", ())) == 2:
        matrix = matrix.matrix()
    if not issparse(matrix):
        raise TraceError(
            f"{_NAME} requires a sparse matrix, got {type(given).__name__}.",
            where=user_frame(),
            help="for example nm.sparse.hessian(f)(x), or the operator of an nm.sparse_hessian_module.",
        )
    if matrix.shape[0] != matrix.shape[1]:
        raise ShapeError(f"{_NAME} requires a square matrix, got shape {matrix.shape}.", where=user_frame())
    n, entries = matrix.shape[0], matrix.tocoo()
    if not np.all(np.isfinite(entries.data)):
        raise NotFiniteError(f"{_NAME} requires finite entries, got NaN or infinity.", where=user_frame())
    is_lower = entries.row >= entries.col
    diagonal = np.arange(n)  # entries of one position add up
    rows, columns = (np.concatenate([part[is_lower], diagonal]) for part in (entries.row, entries.col))
    lower = coo_array((np.concatenate([entries.data[is_lower].astype(float), np.zeros(n)]), (rows, columns)), shape=(n, n)).tocsc()
    lower.sort_indices()
    return lower
