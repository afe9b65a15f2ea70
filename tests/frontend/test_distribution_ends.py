"""Distributions beside SciPy at NaN, at infinities, at the ends of their support and outside of it, in values and in quantiles."""

from __future__ import annotations

import functools
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.stats

import nabla_mlir as nm
from nabla_mlir.jax.scipy import stats
from nabla_mlir.jax.scipy.distributions import Distribution

pytestmark = pytest.mark.slow

# The parameters of each, and the ends of the support.
SHAPES: dict[str, list[tuple[tuple[float, ...], tuple[float, ...]]]] = {
    "norm": [((), (0,))],
    "expon": [((), (0,))],
    "uniform": [((), (0, 1))],
    "laplace": [((), (0,))],
    "logistic": [((), (0,))],
    "cauchy": [((), (0,))],
    "gumbel_r": [((), (0,))],
    "gumbel_l": [((), (0,))],
    "t": [((2.5,), (0,))],
    "gamma": [((1.0,), (0,)), ((2.5,), (0,)), ((0.5,), (0,))],
    "chi2": [((2.0,), (0,)), ((3.5,), (0,)), ((1.0,), (0,))],
    "beta": [((1.0, 1.0), (0, 1)), ((2.0, 3.5), (0, 1)), ((0.5, 0.5), (0, 1)), ((1.0, 2.0), (0, 1))],
    "pareto": [((2.5,), (0, 1))],
    "gennorm": [((1.5,), (0,)), ((0.5,), (0,))],
    "vonmises": [((1.5,), (-np.pi, np.pi))],
    "wrapcauchy": [((0.5,), (0, 2 * np.pi))],
    "truncnorm": [((-1.0, 2.0), (-1, 2)), ((3.0, np.inf), (3,))],
    "bernoulli": [((0.3,), (0, 1)), ((0.0,), (0, 1)), ((1.0,), (0, 1))],
    "binom": [((3.0, 0.3), (0, 3)), ((3.0, 0.0), (0, 3)), ((3.0, 1.0), (0, 3))],
    "geom": [((0.3,), (1,)), ((1.0,), (1,))],
    "poisson": [((2.5,), (0,)), ((0.0,), (0,))],
    "nbinom": [((2.5, 0.3), (0,))],
    "betabinom": [((3.0, 0.5, 2.0), (0, 3))],
}
# On a circle each place has a density; SciPy's functions are those of one period.
WITHOUT_INFINITY = ("vonmises",)
NAMES = ("logpdf", "pdf", "logpmf", "pmf", "cdf", "sf", "logcdf", "logsf")
DENSITIES = NAMES[:4]


def points_of(name: str, ends: tuple[float, ...]) -> np.ndarray:
    """NaN, infinities, and numbers at, near and far from the ends."""
    near = [e + d for e in ends for d in (-1.5, -1.0, -1e-3, 0.0, 1e-3, 0.5, 1.0, 2.0)]
    far = [] if name in WITHOUT_INFINITY else [np.inf, -np.inf, 1e3, -1e3, 1e15, -1e15, 1e300, -1e300]
    return np.array([np.nan, *near, *far])


@pytest.mark.parametrize("name", SHAPES)
def test_nan_in_any_argument_gives_nan_or_nothing(name: str) -> None:
    """A NaN as a parameter gives no finite number if the function depends on it."""
    ours = getattr(stats, name)
    shapes, ends = SHAPES[name][0]
    arguments = [float(ends[0]) if ours.is_discrete else ends[name == "pareto"] + 0.5, *shapes]
    for function in (n for n in NAMES if hasattr(ours, n)):
        for k in range(len(arguments)):
            broken = [np.float64(np.nan if i == k else a) for i, a in enumerate(arguments)]
            with np.errstate(all="ignore"):
                assert np.isnan(np.asarray(getattr(ours, function)(*broken))), (function, k)


def test_all_distributions_are_in_the_table() -> None:
    assert {name for name, value in vars(stats).items() if isinstance(value, Distribution)} == set(SHAPES)


