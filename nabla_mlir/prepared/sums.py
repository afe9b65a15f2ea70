"""Sums of products over data: the mathematics, independent of the engine that computes the parts.

If ``f(x, *batch)`` is summed over batches, or averaged over their rows, its value, gradient and H v are sums over the batches.
Parts are added as a tree of pairs, in the order of the batches. So rounding grows with the logarithm of their number. The result
has the same bits whether the parts come one after the other or in groups of a power of two.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from nabla_mlir.base.conversion import rounded
from nabla_mlir.base.errors import DeployError, NotFiniteError, ShapeError, TraceError
from nabla_mlir.prepared.flat import joined
from nabla_mlir.prepared.pieces import Part, Work
from nabla_mlir.prepared.points import PointOperator


class PairwiseSum:
    """A sum of parts that arrive one by one; the parts are the leaves of a tree of pairs.

    Example:
      >>> total = PairwiseSum()
      >>> for number in (1.0, 2.0, 3.0):
      ...     total.add(number)
      >>> total.result()
      6.0
    """

    def __init__(self) -> None:
        self._sums: list[tuple[int, Any]] = []  # complete subtrees with their numbers of leaves, in decreasing order

    def add(self, part: Any) -> None:
        """Adds the next part. Parts are added in pairs, and pairs in pairs, so rounding errors grow with log(n) only."""
        count = 1
        while self._sums and self._sums[-1][0] == count:
            part = self._sums.pop()[1] + part
            count *= 2
        self._sums.append((count, part))

    def result(self) -> Any:
        """The sum of the parts so far; None if there are none."""
        sums = [part for _, part in self._sums]
        if not sums:
            return None
        total = sums.pop()
        while sums:
            total = sums.pop() + total
        return total


def tree_sum(parts: Iterable[Any]) -> Any:
    """The sum of parts as a tree of pairs; None if there are none."""
    total = PairwiseSum()
    for part in parts:
        total.add(part)
    return total.result()


class Engine(Protocol):
    """The engine that computes the parts of a sum: threads of this process, workers of a cluster, or ranks."""

    @property
    def stored_batches(self) -> int:
        """The number of batches with residuals in memory; on MPI, those of this rank."""

    def update(self, x: np.ndarray, check: bool) -> Part:
        """Moves all batches to the point x, a vector; returns the sum of their parts. `check` refuses NaN and infinity."""

    def product(self, matrix: np.ndarray) -> np.ndarray:
        """The sum, over all batches, of each batch's matrix times the columns of `matrix`."""

    @property
    def window(self) -> int:
        """The number of products that may run at the same time."""

    def start(self, matrix: np.ndarray) -> Any:
        """Starts a product with a matrix, and returns its handle."""

    def first(self, products: Sequence[Any]) -> int:
        """The index, among the handles of running products, of the one that ends first."""

    def finish(self, product: Any) -> np.ndarray:
        """The result of the product with this handle; waits for it."""


class AtOnce(ABC):
    """A base class of engines that compute a product only in `finish`, so that at most one product runs at a time."""

    window = 1

    @abstractmethod
    def product(self, matrix: np.ndarray) -> np.ndarray:
        """The sum, over all batches, of each batch's matrix times the columns of `matrix`."""

    def start(self, matrix: np.ndarray) -> np.ndarray:
        """The handle of a product, which is the matrix itself; `finish` computes the product."""
        return matrix

    def first(self, products: Sequence[np.ndarray]) -> int:
        """The index of the oldest handle, 0. So all ranks choose the same one."""
        return 0

    def finish(self, product: np.ndarray) -> np.ndarray:
        """The sum over all batches of products with the matrix that `start` returned as the handle."""
        return self.product(product)


