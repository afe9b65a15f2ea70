"""Derivatives of lengths, sums and functions whose intermediate values overflow or underflow: true, infinite or NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from test_singular_derivatives import hessians, norm

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.jax.scipy import special

INF, NAN = np.inf, np.nan


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


FAR: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], list[float]]] = {
    "expm1": (nnp.expm1, mp.expm1, [-600, -80, -30, -1, 5, 80]),
    "log1p": (nnp.log1p, mp.log1p, [-0.9, 1e4, 1e30]),
    "logistic": (special.expit, lambda x: 1 / (1 + mp.exp(-x)), [-80, -30, -5, 1]),
    "erf": (special.erf, mp.erf, [-8, -5, 1, 5, 8]),
    "erfc": (special.erfc, mp.erfc, [-8, -5, 1, 5, 8]),
    "softplus": (nm.nn.softplus, lambda x: mp.log1p(mp.exp(x)), [-80, -30, -5, 1]),
    "log_sigmoid": (nm.nn.log_sigmoid, lambda x: -mp.log1p(mp.exp(-x)), [-1, 5]),
    "logit": (special.logit, lambda x: mp.log(x / (1 - x)), [1e-30, 1e-5, 0.3]),
    "i0e": (special.i0e, lambda x: mp.besseli(0, x) * mp.exp(-x), [3, 20, 800, 1e5, 1e8]),
    "i1e": (special.i1e, lambda x: mp.besseli(1, x) * mp.exp(-x), [3, 20, 800, 1e5, 1e8]),
}


@pytest.mark.slow
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
                bound = (1e-10 if name in ("i0e", "i1e") else 1e-13 * (1 + abs(x))) * 10 ** (2 * order)
                np.testing.assert_allclose(
                    slope(np.float64(x)), true[order], rtol=min(bound, 1e-4), err_msg=f"{x}, order {order + 1}"
                )


@pytest.mark.parametrize("f", [nm.nn.gelu, special.log_ndtr, nm.nn.silu, nm.nn.softplus, nnp.tanh, special.expit])
def test_slopes_of_narrow_numbers_far_out(f: Callable[[Any], Any]) -> None:
    x = np.array([-6e4, -300, -41, -10, -3, 0.5, 10, 41, 300, 6e4])
    if f is special.log_ndtr:
        x = np.array([-200.0, -41, -10, -9, -3, 0.5, 10])
    every = nm.vmap(lambda x: (f(x), nm.grad(f)(x), nm.jacfwd(f)(x), nm.grad(nm.jacfwd(f))(x), nm.jacfwd(nm.grad(f))(x)))
    for narrow, precise in zip(every(x.astype(np.float16)), every(x.astype(np.float16).astype(np.float64)), strict=True):
        np.testing.assert_allclose(np.asarray(narrow, np.float64), precise, rtol=4e-3, atol=4e-3)


# Quotients whose divisor is infinite: the value is 0.
DIVISORS: dict[str, tuple[Callable[[Any], Any], list[float]]] = {
    "x / exp(x)": (lambda x: x / nnp.exp(x), [800.0, 1e5]),
    "1 / exp(x)": (lambda x: 1.0 / nnp.exp(x), [800.0, 1e5]),
    "1 / (1 + exp(-x))": (lambda x: 1.0 / (1.0 + nnp.exp(-x)), [-800.0, -1e5]),
    "1 / cosh(x)": (lambda x: 1.0 / nnp.cosh(x), [800.0, -800.0]),
    "1 / (1 + x**2)": (lambda x: 1.0 / (1.0 + x * x), [1e200, -1e200]),
    "x / (1 + x**4)": (lambda x: x / (1.0 + x**4), [1e100, -1e200]),
    "exp(-x) / x": (lambda x: nnp.exp(-x) / x, [800.0]),
}


@pytest.mark.parametrize("is_compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_quotients_of_infinite_divisors_have_the_slope_zero_or_none(is_compiled: bool) -> None:
    """The true derivatives underflow; NaN is the product of a factor 0 and one that is infinite."""
    modes = (nm.jacfwd, nm.jacrev)

    def every(x: Any) -> list[Any]:
        return [g(x) for f, _ in DIVISORS.values() for g in (f, *(d(f) for d in modes), *(d(e(f)) for d in modes for e in modes))]

    run = nm.jit(every) if is_compiled else every
    for x in {x for _, points in DIVISORS.values() for x in points}:
        found = np.array([float(v) for v in run(np.float64(x))]).reshape(len(DIVISORS), -1)
        for (name, (_, points)), row in zip(DIVISORS.items(), found, strict=True):
            if x in points:
                assert row[0] == 0
                assert (np.isnan(row) | (row == 0)).all(), (name, x, row)
