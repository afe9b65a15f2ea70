"""Differential equations of SciPy with exact Jacobians: initial values over pytrees, and boundary values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.integrate
from scipy.optimize import OptimizeResult

from nabla_mlir import numpy as nnp
from nabla_mlir.base import pytree
from nabla_mlir.base.errors import ShapeError, TraceError, user_frame
from nabla_mlir.base.typing import PyTree
from nabla_mlir.interop.scipy.problems import is_sparse, start_of
from nabla_mlir.interop.vectors import Vectors
from nabla_mlir.prepared.instant import load_prepared
from nabla_mlir.sparse import SparseMatrix, cheapest, jacobian, jacobian_pattern
from nabla_mlir.staging.eager import library
from nabla_mlir.staging.specs import spec
from nabla_mlir.staging.stages import module, trace
from nabla_mlir.targets import Target
from nabla_mlir.transforms import jacfwd, jvp, vmap

# The forms of the Jacobian that each method of solve_ivp accepts, the best one first; LSODA accepts only dense ones.
IVP_METHODS: dict[str, tuple[str, ...]] = {
    "RK45": (),
    "RK23": (),
    "DOP853": (),
    "Radau": ("sparse", "dense"),
    "BDF": ("sparse", "dense"),
    "LSODA": ("dense",),
}


def solve_ivp(
    f: Callable[..., Any],
    t_span: Sequence[float],
    y0: PyTree,
    *data: PyTree,
    method: str = "RK45",
    jac: str = "auto",
    t_eval: Any = None,
    dense_output: bool = False,
    events: Any = None,
    target: str | Target | None = None,
    **options: Any,
) -> OptimizeResult:
    """The solution of ``dy/dt = f(t, y, *data)`` from y0, for a pytree y, by `scipy.integrate.solve_ivp` with exact Jacobians.

    Args:
      f: a function of (t, y, *data) whose result is a pytree like y; if y is one array, a list of its rows is accepted.
      t_span: the first and the last time.
      y0: the initial state: a pytree of arrays and numbers; a list of numbers is an array.
      data: more arguments.
      method: the name of a method of SciPy. Implicit methods get the Jacobian.
      jac: the form of the Jacobian for Radau and BDF: "sparse", "dense" or "auto", which is sparse if it has few entries.
      t_eval, dense_output: as in SciPy.
      events: as in SciPy: functions of (t, y) with a pytree y, which may have the attributes `terminal` and `direction`.
      target: where it runs. With None it is interpreted until compiling pays.
      options: other options of SciPy, such as ``rtol``, ``max_step``, and ``atol``, which may be a pytree like y.

    Returns:
      SciPy's result, in which `y` is a pytree like y0 with a last axis for time, `sol` returns such pytrees, and `y_events` are
      lists of them.

    Raises:
      TraceError: the method or form does not exist, or an option such as `args` is not allowed.
      TreeError, ShapeError, DtypeError: y0 or the result of f has a wrong type.

    Example:
      >>> decay = lambda t, y, rate: {"mass": -rate * y["mass"]}
      >>> found = solve_ivp(decay, (0.0, 1.0), {"mass": np.ones(2)}, 2.0, method="Radau", rtol=1e-8)
      >>> found.y["mass"][:, -1].round(6).tolist(), found.njev > 0
      ([0.135335, 0.135335], True)
    """
    forms = _forms(method, jac)
    for name in ("args", "vectorized", "jac_sparsity", "lband", "uband"):
        if name in options:
            raise TraceError(
                f"solve_ivp requires options without {name}, got it.",
                where=user_frame(),
                help="nabla_mlir computes the Jacobian and its pattern; pass further arguments after y0.",
            )
    y0 = start_of("solve_ivp", y0)
    vectors = Vectors(y0)
    f = _of_arrays(f) if vectors.spec.is_leaf() else f
    specs = (spec((), "f64"), vectors.like, *data)
    functions = {"value": trace(f, *specs)}
    entry = functions["value"].entries[0]
    result_specs = [(s.shape) for s in entry.outputs]
    if entry.out_spec != vectors.spec or result_specs != [s.shape for s in vectors.specs]:
        raise ShapeError(
            f"solve_ivp requires a function with a result like y, {vectors.like}, got "
            f"{pytree.unflatten(entry.out_spec, entry.outputs)}.",
            where=user_frame(),
        )
    pattern = jacobian_pattern(f, *specs, argnums=1) if forms else None
    if pattern is not None:
        matrix = jacobian(f, argnums=1, coloring=cheapest(pattern))
        functions["jacobian"] = trace(lambda *args: matrix(*args).data, *specs)
    functions_of_t = load_prepared(module(**functions).lower(), "", (), target)

    def call(name: str, t: float, y: np.ndarray) -> Any:
        return functions_of_t[name](np.float64(t), vectors.tree(y), *data)

    if pattern is not None:
        is_dense = jac == "dense" or forms == ("dense",) or (jac == "auto" and not is_sparse(pattern))
        sparse = lambda t, y: SparseMatrix(np.asarray(call("jacobian", t, y)), pattern).to_scipy("csc")  # noqa: E731
        options["jac"] = (lambda t, y: sparse(t, y).toarray()) if is_dense else sparse
    if "atol" in options:
        options["atol"] = vectors.spread("solve_ivp", "atol", options["atol"], 1e-6)
    found = scipy.integrate.solve_ivp(
        lambda t, y: vectors.vector(call("value", t, y)),
        t_span,
        vectors.vector(y0),
        method=method,
        t_eval=t_eval,
        dense_output=dense_output,
        events=_events_of(events, vectors),
        **options,
    )
    return _with_pytrees(found, vectors)


def _forms(method: Any, jac: str) -> tuple[str, ...]:
    """The forms of the Jacobian that a method accepts; raises TraceError if the method or the form does not exist."""
    if method not in IVP_METHODS:
        raise TraceError(f"solve_ivp requires a method among {', '.join(IVP_METHODS)}, got {method!r}.", where=user_frame())
    forms = IVP_METHODS[method]
    if jac != "auto" and jac not in forms:
        raise TraceError(
            f"solve_ivp requires a Jacobian that {method} accepts ({', '.join(forms) or 'none'}), got {jac!r}.",
            where=user_frame(),
            help="nabla_mlir computes the Jacobian; jac chooses its form.",
        )
    return forms


def _events_of(events: Any, vectors: Vectors) -> Any:
    """The events of `solve_ivp` as functions of the time and of a flat vector.

    `vectors` converts between pytrees and flat vectors.
    """
    if events is None:
        return None
    if callable(events):
        return _event(events, vectors)
    return [_event(event, vectors) for event in events]


def _event(event: Callable[..., Any], vectors: Vectors) -> Callable[..., float]:
    """The user's event as a function of the time and of a flat vector, with the attributes `terminal` and `direction`.

    `vectors` converts between pytrees and flat vectors.
    """

    def of_vector(t: float, y: np.ndarray) -> float:
        return float(event(t, vectors.tree(y)))

    for name in ("terminal", "direction"):
        if hasattr(event, name):
            setattr(of_vector, name, getattr(event, name))
    return of_vector


def _with_pytrees(found: OptimizeResult, vectors: Vectors) -> OptimizeResult:
    """SciPy's result `found` with pytrees instead of flat vectors."""
    found.y = vectors.tree(found.y)
    if found.y_events is not None:
        found.y_events = [[vectors.tree(y) for y in states] for states in found.y_events]
    if found.sol is not None:
        continuous = found.sol
        found.sol = lambda t: vectors.tree(continuous(t))
    return found


