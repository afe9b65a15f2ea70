"""`scipy.optimize.minimize` over pytrees, with the derivatives that each of its methods accepts."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

import numpy as np
import scipy.optimize
from scipy.optimize import BFGS, Bounds, HessianUpdateStrategy, OptimizeResult, OptimizeWarning

from nabla_mlir.base.errors import TraceError, user_frame
from nabla_mlir.base.typing import PyTree
from nabla_mlir.interop.scipy.history import History, watched
from nabla_mlir.interop.scipy.limits import bounds_of, constraints_of, is_of_sparse
from nabla_mlir.interop.scipy.methods import CUSTOM, Method, method_named
from nabla_mlir.interop.scipy.problems import Objective, start_of
from nabla_mlir.prepared.sources import Source
from nabla_mlir.targets import Target

# For each form of the Hessian, the argument of SciPy, and the method of an objective that computes it.
_FORMS = {"products": ("hessp", "hessp"), "operator": ("hess", "operator"), "sparse": ("hess", "hess"), "dense": ("hess", "dense")}
# Arguments of SciPy's function that nabla_mlir's does not have.
_OF_SCIPY = {
    "args": "further arguments of f follow x0: minimize(f, x0, a, b).",
    "jac": "nabla_mlir computes the gradient: f returns the value alone.",
    "hessp": 'nabla_mlir computes products with the Hessian: hess="products", where the method accepts them.',
}


def minimize(
    f: Source,
    x0: PyTree,
    *data: PyTree,
    method: str | Callable[..., Any] | None = None,
    bounds: Any = None,
    constraints: Any = (),
    hess: Any = "auto",
    tol: float | None = None,
    callback: Callable[..., Any] | None = None,
    options: Mapping[str, Any] | None = None,
    progress: bool = False,
    target: str | Target | None = None,
    **unknown: object,
) -> OptimizeResult:
    """The minimum of ``f(x, *data)`` over a pytree x, by a method of `scipy.optimize.minimize` with exact derivatives.

    Each method gets the derivatives that it accepts. The common part of the value, the gradient and the Hessian at a point is
    computed once. SciPy works in float64; leaves of other dtypes are rounded in each call.

    Args:
      f: a scalar function of (x, *data), of pytrees; or an artifact of `nm.hvp_module`, loaded or as a path.
      x0: the first point: a pytree of arrays and numbers; a list of numbers is an array, integers are float64.
      data: more arguments.
      method: a method of SciPy; by default SLSQP with constraints, L-BFGS-B with bounds, and BFGS otherwise.
      bounds: `scipy.optimize.Bounds` or pairs for all elements, leaf after leaf, as in SciPy; or one pair (lower, upper) of
        numbers, None, or pytrees like x.
      constraints: one or several of SciPy's `NonlinearConstraint` and dicts, with functions of the pytree x and without
        derivatives, which are added; or of `LinearConstraint` for all elements, leaf after leaf.
      hess: the form of the Hessian: "products", "operator", "sparse", "dense"; or a strategy that approximates it, such as
        `scipy.optimize.SR1()`, or "update" for `BFGS()`; "auto" is the best that the method accepts.
      tol, options: as in SciPy.
      callback: as in SciPy, with pytrees: a function of `intermediate_result`, or of x, or of (x, state) for trust-constr.
      progress: True shows each iteration on a terminal or in a notebook. False shows a line there once it takes more than a second.
        Nothing is shown if standard error is piped.
      target: where it runs, such as ``nm.CPU()``. With None it is interpreted until compiling pays.

    Returns:
      SciPy's result, in which `x` and `jac` are pytrees like x0. `nfev`, `njev` and `nhev` are SciPy's counts, or those of
      nabla_mlir if SciPy has none. `history` is a `History` of the iterations.

    Raises:
      TraceError: the method does not exist, or does not accept an argument.
      TreeError, ShapeError, DtypeError: x0, a bound or a constraint has a wrong type.

    Example:
      >>> import nabla_mlir as nm
      >>> rosenbrock = lambda p: (1.0 - p["x"]) ** 2 + 100.0 * (p["y"] - p["x"] ** 2) ** 2
      >>> found = nm.minimize(rosenbrock, {"x": -1.0, "y": 2.0}, method="trust-exact")
      >>> found.success, float(found.x["x"].round(4)), float(found.x["y"].round(4))
      (True, 1.0, 1.0)
    """
    if unknown:
        _refuse(unknown)
    x0 = start_of("minimize", x0)
    has_constraints = not isinstance(constraints, (list, tuple)) or len(constraints) > 0
    if method is None:
        method = "SLSQP" if has_constraints else "L-BFGS-B" if bounds is not None else "BFGS"
    traits = CUSTOM if callable(method) else method_named(method)
    name = getattr(method, "__name__", str(method))
    form = _form(name, traits, hess)
    for what, is_set, is_supported in (
        ("bounds", bounds is not None, traits.bounds),
        ("constraints", has_constraints, traits.constraints),
    ):
        if is_set and not is_supported:
            raise TraceError(f"minimize requires a method that accepts {what}, got {name}.", where=user_frame())
    order = 2 if form in _FORMS or form == "auto" else 1 if traits.gradient else 0
    objective = Objective(f, x0, *data, order=order, form=_form_for_objective(form), target=target)
    if form == "auto":
        form = objective.form
    derivatives: dict[str, Any] = {"jac": objective.jac} if traits.gradient else {}
    if form in _FORMS:
        argument, maker = _FORMS[form]
        derivatives[argument] = getattr(objective, maker)
    elif form == "update":
        derivatives["hess"] = BFGS() if hess == "update" else hess
    limits = bounds_of("minimize", bounds, objective.vectors)
    is_exact = name.lower() == "trust-constr" or callable(method)
    restrictions = constraints_of(
        "minimize", constraints if has_constraints else (), x0, objective.vectors, "auto" if is_exact else "dense", is_exact, target
    )
    options = dict(options or {})
    if name.lower() == "trust-constr" and any(is_of_sparse(constraint) for constraint in restrictions):
        options.setdefault("sparse_jacobian", True)  # SciPy requires constraints of one kind
    history = History()
    with watched(f"minimize, {name}", progress) as show:
        recorder = _Recorder(objective, history, show, callback, name.lower(), limits)
        with _known_options(name) if options else contextlib.nullcontext():
            result = scipy.optimize.minimize(
                objective.fun,
                objective.x0.copy(),
                method=method,
                bounds=limits,
                constraints=restrictions,
                tol=tol,
                callback=recorder.at if name.lower() == "tnc" else recorder,
                options=options,
                **derivatives,
            )
    return _with_pytrees(result, objective, history)


def _refuse(unknown: Mapping[str, object]) -> NoReturn:
    """Raises TraceError for the arguments `unknown`, which minimize does not have."""
    name = next(iter(unknown))
    raise TraceError(
        f"minimize requires arguments among its own, got {name}.",
        where=user_frame(),
        help=_OF_SCIPY.get(name, f"options of the method are in a dict: options={{{name!r}: ...}}."),
    )


@contextlib.contextmanager
def _known_options(method: str) -> Iterator[None]:
    """A context in which an option that the method does not have is an error, where SciPy warns and ignores it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Unknown solver options", OptimizeWarning)
        try:
            yield
        except OptimizeWarning as warning:
            raise TraceError(
                f"minimize requires options that {method} has, got {str(warning).partition(': ')[2]}.",
                where=user_frame(),
                help=f"scipy.optimize.show_options('minimize', {method!r}) prints them.",
            ) from None


