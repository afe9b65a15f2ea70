"""Least squares, roots and curves of SciPy over pytrees, with exact Jacobians."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.optimize
from scipy.optimize import OptimizeResult

from nabla_mlir.base.errors import ShapeError, TraceError, user_frame
from nabla_mlir.base.typing import PyTree
from nabla_mlir.interop.scipy.limits import bounds_of
from nabla_mlir.interop.scipy.problems import Residuals, start_of
from nabla_mlir.numpy import ravel, stack
from nabla_mlir.staging.eager import library
from nabla_mlir.targets import Target
from nabla_mlir.transforms import jacfwd

_FORMS = ("auto", "dense", "sparse", "operator")
_DERIVED = ("hybr", "lm")  # the methods of `root` that accept a Jacobian
_OTHERS = ("broyden1", "broyden2", "anderson", "linearmixing", "diagbroyden", "excitingmixing", "krylov", "df-sane")


def least_squares(
    f: Callable[..., Any],
    x0: PyTree,
    *data: PyTree,
    jac: str = "auto",
    bounds: Any = None,
    method: str = "trf",
    target: str | Target | None = None,
    **options: Any,
) -> OptimizeResult:
    """The minimum of ``½ Σ rho(f_i(x, *data)²)`` over a pytree x, by `scipy.optimize.least_squares` with an exact Jacobian.

    Args:
      f: the residuals: a function of pytrees whose result is a pytree of arrays.
      x0: the first point: a pytree of arrays and numbers; a list of numbers is an array.
      data: more arguments.
      jac: the form of the Jacobian: "dense", "sparse" or "operator"; "auto" is sparse if it has few entries and the method
        accepts that.
      bounds: as in `minimize`.
      method: trf, dogbox, or lm, which accepts only dense Jacobians and no bounds.
      target: where it runs. With None it is interpreted until compiling pays.
      options: other options of SciPy, such as ``loss="huber"``, ``ftol``, ``x_scale``, ``verbose``, ``tr_solver``.

    Returns:
      SciPy's result, where `x` and `grad` are pytrees like x0 and `fun` is one like the result of f.

    Raises:
      TraceError: the form does not exist, or the method does not accept it; or an option such as `args` is not allowed.
      TreeError, ShapeError, DtypeError: x0 or a bound has a wrong type.

    Example:
      >>> import nabla_mlir.numpy as nnp
      >>> t = np.linspace(0.0, 1.0, 20)
      >>> decay = lambda p, t, y: p["scale"] * nnp.exp(-p["rate"] * t) - y
      >>> found = least_squares(decay, {"scale": 1.0, "rate": 1.0}, t, 3 * np.exp(-2 * t))
      >>> float(found.x["scale"].round(6)), float(found.x["rate"].round(6)), found.nfev == found.njev
      (3.0, 2.0, True)
    """
    _check_options("least_squares", options, ("args", "kwargs", "fun", "jac_sparsity"))
    if jac not in _FORMS or (method == "lm" and jac in ("sparse", "operator")):
        raise TraceError(
            f"least_squares requires a Jacobian that {method} accepts, got {jac!r}.",
            where=user_frame(),
            help="nabla_mlir computes the Jacobian; jac is auto, dense, sparse or operator; for lm it is dense.",
        )
    x0 = start_of("least_squares", x0)
    takes_dense = method == "lm" or options.get("tr_solver") == "exact"
    residuals = Residuals(f, x0, *data, form="dense" if jac == "auto" and takes_dense else jac, target=target)
    limits = bounds_of("least_squares", bounds, residuals.vectors)
    if limits is not None:
        options["bounds"] = limits
    result = scipy.optimize.least_squares(residuals.fun, residuals.x0.copy(), jac=residuals.jac, method=method, **options)
    result.x, result.grad = residuals.vectors.tree(result.x), residuals.vectors.tree(result.grad)
    result.fun = residuals.rows.tree(result.fun)
    if result.njev is None:  # lm counts no Jacobians
        result.njev = residuals.evaluations["jac"]
    return result


def root(
    f: Callable[..., Any],
    x0: PyTree,
    *data: PyTree,
    method: str = "hybr",
    tol: float | None = None,
    callback: Callable[..., Any] | None = None,
    options: Any = None,
    target: str | Target | None = None,
) -> OptimizeResult:
    """A solution of ``f(x, *data) = 0`` for a pytree x, by `scipy.optimize.root`; hybr and lm get an exact Jacobian.

    Args:
      f: a function of pytrees with as many numbers in its result as in x.
      x0: the first point: a pytree of arrays and numbers; a list of numbers is an array.
      data: more arguments.
      method: a method of SciPy. All except hybr and lm approximate derivatives themselves.
      tol, options: as in SciPy.
      callback: as in SciPy, with pytrees: (x, f(x)).
      target: where it runs. With None it is interpreted until compiling pays.

    Returns:
      SciPy's result, where `x` is a pytree like x0 and `fun` is one like the result of f.

    Raises:
      TraceError: the method does not exist.
      ShapeError: there are more or fewer equations than unknowns.

    Example:
      >>> found = root(lambda p: {"sum": p["a"] + p["b"] - 3.0, "product": p["a"] * p["b"] - 2.0}, {"a": 0.0, "b": 5.0})
      >>> float(found.x["a"].round(9)), float(found.x["b"].round(9))
      (1.0, 2.0)
    """
    if method not in (*_DERIVED, *_OTHERS):
        raise TraceError(f"root requires a method among {', '.join((*_DERIVED, *_OTHERS))}, got {method!r}.", where=user_frame())
    x0 = start_of("root", x0)
    is_derived = method in _DERIVED
    residuals = Residuals(f, x0, *data, form="dense" if is_derived else "none", target=target)
    vectors, rows = residuals.vectors, residuals.rows
    if rows.size != vectors.size and method != "lm":
        raise ShapeError(f"root requires as many equations as unknowns, got {rows.size} for {vectors.size}.", where=user_frame())
    derivatives: dict[str, Any] = {"jac": residuals.jac} if is_derived else {}
    if callback is not None:
        derivatives["callback"] = lambda x, values: callback(vectors.tree(x), rows.tree(values))
    result = scipy.optimize.root(
        residuals.fun, residuals.x0.copy(), method=method, tol=tol, options=dict(options or {}), **derivatives
    )
    result.x, result.fun = vectors.tree(np.asarray(result.x)), rows.tree(np.asarray(result.fun))
    return result


def curve_fit(f: Callable[..., Any], xdata: Any, ydata: Any, p0: Any = None, *args: Any, **options: Any) -> tuple[Any, ...]:
    """The parameters for which ``f(xdata, *parameters)`` is nearest to ydata, by `scipy.optimize.curve_fit`.

    Args:
      f: the model: a function of xdata and of one number for each parameter, whose result has the shape of ydata.
      xdata, ydata: the data.
      p0: the first parameters; by default ones.
      args, options: other options of SciPy: ``sigma``, ``absolute_sigma``, ``bounds``, ``method``, ``full_output``,
      ``nan_policy`` ...

    Returns:
      The parameters and their covariance, as in SciPy.

    Raises:
      TraceError: `jac` is among the options.

    Example:
      >>> import nabla_mlir.numpy as nnp
      >>> t = np.linspace(0.0, 4.0, 50)
      >>> parameters, covariance = curve_fit(lambda t, a, b: a * nnp.exp(-b * t), t, 2.5 * np.exp(-1.3 * t))
      >>> parameters.round(6).tolist(), covariance.shape
      ([2.5, 1.3], (2, 2))
    """
    _check_options("curve_fit", options, ("jac",))
    count = len(p0) if p0 is not None else len(inspect.signature(f).parameters) - 1
    value = library(lambda x, *p: ravel(f(x, *p)))
    slope = library(lambda x, *p: stack([ravel(column) for column in jacfwd(f, argnums=tuple(range(1, count + 1)))(x, *p)], axis=1))
    numbers = lambda p: [np.float64(number) for number in p]  # noqa: E731
    model = lambda x, *p: np.array(value(x, *numbers(p)))  # noqa: E731
    jac = lambda x, *p: np.array(slope(x, *numbers(p)))  # noqa: E731
    start = np.ones(count) if p0 is None and "bounds" not in options else p0
    return scipy.optimize.curve_fit(_named(model, f), xdata, ydata, start, *args, jac=jac, **options)


def _named(model: Callable[..., Any], f: Callable[..., Any]) -> Callable[..., Any]:
    """The model with the signature of the user's function, from which SciPy reads the number of parameters."""
    model.__signature__ = inspect.signature(f)  # type: ignore[attr-defined]
    return model


def _check_options(who: str, options: dict[str, Any], others: tuple[str, ...]) -> None:
    """Raises TraceError if the options contain a name of `others`, which nabla_mlir sets itself."""
    for name in others:
        if name in options:
            raise TraceError(
                f"{who} requires options without {name}, got it.",
                where=user_frame(),
                help="nabla_mlir computes the derivatives; pass further arguments after x0.",
            )
