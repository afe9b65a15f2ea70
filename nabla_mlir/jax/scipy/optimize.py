"""Minimisation inside traces, under the name and with the results of `jax.scipy.optimize`.

Solvers on the host, with constraints, bounds and Hessian-vector products, are `nm.minimize`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.staging.eager import staged
from nabla_mlir.transforms.control import while_loop
from nabla_mlir.transforms.gradients import value_and_grad

_DECREASE, _CURVATURE = 1e-4, 0.9  # the constants of Wolfe's conditions


class OptimizeResults(NamedTuple):
    """The result of a minimisation.

    Attributes:
      x: the point.
      success: True if the gradient at x is small enough.
      status: 0 for success, 1 after the last iteration, 3 if no step decreases the function.
      fun, jac, hess_inv: the value, the gradient, and the approximation of the inverse Hessian.
      nfev, njev, nit: the numbers of values, gradients and iterations.
    """

    x: Any
    success: Any
    status: Any
    fun: Any
    jac: Any
    hess_inv: Any
    nfev: Any
    njev: Any
    nit: Any


def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: tuple[Any, ...] = (),
    *,
    method: str,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """Finds a local minimum of a function of a vector by BFGS, with steps that satisfy the Wolfe conditions.

    Args:
      fun: ``fun(x, *args)`` with a scalar result.
      x0: the start, a vector.
      args: further arguments.
      method: "BFGS".
      tol: the norm of the gradient for success; the default is 1e-5.
      options: "gtol" (the same as `tol`), "norm" (the order of the norm, inf), "maxiter" (200 for each unknown) and
        "line_search_maxiter" (30).

    Raises:
      ShapeError: the method is unknown, or x0 is not a vector.

    Example:
      >>> import numpy as np
      >>> minimize(lambda x: ((x - 1) ** 2).sum(), np.zeros(2), method="BFGS").x.round(6).tolist()
      [1.0, 1.0]
    """
    if method.lower() != "bfgs":
        raise ShapeError(
            f"minimize requires the method BFGS, got {method!r}.",
            where=user_frame(),
            help="nm.minimize has SciPy's methods, outside of traces.",
        )
    settings = {"gtol": 1e-5 if tol is None else tol, "norm": nnp.inf, "maxiter": None, "line_search_maxiter": 30}
    unknown = set(options or {}) - set(settings)
    if unknown:
        raise ShapeError(
            f"minimize requires options among {', '.join(settings)}, got {', '.join(sorted(unknown))}.", where=user_frame()
        )
    settings |= options or {}
    return staged(lambda x0, args: _bfgs(lambda x: fun(x, *args), x0, settings))(x0, tuple(args))


def _bfgs(fun: Callable[[Any], Any], x0: Any, settings: Mapping[str, Any]) -> OptimizeResults:
    """The result of the BFGS iterations for the function `fun` from x0, with the settings of `minimize`."""
    x = nnp.asarray(x0)
    if x.ndim != 1:
        raise ShapeError(
            f"minimize requires a vector x0, got shape {x.shape}.",
            where=user_frame(),
            help="flatten it with flatten_util.ravel_pytree.",
        )
    both = value_and_grad(fun)
    maxiter = 200 * x.size if settings["maxiter"] is None else settings["maxiter"]
    unit = nnp.eye(x.size, dtype=x.dtype)

    def size(g: Any) -> Any:
        """The norm of a gradient, by which convergence is tested."""
        return nnp.linalg.norm(g, ord=settings["norm"])

    def step(state: Any) -> Any:
        """The state after one iteration of BFGS: a line search along -H g, then the update of the inverse Hessian H.

        The state has the point, the value, the gradient, H, the numbers of iterations and evaluations, and True if no step was
        found.
        """
        x, f, g, inverse, k, calls, _ = state
        d = -(inverse @ g)
        first = nnp.where(k == 0, nnp.minimum(1, 1 / nnp.linalg.norm(g)), 1)
        found, t, following, slope, more = _line_search(both, x, f, g, d, first, settings["line_search_maxiter"])
        s, y = t * d, slope - g
        sy = s @ y
        is_convex = found & (sy > 0)
        rho = nnp.where(is_convex, 1 / nnp.where(is_convex, sy, 1), 0)
        base = nnp.where(is_convex & (k == 0), sy / nnp.where(is_convex, y @ y, 1), 1) * inverse
        left = unit - rho * nnp.outer(s, y)
        curvature = left @ base @ left.T + rho * nnp.outer(s, s)
        return (
            nnp.where(found, x + s, x),
            nnp.where(found, following, f),
            nnp.where(found, slope, g),
            nnp.where(is_convex, curvature, inverse),
            k + 1,
            calls + more,
            ~found,
        )

    f, g = both(x)
    start = (x, f, g, unit, 0, 1, nnp.asarray(False))
    go_on = lambda s: (size(s[2]) > settings["gtol"]) & (s[4] < maxiter) & ~s[6]  # noqa: E731
    x, f, g, inverse, k, calls, is_stuck = while_loop(go_on, step, start)
    success = size(g) <= settings["gtol"]
    status = nnp.where(success, 0, nnp.where(is_stuck, 3, 1))
    return OptimizeResults(x, success, status, f, g, inverse, calls, calls, k)


def _line_search(both: Any, x: Any, f: Any, g: Any, d: Any, first: Any, maxiter: int) -> Any:
    """A step along the direction d that satisfies the Wolfe conditions, by bisection (Lewis and Overton 2013).

    `both` gives the value and the gradient at a point; f and g are those at x. `first` is the length of the first trial.

    Returns:
      True if a step was found, its length, the value and gradient after it, and the number of evaluations.
    """
    slope = g @ d

    def fits(state: Any) -> tuple[Any, Any]:
        """Two truth values: the step decreases the function enough, and the slope after it is flat enough."""
        t, _, _, value, gradient, _ = state
        return value <= f + _DECREASE * t * slope, gradient @ d >= _CURVATURE * slope

    def step(state: Any) -> Any:
        """The state after one more trial: the interval of suitable lengths is halved, or the length is doubled without an upper
        end.
        """
        t, low, high, _, _, k = state
        goes_down, _ = fits(state)
        low, high = nnp.where(goes_down, t, low), nnp.where(goes_down, high, t)
        t = nnp.where(nnp.isinf(high), 2 * low, (low + high) / 2)
        return (t, low, high, *both(x + t * d), k + 1)

    def go_on(state: Any) -> Any:
        """True while the step does not satisfy both conditions and evaluations are left."""
        goes_down, is_flatter = fits(state)
        return ~(goes_down & is_flatter) & (state[5] < maxiter)

    t = nnp.asarray(first, dtype=x.dtype)
    state = while_loop(go_on, step, (t, nnp.zeros_like(t), nnp.full_like(t, nnp.inf), *both(x + t * d), 1))
    goes_down, _ = fits(state)
    return goes_down & (state[3] < f), state[0], state[3], state[4], state[5]
