"""Loops of imported modules with every kind of counter: value, gradient and Hessian against JAX on the unrolled loop."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from test_custom_rules import check
from xla import run_traced

import nabla_mlir as nm

pytestmark = pytest.mark.slow

T = "tensor<f64>"
COMPARE = {"LT": operator.lt, "LE": operator.le, "GT": operator.gt, "GE": operator.ge, "NE": operator.ne}
FLIPPED = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE", "NE": "NE"}


def module(
    dtype: str, start: int, limit: int, step: int, comparison: str, *, flipped: bool, subtract: bool, place: int, swapped: bool
) -> str:
    """``while counter ? limit: x, y = sin(x) * y + 0.1 * counter, y`` with the counter at a place of the carry."""
    counter = f"tensor<{dtype}>"
    names = ["x", "y"]
    names.insert(place, "c")
    types = [counter if n == "c" else T for n in names]
    inits = {"c": "%start", "x": "%x0", "y": "%y0"}
    new = {"c": "%c2", "x": "%y" if swapped else "%x2", "y": "%x2" if swapped else "%y"}
    sides = "%limit, %c" if flipped else "%c, %limit"
    direction = FLIPPED[comparison] if flipped else comparison
    move, amount = ("subtract", -step) if subtract else ("add", step)
    return f"""func.func @main(%x0: {T}, %y0: {T}) -> ({T}, {T}) {{
      %start = stablehlo.constant dense<{start}> : {counter}
      %limit = stablehlo.constant dense<{limit}> : {counter}
      %r:3 = stablehlo.while({", ".join(f"%{n} = {inits[n]}" for n in names)}) : {", ".join(types)}
      cond {{
        %p = stablehlo.compare {direction}, {sides}, SIGNED : ({counter}, {counter}) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      }} do {{
        %step = stablehlo.constant dense<{amount}> : {counter}
        %c2 = stablehlo.{move} %c, %step : {counter}
        %f = stablehlo.convert %c : ({counter}) -> {T}
        %tenth = stablehlo.constant dense<0.1> : {T}
        %s = stablehlo.sine %x : {T}
        %m = stablehlo.multiply %s, %y : {T}
        %k = stablehlo.multiply %f, %tenth : {T}
        %x2 = stablehlo.add %m, %k : {T}
        stablehlo.return {", ".join(new[n] for n in names)} : {", ".join(types)}
      }}
      return %r#{names.index("x")}, %r#{names.index("y")} : {T}, {T} }}"""


def unrolled(start: int, limit: int, step: int, comparison: str, swapped: bool) -> Callable[..., Any]:
    def f(x: Any, y: Any) -> Any:
        c = start
        while COMPARE[comparison](c, limit):
            new = jnp.sin(x) * y + c * 0.1
            x, y = (y, new) if swapped else (new, y)
            c += step
        return x, y

    return f


@pytest.mark.parametrize(
    "counter",
    [
        ("i32", 0, 5, 1, "LT"),
        ("i64", 0, 5, 2, "LT"),
        ("i32", 5, 0, -1, "GT"),
        ("i64", 7, -3, -3, "GE"),
        ("i32", 0, 0, 1, "LT"),
        ("i32", 3, 0, 1, "LT"),
        ("i32", 0, 1, 1, "LT"),
        ("i32", 0, 6, 2, "NE"),
        ("i16", 1, 9, 3, "LE"),
        ("i8", -4, 4, 2, "LT"),
        ("i32", 0, 0, 1, "NE"),
        ("i32", 0, 0, 1, "LE"),
    ],
)
@pytest.mark.parametrize(
    ("flipped", "subtract", "place", "swapped"), [(False, False, 0, False), (True, False, 1, False), (False, True, 2, True)]
)
def test_counters(counter: Any, flipped: bool, subtract: bool, place: int, swapped: bool) -> None:
    text = module(*counter, flipped=flipped, subtract=subtract, place=place, swapped=swapped)
    one = lambda out: out[0] * 1.5 + out[1] ** 2  # noqa: E731
    ours, theirs = nm.from_stablehlo(text), unrolled(*counter[1:], swapped)
    x, y = np.float64(0.3), np.float64(0.8)
    expected = [(f := lambda x, y: one(theirs(x, y)))(x, y), oracle.grad(f, (0, 1))(x, y), oracle.hessian(f, (0, 1))(x, y)]
    g = lambda x, y: one(ours(x, y))  # noqa: E731
    check(lambda x, y: [g(x, y), nm.grad(g, (0, 1))(x, y), nm.hessian(g, (0, 1))(x, y)], expected, x, y)


def test_trip_counts_from_a_shape_and_from_a_value() -> None:
    x = np.array([0.3, 0.8, -0.2])
    by_shape = lambda lib, xp: lambda x: lib.fori_loop(0, x.shape[0], lambda i, c: xp.sin(c) * x[i] + i, x[0])  # noqa: E731
    ours = by_shape(nm, nm.numpy)
    check(nm.hessian(ours), oracle.hessian(by_shape(jax.lax, jnp))(x), x)
    for n in (0, 1, 5, 700):  # 700 is more than one chunk
        by_value = lambda x, n: nm.fori_loop(0, n, lambda i, c: nm.numpy.sin(c) * 0.9 + x, x)  # noqa: E731
        theirs = lambda x, n=n: jax.lax.fori_loop(0, n, lambda i, c: jnp.sin(c) * 0.9 + x, x)  # noqa: E731
        check(nm.grad(by_value), oracle.grad(theirs)(x[0]), x[0], np.int32(n))
        check(nm.grad(nm.grad(by_value)), oracle.grad(oracle.grad(theirs))(x[0]), x[0], np.int32(n))


def test_carries_of_every_kind() -> None:
    """A flag, a wide integer, a value that does not change, and one that nobody needs."""

    def f(lib: Any, xp: Any) -> Callable[..., Any]:
        def body(i: Any, c: Any) -> Any:
            flag, wide, fixed, dead, x = c
            x = xp.where(flag, xp.sin(x) * fixed, x * x)
            return ~flag, wide * 3 + i, fixed, dead + x, x * wide

        def run(x: Any, fixed: Any) -> Any:
            one = np.int64(1)
            return lib.fori_loop(0, 4, body, (x > 0, one, fixed, x, x))[4]

        return run

    x, w = np.float64(0.4), np.float64(1.7)
    ours, theirs = f(nm, nm.numpy), f(jax.lax, jnp)
    check(nm.grad(ours, (0, 1)), oracle.grad(theirs, (0, 1))(x, w), x, w)
    check(nm.hessian(ours, (0, 1)), oracle.hessian(theirs, (0, 1))(x, w), x, w)
    many = np.array([0.4, -0.3])
    check(nm.vmap(nm.grad(ours), (0, None)), oracle.vmap(oracle.grad(theirs), (0, None))(many, w), many, w)


def test_nested_loops_of_unknown_length() -> None:
    def f(lib: Any, xp: Any) -> Callable[..., Any]:
        inner = lambda x: lib.while_loop(lambda c: c[0] < x, lambda c: (c[0] + 1.0, xp.sin(c[1]) * x), (0.0 * x, x))[1]  # noqa: E731
        return lambda x: lib.while_loop(lambda c: c[0] < 3.0, lambda c: (c[0] + 0.9, inner(c[1]) + c[0] * x), (x, x))[1]

    x = np.float64(1.3)
    slope = lambda x: oracle.jvp(f(jax.lax, jnp), (x,), (1.0,))[1]  # noqa: E731
    check(nm.grad(f(nm, nm.numpy)), slope(x), x)
    check(nm.grad(nm.grad(f(nm, nm.numpy))), oracle.jvp(slope, (x,), (1.0,))[1], x)


# ---------------------------------------------------------------- entries that do not take a result


def finite(f: Any, expected: Any, *inputs: Any) -> None:
    check(f, expected, *inputs)
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(run_traced(f, inputs)))


def test_branches_that_an_entry_does_not_take_leave_no_trace() -> None:
    f = lambda x, w: nm.cond(x > 0, lambda: nm.numpy.log(x) * w, lambda: x * w)  # noqa: E731
    total = lambda x, w: nm.vmap(f, (0, None))(x, w).sum()  # noqa: E731
    x, w = np.array([-1.0, 0.0, 4.0]), np.float64(2.0)
    finite(nm.grad(total, (0, 1)), (np.array([2.0, 2.0, 0.5]), np.log(4.0) - 1.0), x, w)
    for mode in ("fwd_rev", "rev_rev", "rev_fwd"):
        finite(nm.hessian(total, mode=mode), np.diag([0.0, 0.0, -0.125]), x, w)
    g = lambda i, x: nm.switch(i, [lambda: x, lambda: nm.numpy.sqrt(x), lambda: 1.0 / x])  # noqa: E731
    i = np.array([0, 1, 2, 0], np.int32)
    finite(nm.grad(lambda x: nm.vmap(g)(i, x).sum()), np.array([1.0, 0.25, -0.25, 1.0]), np.array([-1.0, 4.0, 2.0, 0.0]))


def test_iterations_that_an_entry_does_not_run_leave_no_trace() -> None:
    f = lambda x, w: nm.while_loop(lambda c: c >= 1.5, lambda c: nm.numpy.sqrt(c - 1.0) * w, x)  # noqa: E731
    x, w = np.array([0.5, 1.0, 3.0, 26.0]), np.float64(1.3)  # two entries run no iteration, where sqrt has no value
    single = [run_traced(nm.grad(f, (0, 1)), [v, w]) for v in x]
    slopes, weights = np.array([a for a, _ in single]), np.array([b for _, b in single])
    finite(nm.vmap(nm.grad(f, (0, 1)), (0, None)), (slopes, weights), x, w)
    finite(nm.grad(lambda x, w: nm.vmap(f, (0, None))(x, w).sum(), (0, 1)), (slopes, weights.sum()), x, w)
    finite(lambda x, w: nm.jvp(lambda x: nm.vmap(f, (0, None))(x, w), (x,), (x * 0 + 1,))[1], slopes, x, w)


def test_gates_cost_nothing_where_nothing_is_differentiated() -> None:
    f = lambda x, w: nm.cond(x.sum() > 0, lambda: x @ w, lambda: x)  # noqa: E731
    text = str(nm.trace(nm.vmap(f, (0, None)), nm.spec((5, 3)), nm.spec((3, 3))).lower())
    assert text.count("stablehlo.select") == 1
    assert "tensor<5x3x3xf32>" not in text  # the shared matrix is not copied for every entry


# ---------------------------------------------------------------- bounds of fori_loop


@pytest.mark.parametrize(("lower", "upper"), [(0, 2.5), (0.0, 3), (np.float64(0), np.float64(2)), (0, 1j), (False, True)])
def test_bounds_that_are_no_integers_are_refused(lower: Any, upper: Any) -> None:
    for call in (nm.fori_loop, nm.jit(nm.fori_loop, static_argnums=2)):
        with pytest.raises(nm.errors.DtypeError, match="fori_loop requires integers as bounds, got"):
            call(lower, upper, lambda i, n: n + 1, 0)


def test_bounds_meet_in_one_dtype() -> None:
    count = lambda lower, upper: int(nm.fori_loop(lower, upper, lambda i, n: n + 1, 0))  # noqa: E731
    assert count(np.int32(-2), np.int64(3)) == count(-2, np.int64(3)) == count(np.int64(-2), 3) == 5
    assert count(np.int32(5), np.int64(2**31 + 1) - np.int64(2**31)) == 0