# They compile for ten to sixty seconds: incomplete functions.
LONG = ("beta", "betabinom", "binom", "chi2", "gamma", "gennorm", "nbinom", "poisson", "t", "truncnorm")
COMPILED = ("logpdf", "logpmf", "cdf", "logsf")  # of those; the others are made of the same


def functions_of(name: str) -> list[str]:
    return [function for function in NAMES if hasattr(getattr(stats, name), function)]


def arguments_of(name: str, shape: tuple[float, ...], ends: tuple[float, ...]) -> tuple[Any, ...]:
    return (points_of(name, ends), *map(np.float64, shape))


@functools.cache
def compiled(*names: str) -> Any:
    """The functions of distributions, with parameters that are arguments, as entry points of one program."""
    traces = {}
    for name in names:
        for shape, ends in SHAPES[name]:
            x, *parameters = arguments_of(name, shape, ends)
            for function in functions_of(name) if name not in LONG else COMPILED:
                entry = f"{name}_{function}_{x.size}"
                if function in functions_of(name) and entry not in traces:
                    f = getattr(getattr(stats, name), function)
                    traces[entry] = nm.trace(lambda *xs, f=f: f(*xs), x, *parameters, name=entry)
    return nm.module(**traces).lower().compile(nm.CPU()).loaded


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if n in LONG else []) for n in SHAPES])
def test_values_are_those_of_scipy(name: str) -> None:
    ours, theirs = getattr(stats, name), getattr(scipy.stats, name)
    module = compiled(name) if name in LONG else compiled(*(n for n in SHAPES if n not in LONG))
    for shape, ends in SHAPES[name]:
        arguments = arguments_of(name, shape, ends)
        x = arguments[0]
        for function in functions_of(name):
            with np.errstate(all="ignore"):
                want = getattr(theirs, function)(x, *shape)
            if function in DENSITIES:  # SciPy has NaN at some infinities
                want = np.where(np.isinf(x), -np.inf if function.startswith("log") else 0.0, want)
            found = np.asarray(getattr(ours, function)(*arguments))
            # SciPy takes some logarithms of numbers that underflow, or that are within a rounding of 1.
            want = np.where(np.isneginf(want) & (found < -700), found, want)
            want = np.where(np.isneginf(found) & (want < -700), found, want)
            atol = 1e-15 if function in ("logcdf", "logsf") else 1e-300
            np.testing.assert_allclose(found, want, rtol=1e-11, atol=atol, err_msg=f"{function} {shape} at {x}")
            if name not in LONG or function in COMPILED:
                got = np.asarray(module[f"{name}_{function}_{x.size}"](*arguments))
                np.testing.assert_allclose(got, found, rtol=1e-11, atol=1e-300, err_msg=f"compiled {function} {shape}")


def _slopes(f: Any) -> list[Any]:
    """The first derivative in two modes and the second in four, of a function of vectors, element by element."""

    def along(g: Any, mode: str) -> Any:
        if mode == "jvp":
            return lambda x: nm.jvp(g, (x,), (np.ones(x.shape),))[1]
        return lambda x: nm.vjp(g, x)[1](np.ones(x.shape))[0]

    modes = ("jvp", "vjp")
    return [along(f, mode) for mode in modes] + [along(along(f, inner), outer) for inner in modes for outer in modes]


