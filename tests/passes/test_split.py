"""The two halves of a function together are the function, and the second does nothing that the first could."""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from splitting import needless, run, split_of

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import PassError
from nabla_mlir.passes.cuts import Network
from nabla_mlir.passes.pipeline import Pipeline

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


# ---------------------------------------------------------------- programs, each for NumPy-like namespaces of both


def network(xp: Any, lib: Any, w: Any) -> Any:
    hidden = xp.tanh(xp.ones((4, 3), w.dtype) @ w)
    return xp.sum(xp.log(1 + xp.exp(hidden @ w.T)))


def scanned(xp: Any, lib: Any, x: Any) -> Any:
    def step(h: Any, row: Any) -> Any:
        h = xp.tanh(h * row + xp.sin(x[0]))
        return h, h * h

    last, rows = lib.scan(step, x[1], x)
    return xp.sum(last) + xp.sum(rows * x)


def nested(xp: Any, lib: Any, x: Any) -> Any:
    def outer(i: Any, h: Any) -> Any:
        return lib.fori_loop(0, 3, lambda j, g: xp.sin(g) * h[0] + g, h) * xp.cos(x)

    return xp.sum(lib.fori_loop(0, 4, outer, x))


def branches(xp: Any, lib: Any, x: Any) -> Any:
    y = lib.cond(xp.sum(x) > 0, lambda z: xp.sin(z) * z, lambda z: xp.exp(-z * z), x)
    return xp.sum(y * lib.cond(x[0][0] > 100.0, lambda z: z * z * z, lambda z: xp.tanh(z), x))


def branch_in_loop(xp: Any, lib: Any, x: Any) -> Any:
    def step(i: Any, h: Any) -> Any:
        return lib.cond(i % 2 == 0, lambda z: xp.sin(z) * z, lambda z: z * xp.exp(-z * z), h)

    return xp.sum(lib.fori_loop(0, 5, step, x))


def loop_in_branch(xp: Any, lib: Any, x: Any) -> Any:
    long = lambda z: lib.fori_loop(0, 3, lambda i, h: xp.sin(h) * z, z)  # noqa: E731
    return xp.sum(lib.cond(x[0][0] > 100.0, lambda z: z * z, long, x))


PROGRAMS = [network, scanned, nested, branches, branch_in_loop, loop_in_branch]


def hvp_of(program: Any) -> Any:
    return lambda x, v: [nm.hvp(lambda y: program(nnp, nm, y))(x, v)]


def jax_hvp(program: Any, x: np.ndarray, v: np.ndarray) -> np.ndarray:
    lax = jax.lax
    return np.asarray(jax.jvp(jax.grad(lambda y: program(jnp, lax, y)), (x,), (v,))[1])


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_the_halves_are_the_whole(program: Any) -> None:
    x, v = normal(3, 4), normal(3, 4)
    module, split, _ = split_of(hvp_of(program), [x, v], [0])
    np.testing.assert_allclose(run(module, [x, v])[0], jax_hvp(program, x, v), rtol=1e-9, atol=1e-9)
    assert not needless(split)
    assert split.early == ()
    assert split.late == (0,)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_limit_is_kept(program: Any, share: float) -> None:
    x, v = normal(3, 4), normal(3, 4)
    full = split_of(hvp_of(program), [x, v], [0])[1].nbytes
    least = x.nbytes  # the argument itself is always enough
    limit = int(least + share * max(full - least, 0))
    module, split, _ = split_of(hvp_of(program), [x, v], [0], limit)
    assert split.nbytes <= limit
    np.testing.assert_allclose(run(module, [x, v])[0], jax_hvp(program, x, v), rtol=1e-9, atol=1e-9)


def test_a_limit_that_cannot_be_kept_is_an_error() -> None:
    with pytest.raises(PassError, match=r"requires max-residual-bytes of at least 96, got 5\."):
        split_of(hvp_of(network), [normal(3, 4), normal(3, 4)], [0], 5)


