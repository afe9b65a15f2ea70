"""Loops as kernels, compiled by IREE, against the same loops on XLA."""

from __future__ import annotations

import re

import numpy as np
import pytest
from iree.compiler import ir
from xla import run_module

import nabla_mlir as nm
import nabla_mlir.numpy as jnp
from nabla_mlir import CPU, runtime
from nabla_mlir.base import pytree
from nabla_mlir.compiling.compiler import compile_module
from nabla_mlir.compiling.lowering import legalize, lower_module
from nabla_mlir.dialects.context import context, parse_module
from nabla_mlir.jax.scipy.special import erf
from nabla_mlir.jax.scipy.special import erfinv as erf_inv
from nabla_mlir.passes.iree.kernels import loops_as_kernels
from nabla_mlir.passes.iree.kernels.loops_as_kernels import LoopsAsKernelsPass
from nabla_mlir.passes.pipeline import Pipeline
from nabla_mlir.staging.specs import Spec
from nabla_mlir.staging.tracing import trace_function

rng = np.random.default_rng(5)


def real(*shape, dtype="f4"):
    return (rng.normal(size=shape) / 2).astype(dtype)


def repeat(body, n=5):
    """A loop of n rounds over `body(i, state)`."""
    return lambda *state: nm.fori_loop(0, n, body, state)


def tapes(x, xs):
    def step(c, v):
        c = jnp.tanh(c + v)
        return c, c * v

    last, ys = nm.scan(step, x, xs)
    return last, ys


def rnn(w, u, h, xs):
    def step(h, x):
        h = jnp.tanh(h @ w + x @ u)
        return h, h

    last, hs = nm.scan(step, h, xs)
    return (hs**2).sum() + last.sum()


def newton(x):
    return nm.while_loop(lambda c: (c * c - 2).max() > 1e-6, lambda c: 0.5 * (c + 2 / c), x)


def prefix(x):
    def body(i, x):
        row = jnp.where(jnp.arange(x.shape[1]) < i, x[i - 1] + x[0], x[i])
        return jnp.dynamic_update_slice(x, row[None] * 0.5, (i, 0))

    return nm.fori_loop(1, x.shape[0], body, x)


def shifted_in_place(x):
    """The part that is read overlaps the part that is written."""

    def body(i, x):
        return jnp.dynamic_update_slice(x, jnp.dynamic_slice(x, (i,), (x.shape[0] - 3,)), (i + 1,))

    return nm.fori_loop(0, 4, body, x)


def nested(x, w):
    def outer(i, x):
        y = nm.fori_loop(0, i + 1, lambda j, y: jnp.sin(y @ w) + j * 0.1, x)
        return x + y

    return nm.fori_loop(0, 4, outer, x)


def nested_in_place(x):
    def outer(i, x):
        def inner(j, x):
            part = jnp.dynamic_slice(x, (i, j), (1, 1)) + jnp.dynamic_slice(x, (j, i), (1, 1))
            return jnp.dynamic_update_slice(x, part * 0.5, (i, j))

        return nm.fori_loop(0, x.shape[1], inner, x)

    return nm.fori_loop(0, x.shape[0], outer, x)


def many_products(a, b, c, v):
    def body(i, state):
        m, v = state
        m = (a @ m @ b.T + m.T @ c) / 40
        return m, (m @ v + v @ m) / 3 + a[0] * (v @ v) / 40

    return nm.fori_loop(0, 3, body, (a, v))


def euler(x, theta):
    def step(x, _):
        dx = jnp.stack([theta[0] * x[:, 0] - theta[1] * x[:, 0] * x[:, 1], theta[2] * x[:, 0] - x[:, 1]], axis=1)
        x = x + 0.05 * dx
        return x, (x**2).sum()

    last, losses = nm.scan(step, x, None, 7)
    return losses.sum() + last.sum()


REDUCTIONS = [
    (lambda x, f=f, axis=axis: x * 0.5 + getattr(jnp, f)(x, axis=axis, keepdims=True))
    for f in ("sum", "max", "min", "prod")
    for axis in (None, 0, 1, 2, (0, 2), (1, 2))
]


