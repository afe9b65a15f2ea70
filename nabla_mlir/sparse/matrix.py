"""A sparse matrix whose entries are traced and differentiated, and whose pattern is static."""

from __future__ import annotations

from typing import Any

import numpy as np

from nabla_mlir.base import pytree, thresholds
from nabla_mlir.base.errors import PatternError, ShapeError, TraceError, user_frame
from nabla_mlir.ops.barrier import optimization_barrier
from nabla_mlir.ops.gather import gather, gather_dims
from nabla_mlir.ops.scatter import scatter, scatter_dims
from nabla_mlir.sparse.pattern import Pattern, joined
from nabla_mlir.sparse.trees import mirror
from nabla_mlir.sparsity.rows import Rows
from nabla_mlir.staging.eager import staged
from nabla_mlir.table.promotion import as_tensor
from nabla_mlir.table.tensor import Tensor, constant, full


class SparseMatrix:
    """The entries of a matrix of a known pattern.

    It is a pytree whose only leaf is `data`. So it can pass through `jit`, `grad` and `vmap`, where `data` gets more leading axes
    and the pattern stays the same.

    Attributes:
      data: the entries, row by row, as in CSR.
      pattern: the positions of the entries.

    Example:
      >>> import nabla_mlir as nm
      >>> matrix = nm.sparse.jacobian(lambda x: x[1:] * x[:-1])(np.array([1.0, 2.0, 3.0]))
      >>> matrix
      SparseMatrix(2x3, nnz=4, float64)
      >>> matrix.to_scipy().toarray().tolist()
      [[2.0, 1.0, 0.0], [0.0, 3.0, 2.0]]
    """

    data: Any
    pattern: Pattern

    def __init__(self, data: Any, pattern: Pattern):
        self.data, self.pattern = data, pattern

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the matrix."""
        return self.pattern.shape

    @property
    def nnz(self) -> int:
        """The number of entries, including those that happen to be zero."""
        return self.pattern.nnz

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the entries."""
        return np.dtype(self.data.dtype)

    @property
    def T(self) -> SparseMatrix:  # noqa: N802  # its name everywhere
        """The transpose."""
        order = mirror(self.pattern)
        return SparseMatrix(staged(lambda data: as_tensor(data)[..., order])(self.data), self.pattern.T)

    def __matmul__(self, other: Any) -> Any:
        """The product with a vector, with a matrix, or with a sparse matrix, which is sparse.

        Raises:
          ShapeError: `other` does not have as many rows as this matrix has columns, or the entries have axes of a map.
          PatternError: the product of sparse matrices has too many terms.
        """
        if isinstance(other, SparseMatrix):
            return staged(_sparse_product)(self, other)
        return staged(_product)(self, other)

    def to_dense(self) -> Any:
        """The matrix as a dense array."""
        return staged(_dense)(self)

    def toarray(self) -> Any:
        """The matrix as a dense array, under the name of SciPy."""
        return self.to_dense()

    def diagonal(self) -> Any:
        """The elements of the main diagonal, a vector.

        Example:
          >>> import nabla_mlir as nm
          >>> nm.sparse.hessian(lambda x: (x**3).sum())(np.array([1.0, 2.0])).diagonal().tolist()
          [6.0, 12.0]
        """
        return staged(_diagonal)(self)

    def to_scipy(self, format: str = "csr") -> Any:
        """The matrix as a SciPy matrix.

        Args:
          format: csr, csc or coo.
        """
        from scipy.sparse import csr_matrix

        _check_plain("to_scipy", self)
        values = np.asarray(self.data)
        matrix = csr_matrix((values, self.pattern.indices, self.pattern.indptr), shape=self.shape)
        return matrix.asformat(format)

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        """Raises TraceError, because NumPy and SciPy would make a dense array or an array of objects."""
        raise TraceError(
            "NumPy and SciPy require arrays and their own matrices, got a SparseMatrix.",
            where=user_frame(),
            help="to_scipy() is a matrix of scipy.sparse, and to_dense() an array.",
        )

    def __repr__(self) -> str:
        dtype = f", {self.data.dtype}" if pytree.is_array(self.data) else ""
        return f"SparseMatrix({self.shape[0]}x{self.shape[1]}, nnz={self.pattern.nnz}{dtype})"


pytree.register_node(SparseMatrix, lambda m: ((m.data,), m.pattern, ("data",)), lambda p, d: SparseMatrix(d[0], p))


