"""Functions of pytrees for solvers of SciPy: functions of flat vectors that compute everything at a point once."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from nabla_mlir.base import pytree, thresholds
from nabla_mlir.base.errors import DtypeError, PatternError, ShapeError, TraceError, user_frame
from nabla_mlir.base.exchange import readable
from nabla_mlir.base.typing import PyTree
from nabla_mlir.interop.vectors import Vectors
from nabla_mlir.prepared.flat import is_same
from nabla_mlir.prepared.instant import load_prepared
from nabla_mlir.prepared.modules import hvp_module, jacobian_module
from nabla_mlir.prepared.operators import HessianOperator, JacobianOperator, PreparedOperator
from nabla_mlir.prepared.points import OperatorAt
from nabla_mlir.prepared.sparse_modules import sparse_hessian_module, sparse_jacobian_module
from nabla_mlir.runtime import Module
from nabla_mlir.sparse import Pattern, hessian_pattern, jacobian_pattern
from nabla_mlir.staging.compiled import Compiled
from nabla_mlir.staging.specs import Spec
from nabla_mlir.staging.stages import Lowered, module, trace
from nabla_mlir.targets import Target
from nabla_mlir.transforms import value_and_grad

_NUMBERS = (int, float, np.number, np.bool_)
_ARTIFACTS = (Module, Compiled, Lowered, str, os.PathLike)
_PRODUCTS = ("update", "apply", "apply_block")


def start_of(who: str, x0: PyTree) -> Any:
    """The first point of a solver: integers and Python's numbers become float64, and lists of numbers become arrays, as in SciPy.

    Args:
      who: the name of the function for messages.
      x0: a pytree of real numbers.

    Raises:
      DtypeError: an array is not of real numbers.
      ShapeError: there is no number at all.
    """
    if isinstance(x0, (list, tuple)) and x0 and _is_plain(x0):
        x0 = np.array(x0, np.float64)
    leaves, spec = pytree.flatten(x0)
    arrays = []
    for leaf, path in zip(leaves, pytree.paths(spec), strict=True):
        array = np.asarray(readable(leaf))
        if array.dtype.kind in "iu":
            array = array.astype(np.float64)
        if array.dtype.kind not in "fV" or array.dtype.fields is not None:
            raise DtypeError(f"{who} requires x0{path} of real numbers, got {array.dtype}.", where=user_frame())
        arrays.append(array)
    if not sum(a.size for a in arrays):
        raise ShapeError(f"{who} requires x0 with numbers, got none.", where=user_frame())
    return pytree.unflatten(spec, arrays)


def _is_plain(x: Any) -> bool:
    """True for a number, and for a list or tuple of numbers, also nested; named tuples are not plain."""
    if isinstance(x, (list, tuple)):
        return not hasattr(x, "_fields") and all(map(_is_plain, x))
    return isinstance(x, _NUMBERS)


class Points:
    """Operators at the two points of a solver: the current point and the trial.

    After a rejected trial, nothing is computed again at the current point.

    Args:
      first: an operator.
    """

    def __init__(self, first: PreparedOperator):
        self._operators = [first]

    def at(self, x: np.ndarray) -> Any:
        """A Hessian operator at x: one that is already there, or otherwise one that is moved there.

        Args:
          x: a flat vector.
        """
        operator = self.find(x)
        if operator is not None:
            self._operators.remove(operator)
        elif len(self._operators) == 1:
            operator = self._operators[0].clone(np.array(x))
        else:
            operator = self._operators.pop(0)
            operator.fun(x)
        self._operators.append(operator)
        return operator

    def find(self, x: np.ndarray) -> Any:
        """The operator that is already at x; None if there is none.

        Args:
          x: a flat vector.
        """
        return next((op for op in self._operators if is_same(np.asarray(x, op.x.dtype), op.x)), None)


class Objective:
    """A scalar function with its derivatives, for a solver that works on flat vectors.

    Pass `fun`, `jac`, `hessp` and similar methods to any solver. Their common part at a point is computed once: the first call at a
    point computes the value and the gradient, and stores the residuals for products with the Hessian.

    Args:
      f: a scalar function of (x, *data); or an artifact, a path to one, or a stage from `nm.hvp_module` and similar functions.
      x0: a pytree: the shapes and dtypes of x, and the first point.
      data: more arguments.
      order: the highest derivative that the solver uses: 0, 1 or 2.
      form: the form of the Hessian: "products" for `hessp` and `operator`, "sparse" or "dense" also for `hess`; "auto" is sparse
        if the pattern has few entries, and products otherwise.
      target: where it runs. With None it is interpreted until compiling pays.

    Attributes:
      vectors: the flattening of pytrees.
      x0: the first point as a vector.
      form: the form of the Hessian.
      evaluations: the numbers of requests for the value, the gradient, the Hessian, and products with it.

    Raises:
      TraceError: the result of the function is not a floating-point scalar.

    Example:
      >>> import scipy.optimize
      >>> o = Objective(lambda x: ((x["a"] - 1.0) ** 2).sum() + x["b"] ** 4, {"a": np.zeros(2), "b": 0.5})
      >>> scipy.optimize.minimize(o.fun, o.x0, jac=o.jac, hessp=o.hessp, method="trust-ncg", tol=1e-8).x.round(2).tolist()
      [1.0, 1.0, 0.0]
    """

    vectors: Vectors
    x0: np.ndarray
    form: str
    evaluations: dict[str, int]

    def __init__(self, f: Any, x0: PyTree, *data: PyTree, order: int = 2, form: str = "auto", target: str | Target | None = None):
        """Compiles the function and its derivatives up to `order`, and chooses the form of the Hessian."""
        tree = start_of("an objective", x0)
        self.vectors, self._data = Vectors(tree), data
        self.x0 = self.vectors.vector(tree)
        self.evaluations = dict.fromkeys(("fun", "jac", "hess", "hessp"), 0)
        if isinstance(f, _ARTIFACTS):
            self.form, self._points = "products", Points(HessianOperator(f, tree, *data, target=target))
            return
        check_scalar("an objective", f, self.vectors.like, data, "for residuals there is nm.interop.scipy.least_squares.")
        if order < 2:
            self.form, self._first = "none", _FirstOrder(f, self.vectors, data, order, target)
            return
        self.form, stage = hessian_stage(f, (self.vectors.like, *data), form)
        self._points = Points(HessianOperator(stage, tree, *data, target=target))

    def fun(self, x: np.ndarray) -> float:
        """The value at x."""
        self.evaluations["fun"] += 1
        return self._first.fun(x) if self.form == "none" else self._points.at(x).value

    def jac(self, x: np.ndarray) -> np.ndarray:
        """The gradient at x, shape (n,)."""
        self.evaluations["jac"] += 1
        return np.asarray((self._first if self.form == "none" else self._points.at(x)).jac(x), np.float64)

    def hess(self, x: np.ndarray) -> Any:
        """The Hessian at x: of `scipy.sparse`, or dense, shape (n, n)."""
        self.evaluations["hess"] += 1
        return self._points.at(x).matrix()

    def dense(self, x: np.ndarray) -> np.ndarray:
        """The Hessian at x as an array, shape (n, n)."""
        self.evaluations["hess"] += 1
        return np.asarray(self._points.at(x).to_dense(), np.float64)

    def operator(self, x: np.ndarray) -> OperatorAt:
        """The Hessian at x as a `LinearOperator`, which stays at this point."""
        self.evaluations["hess"] += 1
        return OperatorAt(self._points.at, x)

    def hessp(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """The product of the Hessian at x with v, shape (n,)."""
        self.evaluations["hessp"] += 1
        return self._points.at(x).matvec(np.asarray(v))

    def known(self, x: np.ndarray) -> tuple[float, np.ndarray | None]:
        """The value and the gradient at a recent point; NaN and None if they are not known.

        Args:
          x: a flat vector.
        """
        if self.form == "none":
            point = self._first.find(x)
            return (np.nan, None) if point is None else point[1:]
        operator = self._points.find(x)
        return (np.nan, None) if operator is None else (operator.value, operator.gradient)


class _FirstOrder:
    """The value and the gradient, or only the value, at the last two points."""

    def __init__(self, f: Callable[..., Any], vectors: Vectors, data: tuple[Any, ...], order: int, target: str | Target | None):
        """Traces the function; values and gradients are computed when they are first requested."""
        stage = module(both=trace(value_and_grad(f) if order else lambda *args: (f(*args), ()), vectors.like, *data)).lower()
        self._entry = load_prepared(stage, "", (), target)["both"]
        first = vectors.tree(np.zeros(vectors.size))
        self._data_leaves = self._entry.leaves(first, *data)[len(vectors.specs) :]
        self._vectors, self.order = vectors, order
        self._points: list[tuple[np.ndarray, float, np.ndarray | None]] = []

    def fun(self, x: np.ndarray) -> float:
        """The value."""
        return self._at(x)[1]

    def jac(self, x: np.ndarray) -> np.ndarray:
        """The gradient at x, shape (n,); raises TraceError if the objective gives no gradient."""
        gradient = self._at(x)[2]
        if gradient is None:
            raise TraceError("jac requires an objective of order 1 or 2, got one of order 0.", where=user_frame())
        return gradient.copy()

    def find(self, x: np.ndarray) -> tuple[np.ndarray, float, np.ndarray | None] | None:
        """The point x, its value and its gradient if they are known."""
        return next((point for point in reversed(self._points) if is_same(point[0], x)), None)

    def _at(self, x: np.ndarray) -> tuple[np.ndarray, float, np.ndarray | None]:
        """The point x, its value and its gradient (None at order 0), which are computed if x is not one of the last two points."""
        point = self.find(x)
        if point is not None:
            return point
        value, *gradient = self._entry.run([*self._vectors.leaves(x), *self._data_leaves])
        point = np.array(x), float(value), self._vectors.joined(gradient) if self.order else None
        self._points = [*self._points[-1:], point]
        return point


class Residuals:
    """A function of a pytree with its Jacobian, for a solver that works on flat vectors.

    Args:
      f: a function of (x, *data) with a pytree of arrays as its result.
      x0: a pytree: the shapes and dtypes of x, and the first point.
      data: more arguments.
      form: the form of the Jacobian of `jac`: "dense", "sparse" or "operator"; "auto" is sparse if the pattern has few entries,
        and dense otherwise; "none" means that it is not used.
      target: where it runs. With None it is interpreted until compiling pays.

    Attributes:
      vectors, rows: the flattenings of x and of the results.
      x0: the first point as a vector.
      form: the form of the Jacobian.
      pattern: the positions of its entries; None for an operator.
      evaluations: the numbers of requests for the results and the Jacobian.

    Example:
      >>> r = Residuals(lambda x: {"a": x[:1] * 10.0, "b": x * 2.0 - 4.0}, [1.0, 1.0])
      >>> r.fun(r.x0).tolist(), r.jac(r.x0).tolist()
      ([10.0, -2.0, -2.0], [[10.0, 0.0], [2.0, 0.0], [0.0, 2.0]])
    """

    vectors: Vectors
    rows: Vectors
    x0: np.ndarray
    form: str
    pattern: Pattern | None
    evaluations: dict[str, int]

    def __init__(self, f: Callable[..., Any], x0: PyTree, *data: PyTree, form: str = "auto", target: str | Target | None = None):
        """Compiles the function and its Jacobian in the requested form; "auto" chooses the form from the pattern."""
        tree = start_of("a problem", x0)
        self.vectors, self._data = Vectors(tree), data
        self.x0 = self.vectors.vector(tree)
        specs = (self.vectors.like, *data)
        entry = trace(f, *specs).entries[0]
        self.rows = Vectors(pytree.unflatten(entry.out_spec, entry.outputs))
        self.evaluations = {"fun": 0, "jac": 0}
        self.pattern = None if form in ("operator", "none") else _find_pattern(jacobian_pattern, f, specs, form == "auto")
        if form == "none":
            self.form, self._values = form, load_prepared(module(value=trace(f, *specs)).lower(), "", (), target)
            return
        if self.pattern is None:
            self.form = "operator"
            stage = jacobian_module(f, *specs, entry_points=("update", "apply", "apply_transposed"))
        else:
            self.form = form if form != "auto" else "sparse" if is_sparse(self.pattern) else "dense"
            names = ("update", "matrix", "apply", "apply_transposed")
            stage = sparse_jacobian_module(f, *specs, format="csr", pattern=self.pattern, entry_points=names)
        self._points = Points(JacobianOperator(stage, tree, *data, target=target))

    def fun(self, x: np.ndarray) -> np.ndarray:
        """The results at x, shape (m,)."""
        self.evaluations["fun"] += 1
        if self.form == "none":
            return self.rows.vector(self._values["value"](self.vectors.tree(x), *self._data))
        return np.asarray(self._points.at(x).fun(x), np.float64)

    def jac(self, x: np.ndarray) -> Any:
        """The Jacobian at x, shape (m, n), in the requested form."""
        self.evaluations["jac"] += 1
        if self.form == "operator":
            return OperatorAt(self._points.at, x)
        operator = self._points.at(x)
        return operator.matrix() if self.form == "sparse" else operator.to_dense()


# ---------------------------------------------------------------- forms


def hessian_stage(f: Callable[..., Any], specs: tuple[Any, ...], form: str) -> tuple[str, Lowered]:
    """The form of the Hessian ("sparse", "dense" or "products"), and the lowered module that computes it.

    Args:
      f: a scalar function.
      specs: the specs of its arguments; the first argument is x.
      form: as for an `Objective`.
    """
    pattern = None if form == "products" else _find_pattern(hessian_pattern, f, specs, form == "auto")
    if form == "auto":
        form = "sparse" if pattern is not None and is_sparse(pattern) else "products"
    if form == "products" or (form == "dense" and pattern is not None and pattern.nnz > thresholds.DENSE_HESSIAN):
        return form, hvp_module(f, *specs, entry_points=_PRODUCTS)  # products give the columns of a dense matrix
    names = ("update", "matrix", "apply")
    return form, sparse_hessian_module(f, *specs, format="csr", pattern=pattern, entry_points=names)


def _find_pattern(
    finder: Callable[..., Pattern], f: Callable[..., Any], specs: tuple[Any, ...], is_optional: bool
) -> Pattern | None:
    """The sparsity pattern of a derivative of `f` that `finder` finds; None if it is optional and cannot be found.

    `specs` are the types of the arguments of `f`.
    """
    try:
        return finder(f, *specs)
    except PatternError:
        if is_optional:
            return None
        raise


def is_sparse(pattern: Pattern) -> bool:
    """True if the pattern has few enough entries to be stored as a sparse matrix."""
    m, n = pattern.shape
    return pattern.nnz <= thresholds.SPARSE_FRACTION * m * n


def check_scalar(who: str, f: Callable[..., Any], like: Any, data: tuple[Any, ...], help: str = "") -> None:
    """Raises TraceError unless the result of a function is one floating-point scalar.

    Args:
      who: the name of the function for messages.
      f: a function.
      like: the specs of its first argument.
      data: more arguments.
      help: the advice in the error.

    Raises:
      TraceError: the function has another result.
    """
    outputs: list[Spec] = list(trace(f, like, *data).entries[0].outputs)
    if len(outputs) != 1 or outputs[0].shape or outputs[0].dtype.kind not in "fV":
        raise TraceError(
            f"{who} requires one scalar of floating point as its result, got {', '.join(map(str, outputs))}.",
            where=user_frame(),
            help=help,
        )
