"""Incomplete gamma and beta functions over their whole domain, on a logarithmic scale, against mpmath; f32 against f64.

A result e^-L has the roundings of an exponent L: the bound is of units in the last place times 1 + L.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special

import nabla_mlir as nm
from nabla_mlir.jax.scipy import special, stats
from nabla_mlir.jax.scipy.gamma_ratios import deviance

pytestmark = pytest.mark.slow

MP = mpmath.mp
BOUND = 12
RNG = np.random.default_rng(5)


def _tail(log_density: Callable[[Any], Any], x: Any, length: Any) -> Any:
    """The integral of a bell from x - length to x."""
    base = log_density(x)
    return MP.exp(base) * length * MP.quad(lambda u: MP.exp(log_density(x - length * u) - base), MP.linspace(0, 1, 9))


def gamma_tail(a: Any, x: Any) -> Any:
    """P(a, x) for x < a, and Q(a, x) else."""
    a, x = MP.mpf(a), MP.mpf(x)
    size = MP.loggamma(a)
    log_density = lambda t: (a - 1) * MP.log(t) - t - size  # noqa: E731
    spread = 16 * MP.sqrt(a)
    return _tail(log_density, x, min(x, spread)) if x < a else -_tail(log_density, x, -spread)


def beta_tail(a: Any, b: Any, x: Any) -> Any:
    """I_x(a, b) for x below the mean."""
    a, b, x = MP.mpf(a), MP.mpf(b), MP.mpf(x)
    size = MP.loggamma(a) + MP.loggamma(b) - MP.loggamma(a + b)
    spread = 16 * MP.sqrt(a * b / (a + b) ** 3)
    return _tail(lambda t: (a - 1) * MP.log(t) + (b - 1) * MP.log(1 - t) - size, x, min(x, spread))


@pytest.fixture(autouse=True)
def precise() -> Any:
    with mpmath.workdps(40):
        yield


def _assert_near(found: Any, want: np.ndarray, bound: float = BOUND) -> None:
    found = np.asarray(found)
    size = np.where(want == 0, 1, np.abs(want))
    error = np.abs(found - want) / size / np.finfo(found.dtype).eps
    assert ((error < bound * (1 + np.abs(np.log(size)))) & ((found == 0) | (want != 0))).all(), (found, want, error)


def _gamma_points() -> tuple[np.ndarray, np.ndarray]:
    a = 10 ** np.linspace(1.5, 14, 24)
    return a, a + RNG.uniform(-6, 6, a.size) * np.sqrt(a) * np.resize([1, 0.1], a.size)


def test_gammainc_at_large_parameters() -> None:
    a, x = _gamma_points()
    want = np.array([float(gamma_tail(*v)) for v in zip(a, x, strict=True)])
    for wrap in (lambda f: f, nm.jit):
        low, high = wrap(special.gammainc)(a, x), wrap(special.gammaincc)(a, x)
        left = x < a
        _assert_near(np.where(left, low, high), want)
        np.testing.assert_allclose(np.asarray(low) + np.asarray(high), 1.0, rtol=1e-15)


@pytest.mark.parametrize("name", ["gammainc", pytest.param("gammaincc", marks=pytest.mark.slow)])
def test_gamma_over_its_domain(name: str) -> None:
    """Where SciPy is right: it loses the tails of large parameters."""
    a, x = (v.ravel() for v in np.meshgrid(np.logspace(-2, 2.2, 15), np.logspace(-2, 2.5, 16)))
    want = getattr(scipy.special, name)(a, x)
    for dtype, bound in ((np.float64, 100), (np.float32, 400)):
        found = np.asarray(nm.jit(getattr(special, name))(a.astype(dtype), x.astype(dtype)))
        want = getattr(scipy.special, name)(a.astype(dtype).astype(float), x.astype(dtype).astype(float))
        is_normal = want > np.finfo(dtype).tiny * 1e3
        _assert_near(found[is_normal], want[is_normal], bound)


def test_betainc_at_large_parameters() -> None:
    a, b = 10 ** RNG.uniform(2, 12, (2, 30))
    mean = a / (a + b)
    x = mean - RNG.uniform(0.1, 5, a.size) * np.sqrt(mean * (b / (a + b)) / (a + b + 1))
    a, b, x = (v[x > 0] for v in (a, b, x))
    want = np.array([float(beta_tail(*v)) for v in zip(a, b, x, strict=True)])
    for f in (special.betainc, nm.jit(special.betainc)):
        _assert_near(f(a, b, x), want, 60)


def test_single_precision_at_large_parameters() -> None:
    """The numbers of the report: 1874 and 2.3 where probabilities are."""
    single = lambda *v: [np.float32(u) for u in v]  # noqa: E731
    for a, x in ((1e7, 1e7), (1e6, 1e6), (1e7, 1.001e7), (3e8, 3e8)):
        want = float(gamma_tail(float(np.float32(a)), float(np.float32(x))))
        for f in (special.gammainc, nm.jit(special.gammainc)):
            np.testing.assert_allclose(float(f(*single(a, x))), want if x < a else 1 - want, rtol=2e-6)
    for a, b, x in ((1e6, 1e6, 0.5), (1e7, 2e7, 0.3333), (1e4, 1e6, 0.0099)):
        a, b, x = (float(np.float32(v)) for v in (a, b, x))
        for f in (special.betainc, nm.jit(special.betainc)):
            np.testing.assert_allclose(float(f(*single(a, b, x))), scipy.special.betainc(a, b, x), rtol=1e-4)
    assert abs(float(special.gammainc(1e6, np.float64(1e6))) - (1 - float(gamma_tail(1e6, 1e6)))) < 1e-15


def _small_points(dtype: Any, count: int) -> list[np.ndarray]:
    """Parameters from the smallest to 1000, and arguments, on a logarithmic scale."""
    rng = np.random.default_rng(7)
    low = -30 if dtype is np.float32 else -250
    columns = [10 ** np.where(rng.random(40) < 0.5, rng.uniform(low, 0, 40), rng.uniform(-4, 3, 40)) for _ in range(count)]
    return [c.astype(dtype) for c in columns]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_small_orders_of_the_incomplete_gamma_functions(dtype: Any) -> None:
    a, x = _small_points(dtype, 2)
    a, x = np.minimum(a, 30), np.minimum(x, 30)
    for f, ends in ((special.gammaincc, lambda x: (x, MP.inf)), (special.gammainc, lambda x: (0, x))):
        want = np.array(
            [float(MP.gammainc(float(p), *ends(MP.mpf(float(y))), regularized=True)) for p, y in zip(a, x, strict=True)]
        )
        seen = want > 10 * float(np.finfo(dtype).tiny)
        assert seen.sum() > 15
        _assert_near(f(a, x)[seen], want[seen], 10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_small_parameters_of_the_incomplete_beta_function(dtype: Any) -> None:
    a, b, _ = _small_points(dtype, 3)
    x = np.random.default_rng(3).uniform(0, 1, a.size).astype(dtype)
    x[::4] = x[::4] ** 20
    want = np.array(
        [
            float(MP.betainc(*(MP.mpf(float(v)) for v in (p, q)), 0, MP.mpf(float(y)), regularized=True))
            for p, q, y in zip(a, b, x, strict=True)
        ]
    )
    seen = want > 10 * float(np.finfo(dtype).tiny)
    assert seen.sum() > 15
    _assert_near(special.betainc(a, b, x)[seen], want[seen], 10)


def test_small_parameters_compiled() -> None:
    for dtype in (np.float32, np.float64):
        a, x = (np.minimum(v, 30) for v in _small_points(dtype, 2))
        y = x / (x + 1)
        for f, args in ((special.gammaincc, (a, x)), (special.betainc, (a, a[::-1].copy(), y))):
            _assert_near(nm.jit(f)(*args), np.asarray(f(*args), np.float64), 20)


@pytest.mark.parametrize("args", [(1e-9, 0.3), (1e-3, 0.9), (0.5, 0.2), (0.999, 0.5)])
def test_derivatives_by_small_orders(args: tuple[float, float]) -> None:
    a, x = (np.float64(v) for v in args)
    with MP.workdps(40):
        upper = lambda a: MP.gammainc(a, x, MP.inf, regularized=True)  # noqa: E731
        first, second = (float(MP.diff(upper, MP.mpf(a), n, h=MP.mpf(10) ** -14)) for n in (1, 2))
    f = lambda a: special.gammaincc(a, x)  # noqa: E731
    for mode in (nm.grad, nm.jacfwd):
        np.testing.assert_allclose(mode(f)(a), first, rtol=1e-11)
    for outer, inner in ((nm.jacfwd, nm.grad), (nm.grad, nm.grad)):
        np.testing.assert_allclose(outer(inner(f))(a), second, rtol=1e-7)
    np.testing.assert_allclose(nm.vmap(nm.grad(f))(np.array([a, a])), [first] * 2, rtol=1e-11)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logarithms_of_beta_functions(dtype: Any) -> None:
    rng = np.random.default_rng(2)
    a, b = ((10 ** rng.uniform(-6, 14, 60)).astype(dtype) for _ in range(2))
    want = [
        MP.loggamma(MP.mpf(float(p))) + MP.loggamma(MP.mpf(float(q))) - MP.loggamma(MP.mpf(float(p)) + MP.mpf(float(q)))
        for p, q in zip(a, b, strict=True)
    ]
    np.testing.assert_allclose(special.betaln(a, b), np.array([float(v) for v in want]), rtol=10 * float(np.finfo(dtype).eps))


def test_ratios_of_gamma_functions_of_large_numbers() -> None:
    n, k = np.array([1e3, 1e6, 1e10, 1e12, 1e12]), np.array([500.0, 3.0, 2.0, 1.0, 20.0])
    choose = [float(MP.binomial(*v)) for v in zip(n, k, strict=True)]
    np.testing.assert_allclose(special.comb(n, k), choose, rtol=1e-12)
    rising = [float(MP.rf(*v)) for v in zip(n[1:], k[1:], strict=True)]
    np.testing.assert_allclose(special.poch(n[1:], k[1:]), rising, rtol=1e-12)
    z, m, one = (np.float64(v) for v in (1e6, 3, 1))
    np.testing.assert_allclose(nm.grad(special.poch, 1)(z, m), rising[0] * float(MP.digamma(z + m)), rtol=1e-12)
    np.testing.assert_allclose(nm.grad(special.betaln)(z, one), float(MP.digamma(z) - MP.digamma(z + one)), rtol=1e-7)


def test_parameters_at_their_ends_are_limits() -> None:
    inf, nan = np.inf, np.nan
    cases: list[tuple[Any, tuple[float, ...], float]] = [
        (special.gammainc, (0.0, 2.0), 1),
        (special.gammainc, (inf, 2.0), 0),
        (special.gammaincc, (0.0, 2.0), 0),
        (special.gammaincc, (inf, 2.0), 1),
        (special.gammainc, (2.0, inf), 1),
        (special.gammainc, (2.0, 0.0), 0),
        (special.betainc, (0.0, 2.0, 0.3), 1),
        (special.betainc, (2.0, 0.0, 0.3), 0),
        (special.betainc, (inf, 2.0, 0.3), 0),
        (special.betainc, (2.0, inf, 0.3), 1),
        (special.betainc, (0.0, 0.0, 0.3), nan),
        (special.betainc, (inf, inf, 0.3), nan),
        (special.betainc, (-1.0, 2.0, 0.3), nan),
        (special.betainc, (2.0, 1.0, nan), nan),
        (special.gammainc, (nan, 2.0), nan),
    ]
    for f, args, want in cases:
        for g in (f, nm.jit(f)):
            np.testing.assert_array_equal(np.asarray(g(*map(np.float64, args))), want, err_msg=f"{f.__name__} {args}")


def _slope(f: Callable[..., Any], args: tuple[float, ...], k: int) -> float:
    points = [MP.mpf(a) for a in args]
    step = MP.mpf(10) ** -12 * points[k]
    up, down = ([*points[:k], points[k] + s, *points[k + 1 :]] for s in (step, -step))
    return float((f(*up) - f(*down)) / (2 * step))


@pytest.mark.parametrize("args", [(30.0, 25.0), (1e5, 99900.0), (1e9, 1e9 - 2e4)])
def test_derivatives_of_gammainc(args: tuple[float, ...]) -> None:
    for k in (0, 1):
        want = _slope(gamma_tail, args, k)
        for derivative in (nm.grad(special.gammainc, k), nm.jacfwd(special.gammainc, k), nm.jit(nm.grad(special.gammainc, k))):
            np.testing.assert_allclose(float(derivative(*map(np.float64, args))), want, rtol=1e-9)
    curvature = nm.grad(nm.grad(special.gammainc, 1), 1)(*map(np.float64, args))
    a, x = args
    np.testing.assert_allclose(float(curvature), _slope(gamma_tail, args, 1) * ((a - 1 - x) / x), rtol=1e-8)


@pytest.mark.parametrize("args", [(30.0, 40.0, 0.4), (5000.0, 3000.0, 0.62), (1e8, 3e8, 0.24999)])
def test_derivatives_of_betainc(args: tuple[float, ...]) -> None:
    for k in (0, 1, 2):
        want = _slope(beta_tail, args, k)
        for derivative in (nm.grad(special.betainc, k), nm.jacfwd(special.betainc, k)):
            np.testing.assert_allclose(float(derivative(*map(np.float64, args))), want, rtol=1e-8)


@pytest.mark.parametrize("name", ["gammainc", "gammaincc", "betainc"])
def test_constant_parameters_are_not_differentiated(name: str) -> None:
    """Their loops would be traced, differentiated and dropped. The derivatives are the same."""
    f, point = getattr(special, name), (2.0, 3.0) if name == "betainc" else (2.0,)
    x = np.float64(0.3)
    fixed, free = nm.grad(lambda x: f(*point, x)), nm.grad(f, len(point))
    sizes = [str(nm.trace(g, *[x] * n)).count("\n") for g, n in ((fixed, 1), (free, len(point) + 1))]
    assert sizes[0] < 0.6 * sizes[1]
    arguments = [*map(np.float64, point), x]
    for one, other in ((fixed, free), (nm.grad(fixed), nm.grad(free, len(point))), (nm.jacfwd(fixed), nm.jacfwd(free, len(point)))):
        np.testing.assert_allclose(one(x), other(*arguments), rtol=1e-14)
    np.testing.assert_allclose(nm.vmap(fixed)(np.array([x, x])), [fixed(x)] * 2, rtol=1e-14)


@pytest.mark.parametrize("u", [-0.999, -0.5, -1e-9, 0.0, 1e-12, 0.7, 1.0, 50.0, 1e7])
def test_derivatives_of_deviances(u: float) -> None:
    """By a formula: the derivatives of the series would be as long as it."""
    u = np.float64(u)
    f = lambda u: deviance(u, 1 + u)  # noqa: E731
    wanted = [u / (1 + u), 1 / (1 + u) ** 2]
    for inner, outer in itertools.product((nm.jacfwd, nm.jacrev), repeat=2):
        np.testing.assert_allclose(inner(f)(u), wanted[0], rtol=1e-15)
        np.testing.assert_allclose(outer(inner(f))(u), wanted[1], rtol=1e-14)


def test_distributions_of_large_parameters() -> None:
    """Made of these functions, with the medians and quantiles that the normal distribution gives them."""
    for n in (1e4, 1e8, 1e12):
        z = np.array([-3.0, 0.0, 2.0])
        want = scipy.special.ndtr(z)
        near = 2 / np.sqrt(n)
        np.testing.assert_allclose(np.asarray(stats.gamma.cdf(n + z * np.sqrt(n), n)), want, atol=near)
        np.testing.assert_allclose(np.asarray(stats.chi2.cdf(n + z * np.sqrt(2 * n), n)), want, atol=near)
        np.testing.assert_allclose(np.asarray(stats.poisson.cdf(np.floor(n + z * np.sqrt(n)), n)), want, atol=near)
        np.testing.assert_allclose(np.asarray(stats.beta.cdf(0.5 + z * np.sqrt(0.125 / n), n, n)), want, atol=near)
