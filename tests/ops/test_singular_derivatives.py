"""Derivatives at singular points as numbers: true, infinite or NaN; the same in all modes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.jax.scipy import special, stats
from nabla_mlir.numpy.segments import segment_prod

pytestmark = pytest.mark.slow

INF, NAN = np.inf, np.nan
norm = nnp.linalg.norm


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
    "i0e beside its kink": (lambda x: special.i0e(x[0]), [3e-20], [[1.5]]),
    "i1e beside its kink": (lambda x: special.i1e(x[0]), [-3e-20], [[1.0]]),
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


def test_nan_keep_their_tangents_in_sorts() -> None:
    x, t = np.array([2.0, NAN, 1.0]), np.array([1.0, 5.0, 3.0])
    np.testing.assert_array_equal(nm.jvp(nnp.sort, (x,), (t,))[1], [3, 1, 5])
    np.testing.assert_array_equal(nm.jvp(lambda x: nm.jax.lax.top_k(x, 2)[0], (x,), (t,))[1], [5, 1])
    np.testing.assert_array_equal(nm.vjp(nnp.sort, x)[1](t)[0], [5, 3, 1])


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
