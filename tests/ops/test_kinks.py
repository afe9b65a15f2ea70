"""Where derivatives are a matter of convention: ties, zeros, what a selection does not take, infinities, no tangents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xla import run_traced

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.base.errors import DtypeError
from nabla_mlir.ops.logic import clamp

INF, NAN = np.inf, np.nan


def _where(x: Any, f: Callable[[Any], Any]) -> Any:
    return nnp.where(x > 0, f(x), 0.0)


def _rows(f: Callable[[Any], Any], x: Any) -> Any:
    return nm.scan(lambda carry, row: (carry + row, f(row)), nnp.zeros((), x.dtype), x)[1]


# What is differentiated, where, and the gradient of its sum.
CASES: dict[str, tuple[Callable[..., Any], list[list[float]], list[list[float]]]] = {
    "maximum: equal operands share": (nnp.maximum, [[1, 2, 0], [1, 1, 3]], [[0.5, 1, 0], [0.5, 0, 1]]),
    "minimum: equal operands share": (nnp.minimum, [[1, 2, 0], [1, 1, 3]], [[0.5, 0, 1], [0.5, 1, 0]]),
    "max: all that attain it share": (nnp.max, [[1, 3, 3, 3]], [[0, 1 / 3, 1 / 3, 1 / 3]]),
    "min: all that attain it share": (nnp.min, [[1, 1, 2]], [[0.5, 0.5, 0]]),
    "sort: each element keeps its own": (lambda x: nnp.sort(x) * np.arange(4.0), [[2, 1, 2, 1]], [[2, 0, 3, 1]]),
    "x**y at x = 0": (nnp.power, [[0, 0, 0], [0, 1, 2]], [[0, 1, 0], [-INF, 0, 0]]),
    "x**y at x < 0": (nnp.power, [[-2, -2], [2, 3]], [[-4, 12], [NAN, NAN]]),
    "x**2 at x <= 0": (lambda x: x**2, [[-1, 0]], [[-2, 0]]),
    "x**0": (lambda x: x**0, [[0, -1]], [[0, 0]]),
    "x**0.5 at 0": (lambda x: x**0.5, [[0, 4]], [[INF, 0.25]]),
    "product with one zero": (nnp.prod, [[0, 2, 3]], [[6, 0, 0]]),
    "product with two zeros": (nnp.prod, [[0, 2, 0]], [[0, 0, 0]]),
    "cumulative product with a zero": (nnp.cumprod, [[2, 0, 3]], [[1, 8, 0]]),
    "|x| at 0": (nnp.abs, [[0, 2, -2]], [[1, 1, -1]]),
    "sign": (nnp.sign, [[0, 2, -2]], [[0, 0, 0]]),
    "max(x, 0) at 0": (lambda x: nnp.maximum(x, 0.0), [[0, 1, -1]], [[0.5, 1, 0]]),
    "relu at 0": (nm.nn.relu, [[0, 1, -1]], [[0, 1, 0]]),
    "clamp at a bound": (lambda x: clamp(x * 0 - 1.0, x, x * 0 + 1.0), [[-1, 0, 1, 2]], [[0, 1, 0, 0]]),
    "clamp with crossed bounds": (clamp, [[2.0, 0.5, 1.0], [1.5, 0.5, 0.2], [1.0, -0.5, 0.2]], [[0, 0, 0], [0, 0, 0], [1, 1, 1]]),
    "sqrt at 0": (nnp.sqrt, [[0, 4]], [[INF, 0.25]]),
    "norm at 0": (nnp.linalg.norm, [[0, 0]], [[0, 0]]),
    "where: log not taken": (lambda x: _where(x, nnp.log), [[0, -1, 2]], [[0, 0, 0.5]]),
    "where: sqrt not taken": (lambda x: _where(x, nnp.sqrt), [[0, 4]], [[0, 0.25]]),
    "where: 1/x not taken, twice used": (lambda x: _where(x, lambda v: 1 / v + nnp.log(v)), [[0, 2]], [[0, 0.25]]),
    "where: a chain not taken": (lambda x: _where(x, lambda v: nnp.exp(1 / v) / v), [[0, 1]], [[0, -2 * np.e]]),
    "where: overflow not taken": (lambda x: nnp.where(x < 100, nnp.exp(x), 0.0), [[1000, 0]], [[0, 1]]),
    "where: rows broadcast": (lambda x: nnp.where(x > 0, nnp.broadcast_to(nnp.sqrt(x), (3, 2)), 0.0), [[0, 4]], [[0, 0.75]]),
    "where: a slice not taken": (lambda x: nnp.where(x[1:] > 0, nnp.log(x)[1:], 0.0), [[1, 0, 2, 0]], [[0, 0, 0.5, 0]]),
    "where: rows chosen by index not taken": (
        lambda x: _where(x[np.array([2, 1])], lambda v: v + nnp.log(x)[np.array([2, 1])]),
        [[1, 0, 2]],
        [[0, 0, 1.5]],
    ),
    "where: an update not taken": (
        lambda x: _where(x, lambda v: nnp.log(v).at[:2].set(nnp.sqrt(v)[:2])),
        [[1, 0, 2, 0]],
        [[0.5, 0, 0.5, 0]],
    ),
    "where: parts joined, not taken": (
        lambda x: _where(nnp.concatenate([x, x]), lambda v: nnp.concatenate([nnp.log(x), nnp.sqrt(x)])),
        [[1, 0]],
        [[1.5, 0]],
    ),
    "where: one within another": (
        lambda x: _where(x, lambda v: (lambda y: nnp.where(v < 1, y, nnp.sqrt(v) - y))(nnp.log(v))),
        [[0, 4]],
        [[0, 0]],
    ),
    "where: a loop not taken": (
        lambda x: _where(x, lambda v: nm.fori_loop(0, 1, lambda i, y: y + nnp.log(v) + nnp.log(y), v)),
        [[0, -1, 2]],
        [[0, 0, 2]],
    ),
    "where: a nested loop not taken": (
        lambda x: _where(x, lambda v: nm.fori_loop(0, 1, lambda i, y: nm.fori_loop(0, 1, lambda j, z: 1 / z, y), v)),
        [[0, 2]],
        [[0, -0.25]],
    ),
    "where: a loop that ends by itself": (
        lambda x: _where(x, lambda v: nm.while_loop(lambda y: y.sum() < 5, lambda y: 1 / y + 2 * y, v)),
        [[0, 4]],
        [[0, 2 - 1 / 16]],
    ),
    "where: a loop of two states that ends by itself": (
        lambda x: _where(
            x, lambda v: nm.while_loop(lambda s: s[1].sum() < 5, lambda s: (s[0] * nnp.log(s[1]), 2 * s[1]), (v, v))[0]
        ),
        [[0, 2]],
        [[0, 2 * np.log(2) ** 2 + 3 * np.log(2)]],
    ),
    "where: rows of a scan not taken": (
        lambda x: _where(x, lambda v: _rows(lambda y: nnp.log(y) * nnp.sqrt(y), v)),
        [[1, 0, 4]],
        [[1, 0, 0.25 * np.log(4) + 0.5]],
    ),
    "where: rows of a scan of what is not taken": (
        lambda x: _where(x, lambda v: _rows(nnp.log, 1 / v)),
        [[1, 0, 4]],
        [[-1, 0, -0.25]],
    ),
    "where: a loop that turns": (
        lambda x: _where(x, lambda v: nm.fori_loop(0, 1, lambda i, y: nnp.roll(y, 1) ** 2, v)),
        [[3, 4]],
        [[6, 8]],
    ),
    "where: a branch not taken": (
        lambda x: _where(x, lambda v: nm.cond(v.sum() > 0, nnp.log, nnp.sin, 1 / v)),
        [[0, 2]],
        [[0, -0.5]],
    ),
    "where: a checkpoint not taken": (lambda x: _where(x, lambda v: nm.checkpoint(nnp.log)(1 / v)), [[0, 2]], [[0, -0.5]]),
    "exp and tanh of infinities": (lambda x: nnp.exp(x) + nnp.tanh(x), [[-INF, NAN]], [[0, NAN]]),
    "log of 0": (nnp.log, [[0]], [[INF]]),
    "floor, round": (lambda x: nnp.floor(x) + nnp.rint(x), [[0.5, 1]], [[0, 0]]),
}


@pytest.mark.parametrize("name", CASES)
def test_gradient(name: str) -> None:
    f, xs, wanted = CASES[name]
    inputs = [np.array(x, np.float64) for x in xs]
    got = run_traced(lambda *a: nm.grad(lambda *b: f(*b).sum(), tuple(range(len(a))))(*a), inputs)
    np.testing.assert_allclose(got, np.array(wanted, np.float64), rtol=1e-12)


def test_what_loops_do_not_take_has_no_second_derivative() -> None:
    kinds = ("loop", "scan")
    cases = {name: case for name, case in CASES.items() if "where" in name and any(kind in name for kind in kinds)}

    def second(*xs: Any) -> Any:
        slopes = [nm.grad(lambda x, f=f: f(x).sum()) for f, _, _ in cases.values()]
        ones = [nnp.ones_like(x) for x in xs]
        return [(nm.vjp(g, x)[1](t)[0], nm.jvp(g, (x,), (t,))[1]) for g, x, t in zip(slopes, xs, ones, strict=True)]

    got = run_traced(second, [np.array(x, np.float64) for _, (x,), _ in cases.values()])
    for name, (pulled, pushed) in zip(cases, got, strict=True):
        assert np.isfinite(pushed).all(), name
        np.testing.assert_allclose(pulled, pushed, rtol=1e-12, err_msg=name)


def test_conditions_that_share_many_others() -> None:
    # There are 2^40 ways down from the last condition to the first.
    def f(x: Any) -> Any:
        inside = x > 0
        for i in range(40):
            inside = (inside & (x < 9 + i)) & (inside & (x > -9 - i))
        return nnp.where(x < 99, nnp.where(inside, nnp.log(x), 0.0), 0.0).sum()

    np.testing.assert_array_equal(run_traced(nm.grad(f), [np.array([0.0, 2.0])]), [0, 0.5])


def test_many_selections_one_after_the_other() -> None:
    bounds = np.linspace(-1, 2, 300)

    def f(x: Any) -> Any:
        y = x
        for bound in bounds:
            y = nnp.where(x > float(bound), nnp.sin(y), y)
        return y.sum()

    x = np.array([-2.0, 0.5, 1.5])
    y, slope = x, np.ones(3)
    for bound in bounds:
        y, slope = np.where(x > bound, np.sin(y), y), np.where(x > bound, slope * np.cos(y), slope)
    np.testing.assert_allclose(run_traced(nm.grad(f), [x]), slope, rtol=1e-12)


def test_a_cotangent_that_happens_to_be_zero_has_a_tangent() -> None:
    # (sqrt(x) - 1)^2 at x = 1: the cotangent of the square root is zero, the second derivative 1/2 is not.
    f = lambda x: nnp.where(x > 0, (nnp.sqrt(x) - 1) ** 2, 0.0).sum()  # noqa: E731
    x = np.array([1.0, 0.0])
    np.testing.assert_allclose(run_traced(lambda x, v: nm.hvp(f)(x, v), [x, np.ones(2)]), [0.5, 0], rtol=1e-12)


def test_sqrt_at_zero_under_a_zero_cotangent() -> None:
    def both(x: Any, t: Any) -> Any:
        return nm.jvp(nnp.sqrt, (x,), (t,))[1], nm.vjp(nnp.sqrt, x)[1](t)[0]

    x, t = np.array([0.0, 0.0, 4.0]), np.array([0.0, 1.0, 1.0])
    for got in run_traced(both, [x, t]):
        np.testing.assert_array_equal(got, [0, INF, 0.25])


def test_mixed_second_derivative_of_a_power_with_exponent_zero() -> None:
    # d/dy (y x^(y-1)) at y = 0 is 1/x.
    mixed = run_traced(lambda x, y: nm.grad(nm.grad(lambda x, y: x**y), 1)(x, y), [np.array(2.0), np.array(0.0)])
    np.testing.assert_allclose(mixed, 0.5, rtol=1e-12)


def test_integers_and_truth_values_have_no_tangent() -> None:
    def f(tree: Any) -> Any:
        return (tree["x"] * tree["n"]).sum() + nnp.where(tree["p"], tree["x"], 0.0).sum()

    tree = {"x": np.ones(2), "n": np.array([2, 3]), "p": np.array([True, False])}
    _, pull = nm.vjp(f, tree)
    (ct,) = pull(np.float64(1))
    np.testing.assert_array_equal(ct["x"], [3, 3])
    assert ct["n"] is None
    assert ct["p"] is None
    with pytest.raises(DtypeError, match="grad requires"):
        nm.grad(f)(tree)
    assert nm.jvp(lambda n: n + 1, (np.array([1, 2]),), (None,))[1] is None


def test_complex_derivatives() -> None:
    z, t = np.array([1 + 2j]), np.array([0.5 - 1j])
    # The transpose is plain, so that the gradient of a real function is the conjugate of the steepest ascent.
    _, pull = nm.vjp(lambda z: (z * nnp.conj(z)).real.sum(), z)
    np.testing.assert_allclose(pull(np.float64(1))[0], 2 * np.conj(z))
    _, pushed = nm.jvp(lambda z: (z * nnp.conj(z)).real.sum(), (z,), (t,))
    np.testing.assert_allclose(pushed, (2 * np.conj(z) * t).real.sum())
    np.testing.assert_allclose(nm.grad(lambda z: (z**3).sum(), holomorphic=True)(z), 3 * z**2)
    np.testing.assert_allclose(nm.jacrev(nnp.exp, holomorphic=True)(z), np.exp(z)[None])
    np.testing.assert_allclose(nm.jacfwd(nnp.exp, holomorphic=True)(z), np.exp(z)[None])
    np.testing.assert_allclose(nm.grad(lambda z: (z * nnp.conj(z)).real.sum())(z), 2 * np.conj(z))