def chosen(x, picks):
    """Branches with arrays and scalars, one with a loop, one that returns its operand; the index may be out of range."""

    def steps(c, k):
        x, total = c
        x, extra = nm.switch(
            k,
            [
                lambda x: (nm.fori_loop(0, 3, lambda _, y: jnp.sin(y) + total * 0.1, x), x.sum()),
                lambda x: (x, total * 0.5),
                lambda x: (jnp.concatenate([x[2:], x[:2]]) * 0.9, jnp.max(x)),
            ],
            x,
        )
        x = nm.cond(extra > 0.2, lambda: x * 0.5, lambda: nm.cond(total < 3, lambda: x[::-1], lambda: x + 0.1))
        return (x, total + extra), extra

    return nm.scan(steps, (x, x[0]), picks)


def rolled(key, x):
    """Random bits: unsigned carries, shifts by constants, bits as floats."""

    def body(i, state):
        key, x = state
        key = (key * np.uint32(1664525) + np.uint32(1013904223)) ^ (key >> np.uint32(9)) ^ (key << i.astype(np.uint32))
        ones = ((key >> np.uint32(9)) | np.uint32(0x3F800000)).view(np.float32)
        return key, jnp.where(ones > 1.5, x * 0.5 + erf_inv(ones - 1.5), x)

    return nm.fori_loop(0, 7, body, (key, x))


def sorts(x, y, z):
    """Sorts along both axes, with ties, NaN and two operands; the largest of many."""

    def body(i, state):
        x, y, z = state
        order = jnp.argsort(y, axis=0)
        top, at = nm.jax.lax.top_k(z, 3)
        return jnp.sort(x, axis=1)[:, ::-1] * 0.9, jnp.take_along_axis(y, order, 0)[::-1], jnp.roll(z, at[0]) + top[2] * 0.1

    return nm.fori_loop(0, 3, body, (x, y, z))


def scattered(x, i, v):
    """Updates with repeated indices and indices outside, of elements and of rows."""

    def body(k, state):
        x, y, n = state
        x = x.at[i + k].add(v * 0.5, mode="drop").at[i[0]].set(0.25).at[1, (i + k) % 4].multiply(0.9)
        y = y.at[i % 7].max(x[:, 0][i % 5] + 0.1).at[-1].min(0.5)
        return x, y, n.at[(i + k) % 3].add(1)

    return nm.fori_loop(0, 4, body, (x, x.reshape(-1)[:7] * 1, jnp.zeros(3, np.int32)))


def gathered(x, i):
    """Rows, elements and blocks at computed indices; each entry of a batch at its own."""

    def body(k, state):
        x, i = state
        rows = x[(i + k) % 6]
        elements = x[(i * 2 + k) % 6, i % 5]
        each = jnp.take_along_axis(x, (i[:6, None] + k) % 5, axis=1)
        starts = nm.vmap(lambda r, s: jnp.dynamic_slice(r, (s,), (3,)))(x, i[:6] + k)
        x = x * 0.5 + rows[:6] * 0.25 + elements.sum() * 0.01 + each + starts[:, :1]
        return x, (i * 5 + 1) % 9

    return nm.fori_loop(0, 4, body, (x, i))


def divided(x, y, u):
    """Quotients and remainders of integers, also by 0 and of the least integer by -1."""

    def body(i, state):
        x, y, u = state
        return (
            nm.jax.lax.div(x, y) + nm.jax.lax.rem(x, y + i),
            nm.jax.lax.rem(y, x) - 1,
            nm.jax.lax.div(u, u >> np.uint32(3)) + nm.jax.lax.rem(u, np.uint32(7)),
        )

    return nm.fori_loop(0, 3, body, (x, y, u))


def narrow(x, u, v):
    """Integers of 8 and 16 bits, which wrap around, and truth values of numbers."""

    def body(i, state):
        x, u, v = state
        flags = (x > 3).astype(np.uint8) + u.astype(bool)
        wide = x.astype(np.int32) * 3 + v.astype(np.int32)
        x = x * np.int8(5) + (v >> np.int16(2)).astype(np.int8) // np.int8(3)
        u = jnp.where(u > 200, u - flags, u + np.uint8(77)) ^ (u << np.uint8(1))
        return x, u, v + wide.astype(np.int16) * (v < 0) + jnp.sum(u).astype(np.int16)

    return nm.fori_loop(0, 5, body, (x, u, v))


