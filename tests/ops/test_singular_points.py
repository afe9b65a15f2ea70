"""Derivatives where a formula has no value: the true number, infinite or NaN; the same in all modes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.special

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.jax.scipy import special, stats
from nabla_mlir.numpy.segments import segment_prod
from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.testing.checks import interpret
from nabla_mlir.testing.singular import REFERENCES, reference_of, wrong_numbers

INF, NAN = np.inf, np.nan
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


# A function, the same of mpmath's numbers, and its singular points.
FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any], list[tuple[float, ...]]]] = {
    "xlogy": (special.xlogy, lambda x, y: x * mp.log(y), [(0, 0.5), (0, 0)]),
    "xlog1py": (special.xlog1py, lambda x, y: x * mp.log(1 + y), [(0, 0.5), (0, -1)]),
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


# ---------------------------------------------------------------- right numbers
def hessians(f: Callable[[Any], Any], x: Any) -> list[np.ndarray]:
    """By both modes of both derivatives."""
    x, modes = np.asarray(x, np.float64), (nm.jacfwd, nm.jacrev)
    return [np.asarray(outer(inner(f))(x)) for outer, inner in itertools.product(modes, modes)]


def _gram(kernel: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: kernel(x[:, None] - x[None]).sum()


PAIR = np.array([[0.3, -0.2], [0.3, -0.2]])
SECOND: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
    "norm**2": (lambda x: norm(x) ** 2, np.zeros(3), 2 * np.eye(3)),
    "norm * norm": (lambda x: norm(x) * norm(x), np.zeros(3), 2 * np.eye(3)),
    "norm**3": (lambda x: norm(x) ** 3, np.zeros(2), np.zeros((2, 2))),
    "norm, of order 3, **3": (lambda x: norm(x, 3) ** 3, np.zeros(2), np.zeros((2, 2))),
    "squares of norms of rows": (lambda x: (norm(x.reshape(2, 2), axis=1) ** 2).sum(), [0, 0, 1, 2], 2 * np.eye(4)),
    "their mean": (lambda x: nnp.square(norm(x.reshape(2, 2), axis=1, keepdims=True)).mean(), [0, 0, 1, 2], np.eye(4)),
    "Frobenius": (lambda x: norm(x.reshape(2, 2), "fro") ** 2, np.zeros(4), 2 * np.eye(4)),
    "Gauss's kernel": (lambda x: nnp.exp(-0.5 * (norm(x) / 0.5) ** 2), np.zeros(2), -4 * np.eye(2)),
    "std**2": (lambda x: nnp.std(x) ** 2, np.ones(2), [[0.5, -0.5], [-0.5, 0.5]]),
    "sqrt**4": (lambda x: nnp.sqrt(x[0]) ** 4, np.zeros(1), [[2.0]]),
    "det of rank 2 of 4": (
        lambda a: nnp.linalg.det(nnp.diag(nnp.concatenate([a, np.array([2.0, 3.0])]))),
        np.zeros(2),
        [[0, 6], [6, 0]],
    ),
    "segment_prod": (
        lambda x: segment_prod(x, np.array([0, 0, 1, 0]), 2).sum(),
        [0, 2, 3, 5],
        [[0, 5, 0, 2], [5, 0, 0, 0], [0, 0, 0, 0], [2, 0, 0, 0]],
    ),
    "segment_prod, two zeros": (
        lambda x: segment_prod(x, np.array([0, 0, 1, 0]), 2).sum(),
        [0, 0, 3, 5],
        [[0, 5, 0, 0], [5, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]],
    ),
    "masked sqrt": (lambda x: nnp.where(x > 0, nnp.sqrt(x), 0.0).sum(), [0, 4], [[0, 0], [0, -1 / 32]]),
    "masked log in a scan": (
        lambda x: nm.scan(lambda c, r: (c + nnp.where(r > 0, nnp.log(r), 0.0), None), nnp.zeros((), x.dtype), x)[0],
        [1, 0, 4],
        np.diag([-1, 0, -1 / 16]),
    ),
    "trace of a matrix function": (
        lambda t: nnp.trace(nnp.linalg.matrix_function(lambda w: w**2, np.eye(2) + t[0] * np.array([[0, 1], [1, 0]]))),
        np.zeros(1),
        [[4.0]],
    ),
}


@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives(name: str) -> None:
    f, x, true = SECOND[name]
    for found in hessians(f, x):
        np.testing.assert_allclose(found, np.array(true, np.float64), atol=1e-9, err_msg=name)


def test_second_derivatives_of_a_kernel_of_distances_at_equal_points() -> None:
    by_norm = hessians(_gram(lambda d: nnp.exp(-(norm(d, axis=-1) ** 2))), PAIR)
    by_squares = hessians(_gram(lambda d: nnp.exp(-(d * d).sum(-1))), PAIR)
    for one, other in zip(by_norm, by_squares, strict=True):
        assert np.abs(other).max() > 1
        np.testing.assert_allclose(one, other, atol=1e-12)


UNKNOWN: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "norm": (norm, np.zeros(2)),
    "norm, of order 3, **2": (lambda x: norm(x, 3) ** 2, np.zeros(2)),
    "coupled eigenvalues": (lambda t: (nnp.linalg.eigvalsh(np.eye(2) + t[0] * np.array([[0, 1], [1, 0]])) ** 2).sum(), np.zeros(1)),
    "coupled singular values": (lambda t: nnp.linalg.norm(np.eye(2) + t[0] * np.array([[0, 1], [1, 0]]), "nuc"), np.zeros(1)),
    "eigenvalues of a general matrix": (
        lambda t: (nnp.linalg.eigvals(np.eye(2) + t[0] * np.array([[0, 1], [1, 0]])) ** 2).sum().real,
        np.zeros(1),
    ),
    "i0e": (lambda x: special.i0e(x[0]), np.zeros(1)),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_second_derivatives_that_cannot_be_known(name: str) -> None:
    f, x = UNKNOWN[name]
    for found in hessians(f, x):
        assert not np.isfinite(found).all()


FIRST: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
    "xlogy": (lambda x: special.xlogy(x, 0.5), 0.0, np.log(0.5)),
    "gamma.logpdf": (lambda a: stats.gamma.logpdf(2.0, a), 1.0, np.log(2) + np.euler_gamma),
    "entr": (special.entr, 0.0, INF),
    "i0": (special.i0, 0.0, 0.0),
    "norm": (lambda x: norm(nnp.stack([x, x])), 0.0, 0.0),
    "hypot": (lambda x: nnp.hypot(x, 0.0), 0.0, 0.0),
    "a length that does not matter": (lambda x: (nnp.sqrt(nnp.stack([x, x + 4])) * np.array([0.0, 1.0])).sum(), 0.0, 0.25),
    "det of rank 2 of 4": (lambda t: nnp.linalg.det(nnp.diag(np.array([1.0, 2.0, 0, 0])) + t * np.ones((4, 4))), 0.0, 0.0),
    "det of rank 3 of 4": (lambda t: nnp.linalg.det(nnp.diag(np.array([1.0, 2.0, 3.0, 0])) + t * np.ones((4, 4))), 0.0, 6.0),
    "a function of a multiple of the identity": (
        lambda t: nnp.linalg.matrix_function(nnp.exp, 2 * np.eye(2) + t * np.array([[0, 1], [1, 0]])).sum(),
        0.0,
        2 * np.exp(2),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FIRST)
def test_first_derivatives(name: str) -> None:
    f, x, true = FIRST[name]
    x = np.float64(x)
    found = [nm.grad(f)(x), nm.jit(nm.grad(f))(x), nm.vmap(nm.grad(f))(np.full(2, x))[1]]
    np.testing.assert_allclose([float(v) for v in found], [true] * 3, rtol=1e-9, atol=1e-12)


def test_what_varies_is_not_taken_for_zero() -> None:
    slope = float(nm.grad(lambda x: nnp.cos(nnp.sqrt(x)))(0.0))
    assert np.isnan(slope)
    mixed = nm.grad(nm.grad(lambda w, x: w * nnp.sqrt(x), 1), 0)(0.0, 0.0)
    assert float(mixed) == INF


OVERFLOWS: dict[str, Callable[[Any], Any]] = {
    "norm": norm,
    "Frobenius": lambda x: norm(x.reshape(1, 2)),
    "std": nnp.std,
    "a direction": lambda x: (x / norm(x))[0],
    "sqrt": lambda x: nnp.sqrt((x * x).sum()),
    "power": lambda x: (x**2).sum() ** 0.5,
    "sqrt of a mean": lambda x: nnp.sqrt((x * x).mean()),
    "sqrt of a dot product": lambda x: nnp.sqrt(x @ x),
    "sqrt of a sum with 1": lambda x: nnp.sqrt(1 + x * x).sum(),
    "cbrt": lambda x: nnp.cbrt((x * x * x * x).sum()),
    "sqrt of a product": lambda x: nnp.sqrt(nnp.abs(nnp.prod(x))),
    "divided": lambda x: (x / nnp.sqrt((x * x).sum()))[0],
    "rsqrt": lambda x: x[0] * nm.jax.lax.rsqrt((x * x).sum()),
    "log of squares": lambda x: nnp.log((x * x).sum()),
    "log1p of squares": lambda x: nnp.log1p(x @ x),
    "log of a product": lambda x: nnp.log(-x[0] * x[1]),
    "layer_norm": lambda x: nm.nn.layer_norm(x)[0],
    "rms_norm": lambda x: nm.nn.rms_norm(x)[0],
    "standardize": lambda x: nm.nn.standardize(x, where=np.array([True, True]))[1],
    "hypot": lambda x: nnp.hypot(1e108 * x[0], 1e108 * x[1]),
    "modulus": lambda x: nnp.abs(1e108 * x[0] + 1e108j * x[1]),
}


@pytest.mark.parametrize("name", OVERFLOWS)
def test_lengths_that_overflow_have_no_slope(name: str) -> None:
    f, x, t = OVERFLOWS[name], np.array([1.5e200, -1.6e200]), np.array([1.0, 2.0])
    assert np.isnan(np.asarray(nm.grad(f)(x))).any()
    assert np.isnan(np.asarray(nm.jvp(f, (x,), (t,))[1]))
    assert np.isnan(np.asarray(nm.jit(nm.grad(f))(x))).any()
    assert np.isnan(np.asarray(nm.vmap(nm.grad(f))(np.stack([x, x])))).any()
    for found in hessians(f, x):
        assert not np.isfinite(found).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("name", OVERFLOWS)
def test_lengths_that_overflow_in_narrow_numbers(name: str, dtype: Any) -> None:
    """Functions of nabla_mlir compute those of float16 in float32, so they have the true slope there."""
    if name in ("hypot", "modulus"):
        pytest.skip("these scale float64")
    x, t = np.array([500, -400] if dtype == np.float16 else [1.5e25, -1.6e25], dtype), np.array([1, 2], dtype)
    slopes = np.asarray(nm.grad(OVERFLOWS[name])(x)).astype(np.float64)
    along = float(nm.jvp(OVERFLOWS[name], (x,), (t,))[1])
    if dtype == np.float32 or np.isnan(along):
        assert np.isnan(slopes).any()
        assert np.isnan(along)
        return
    precise = np.asarray(nm.grad(OVERFLOWS[name])(x.astype(np.float64)))
    np.testing.assert_allclose(slopes, precise, rtol=5e-3, atol=1e-6)
    np.testing.assert_allclose(along, precise @ t.astype(np.float64), rtol=5e-3, atol=1e-6)


def test_sums_of_exponentials_that_overflow_have_no_slope() -> None:
    """Each term is finite, so the derivative would be 0, the quotient of a term and the infinite sum."""
    x = np.array([709.5, 709.0])
    for f in (lambda x: nnp.log(nnp.exp(x).sum()), lambda x: nnp.log(nnp.exp(x[0]) + nnp.exp(x[1]))):
        assert np.isnan(nm.grad(f)(x)).all()
        assert np.isnan(nm.jit(nm.grad(f))(x)).all()
        assert np.isnan(nm.jvp(f, (x,), (np.ones(2),))[1])
    np.testing.assert_allclose(nm.grad(special.logsumexp)(x), np.exp([-0.474076984, -0.974076984]), rtol=1e-8)


def test_roots_and_logarithms_that_cannot_overflow_have_no_guard() -> None:
    """Their derivatives have no selection: arguments, shifted exponentials, and 1 + exp(x), whose term has an infinite slope."""
    plain = {
        "sqrt": lambda x: nnp.sqrt(x).sum(),
        "sqrt of a sum with a constant": lambda x: nnp.sqrt(x + 1e-8).sum(),
        "log": lambda x: nnp.log(x).sum(),
        "softplus": lambda x: nnp.log(1 + nnp.exp(x)).sum(),
        "shifted": lambda x: nnp.log(nnp.exp(x - nm.stop_gradient(x.max())).sum()),
        "log_softmax": lambda x: nm.nn.log_softmax(x)[0],
    }
    for name, f in plain.items():
        value, slope = (str(nm.trace(g, nm.spec(3)).lower()).count("compare") for g in (f, nm.grad(f)))
        assert slope == value, name
    assert "compare" in str(nm.trace(nm.grad(lambda x: nnp.log(x @ x)), nm.spec(3)).lower())


@pytest.mark.parametrize("order", [1.5, 3, 10, -2])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_norms_of_any_order_neither_overflow_nor_underflow(order: float, dtype: Any) -> None:
    f = lambda x: nnp.linalg.vector_norm(x, ord=order)  # noqa: E731
    every = nm.vmap(lambda x: (f(x), nm.grad(f)(x), nm.jvp(f, (x,), (t,))[1]))
    base, t = np.array([3.0, -4.0, 1.0]), np.array([1.0, 2.0, -1.0], dtype)
    with mp.workdps(40):
        value = sum(mp.mpf(abs(v)) ** order for v in base) ** (mp.mpf(1) / order)
        slopes = np.array([float(mp.sign(v) * (abs(v) / value) ** (order - 1)) for v in base])
    scales = 10.0 ** (np.arange(-280, 290, 20) if dtype == np.float64 else np.arange(-32, 37, 4))
    x = (base * scales[:, None]).astype(dtype)
    eps = float(np.finfo(dtype).eps)
    for run in (every, nm.jit(every)):
        values, found, along = (np.asarray(v, np.float64) for v in run(x))
        np.testing.assert_allclose(values, float(value) * scales, rtol=2000 * eps)
        np.testing.assert_allclose(found, np.tile(slopes, (len(scales), 1)), rtol=2000 * eps)
        np.testing.assert_allclose(along, [slopes @ t] * len(scales), rtol=4000 * eps)
    small = np.array([1e-200, -2e-200])
    if order == 3:
        np.testing.assert_allclose(
            nm.grad(lambda x: f(x) ** 2)(small), 1e-200 * nm.grad(lambda x: f(x) ** 2)(small * 1e200), rtol=1e-10
        )
        for found in hessians(f, np.array([1.0, 2.0]) * 1e150):
            np.testing.assert_allclose(found, nm.hessian(f)(np.array([1.0, 2.0])) * 1e-150, rtol=1e-9)


UNDERFLOWS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "norm": (norm, [0.6, 0.8]),
    "rows": (lambda x: norm(x.reshape(1, 2), axis=1).sum(), [0.6, 0.8]),
    "Frobenius": (lambda x: norm(x.reshape(1, 2)), [0.6, 0.8]),
    "complex": (lambda x: norm(x * (3 + 4j)), [3.0, 4.0]),
    "vector_norm": (nnp.linalg.vector_norm, [0.6, 0.8]),
    "std": (nnp.std, [-0.5, 0.5]),
    "masked std": (lambda x: nnp.std(nnp.append(x, 1.0), where=np.array([True, True, False])), [-0.5, 0.5]),
    "scaled": (lambda x: 3 * norm(x * 2), [3.6, 4.8]),
    "relu": (lambda x: norm(nm.nn.relu(x)), [0.6, 0.8]),
}


@pytest.mark.parametrize("name", UNDERFLOWS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_lengths_that_underflow_have_the_true_slope_or_none(name: str, dtype: Any) -> None:
    """From a length of 1 down to one whose square is 0. In between compiled code loses terms: it computes no subnormal numbers."""
    f, true = UNDERFLOWS[name]
    direction, t = np.array([3.0, 4.0], dtype), np.array([1.0, -2.0], dtype)
    every = nm.vmap(lambda x: (nm.grad(f)(x), nm.jvp(f, (x,), (t,))[1], nm.vjp(f, x)[1](np.ones((), dtype))[0]))
    scales = 2.0 ** -np.arange(0, 1015 if dtype is np.float64 else 120)
    smallest, eps = np.finfo(dtype).tiny, np.finfo(dtype).eps
    for run in (interpreted := every, nm.jit(every)):
        exact = (run is interpreted) | (scales**2 > smallest / eps) | (scales**2 < eps * smallest)
        slopes, along, back = (np.asarray(y, np.float64) for y in run((direction * scales[:, None]).astype(dtype)))
        assert np.isfinite(slopes[: 480 if dtype is np.float64 else 55]).all()
        assert not np.isfinite(slopes[-40:]).any()
        for found, wanted in ((slopes, true), (back, true), (along, np.dot(true, t))):
            error = np.abs(found - np.array(wanted))[exact]
            assert error[np.isfinite(error)].max() < (2e-6 if dtype is np.float32 else 1e-13)


@pytest.mark.parametrize("name", UNDERFLOWS)
def test_lengths_of_zeros_have_the_slope_zero(name: str) -> None:
    f, zero, t = UNDERFLOWS[name][0], np.zeros(2), np.array([1.0, -2.0])
    for run in (lambda g: g, nm.jit):
        assert np.array_equal(run(nm.grad(f))(zero), zero)
        assert float(run(lambda x: nm.jvp(f, (x,), (t,))[1])(zero)) == 0
        assert np.array_equal(run(nm.vmap(nm.grad(f)))(np.stack([zero, zero])), [zero, zero])
        assert np.array_equal(run(nm.grad(lambda v: nm.jvp(f, (zero,), (v,))[1]))(t), zero)
        assert float(run(nm.grad(lambda w: nm.grad(lambda x: w * f(x))(zero).sum()))(np.float64(1))) == 0
        assert float(run(nm.grad(lambda w: nm.jvp(lambda x: w * f(x), (zero,), (t,))[1]))(np.float64(1))) == 0


POWERS = {
    (0.0, 2.0): 0.0,
    (0.0, 0.5): 0.0,
    (0.0, 1.0): 0.0,
    (0.0, 0.0): INF,
    (2.0, 0.0): np.log(2) ** 2,
    (2.0, 3.0): 8 * np.log(2) ** 2,
}


@pytest.mark.parametrize("point", POWERS)
def test_second_derivatives_of_a_power_by_its_exponent(point: tuple[float, float]) -> None:
    x, y = (np.float64(v) for v in point)
    for found in hessians(lambda y: nnp.power(x, y), y):
        np.testing.assert_allclose(found, POWERS[point], rtol=1e-14)
    third = nm.grad(nm.jacfwd(nm.grad(lambda y: nnp.power(x, y))))(y)
    np.testing.assert_allclose(third, x**y * np.log(x) ** 3 if x else -POWERS[point], rtol=1e-14)


@pytest.mark.parametrize("x", [0.0, -0.5])
def test_boxcox_has_the_slopes_of_a_logarithm_at_the_power_zero(x: float) -> None:
    """At 0 and for negative numbers, too, in both modes, interpreted and compiled."""
    for run, d in itertools.product((lambda g: g, nm.jit), (nm.grad, nm.jacfwd, nm.jacrev)):
        slope, by_power = (float(run(d(special.boxcox, i))(np.float64(x), np.float64(0))) for i in (0, 1))
        assert slope == (INF if x == 0 else 1 / x)
        assert by_power == INF if x == 0 else np.isnan(by_power)
    for found in hessians(lambda power: special.boxcox(0.5, power), 0.0):
        np.testing.assert_allclose(found, np.log(0.5) ** 3 / 3, rtol=1e-14)


def test_signs_and_entropies_of_nan() -> None:
    for run in (lambda f: f, nm.jit):
        signs = run(special.gammasgn)(np.array([NAN, -0.5, 2.0, -1.0]))
        np.testing.assert_array_equal(signs, [NAN, -1.0, 1.0, NAN])
        p, q = np.array([-1.0, NAN, NAN, -1.0, 0.0]), np.array([NAN, -2.0, 0.5, 0.5, NAN])
        for f, reference in ((special.rel_entr, scipy.special.rel_entr), (special.kl_div, scipy.special.kl_div)):
            np.testing.assert_array_equal(run(f)(p, q), reference(p, q))


@pytest.mark.parametrize("f", [special.xlogy, special.xlog1py, special.rel_entr, special.kl_div])
def test_products_with_logarithms_of_nan(f: Callable[..., Any]) -> None:
    for point in itertools.product([0.0, 1.0, NAN], repeat=2):
        if np.isnan(point).any():
            assert np.isnan(f(*map(np.float64, point)))
            assert not np.isfinite([float(v) for v in nm.grad(f, (0, 1))(*map(np.float64, point))]).all()
    assert float(special.xlogy(0.0, -1.0)) == 0.0
    assert np.isnan(nm.nn.kl_divergence(np.array([NAN, -1.0]), np.array([0.0, 1.0])))


@pytest.mark.parametrize("f", [nnp.exp, nnp.log, lambda w: w - 1.0], ids=["exp", "log", "difference"])
def test_vectors_of_equal_eigenvalues_have_no_derivative(f: Callable[[Any], Any]) -> None:
    def by_vectors(a: Any) -> Any:
        w, v = nnp.linalg.eigh(a)
        return (v * f(w)) @ v.T

    couples = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert np.isnan(nm.jvp(by_vectors, (np.eye(2),), (couples,))[1]).any()
    assert not np.isfinite(nm.grad(lambda a: by_vectors(a).sum())(np.eye(2))).all()
    right = nm.grad(lambda a: nnp.linalg.matrix_function(f, a).sum())(np.eye(2))
    np.testing.assert_allclose(right, np.full((2, 2), np.e if f is nnp.exp else 1.0), rtol=1e-12)


def test_a_vector_of_a_single_eigenvalue_moves_beside_equal_ones() -> None:
    a, e = np.diag([1.0, 1.0, 3.0]), np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 2.0], [1.0, 2.0, 0.0]])
    moved = nm.jvp(lambda a: nnp.linalg.eigh(a)[1][:, 2], (a,), (e,))[1]
    np.testing.assert_allclose(np.abs(moved), [0.5, 1.0, 0.0], atol=1e-12)


@pytest.mark.parametrize("matrix", ["equal", "close", "separate"])
def test_functions_of_hermitian_matrices(matrix: str) -> None:
    rng = np.random.default_rng(5)
    q = np.linalg.qr(rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3)))[0]
    w = {"equal": [1, 1, 2], "close": [1, 1 + 1e-9, 2], "separate": [1, 2, 3]}[matrix]
    a, e = q @ np.diag(w) @ q.conj().T, rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3))
    e, weights = e + e.conj().T, rng.normal(size=(3, 3))

    def f(t: Any) -> Any:
        return (nnp.linalg.matrix_function(nnp.log, a + t * e).real * weights).sum()

    with mp.workdps(60):

        def reference(t: Any) -> Any:
            return sum(mp.re(x) * y for x, y in zip(mp.logm(mp.matrix(a + 0) + t * mp.matrix(e)), weights.ravel(), strict=True))

        first, second = (float(mp.diff(reference, 0, n)) for n in (1, 2))
    for mode in (nm.grad, nm.jacfwd):
        np.testing.assert_allclose(mode(f)(np.float64(0)), first, rtol=1e-9)
        for outer in (nm.grad, nm.jacfwd):
            np.testing.assert_allclose(outer(mode(f))(np.float64(0)), second, rtol=1e-7)


@pytest.mark.parametrize("gap", [1e-2, 1e-5, 1e-8, 1e-11, 1e-14])
def test_derivatives_of_vectors_have_the_digits_of_the_gap(gap: float) -> None:
    """The error is eps / gap, and is not hidden; a smooth function of the matrix has all digits, however small the gap is."""
    q = np.linalg.qr(np.array([[1.0, 2, 3], [0, 1, -2], [4, 1, 1]]))[0]
    w, b = np.array([1.0, 1.0 + gap, 3.0]), np.array([[0.3, 0.5, -0.2], [0.5, -0.4, 0.6], [-0.2, 0.6, 0.25]])
    a = (q * w) @ q.T
    a, inner = (a + a.T) / 2, q.T @ b @ q
    moved = np.asarray(nm.jvp(lambda a: nnp.linalg.eigh(a)[1], (a,), (b,))[1])
    vectors = np.asarray(nnp.linalg.eigh(a)[1])
    signs = np.sign((vectors * q).sum(0)) if gap > 1e-13 else 1
    true = q[:, 1] * inner[1, 0] / (w[0] - w[1]) + q[:, 2] * inner[2, 0] / (w[0] - w[2])
    error = np.abs(moved[:, 0] * (signs[0] if gap > 1e-13 else 1) - true).max() / np.abs(true).max()
    assert error < 100 * np.finfo(float).eps / gap
    smooth = nm.jvp(lambda a: nnp.linalg.matrix_function(nnp.exp, a), (a,), (b,))[1]
    e = np.exp(w)
    quotient = np.array([[e[i] * np.expm1(w[j] - w[i]) / (w[j] - w[i]) if i != j else e[i] for j in range(3)] for i in range(3)])
    np.testing.assert_allclose(smooth, q @ (quotient * inner) @ q.T, rtol=1e-9, atol=1e-9)


FAR: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], list[float]]] = {
    "expm1": (nnp.expm1, mp.expm1, [-600, -80, -30, -1, 5, 80]),
    "log1p": (nnp.log1p, mp.log1p, [-0.9, 1e4, 1e30]),
    "logistic": (special.expit, lambda x: 1 / (1 + mp.exp(-x)), [-80, -30, -5, 1]),
    "erf": (special.erf, mp.erf, [-8, -5, 1, 5, 8]),
    "erfc": (special.erfc, mp.erfc, [-8, -5, 1, 5, 8]),
    "softplus": (nm.nn.softplus, lambda x: mp.log1p(mp.exp(x)), [-80, -30, -5, 1]),
    "log_sigmoid": (nm.nn.log_sigmoid, lambda x: -mp.log1p(mp.exp(-x)), [-1, 5]),
    "logit": (special.logit, lambda x: mp.log(x / (1 - x)), [1e-30, 1e-5, 0.3]),
    "i0e": (special.i0e, lambda x: mp.besseli(0, x) * mp.exp(-x), [3, 20, 800]),
    "i1e": (special.i1e, lambda x: mp.besseli(1, x) * mp.exp(-x), [3, 20, 800]),
}


@pytest.mark.parametrize("name", FAR)
def test_derivatives_far_out(name: str) -> None:
    """To the third order, in all modes of the second, relative to the true number."""
    f, reference, points = FAR[name]
    modes = (nm.jacfwd, nm.grad)
    for x in points:
        with mp.workdps(60 + int(abs(x)) if abs(x) < 1000 else 60):
            true = [float(mp.diff(reference, mp.mpf(x), n, h=min(mp.mpf(10) ** -15, abs(mp.mpf(x)) / 10**15))) for n in (1, 2, 3)]
        found = [[d(f) for d in modes], [d(e(f)) for d in modes for e in modes], [nm.grad(nm.jacfwd(nm.grad(f)))]]
        for order, slopes in enumerate(found):
            for slope in slopes:
                bound = 1e-13 * (1 + abs(x)) * (1000 if "e" in name and name[0] == "i" else 1) * 10 ** (2 * order)
                np.testing.assert_allclose(
                    slope(np.float64(x)), true[order], rtol=min(bound, 1e-4), err_msg=f"{x}, order {order + 1}"
                )


@pytest.mark.parametrize("f", [nm.nn.gelu, special.log_ndtr, nm.nn.silu, nm.nn.softplus, nnp.tanh, special.expit])
def test_slopes_of_narrow_numbers_far_out(f: Callable[[Any], Any]) -> None:
    x = np.array([-6e4, -300, -41, -10, -3, 0.5, 10, 41, 300, 6e4])
    if f is special.log_ndtr:
        x = np.array([-200.0, -41, -10, -9, -3, 0.5, 10])
    every = nm.vmap(lambda x: (f(x), nm.grad(f)(x), nm.jacfwd(f)(x), nm.grad(nm.jacfwd(f))(x)))
    for narrow, precise in zip(every(x.astype(np.float16)), every(x.astype(np.float16).astype(np.float64)), strict=True):
        np.testing.assert_allclose(np.asarray(narrow, np.float64), precise, rtol=4e-3, atol=4e-3)


CLUSTERS = {"noise": (-1e-17, 1e-16, 14.0), "close": (1e-9, -1e-9, 14.0), "separate": (1e-6, 2e-6, 1.0), "small": (1e-5, 3e-5, 1.0)}


SMOOTH_AT_ZERO = [(name, f) for name in CLUSTERS for f in ("exp", "cube")]
NOT_SMOOTH_AT_ZERO = [(name, f) for name in ("separate", "small") for f in ("log", "maximum")]


@pytest.mark.parametrize(("name", "f"), SMOOTH_AT_ZERO + NOT_SMOOTH_AT_ZERO)
def test_functions_of_matrices_whose_eigenvalues_are_equal_but_for_rounding(name: str, f: str) -> None:
    """The second derivative divides twice by the distance of two eigenvalues; the trace of it is known."""
    w = np.array(CLUSTERS[name])
    function = {"exp": nnp.exp, "cube": lambda w: w**3, "log": nnp.log, "maximum": lambda w: nnp.maximum(w, 1.5e-5)}[f]
    v = np.linalg.qr(np.array([[1.0, 2, 3], [0, 1, -2], [4, 1, 1]]))[0]
    a, b = (v * w) @ v.T, np.array([[0.3, 0.5, -0.2], [0.5, -0.4, 0.6], [-0.2, 0.6, 0.25]])
    inner, (first, second) = (
        v.T @ b @ v,
        {
            "exp": (np.exp, np.exp),
            "cube": (lambda w: 3 * w**2, lambda w: 6 * w),
            "log": (lambda w: 1 / w, lambda w: -1 / w**2),
            "maximum": (lambda w: (w > 1.5e-5) * 1.0, lambda w: w * 0),
        }[f],
    )
    gap = w[:, None] - w[None]
    quotients = np.where(
        np.abs(gap) < 1e-8, second(w)[:, None] + 0 * gap, (first(w)[:, None] - first(w)[None]) / (gap + (gap == 0))
    )
    wanted = (quotients * inner**2).sum()
    found = hessians(lambda t: nnp.trace(nnp.linalg.matrix_function(function, a + t * b)), 0.0)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_nan_keep_their_tangents_in_sorts() -> None:
    x, t = np.array([2.0, NAN, 1.0]), np.array([1.0, 5.0, 3.0])
    np.testing.assert_array_equal(nm.jvp(nnp.sort, (x,), (t,))[1], [3, 1, 5])
    np.testing.assert_array_equal(nm.jvp(lambda x: nm.jax.lax.top_k(x, 2)[0], (x,), (t,))[1], [5, 1])
    np.testing.assert_array_equal(nm.vjp(nnp.sort, x)[1](t)[0], [5, 3, 1])


@pytest.mark.slow
def test_compiled_as_interpreted() -> None:
    names = ["norm**2", "std**2", "Gauss's kernel", "segment_prod", "masked sqrt", "norm, of order 3, **3"]

    def every(*xs: Any) -> list[Any]:
        return [
            outer(inner(SECOND[name][0]))(x)
            for name, x in zip(names, xs, strict=True)
            for outer in (nm.jacfwd, nm.jacrev)
            for inner in (nm.jacfwd, nm.jacrev)
        ]

    found = nm.jit(every)(*(np.asarray(SECOND[name][1], np.float32) for name in names))
    for i, name in enumerate(names):
        for got in found[4 * i : 4 * i + 4]:
            np.testing.assert_allclose(got, np.array(SECOND[name][2]), atol=1e-5, err_msg=name)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_narrow_numbers(dtype: Any) -> None:
    found = np.asarray(nm.hessian(lambda x: norm(x) ** 2)(np.zeros(2, dtype)))
    assert found.dtype == dtype
    # The root of a float16 norm is taken in float32: its square does not cancel behind the conversion, and is not known.
    np.testing.assert_array_equal(found, np.full((2, 2), np.nan) if dtype == np.float16 else 2 * np.eye(2))
    assert float(nm.grad(lambda x: special.xlogy(x, dtype(0.5)))(dtype(0))) == pytest.approx(np.log(0.5), rel=1e-3)
