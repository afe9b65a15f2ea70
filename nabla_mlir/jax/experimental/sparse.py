"""Arrays of which the elements that are not zero are stored, under the names of `jax.experimental.sparse`.

`nm.sparse` has the sparse Jacobians and Hessians; here is the format BCOO, in which packages of JAX return arrays.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.numpy.creation import zeros
from nabla_mlir.numpy.joining import stack
from nabla_mlir.numpy.operands import asarray
from nabla_mlir.transforms.vectorize import vmap


class BCOO:
    """An array in coordinate format: stored are the values of elements and their positions. It is a pytree.

    Elements at equal positions are added. The leading axes of `indices`, all but the last two, are batch axes: each entry of the
    batch has its own positions.

    Args:
      args: the values and their positions, of shapes ``(*batch, n, *dense)`` and ``(*batch, n, axes)``.
      shape: the shape of the array.
      indices_sorted, unique_indices: accepted for programs of JAX; positions may have any order here.

    Raises:
      ShapeError: the shapes do not fit.

    Example:
      >>> m = BCOO((np.array([2.0, 3.0]), np.array([[0, 1], [1, 0]])), shape=(2, 2))
      >>> m.todense().tolist(), (m @ np.array([1.0, 10.0])).tolist()
      ([[0.0, 2.0], [3.0, 0.0]], [20.0, 3.0])
    """

    __array_ufunc__ = None  # so that ``numpy_array @ m`` calls `__rmatmul__`

    def __init__(self, args: tuple[Any, Any], *, shape: Any, indices_sorted: bool = False, unique_indices: bool = False):
        """Stores values and positions; raises ShapeError if their shapes do not fit `shape`."""
        self.data, self.indices = (x if pytree.is_array(x) else asarray(x) for x in args)
        self.shape: tuple[int, ...] = tuple(shape)
        self.indices_sorted, self.unique_indices = indices_sorted, unique_indices
        batch = self.n_batch
        expected = (*self.shape[:batch], *self.data.shape[batch : batch + 1], *self.shape[batch + self.n_sparse :])
        if self.indices.ndim < 2 or self.data.shape != expected or self.indices.shape[:-1] != self.data.shape[: batch + 1]:
            raise ShapeError(
                f"BCOO requires values (*batch, n, *dense) and positions (*batch, n, axes) of the shape {self.shape}, got "
                f"{tuple(self.data.shape)} and {tuple(self.indices.shape)}.",
                where=user_frame(),
            )

    @property
    def n_batch(self) -> int:
        """The number of axes of the batch."""
        return int(self.indices.ndim) - 2

    @property
    def n_sparse(self) -> int:
        """The number of axes whose positions are stored."""
        return int(self.indices.shape[-1])

    @property
    def n_dense(self) -> int:
        """The number of axes that are stored whole."""
        return int(self.data.ndim) - 1 - self.n_batch

    @property
    def nse(self) -> int:
        """The number of stored elements."""
        return int(self.indices.shape[-2])

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the values."""
        return np.dtype(self.data.dtype)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements, with the zeros."""
        return math.prod(self.shape)

    def __repr__(self) -> str:
        return f"BCOO({self.dtype}{list(self.shape)}, nse={self.nse})"

    @classmethod
    def fromdense(
        cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32, n_dense: int = 0, n_batch: int = 0
    ) -> BCOO:
        """The array in this format; see `bcoo_fromdense`."""
        return bcoo_fromdense(mat, nse=nse, n_dense=n_dense, n_batch=n_batch, index_dtype=index_dtype)

    def todense(self) -> Any:
        """The array with all its elements, also those that are zero."""
        inner = self.shape[self.n_batch :]

        def one(data: Any, indices: Any) -> Any:
            """The dense array of one entry of the batch."""
            return zeros(inner, self.dtype).at[tuple(asarray(indices)[:, k] for k in range(self.n_sparse))].add(data)

        for _ in range(self.n_batch):
            one = vmap(one)
        return one(self.data, self.indices)

    def transpose(self, axes: Any = None) -> BCOO:
        """The array with its axes permuted; it must have no batch axes and no dense axes."""
        self._check_plain("transpose")
        order = tuple(range(self.ndim))[::-1] if axes is None else tuple(axes)
        return BCOO((self.data, self.indices[:, np.array(order)]), shape=[self.shape[i] for i in order])

    @property
    def T(self) -> BCOO:  # noqa: N802
        """The transpose."""
        return self.transpose()

    def __matmul__(self, other: Any) -> Any:
        """The product with a matrix or a vector, as an array with all its elements."""
        self._check_plain("a product")
        if self.ndim != 2:
            raise ShapeError(f"a product requires a sparse matrix, got shape {self.shape}.", where=user_frame())
        right = other.todense() if isinstance(other, BCOO) else asarray(other)
        rows, columns = asarray(self.indices)[:, 0], asarray(self.indices)[:, 1]
        if right.ndim not in (1, 2) or right.shape[0] != self.shape[1]:
            raise ShapeError(f"a product requires {self.shape[1]} rows, got shape {tuple(right.shape)}.", where=user_frame())
        terms = asarray(self.data).reshape((-1,) + (1,) * (right.ndim - 1)) * right[columns]
        return zeros((self.shape[0], *right.shape[1:]), terms.dtype).at[rows].add(terms)

    def __rmatmul__(self, other: Any) -> Any:
        left = asarray(other)
        return (self.T @ left.T).T if left.ndim == 2 else self.T @ left

    def __mul__(self, other: Any) -> Any:
        """The elementwise product with a number or an array, which has the same positions."""
        if getattr(other, "shape", ()) == ():
            return BCOO((self.data * other, self.indices), shape=self.shape)
        self._check_plain("a product")
        other = asarray(other)
        factors = other[tuple(asarray(self.indices)[:, k] for k in range(self.n_sparse))]
        return BCOO((self.data * factors, self.indices), shape=self.shape)

    __rmul__ = __mul__

    def __neg__(self) -> BCOO:
        return BCOO((-self.data, self.indices), shape=self.shape)

    def sum(self, axis: Any = None) -> Any:
        """The sum over all elements, or over some axes, as an array with its zeros."""
        return self.data.sum() if axis is None and not self.n_batch and not self.n_dense else self.todense().sum(axis)

    def _check_plain(self, what: str) -> None:
        """Raises ShapeError if the array has batch axes or dense axes; `what` names the operation in the error."""
        if self.n_batch or self.n_dense:
            raise ShapeError(
                f"{what} requires a sparse array without batch and dense axes, got {self.n_batch} and {self.n_dense}.",
                where=user_frame(),
                help="use todense().",
            )


pytree.register_node(
    BCOO, lambda m: ((m.data, m.indices), m.shape, ("data", "indices")), lambda shape, xs: _restored(shape, *xs), has_names=True
)


def _restored(shape: tuple[int, ...], data: Any, indices: Any) -> BCOO:
    """An array made from the leaves of a pytree, without checks, because leaves may be objects other than arrays.

    `shape` is the shape of the dense array, `data` are the values, and `indices` their positions.
    """
    made = object.__new__(BCOO)
    made.data, made.indices, made.shape = data, indices, shape
    made.indices_sorted = made.unique_indices = False
    return made


def bcoo_fromdense(mat: Any, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0, index_dtype: Any = np.int32) -> BCOO:
    """Converts an array to the format BCOO: stores the elements that are not zero.

    Args:
      mat: the array.
      nse: the number of stored elements; the default is the number of elements that are not zero. In a trace it is required.
      n_batch, n_dense: must be 0.
      index_dtype: the dtype of the positions.

    Raises:
      ShapeError: `n_batch` or `n_dense` is not 0.

    Example:
      >>> bcoo_fromdense(np.array([[0.0, 5.0], [0.0, 0.0]])).indices.tolist()
      [[0, 1]]
    """
    if n_batch or n_dense:
        raise ShapeError(f"bcoo_fromdense requires n_batch=0 and n_dense=0, got {n_batch} and {n_dense}.", where=user_frame())
    dense = asarray(mat)
    count = int((dense != 0).sum()) if nse is None else nse
    found = dense.nonzero(size=count, fill_value=0)
    # If `nse` exceeds the number of elements that are not zero, the remaining entries have the first position and the value 0.
    is_used = np.arange(count) < (dense != 0).sum()
    positions = [asarray(axis) for axis in found]
    data = dense[tuple(positions)] * asarray(is_used).astype(dense.dtype)
    return BCOO((data, stack(positions, -1).astype(index_dtype)), shape=dense.shape)


def bcoo_todense(mat: BCOO) -> Any:
    """The array with its zeros."""
    return mat.todense()


def todense(arr: Any) -> Any:
    """The array with its zeros; other arrays are returned as they are."""
    return arr.todense() if isinstance(arr, BCOO) else arr
