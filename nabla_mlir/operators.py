"""Prepared products as linear operators of SciPy: flat vectors in and out, counted and timed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from nabla_mlir import pytree
from nabla_mlir.errors import DtypeError, NablaError, TraceError
from nabla_mlir.prepared import BLOCK, Prepared, hvp_module, jacobian_module
from nabla_mlir.runtime import Executable
from nabla_mlir.stages import Compiled, Entry
from nabla_mlir.targets import Target

try:
    from scipy.sparse.linalg import LinearOperator
except ImportError as error:  # pragma: no cover
    raise ImportError("operators require SciPy: pip install scipy") from error


_USED = ("update", "apply", "apply_block", "is_finite", "self_check")  # entry points; fewer compile faster


class StalePointError(NablaError, RuntimeError):
    """A product was computed at another point than that of the operator's last update."""


class NotFiniteError(NablaError, FloatingPointError):
    """NaN or infinity at the point of an update."""


class _Flat:
    """Pytrees of one structure as vectors, leaf after leaf."""

    def __init__(self, like: Any):
        leaves, self.spec = pytree.flatten(like)
        self.shapes = [tuple(leaf.shape) for leaf in leaves]
        dtypes = {np.dtype(leaf.dtype) for leaf in leaves}
        if len(dtypes) != 1:
            raise DtypeError(f"an operator requires leaves of one dtype, got {', '.join(sorted(map(str, dtypes)))}.")
        (self.dtype,) = dtypes
        self.sizes = [int(np.prod(shape, dtype=int)) for shape in self.shapes]
        self.size = sum(self.sizes)

    def tree(self, vector: Any, batch: tuple[int, ...] = ()) -> Any:
        """The pytree of a vector, or of several along a leading axis."""
        array = np.ascontiguousarray(vector, self.dtype)
        parts = np.split(array, np.cumsum(self.sizes)[:-1], axis=-1)
        leaves = [np.ascontiguousarray(p).reshape(batch + s) for p, s in zip(parts, self.shapes, strict=True)]
        return pytree.unflatten(self.spec, leaves)

    def vector(self, tree: Any, batch: tuple[int, ...] = ()) -> np.ndarray:
        """The vector of a pytree; a vector is returned as it is."""
        if isinstance(tree, np.ndarray) and tree.shape == (*batch, self.size):
            return tree.astype(self.dtype, copy=False)
        leaves = pytree.flatten_like(self.spec, tree, "an argument of an operator", "its arguments")
        parts = [np.asarray(leaf, self.dtype).reshape(*batch, -1) for leaf in leaves]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)


