"""The base class of operators at a point: solvers move the point; products and times are counted."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from nabla_mlir.base.conversion import rounded
from nabla_mlir.base.errors import ShapeError, TraceError, TreeError, user_frame
from nabla_mlir.base.exchange import readable
from nabla_mlir.base.locks import new_lock
from nabla_mlir.prepared.flat import Flat, is_same

try:
    from scipy.sparse.linalg import LinearOperator
except ImportError as error:  # pragma: no cover
    raise ImportError("operators require SciPy: pip install scipy") from error


_NAMES = 4  # names of leaves that a repr and an error show


class TreeOperator(LinearOperator):
    """A linear operator on pytrees of one structure, with the interface of SciPy on flat vectors.

    A flat vector has the elements of the leaves, one leaf after the other in the order of `names`. `ravel` and `unravel`
    convert. `A @ v` accepts a vector, a matrix of columns, or a pytree, whose product is a pytree.
    """

    _inner: Flat  # the arguments of the map
    _outer: Flat  # its results

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each leaf of the argument, in the order of flat vectors. A dict is ordered by its keys; an OrderedDict
        stays in its own order.
        """
        return self._inner.names

    @property
    def leaf_sizes(self) -> tuple[int, ...]:
        """The number of elements of each leaf of the argument, in the order of flat vectors."""
        return tuple(self._inner.sizes)

    def ravel(self, tree: Any) -> np.ndarray:
        """The flat vector of a pytree.

        Args:
          tree: a pytree like the argument of the function, for example PyTorch's parameters by their names.

        Raises:
          TreeError, ShapeError: its structure or the shape of a leaf differs.
        """
        return self._inner.ravel(tree, "v")

    def unravel(self, vector: Any) -> Any:
        """The pytree of a flat vector, with arrays of NumPy.

        Args:
          vector: the numbers of all leaves, in the order of `names`.

        Raises:
          ShapeError: the vector has another length.
        """
        array = np.asarray(readable(vector))
        self._check(array, self._inner, (1,))
        return self._inner.unravel(array)

    def dot(self, x: Any) -> Any:
        """The product with a vector, a matrix of columns, or a pytree; `A @ x` and `A * x` call it.

        Args:
          x: the factor. A number or another operator gives an operator, as in SciPy.
        """
        x = readable(x)
        if x is None or isinstance(x, str):
            raise TreeError(f"{type(self).__name__} requires a vector, a matrix or a pytree, got {x!r}.", where=user_frame())
        if not isinstance(x, LinearOperator) and self._inner.is_tree(x):
            return self._outer.unravel(self.matvec(self.ravel(x)))
        if isinstance(x, (list, np.ndarray)):
            self._check(np.asarray(x), self._inner, (1, 2))
        return super().dot(x)

    def matvec(self, x: Any) -> Any:
        """The product with a vector, of shape (n,) or (n, 1)."""
        self._check(x, self._inner, (1, 2))
        return super().matvec(x)

    def matmat(self, x: Any) -> Any:
        """The products with the columns of a matrix."""
        self._check(x, self._inner, (2,))
        return super().matmat(x)

    def rmatvec(self, x: Any) -> Any:
        """The product of the transposed matrix with a vector."""
        self._check(x, self._outer, (1, 2))
        return super().rmatvec(x)

    def rmatmat(self, x: Any) -> Any:
        """The products of the transposed matrix with the columns of a matrix."""
        self._check(x, self._outer, (2,))
        return super().rmatmat(x)

    def _check(self, x: Any, flat: Flat, ranks: tuple[int, ...]) -> None:
        shape = np.shape(x)
        if len(shape) in ranks and shape[0] == flat.size:
            return
        expected = {1: f"a vector of {flat.size} numbers", 2: f"a matrix with {flat.size} rows"}
        raise ShapeError(
            f"{type(self).__name__} requires {' or '.join(expected[rank] for rank in ranks)}, got shape {shape}.",
            where=user_frame(), help=f"a vector holds {order_of(flat)}; ravel(tree) makes one, and @ also accepts such a pytree.",
        )  # fmt: skip


def order_of(flat: Flat) -> str:
    """The first leaves of a vector with their shapes, as text."""
    parts = [f"{name or 'v'} {shape}" for name, shape in zip(flat.names, flat.shapes, strict=True)]
    return ", ".join(parts[:_NAMES]) + (f" and {len(parts) - _NAMES} more" if len(parts) > _NAMES else "")


class TransposedOperator(TreeOperator):
    """The transposed matrix of a real operator.

    Args:
      of: the operator.
    """

    def __init__(self, of: TreeOperator):
        self._of, self._inner, self._outer = of, of._outer, of._inner
        super().__init__(of.dtype, of.shape[::-1])

    def _matvec(self, v: np.ndarray) -> np.ndarray:
        return self._of.rmatvec(v)

    def _matmat(self, vs: np.ndarray) -> np.ndarray:
        return self._of.rmatmat(vs)

    def _rmatvec(self, u: np.ndarray) -> np.ndarray:
        return self._of.matvec(u)

    def _rmatmat(self, us: np.ndarray) -> np.ndarray:
        return self._of.matmat(us)

    def _adjoint(self) -> TreeOperator:
        return self._of

    _transpose = _adjoint