def _check_plain(what: str, matrix: SparseMatrix) -> None:
    """Raises ShapeError if the matrix has the axes of a map."""
    if len(matrix.data.shape) != 1:
        raise ShapeError(
            f"{what} requires a single matrix, got entries of shape {tuple(matrix.data.shape)}.",
            where=user_frame(),
            help="map over the leading axes of the matrix with nm.vmap.",
        )


def read(numbers: Tensor, positions: np.ndarray) -> Tensor:
    """The numbers at some indices of a vector. The indices are constants of the code, like the pattern."""
    dims = gather_dims(collapsed_slice_dims=(0,), start_index_map=(0,), index_vector_dim=1)
    return gather(numbers, constant(positions.astype(np.int32).reshape(-1, 1)), dimension_numbers=dims, slice_sizes=(1,))


def added(updates: Tensor, rows: np.ndarray, shape: tuple[int, ...]) -> Tensor:
    """An array of `shape` in which row i is the sum of all updates k with rows[k] = i."""
    if not rows.size:
        return full(shape, 0, updates.dtype)
    numbers = scatter_dims(
        update_window_dims=tuple(range(1, updates.ndim)),
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
        index_vector_dim=1,
    )
    positions = constant(rows.astype(np.int32).reshape(-1, 1))
    # Without the barrier, IREE computes the updates inside the loop that sums them, and stores all of them on the
    # stack.
    (updates,) = optimization_barrier(updates)
    ordered = bool((np.diff(rows) >= 0).all())
    return scatter(
        full(shape, 0, updates.dtype),
        positions,
        updates,
        scatter_dimension_numbers=numbers,
        indices_are_sorted=ordered,
        unique_indices=False,
        body="add",
    )


def _product(matrix: SparseMatrix, other: Any) -> Tensor:
    """The product of a sparse matrix with a dense vector or matrix `other`."""
    _check_plain("@", matrix)
    x, data = as_tensor(other), as_tensor(matrix.data)
    m, n = matrix.shape
    if x.ndim not in (1, 2) or x.shape[0] != n:
        raise ShapeError(f"@ of a sparse matrix requires an array of {n} rows, got shape {x.shape}.", where=user_frame())
    factors = x[matrix.pattern.indices]
    terms = factors * (data if x.ndim == 1 else data[:, None])
    return added(terms, matrix.pattern.row_of_entry, (m, *x.shape[1:]))


def _sparse_product(a: SparseMatrix, b: SparseMatrix) -> SparseMatrix:
    """The sparse product a @ b of two sparse matrices. The positions of the terms of each entry are computed now, not in the
    program.
    """
    _check_plain("@", a)
    _check_plain("@", b)
    if a.shape[1] != b.shape[0]:
        raise ShapeError(f"@ of sparse matrices requires {a.shape[1]} rows, got shape {b.shape}.", where=user_frame())
    count = int(b.pattern.rows.lengths()[a.pattern.indices].sum())
    if count > thresholds.PATTERN_ENTRIES:
        raise PatternError(
            f"@ of sparse matrices requires at most {thresholds.PATTERN_ENTRIES} terms, got {count} for {a!r} and {b!r}.",
            where=user_frame(),
            help="a row of one is dense where the other has many entries: multiply by a vector instead.",
        )
    # Term t of the product is a.data[left[t]] * b.data[right[t]]; it belongs to the entry with the key (row, column).
    left, right = joined(a.pattern.indices, b.pattern.rows)
    keys = a.pattern.row_of_entry[left] * b.shape[1] + b.pattern.indices[right]
    order = np.argsort(keys, kind="stable")
    pattern = Pattern(Rows.of(keys, a.shape[0], b.shape[1]))
    target = np.searchsorted(pattern.rows.keys(), keys[order])
    terms = read(as_tensor(a.data), left[order]) * read(as_tensor(b.data), right[order])
    return SparseMatrix(added(terms, target, (pattern.nnz,)), pattern)


def _diagonal(matrix: SparseMatrix) -> Tensor:
    """The elements of the main diagonal as a tensor; zero where the pattern has no entry."""
    _check_plain("diagonal", matrix)
    rows = matrix.pattern.row_of_entry
    entries = np.flatnonzero(rows == matrix.pattern.indices)
    return added(read(as_tensor(matrix.data), entries), rows[entries], (min(matrix.shape),))


def _dense(matrix: SparseMatrix) -> Tensor:
    """The matrix as a dense tensor."""
    _check_plain("to_dense", matrix)
    m, n = matrix.shape
    positions = matrix.pattern.row_of_entry * n + matrix.pattern.indices
    return added(as_tensor(matrix.data), positions, (m * n,)).reshape(m, n)
