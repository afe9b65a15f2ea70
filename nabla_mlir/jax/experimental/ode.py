"""The function of `jax.experimental.ode`: solves differential equations by adaptive steps of the fifth order.

The method is that of Dormand and Prince (1980), with the interpolation of Shampine (1986). The first step and the step control
follow Hairer, Nørsett and Wanner (1993, II.4). The constants are those of JAX, so that the steps are the same. Gradients solve
the adjoint equation backwards between the requested times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import DtypeError, user_frame
from nabla_mlir.dialects.types import is_complex, is_differentiable, is_float
from nabla_mlir.jax.flatten_util import ravel_pytree
from nabla_mlir.numpy.joining import concatenate, stack
from nabla_mlir.numpy.logic import clip, where
from nabla_mlir.numpy.operands import convert, inexact
from nabla_mlir.numpy.ufuncs import absolute, maximum, minimum, real, sqrt
from nabla_mlir.staging.eager import staged
from nabla_mlir.table.promotion import as_tensor
from nabla_mlir.table.tensor import Tensor, full, full_like
from nabla_mlir.transforms.closures import closure_convert
from nabla_mlir.transforms.control import while_loop
from nabla_mlir.transforms.custom import custom_vjp
from nabla_mlir.transforms.linear import vjp
from nabla_mlir.transforms.scans import scan
from nabla_mlir.transforms.vectorize import vmap

# For each stage: its time, and the weights of the earlier slopes; the last stage is the step itself.
_STAGES: tuple[tuple[float, tuple[float, ...]], ...] = (
    (1 / 5, (1 / 5,)),
    (3 / 10, (3 / 40, 9 / 40)),
    (4 / 5, (44 / 45, -56 / 15, 32 / 9)),
    (8 / 9, (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729)),
    (1.0, (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656)),
    (1.0, (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84)),
)
_ERROR = (
    35 / 384 - 1951 / 21600,
    0.0,
    500 / 1113 - 22642 / 50085,
    125 / 192 - 451 / 720,
    12231 / 42400 - 2187 / 6784,
    11 / 84 - 649 / 6300,
    -1 / 60,
)
_MIDDLE = tuple(
    w / 2
    for w in (
        6025192743 / 30085553152,
        0.0,
        51252292925 / 65400821598,
        -2691868925 / 45128329728,
        187940372067 / 1594534317056,
        -1776094331 / 19743644256,
        11237099 / 235043384,
    )
)
_SAFETY, _LONGER, _SHORTER = 0.9, 10.0, 0.2  # the safety factor, and the largest and smallest ratio of two steps


def _sum(weights: tuple[float, ...], slopes: list[Tensor]) -> Any:
    return sum(k * w for w, k in zip(weights, slopes, strict=True) if w)


def _size(x: Tensor) -> Tensor:
    """The squared absolute values of the elements."""
    return absolute(x) ** 2 if is_complex(x.dtype) else x * x


def _first_step(f: Any, t: Tensor, y: Tensor, slope: Tensor, rtol: float, atol: float) -> Tensor:
    """The length of the first step of y' = f(y, t), by the rule of Hairer, Nørsett and Wanner; `slope` is y' at the start.

    h = 0.01 |y| / |y'|, and the step is the smaller one of 100 h and (0.01 / max(|y'|, |y''|))^(1 / 5), with scaled norms and y''
    as a difference over h.
    """
    scale = absolute(y) * rtol + atol
    norm = lambda v: sqrt(_size(v / scale).sum())  # noqa: E731
    d, d_slope = norm(y), norm(slope)
    h = where((d < 1e-5) | (d_slope < 1e-5), 1e-6, 0.01 * d / d_slope)
    curvature = norm(f(y + slope * convert(h, y.dtype), t + convert(h, t.dtype)) - slope) / h
    flat = (d_slope <= 1e-15) & (curvature <= 1e-15)
    longest = where(flat, maximum(1e-6, h * 1e-3), (0.01 / maximum(d_slope, curvature)) ** 0.2)
    return convert(minimum(100.0 * h, longest), t.dtype)


def _next_step(h: Tensor, error: Tensor) -> Tensor:
    """The length of the next step, from the length `h` and the relative error of the last one."""
    shorter = where(error < 1.0, 1.0, _SHORTER)
    factor = minimum(_LONGER, maximum(error**-0.2 * _SAFETY, shorter))
    return h * convert(where(error == 0.0, _LONGER, factor), h.dtype)


def _step(f: Any, y: Tensor, slope: Tensor, t: Tensor, h: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The value and the slope after a step of length `h`, its error, and the coefficients of the interpolating polynomial.

    `y` and `slope` are those at the time `t`. The highest power of the polynomial comes first.
    """
    slopes, ahead, own = [slope], y, convert(h, y.dtype)
    for time, weights in _STAGES:
        ahead = y + _sum(weights, slopes) * own
        slopes.append(f(ahead, t + h * time))
    middle = y + _sum(_MIDDLE, slopes) * own
    first, last = slopes[0] * own, slopes[-1] * own
    coefficients = (
        2.0 * (last - first) - 8.0 * (y + ahead) + 16.0 * middle,
        5.0 * first - 3.0 * last + 18.0 * y + 14.0 * ahead - 32.0 * middle,
        last - 4.0 * first - 11.0 * y - 5.0 * ahead + 16.0 * middle,
        first,
        y,
    )
    return ahead, slopes[-1], _sum(_ERROR, slopes) * own, stack(coefficients)