class PreparedOperator(LinearOperator):
    """A matrix A(x) that is known by its products, at the point of the last `update`.

    Attributes:
      x, data: the point, as a vector, and the other arguments.
      value, gradient: the by-products of the last update: a number (or an array) and a vector.
      version: how often the point has been moved.
      products, updates: how many vectors were multiplied and how often the point was moved.
      seconds: the time that both took.
      damping: a number that is added to the diagonal.

    Threads: any number may multiply at the same time; the calls are put in a row. A product that meets an update of
    another thread raises StalePointError. Give each thread a `clone` to let them run side by side.
    """

    def __init__(self, compiled: Compiled, x: Any, data: tuple[Any, ...], damping: float, executable: Any = None):
        self._compiled, self.data = compiled, data
        self._executable: Executable = executable or Executable.load(compiled.vmfb, compiled.driver)
        self._entries = {entry.name: entry for entry in compiled.entries}
        self._x = _Flat(pytree.unflatten(self._argument("update").spec, self._argument("update").specs))
        self._v = self._of("apply")
        self.block = self._entries["apply_block"].inputs[0].shape[0] if "apply_block" in self._entries else 1
        self.damping = damping
        self.products, self.updates, self.seconds, self.version = 0, 0, 0.0, 0
        self._lock = threading.Lock()
        rows = self._out("apply")
        super().__init__(self._v.dtype, (rows.size, self._v.size))
        self._rows = rows
        self.update(x, *data)

    # ------------------------------------------------------------ the point

    def update(self, x: Any, *data: Any, check: bool = False) -> tuple[Any, np.ndarray | None]:
        """Moves to another point; returns the value and the gradient there.

        Args:
          x: a pytree or a flat vector.
          data: the other arguments; those of the last update if none are given.
          check: raise NotFiniteError if the value, the gradient or the linearisation is not finite.
        """
        data = data or self.data
        point = self._x.tree(x) if isinstance(x, np.ndarray) and x.ndim == 1 else x
        result = self._call("update", point, *data)
        leaves = pytree.flatten(result)[0]
        with self._lock:
            self.data, self.updates, self.version = data, self.updates + 1, leaves[0].version
            self.x = self._x.vector(point).copy()
            self.value = _plain(result["value"])
            self.gradient = self._x.vector(result["gradient"]).copy() if "gradient" in result else None
        if check:
            self._check_finite()
        return self.value, self.gradient

    def _check_finite(self) -> None:
        named = {"value": self.value, "gradient": self.gradient, "point": self.x}
        bad = [n for n, a in named.items() if a is not None and not np.all(np.isfinite(pytree.flatten(a)[0][0]))]
        if "is_finite" in self._entries and not bool(self._call("is_finite")):
            bad.append("linearisation")
        if bad:
            raise NotFiniteError(
                f"update requires finite numbers, got NaN or infinity in the {', '.join(bad)}.",
                help="look at the point and the data; the next update starts afresh.",
            )

    def objective(self, x: np.ndarray) -> tuple[Any, np.ndarray]:
        """The value and the gradient at x, for optimisers (`jac=True`); moves there if it is another point."""
        if not np.array_equal(x, self.x):
            self.update(np.asarray(x))
        assert self.gradient is not None
        return self.value, self.gradient

    def hessp(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """The product at x, for optimisers; moves there if it is another point."""
        if not np.array_equal(x, self.x):
            self.update(np.asarray(x))
        return self.matvec(np.asarray(v))

    # ------------------------------------------------------------ products

    def apply(self, v: Any) -> Any:
        """The product with a pytree (without damping), as arrays of the device that know their version."""
        return self._product("apply", v, 1)

    def _matvec(self, v: np.ndarray) -> np.ndarray:
        return self._flat_product("apply", self._v, self._rows, v)

    def _matmat(self, vs: np.ndarray) -> np.ndarray:
        return self._columns("apply", self._v, self._rows, vs)

    def _flat_product(self, name: str, inner: _Flat, outer: _Flat, v: np.ndarray) -> np.ndarray:
        v = np.asarray(v).reshape(-1)
        result = outer.vector(self._product(name, inner.tree(v), 1))
        return result + self.damping * v if self.damping else np.array(result)

    def _columns(self, name: str, inner: _Flat, outer: _Flat, vs: np.ndarray) -> np.ndarray:
        """Blocks of columns; the last one is filled up with zeros, or taken one by one if it is nearly empty."""
        rows, block = np.ascontiguousarray(vs.T), self.block
        out = np.empty((len(rows), outer.size), outer.dtype)
        start = 0
        while start < len(rows):
            left = len(rows) - start
            if block == 1 or 4 * left <= block:
                out[start] = outer.vector(self._product(name, inner.tree(rows[start]), 1))
                start += 1
                continue
            count = min(left, block)
            part = np.zeros((block, inner.size), inner.dtype)
            part[:count] = rows[start : start + count]
            result = self._product(f"{name}_block", inner.tree(part, (block,)), count)
            out[start : start + count] = outer.vector(result, (block,))[:count]
            start += count
        return out.T + self.damping * vs if self.damping else out.T

    def _product(self, name: str, v: Any, count: int) -> Any:
        result = self._call(name, v)
        version = pytree.flatten(result)[0][0].version
        with self._lock:
            self.products += count
        if version != self.version:
            raise StalePointError(
                f"a product requires the point of the operator's update {self.version}, got that of {version}.",
                help="another thread has moved the point: give each thread a clone().",
            )
        return result

    def to_dense(self) -> np.ndarray:
        """The matrix."""
        return self.matmat(np.eye(self.shape[1], dtype=self.dtype))

    def self_check(self) -> dict[str, float]:
        """The errors of the products at this point, and those that are expected; see `nm.hvp_module`."""
        return {name: float(x) for name, x in self._call("self_check").items()}

    def clone(self) -> Any:
        """An operator at the same point with a state of its own; code and constants are shared."""
        return type(self)._from(self._compiled, self.x, self.data, self.damping, self._executable.clone())

    @classmethod
    def _from(cls, *parts: Any) -> Any:
        new = cls.__new__(cls)
        PreparedOperator.__init__(new, *parts)
        return new

    # ------------------------------------------------------------ calls

    def _call(self, name: str, *args: Any) -> Any:
        if name not in self._entries:
            raise TraceError(f"this operator requires the entry point {name}, got {', '.join(self._entries)}.")
        entry = self._entries[name]
        start = time.perf_counter()
        result = pytree.unflatten(entry.out_spec, self._executable.function(name)(entry.flatten(args, {})))
        with self._lock:
            self.seconds += time.perf_counter() - start
        return result

    def _argument(self, name: str) -> Any:
        return _Argument(self._entries[name])

    def _of(self, name: str) -> _Flat:
        argument = self._argument(name)
        return _Flat(pytree.unflatten(argument.spec, argument.specs))

    def _out(self, name: str) -> _Flat:
        entry = self._entries[name]
        return _Flat(pytree.unflatten(entry.out_spec, entry.outputs))


class _Argument:
    """The first argument of an entry point."""

    def __init__(self, entry: Entry):
        self.spec = entry.in_spec.children()[0]
        self.specs = entry.inputs[: self.spec.num_leaves]


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") and not value.shape else value


def _compiled(source: Any, module: Callable[[], Prepared], target: str | Target) -> Compiled:
    if isinstance(source, Compiled):
        return source
    return (source if isinstance(source, Prepared) else module()).compile(target)


class HessianOperator(PreparedOperator):
    """The Hessian of a scalar function as a `scipy.sparse.linalg.LinearOperator`.

    Args:
      source: the function, or what `hvp_module`, `ggnvp_module`, `fisher_module` or `empirical_fisher_module` made, or
        that compiled.
      x: the first point, a pytree; products take and give flat vectors, leaf after leaf.
      data: the other arguments of the function.
      block: how many columns of a matrix are multiplied at once.
      damping: a number that is added to the diagonal: ``H + damping * I``.
      target: where it runs.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> H = nm.HessianOperator(lambda x: (x ** 3).sum(), np.array([1.0, 2.0]), damping=0.5)
      >>> (H @ np.array([1.0, 1.0])).tolist(), H.value
      ([6.5, 12.5], 9.0)
    """

    def __init__(
        self, source: Any, x: Any, *data: Any, block: int = BLOCK, damping: float = 0.0, target: str | Target = "cpu"
    ):
        made = lambda: hvp_module(source, x, *data, block=block, entry_points=_USED)  # noqa: E731
        compiled = _compiled(source, made, target)
        super().__init__(compiled, x, data, damping)

    def _adjoint(self) -> HessianOperator:
        return self

    _transpose = _adjoint


class JacobianOperator(PreparedOperator):
    """The Jacobian of a function as a `scipy.sparse.linalg.LinearOperator`, its transpose included.

    The arguments are those of `HessianOperator`; the source may be what `jacobian_module` made.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> J = nm.JacobianOperator(lambda x: x * x, np.array([1.0, 2.0]))
      >>> (J.T @ np.array([1.0, 1.0])).tolist()
      [2.0, 4.0]
    """

    def __init__(self, source: Any, x: Any, *data: Any, block: int = BLOCK, target: str | Target = "cpu"):
        used = (*_USED, "apply_transposed", "apply_transposed_block")
        compiled = _compiled(source, lambda: jacobian_module(source, x, *data, block=block, entry_points=used), target)
        super().__init__(compiled, x, data, 0.0)

    def _rmatvec(self, u: np.ndarray) -> np.ndarray:
        return self._flat_product("apply_transposed", self._rows, self._v, u)

    def _rmatmat(self, us: np.ndarray) -> np.ndarray:
        return self._columns("apply_transposed", self._rows, self._v, us)