def solve_bvp(f: Callable[..., Any], bc: Callable[..., Any], x: PyTree, y: Any, p: Any = None, **options: Any) -> OptimizeResult:
    """The solution of ``dy/dx = f(x, y, p)`` with ``bc(y(a), y(b), p) = 0``, by `scipy.integrate.solve_bvp` with exact Jacobians.

    Args:
      f: a function of x, shape (m,), y, shape (n, m), and, if there are unknown parameters, p, shape (k,). Its result has shape
        (n, m), as in SciPy: each column of the result depends only on the same column of y. A list of rows is accepted.
      bc: a function of y(a) and y(b), shape (n,), and p; its result has shape (n + k,).
      x: the first mesh, shape (m,).
      y: the first guess there, shape (n, m).
      p: the first guess of the parameters.
      options: other options of SciPy: ``S``, ``tol``, ``max_nodes``, ``bc_tol``, ``verbose``.

    Returns:
      SciPy's result.

    Raises:
      TraceError: a Jacobian is among the options.

    Example:
      >>> bratu = lambda x, y: nnp.stack([y[1], -nnp.exp(y[0])])
      >>> found = solve_bvp(bratu, lambda a, b: nnp.stack([a[0], b[0]]), np.linspace(0, 1, 5), np.zeros((2, 5)))
      >>> found.status, float(found.sol(0.5)[0].round(4))
      (0, 0.1405)
    """
    for name in ("fun_jac", "bc_jac"):
        if name in options:
            raise TraceError(f"solve_bvp requires options without {name}, got it.", where=user_frame(), help="it is made here.")
    has_p = p is not None
    f, bc = _of_arrays(f), _of_arrays(bc)
    value, slopes = library(lambda *args: f(*args)), library(_slopes(f))
    at_ends = library(lambda *args: bc(*args))
    of_ends = library(lambda *args: tuple(jacfwd(bc, argnums=tuple(range(len(args))))(*args)))
    return scipy.integrate.solve_bvp(
        lambda *args: np.array(value(*args)),
        lambda *args: np.array(at_ends(*args)),
        np.array(x, np.float64),
        np.array(y, np.float64),
        None if not has_p else np.array(p, np.float64),
        fun_jac=_numpy_results(slopes, has_p),
        bc_jac=_numpy_results(of_ends, True),
        **options,
    )


