"""Exponential, error and other integrals of scipy.special beside SciPy in f64, with differences of it, derivatives and maps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special
import scipy.stats

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.base.errors import DtypeError, ShapeError, TraceError
from nabla_mlir.jax.scipy import special

INF, NAN = np.inf, np.nan


pytestmark = pytest.mark.usefixtures("interpreted_in_f64")


POSITIVE = np.array([1e-9, 0.03, 0.4, 0.5, 0.97, 1.0, 1.03, 1.9, 2.5, 3.99, 4.3, 7.0, 20.0, 39.0, 41.0, 120.0])
BOTH = np.concatenate([-POSITIVE[::-1], POSITIVE])
PLANE = (np.linspace(-6, 6, 7)[:, None] + 1j * np.array([-2.0, -0.5, 0.1, 1.5, 9.0])).ravel()
AT_ENDS = np.array([0.0, INF, NAN])
# The functions: where SciPy's values are known and finite, where there are ends, and the tolerance.
FUNCTIONS: dict[str, tuple[Callable[[Any, Any], Any], np.ndarray, np.ndarray, float]] = {
    "exp1": (lambda s, x: s.exp1(x), POSITIVE, AT_ENDS, 1e-13),
    "expi": (lambda s, x: s.expi(x), BOTH, np.array([0.0, INF, -INF, NAN]), 1e-13),
    **{f"expn {n}": (lambda s, x, n=n: s.expn(n, x), POSITIVE, AT_ENDS, 1e-13) for n in (0, 3, 60)},
    "sici": (lambda s, x: s.sici(x), POSITIVE, AT_ENDS, 3e-13),
    "spence": (lambda s, x: s.spence(x), POSITIVE, np.array([0.0, NAN]), 1e-14),
    "dawsn": (lambda s, x: s.dawsn(x), BOTH, np.array([0.0, INF, -INF, NAN]), 1e-13),
    "erfcx": (lambda s, x: s.erfcx(x), BOTH[9:], np.array([0.0, INF]), 1e-13),
    "fresnel": (lambda s, x: s.fresnel(x), BOTH[3:-3], np.array([0.0, INF, -INF, NAN]), 1e-13),
    "owens_t by h": (lambda s, x: s.owens_t(x, np.array([[0.3], [1.0], [-2.5], [40.0]])), BOTH[4:-4], np.array([0.0, INF]), 1e-12),
    "owens_t by a": (
        lambda s, x: s.owens_t(np.array([[0.0], [0.3], [-2.5], [9.0]]), x),
        BOTH[abs(BOTH) > 0.01],
        np.array([0.0]),
        1e-12,
    ),
}


def total(xp: Any, value: Any) -> Any:
    return sum(xp.sum(xp.sin(v)) for v in (value if isinstance(value, tuple) else (value,)))


LONG = ("expi", "expn 3")  # programs of some thousand operations
NAMES = [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in FUNCTIONS]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_values_and_derivatives(name: str) -> None:
    f, positions, ends, tolerance = FUNCTIONS[name]
    for x in (positions, ends):
        np.testing.assert_allclose(f(special, x), f(scipy.special, x), rtol=tolerance, atol=1e-300)
    middle = positions[(abs(positions) > 0.05) & (abs(positions) < 5)]
    ours = lambda x: total(nnp, f(special, x))  # noqa: E731
    gradient, step = nm.jit(nm.grad(ours)), 1e-5
    moved = [f(scipy.special, middle + s) for s in (step, -step)]
    slope = lambda v, w: np.sum((np.sin(v) - np.sin(w)).reshape(-1, middle.size), 0) / (2 * step)  # noqa: E731
    wanted = sum(slope(v, w) for v, w in (zip(*moved, strict=True) if isinstance(moved[0], tuple) else [moved]))
    np.testing.assert_allclose(gradient(middle), wanted, rtol=1e-6, atol=1e-7)
    second = nm.jvp(gradient, (middle,), (np.ones_like(middle),))[1]
    difference = (gradient(middle + step) - gradient(middle - step)) / (2 * step)
    np.testing.assert_allclose(second, difference, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(nm.hvp(ours)(middle, np.ones_like(middle)), second, rtol=1e-9)


def test_the_function_of_faddeeva() -> None:
    np.testing.assert_allclose(special.wofz(PLANE), scipy.special.wofz(PLANE), rtol=1e-12)
    np.testing.assert_allclose(special.wofz(BOTH), scipy.special.wofz(BOTH), rtol=1e-12)
    slope = nm.grad(lambda z: special.wofz(z).sum(), holomorphic=True)(PLANE)
    np.testing.assert_allclose(slope, -2 * PLANE * scipy.special.wofz(PLANE) + 2j / np.sqrt(np.pi), rtol=1e-9)


def test_maps_and_small_dtypes() -> None:
    x = np.array([[0.5, 3.0], [6.0, 1.2]])
    for name in ("exp1", "expi", "dawsn", "erfcx", "spence"):
        f = getattr(special, name)
        np.testing.assert_allclose(nm.vmap(f)(x), getattr(scipy.special, name)(x), rtol=1e-12)
        np.testing.assert_allclose(f(x.astype("float32")), getattr(scipy.special, name)(x), rtol=2e-6)
        assert f(x.astype("float32")).dtype == np.float32
        assert f(x.astype("float16")).dtype == np.float16
        if name != "erfcx":
            with pytest.raises(DtypeError, match=f"{name} requires real numbers, got complex128"):
                f(x * 1j)
    single = x.astype("float32")
    for value in (
        special.hyp1f1(single, 2, single),
        special.bessel_jn(single, v=2),
        special.owens_t(single, 1),
        special.gamma(single),
    ):
        assert value.dtype == np.float32
    np.testing.assert_allclose(
        special.expn(np.arange(9)[:, None], POSITIVE), scipy.special.expn(np.arange(9)[:, None], POSITIVE), 3e-13
    )


def test_complex_gamma_and_erfcx() -> None:
    """Both sides of the cut, points next to poles, and derivatives, which are digamma and its derivative."""
    z = np.array([-0.5 + 0j, complex(-2.5, -0.0), -2.5 + 1e-12j, -3 + 1e-7j, 0.3 - 8j, 3 + 0j, 100 + 50j, -30.2 + 4j, 1.9 + 0.6j])
    for name in ("gamma", "loggamma", "erfcx"):
        x = z[:6] if name == "erfcx" else z  # it overflows at the others
        np.testing.assert_allclose(getattr(special, name)(x), getattr(scipy.special, name)(x), rtol=2e-13)
    slope = nm.grad(lambda z: special.loggamma(z).sum(), holomorphic=True)
    np.testing.assert_allclose(slope(z), scipy.special.digamma(z), rtol=1e-12)
    second = nm.vmap(nm.grad(lambda z: nm.jvp(special.loggamma, (z,), (1 + 0j,))[1], holomorphic=True))(z[4:])
    step = 1e-6
    wanted = (scipy.special.digamma(z[4:] + step) - scipy.special.digamma(z[4:] - step)) / (2 * step)
    np.testing.assert_allclose(second, wanted, rtol=1e-7)
    assert np.isnan(special.gamma(np.array([0j, -2 + 0j]))).all()


def test_the_entropy_of_poisson() -> None:
    mu = np.array([0.0, 0.01, 2.0, 99.9, 100.1, 800.0])
    ours = nm.jax.scipy.stats.poisson.entropy
    np.testing.assert_allclose(ours(mu), scipy.stats.poisson.entropy(mu), rtol=1e-11)
    numbers = np.array([0.5, 99.9, 100.1])
    step = 1e-5
    wanted = (np.asarray(ours(numbers + step)) - np.asarray(ours(numbers - step))) / (2 * step)
    np.testing.assert_allclose(nm.grad(lambda m: ours(m).sum())(numbers), wanted, rtol=1e-6)


def test_outside_of_their_domains() -> None:
    assert np.isnan(special.expn(np.array([-1.0, 1.5, 2.0]), np.array([1.0, 1.0, -1.0]))).all()
    assert np.isnan(special.spence(-1.0))
    np.testing.assert_allclose(special.sici(-1.0), scipy.special.sici(-1.0), rtol=1e-14)
    np.testing.assert_allclose(nm.grad(lambda x: special.sici(x)[1])(-1.0), -np.cos(1.0), rtol=1e-6)


def test_the_slopes_of_spence_near_one() -> None:
    np.testing.assert_allclose(nm.grad(special.spence)(1.0), -1.0)
    np.testing.assert_allclose(nm.grad(nm.grad(special.spence))(1.0), 0.5)
    np.testing.assert_allclose(nm.grad(lambda x: special.sici(x)[0])(0.0), 1.0)


def test_numbers_of_bernoulli() -> None:
    np.testing.assert_allclose(special.bernoulli(20), scipy.special.bernoulli(20), rtol=1e-11)


KUMMER = [(1.0, 2.0), (0.3, 1.7), (2.5, 0.7), (-0.4, 1.5), (3.0, 7.0), (-2.0, 1.5), (4.0, 2.0)]


def test_the_function_of_kummer() -> None:
    x = np.array([-400.0, -130.0, -40.0, -9.0, -1.0, 0.0, 0.5, 3.0, 25.0, 90.0, 300.0])
    for a, b in KUMMER:
        wanted = [float(mpmath.hyp1f1(a, b, y)) for y in x]
        np.testing.assert_allclose(special.hyp1f1(a, b, x), wanted, rtol=1e-12, err_msg=f"{a} {b}")
    assert np.isnan(special.hyp1f1(1.0, -1.0, 0.5))
    a, b, x = np.array([0.3, 2.5]), np.array([1.7, 0.7]), np.array([1.2, -2.0])
    step = 1e-5
    for k, slope in enumerate(nm.grad(lambda *v: special.hyp1f1(*v).sum(), (0, 1, 2))(a, b, x)):
        moved = [[v + (s if i == k else 0) for i, v in enumerate((a, b, x))] for s in (step, -step)]
        np.testing.assert_allclose(slope, -np.diff([scipy.special.hyp1f1(*v) for v in moved], axis=0)[0] / (2 * step), rtol=1e-7)
    second = nm.hvp(lambda x: special.hyp1f1(a, b, x).sum())(x, np.ones(2))
    np.testing.assert_allclose(second, a * (a + 1) / (b * (b + 1)) * scipy.special.hyp1f1(a + 2, b + 2, x), rtol=1e-10)


# Of the function of Gauss: whole and other c - a - b, b - a and c - a, first ones below 0, one with a last term.
GAUSS = [
    (0.3, 0.7, 1.9),
    (1.0, 1.0, 2.0),
    (2.5, 1.5, 1.0),
    (-0.6, 1.4, 0.8),
    (2.0, 3.5, 2.0),
    (-3.0, 2.2, 1.3),
    (0.5, -1.2, -0.7),
    (4.0, 7.0, 3.1),
]


def test_the_function_of_gauss() -> None:
    """To 13 digits of its value wherever it is; SciPy's has 12 there, JAX's none below -1 and few close to 1."""
    x = np.array([-1e6, -40.0, -3.0, -1.0, -0.2, 0.0, 0.3, 0.5, 0.8, 0.95, 0.9999])
    a, b, c = np.array(GAUSS).T[:, :, None]
    wanted = np.vectorize(lambda *v: float(mpmath.hyp2f1(*v)))(a, b, c, x)
    np.testing.assert_allclose(special.hyp2f1(a, b, c, x), wanted, rtol=2e-13)
    np.testing.assert_allclose(special.hyp2f1(np.float32(0.3), 0.7, 1.9, x.astype("float32")), wanted[0], rtol=1e-5)
    large = np.array(
        [  # near the end of the range of float64, and behind it, where a slope on the way is not
            (-17.676155363949523, 5.957114736239202, 9.49895253010052, -2.5661766777360128e17),
            (2.0, 1.5, -17.3, 1 - 1e-15),
            (-16.43443905118611, -19.694229812509846, 11.559334616958758, -9.593103803211133e16),
        ]
    )
    with np.errstate(over="ignore"):
        found = special.hyp2f1(*large.T)
    np.testing.assert_allclose(found, [float(mpmath.hyp2f1(*v)) for v in large], rtol=1e-11)
    ends = [
        (0.3, 0.7, 1.9, 1.0),
        (1.0, 1.0, 2.0, 1.0),
        (0.3, 0.7, 1.9, 1.2),
        (-2.0, 0.7, 1.9, 4.0),
        (-2.0, 1.0, -3.0, 0.4),
        (-4.0, 1.0, -3.0, 0.4),
        (0.0, 1.0, 2.0, 0.4),
        (1.2, 0.5, -1.0, 0.3),
        (1.5, 0.2, 1.5, 1.0),
        (1.0, 2.0, 3.0, np.nan),
    ]
    np.testing.assert_allclose(special.hyp2f1(*np.array(ends).T), scipy.special.hyp2f1(*np.array(ends).T), rtol=1e-13)


@pytest.mark.slow
def test_derivatives_of_the_function_of_gauss() -> None:
    place = np.array([-2.0, 0.3, 0.8])
    at = (*np.array(GAUSS).T[:, :, None], place)
    at = tuple(v + np.zeros((len(GAUSS), place.size)) for v in at)
    first = lambda *v: nm.grad(lambda *v: special.hyp2f1(*v).sum(), (0, 1, 2, 3))(*v)  # noqa: E731
    function = np.vectorize(lambda *v: float(mpmath.hyp2f1(*v)))
    slopes, step = nm.jit(first)(*at), 1e-5
    for k, slope in enumerate(slopes):
        moved = [function(*(v + s * (j == k) for j, v in enumerate(at))) for s in (step, -step)]
        np.testing.assert_allclose(slope, (moved[0] - moved[1]) / (2 * step), rtol=1e-7, atol=1e-6, err_msg=str(k))
    a, b, c, x = at
    curvature = nm.hvp(lambda x: special.hyp2f1(a, b, c, x).sum())(x, np.ones_like(x))
    np.testing.assert_allclose(curvature, a * (a + 1) * b * (b + 1) / (c * (c + 1)) * function(a + 2, b + 2, c + 2, x), rtol=1e-11)
    mixed = nm.jvp(lambda a: nm.grad(lambda x: special.hyp2f1(a, b, c, x).sum())(x), (a,), (np.ones_like(a),))[1]
    other = nm.grad(lambda x: nm.jvp(lambda a: special.hyp2f1(a, b, c, x), (a,), (np.ones_like(a),))[1].sum())(x)
    np.testing.assert_allclose(mixed, other, rtol=1e-9)
    rows = nm.vmap(lambda *v: special.hyp2f1(*v), in_axes=(0, 0, 0, None))(a, b, c, place)
    np.testing.assert_allclose(rows, special.hyp2f1(*at), rtol=1e-15)


@pytest.mark.slow
def test_the_function_of_gauss_beside_that_of_jax() -> None:
    import jax

    at = (np.array([0.3, 2.0]), np.array([0.7, 1.5]), np.array([1.9, 4.1]), np.array([0.3, 0.6]))
    ours = nm.grad(lambda *v: special.hyp2f1(*v).sum(), (0, 1, 2, 3))(*at)
    theirs = jax.grad(lambda *v: jax.scipy.special.hyp2f1(*v).sum(), (0, 1, 2, 3))(*at)
    for got, wanted in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12)


def test_bessel_functions_of_whole_orders() -> None:
    z = np.array([[0.0, 1e-6, 0.3, -2.0], [2.404825557695773, 11.0, 70.0, -300.0]])
    wanted = np.array([scipy.special.jv(k, z) for k in range(6)])
    np.testing.assert_allclose(special.bessel_jn(z, v=5), wanted, rtol=1e-10, atol=1e-15)
    slopes = nm.jvp(lambda z: special.bessel_jn(z, v=5), (z,), (np.ones_like(z),))[1]
    np.testing.assert_allclose(slopes, [scipy.special.jvp(k, z) for k in range(6)], rtol=1e-10, atol=1e-14)
    second = nm.hvp(lambda z: special.bessel_jn(z, v=3)[3].sum())(z, np.ones_like(z))
    np.testing.assert_allclose(second, scipy.special.jvp(3, z, 2), rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(nm.vmap(lambda y: special.bessel_jn(y, v=1), out_axes=1)(z), wanted[:2], rtol=1e-10, atol=1e-15)
    with pytest.raises(ShapeError, match="bessel_jn requires v of at least 0"):
        special.bessel_jn(z, v=-1)


def test_spherical_harmonics() -> None:
    n, m = (np.array(v) for v in zip(*((n, m) for n in range(7) for m in range(-n, n + 1)), strict=True))
    theta, phi = np.linspace(0, np.pi, n.size), np.linspace(0, 6, n.size)
    np.testing.assert_allclose(
        special.sph_harm_y(n, m, theta, phi), scipy.special.sph_harm_y(n, m, theta, phi), rtol=1e-12, atol=1e-14
    )
    ones = np.ones(n.size)
    _, slopes = nm.jvp(lambda t, p: special.sph_harm_y(n, m, t, p), (theta, phi), (ones, 0.5 * ones))
    wanted = scipy.special.sph_harm_y(n, m, theta, phi, diff_n=1)[1] @ [1.0, 0.5]
    np.testing.assert_allclose(slopes[1:-1], wanted[1:-1], rtol=1e-10, atol=1e-12)
    assert np.isfinite(slopes).all()
    second = nm.hvp(lambda t: special.sph_harm_y(n, m, t, phi).real.sum())(theta, ones)
    wanted = scipy.special.sph_harm_y(n, m, theta, phi, diff_n=2)[2][:, 0, 0].real
    np.testing.assert_allclose(second[1:-1], wanted[1:-1], rtol=1e-9, atol=1e-11)
    traced = nm.vmap(lambda n, m: special.sph_harm_y(n, m, theta, phi, n_max=2))(n[:9], m[:9])
    np.testing.assert_allclose(traced[5], scipy.special.sph_harm_y(n[5], m[5], theta, phi), atol=1e-14)
    with pytest.raises(TraceError, match="sph_harm_y requires n_max where n is traced"):
        nm.vmap(lambda n: special.sph_harm_y(n, 0, 0.1, 0.2))(n)
    with pytest.raises(ShapeError, match="sph_harm_y requires diff_n=None"):
        special.sph_harm_y(1, 0, 0.1, 0.2, diff_n=1)


def test_the_tail_of_the_normal_distribution() -> None:
    """Rounding its argument by the root of two would cost x * x / 2 units in the last place: 200 here."""
    x = -np.linspace(1, 20, 400)
    got = nm.trace(special.ndtr, x, name="f").lower().compile("cpu")(x)
    want = np.array([float(mpmath.ncdf(mpmath.mpf(v))) for v in x])
    np.testing.assert_allclose(got, want, rtol=6 * np.finfo(float).eps)
    np.testing.assert_allclose(nm.vmap(nm.grad(special.ndtr))(x), np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi), rtol=1e-13)


def test_the_ends_of_the_gamma_functions() -> None:
    """The same interpreted and compiled: the sign of a zero is that of the pole at it."""
    x = np.array([-np.inf, np.inf, 0.0, -0.0])
    f = lambda x: (special.gammaln(x), special.digamma(x), special.gamma(x))  # noqa: E731
    want = [[np.inf] * 4, [np.nan, np.inf, -np.inf, np.inf], [np.nan, np.inf, np.inf, -np.inf]]
    for results in (f(x), nm.trace(f, x, name="f").lower().compile("cpu")(x)):
        for got, numbers in zip(results, want, strict=True):
            np.testing.assert_array_equal(got, numbers)


def test_digits_of_gamma_functions_beside_their_roots_and_poles() -> None:
    """SciPy 1.17 loses them."""
    for f, true, x in (
        (special.gammaln, mpmath.loggamma, 1 - 2.0**-53),
        (special.gammaln, mpmath.loggamma, 2 + 1e-12),
        (special.digamma, mpmath.digamma, -1 + 2.0**-53),
        (special.digamma, mpmath.digamma, -20 + 1e-9),
    ):
        with mpmath.workdps(50):
            np.testing.assert_allclose(float(f(np.float64(x))), float(true(mpmath.mpf(x))), rtol=2e-15)