class PointOperator(TreeOperator):
    """A matrix A(x), given by its products, at a point that `update` moves; see `PreparedOperator`."""

    damping: float
    block: int
    products: int
    updates: int
    seconds: float
    x: np.ndarray
    value: Any
    gradient: np.ndarray | None
    _x: Flat

    def __init__(self, dtype: np.dtype, shape: tuple[int, int]):
        self.products, self.updates, self.seconds = 0, 0, 0.0
        self._lock = new_lock()
        super().__init__(dtype, shape)

    def update(self, x: Any, *data: Any, check: bool = False) -> tuple[Any, np.ndarray | None]:
        """Moves to another point, and returns the value and the gradient there."""
        raise NotImplementedError

    # Solvers pass the point with each call. The operator moves only if the point is another one, so calls at one point
    # share work.

    def fun(self, x: np.ndarray) -> Any:
        """The value at x: a number, or the results as one vector."""
        self._move(x)
        return self.value

    def at(self, x: np.ndarray) -> OperatorAt:
        """The matrix at x, for solvers that use it after they have moved to other points."""
        return OperatorAt(self._standing, x)

    def objective(self, x: np.ndarray) -> tuple[Any, np.ndarray]:
        """The value and the gradient at x, for optimisers (`jac=True`)."""
        self._move(x)
        return self.value, self.jac(x)

    def jac(self, x: np.ndarray) -> np.ndarray:
        """The gradient at x. The caller may change it."""
        self._move(x)
        if self.gradient is None:
            raise TraceError("jac requires a module whose update gives the gradient, got one without.")
        return self.gradient.copy()

    def hess(self, x: np.ndarray) -> Any:
        """The matrix at x, as `matrix` returns it."""
        self._move(x)
        return self.matrix()

    def hessp(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """The product with v at x."""
        self._move(x)
        return self.matvec(np.asarray(v))

    def matrix(self) -> Any:
        """The matrix with its damping."""
        return self.to_dense()

    def __repr__(self) -> str:
        """The class, shape and dtype, the value and gradient norm at the point, the order of vectors, and the counts."""
        parts = [f"{self.shape[0]}x{self.shape[1]}, {self.dtype}"]
        value = getattr(self, "value", None)
        if isinstance(value, (int, float)):
            parts.append(f"value {float(value):.6g}")
        gradient = getattr(self, "gradient", None)
        if gradient is not None:
            parts.append(f"|gradient| {np.linalg.norm(gradient):.3g}")
        if len(self.names) > 1:
            parts.append(f"order {order_of(self._inner)}")
        parts.append(f"{self.products} products, {self.updates} updates in {self.seconds:.3g} s")
        return f"{type(self).__name__}({', '.join(parts)})"

    def _standing(self, x: np.ndarray) -> PointOperator:
        self._move(x)
        return self

    def _move(self, x: np.ndarray) -> None:
        point = rounded(x, self._x.dtype, "x")
        if point.shape != self.x.shape:
            raise ShapeError(f"an operator requires a point of shape {self.x.shape}, got {point.shape}.")
        if not is_same(point, self.x):
            self.update(point)

    def to_dense(self) -> np.ndarray:
        """The matrix."""
        return self.matmat(np.eye(self.shape[1], dtype=self.dtype))

    def _timed(self, function: Any, *args: Any) -> Any:
        start = time.perf_counter()
        result = function(*args)
        with self._lock:
            self.seconds += time.perf_counter() - start
        return result


class OperatorAt(TreeOperator):
    """A matrix at a point. Products use the operator that is prepared there.

    Args:
      standing: a function that returns the operator at a point.
      x: the point, a flat vector.
    """

    x: np.ndarray

    def __init__(self, standing: Callable[[np.ndarray], PointOperator], x: np.ndarray):
        self.x, self._standing = np.array(x), standing
        operator = standing(self.x)
        self._inner, self._outer = operator._inner, operator._outer
        super().__init__(operator.dtype, operator.shape)

    def _matvec(self, v: np.ndarray) -> np.ndarray:
        return self._standing(self.x).matvec(v)

    def _matmat(self, vs: np.ndarray) -> np.ndarray:
        return self._standing(self.x).matmat(vs)

    def _rmatvec(self, u: np.ndarray) -> np.ndarray:
        return self._standing(self.x).rmatvec(u)

    def _rmatmat(self, us: np.ndarray) -> np.ndarray:
        return self._standing(self.x).rmatmat(us)