class SummedOperator(PointOperator):
    """The matrix of a sum over data, at a point that `update` moves: a `scipy.sparse.linalg.LinearOperator`.

    Attributes:
      x: the point, as a vector.
      value, gradient: the value and gradient of the sum, or of the mean, at this point; None if the source has none.
      rows: the number of rows of the data.
      products, updates, seconds: the number of multiplied vectors and of moves of the point, and the time of both.
      damping: a number that is added to the diagonal.
      engine: the engine that computes the parts.
      stored_batches: the number of batches with residuals in memory.

    Vectors of other dtypes are accepted as in `nm.HessianOperator`. Only one thread at a time may use it.
    """

    rows: int
    engine: Engine
    x: np.ndarray
    value: Any
    gradient: np.ndarray | None
    damping: float
    block: int

    def __init__(self, work: Work, engine: Engine, x: Any, damping: float):
        """Stores the engine, and moves it to the first point x; `work` is the computation for one batch."""
        self.engine, self.damping, self._work = engine, float(damping), work
        self._x = self._inner = self._outer = work.x
        self.block, self.rows = work.block, 0
        super().__init__(self._x.dtype, (self._x.size, self._x.size))
        self.update(x, check=True)

    @property
    def stored_batches(self) -> int:
        """The number of batches (on MPI, of this rank) with residuals in memory; other residuals are recomputed."""
        return self.engine.stored_batches

    def update(self, x: Any, *data: Any, check: bool = False) -> tuple[Any, np.ndarray | None]:
        """Moves the operator to another point, and returns the value and the gradient there.

        Args:
          x: a pytree or a flat vector.
          data: must be empty, because the data are the batches.
          check: True raises NotFiniteBatchError, with the index of the batch, if its value or gradient is not finite.
        """
        if data:
            raise TraceError(
                f"update requires only a point, got {len(data)} more argument(s): the data are those of the batches.",
                help="make another operator for other data.",
            )
        is_vector = isinstance(x, np.ndarray) and x.shape == (self._x.size,)
        point = rounded(x, self._x.dtype, "x") if is_vector else self._x.vector(self._x.spec.flatten(x, "x"))
        if point.shape != (self._x.size,):
            raise ShapeError(f"update requires a point of {self._x.size} numbers, got an array of shape {np.shape(x)}.")
        part = self._timed(self.engine.update, point.copy(), check)
        if not part.rows:
            raise NotFiniteError("a sum over data requires rows, got batches that are all empty.")
        self.x, self.rows, self.updates = point.copy(), part.rows, self.updates + 1
        vector = part.vector / part.rows if self._work.mean else part.vector
        vector = vector.astype(self._x.dtype, copy=False)
        self.value = vector[0].item() if self._work.has_value else None
        self.gradient = vector[int(self._work.has_value) :] if self._work.has_gradient else None
        return self.value, self.gradient

    @property
    def window(self) -> int:
        """The number of products that may run at the same time. It is larger than one on a cluster, so that workers do not wait."""
        return self.engine.window

    def start(self, matrix: np.ndarray) -> tuple[np.ndarray, Any]:
        """Starts a product with a real matrix, and returns a handle for `finish`."""
        matrix = rounded(matrix, self._x.dtype, "the matrix")
        return matrix, self.engine.start(matrix)

    def first(self, products: Sequence[tuple[np.ndarray, Any]]) -> int:
        """The index, among handles of `start`, of the running product that ends first."""
        return self.engine.first([product for _, product in products])

    def finish(self, product: tuple[np.ndarray, Any]) -> np.ndarray:
        """The product with the handle of `start`; waits for it."""
        return self._scaled(product[0], self._timed(self.engine.finish, product[1]))

    def _scaled(self, matrix: np.ndarray, total: np.ndarray) -> np.ndarray:
        """The product of the operator with a matrix, from `total`, the sum of the products of all batches.

        For a mean it is divided by the number of rows; damping times the matrix is added.
        """
        self.products += matrix.shape[1]
        result = total / self.rows if self._work.mean else total
        result = result + self.damping * matrix if self.damping else result
        return result.astype(self.dtype, copy=False)

    def __reduce__(self) -> Any:
        """Raises DeployError: threads and workers of a cluster cannot be sent."""
        raise DeployError(
            f"pickle and copy require an operator without threads or cluster, got a {type(self).__name__}.",
            help="send the artifact, and make an operator from it where the data are.",
        )

    def _matvec(self, v: np.ndarray) -> np.ndarray:
        return self._matmat(np.asarray(v).reshape(-1, 1))[:, 0]

    def _matmat(self, vs: np.ndarray) -> np.ndarray:
        """The products of the operator with the columns of a matrix; complex columns are two real ones each."""
        if vs.dtype.kind == "c":
            return joined(self._matmat(vs.real), self._matmat(vs.imag))
        matrix = rounded(vs, self._x.dtype, "the matrix")
        return self._scaled(matrix, self._timed(self.engine.product, matrix))

    def _adjoint(self) -> SummedOperator:
        return self

    _transpose = _adjoint
