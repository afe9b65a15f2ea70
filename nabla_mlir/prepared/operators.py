"""Prepared products as linear operators of SciPy, with flat vectors, counts and times."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import coo_matrix, csc_matrix, csr_matrix, identity

from nabla_mlir.base import thresholds
from nabla_mlir.base.conversion import rounded
from nabla_mlir.base.errors import DtypeError, NablaError, NotFiniteError, PatternError, TraceError
from nabla_mlir.base.typing import PyTree
from nabla_mlir.prepared.flat import Flat, is_finite, joined, plain
from nabla_mlir.prepared.points import PointOperator, TransposedOperator
from nabla_mlir.prepared.sources import Source, prepared_module
from nabla_mlir.runtime import Module
from nabla_mlir.runtime.array import Array
from nabla_mlir.runtime.manifest import EntryPoint
from nabla_mlir.targets import Target

_FORMATS: dict[str, tuple[Any, tuple[str, str]]] = {
    "csr": (csr_matrix, ("starts", "indices")),
    "csc": (csc_matrix, ("starts", "indices")),
    "coo": (coo_matrix, ("rows", "columns")),
}
# The entry points that operators use; fewer entry points compile faster.
_USED = ("update", "apply", "apply_block", "is_finite", "self_check")


class StalePointError(NablaError, RuntimeError):
    """The error of a product that was computed at another point than that of the operator's last update."""


