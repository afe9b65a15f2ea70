"""Preconditioners for the conjugate gradient method and similar solvers: a diagonal, blocks of it, and pairs of L-BFGS.

Each is a positive definite `LinearOperator` M that approximates the inverse of a symmetric matrix A, which need not be
positive definite: an eigenvalue counts with its absolute value, as in saddle-free Newton methods. Their memory is n times the
number of columns that are multiplied at once, not n times n.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from nabla_mlir.base import thresholds
from nabla_mlir.base.errors import ShapeError, TraceError, user_frame
from nabla_mlir.base.typing import ArrayLike, Operator
from nabla_mlir.prepared.points import TreeOperator

try:
    from scipy.sparse import issparse
    from scipy.sparse.linalg import LinearOperator, aslinearoperator
except ImportError as error:  # pragma: no cover
    raise ImportError("preconditioners require SciPy: pip install scipy") from error

_FLOOR = 1e-6  # the smallest eigenvalue that is inverted, relative to the largest


def operator_diagonal(operator: Operator, probes: int | None = None, *, seed: int = 0, block: int | None = None) -> np.ndarray:
    """The diagonal of a square matrix that is given by its products.

    Without `probes` it is exact and takes n products with unit vectors. With m probes it is the unbiased estimate
    ``Σ v * (A v) / m`` over vectors v of random signs (Bekas, Kokiopoulou, Saad, 2007), whose variance is the sum of the squares
    of the other elements of a row, divided by m. It is exact for a diagonal matrix.

    A probe reads whole rows: where the other elements of a row are large, an estimate of few probes may be worse than no
    preconditioner. The diagonal of a sparse matrix is read, without products: pass `nm.sparse.hessian(f)(x)`.

    Args:
      operator: a square `LinearOperator` of real numbers, such as `nm.HessianOperator`; a `nm.sparse.SparseMatrix`; or a matrix of
        `scipy.sparse`.
      probes: the number of random vectors.
      seed: the seed of the vectors.
      block: the number of columns that are multiplied at once; None means as many as the operator does.

    Raises:
      ShapeError: the operator is not square. TraceError: it is no linear operator.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> H = nm.HessianOperator(lambda x: (x ** 3).sum() + x[0] * x[1], np.array([1.0, 2.0]))
      >>> nm.operator_diagonal(H).tolist()
      [6.0, 12.0]
    """
    operator = _operator(operator)
    n, width = _size(operator), _width(operator, block)
    matrix: Any = getattr(operator, "A", None)
    if issparse(matrix):
        return np.asarray(matrix.diagonal(), float)
    if probes is None:
        parts = [
            np.einsum("ij,ij->j", np.asarray(product)[start : start + product.shape[1]], np.eye(product.shape[1]))
            for start, product in _columns(operator, 0, n, width)
        ]
        return np.concatenate([np.zeros(0), *parts])
    if probes < 1:
        raise ShapeError(f"operator_diagonal requires at least one probe, got {probes}.", where=user_frame())
    draws, total = np.random.default_rng(seed), np.zeros(n)
    for start in range(0, probes, width):
        signs = 2.0 * draws.integers(0, 2, (n, min(width, probes - start))) - 1.0
        total += np.einsum("ij,ij->i", signs, np.asarray(operator.matmat(signs.astype(operator.dtype)), float))
    return total / probes


class DiagonalPreconditioner(LinearOperator):
    """The inverse of the absolute diagonal, ``M v = v / max(|d|, floor)``, which is Jacobi's preconditioner.

    Args:
      operator: a symmetric `LinearOperator` of real numbers, or a sparse matrix, whose diagonal is read.
      probes, seed, block: as for `operator_diagonal`; without `probes` the diagonal is exact.
      floor: the smallest number by which an element is divided, relative to the largest absolute one.

    Attributes:
      diagonal: the diagonal d.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> from scipy.sparse.linalg import cg
      >>> H = nm.HessianOperator(lambda x: (np.array([1.0, 1e4]) * x * x).sum() / 2, np.zeros(2))
      >>> cg(H, np.ones(2), M=nm.DiagonalPreconditioner(H), maxiter=1)[0].tolist()
      [1.0, 0.0001]
    """

    def __init__(
        self, operator: Operator, probes: int | None = None, *, seed: int = 0, block: int | None = None, floor: float = _FLOOR
    ):
        """Computes the diagonal of the operator at its present point; the class describes the arguments."""
        operator = _operator(operator)
        self.diagonal: np.ndarray = operator_diagonal(operator, probes, seed=seed, block=block)
        self._inverse = 1.0 / _floored(self.diagonal, floor)
        super().__init__(np.dtype(float), operator.shape)

    def _matvec(self, v: np.ndarray) -> np.ndarray:
        return self._inverse * np.asarray(v).reshape(-1)

    def _matmat(self, vs: np.ndarray) -> np.ndarray:
        return self._inverse[:, None] * vs

    def _adjoint(self) -> DiagonalPreconditioner:
        """The operator itself, which is symmetric."""
        return self


class BlockPreconditioner(LinearOperator):
    """The inverses of the absolute diagonal blocks, which is block Jacobi: one block for each leaf of the point, for example.

    The absolute value of a block is ``Q |Λ| Qᵀ`` with its eigenvalues Λ and eigenvectors Q. It takes n products.

    Args:
      operator: a symmetric `LinearOperator` of real numbers, a `nm.sparse.SparseMatrix`, or a matrix of `scipy.sparse`.
      sizes: the sizes of consecutive blocks. By default each leaf of the point is a block; a leaf with more than `largest`
        elements is several.
      largest: the size of the largest block.
      block: the number of columns that are multiplied at once; None means as many as the operator does.
      floor: the smallest absolute eigenvalue that is inverted, relative to the largest of its block.

    Raises:
      ShapeError: the sizes do not add up to the number of rows.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> f = lambda p: (p["a"].sum() ** 2 + p["b"][0] ** 2 + (p["a"] ** 2).sum()) / 2
      >>> H = nm.HessianOperator(f, {"a": np.ones(2), "b": np.ones(1)})
      >>> np.allclose(nm.BlockPreconditioner(H) @ (H @ np.array([1.0, 2.0, 3.0])), [1.0, 2.0, 3.0])
      True
    """

    def __init__(
        self,
        operator: Operator,
        sizes: Sequence[int] | None = None,
        *,
        largest: int = 512,
        block: int | None = None,
        floor: float = _FLOOR,
    ):
        """Computes and inverts the diagonal blocks of the operator at its present point; the class describes the arguments. Raises
        ShapeError if the sizes of the blocks do not add up.
        """
        operator = _operator(operator)
        n, width = _size(operator), _width(operator, block)
        sizes = list(sizes) if sizes is not None else _leaves_in_blocks(operator, n, largest)
        if sum(sizes) != n or min(sizes, default=1) < 1:
            raise ShapeError(f"BlockPreconditioner requires positive sizes with the sum {n}, got {sizes}.", where=user_frame())
        self._ends = np.cumsum([0, *sizes]).tolist()
        self._inverses: list[np.ndarray] = []
        for first, last in zip(self._ends, self._ends[1:], strict=False):
            matrix = np.concatenate([p[first:last] for _, p in _columns(operator, first, last, width)], axis=1).astype(float)
            values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
            self._inverses.append(vectors / _floored(values, floor) @ vectors.T)
        super().__init__(np.dtype(float), operator.shape)

    def _matvec(self, v: np.ndarray) -> np.ndarray:
        return self._matmat(np.asarray(v).reshape(-1, 1))[:, 0]

    def _matmat(self, vs: np.ndarray) -> np.ndarray:
        """The products of each inverse block with its rows of the matrix."""
        rows = zip(self._ends, self._ends[1:], self._inverses, strict=False)
        return np.concatenate([inverse @ vs[first:last] for first, last, inverse in rows])

    def _adjoint(self) -> BlockPreconditioner:
        return self


class LBFGSPreconditioner(LinearOperator):
    """The inverse Hessian of L-BFGS, from pairs of steps s and differences y of gradients (Nocedal, 1980).

    A product is the two-loop recursion, scaled by ``sᵀy / yᵀy`` of the last pair. Pairs of one solve precondition the next one,
    also pairs (v, A v) of products with a matrix A.

    Args:
      size: the number of rows.
      memory: the number of pairs that are stored; older ones are dropped.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> M = nm.LBFGSPreconditioner(2)
      >>> M.add(np.array([1.0, 0.0]), np.array([4.0, 0.0])), (M @ np.array([4.0, 0.0])).tolist()
      (True, [1.0, 0.0])
    """

    def __init__(self, size: int, memory: int = 10):
        """The identity until the first pair is added; the class describes the arguments."""
        self._pairs: deque[tuple[np.ndarray, np.ndarray, float]] = deque(maxlen=memory)
        super().__init__(np.dtype(float), (size, size))

    def add(self, s: ArrayLike, y: ArrayLike) -> bool:
        """Stores a pair, and returns True. A pair without positive curvature is not stored, so that M stays positive definite.

        Args:
          s: a step, a flat vector.
          y: the difference of the gradients along it.

        Raises:
          ShapeError: a vector has another length.
        """
        step, difference = (np.array(v, float).reshape(-1) for v in (s, y))
        if step.shape != (self.shape[0],) or difference.shape != step.shape:
            raise ShapeError(
                f"add requires two vectors of {self.shape[0]} numbers, got {step.shape} and {difference.shape}.", where=user_frame()
            )
        curvature = float(step @ difference)
        if not curvature > np.finfo(float).eps * float(difference @ difference):
            return False
        self._pairs.append((step, difference, curvature))
        return True

    def _matvec(self, v: np.ndarray) -> np.ndarray:
        """The product of the L-BFGS inverse with a vector, by the two-loop recursion over the stored pairs (s, y, s · y)."""
        q, factors = np.array(v, float).reshape(-1), []
        for s, y, curvature in reversed(self._pairs):
            factors.append(s @ q / curvature)
            q -= factors[-1] * y
        if self._pairs:  # the first approximation of the inverse is a multiple of the identity, from the last pair
            _, y, curvature = self._pairs[-1]
            q *= curvature / (y @ y)
        for s, y, curvature in self._pairs:
            q += (factors.pop() - y @ q / curvature) * s
        return q

    def _adjoint(self) -> LBFGSPreconditioner:
        return self


def _operator(given: Any) -> Any:
    """A sparse matrix, of this package or of SciPy, as a linear operator; other values are returned unchanged."""
    matrix = given.to_scipy() if hasattr(given, "to_scipy") else given
    return aslinearoperator(matrix.tocsr()) if issparse(matrix) else given


def _size(operator: Any) -> int:
    """The number of rows of a square linear operator; raises if it is not one."""
    shape: Any = getattr(operator, "shape", ())
    if len(shape) != 2 or not hasattr(operator, "matmat"):
        raise TraceError(
            f"a preconditioner requires a linear operator, got {type(operator).__name__}.",
            where=user_frame(),
            help="for example nm.HessianOperator(f, x).",
        )
    if shape[0] != shape[1]:
        raise ShapeError(f"a preconditioner requires a square operator, got one of shape {tuple(shape)}.", where=user_frame())
    return int(shape[0])


def _width(operator: Operator, block: int | None) -> int:
    """The number of columns that are multiplied at once: `block`, or the number that the operator prefers if that is None."""
    return block or int(getattr(operator, "block", thresholds.BLOCK))


def _columns(operator: Operator, first: int, last: int, width: int) -> Iterator[tuple[int, np.ndarray]]:
    """Yields the columns `first` to `last` - 1 of an operator in parts, each with the index of its first column.

    A part is a matrix of `width` columns, the last one maybe of fewer; it is the product with unit vectors.
    """
    for start in range(first, last, width):
        unit = np.zeros((operator.shape[1], min(width, last - start)), operator.dtype)
        unit[start + np.arange(unit.shape[1]), np.arange(unit.shape[1])] = 1
        yield start, np.asarray(operator.matmat(unit))


def _leaves_in_blocks(operator: Operator, n: int, largest: int) -> list[int]:
    """The sizes of the diagonal blocks: one for each leaf of the operator's vectors, or several of at most `largest` elements.

    An operator without pytrees has one leaf of n elements.
    """
    sizes = operator.leaf_sizes if isinstance(operator, TreeOperator) else (n,)
    return [min(largest, size - start) for size in sizes for start in range(0, size, largest)]


def _floored(values: np.ndarray, floor: float) -> np.ndarray:
    """The absolute values, or `floor` times the largest where they are smaller; ones if all are zero."""
    sizes = np.abs(values)
    return np.maximum(sizes, floor * sizes.max(initial=0.0)) if sizes.any() else np.ones_like(sizes)
