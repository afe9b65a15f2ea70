"""Idioms of JAX: random numbers and samplers, pytrees, indices, axes of maps, effects, linear algebra. Each takes the module `jax`."""
# ruff: noqa: E741

from __future__ import annotations

import dataclasses
import functools
from collections import OrderedDict, namedtuple
from functools import partial
from typing import Any

import numpy as np
from jax_programs import data


def particle_filter(jax: Any) -> Any:
    jnp, lax, random = jax.numpy, jax.lax, jax.random
    ys = data(6, seed=4)

    def step(carry, y):
        key, x, logz = carry
        key, k1, k2 = random.split(key, 3)
        x = 0.9 * x + random.normal(k1, x.shape)
        logw = jax.scipy.stats.norm.logpdf(y, x, 0.5)
        logz = logz + jax.scipy.special.logsumexp(logw) - jnp.log(x.size)
        idx = random.categorical(k2, logw, shape=x.shape)
        ess = 1 / jnp.sum(jax.nn.softmax(logw) ** 2)
        x = lax.cond(ess < 10, lambda: x[idx], lambda: x[jnp.argsort(-logw)])
        return (key, x, logz), (x.mean(), ess)

    key = random.PRNGKey(7)
    k0, key = random.split(key)
    return lax.scan(step, (key, random.normal(k0, (16,)), 0.0), ys)[0][1:], random.choice(key, jnp.arange(10), (4,), replace=False)


def gibbs_ising(jax: Any) -> Any:
    jnp, lax, random = jax.numpy, jax.lax, jax.random

    def run(key, n, steps, beta):
        s = random.rademacher(key, (n, n), dtype=jnp.int32)
        mask = (jnp.indices((n, n)).sum(0) % 2).astype(bool)

        def sweep(s, key):
            def half(s, args):
                m, k = args
                nb = sum(jnp.roll(s, sh, ax) for sh in (1, -1) for ax in (0, 1))
                p = jax.nn.sigmoid(2 * beta * nb)
                new = jnp.where(random.uniform(k, s.shape) < p, 1, -1).astype(s.dtype)
                return jnp.where(m, new, s), None

            s, _ = lax.scan(half, s, (jnp.stack([mask, ~mask]), random.split(key)))
            return s, jnp.abs(s.astype(float).mean())

        return lax.scan(sweep, s, random.split(random.fold_in(key, 1), steps))

    return jax.jit(run, static_argnums=(1, 2))(random.PRNGKey(0), 6, 5, 0.4)


def pytree_classes(jax: Any) -> Any:
    jnp = jax.numpy

    @jax.tree_util.register_pytree_with_keys_class
    class Dual:
        def __init__(self, re, eps):
            self.re, self.eps = re, eps

        def tree_flatten_with_keys(self):
            return ((jax.tree_util.GetAttrKey("re"), self.re), (jax.tree_util.GetAttrKey("eps"), self.eps)), None

        def tree_flatten(self):
            return (self.re, self.eps), None

        @classmethod
        def tree_unflatten(cls, aux, ch):
            return cls(*ch)

        def __mul__(self, o):
            return Dual(self.re * o.re, self.re * o.eps + self.eps * o.re)

    @partial(jax.tree_util.register_dataclass, data_fields=["w", "b"], meta_fields=["act"])
    @dataclasses.dataclass(frozen=True)
    class Dense:
        w: Any
        b: Any
        act: str = "tanh"

        def __call__(self, x):
            return getattr(jnp, self.act)(x @ self.w + self.b)

    d = jax.jit(lambda a, b: a * b)(Dual(2.0, 3.0), Dual(jnp.ones(3), np.arange(3.0)))
    layers = [Dense(data(3, 4), np.zeros(4)), Dense(data(4, 2, seed=1), np.ones(2), act="sin")]

    def loss(ls, x):
        return jnp.sum(functools.reduce(lambda h, l: l(h), ls, x))

    g = jax.grad(loss)(layers, data(2, 3, seed=2))
    new = jax.tree.map(lambda p, g: p - 0.1 * g, layers, g)
    paths = [jax.tree_util.keystr(k) for k, _ in jax.tree_util.tree_flatten_with_path({"d": d, "l": layers})[0]]
    rep = dataclasses.replace(new[0], act="cos")
    od = OrderedDict(b=1.0, a=2.0)
    return (
        d,
        new,
        len("".join(paths)),
        rep(data(1, 3)),
        jax.tree.leaves(od),
        jax.tree.map(lambda x, y: x + y, od, OrderedDict(b=3.0, a=4.0)),
        loss(new, data(2, 3, seed=2)),
        jax.tree_util.tree_map_with_path(lambda p, x: len(p) * x, {"a": {"b": 1.0}, "c": 2.0}),
    )