class PreparedOperator(PointOperator):
    """A matrix A(x), given by its products, at the point of the last `update`.

    Attributes:
      x, data: the point, as a vector, and the other arguments.
      value, gradient: the by-products of the last update: a number (or an array) and a vector.
      version: the number of moves of the point.
      products, updates: the number of multiplied vectors, and of moves of the point.
      seconds: the time of both.
      damping: a number that is added to the diagonal.

    Vectors and matrices of another dtype than the operator's, for example float32, are accepted as SciPy's solvers need it:

    ==================  ==============================================================================================
    given               what happens
    ==================  ==============================================================================================
    wider floats        are rounded, in `matvec`, `matmat`, `rmatvec`, `rmatmat`, `hessp` and in a flat point of
                        `update`; a finite number beyond float32's range is refused
    narrower floats,    are converted, which is exact
    truth values
    integers            are converted where float32 holds all integers of that size, else refused
    complex numbers     in products: two real products, of the real and of the imaginary parts, with a complex result;
                        refused as the point of `update`
    pytrees             in `apply` and `update`: the arrays have the shapes and dtypes it was compiled for, or are refused
    ==================  ==============================================================================================

    Threads: any number of threads may multiply; their calls wait for each other. A product during an update by another thread
    raises StalePointError. To run threads in parallel, give each a `clone`.

    It can be pickled and copied: the code, the point and the data are sent, and the receiver computes the state again.
    """

    data: tuple[Any, ...]
    _data_leaves: Sequence[Any] | None  # an argument like that of `update`
    version: int | None
    x: np.ndarray
    value: Any
    gradient: np.ndarray | None
    damping: float
    block: int

    def __init__(self, module: Module, x: Any, data: tuple[Any, ...], damping: float):
        """Reads the structures of the vectors from the entry points of the module, and moves it to the first point."""
        if np.iscomplexobj(damping):
            raise DtypeError(f"damping requires a real number, got {damping!r}.")
        self._module, self._specs, self.data, self.damping = module, module.entry_points, data, float(damping)
        update, apply = self._spec("update").arguments[0], self._spec("apply")
        self._x, self._inner = Flat(update.tree, update.leaves), Flat(apply.arguments[0].tree, apply.arguments[0].leaves)
        self._outer = Flat(apply.result, apply.result_leaves)
        blocks = self._specs.get("apply_block")
        self.block = blocks.arguments[0].leaves[0].shape[0] if blocks else 1
        self.version, self._data_leaves = 0, None
        self._positions: tuple[np.ndarray, ...] = ()  # the index arrays of the entries of `matrix`
        self._cells: np.ndarray | None = None  # the same indices in a flat array of all elements
        super().__init__(self._outer.dtype, (self._outer.size, self._inner.size))
        self.update(x, *data)

    @property
    def module(self) -> Module:
        """The module that runs."""
        return self._module

    # ------------------------------------------------------------ the point

    def update(self, x: PyTree, *data: PyTree, check: bool = False) -> tuple[Any, np.ndarray | None]:
        """Moves the operator to another point, and returns the value and the gradient there.

        Args:
          x: a pytree or a flat vector.
          data: the other arguments; by default those of the last update.
          check: True raises NotFiniteError if the value, the gradient or the linearisation is not finite.
        """
        has_other_data = bool(data) or self._data_leaves is None
        data = data or self.data
        spec, is_vector = self._spec("update"), isinstance(x, np.ndarray) and x.shape == (self._x.size,)
        name, entry = spec.arguments[0].name, self._module["update"]
        point = self._x.leaves(rounded(x, self._x.dtype, name)) if is_vector else self._x.spec.flatten(x, name)
        is_known = is_vector and not has_other_data
        leaves = [*point, *(self._data_leaves or ())] if is_known else entry.leaves(self._x.spec.unflatten(point), *data)
        results = self._timed(entry.run, leaves)
        result = spec.result.unflatten(results)
        gradient = result.get("gradient")
        with self._lock:
            self.data, self._data_leaves, self.updates = data, leaves[len(point) :], self.updates + 1
            self.version = results[0].version
            self.x = self._x.vector(point)
            self.value = plain(result["value"])
            self.gradient = None if gradient is None else self._x.vector(self._x.spec.flatten(gradient))
        if check:
            self._check_finite()
        return self.value, self.gradient

    def forget_data(self) -> None:
        """Frees the data, which the state does not need. The next update needs them again."""
        self.data, self._data_leaves = (), None

    def _check_finite(self) -> None:
        """Raises NotFiniteError if the value, the gradient, the point or the linearisation is not finite."""
        parts = {"value": self.value, "gradient": self.gradient, "point": self.x}
        bad = [n for n, a in parts.items() if a is not None and not is_finite(a)]
        if "is_finite" in self._specs and not bool(self._module["is_finite"]()):
            bad.append("linearisation")
        if bad:
            raise NotFiniteError(
                f"update requires finite numbers, got NaN or infinity in the {', '.join(bad)}.",
                help="check the point and the data; the next update computes everything again.",
            )

    def matrix(self) -> Any:
        """The matrix with its damping. It is of `scipy.sparse` if the module has the entry point `matrix`, and dense otherwise."""
        if "matrix" not in self._specs:
            return self.to_dense()
        form, (first, second) = self._form()
        positions = ((first, second),) if form == "coo" else (second, first)
        matrix = _FORMATS[form][0]((self._matrix_entries(), *positions), shape=self.shape)
        return (matrix + self.damping * identity(len(self.x))).asformat(form) if self.damping else matrix

    def to_dense(self) -> np.ndarray:
        """The matrix as an array, from its entries if the module has them, and from products otherwise."""
        if "matrix" not in self._specs:
            return super().to_dense()
        if self._cells is None:
            form, (first, second) = self._form()
            outer = first if form == "coo" else np.repeat(np.arange(len(first) - 1), np.diff(first))
            rows, columns = (second, outer) if form == "csc" else (outer, second)
            self._cells = np.ravel_multi_index((rows, columns), self.shape)
        out = np.zeros(self.shape, self.dtype)
        out.reshape(-1)[self._cells] = self._matrix_entries()
        if self.damping:
            np.einsum("ii->i", out)[...] += self.damping
        return out

    def _form(self) -> tuple[str, tuple[np.ndarray, ...]]:
        """The format of the entries of the entry point `matrix`, and its index arrays: starts and indices, or rows and columns."""
        sparsity = self._specs["matrix"].sparsity
        if sparsity is None or sparsity.format not in _FORMATS:
            raise PatternError(
                f"matrix requires entries in the order of {', '.join(_FORMATS)}, got those of "
                f"{None if sparsity is None else sparsity.format}."
            )
        names = _FORMATS[sparsity.format][1]
        self._positions = self._positions or tuple(np.asarray(sparsity.indices[name], np.int32) for name in names)
        return sparsity.format, self._positions

    def _matrix_entries(self) -> np.ndarray:
        """The nonzero entries of the matrix at the current point, without damping, in the order of the format."""
        return np.array(self._product("matrix", (), 0)[0])

    # ------------------------------------------------------------ products

    def apply(self, v: PyTree) -> PyTree:
        """The product with a pytree (without damping), as arrays of the device with the version of the point."""
        return self._outer.spec.unflatten(self._product("apply", self._module["apply"].leaves(v), 1))

    def _matvec(self, v: np.ndarray) -> np.ndarray:
        return self._vector("apply", self._inner, self._outer, v)

    def _matmat(self, vs: np.ndarray) -> np.ndarray:
        return self._columns("apply", self._inner, self._outer, vs)

    def _vector(self, name: str, inner: Flat, outer: Flat, v: np.ndarray) -> np.ndarray:
        """The product, plus damping, with a real or complex vector by the entry point `name`.

        `inner` and `outer` convert the vectors of the argument and of the result to pytrees and back.
        """
        v = np.asarray(v).reshape(-1)
        if v.dtype.kind == "c" and inner.dtype.kind != "c":
            return joined(*(self._vector(name, inner, outer, part) for part in (v.real, v.imag)))
        v = rounded(v, inner.dtype, "v")
        result = outer.vector(self._product(name, inner.leaves(v), 1))
        return result + self.damping * v if self.damping else result

    def _columns(self, name: str, inner: Flat, outer: Flat, vs: np.ndarray) -> np.ndarray:
        """The products with the columns of a matrix, in blocks, by the entry point `name`, plus damping times the matrix.

        The last block is padded with zeros; if it is nearly empty, its columns are multiplied one by one. `inner` and `outer`
        convert the vectors of the argument and of the result to pytrees and back.
        """
        if vs.dtype.kind == "c" and inner.dtype.kind != "c":
            both = self._columns(name, inner, outer, np.concatenate([vs.real, vs.imag], axis=1))
            return joined(*np.split(both, 2, axis=1))
        vs = rounded(vs, inner.dtype, "the matrix")
        rows, block = np.ascontiguousarray(vs.T), self.block
        out = np.empty((len(rows), outer.size), outer.dtype)
        start = 0
        while start < len(rows):
            left = len(rows) - start
            if block == 1 or 4 * left <= block:
                out[start] = outer.vector(self._product(name, inner.leaves(rows[start]), 1))
                start += 1
                continue
            count = min(left, block)
            part = np.zeros((block, inner.size), inner.dtype)
            part[:count] = rows[start : start + count]
            result = self._product(f"{name}_block", inner.leaves(part, (block,)), count)
            out[start : start + count] = outer.vector(result, (block,))[:count]
            start += count
        return out.T + self.damping * vs if self.damping else out.T

    def _product(self, name: str, leaves: Sequence[Any], count: int) -> list[Array]:
        """The results of an entry point for the arrays `leaves`; raises StalePointError if the module has moved to another point.

        `count` is the number of vectors that are multiplied, for the statistics.
        """
        self._spec(name)
        results = self._timed(self._module[name].run, leaves)
        version = results[0].version
        with self._lock:
            self.products += count
        if version not in (self.version, None):  # None: the entry point does not depend on the point
            raise StalePointError(
                f"a product requires the point of the operator's update {self.version}, got that of {version}.",
                help="another thread has moved the point: give each thread a clone().",
            )
        return results

    def self_check(self) -> dict[str, float]:
        """The errors of the products at this point, and the expected errors; see `nm.hvp_module`."""
        self._spec("self_check")
        return {name: float(x) for name, x in self._timed(self._module["self_check"]).items()}

    def clone(self, x: Any = None) -> Any:
        """An operator with its own state, which shares code and constants.

        Args:
          x: its point, a pytree or a flat vector; None means the same point.
        """
        return _at(type(self), self._module.clone(), self.x if x is None else x, self.data, self.damping)

    __copy__ = clone

    def __reduce__(self) -> tuple[Any, ...]:
        """The recipe of pickle: a function and its arguments. The receiver computes the state again at this point."""
        return _at, (type(self), self._module, self.x, self.data, self.damping)

    def __dask_tokenize__(self) -> tuple[str, ...]:
        """A name that equal operators share, by which Dask computes equal tasks once: it has digests of code, point and data."""
        numbers = [self.x, *(np.asarray(leaf) for leaf in self._leaves_of_data())]
        digests = [hashlib.sha256(f"{a.dtype} {a.shape}".encode() + np.ascontiguousarray(a).tobytes()).hexdigest() for a in numbers]
        return f"nabla_mlir.{type(self).__name__}", self._module.digest, str(self.damping), *digests

    def _leaves_of_data(self) -> list[Any]:
        """The arrays of the arguments other than the point, in the order of the leaves."""
        arguments = self._spec("update").arguments[1:]
        return [leaf for a, tree in zip(arguments, self.data, strict=True) for leaf in a.tree.flatten(tree, a.name)]

    def _spec(self, name: str) -> EntryPoint:
        """The description of an entry point; raises TraceError if the module does not have it."""
        if name not in self._specs:
            raise TraceError(f"this operator requires the entry point {name}, got {', '.join(self._specs)}.")
        return self._specs[name]