def _solved(f: Any, options: tuple[float, ...], y: Tensor, ts: Tensor) -> Tensor:
    """The solution of y' = f(y, t) at all times `ts`; y is the value at the first one.

    `options` are rtol, atol, the largest number of steps and the longest step.
    """
    rtol, atol, most, longest = options

    def until(carry: Any, target: Tensor) -> Any:
        """The state after the steps up to the time `target`, and the value at this time, from the polynomial of the last step."""

        def goes_on(state: Any) -> Any:
            """True if the time is before the target and the number of steps is not used up."""
            k, _, _, t, h, *_ = state
            moves = (t < target) & (h > 0.0)
            return moves & (k < most) if most < np.inf else moves

        def body(state: Any) -> Any:
            """One step of the method: it is accepted if its error is within the tolerance; the next step size follows from the
            error.

            The state has the number of steps k, y and its slope at the time t, the step size h, the time before the last accepted
            step, and the coefficients of the polynomial over that step.
            """
            k, y, slope, t, h, before, coefficients = state
            next_y, next_slope, error, next_coefficients = _step(f, y, slope, t, h)
            ratio = error / (maximum(absolute(y), absolute(next_y)) * rtol + atol)
            error_norm = sqrt(_size(ratio).mean())
            new = next_y, next_slope, t + h, t, next_coefficients
            old = y, slope, t, before, coefficients
            y, slope, next_t, before, coefficients = (where(error_norm <= 1.0, a, b) for a, b in zip(new, old, strict=True))
            return k + 1, y, slope, next_t, clip(_next_step(h, error_norm), 0.0, longest), before, coefficients

        _, *carry = while_loop(goes_on, body, (full((), 0, np.dtype(np.int32)), *carry))
        t, before, coefficients = carry[2], carry[4], carry[5]
        position, value = convert((target - before) / (t - before), coefficients.dtype), coefficients[0]
        for k in range(1, 5):
            value = value * position + coefficients[k]
        return carry, value

    slope = f(y, ts[0])
    h = clip(_first_step(f, ts[0], y, slope, rtol, atol), 0.0, longest)
    start = [y, slope, ts[0], h, ts[0], stack([y] * 5)]
    return concatenate([y[None], scan(until, start, ts[1:])[1]])


def _odeint(func: Any, options: Any, y: Tensor, ts: Tensor, *args: Any) -> Tensor:
    return _solved(lambda y, t: func(y, t, *args), options, y, ts)


_solve: Any = custom_vjp(_odeint, nondiff_argnums=(0, 1))


def _forward(func: Any, options: Any, y: Tensor, ts: Tensor, *args: Any) -> Any:
    ys = _solve(func, options, y, ts, *args)
    return ys, (ys, ts, args)


