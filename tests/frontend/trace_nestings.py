"""Transforms inside control flow that capture values of it: programs that a process with poisoned memory traces again and again.

    python trace_nestings.py FIRST STEP

runs every STEP-th pair from FIRST on, ten times each. A pair is traced, dropped, and traced again; the interpreter's result
must be that of the same function with loops of Python's instead.
"""

import contextlib
import gc
import sys

import numpy as np

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.jax.experimental.jet import jet
from nabla_mlir.testing.checks import interpret

TIMES = 10


def _custom_jvp(f, x):
    g = nm.custom_jvp(f)
    g.defjvp(lambda p, t: nm.jvp(f, p, t))
    return nm.grad(lambda u: nnp.sum(g(u)))(x)


def _custom_vjp(f, x):
    g = nm.custom_vjp(f)
    g.defvjp(lambda u: (f(u), u), lambda u, ct: nm.vjp(f, u)[1](ct))
    return nm.grad(lambda u: nnp.sum(g(u)))(x)


def _linearized(f, x):
    y, push = nm.linearize(f, x)
    return y + push(x) + push(nnp.cos(x))


def _pulled(f, x):
    y, pull = nm.vjp(f, x)
    return y + pull(y)[0] + pull(nnp.cos(x))[0]


def _converted(f, x):
    g, captured = nm.closure_convert(f, x)
    return g(x, *captured) + g(nnp.sin(x), *captured)


def _shape_first(f, x):
    return f(x) * nm.eval_shape(nm.grad(lambda u: nnp.sum(f(u))), x).shape[0]


def _caught(f, x):
    """An error in a half-traced region, from which the program goes on."""
    with contextlib.suppress(nm.errors.NablaError):
        nm.cond(nnp.sum(x) > 0, lambda: nm.grad(lambda u: nnp.sum(f(u)))(x), lambda: nnp.zeros(7))
    with contextlib.suppress(nm.errors.NablaError):
        nm.while_loop(lambda c: nnp.sum(nm.jvp(f, (c,), (c,))[1]), lambda c: f(c), x)
    return f(x)


TRANSFORMS = {
    "plain": lambda f, x: f(x),
    "jvp": lambda f, x: nm.jvp(f, (x,), (nnp.cos(x),))[1],
    "vjp": _pulled,
    "linearize": _linearized,
    "grad": lambda f, x: nm.grad(lambda u: nnp.sum(f(u)))(x),
    "jacfwd": lambda f, x: nm.jacfwd(f)(x) @ x,
    "jacrev": lambda f, x: nm.jacrev(f)(x) @ x,
    "hvp": lambda f, x: nm.hvp(lambda u: nnp.sum(f(u)))(x, nnp.cos(x)),
    "hessian": lambda f, x: nm.hessian(lambda u: nnp.sum(f(u)))(x) @ x,
    "vmap": lambda f, x: nm.vmap(f, in_axes=1, out_axes=1)(nnp.stack([x, nnp.cos(x)], 1)).sum(1),
    "vmap jvp": lambda f, x: nm.vmap(lambda t: nm.jvp(f, (x,), (t,))[1])(nnp.stack([x, nnp.cos(x)])).sum(0),
    "checkpoint": lambda f, x: nm.grad(lambda u: nnp.sum(nm.checkpoint(f)(u)))(x),
    "custom_jvp": _custom_jvp,
    "custom_vjp": _custom_vjp,
    "custom_root": lambda f, x: nm.custom_root(
        lambda y: y - 0.1 * f(y), x, lambda g, y0: y0 - nm.jvp(g, (y0,), (g(y0),))[1], lambda g, y: y / 2
    ),
    "custom_linear_solve": lambda f, x: nm.custom_linear_solve(
        lambda y: 2 * y + nm.jvp(f, (x,), (y,))[1], x, lambda m, b: b - m(b) / 4, symmetric=True
    ),
    "jet": lambda f, x: jet(f, (x,), ((nnp.cos(x), x),))[1][1],
    "closure_convert": _converted,
    "eval_shape": _shape_first,
    "caught": _caught,
}