@pytest.mark.parametrize("known", [(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_any_arguments_may_be_known(known: tuple[int, ...]) -> None:
    def f(x: Any, y: Any, z: Any) -> Any:
        return [nnp.sin(x) * y + z, nnp.cos(y), nnp.exp(z) * nnp.tanh(y), x]

    inputs = [normal(5), normal(5), normal(5)]
    module, split, _ = split_of(f, inputs, known)
    x, y, z = inputs
    for got, want in zip(run(module, inputs), [np.sin(x) * y + z, np.cos(y), np.exp(z) * np.tanh(y), x], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)
    assert split.early == tuple(i for i, needs in enumerate([{0, 1, 2}, {1}, {1, 2}, {0}]) if needs <= set(known))
    assert not needless(split)


def test_the_halves_can_be_differentiated() -> None:
    """The whole, as its halves compose it, has the derivatives of the function: of the third order here."""
    x, v = normal(3, 4), normal(3, 4)
    module, _, _ = split_of(hvp_of(scanned), [x, v], [0])
    f = nm.from_stablehlo(str(module), "main")
    third, _, _ = split_of(lambda a, b: [nm.jvp(lambda z: f(z, b), (a,), (b,))[1]], [x, v], [0])
    want = jax.jvp(lambda z: jax.jvp(jax.grad(lambda y: scanned(jnp, jax.lax, y)), (z,), (v,))[1], (x,), (v,))[1]
    np.testing.assert_allclose(run(third, [x, v])[0], np.asarray(want), rtol=1e-8, atol=1e-8)


def test_a_loop_of_unknown_length_stays_whole() -> None:
    def f(x: Any, v: Any) -> Any:
        def push(y: Any) -> Any:
            return nm.while_loop(lambda h: nnp.sum(h * h) > 1e-2, lambda h: h * nnp.sin(y) * 0.5, y)

        return [nm.jvp(push, (x,), (v,))[1]]

    def want(x: Any, v: Any) -> Any:
        def push(y: Any) -> Any:
            return jax.lax.while_loop(lambda h: jnp.sum(h * h) > 1e-2, lambda h: h * jnp.sin(y) * 0.5, y)

        return jax.jvp(push, (x,), (v,))[1]

    x, v = normal(6), normal(6)
    module, split, _ = split_of(f, [x, v], [0])
    np.testing.assert_allclose(run(module, [x, v])[0], np.asarray(want(x, v)), rtol=1e-9)
    assert needless(split), "the loop computes its state again"


def test_the_value_of_a_loop_of_unknown_length_is_known_early() -> None:
    """The loop runs in the first half too, for what is known; a choice that no limit lets divide as well."""

    def f(x: Any, v: Any) -> Any:
        def push(y: Any) -> Any:
            y = nm.while_loop(lambda h: nnp.sum(h * h) > 1e-2, lambda h: h * nnp.sin(h) * 0.5, y)
            return nm.cond(nnp.sum(y) > 0, lambda z: nnp.sin(z) * y, lambda z: z, y)

        return [*nm.jvp(push, (x,), (v,))]

    x, v = normal(6), normal(6)
    whole = run(split_of(f, [x, v], [0, 1])[0], [x, v])
    for limit in (None, x.nbytes + 1):
        module, split, _ = split_of(f, [x, v], [0], limit)
        assert split.early == (0,)
        for got, want in zip(run(module, [x, v]), whole, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12)


# ---------------------------------------------------------------- random programs

UNARY = ["sin", "tanh", "exp", "cos"]
STEPS = st.lists(
    st.tuples(st.sampled_from([*UNARY, "mul", "add", "sum", "transpose", "loop", "cond"]), st.integers(0, 99), st.integers(0, 99)),
    min_size=1,
    max_size=8,
)


def program_of(steps: Any, xp: Any, lib: Any) -> Any:
    """A function of one matrix, from a list of (operation, operand, operand)."""

    def f(x: Any) -> Any:
        values = [x]
        for name, a, b in steps:
            p, q = values[a % len(values)], values[b % len(values)]
            if name in UNARY:
                values.append(getattr(xp, name)(p * 0.5))
            elif name in ("mul", "add"):
                values.append(p * q if name == "mul" else p + q)
            elif name == "sum":
                values.append(p * 0 + xp.sum(q, axis=0, keepdims=True))
            elif name == "transpose":
                values.append(xp.transpose(p) @ q * 0.3)
            elif name == "loop":
                values.append(lib.fori_loop(0, 3, lambda i, h, q=q: xp.sin(h) * q + h, p))
            else:
                values.append(lib.cond(xp.sum(p) > xp.sum(q), lambda z: z * z, lambda z, p=p: xp.sin(z) * p, q))
        return xp.sum(xp.tanh(values[-1]))

    return f


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(STEPS)
def test_random_programs(steps: Any) -> None:
    x, v = np.linspace(-1, 1, 9).reshape(3, 3), np.cos(np.arange(9.0)).reshape(3, 3)
    f = program_of(steps, nnp, nm)
    module, split, _ = split_of(lambda x, v: [*nm.value_and_grad(f)(x), nm.hvp(f)(x, v)], [x, v], [0])
    value, gradient, product = run(module, [x, v])
    g = program_of(steps, jnp, jax.lax)
    wanted = [g(x), jax.grad(g)(x), jax.jvp(jax.grad(g), (x,), (v,))[1]]
    for got, want in zip([value, gradient, product], wanted, strict=True):
        np.testing.assert_allclose(got, np.asarray(want), rtol=1e-8, atol=1e-8)
    assert split.early[:2] == (0, 1)
    assert not needless(split)


def test_collected_factors_are_fewer_residuals() -> None:
    def f(x: Any, v: Any, u: Any) -> Any:
        s, c = nnp.sin(x), nnp.cos(x)
        y = -(v * s) * c + v / nnp.exp(x) - 3.0 * v  # one factor
        return [(y + u * s) * c, y]  # y has two uses: it stays a value

    x, v, u = normal(6), normal(6), normal(6)
    plain, _, _ = split_of(f, [x, v, u], [0], factors=False)
    module, split, _ = split_of(f, [x, v, u], [0])
    for got, want in zip(run(module, [x, v, u]), run(plain, [x, v, u]), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)
    assert split.nbytes == 3 * x.nbytes
    assert str(split.rest).count("stablehlo.multiply") == 3
    assert not needless(split)


def test_a_known_choice_is_a_factor() -> None:
    def f(x: Any, v: Any) -> Any:
        a, b = nnp.sin(x), nnp.exp(x)
        return [nnp.where(x > 0, v * a, nnp.where(x < -1, 0.0, v * b - v)) * b]

    x, v = normal(40), normal(40)
    module, split, _ = split_of(f, [x, v], [0])
    inner = np.where(x < -1, 0, v * np.exp(x) - v)
    np.testing.assert_allclose(run(module, [x, v])[0], np.where(x > 0, v * np.sin(x), inner) * np.exp(x), rtol=1e-12)
    assert split.nbytes == x.nbytes
    assert str(split.rest).count("stablehlo.") == 1
    relu = split_of(lambda x, v: [nnp.where(x > 0, v, 0.0)], [x, v], [0])[1]
    assert relu.nbytes == x.size, "the predicate alone is a byte for each element"


def test_what_a_loop_stores_shares_a_tape() -> None:
    def program(xp: Any, lib: Any, x: Any) -> Any:
        def step(h: Any, row: Any) -> Any:
            for _ in range(4):
                h = xp.sin(h * row) + xp.exp(-h * h)
            return h, xp.sum(h)

        last, sums = lib.scan(step, x[0], x)
        return xp.sum(last * last) + xp.sum(sums * sums)

    x, v = normal(5, 3), normal(5, 3)
    module, split, _ = split_of(hvp_of(program), [x, v], [0])
    np.testing.assert_allclose(run(module, [x, v])[0], jax_hvp(program, x, v), rtol=1e-9, atol=1e-9)
    residuals = len(split.rest.regions[0].blocks[0].arguments) - 1
    assert split.nbytes > 10 * x.nbytes
    assert residuals <= 6, "IREE's kernels take thirty buffers, and each stored value was one"


def test_what_is_equal_is_stored_once() -> None:
    def f(x: Any, v: Any) -> Any:
        return [nnp.sum(v * nnp.sin(x), axis=0) @ x, nnp.sum(nnp.sin(x) * v) * v]

    x, v = normal(4, 4), normal(4, 4)
    split = split_of(f, [x, v], [0], factors=False)[1]
    assert split.nbytes == 2 * x.nbytes  # x and its sine


# ---------------------------------------------------------------- size, the cut, errors


def test_the_time_grows_with_the_size() -> None:
    def chain(n: int) -> Any:
        def f(x: Any, v: Any) -> Any:
            for _ in range(n):
                v, x = v * nnp.sin(x), nnp.cos(x)
            return [v]

        return f

    def seconds(n: int) -> float:
        start = time.process_time()
        split_of(chain(n), [normal(3), normal(3)], [0])
        return time.process_time() - start

    seconds(20)
    small, large = min(seconds(100) for _ in range(3)), seconds(800)
    assert large < 24 * small, (small, large)


def test_minimum_cut() -> None:
    # Two paths of capacities 3 and 2 that share an edge of 4: the shared edge is cut.
    network = Network()
    a, b, c, d = (network.node() for _ in range(4))
    for tail, head, room in [(0, a, 3), (0, b, 2), (a, c, 9), (b, c, 9), (c, d, 4), (d, 1, 9)]:
        network.edge(tail, head, room)
    assert network.sink_side() == {1, d}


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 9)), max_size=20))
def test_no_cut_is_smaller(edges: Any) -> None:
    network = Network()
    for _ in range(5):
        network.node()
    for edge in edges:
        network.edge(*edge)
    side = network.sink_side()

    def capacity(late: set[int]) -> int:
        return sum(c for a, b, c in edges if a not in late and b in late)

    cuts = [{1, *(n for n in range(2, 7) if bits >> n & 1)} for bits in range(0, 128, 4)]
    least = min(map(capacity, cuts))
    assert 0 not in side
    assert 1 in side
    assert capacity(side) == least
    assert len(side) == min(len(cut) for cut in cuts if capacity(cut) == least)


def test_errors() -> None:
    text = "func.func @f(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }"
    two = nm.from_stablehlo(text).module
    with pytest.raises(PassError, match=r"requires known arguments among the 1 of the function, got \[3\]"):
        Pipeline.parse("nabla-split{known=3}").run(two)
    with pytest.raises(PassError, match=r"requires the name of one public function, got 'g' among \['f'\]"):
        Pipeline.parse("nabla-split{function=g}").run(two)