# Parameters with which the density is infinite at an end of the support, and points outside of it.
OUTSIDE: dict[str, tuple[tuple[float, ...], list[float]]] = {
    "expon": ((), [-np.inf, -2.0, -0.5]),
    "uniform": ((), [-np.inf, -2.0, 1.5, np.inf]),
    "pareto": ((2.5,), [-np.inf, -2.0, 0.5]),
    "truncnorm": ((-1.0, 2.0), [-np.inf, -1.5, 2.5, np.inf]),
    "bernoulli": ((0.3,), [-1.0, 2.0, 3.0]),
    "gamma": ((0.5,), [-np.inf, -2.0, -0.5]),
    "chi2": ((1.0,), [-np.inf, -2.0, -0.5]),
    "beta": ((0.5, 0.5), [-np.inf, -2.0, 1.5, np.inf]),
    "poisson": ((2.5,), [-np.inf, -2.0, -0.5]),
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if n in LONG else []) for n in OUTSIDE])
def test_functions_are_constant_outside_of_the_support(name: str) -> None:
    """The derivatives by the variable are 0 in all modes, and those by a parameter; incomplete functions take long, so fewer."""
    parameters, points = OUTSIDE[name]
    functions = [getattr(getattr(stats, name), n) for n in functions_of(name) if name not in LONG or n in COMPILED]

    def every(x: Any) -> list[Any]:
        slopes = [slope(x) for f in functions for slope in _slopes(lambda z, f=f: f(z, *parameters))]
        by_shape = [_slopes(lambda p, f=f: f(x, p, *parameters[1:]))[:2] for f in functions if parameters and name not in LONG]
        return slopes + [slope(np.full(x.shape, parameters[0])) for pair in by_shape for slope in pair]

    for run in (lambda f: f,) if name in LONG else (lambda f: f, nm.jit):
        np.testing.assert_array_equal(np.asarray(run(every)(np.array(points))), 0.0)


@pytest.mark.parametrize("name", [n for n in SHAPES if hasattr(getattr(stats, n), "ppf")])
def test_quantiles_are_those_of_scipy(name: str) -> None:
    q = np.array([np.nan, -np.inf, -0.5, 0.0, 1e-300, 0.25, 0.5, 1 - 1e-10, 1.0, 1.5, np.inf])
    for shapes, _ in SHAPES[name][:1]:
        for function in ("ppf", "isf"):
            want: Any = getattr(getattr(scipy.stats, name), function)(q, *shapes)
            with np.errstate(all="ignore"):
                found = getattr(getattr(stats, name), function)(q, *map(np.float64, shapes))
            np.testing.assert_allclose(np.asarray(found), want, rtol=1e-8, atol=1e-15, err_msg=f"{function} {shapes}")


# The slope of the log density at -inf and at inf, and that of another function where it has a constant one.
SLOPES: dict[str, tuple[tuple[float, ...], float, float]] = {
    "expon": ((), 0.0, -1.0),
    "laplace": ((), 1.0, -1.0),
    "logistic": ((), 1.0, -1.0),
    "uniform": ((), 0.0, 0.0),
    "gamma": ((1.0,), 0.0, -1.0),
    "chi2": ((3.5,), 0.0, -0.5),
    "beta": ((1.0, 1.0), 0.0, 0.0),
    "pareto": ((2.5,), 0.0, 0.0),
    "cauchy": ((), 0.0, 0.0),
    "gumbel_r": ((), np.inf, -1.0),
    "gumbel_l": ((), 1.0, -np.inf),
    "bernoulli": ((0.3,), 0.0, 0.0),
}


@pytest.mark.parametrize("name", SLOPES)
def test_slopes_at_infinity_are_limits_and_those_at_nan_are_nan(name: str) -> None:
    parameters, *want = SLOPES[name]
    ours = getattr(stats, name)
    f = ours.logpmf if ours.is_discrete else ours.logpdf
    functions = [f] if name in LONG else [getattr(ours, n) for n in functions_of(name)]
    for slope in _slopes(lambda x: f(x, *parameters))[:2]:
        np.testing.assert_array_equal(np.asarray(slope(np.array([-np.inf, np.inf]))), want)
    for each in functions:
        for slope in _slopes(lambda x, each=each: each(x, *parameters))[:2]:
            assert np.isnan(np.asarray(slope(np.array([np.nan])))), each


