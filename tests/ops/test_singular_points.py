"""The law of singular points: no derivative is a finite number that is wrong, where a formula has no value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.jax.scipy import special, stats
from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.testing.checks import interpret
from nabla_mlir.testing.singular import REFERENCES, reference_of, wrong_numbers

pytestmark = pytest.mark.slow

norm = nnp.linalg.norm
SINGULAR = [name for name, record in REGISTRY.items() if record.singular]
CONVENTIONS = ("ad.root",)  # whose first derivative is one: 0, as that of a norm


# ---------------------------------------------------------------- the law
@pytest.mark.parametrize("name", SINGULAR)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_records_have_no_wrong_numbers(name: str, dtype: Any) -> None:
    record = REGISTRY[name]
    orders = (2,) if name in CONVENTIONS else (1, 2)
    found = wrong_numbers(record, reference_of(record), record.singular, interpret, orders, dtype)
    assert list(found) == []


def test_every_reference_is_of_a_record_with_singular_points() -> None:
    assert sorted(REFERENCES) == sorted(SINGULAR)


def _log_density(x: Any, a: Any) -> Any:
    return (a - 1) * mp.log(x) - x - mp.loggamma(a)


def _log_beta_density(x: Any, a: Any, b: Any) -> Any:
    return (a - 1) * mp.log(x) + (b - 1) * mp.log(1 - x) - mp.loggamma(a) - mp.loggamma(b) + mp.loggamma(a + b)


def _matrix(*entries: Any) -> Any:
    return nnp.stack([nnp.asarray(v) for v in entries]).reshape(2, 2)


# A function, the same of mpmath's numbers, and its singular points.
FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any], list[tuple[float, ...]]]] = {
    "xlogy": (special.xlogy, lambda x, y: x * mp.log(y), [(0, 0.5), (0, 0), (0.5, 0)]),
    "xlog1py": (special.xlog1py, lambda x, y: x * mp.log(1 + y), [(0, 0.5), (0, -1), (0.5, -1)]),
    "entr": (special.entr, lambda x: -x * mp.log(x), [(0,)]),
    "rel_entr": (special.rel_entr, lambda p, q: p * mp.log(p / q), [(0, 0.5), (0.5, 0)]),
    "kl_div": (special.kl_div, lambda p, q: p * mp.log(p / q) - p + q, [(0, 0.5)]),
    "boxcox": (special.boxcox, lambda x, p: (mp.power(x, p) - 1) / p, [(2, 0), (1, 0)]),
    "poch": (special.poch, lambda z, m: mp.gamma(z + m) / mp.gamma(z), [(2.5, 0), (-0.5, 0)]),
    "sinc": (nnp.sinc, mp.sincpi, [(0,), (1e-9,), (1,)]),
    "sine integral": (lambda x: special.sici(x)[0], mp.si, [(0,), (1e-7,)]),
    "i0": (special.i0, lambda x: mp.besseli(0, x), [(0,)]),
    "i1": (special.i1, lambda x: mp.besseli(1, x), [(0,)]),
    "i0e": (special.i0e, lambda x: mp.besseli(0, x) * mp.exp(-abs(x)), [(0,)]),
    "gammainc(1, x)": (lambda x: special.gammainc(1.0, x), lambda x: 1 - mp.exp(-x), [(0,)]),
    "gammainc(2, x)": (lambda x: special.gammainc(2.0, x), lambda x: 1 - mp.exp(-x) * (1 + x), [(0,)]),
    "gammaincc(3, x)": (lambda x: special.gammaincc(3.0, x), lambda x: mp.exp(-x) * (1 + x + x * x / 2), [(0,)]),
    "gammainc(1, x), x tiny": (lambda x: special.gammainc(1.0, x), lambda x: -mp.expm1(-x), [(1e-200,)]),
    "gammainc(2, x), x tiny": (lambda x: special.gammainc(2.0, x), lambda x: 1 - mp.exp(-x) * (1 + x), [(1e-200,)]),
    "gammainc(a, 1)": (
        lambda a: special.gammainc(a, 1.0),
        lambda a: mp.gammainc(a, 0, 1, regularized=True) if a > 0 else mp.mpc(0, 1),
        [(0,)],
    ),
    "betainc(a, 1, 1/2)": (lambda a: special.betainc(a, 1.0, 0.5), lambda a: mp.mpf(2) ** -a if a > 0 else mp.mpc(0, 1), [(0,)]),
    "betainc(1, 2, x), x tiny": (lambda x: special.betainc(1.0, 2.0, x), lambda x: x * (2 - x), [(1e-200,)]),
    "gammainc(1/2, x)": (lambda x: special.gammainc(0.5, x), lambda x: mp.erf(mp.sqrt(x)), [(0,)]),
    "betainc(1, 2, x)": (lambda x: special.betainc(1.0, 2.0, x), lambda x: 1 - (1 - x) ** 2, [(0,), (1,)]),
    "betainc(2, 2, x)": (lambda x: special.betainc(2.0, 2.0, x), lambda x: x * x * (3 - 2 * x), [(0,), (1,)]),
    "gamma.cdf": (lambda x: stats.gamma.cdf(x, 2.0), lambda x: 1 - mp.exp(-x) * (1 + x) if x > 0 else mp.mpc(0, 1), [(0,)]),
    "chi2.cdf": (lambda x: stats.chi2.cdf(x, 2.0), lambda x: 1 - mp.exp(-x / 2) if x > 0 else mp.mpc(0, 1), [(0,)]),
    "beta.cdf": (lambda x: stats.beta.cdf(x, 1.0, 2.0), lambda x: 1 - (1 - x) ** 2 if x > 0 else mp.mpc(0, 1), [(0,)]),
    "gamma.logpdf": (stats.gamma.logpdf, _log_density, [(2, 1), (0, 1), (0, 2)]),
    "beta.logpdf": (stats.beta.logpdf, _log_beta_density, [(0.3, 1, 1), (0, 1, 2), (1, 2, 1)]),
    "chi2.logpdf": (
        stats.chi2.logpdf,
        lambda x, n: (n / 2 - 1) * mp.log(x) - x / 2 - mp.loggamma(n / 2) - n / 2 * mp.log(2),
        [(2, 2), (0, 2)],
    ),
    "t.logpdf": (
        stats.t.logpdf,
        lambda x, n: mp.loggamma((n + 1) / 2) - mp.loggamma(n / 2) - mp.log(n * mp.pi) / 2 - (n + 1) / 2 * mp.log(1 + x * x / n),
        [(0, 3), (0, 1)],
    ),
    "bernoulli.logpmf": (lambda p: stats.bernoulli.logpmf(1.0, p), mp.log, [(0,), (1,)]),
    "binom.logpmf": (lambda p: stats.binom.logpmf(0.0, 3.0, p), lambda p: 3 * mp.log(1 - p), [(0,), (1,)]),
    "binom.pmf": (lambda p: stats.binom.pmf(1.0, 3.0, p), lambda p: 3 * p * (1 - p) ** 2, [(0,), (1,)]),
    "geom.logpmf": (lambda p: stats.geom.logpmf(1.0, p), mp.log, [(0,), (1,)]),
    "nbinom.logpmf": (lambda p: stats.nbinom.logpmf(0.0, 2.5, p), lambda p: 2.5 * mp.log(p), [(0,), (1,)]),
    "nbinom.pmf": (lambda p: stats.nbinom.pmf(1.0, 2.0, p), lambda p: 2 * p * p * (1 - p), [(0,), (1,)]),
    "poisson.logpmf": (lambda mu: stats.poisson.logpmf(0.0, mu), lambda mu: -mu, [(0,)]),
    "poisson.pmf": (lambda mu: stats.poisson.pmf(1.0, mu), lambda mu: mu * mp.exp(-mu), [(0,)]),
    "gennorm.logpdf": (
        stats.gennorm.logpdf,
        lambda x, b: mp.log(b / 2) - mp.loggamma(1 / b) - abs(x) ** b,
        [(0, 2), (0, 1), (0, 3), (0, 1.5), (1, 2)],
    ),
    "gamma.pdf": (lambda x: stats.gamma.pdf(x, 3.0), lambda x: x * x * mp.exp(-x) / 2, [(0,)]),
    "beta.pdf": (lambda x: stats.beta.pdf(x, 2.0, 2.0), lambda x: 6 * x * (1 - x), [(0,), (1,)]),
    "log_ndtr": (special.log_ndtr, lambda x: mp.log(mp.erfc(-x / mp.sqrt(2)) / 2), [(0,), (-10,)]),
    "squareplus": (nm.nn.squareplus, lambda x, b: (x + mp.sqrt(x * x + b)) / 2, [(0, 4), (0, 0), (1, 0)]),
    "soft_sign": (nm.nn.soft_sign, lambda x: x / (1 + abs(x)), [(0,)]),
    "vonmises.logpdf": (
        lambda k: stats.vonmises.logpdf(0.7, k),
        lambda k: k * mp.cos(0.7) - mp.log(2 * mp.pi * mp.besseli(0, k)),
        [(0,)],
    ),
    "logsumexp(b=)": (
        lambda b, c: special.logsumexp(np.array([1.0, 2.0]), b=nnp.stack([b, c])),
        lambda b, c: mp.log(b * mp.e + c * mp.e**2),
        [(0, 1)],
    ),
    "cos(sqrt)": (lambda x: nnp.cos(nnp.sqrt(x)), lambda x: mp.cos(mp.sqrt(x)), [(0,)]),
    "sqrt * sqrt": (lambda x: nnp.sqrt(x) * nnp.sqrt(x), lambda x: x, [(0,)]),
    "x * sqrt": (lambda x: x * nnp.sqrt(x), lambda x: x * mp.sqrt(x), [(0,)]),
    "sqrt of a square": (lambda x: nnp.sqrt(x**4), lambda x: x * x, [(0,)]),
    "cube of a cube root": (lambda x: nnp.cbrt(x) ** 3, lambda x: x, [(0,)]),
    "norm, squared": (lambda x, y: norm(nnp.stack([x, y])) ** 2, lambda x, y: x * x + y * y, [(0, 0)]),
    "cosine of a norm": (lambda x, y: nnp.cos(norm(nnp.stack([x, y]))), lambda x, y: mp.cos(mp.hypot(x, y)), [(0, 0)]),
    "hypot, squared": (lambda x, y: nnp.hypot(x, y) ** 2, lambda x, y: x * x + y * y, [(0, 0)]),
    "x * hypot": (lambda x, y: x * nnp.hypot(x, y), lambda x, y: x * mp.hypot(x, y), [(0, 0)]),
    "modulus, squared": (lambda x, y: nnp.abs(x + 1j * y) ** 2, lambda x, y: x * x + y * y, [(0, 0)]),
    "std, squared": (lambda x, y: nnp.std(nnp.stack([x, y])) ** 2, lambda x, y: (x - y) ** 2 / 4, [(1, 1)]),
    "norm of order 3": (lambda x, y: norm(nnp.stack([x, y]), 3), lambda x, y: mp.cbrt(abs(x) ** 3 + abs(y) ** 3), [(0, 1), (1, 0)]),
    "norm of order -1": (lambda x, y: norm(nnp.stack([x, y]), -1), lambda x, y: 1 / (1 / abs(x) + 1 / abs(y)), [(0, 1), (0, 0)]),
    "nuclear norm": (lambda x: norm(_matrix(x, 0.0, 0.0, 2.0), "nuc"), lambda x: abs(x) + 2, [(0,)]),
    "slogdet": (lambda x: nnp.linalg.slogdet(_matrix(x, 0.0, 1.0, x))[1], lambda x: 2 * mp.log(abs(x)), [(0,)]),
    "inv": (lambda x: nnp.linalg.inv(_matrix(x, 0.0, 1.0, 2.0))[0, 0], lambda x: 1 / x, [(0,)]),
    "cholesky": (lambda x: nnp.linalg.cholesky(_matrix(x, 0.0, 0.0, 2.0))[0, 0], mp.sqrt, [(0,)]),
    "eigvalsh": (lambda x, y: nnp.linalg.eigvalsh(_matrix(x, y, y, -x))[1], mp.hypot, [(0, 0)]),
    "svd": (
        lambda x: nnp.linalg.svd(_matrix(1.0, x, 0.0, 1.0), compute_uv=False)[0],
        lambda x: (abs(x) + mp.sqrt(x * x + 4)) / 2,
        [(0,)],
    ),
    "qr": (lambda x: nnp.linalg.qr(_matrix(x, 1.0, 0.0, 1.0), mode="r")[0, 0], lambda x: -abs(x), [(0,)]),
    "a kernel of Matérn's": (
        lambda x: (lambda r: (1 + r) * nnp.exp(-r))(norm(nnp.stack([x]))),
        lambda x: (1 + abs(x)) * mp.exp(-abs(x)),
        [(0,)],
    ),
}


def _is_long(name: str) -> bool:
    """True for incomplete functions and what is made of them, which take ten seconds and more."""
    return "inc" in name or "cdf" in name or name in ("vonmises.logpdf", "beta.logpdf")


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if _is_long(n) else []) for n in FUNCTIONS])
def test_functions_have_no_wrong_numbers(name: str) -> None:
    f, reference, points = FUNCTIONS[name]
    assert list(wrong_numbers(f, reference, points, interpret)) == []


def test_the_law_sees_a_selection_that_loses_a_slope() -> None:
    def careless(x: Any, y: Any) -> Any:
        return nnp.where(x == 0.0, 0.0, x * nnp.log(y))

    found = list(wrong_numbers(careless, lambda x, y: x * mp.log(y), [(0.0, 0.5)], interpret))
    assert any(line.startswith("jvp by (0,) at (0.0, 0.5): 0.0, the limit is -0.693") for line in found)
    assert any(line.startswith("vjp of jvp by (0, 1)") for line in found)