def windows(x, y):
    """Windows with padding, strides and dilations, by sums and largest elements."""
    window = nm.jax.lax.reduce_window

    def body(i, state):
        x, y = state
        sums = window(x * x, x[0], nm.jax.lax.add, (3,), (1,), [(1, 1)], window_dilation=(1,))
        far = window(jnp.sin(x), -np.inf, nm.jax.lax.max, (2,), (1,), [(2, 0)], window_dilation=(2,))
        pools = window(y, 0.0, nm.jax.lax.add, (2, 2), (2, 2), "VALID")
        return x * 0.5 + 0.1 * sums + far, y * 0.5 + jnp.repeat(jnp.repeat(pools, 2, 0), 2, 1) * 0.2 - x[: y.shape[1]]

    return nm.fori_loop(0, 3, body, (x, y))


def cut(x):
    """Pads that remove elements at one end, and barriers of several values."""

    def body(i, state):
        x, y = nm.jax.lax.optimization_barrier(state)
        shifted = nm.jax.lax.pad(x, x[0] * 0, [(2, -2, 0)]) + nm.jax.lax.pad(x, x[1], [(-3, 3, 0)])
        spread = nm.jax.lax.pad(x[::2], x[3], [(1, 1, 1)])[: x.size] + nm.jax.lax.pad(x[:7], x[0], [(2, 0, 2)]).sum()
        return jnp.cumsum(shifted) * 0.1 + spread, y + shifted

    return nm.fori_loop(0, 3, body, (x, x * 2))


def skipped(x, n, flag, k):
    """A value that a loop without iterations, or the other side of a branch, has in memory is computed again after it."""

    def body(i, s):
        whole = jnp.concatenate([x[3:], x[:3]])
        s = nm.fori_loop(0, n, lambda j, s: s + whole[(j + k) % 6], s)
        part = lambda k: jnp.dynamic_slice(whole, (k,), (2,)).sum()  # noqa: E731
        s = nm.cond(flag, lambda: s + part(k), lambda: s - part(k) * 2)
        return s + part(k + i)

    return nm.fori_loop(0, 3, body, x[0])