# The tail of the other side is computed by its own formula. (`mp` has the incomplete functions.)
TAILS: dict[str, tuple[Any, Any, list[float]]] = {
    "gamma.logsf": (lambda z: stats.gamma.logsf(z, 2.0), lambda z: mp.gammainc(2, z, regularized=True), [1e-12, 1e-4, 0.5, 50.0]),
    "gamma.logcdf": (lambda z: stats.gamma.logcdf(z, 2.0), lambda z: mp.gammainc(2, 0, z, regularized=True), [1e-4, 0.5, 50.0]),
    "chi2.logsf": (lambda z: stats.chi2.logsf(z, 3.0), lambda z: mp.gammainc(1.5, z / 2, regularized=True), [1e-8, 50.0]),
    "beta.logsf": (lambda z: stats.beta.logsf(z, 2.0, 3.0), lambda z: mp.betainc(2, 3, z, 1, regularized=True), [1e-12, 1e-4, 0.7]),
    "truncnorm.logcdf": (
        lambda z: stats.truncnorm.logcdf(z, -3.0, 8.0), lambda z: 1 - (mp.ncdf(8) - mp.ncdf(z)) / (mp.ncdf(8) - mp.ncdf(-3)),
        [-2.0, 1.0, 7.5],
    ),
    "uniform.logcdf": (stats.uniform.logcdf, lambda z: z, [1e-12, 0.3, 1 - 2.0**-20]),
}  # fmt: skip


@pytest.mark.parametrize("name", TAILS)
def test_logarithms_of_probabilities_near_one_from_the_other_tail(name: str) -> None:
    f, probability, points = TAILS[name]
    with mp.workdps(80):
        want = [[float(mp.diff(lambda z: mp.log(probability(z)), mp.mpf(x), n)) for x in points] for n in (0, 1)]
    x = np.array(points)
    for found, exact in zip((f(x), _slopes(f)[0](x)), want, strict=True):
        np.testing.assert_allclose(np.asarray(found), exact, rtol=2e-12)
    narrow = np.asarray(f(x.astype(np.float32)))
    np.testing.assert_allclose(narrow[:-1], want[0][:-1], rtol=2e-5)


def test_the_survival_function_of_bernoulli_is_its_parameter() -> None:
    assert float(stats.bernoulli.sf(0.0, np.float64(1e-20))) == 1e-20
    assert float(stats.bernoulli.logsf(0.0, np.float64(1e-20))) == pytest.approx(np.log(1e-20), rel=1e-15)


COMPLEMENTS: dict[str, tuple[Any, Any]] = {
    "expon.logcdf": (stats.expon.logcdf, lambda z: z),
    "gumbel_l.logcdf": (stats.gumbel_l.logcdf, mp.exp),
    "gumbel_r.logsf": (stats.gumbel_r.logsf, lambda z: mp.exp(-z)),
    "pareto.logcdf": (lambda z: stats.pareto.logcdf(z, 2.5), lambda z: 2.5 * mp.log(z)),
}


@pytest.mark.parametrize("name", COMPLEMENTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_logarithms_of_probabilities_near_one(name: str, dtype: Any) -> None:
    """They are small numbers, which log(p) does not show; and their slopes."""
    f, rate = COMPLEMENTS[name]
    ends = (1.01, 500.0) if "pareto" in name else (0.01, 80.0) if "expon" in name else (-4.0, 4.0)
    x = np.linspace(*ends, 41).astype(dtype)
    with mp.workdps(120):
        exact = lambda z: mp.log(-mp.expm1(-rate(z)))  # noqa: E731
        values, slopes = ([float(g(mp.mpf(float(z)))) for z in x] for g in (exact, lambda z: mp.diff(exact, z)))
    stored = np.abs(values) > np.finfo(dtype).tiny
    bound = 400 * np.finfo(dtype).eps  # exp(-exp(4)) is sensitive
    np.testing.assert_allclose(np.asarray(nm.jit(f)(x))[stored], np.array(values)[stored], rtol=bound)
    np.testing.assert_allclose(np.asarray(nm.vmap(nm.grad(f))(x))[stored], np.array(slopes)[stored], rtol=bound)