def _at(kind: type[PreparedOperator], module: Module, x: Any, data: tuple[Any, ...], damping: float) -> Any:
    """A new operator of the class `kind`, moved to the point x with the data; it skips the `__init__` of the class."""
    new = kind.__new__(kind)
    PreparedOperator.__init__(new, module, x, data, damping)
    return new


class HessianOperator(PreparedOperator):
    """The Hessian of a scalar function as a `scipy.sparse.linalg.LinearOperator`.

    Args:
      source: the function; or a module from `hvp_module`, `ggnvp_module`, `fisher_module` or `empirical_fisher_module`,
        compiled or not; or an artifact of such a module, loaded or as a path, which runs without the compiler.
      x: the first point, a pytree. `H @ v` accepts a pytree v, and flat vectors in the order of `H.names`: a dict is ordered
        by its keys, not as it was written. `H.ravel(tree)` and `H.unravel(vector)` convert.
      data: the other arguments of the function.
      block: the number of columns of a matrix that are multiplied at once.
      damping: a number that is added to the diagonal: ``H + damping * I``.
      target: where it runs. With None it is interpreted until compiling for this CPU pays, like functions outside `jit`.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> H = nm.HessianOperator(lambda x: (x ** 3).sum(), np.array([1.0, 2.0]), damping=0.5)
      >>> (H @ np.array([1.0, 1.0])).tolist(), H.value
      ([6.5, 12.5], 9.0)
      >>> H = nm.HessianOperator(lambda p: p["w"].sum() * p["b"], {"w": np.ones(2), "b": np.array(3.0)})
      >>> H.names, H.ravel({"w": np.array([1.0, 2.0]), "b": np.array(5.0)}).tolist()
      (('b', 'w'), [5.0, 1.0, 2.0])
      >>> (H @ {"w": np.array([1.0, 2.0]), "b": np.array(5.0)})["w"].tolist()
      [5.0, 5.0]
    """

    def __init__(
        self,
        source: Source,
        x: PyTree,
        *data: PyTree,
        block: int = thresholds.BLOCK,
        damping: float = 0.0,
        target: str | Target | None = None,
    ):
        """Prepares the operator at the point x; the class describes the arguments."""
        module = prepared_module(source, "hvp_module", (x, *data), target, block=block, entry_points=_USED)
        super().__init__(module, x, data, damping)

    def _adjoint(self) -> HessianOperator:
        return self

    _transpose = _adjoint


