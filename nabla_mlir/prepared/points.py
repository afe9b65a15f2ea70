"""The base class of operators at a point: solvers move the point; products and times are counted."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from nabla_mlir.base.conversion import rounded
from nabla_mlir.base.errors import ShapeError, TraceError
from nabla_mlir.base.locks import new_lock
from nabla_mlir.prepared.flat import Flat, is_same

try:
    from scipy.sparse.linalg import LinearOperator
except ImportError as error:  # pragma: no cover
    raise ImportError("operators require SciPy: pip install scipy") from error


class PointOperator(LinearOperator):
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
        """The class, shape and dtype, the value and gradient norm at the point, and the counts."""
        parts = [f"{self.shape[0]}x{self.shape[1]}, {self.dtype}"]
        value = getattr(self, "value", None)
        if value is not None and np.ndim(value) == 0:
            parts.append(f"value {float(value):.6g}")
        gradient = getattr(self, "gradient", None)
        if gradient is not None:
            parts.append(f"|gradient| {np.linalg.norm(gradient):.3g}")
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


class OperatorAt(LinearOperator):
    """A matrix at a point. Products use the operator that is prepared there.

    Args:
      standing: a function that returns the operator at a point.
      x: the point, a flat vector.
    """

    x: np.ndarray

    def __init__(self, standing: Callable[[np.ndarray], PointOperator], x: np.ndarray):
        self.x, self._standing = np.array(x), standing
        operator = standing(self.x)
        super().__init__(operator.dtype, operator.shape)

    def _matvec(self, v: np.ndarray) -> np.ndarray:
        return self._standing(self.x).matvec(v)

    def _matmat(self, vs: np.ndarray) -> np.ndarray:
        return self._standing(self.x).matmat(vs)

    def _rmatvec(self, u: np.ndarray) -> np.ndarray:
        return self._standing(self.x).rmatvec(u)

    def _rmatmat(self, us: np.ndarray) -> np.ndarray:
        return self._standing(self.x).rmatmat(us)
