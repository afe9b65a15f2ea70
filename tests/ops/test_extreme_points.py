"""Values and derivatives at huge and tiny arguments, over the whole range of each format, in all modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import mpmath as mp
import numpy as np
import pytest

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.jax.scipy import special, stats

Reference = Callable[[Any], tuple[Any, Any, Any] | None]
FORMATS: dict[str, tuple[Any, int]] = {  # with the distance of the exponents of ten
    "float64": (np.float64, 9),
    "float32": (np.float32, 2),
    "float16": (np.float16, 1),
    "bfloat16": (ml_dtypes.bfloat16, 2),
}


def _squareplus(x: Any) -> tuple[Any, Any, Any]:
    h = mp.sqrt(x * x + 4)
    y = (x + h) / 2 if x > 0 else 2 / (h - x)
    return y, y / h, 2 / h**3


def _gelu(x: Any) -> tuple[Any, Any, Any]:
    c = mp.sqrt(8 / mp.pi)
    u, u1, u2 = c * (x + mp.mpf(0.044715) * x**3), c * (1 + 3 * mp.mpf(0.044715) * x * x), 6 * c * mp.mpf(0.044715) * x
    s, r = 1 / (1 + mp.exp(-u)), 1 / (1 + mp.exp(u))
    return x * s, s + x * u1 * s * r, s * r * (2 * u1 + x * (u2 + u1 * u1 * (r - s)))


def _entropy(x: Any) -> tuple[Any, Any, Any] | None:
    return None if x <= 0 else (-x * mp.log(x), -1 - mp.log(x), -1 / x)


def _scaled(values: tuple[Any, Any, Any] | None, factor: Any) -> tuple[Any, Any, Any] | None:
    return None if values is None else (factor * values[0], factor * values[1], factor * values[2])


def _boxcox_of_two(x: Any) -> tuple[Any, Any, Any] | None:
    """The value has the rounding error of its logarithm times its size, so it is compared for small x only."""
    return None if x <= 0 else ((x * x - 1) / 2 if x < 10 else None, x, mp.mpf(1))


def _cauchy_log_survival(x: Any) -> tuple[Any, Any, Any]:
    p, s = 1 / (1 + x * x), mp.atan2(1, x)
    return mp.log1p(-mp.atan2(1, -x) / mp.pi) if x < 0 else mp.log(s / mp.pi), -p / s, p * p / s * (2 * x - 1 / s)


def _laplace_log_distribution(x: Any) -> tuple[Any, Any, Any]:
    if x < 0:
        return x - mp.log(2), mp.mpf(1), mp.mpf(0)
    e = mp.exp(-x) / 2
    return mp.log1p(-e), e / (1 - e), -e / (1 - e) ** 2


# A function, and its value, derivative and second derivative in mpmath's numbers.
EXTREMES: dict[str, tuple[Callable[[Any], Any], Reference]] = {
    "arcsinh": (nnp.arcsinh, lambda x: (mp.asinh(x), 1 / mp.sqrt(1 + x * x), -x / mp.sqrt(1 + x * x) ** 3)),
    "arctan": (nnp.arctan, lambda x: (mp.atan(x), 1 / (1 + x * x), -2 * x / (1 + x * x) ** 2)),
    "arctan2(1, x)": (
        lambda x: nnp.arctan2(np.ones((), x.dtype), x),
        lambda x: (mp.atan2(1, x), -1 / (1 + x * x), 2 * x / (1 + x * x) ** 2),
    ),
    "gelu": (nm.nn.gelu, _gelu),
    "squareplus": (nm.nn.squareplus, _squareplus),
    "soft_sign": (nm.nn.soft_sign, lambda x: (x / (1 + abs(x)), (1 + abs(x)) ** -2, -2 * mp.sign(x) / (1 + abs(x)) ** 3)),
    "entr": (special.entr, _entropy),
    "x * log(x)": (lambda x: x * nnp.log(x), lambda x: _scaled(_entropy(x), -1)),
    "x * log2(x)": (lambda x: x * nnp.log2(x), lambda x: _scaled(_entropy(x), -1 / mp.log(2))),
    "xlogy(x, x)": (lambda x: special.xlogy(x, x), lambda x: _scaled(_entropy(x), -1)),
    "rel_entr(x, 1)": (lambda x: special.rel_entr(x, np.ones((), x.dtype)), lambda x: _scaled(_entropy(x), -1)),
    "kl_div(1, x)": (
        lambda x: special.kl_div(np.ones((), x.dtype), x),
        lambda x: None if x <= 0 else (x - 1 - mp.log(x), 1 - 1 / x, x**-2),
    ),
    "boxcox(x, 2)": (lambda x: special.boxcox(x, 2.0), _boxcox_of_two),
    "cauchy.logpdf": (
        stats.cauchy.logpdf,
        lambda x: (-mp.log1p(x * x) - mp.log(mp.pi), -2 * x / (1 + x * x), 2 * (x * x - 1) / (1 + x * x) ** 2),
    ),
    "cauchy.logsf": (stats.cauchy.logsf, _cauchy_log_survival),
    "t.logpdf": (
        lambda x: stats.t.logpdf(x, 3.0),
        lambda x: (
            -2 * mp.log1p(x * x / 3) + mp.log(2 / (mp.pi * mp.sqrt(3))),
            -4 * x / (3 + x * x),
            4 * (x * x - 3) / (3 + x * x) ** 2,
        ),
    ),
    "laplace.logcdf": (stats.laplace.logcdf, _laplace_log_distribution),
}
# Exponents at which a formula loses digits to rounding, without an overflow.
INEXACT = {"gelu": (-1, 0, 1), "cauchy.logsf": (-2, -1, 0, 1), "laplace.logcdf": (-5, -4, -3, -2, -1, 0, 1)}


def _points(name: str, dtype: Any, step: int) -> np.ndarray:
    """Numbers of both signs, one for each `step` exponents of ten, with random mantissas."""
    info = ml_dtypes.finfo(dtype)
    low, high = int(np.log10(float(info.tiny))) + 1, int(np.log10(float(info.max))) - 1
    exponents = np.array([k for k in range(low, high + 1, step) if k not in INEXACT.get(name, ())])
    mantissas = np.random.default_rng([47, *name.encode()]).uniform(1, 3, exponents.shape)
    with np.errstate(all="ignore"):
        sizes = mantissas * 10.0**exponents
        return np.concatenate([sizes, -sizes]).astype(dtype)


def _along(g: Callable[[Any], Any], mode: str) -> Callable[[Any], Any]:
    """The derivative of an elementwise function of a vector."""
    if mode == "forward":
        return lambda x: nm.jvp(g, (x,), (np.ones(x.shape, x.dtype),))[1]
    return lambda x: nm.vjp(g, x)[1](np.ones(x.shape, x.dtype))[0]


def _every(f: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    """The value, the derivative by both modes, and the second derivative by all four."""
    modes = ("forward", "reverse")
    first = [_along(f, mode) for mode in modes]
    second = [_along(g, mode) for g in first for mode in modes]
    return lambda x: [g(x) for g in (f, *first, *second)]


def _check(name: str, dtype: Any, x: np.ndarray, found: list[Any]) -> None:
    """Each result is the true number to rounding, or to the smallest normal number of the format."""
    info = ml_dtypes.finfo(dtype)
    largest, orders = float(info.max), (0, 1, 1, 2, 2, 2, 2)
    rtol, atol = 64 * float(info.eps), 4 * float(info.tiny)
    with mp.workdps(60):
        truths = [EXTREMES[name][1](mp.mpf(float(v))) for v in x]
    for order, values in zip(orders, found, strict=True):
        for at, got, true in zip(x, np.asarray(values).astype(np.float64), truths, strict=True):
            if true is None or true[order] is None or abs(true[order]) > largest:
                continue
            wanted = float(true[order])
            assert abs(got - wanted) <= atol + rtol * abs(wanted), f"{name}, order {order}, at {at}: {got}, not {wanted}"


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", EXTREMES)
def test_huge_and_tiny_arguments(name: str, form: str) -> None:
    dtype, step = FORMATS[form]
    x = _points(name, dtype, step)
    with np.errstate(all="ignore"):
        _check(name, dtype, x, _every(EXTREMES[name][0])(x))


@pytest.mark.slow
def test_huge_and_tiny_arguments_compiled() -> None:
    """Compiled code has no subnormal numbers; no factor of these derivatives is one at these points."""
    names = ["arcsinh", "gelu", "squareplus", "cauchy.logsf", "x * log(x)", "boxcox(x, 2)", "xlogy(x, x)", "rel_entr(x, 1)"]
    x = np.array([-1e300, -2e200, -3e150, -1e40, -200.0, -0.003, -1e-40, -1e-150])
    x = np.concatenate([x, -x])
    run = nm.jit(lambda x: [_every(EXTREMES[name][0])(x) for name in names])
    for name, found in zip(names, run(x), strict=True):
        _check(name, np.float64, x, found)