TABLE = np.arange(9, dtype="f4").reshape(3, 3) / 9
# name: (function, inputs)
CASES = {
    "prime": (repeat(lambda i, s: (jnp.tanh(s[0]) * s[1] + i.astype(s[0].dtype), s[0])), (real(37), real(37))),
    "prime64": (repeat(lambda i, s: (s[0] * s[1] + 0.1, s[0])), (real(37, dtype="f8"), real(37, dtype="f8"))),
    "matrix": (repeat(lambda i, s: (s[0] * 0.5 + s[1].T, s[0].T)), (real(5, 7), real(7, 5))),
    "scalars": (repeat(lambda i, s: (s[1], s[0] * 1.5 + i.astype("f4"))), (np.float32(1), np.float32(2))),
    "one": (repeat(lambda i, s: (s[0] * 1.5, s[1] + s[0].reshape(()))), (real(1, 1), real(1))),
    "none": (repeat(lambda i, s: (s[1], s[0] + 1), 0), (real(5), real(5))),
    "fixed": (lambda x, y: nm.fori_loop(0, 3, lambda i, s: (s[0] + s[1], y), (x, x)), (real(9), real(9))),
    "twice": (repeat(lambda i, s: (s[0] + s[1], s[0] + s[1] + 0)), (real(9), real(9))),
    "booleans": (
        repeat(lambda i, s: (s[0] ^ (s[1] > 0.1 * i), jnp.where(s[0], s[1], -s[1] * 0.9))),
        (rng.random(21) > 0.5, real(21)),
    ),
    "integers": (
        repeat(lambda i, s: (s[0] * 1103515245 + 12345 + i, jnp.maximum(s[1] * 3, -s[1]) - 7)),
        (rng.integers(0, 1 << 30, 19).astype("i4"), rng.integers(-9, 9, 19).astype("i8")),
    ),
    "nans": (
        repeat(lambda i, s: (jnp.maximum(s[0], s[1]), jnp.minimum(s[1], s[0]))),
        (np.array([np.nan, 1, 2, np.inf, -np.inf], "f4"), np.array([1, np.nan, 3, 0, 0], "f4")),
    ),
    "constants": (repeat(lambda i, s: (s[0] * jnp.asarray(TABLE) + s[1] @ TABLE, s[1] - TABLE)), (real(3, 3), real(3, 3))),
    "special": (
        repeat(lambda i, s: (jnp.sign(s[0]) * 0.5, jnp.where(jnp.isfinite(s[1]), erf(s[1]), s[1]))),
        (np.array([np.nan, 1, -2, np.inf, -np.inf, 0, -0.0], "f4"),) * 2,
    ),
    "tapes": (tapes, (real(3, 11), real(6, 3, 11))),
    "newton": (newton, (np.array([1, 2, 3.5], "f8"),)),
    "prefix": (prefix, (real(6, 5),)),
    "shifted_in_place": (shifted_in_place, (real(12),)),
    "nested": (nested, (real(3, 5), real(5, 5))),
    "nested_in_place": (nested_in_place, (real(5, 5),)),
    "many_products": (many_products, (real(19, 19), real(19, 19), real(19, 19), real(19))),
    "small_products": (many_products, (real(3, 3), real(3, 3), real(3, 3), real(3))),
    "products64": (many_products, tuple(real(*s, dtype="f8") for s in [(16, 16)] * 3 + [(16,)])),
    "batched": (repeat(lambda i, s: (jnp.tanh(s[0] @ s[1]), jnp.tanh(s[1] @ s[0]))), (real(3, 5, 5), real(3, 5, 5))),
    "euler": (nm.grad(euler, 1), (real(33, 2), real(3))),
    "euler_hvp": (nm.hvp(euler), (real(33, 2), real(33, 2), real(3))),
    "rnn": (nm.grad(rnn, (0, 1)), (real(7, 7), real(3, 7), real(2, 7), real(5, 2, 3))),
    "rnn_hvp": (nm.hvp(rnn), (real(7, 7), real(7, 7), real(3, 7), real(2, 7), real(5, 2, 3))),
    "rnn_vector": (nm.grad(rnn), (real(9, 9, dtype="f8"), real(9, 9, dtype="f8"), real(9, dtype="f8"), real(4, 9, dtype="f8"))),
    "functions": (
        repeat(
            lambda i, s: (jnp.exp(-(s[0] ** 2)) + jnp.log(2 + s[0]) + jnp.sqrt(1.5 + s[0]) * jnp.cos(s[0]) / (3 + jnp.sin(s[0])),)
        ),
        (real(23) * np.float32(0.5),),
    ),
    "functions64": (
        repeat(lambda i, s: (jnp.exp(-(s[0] ** 2)) + jnp.log(2 + s[0]) + jnp.log1p(s[0] ** 2) - jnp.tanh(s[0]) + abs(s[0]),)),
        (real(11, dtype="f8"),),
    ),
    "conversions": (
        repeat(lambda i, s: (s[1].astype("f4") * 0.5, s[0].astype("f8") + (s[0] > 0) + i.astype("f8"))),
        (real(9), real(9, dtype="f8")),
    ),
    "pieces": (
        repeat(lambda i, s: (jnp.concatenate([s[0][3:], s[0][:3] * 2]), jnp.pad(s[1][1:-1], ((1, 1), (0, 0))) + s[1])),
        (real(11), real(6, 5)),
    ),
    "stencil": (
        repeat(lambda i, s: (jnp.concatenate([s[0][:1], 0.25 * s[0][:-2] + 0.5 * s[0][1:-1] + 0.25 * s[0][2:], s[0][-1:]]),)),
        (real(67),),
    ),
    "views": (
        repeat(lambda i, s: (s[0][::-1] * 0.5 + s[0].reshape(-1)[::4][:, None], s[0][:, ::2] + s[0].T.reshape(6, -1)[:, :2])),
        (real(6, 4), real(6, 2)),
    ),
    "merged": (repeat(lambda i, s: (s[0] * 0.5, (s[0] * 2 + 1).reshape(15) + s[1])), (real(3, 5), real(15))),
    "outside": (
        lambda x, xs: nm.fori_loop(-3, 9, lambda i, s: s * 0.5 + jnp.dynamic_slice(xs, (i, i), (1, 4))[0], x),
        (real(4), real(5, 9)),
    ),
    **{
        f"reduction{i}": (repeat(lambda i, s, f=f: (f(s[0]),), 2), (real(3, 18, 5) * np.float32(0.3),))
        for i, f in enumerate(REDUCTIONS)
    },
    "branches": (chosen, (real(21), np.array([0, 2, 1, 7, -1, 0], "i4"))),
    "scalar_branches": (
        lambda x: nm.fori_loop(0, 5, lambda i, x: nm.cond(x > 0.2, lambda: jnp.sin(x) - i * 0.1, lambda: x + 0.3), x),
        (np.float64(1.5),),
    ),
    "random_bits": (rolled, (rng.integers(0, 1 << 32, 19).astype("u4"), real(19))),
    "sorts": (
        sorts,
        (np.where(rng.random((4, 21)) < 0.2, np.float32(np.nan), real(4, 21)), rng.integers(0, 5, (18, 3)).astype("i4"), real(50)),
    ),
    "short_sorts": (
        sorts,
        (np.array([[1, -0.0, 0.0, np.inf, -np.inf, np.nan]], "f4"), rng.integers(0, 3, (7, 2)).astype("i4"), real(5)),
    ),
    "sorts64": (sorts, (real(3, 9, dtype="f8"), rng.integers(0, 5, (33, 1)).astype("i8"), real(40, dtype="f8"))),
    "scatters": (scattered, (real(9, 4), np.array([3, 8, -20, 3, 100, 0], "i4"), real(6, 4))),
    "gathers": (gathered, (real(6, 5), rng.integers(0, 9, 11).astype("i4"))),
    "gathers64": (gathered, (real(6, 5, dtype="f8"), rng.integers(0, 9, 7).astype("i8"))),
    "divisions": (
        divided,
        (
            np.array([-(2**31), 7, -7, 5, 0, 9, 100, -3], "i4"),
            np.array([-1, 0, 2, -3, 0, -2, 7, 5], "i4"),
            np.array([0, 7, 2**32 - 1, 9, 8, 17, 2**31, 3], "u4"),
        ),
    ),
    **{
        f"skipped{n}{flag:d}": (skipped, (real(6), np.int32(n), np.bool_(flag), np.int32(1)))
        for n in (0, 2)
        for flag in (True, False)
    },
    "narrow": (
        narrow,
        (
            rng.integers(-128, 128, 37).astype("i1"),
            rng.integers(0, 256, 37).astype("u1"),
            rng.integers(-(2**15), 2**15, 37).astype("i2"),
        ),
    ),
    "windows": (windows, (real(21), real(6, 8))),
    "cut": (cut, (real(23),)),
    "all": (repeat(lambda i, s: (s[0] & (s[0].all() | s[0].any(axis=0)),)), (rng.random((3, 21)) > 0.3,)),
}