def _of_arrays(f: Callable[..., Any]) -> Callable[..., Any]:
    """The function `f`, whose result becomes one array, also if the user returns a list of rows."""

    def stacked(*args: Any) -> Any:
        """The result of `f`; a list of results becomes one array, stacked along a new first axis."""
        result = f(*args)
        if not isinstance(result, (list, tuple)):
            return result
        return nnp.stack(nnp.broadcast_arrays(*map(nnp.asarray, result)))

    return stacked


def _slopes(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function for ∂f/∂y, shape (n, n, m), and ∂f/∂p, shape (n, k, m): one product for each row of y and each parameter."""

    def slopes(x: Any, y: Any, *p: Any) -> Any:
        """The derivatives of f(x, y, *p) by y and by the parameters p, each with one more axis."""
        push = lambda e: jvp(lambda y: f(x, y, *p), (y,), (e[:, None] * nnp.ones_like(y),))[1]  # noqa: E731
        of_y = nnp.moveaxis(vmap(push)(nnp.eye(y.shape[0], dtype=y.dtype)), 0, 1)
        if not p:
            return (of_y,)
        return of_y, nnp.moveaxis(jacfwd(lambda p: f(x, y, p))(p[0]), -1, 1)

    return slopes


def _numpy_results(function: Callable[..., Any], has_several: bool) -> Callable[..., Any]:
    """A function with the results as arrays of NumPy: a tuple, or without `has_several` the only one."""

    def call(*args: Any) -> Any:
        """The results of the function as arrays of NumPy: a tuple, or the only one itself."""
        results = tuple(np.array(part) for part in function(*args))
        return results if has_several else results[0]

    return call