def _form(name: str, traits: Method, hess: Any) -> str:
    """The form of the Hessian that the method `name` gets; "none", or "auto" if the pattern decides between "sparse" and
    "operator".

    `hess` is the user's argument, and `traits` says which forms the method accepts. Raises TraceError if it does not accept the
    form.
    """
    form = "update" if isinstance(hess, HessianUpdateStrategy) else hess
    if not isinstance(form, str) or (form != "auto" and form not in traits.hessians):
        forms = ", ".join(traits.hessians) or "none"
        name_of_form = form if isinstance(form, str) else f"a {type(form).__name__}"
        raise TraceError(
            f"minimize requires a Hessian that {name} accepts ({forms}), got {name_of_form}.",
            where=user_frame(),
            help="nabla_mlir computes the Hessian; hess chooses its form.",
        )
    if form != "auto":
        return form
    if not traits.hessians:
        return "none"
    return "auto" if traits.hessians[0] == "sparse" else traits.hessians[0]


def _form_for_objective(form: str) -> str:
    """The form of the Hessian for `Objective`; forms that SciPy approximates or multiplies are "products"."""
    return form if form in ("auto", "sparse", "dense") else "products"


class _Recorder:
    """The callback after each iteration of SciPy: it stores the history, shows it, and calls the user's function."""

    def __init__(
        self,
        objective: Objective,
        history: History,
        show: Any,
        callback: Callable[..., Any] | None,
        method: str,
        limits: Bounds | None,
    ):
        """Reads from the signature of the user's callback which arguments it takes."""
        self._objective, self._history, self._show, self._callback = objective, history, show, callback
        self._limits = limits
        self._x = objective.x0
        names = [] if callback is None else list(inspect.signature(callback).parameters)
        self._takes_result, self._takes_state = names == ["intermediate_result"], method == "trust-constr" and len(names) > 1

    def __call__(self, intermediate_result: Any) -> Any:
        """Records an iteration, whose state SciPy passes, and returns the result of the user's callback."""
        state = intermediate_result
        if not isinstance(state, OptimizeResult):  # older versions of SciPy pass only the point
            return self.at(state)
        x = self._with_fixed_variables(state.x)
        self._add(x, float(state.fun))
        if self._callback is None:
            return None
        tree = self._objective.vectors.tree(x)
        if self._takes_result:
            return self._callback(intermediate_result=OptimizeResult({**state, "x": tree}))
        return self._callback(tree, state) if self._takes_state else self._callback(tree)

    def at(self, x: Any) -> Any:
        """Records an iteration of a method that passes only the point, such as TNC, because SciPy then adds fixed variables."""
        x = self._with_fixed_variables(x)
        return self(OptimizeResult(x=x, fun=self._objective.known(x)[0]))

    def _with_fixed_variables(self, x: np.ndarray) -> np.ndarray:
        """The point `x` with all variables: SciPy removes those that the bounds fix for COBYLA."""
        if self._limits is None or np.size(x) == self._x.size:
            return x
        point, is_free = np.array(self._limits.lb, np.float64), self._limits.lb != self._limits.ub
        point[is_free] = x
        return point

    def _add(self, x: np.ndarray, value: float) -> None:
        """Adds the iteration at the point `x` to the history, and shows it."""
        gradient = self._objective.known(x)[1]
        slope = np.nan if gradient is None else float(np.abs(gradient).max(initial=0.0))
        self._history.add(value, slope, float(np.linalg.norm(x - self._x)), self._objective.evaluations)
        self._x = np.array(x)
        self._show(self._history)


def _with_pytrees(result: OptimizeResult, objective: Objective, history: History) -> OptimizeResult:
    """SciPy's result with x and the gradient as pytrees, the counts of evaluations, and the history.

    `objective` is the compiled function, and `history` the recorded iterates.
    """
    vectors, counts = objective.vectors, objective.evaluations
    result.x = vectors.tree(np.asarray(result.x))
    for name in ("jac", "grad"):  # for trust-constr, jac is a list with the Jacobians of the constraints
        if isinstance(result.get(name), np.ndarray) and result[name].shape == (vectors.size,):
            result[name] = vectors.tree(result[name])
    for name, count in (("njev", counts["jac"]), ("nhev", counts["hess"] + counts["hessp"])):
        result.setdefault(name, count)
    result.history = history
    return result