class Python:
    """Control flow as loops of Python's: what the operations of the same names must compute."""

    @staticmethod
    def scan(f, init, xs, reverse=False, unroll=1):
        ys, order = {}, range(len(xs))
        for k in reversed(order) if reverse else order:
            init, ys[k] = f(init, xs[k])
        return init, nnp.stack([ys[k] for k in order])

    @staticmethod
    def map(f, xs, batch_size=None):
        return nnp.stack([f(xs[k]) for k in range(len(xs))])

    @staticmethod
    def fori_loop(low, high, f, init):
        for i in range(low, high):
            init = f(np.int32(i), init)
        return init

    @staticmethod
    def while_loop(condition, f, init):
        return Python.fori_loop(0, 3, lambda _, c: f(c), init)

    @staticmethod
    def cond(by, yes, no, *operands):
        return yes(*operands)

    @staticmethod
    def switch(by, branches, *operands):
        return branches[1](*operands)

    @staticmethod
    def vmap(f):
        return lambda xs: Python.map(f, xs)

    @staticmethod
    def checkpoint(f):
        return f


_counted = lambda t, a: lambda c: (c[0] + 1, t(lambda u: nnp.sin(u) * c[1] + a * c[0], c[1]))  # noqa: E731

# Each takes where control flow comes from, a transform (of a function, at a point), an array that is differentiated around it, and rows.
CONTROL = {
    "scan captures the slice": lambda J, t, a, xs: J.scan(lambda z, s: (t(lambda u: nnp.sin(u) * s, z), z), a, xs),
    "scan captures the carry": lambda J, t, a, xs: J.scan(lambda z, s: (z + t(lambda u: u * nnp.sin(z), s), s), a, xs),
    "scan captures both, unrolled": lambda J, t, a, xs: J.scan(
        lambda z, s: (t(lambda u: nnp.sin(u) * s + z * a, z), z * s), a, xs, reverse=True, unroll=2
    ),
    "scan of weak carries": lambda J, t, a, xs: J.scan(
        lambda z, s: ((z[0] + nnp.sum(s), t(lambda u: u * s * z[0], z[1])), z[0] * s), (0.5, a), xs
    ),
    "map": lambda J, t, a, xs: J.map(lambda s: t(lambda u: nnp.sin(u) * s * a, a), xs),
    "map in blocks": lambda J, t, a, xs: J.map(lambda s: t(lambda u: nnp.sin(u) * s * a, a), xs, batch_size=2),
    "fori_loop": lambda J, t, a, xs: J.fori_loop(0, 3, lambda i, c: t(lambda u: u * c + i * nnp.sin(a * u), c), a),
    "while_loop of a weak carry": lambda J, t, a, xs: J.while_loop(lambda c: c[0] < 3, _counted(t, a), (0, a)),
    "cond": lambda J, t, a, xs: J.cond(a[0] > -9, lambda u: t(lambda w: w * u * a, u), lambda u: t(lambda w: w + u, a), xs[0]),
    "switch": lambda J, t, a, xs: J.switch(np.int32(1), [lambda u: u, lambda u: t(lambda w: nnp.sin(w) * u, a)], xs[1]),
    "vmap": lambda J, t, a, xs: J.vmap(lambda s: t(lambda u: nnp.sin(u) * s * a, s))(xs),
    "checkpoint": lambda J, t, a, xs: J.checkpoint(lambda u: t(lambda w: nnp.sin(w) * u * a, u))(xs[0]),
    "scan in scan": lambda J, t, a, xs: J.scan(lambda z, s: J.scan(lambda y, r: (t(lambda u: u * s + y * r, z), y), z, xs), a, xs),
    "scan in a gradient": lambda J, t, a, xs: nm.grad(
        lambda w: nnp.sum(J.scan(lambda z, s: (t(lambda u: nnp.sin(u) * s * w, z), z), a, xs)[0])
    )(a),
}
PAIRS = [(c, t) for c in CONTROL for t in TRANSFORMS]

A = np.linspace(0.2, 0.7, 3)
ROWS = np.linspace(-0.6, 0.8, 15).reshape(5, 3)


def program(J, control, transform):
    return lambda a, xs: nm.jax.tree.leaves(CONTROL[control](J, TRANSFORMS[transform], a, xs))


def check(control, transform, times=TIMES):
    """Traces a pair several times, and compares its values."""
    texts = set()
    for k in range(times):
        traced = nm.trace(program(nm, control, transform), A, ROWS)
        texts.add(str(traced))
        if k % 4 == 3:
            del traced
            gc.collect()
    assert len(texts) == 1, f"{control}, {transform}: {len(texts)} different programs"
    got, wanted = (interpret(program(J, control, transform), (A, ROWS)) for J in (nm, Python))
    for g, w in zip(got, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(g), np.asarray(w), rtol=1e-9, atol=1e-9, err_msg=f"{control}, {transform}")


def main(first, step):
    for control, transform in PAIRS[first::step]:
        print(f"{control}, {transform}", flush=True)
        check(control, transform)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