def _backward(func: Any, options: Any, residuals: Any, ct: Tensor) -> Any:
    """The cotangents of all arguments: the adjoint equation is integrated from each time to the time before it.

    `residuals` are the solution, the times and the other arguments, and `ct` is the cotangent of the solution.
    """
    ys, ts, args = residuals
    leaves, spec = pytree.flatten(args)
    active = [i for i, x in enumerate(leaves) if is_differentiable(x.dtype)]

    def slope_of(y: Tensor, t: Tensor, *inner: Tensor) -> Tensor:
        """The slope as a function of the value, the time, and the differentiable arguments."""
        values = {**dict(enumerate(leaves)), **dict(zip(active, inner, strict=True))}
        return func(y, t, *pytree.unflatten(spec, [values[i] for i in range(len(leaves))]))

    def adjoint(state: Any, t: Tensor, *inner: Tensor) -> Any:
        """The slopes of the adjoint equation, in reversed time."""
        y, y_bar, *_ = state
        slope, pull = vjp(slope_of, y, -t, *inner)
        of_y, of_t, *rest = pull(y_bar)
        return (-slope, of_y, of_t, rest)

    points = [leaves[i] for i in active]

    def back(carry: Any, at: Any) -> Any:
        """The cotangents at the time before, and the cotangent of the time.

        `at` has the values at this time, the cotangents of the solution at both times, and both times.
        """
        y_bar, t_bar, bars = carry
        y, ct_before, ct_here, t, before = at
        of_t = real((slope_of(y, t, *points) * ct_here).sum())
        state = (y, y_bar, t_bar - convert(of_t, t_bar.dtype), bars)
        times = stack([-t, -before])
        _, y_bar, t_bar, bars = _integrated(adjoint, options, state, times, points)
        last = [v[1] for v in (y_bar, t_bar)]
        return (last[0] + ct_before, last[1], [v[1] for v in bars]), of_t

    start = ct[-1], full_like(ts[0], 0), [full_like(x, 0) for x in points]
    rows = (ys[1:], ct[:-1], ct[1:], ts[1:], ts[:-1])
    (y_bar, t_bar, bars), ts_bar = scan(back, start, rows, reverse=True)
    by_position = dict(zip(active, bars, strict=True))
    args_bar = pytree.unflatten(spec, [by_position.get(i) for i in range(len(leaves))])
    return (y_bar, concatenate([t_bar[None], convert(ts_bar, ts.dtype)]), *args_bar)


_solve.defvjp(_forward, _backward)


def _integrated(func: Any, options: Any, y: Any, ts: Tensor, args: Any) -> Any:
    """The solution of an equation whose state is a pytree `y`, at the times `ts`; its leaves become one vector."""
    vector, tree_of = ravel_pytree(y)

    def flat(v: Tensor, t: Tensor, *args: Any) -> Tensor:
        return convert(ravel_pytree(func(tree_of(v), t, *args))[0], vector.dtype)

    return vmap(tree_of)(_solve(flat, options, vector, ts, *args))


def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: Any,
    *args: Any,
    rtol: float = 1.4e-8,
    atol: float = 1.4e-8,
    mxstep: float = np.inf,
    hmax: float = np.inf,
) -> Any:
    """The solution of ``dy/dt = func(y, t, *args)`` at the times t, with the value y0 at the first time.

    Reverse mode solves the adjoint equation, to any order. It differentiates by `y0`, `t`, `args` and the outer traced values that
    `func` reads. Forward mode raises an error, because the adaptive steps of the adjoint equation are not a linear function.

    Args:
      func: a function of a pytree like `y0`, a time and `args`; its result is a pytree like `y0`.
      y0: a pytree of floating-point arrays.
      t: increasing floating-point times.
      args: pytrees of arrays.
      rtol, atol: the relative and absolute tolerance of the error of a step.
      mxstep: the largest number of steps from one time to the next.
      hmax: the largest step.

    Returns:
      A pytree like `y0`, with a leading axis for the times.

    Raises:
      DtypeError: the dtype of the times is not floating point.

    Example:
      >>> y = odeint(lambda y, t, rate: -rate * y, np.float32(1.0), np.array([0.0, 1.0], np.float32), 0.5)
      >>> np.asarray(y).round(4).tolist()
      [1.0, 0.6065...]
    """

    def run(y0: Any, t: Any, args: Any) -> Any:
        """Converts the state to floating point, and integrates; arrays that `func` refers to become arguments. Raises DtypeError if
        the times are not floating-point numbers.
        """
        ts = as_tensor(t)
        if not is_float(ts.dtype):
            raise DtypeError(
                f"odeint requires times of floating point, got {ts.dtype}.", where=user_frame(), help="convert them with astype."
            )
        leaves, spec = pytree.flatten(y0)
        start = pytree.unflatten(spec, [inexact(x) for x in leaves])
        function, values = closure_convert(func, start, ts[0], *args)
        return _integrated(function, (rtol, atol, mxstep, hmax), start, ts, (*args, *values))

    return staged(run)(y0, t, args)