class JacobianOperator(PreparedOperator):
    """The Jacobian of a function as a `scipy.sparse.linalg.LinearOperator`, its transpose included.

    The arguments are those of `HessianOperator`; the source may be a module from `jacobian_module`.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> J = nm.JacobianOperator(lambda x: x * x, np.array([1.0, 2.0]))
      >>> (J.T @ np.array([1.0, 1.0])).tolist()
      [2.0, 4.0]
    """

    def __init__(self, source: Source, x: PyTree, *data: PyTree, block: int = thresholds.BLOCK, target: str | Target | None = None):
        """Prepares the operator at the point x; the class describes the arguments."""
        points = (*_USED, "apply_transposed", "apply_transposed_block")
        module = prepared_module(source, "jacobian_module", (x, *data), target, block=block, entry_points=points)
        super().__init__(module, x, data, 0.0)

    def fun(self, x: np.ndarray) -> np.ndarray:
        """The results at x, such as the residuals of a problem, as one vector. The caller may change it."""
        self._move(x)
        return self._outer.vector(self._outer.spec.flatten(self.value))

    def jac(self, x: np.ndarray) -> Any:
        """The matrix at x, as `matrix` returns it."""
        self._move(x)
        return self.matrix()

    def objective(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Half the sum of squares of the results at x, and its gradient Jᵀ r."""
        residuals = self.fun(x)
        return 0.5 * float(residuals @ residuals), self.rmatvec(residuals)

    def hessp(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """The product with the Gauss-Newton matrix Jᵀ J of `objective` at x."""
        self._move(x)
        return self.rmatvec(self.matvec(np.asarray(v)))

    def _adjoint(self) -> Any:
        return super()._adjoint() if self.dtype.kind == "c" else TransposedOperator(self)

    def _transpose(self) -> Any:
        return super()._transpose() if self.dtype.kind == "c" else TransposedOperator(self)

    def to_dense(self) -> np.ndarray:
        """The matrix, from products with its columns or with its rows, whichever is cheaper."""
        m, n = self.shape
        if "matrix" in self._specs or n <= thresholds.PULLBACK_COST * m:
            return super().to_dense()
        return self.rmatmat(np.eye(m, dtype=self._outer.dtype)).T

    def _rmatvec(self, u: np.ndarray) -> np.ndarray:
        return self._vector("apply_transposed", self._outer, self._inner, u)

    def _rmatmat(self, us: np.ndarray) -> np.ndarray:
        return self._columns("apply_transposed", self._outer, self._inner, us)
