"""What operators at a point have in common: vectors and trees, the point of an optimiser, counts and times."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from nabla_mlir.conversion import rounded
from nabla_mlir.errors import DtypeError
from nabla_mlir.runtime.array import dtype_named
from nabla_mlir.runtime.manifest import Leaf
from nabla_mlir.runtime.treespec import TreeSpec

try:
    from scipy.sparse.linalg import LinearOperator
except ImportError as error:  # pragma: no cover
    raise ImportError("operators require SciPy: pip install scipy") from error


class Flat:
    """Trees of one structure as vectors, leaf after leaf."""

    def __init__(self, spec: TreeSpec, leaves: Sequence[Leaf]):
        self.spec, self.shapes = spec, [leaf.shape for leaf in leaves]
        dtypes = {leaf.dtype for leaf in leaves}
        if len(dtypes) != 1:
            raise DtypeError(f"an operator requires leaves of one dtype, got {', '.join(sorted(dtypes))}.")
        self.dtype = dtype_named(dtypes.pop())
        self.sizes = [int(np.prod(shape, dtype=int)) for shape in self.shapes]
        self.size = sum(self.sizes)

    def leaves(self, vector: np.ndarray, batch: tuple[int, ...] = ()) -> list[np.ndarray]:
        """The arrays of a vector of this dtype, or of several along a leading axis."""
        array = np.ascontiguousarray(vector)
        parts = np.split(array, np.cumsum(self.sizes)[:-1], axis=-1)
        return [np.ascontiguousarray(p).reshape(batch + s) for p, s in zip(parts, self.shapes, strict=True)]

    def vector(self, leaves: Sequence[Any], batch: tuple[int, ...] = ()) -> np.ndarray:
        """The vector of arrays."""
        parts = [np.asarray(leaf, self.dtype).reshape(*batch, -1) for leaf in leaves]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)


class PointOperator(LinearOperator):
    """A matrix A(x) that is known by its products, at a point that `update` moves; see `PreparedOperator`."""

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
        self._lock = threading.Lock()
        super().__init__(dtype, shape)

    def update(self, x: Any, *data: Any, check: bool = False) -> tuple[Any, np.ndarray | None]:
        """Moves to another point; returns the value and the gradient there."""
        raise NotImplementedError

    def objective(self, x: np.ndarray) -> tuple[Any, np.ndarray]:
        """The value and the gradient at x, for optimisers (`jac=True`); moves there if it is another point."""
        self._move(x)
        assert self.gradient is not None
        return self.value, self.gradient

    def hessp(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """The product at x, for optimisers; moves there if it is another point."""
        self._move(x)
        return self.matvec(np.asarray(v))

    def _move(self, x: np.ndarray) -> None:
        point = rounded(x, self._x.dtype, "x")
        if not np.array_equal(point, self.x):
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


def as_complex(real: np.ndarray, imaginary: np.ndarray) -> np.ndarray:
    """The complex numbers of two real parts, of no wider a dtype than they need."""
    out = np.empty(real.shape, np.result_type(np.complex64, real.dtype if real.dtype.kind == "f" else np.float32))
    out.real, out.imag = real, imaginary
    return out


def is_finite(value: Any) -> bool:
    """Whether all numbers of a result are."""
    if isinstance(value, dict):
        return all(map(is_finite, value.values()))
    if isinstance(value, (tuple, list)):
        return all(map(is_finite, value))
    return bool(np.all(np.isfinite(value)))