def numpy_zoo(jax: Any) -> Any:
    jnp = jax.numpy
    x, y = data(5), data(4, 5, seed=1)

    @jnp.vectorize
    def f(a, b):
        return jnp.where(a > b, a - b, a + b)

    @partial(jnp.vectorize, signature="(n),(n)->()")
    def dot(a, b):
        return jnp.dot(a, b)

    @partial(jnp.vectorize, excluded={0}, signature="(n)->(m)")
    def head(k, a):
        return a[:k]

    return (
        f(y, x),
        dot(y, x),
        head(2, y),
        jnp.piecewise(x, [x < -0.5, x > 0.5], [lambda v: -v, lambda v: v**2, 0.0]),
        jnp.select([x < 0, x < 0.5], [x, x**2], 9.0),
        jnp.unique(jnp.round(x), size=5, fill_value=0),
        jnp.nonzero(x > 0, size=4),
        jnp.apply_along_axis(lambda v: jnp.sort(v)[:2], 1, y),
        jnp.histogram(y, bins=4),
        jnp.digitize(x, jnp.array([-0.5, 0, 0.5])),
        jnp.einsum("ij,kj->ik", y, y),
        jnp.tensordot(y, y, axes=([1], [1])),
        jnp.kron(x[:2], x[:3]),
        jnp.percentile(y, jnp.array([10.0, 50.0]), axis=1),
        jnp.nanmedian(jnp.where(y > 1, jnp.nan, y), axis=0),
        jnp.polyfit(jnp.arange(5.0), x, 2),
        jnp.roots(jnp.array([1.0, -3.0, 2.0])),
        jnp.interp(jnp.array([0.5, 2.2]), jnp.arange(5.0), x),
        jnp.gradient(y, axis=1),
        jnp.trapezoid(y, dx=0.5),
        jnp.cumulative_sum(x, include_initial=True),
        jnp.lexsort((x, jnp.round(x))),
        jnp.rot90(y),
        jnp.block([[y, y], [y, y]]).shape,
        jnp.take_along_axis(y, jnp.argsort(y, axis=1)[:, ::-1], 1),
        jnp.argpartition(x, 2)[:2].sum(),
        jnp.partition(x, 2)[2],
        jnp.ravel_multi_index((jnp.array([1, 2]), jnp.array([3, 4])), (4, 5)),
        jnp.unravel_index(jnp.argmax(y), y.shape),
        jnp.cross(x[:3], x[2:]),
        jnp.vander(x, 3),
        jnp.convolve(x, y[0], "same"),
        jnp.correlate(x, y[0], "full"),
        jnp.ptp(y),
        jnp.insert(x, 2, 7.0),
        jnp.delete(x, 1),
        jnp.isin(jnp.arange(5), jnp.array([1, 3])),
        jnp.packbits(x > 0),
        jnp.spacing(x),
        jnp.logspace(0, 1, 3),
        jnp.bincount(jnp.array([0, 1, 1, 3]), weights=x[:4], length=5),
    )