def traced(name):
    """The module of a case, and its inputs with those that the function has captured."""
    function, inputs = CASES[name]

    def flat(*tensors):
        return pytree.flatten(function(*tensors))[0]

    arrays = [*map(np.asarray, inputs)]
    module, captured = trace_function(flat, [Spec(x.shape, x.dtype) for x in arrays], "main")
    lower_module(module)
    return module, [*arrays, *captured]


@pytest.fixture(scope="module")
def cases():
    """All cases in one module, their inputs, and what XLA makes of them."""
    texts, inputs, wanted = [], {}, {}
    for name in CASES:
        module, inputs[name] = traced(name)
        wanted[name] = run_module(str(module), inputs[name])
        texts += [str(f).replace("@main", f"@{name}") for f in module.body.operations]
    return "\n".join(texts), inputs, wanted


@pytest.mark.slow
@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
def test_kernels(cases, vector_bytes):
    text, inputs, wanted = cases
    legal = parse_module(text)
    Pipeline.parse("builtin.module(cse,nabla-legalize-for-iree)").run(legal)
    with context(), ir.Location.unknown():
        LoopsAsKernelsPass(vector_bytes=vector_bytes).run(legal.operation)
    assert "stablehlo.while" not in str(legal)
    executable = runtime.Executable.load(compile_module(str(legal), CPU()), "local-sync")
    for name, arrays in inputs.items():
        for x, y in zip(executable.function(name)(arrays), wanted[name], strict=True):
            tolerance = 2e-5 if y.dtype == np.float32 else 1e-12
            np.testing.assert_allclose(np.asarray(x), y, rtol=tolerance, atol=tolerance, err_msg=name)


