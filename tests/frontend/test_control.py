"""Control flow against JAX: values, forward, reverse, second order and batches; loops stay loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from xla import run_traced

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.base import errors

rng = np.random.default_rng(0)
W, U = rng.normal(size=(4, 4)) / 2, rng.normal(size=(3, 4)) / 2
H, XS = rng.normal(size=(2, 4)), rng.normal(size=(6, 2, 3))


def rnn(scan: Any, tanh: Any) -> Callable[..., Any]:
    def f(w: Any, h: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = tanh(h @ w + x @ U)
            return h, h

        last, hs = scan(step, h, xs)
        return (hs**2).sum() + last.sum()

    return f


OURS, THEIRS = rnn(nm.scan, nnp.tanh), rnn(jax.lax.scan, jnp.tanh)


def check(ours: Callable[..., Any], expected: Any, *inputs: Any, tolerance: float = 1e-9) -> None:
    got = jax.tree.leaves(run_traced(ours, inputs))
    wanted = [np.asarray(x) for x in jax.tree.leaves(expected)]
    assert [x.shape for x in got] == [x.shape for x in wanted]
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def test_scan_value_and_gradients() -> None:
    check(OURS, THEIRS(W, H, XS), W, H, XS)
    check(nm.grad(OURS, (0, 1, 2)), oracle.grad(THEIRS, (0, 1, 2))(W, H, XS), W, H, XS)


@pytest.mark.parametrize(
    "step", [lambda lib, c: (c[1], c[0]), lambda lib, c: c, lambda lib, c: (c[1], c[1]), lambda lib, c: (c[1], lib.numpy.sin(c[0]))]
)
def test_scan_that_hands_its_carries_round(step: Any) -> None:
    """Rows of what carries were before are rows of others after: in a circle none is."""
    f = lambda lib, scan: lambda a, b: scan(lambda c, _: (step(lib, c), c), (a, b), None, length=5)[1]  # noqa: E731
    check(f(nm.jax, nm.scan), f(jax, jax.lax.scan)(H, 2 * H), H, 2 * H)


def test_scan_second_order_in_every_mode() -> None:
    expected = oracle.hessian(lambda h: THEIRS(W, h, XS))(H)
    for mode in ("fwd_rev", "rev_rev", "rev_fwd", "fwd_fwd"):
        check(nm.hessian(lambda h: OURS(W, h, XS), mode=mode), expected, H)


def test_scan_batched() -> None:
    many = np.stack([H, 2 * H, -H])
    expected = oracle.vmap(oracle.grad(THEIRS, 1), (None, 0, None))(W, many, XS)
    check(nm.vmap(nm.grad(OURS, 1), (None, 0, None)), expected, W, many, XS)


def test_hvp_of_a_scan_is_two_loops_at_any_length() -> None:
    texts = [
        str(nm.trace(nm.hvp(OURS), *(nm.spec(s, "f64") for s in ((4, 4), (4, 4), (2, 4), (n, 2, 3)))).lower()) for n in (50, 5000)
    ]
    assert [t.count("stablehlo.while") for t in texts] == [2, 2]
    assert len(texts[0].splitlines()) == len(texts[1].splitlines())


def test_products_of_rows_are_computed_before_the_loop() -> None:
    def network(scan: Any, tanh: Any) -> Callable[..., Any]:
        def f(w: Any, u: Any, xs: Any) -> Any:
            step = lambda h, x: (tanh(w @ h + 2.0 * x @ u + u @ x), h)  # noqa: E731
            return scan(step, xs[0], xs, reverse=True)[1].sum()

        return f

    w, u, xs = rng.normal(size=(8, 8)) / 3, rng.normal(size=(8, 8)) / 3, rng.normal(size=(5, 8))
    ours, theirs = network(nm.scan, nnp.tanh), network(jax.lax.scan, jnp.tanh)
    check(nm.grad(ours, (0, 1, 2)), oracle.grad(theirs, (0, 1, 2))(w, u, xs), w, u, xs)
    text = str(nm.trace(ours, w, u, xs).lower())
    assert text.count("dot_general", 0, text.index("stablehlo.while")) == 2
    assert text.count("dot_general", text.index("stablehlo.while")) == 1


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("unroll", [1, 2, 7])
def test_scan_directions_and_unrolling(reverse: bool, unroll: int) -> None:
    def step(c: Any, x: Any) -> Any:
        return c * x, {"sum": c + x}

    xs = np.arange(1.0, 6.0)
    check(lambda xs: nm.scan(step, 1.0, xs, reverse=reverse, unroll=unroll), jax.lax.scan(step, 1.0, xs, reverse=reverse), xs)


def test_scan_of_no_steps() -> None:
    check(lambda c: nm.scan(lambda c, _: (c, c), c, None, length=0), (H, np.zeros((0, 2, 4))), H)


def test_a_loop_of_values_without_elements_compiles() -> None:
    """IREE found no end with the two loops of `i0e` in it."""

    def f(x: Any) -> Any:
        step = lambda c: (c[0] + 1, nnp.tanh(c[1] + nnp.tanh(nm.jax.scipy.special.i0e(c[1]))))  # noqa: E731
        return nm.while_loop(lambda c: (c[0] < 4) & (c[1].sum() < 3), step, (0, x))[1]

    x = np.zeros((5, 0, 1), np.float32)
    found = nm.trace(f, x, name="main").lower().compile(nm.CPU())(x)
    assert (found.shape, found.dtype) == (x.shape, x.dtype)


def doubling(loop: Any) -> Callable[..., Any]:
    return lambda x: loop(lambda c: c[0] < 10.0, lambda c: (c[0] * c[1], c[1] * 1.1), (x, x))[1]


def test_data_dependent_loops_in_forward_and_reverse() -> None:
    x = np.float64(1.3)
    slope = lambda x: oracle.jvp(doubling(jax.lax.while_loop), (x,), (1.0,))[1]  # noqa: E731
    check(nm.grad(doubling(nm.while_loop)), slope(x), x)
    check(nm.grad(nm.grad(doubling(nm.while_loop))), oracle.jvp(slope, (x,), (1.0,))[1], x)
    many = np.array([1.3, 2.0, 5.0, 11.0])  # 11 runs no iteration
    check(nm.vmap(doubling(nm.while_loop)), oracle.vmap(doubling(jax.lax.while_loop))(many), many)
    check(nm.vmap(nm.grad(doubling(nm.while_loop))), oracle.vmap(slope)(many), many)


def stripped(n: Any, x: Any) -> Any:
    """Divides n by two while it is even, which never ends for 0, and counts it down; x follows."""

    def outer(c: Any) -> Any:
        k, y = nm.while_loop(lambda c: c[0] % 2 == 0, lambda c: (c[0] // 2, c[1] * c[1] * 1.1), c)
        return k - 1, nnp.sin(y) + c[1]

    return nm.while_loop(lambda c: c[0] > 0, outer, (n, x))[1]


def test_entries_that_are_done_run_no_loop() -> None:
    def expected(n: int, x: Any) -> Any:
        while n > 0:
            y = x
            while n % 2 == 0:
                n, y = n // 2, y * y * 1.1
            n, x = n - 1, jnp.sin(y) + x
        return x

    ns, xs = np.array([12, 0, 5, 8], np.int32), np.linspace(0.2, 1.0, 4)

    def each(f: Any) -> list[Any]:
        return [f(int(n))(x) for n, x in zip(ns, xs, strict=True)]

    orders = [lambda n: lambda x: expected(n, x), lambda n: oracle.grad(lambda x: expected(n, x))]
    check(
        lambda ns, xs: [nm.vmap(f)(ns, xs) for f in (stripped, nm.grad(stripped, 1))], [np.array(each(f)) for f in orders], ns, xs
    )

    # Neither does a branch that an entry does not take; one that none takes is not run, though its loop is shared.
    def chosen(taken: Any, x: Any, n: Any) -> Any:
        loop = lambda: nm.while_loop(lambda c: c[0] % 2 == 0, lambda c: (c[0] // 2, c[1] * 1.1), (n, x))[1]  # noqa: E731
        return nm.cond(taken, loop, lambda: nnp.cos(x))

    check(nm.vmap(nm.grad(chosen, 1)), np.where(ns > 0, [1.21, 0.0, 1.0, 1.331], -np.sin(xs)), ns > 0, xs, ns)
    untaken = np.zeros(4, bool)
    check(nm.vmap(nm.grad(chosen, 1), (0, 0, None)), -np.sin(xs), untaken, xs, np.int32(0))


def test_more_iterations_than_a_chunk_in_reverse() -> None:
    def loop(lib: Any) -> Callable[..., Any]:
        return lambda x: lib.while_loop(lambda c: c[0] < 1200.0, lambda c: (c[0] + 1.0, c[1] * x + 0.1), (0.0 * x, x))[1]

    x = np.float64(0.999)
    check(nm.grad(loop(nm)), oracle.jvp(loop(jax.lax), (x,), (1.0,))[1], x)


def test_conditionals() -> None:
    def choice(cond: Any) -> Callable[..., Any]:
        return lambda x: cond(x > 0, lambda y: y * y, lambda y: -y, x)

    xs = np.array([1.0, -2.0])
    check(nm.vmap(nm.grad(choice(nm.cond))), oracle.vmap(oracle.grad(choice(jax.lax.cond)))(xs), xs)
    check(nm.grad(nm.grad(choice(nm.cond))), 2.0, np.float64(3.0))

    def pick(switch: Any, lib: Any) -> Callable[..., Any]:
        return lambda i, x: switch(i, [lambda x: x, lib.sin, lib.cos], x)

    for i in (-1, 0, 1, 2, 9):
        check(
            lambda x, i=i: nm.grad(pick(nm.switch, nnp), 1)(i, x),
            oracle.grad(pick(jax.lax.switch, jnp), 1)(i, 0.3),
            np.float64(0.3),
        )
    index = np.array([0, 2, 5, -3], np.int32)
    check(
        nm.vmap(pick(nm.switch, nnp), (0, None)),
        oracle.vmap(pick(jax.lax.switch, jnp), (0, None))(index, 0.3),
        index,
        np.float64(0.3),
    )


def test_fori_map_and_associative_scan() -> None:
    x = np.float64(0.3)
    ours = lambda x: nm.fori_loop(0, 5, lambda i, c: nnp.sin(c) * x + i, x)  # noqa: E731
    theirs = lambda x: jax.lax.fori_loop(0, 5, lambda i, c: jnp.sin(c) * x + i, x)  # noqa: E731
    check(nm.grad(ours), oracle.grad(theirs)(x), x)
    xs = np.arange(1.0, 8.0)
    check(lambda xs: nm.map(nnp.sin, xs), np.sin(xs), xs)
    for reverse in (False, True):
        check(
            lambda xs, reverse=reverse: nm.associative_scan(nnp.multiply, xs, reverse=reverse),
            jax.lax.associative_scan(jnp.multiply, xs, reverse=reverse),
            xs,
        )


def test_loops_run_on_iree() -> None:
    run = nm.jit(lambda w, h, xs: (OURS(w, h, xs), nm.grad(OURS)(w, h, xs)))
    value, gradient = run(W, H, XS)
    np.testing.assert_allclose(value, THEIRS(W, H, XS), rtol=1e-12)
    np.testing.assert_allclose(gradient, oracle.grad(THEIRS)(W, H, XS), rtol=1e-10)


def test_errors_name_both_types() -> None:
    with pytest.raises(errors.TreeError, match=r"carry of while_loop requires .* float32\[2\].* instead of .*float32\[\]"):
        nm.trace(lambda x: nm.while_loop(lambda c: c.sum() < 3.0, lambda c: nnp.stack([c, c]), x), nm.spec(()))
    with pytest.raises(errors.TreeError, match="each branch of cond requires"):
        nm.trace(lambda x: nm.cond(x > 0, lambda: x, lambda: (x, x)), nm.spec(()))
    with pytest.raises(errors.ShapeError, match="leading axes of one size"):
        nm.trace(lambda a, b: nm.scan(lambda c, x: (c, c), 0.0, (a, b)), nm.spec(3), nm.spec(4))
    with pytest.raises(errors.ConcretizationError, match="bool"):
        nm.trace(lambda x: x if x > 0 else -x, nm.spec(()))


def test_cond_by_the_oldest_way_of_jax():
    f = lambda lib, x: lib.cond(x > 1, x, lambda x: 3 * x, 5.0, lambda y: -y)  # noqa: E731
    for x in (0.5, 2.0):
        assert float(nm.jit(lambda x: f(nm, x))(x)) == float(f(nm.jax.lax, x)) == (3 * x if x > 1 else -5.0)
        assert float(nm.grad(lambda x: f(nm, x))(x)) == (3.0 if x > 1 else 0.0)