def at_methods(jax: Any) -> Any:
    jnp = jax.numpy
    x = jnp.arange(12.0).reshape(3, 4)
    i = jnp.array([0, 2, 2])
    return (
        x.at[i].add(1.0),
        x.at[i, 1].multiply(2.0),
        x.at[:, ::2].set(0.0),
        x.at[..., -1].min(5.0),
        x.at[x > 5].set(-1.0),
        x.at[1].apply(jnp.sin),
        x.at[i].max(jnp.full((3, 4), 6.0)),
        x.at[0, 0].divide(4.0),
        x.at[1, jnp.array([1, 2])].power(2.0),
        x.at[10].get(mode="fill", fill_value=jnp.nan),
        x.at[jnp.array([5, 1])].get(mode="clip"),
        x.at[i].set(jnp.ones((3, 4)), unique_indices=False),
        x.at[1:, None].get().shape,
        x[jnp.newaxis, i, 1:3],
        x[::-1, None],
        x[jnp.ix_(jnp.array([0, 2]), jnp.array([1, 3]))],
        x.mean(axis=-1, keepdims=True),
        x.T.reshape(-1, 2),
        x.astype(jnp.int32).dtype == jnp.int32,
        x.sum(where=x > 3),
        x.std(ddof=1),
        x.argmax(1),
        x.flatten()[5],
        x.squeeze().ndim,
        x.swapaxes(0, 1).ravel(),
        x.clip(1, 3),
        x.round(1),
        x.take(jnp.array([1, 3]), axis=1),
        x.at[0].subtract(1.0),
        (x > 3).any(),
        x.dot(jnp.ones(4)),
        x.cumsum(1),
        x.repeat(2, 0),
        x.conj().real,
        x.prod(),
        x.diagonal(),
        x.trace(),
        x.var(0),
        x.sort(axis=0),
        x.max(initial=3.0, where=x < 2),
        x.min(0),
        x.argsort(axis=0),
        x.nbytes,
        x.itemsize,
        x.view(jnp.int64)[0, 1],
        x.transpose(1, 0),
        x.mT,
        x.at[0].mul(3.0),
        x.imag,
        x.all(),
    )


def vmap_axes(jax: Any) -> Any:
    jnp, lax = jax.numpy, jax.lax
    P = namedtuple("P", ["a", "b"])

    def f(p, x, k=None):
        return {"y": p.a * x + p.b["c"], "s": jnp.sum(x)}

    p = P(data(3), {"c": data(2, 3, seed=1)})
    out = jax.vmap(f, in_axes=(P(0, {"c": 1}), None), out_axes={"y": 1, "s": None})(p, 2.0)
    nested = jax.vmap(jax.vmap(lambda a, b: a @ b, (None, 0)), (0, None))(data(2, 3), data(4, 3, seed=1))
    coll = jax.vmap(lambda x: (lax.psum(x, "i"), x / lax.pmax(x, axis_name="i"), lax.axis_index("i")), axis_name="i")(
        jnp.arange(1.0, 5.0)
    )
    named = jax.vmap(jax.vmap(lambda x: lax.pmean(x, ("a", "b")), axis_name="b"), axis_name="a")(data(2, 3))
    mp = lax.map(lambda t: t[0] ** 2 + t[1], (data(7), data(7, seed=1)), batch_size=3)
    sw = jax.vmap(lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, lambda x: x**2], x))(jnp.array([0, 2, 1, 5]), jnp.arange(4.0))
    wl = jax.vmap(lambda n: lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 1.5), (0, 1.0)))(jnp.array([1, 4, 0]))
    return out, nested, coll, named, mp, sw, wl, jax.vmap(lambda x: x, axis_size=3, in_axes=None, out_axes=0)(1.0)


def debug_and_effects(jax: Any) -> Any:
    jnp = jax.numpy
    log = []

    @jax.jit
    def f(x):
        jax.debug.print("x = {x} sum={s:.2f}", x=x, s=x.sum())
        jax.debug.callback(lambda v: log.append(float(v)), x[0])
        y = jax.pure_callback(lambda a: np.sin(a), jax.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method="sequential")
        return y * 2

    out = f(jnp.arange(3.0))
    jax.effects_barrier()
    shp = jax.eval_shape(lambda a: a @ a.T, jax.ShapeDtypeStruct((3, 4), jnp.float32))
    return (
        out,
        len(log),
        np.array(shp.shape),
        jax.jit(lambda x: x + 1).lower(jnp.ones(2)).compile()(jnp.ones(2)),
        str(shp.dtype) == "float32",
    )


def mixed_precision(jax: Any) -> Any:
    jnp = jax.numpy
    w, x = jnp.asarray(data(4, 4), jnp.bfloat16), jnp.asarray(data(2, 4, seed=1), jnp.float32)

    def f(w, x):
        h = jnp.dot(x.astype(jnp.bfloat16), w, preferred_element_type=jnp.float32)
        return jax.lax.convert_element_type(jax.nn.softmax(h), jnp.float16)

    out = f(w, x)
    g = jax.grad(lambda w: f(w, x).astype(jnp.float32).sum() * 0 + jnp.sum(w.astype(jnp.float32) ** 2))(w)
    return (
        out.dtype == jnp.float16,
        g.dtype == jnp.bfloat16,
        jnp.round(out.astype(jnp.float64), 2),
        jnp.promote_types(jnp.bfloat16, jnp.float16) == jnp.float32,
        jnp.finfo(jnp.bfloat16).bits,
        jnp.iinfo(jnp.int16).max,
    )


