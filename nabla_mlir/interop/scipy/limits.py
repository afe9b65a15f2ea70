"""Bounds and constraints on pytrees in the forms of SciPy, the constraints with exact derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.optimize import BFGS, Bounds, LinearConstraint
from scipy.optimize import NonlinearConstraint as OfSciPy

from nabla_mlir.base.errors import ShapeError, TraceError, user_frame
from nabla_mlir.base.locks import cached_property
from nabla_mlir.base.pytree import flatten
from nabla_mlir.base.typing import PyTree
from nabla_mlir.interop.scipy.problems import Residuals, hessian_stage
from nabla_mlir.interop.vectors import Vectors
from nabla_mlir.prepared.operators import HessianOperator
from nabla_mlir.prepared.points import OperatorAt
from nabla_mlir.targets import Target


def bounds_of(who: str, bounds: Any, vectors: Vectors) -> Bounds | None:
    """The bounds of x as a `Bounds` of SciPy with one number for each element; None without bounds.

    Args:
      who: the name of the function for messages.
      bounds: as in SciPy, a `Bounds` or a pair (lower, upper) for each element, leaf after leaf; or one pair (lower, upper) of
        numbers, of pytrees like x, or of None; None is no bound.
      vectors: the flattening of x.

    Raises:
      ShapeError, TreeError: the number of bounds is not the number of elements, or a pytree of bounds is not like x.
      TraceError: the bounds have another type.
    """
    if bounds is None:
        return None
    n = vectors.size
    if isinstance(bounds, Bounds):
        lower, upper, is_feasible = bounds.lb, bounds.ub, bounds.keep_feasible
        _check_size(who, n, max(np.size(lower), np.size(upper), np.size(is_feasible)))
        return Bounds(np.broadcast_to(lower, n), np.broadcast_to(upper, n), is_feasible)
    if _are_pairs(bounds, n):
        pairs = [tuple(np.asarray(pair).tolist()) if isinstance(pair, np.ndarray) else pair for pair in bounds]
        # The lower and the upper bounds; None is no bound.
        sides = [[other if p[i] is None else p[i] for p in pairs] for i, other in enumerate((-np.inf, np.inf))]
        return Bounds(*(np.array(side, np.float64) for side in sides))
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        raise TraceError(
            f"{who} requires bounds that are scipy.optimize.Bounds, {n} pairs (lower, upper), or one pair of pytrees like x, got "
            f"{type(bounds).__name__}{f' of {len(bounds)}' if hasattr(bounds, '__len__') else ''}.",
            where=user_frame(),
        )
    return Bounds(*(vectors.spread(who, "bounds", b, other) for b, other in zip(bounds, (-np.inf, np.inf), strict=True)))


def _check_size(who: str, n: int, size: int) -> None:
    """Raises ShapeError unless bounds of `size` numbers fit n elements: one number for all, or one for each."""
    if size not in (1, n):
        raise ShapeError(f"{who} requires bounds for the {n} elements of x, got {size}.", where=user_frame())


def _are_pairs(bounds: Any, n: int) -> bool:
    """True if the bounds are pairs of numbers, one for each of n elements, as in SciPy; raises TraceError for an iterator."""
    if isinstance(bounds, zip):
        raise TraceError("bounds requires a list of pairs, got an iterator.", where=user_frame(), help="list(bounds)")
    if not isinstance(bounds, (tuple, list, np.ndarray)) or len(bounds) != n:
        return False
    return all(
        isinstance(p, (tuple, list, np.ndarray)) and len(p) == 2 and all(x is None or np.ndim(x) == 0 for x in p) for p in bounds
    )


def NonlinearConstraint(  # noqa: N802
    f: Callable[..., Any],
    x0: PyTree,
    lower: Any,
    upper: Any,
    *data: PyTree,
    form: str = "auto",
    with_hessian: bool = True,
    keep_feasible: bool = False,
    target: str | Target | None = None,
) -> OfSciPy:
    """The constraint ``lower <= f(x, *data) <= upper`` as a `scipy.optimize.NonlinearConstraint` with exact derivatives.

    Its Jacobian is dense or sparse. Its Hessian, ``Σ v_i ∇²f_i`` for the multipliers v, is sparse or an operator. It is for solvers
    that you call directly; `minimize` makes such constraints itself.

    Args:
      f: a function of pytrees of arrays.
      x0: a pytree: the shapes and dtypes of x.
      lower, upper: pytrees like the result, or numbers; None means no bound. Equal bounds are an equation.
      data: more arguments.
      form: the form of the Jacobian: "dense", "sparse", or "auto".
      with_hessian: True gives it a Hessian; otherwise SciPy approximates it.
      keep_feasible: True if all iterates must satisfy it.
      target: where it runs. With None it is interpreted until compiling pays.

    Raises:
      TreeError, ShapeError: a bound does not have the type of the result.

    Example:
      >>> disk = NonlinearConstraint(lambda x: (x * x).sum(), np.zeros(2), None, 1.0)
      >>> disk.jac(np.array([1.0, 2.0])).tolist(), (disk.hess(np.zeros(2), np.array([3.0])) @ np.ones(2)).tolist()
      ([[2.0, 4.0]], [6.0, 6.0])
    """
    residuals = Residuals(f, x0, *data, form=form, target=target)
    rows = residuals.rows
    sides = [rows.spread("a constraint", "bounds", b, other) for b, other in ((lower, -np.inf), (upper, np.inf))]
    hessian = _WeightedHessian(f, residuals, data, target) if with_hessian else BFGS()
    return OfSciPy(residuals.fun, *sides, jac=residuals.jac, hess=hessian, keep_feasible=keep_feasible)


def is_of_sparse(constraint: Any) -> bool:
    """True if the Jacobian of a `NonlinearConstraint` of nabla_mlir is sparse."""
    problem = getattr(getattr(constraint, "jac", None), "__self__", None)
    return isinstance(problem, Residuals) and problem.form == "sparse"


class _WeightedHessian:
    """The Hessian of Σ weights_i f_i as a function of x and the weights; it is compiled at its first use."""

    def __init__(self, f: Callable[..., Any], residuals: Residuals, data: tuple[Any, ...], target: str | Target | None):
        self._f, self._vectors, self._rows = f, residuals.vectors, residuals.rows
        self._data, self._target, self._weights = data, target, np.zeros(0)

    def __call__(self, x: np.ndarray, v: np.ndarray) -> Any:
        weights = np.array(v, np.float64).reshape(-1)
        operator = self._at(np.asarray(x), weights)
        return operator.matrix() if self._form == "sparse" else OperatorAt(lambda y: self._at(y, weights), x)

    @cached_property
    def _operator(self) -> HessianOperator:
        """The operator for products with the Hessian of Σ weights_i f_i, at an arbitrary first point."""
        f, points, weights = self._f, self._vectors.tree(np.zeros(self._vectors.size)), self._rows.tree(np.zeros(self._rows.size))

        def weighted(x: Any, weights: Any, *data: Any) -> Any:
            """The sum of the results of f, each multiplied by its weight."""
            return sum((w * r).sum() for w, r in zip(flatten(weights)[0], flatten(f(x, *data))[0], strict=True))

        self._form, stage = hessian_stage(weighted, (self._vectors.like, self._rows.like, *self._data), "auto")
        return HessianOperator(stage, points, weights, *self._data, target=self._target)

    def _at(self, x: np.ndarray, weights: np.ndarray) -> HessianOperator:
        """The operator moved to the point x and to these weights, if it is not already there."""
        operator = self._operator
        if not (np.array_equal(operator.x, x) and np.array_equal(weights, self._weights)):
            operator.update(x, self._rows.tree(weights), *self._data)
            self._weights = weights
        return operator


def constraints_of(
    who: str, constraints: Any, x0: PyTree, vectors: Vectors, form: str, with_hessian: bool, target: str | Target | None
) -> Sequence[Any]:
    """The constraints of a user on pytrees, as constraints of SciPy on flat vectors.

    Args:
      who: the name of the function for messages.
      constraints: one or several of: a `NonlinearConstraint`, whose function is differentiated here; a `LinearConstraint` of
        all elements of x, leaf after leaf; a dict with "type" ("eq" or "ineq"), "fun" and "args".
      x0: the first point.
      vectors: the flattening of x.
      form, with_hessian, target: as for `NonlinearConstraint`.

    Raises:
      TraceError: a constraint has another type, or has its own derivatives.
    """
    several = constraints if isinstance(constraints, (list, tuple)) else [constraints]
    result = []
    for item in several:
        if isinstance(item, LinearConstraint):
            if np.shape(item.A)[-1] != vectors.size:
                raise ShapeError(
                    f"{who} requires a LinearConstraint of {vectors.size} columns, got {np.shape(item.A)}.", where=user_frame()
                )
            result.append(item)
            continue
        f, lower, upper, data, is_feasible = _parts(who, item)
        result.append(
            NonlinearConstraint(
                f, x0, lower, upper, *data, form=form, with_hessian=with_hessian, keep_feasible=is_feasible, target=target
            )
        )
    return result


def _parts(who: str, item: Any) -> tuple[Any, Any, Any, tuple[Any, ...], bool]:
    """The function, the lower bound, the upper bound, the data of a constraint, and True if all iterates must satisfy it.

    `item` is the constraint in one of SciPy's forms, and `who` is the called function, for errors. Raises TraceError for other
    kinds of constraints, and for those with derivatives of their own.
    """
    if isinstance(item, OfSciPy):
        if callable(item.jac) or not isinstance(item.hess, BFGS):
            raise TraceError(
                f"{who} requires a NonlinearConstraint without derivatives of its own, got jac or hess.",
                where=user_frame(),
                help="nabla_mlir computes the derivatives: leave them out.",
            )
        lower, upper = (_plain_bound(b) for b in (item.lb, item.ub))
        return item.fun, lower, upper, (), item.keep_feasible
    if not isinstance(item, dict):
        raise TraceError(
            f"{who} requires constraints that are dicts, NonlinearConstraint or LinearConstraint, got {type(item).__name__}.",
            where=user_frame(),
        )
    unknown, kind = sorted(set(item) - {"type", "fun", "args"}), str(item.get("type")).lower()
    if unknown or kind not in ("eq", "ineq") or not callable(item.get("fun")):
        raise TraceError(
            f"{who} requires a constraint with type 'eq' or 'ineq', fun and args, got {item}.",
            where=user_frame(),
            help="nabla_mlir computes the derivatives: leave jac out." if "jac" in unknown else "",
        )
    data = item.get("args", ())
    return item["fun"], 0.0, 0.0 if kind == "eq" else None, data if isinstance(data, tuple) else (data,), False


def _plain_bound(bound: Any) -> Any:
    """A bound of SciPy as a number if it is one number for all results, otherwise unchanged."""
    return float(np.reshape(bound, ())) if isinstance(bound, (np.ndarray, list)) and np.size(bound) == 1 else bound