def test_more_arrays_than_a_dispatch_may_have_share_buffers():
    """IREE 3.13 compiles a dispatch of more than 32 buffers, and does not load it."""
    xs = [real(3, 2), *(real(n) for n in range(2, 20)), *(real(5, dtype="f8") for _ in range(4))]

    def steps(*xs):
        def body(i, state):
            return tuple(x * 0.5 + y.sum().astype(x.dtype) for x, y in zip(state, xs[::-1], strict=True))

        ones = nm.fori_loop(0, 3, body, tuple(x + 1 for x in xs))
        return list(nm.fori_loop(0, 3, body, ones))  # reads what the first has written, where it lies

    lowered = nm.trace(steps, *xs, name="main").lower()
    scheduled = legalize(lowered.module, CPU())
    text = str(scheduled)
    assert text.count("flow.dispatch @") == 2
    assert "stablehlo.while" not in text
    assert max(layout.count("storage_buffer") for layout in re.findall(r"bindings = \[.*\]", text)) <= 31
    wanted = run_module(lowered.mlir(), xs)
    for found, x in zip(lowered.compile(CPU(), cache=False)(*xs), wanted, strict=True):
        np.testing.assert_allclose(found, x, rtol=1e-5)


def test_a_loop_over_too_many_arrays_of_different_types_stays(monkeypatch):
    monkeypatch.setattr(loops_as_kernels, "MAX_BINDINGS", 4)
    dtypes = [np.dtype(t) for t in ("f4", "f8", "i4", "i8")]

    def steps(*xs):
        return list(nm.fori_loop(0, 3, lambda i, s: tuple(x + y for x, y in zip(s, xs, strict=True)), xs))

    module, _ = trace_function(steps, [Spec((3,), dtype) for dtype in dtypes], "main")
    lower_module(module)
    with context(), ir.Location.unknown():
        LoopsAsKernelsPass(vector_bytes=64).run(module.operation)
    assert "stablehlo.while" in str(module)


def test_a_costly_function_is_computed_on_vectors_before_a_narrow_product():
    """A product with few columns reads its left factor one by one."""

    def steps(w, u, y):
        return nm.fori_loop(0, 3, lambda i, y: jnp.tanh(y @ w) @ u, y)

    module, _ = trace_function(steps, [Spec(s, np.dtype("f4")) for s in ((4, 24), (24, 4), (32, 4))], "main")
    lower_module(module)
    with context(), ir.Location.unknown():
        LoopsAsKernelsPass(vector_bytes=64).run(module.operation)
    assert re.findall(r"math.tanh .* : (.*)", str(module)).count("f32") == 0


@pytest.mark.parametrize("many", [False, True])
def test_what_is_written_over_is_read_before(many):
    """A scalar, and the place of another update, come from elements that the same iteration writes over."""

    def f(x, positions):
        def body(i, state):
            total, a, b, c = state
            j = c[i]
            v, w = a[j], b[j]
            new = b.at[c[j]].set(v) if many else b.at[j].set(0.0)
            return total * 2 + v * w, a.at[j].set(0.0), new, c.at[j].set(1 - c[j])

        return nm.fori_loop(0, 4, body, (x[0] * 0, x, x + 1, positions))

    inputs = [real(4, dtype="f8"), np.array([3, 1, 1, 0], np.int32)]
    lowered = nm.trace(f, *inputs, name="main").lower()
    assert "stablehlo.while" not in str(legalize(lowered.module, CPU()))
    for found, x in zip(lowered.compile(CPU(), cache=False)(*inputs), run_module(lowered.mlir(), inputs), strict=True):
        np.testing.assert_allclose(found, x, rtol=1e-12)