def projective_geometry(jax: Any) -> Any:
    jnp = jax.numpy
    R = jax.scipy.spatial.transform.Rotation
    pts = data(5, 3) + np.array([0, 0, 5.0])

    def project(w, t, f):
        q = R.from_rotvec(w).apply(pts) + t
        return f * q[:, :2] / q[:, 2:]

    obs = project(np.array([0.1, -0.2, 0.05]), np.array([0.1, 0, 0.2]), 1.2)

    def gn(c, _):
        w, t = c
        r = (project(w, t, 1.2) - obs).ravel()
        jw, jt = jax.jacfwd(lambda w, t: project(w, t, 1.2).ravel(), (0, 1))(w, t)
        j = jnp.hstack([jw, jt])
        d = jnp.linalg.solve(j.T @ j + 1e-9 * jnp.eye(6), -j.T @ r)
        return (w + d[:3], t + d[3:]), jnp.sum(r**2)

    return jax.lax.scan(gn, (jnp.full(3, 0.01), jnp.zeros(3)), None, length=5)


def quantum_circuit(jax: Any) -> Any:
    jnp, _lax = jax.numpy, jax.lax
    X = jnp.array([[0, 1], [1, 0]], dtype=complex)
    Z = jnp.diag(jnp.array([1, -1], dtype=complex))

    def ry(t):
        return jnp.array([[jnp.cos(t / 2), -jnp.sin(t / 2)], [jnp.sin(t / 2), jnp.cos(t / 2)]]).astype(complex)

    cz = jnp.diag(jnp.array([1, 1, 1, -1], dtype=complex)).reshape(2, 2, 2, 2)

    def gate1(psi, g, q):
        return jnp.moveaxis(jnp.tensordot(g, psi, axes=(1, q)), 0, q)

    def gate2(psi, g, a, b):
        return jnp.moveaxis(jnp.tensordot(g, psi, axes=((2, 3), (a, b))), (0, 1), (a, b))

    def energy(th):
        psi = jnp.zeros((2,) * 3, complex).at[0, 0, 0].set(1.0)
        for l in range(2):
            for q in range(3):
                psi = gate1(psi, ry(th[l, q]), q)
            psi = gate2(gate2(psi, cz, 0, 1), cz, 1, 2)
        h = sum(gate1(gate1(psi, Z, q), Z, q + 1) for q in range(2)) + 0.5 * sum(gate1(psi, X, q) for q in range(3))
        return jnp.real(jnp.vdot(psi, h))

    th = data(2, 3)
    U = jax.scipy.linalg.expm(-1j * 0.3 * (jnp.kron(X, X) + jnp.kron(Z, jnp.eye(2))))
    return jax.value_and_grad(energy)(th), jax.hessian(energy)(th), U, jnp.linalg.eigh(jnp.kron(X, Z) + jnp.kron(Z, X))[0]


def checkpoint_policies_scan(jax: Any) -> Any:
    checkpoint_name = __import__(jax.__name__ + ".ad_checkpoint", fromlist=["x"]).checkpoint_name
    jnp, lax = jax.numpy, jax.lax
    ws = data(4, 3, 3) * 0.4

    @partial(jax.checkpoint, policy=jax.checkpoint_policies.save_only_these_names("act"), prevent_cse=False)
    def body(x, w):
        h = checkpoint_name(jnp.tanh(x @ w), "act")
        return x + jnp.sin(h), h.sum()

    def f(ws, x):
        return lax.scan(body, x, ws)[0].sum()

    fast = jax.remat(lambda x: jnp.exp(jnp.sin(x)), policy=jax.checkpoint_policies.nothing_saveable)
    return (
        jax.grad(f)(ws, jnp.ones(3)),
        jax.grad(lambda x: fast(x).sum())(jnp.arange(3.0)),
        jax.linear_transpose(lambda x: 2 * x[::-1], jnp.ones(3))(jnp.arange(3.0)),
    )


PROGRAMS = [
    particle_filter,
    gibbs_ising,
    pytree_classes,
    numpy_zoo,
    at_methods,
    vmap_axes,
    debug_and_effects,
    mixed_precision,
    projective_geometry,
    quantum_circuit,
    checkpoint_policies_scan,
]
