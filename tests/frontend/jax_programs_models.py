"""Networks as users of JAX write them, with their states and optimisers. Each takes the module `jax`."""
# ruff: noqa: E741

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jax_programs import data


def transformer_lm(jax: Any) -> Any:
    jnp, lax, nn, random = jax.numpy, jax.lax, jax.nn, jax.random
    D, H, V, T = 8, 2, 11, 6

    def init(key):
        ks = random.split(key, 8)

        def w(k, *s):
            return nn.initializers.glorot_normal()(k, s, jnp.float64)

        def layer(k):
            return {
                "qkv": w(k, D, 3 * D),
                "o": w(random.fold_in(k, 1), D, D),
                "up": w(random.fold_in(k, 2), D, 4 * D),
                "down": w(random.fold_in(k, 3), 4 * D, D),
                "ln": jnp.ones((2, D)),
            }

        return {
            "emb": random.normal(ks[0], (V, D), jnp.float64) * 0.02,
            "layers": jax.tree.map(lambda *x: jnp.stack(x), *[layer(k) for k in ks[1:3]]),
            "ln": jnp.ones(D),
        }

    def norm(x, g):
        return x * lax.rsqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + 1e-6) * g

    def rope(x):
        pos = jnp.arange(x.shape[0])[:, None]
        freq = 10000.0 ** (-jnp.arange(0, x.shape[-1], 2) / x.shape[-1])
        ang = pos * freq
        x1, x2 = jnp.split(x, 2, axis=-1)
        c, s = jnp.cos(ang)[:, None], jnp.sin(ang)[:, None]
        return jnp.concatenate([x1 * c - x2 * s, x1 * s + x2 * c], -1)

    def block(x, p):
        h = norm(x, p["ln"][0])
        q, k, v = jnp.split((h @ p["qkv"]).reshape(T, H, -1), 3, axis=-1)
        q, k = rope(q), rope(k)
        s = jnp.einsum("thd,shd->hts", q, k) / np.sqrt(D // H)
        mask = jnp.tril(jnp.ones((T, T), bool))
        a = nn.softmax(jnp.where(mask, s, jnp.finfo(s.dtype).min), axis=-1)
        x = x + jnp.einsum("hts,shd->thd", a, v).reshape(T, D) @ p["o"]
        return x + nn.silu(norm(x, p["ln"][1]) @ p["up"]) @ p["down"], None

    def loss(params, tokens):
        x = params["emb"][tokens]
        x, _ = lax.scan(jax.checkpoint(block), x, params["layers"])
        logits = norm(x, params["ln"]) @ params["emb"].T
        ll = jnp.take_along_axis(nn.log_softmax(logits[:-1]), tokens[1:, None], axis=-1)
        return -ll.mean()

    params = init(random.PRNGKey(0))
    tokens = random.randint(random.PRNGKey(1), (3, T), 0, V)
    val, g = jax.jit(jax.value_and_grad(lambda p: jax.vmap(loss, (None, 0))(p, tokens).mean()))(params)
    return val, g


def lstm_with_masks(jax: Any) -> Any:
    jnp, lax = jax.numpy, jax.lax

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Params:
        wi: Any
        wh: Any
        b: Any

    p = Params(data(3, 16) * 0.4, data(4, 16, seed=1) * 0.4, np.zeros(16))
    xs, lengths = data(2, 5, 3, seed=2), np.array([3, 5])

    def run(p, x, n):
        def step(c, inp):
            t, xt = inp
            h, cell = c
            i, f, g, o = jnp.split(xt @ p.wi + h @ p.wh + p.b, 4)
            nc = jax.nn.sigmoid(f + 1.0) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
            nh = jax.nn.sigmoid(o) * jnp.tanh(nc)
            keep = t < n
            c = jax.tree.map(lambda a, b: jnp.where(keep, a, b), (nh, nc), c)
            return c, c[0]

        (h, _), hs = lax.scan(step, (jnp.zeros(4), jnp.zeros(4)), (jnp.arange(5), x))
        return h, hs

    out = jax.vmap(run, in_axes=(None, 0, 0))(p, xs, lengths)
    g = jax.grad(lambda p: jnp.sum(jax.vmap(run, in_axes=(None, 0, 0))(p, xs, lengths)[0] ** 2))(p)
    return out, g


def optax_style(jax: Any) -> Any:
    jnp = jax.numpy

    class GradientTransformation(NamedTuple):
        init: Any
        update: Any

    def scale(s):
        return GradientTransformation(lambda p: (), lambda g, s_, p=None: (jax.tree.map(lambda x: s * x, g), s_))

    def clip_by_global_norm(m):
        def update(g, s, p=None):
            norm = jnp.sqrt(sum(jnp.vdot(x, x) for x in jax.tree.leaves(g)))
            return jax.tree.map(lambda x: x * jnp.minimum(1.0, m / norm), g), s

        return GradientTransformation(lambda p: (), update)

    def adam(b1=0.9, b2=0.999):
        class S(NamedTuple):
            count: Any
            mu: Any
            nu: Any

        def init(p):
            return S(jnp.zeros([], jnp.int32), jax.tree.map(jnp.zeros_like, p), jax.tree.map(jnp.zeros_like, p))

        def update(g, s, p=None):
            c = s.count + 1
            mu = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, s.mu, g)
            nu = jax.tree_util.tree_map(lambda m, g: b2 * m + (1 - b2) * jnp.square(g), s.nu, g)

            def hat(t, b):
                return jax.tree.map(lambda x: x / (1 - b ** c.astype(x.dtype)), t)

            return jax.tree.map(lambda m, v: m / (jnp.sqrt(v) + 1e-8), hat(mu, b1), hat(nu, b2)), S(c, mu, nu)

        return GradientTransformation(init, update)

    def chain(*ts):
        def update(g, s, p=None):
            out = []
            for t, si in zip(ts, s, strict=False):
                g, si = t.update(g, si, p)
                out.append(si)
            return g, tuple(out)

        return GradientTransformation(lambda p: tuple(t.init(p) for t in ts), update)

    tx = chain(clip_by_global_norm(1.0), adam(), scale(-0.1))
    params = {"w": data(3, 2), "b": [np.zeros(2), None]}
    x, y = data(5, 3, seed=1), data(5, 2, seed=2)

    def loss(p):
        return jnp.mean((x @ p["w"] + p["b"][0] - y) ** 2)

    @partial(jax.jit, donate_argnums=(0, 1))
    def step(p, s):
        l, g = jax.value_and_grad(loss)(p)
        u, s = tx.update(g, s, p)
        return jax.tree.map(lambda a, b: a + b, p, u), s, l

    params = jax.tree.map(jnp.asarray, params)
    s = tx.init(params)
    for _ in range(3):
        params, s, l = step(params, s)
    return params, l, s[1].count, s[1].mu


def autoencoder_conv(jax: Any) -> Any:
    jnp, lax, nn = jax.numpy, jax.lax, jax.nn
    x = data(2, 8, 8, 1)
    k1, k2 = data(3, 3, 1, 4, seed=1) * 0.3, data(3, 3, 1, 4, seed=2) * 0.3

    def net(k1, k2, x):
        h = lax.conv_general_dilated(x, k1, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        h = nn.elu(h)
        h = lax.reduce_window(h, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "SAME") / 4
        h = jax.image.resize(h, (2, 4, 4, 4), "bilinear")
        return lax.conv_transpose(h, k2, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), transpose_kernel=True)

    return net(k1, k2, x), jax.grad(lambda a, b: jnp.mean((net(a, b, x) - x) ** 2), (0, 1))(k1, k2)


def graph_attention(jax: Any) -> Any:
    jnp, nn = jax.numpy, jax.nn
    s, r = np.array([0, 1, 2, 2, 3, 4]), np.array([1, 2, 0, 3, 4, 0])
    h, w, att = data(5, 3), data(3, 4, seed=1), data(8, seed=2)

    def seg_softmax(x, seg, n):
        m = jax.ops.segment_max(x, seg, n)
        e = jnp.exp(x - m[seg])
        return e / jax.ops.segment_sum(e, seg, n)[seg]

    def layer(p, h):
        z = h @ p["w"]
        e = nn.leaky_relu(jnp.concatenate([z[s], z[r]], -1) @ p["a"], 0.2)
        al = seg_softmax(e, r, 5)
        return nn.elu(jax.ops.segment_sum(al[:, None] * z[s], r, num_segments=5))

    p = {"w": w, "a": att}

    def pooled(p):
        return jax.ops.segment_sum(layer(p, h), np.array([0, 0, 1, 1, 1]), 2)

    return (
        layer(p, h),
        jax.jacrev(pooled)(p),
        jnp.zeros((5, 5), bool).at[s, r].set(True).sum(0),
        jax.ops.segment_min(h, np.array([0, 0, 1, 1, 1]), 2),
    )


def beam_search(jax: Any) -> Any:
    jnp, lax, nn = jax.numpy, jax.lax, jax.nn
    table = nn.log_softmax(data(5, 5))
    B, T = 3, 4

    class Beam(NamedTuple):
        seqs: Any
        scores: Any
        done: Any

    def step(i, b):
        last = b.seqs[:, i]
        lp = jnp.where(b.done[:, None], jnp.where(jnp.arange(5) == 4, 0.0, -1e9), table[last])
        scores = (b.scores[:, None] + lp).reshape(-1)
        top, idx = lax.top_k(scores, B)
        parent, tok = idx // 5, idx % 5
        seqs = b.seqs[parent].at[:, i + 1].set(tok)
        return Beam(seqs, top, b.done[parent] | (tok == 4))

    b = Beam(jnp.zeros((B, T + 1), jnp.int32), jnp.array([0.0, -1e9, -1e9]), jnp.zeros(B, bool))
    return lax.fori_loop(0, T, step, b)


def cnn_batchnorm_state(jax: Any) -> Any:
    jnp, lax, nn = jax.numpy, jax.lax, jax.nn
    x, y = data(4, 6, 6, 2), np.array([0, 1, 1, 2])

    def bn(p, s, x, train, m=0.9):
        if train:
            mu, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
            s = {"mu": m * s["mu"] + (1 - m) * mu, "var": m * s["var"] + (1 - m) * var}
        else:
            mu, var = s["mu"], s["var"]
        return p["scale"] * (x - mu) * lax.rsqrt(var + 1e-5) + p["bias"], s

    def apply(p, s, x, train):
        h = lax.conv(x.transpose(0, 3, 1, 2), p["k"], (1, 1), "SAME").transpose(0, 2, 3, 1)
        h, s = bn(p["bn"], s, h, train)
        h = nn.relu6(h).mean(axis=(1, 2))
        return h @ p["w"], s

    p = {"k": data(3, 2, 3, 3, seed=1) * 0.2, "bn": {"scale": np.ones(3), "bias": np.zeros(3)}, "w": data(3, 3, seed=2)}
    s = {"mu": np.zeros(3), "var": np.ones(3)}

    @partial(jax.jit, static_argnums=3)
    def loss(p, s, x, train):
        logits, s = apply(p, s, x, train)
        return -jnp.sum(nn.one_hot(y, 3) * nn.log_softmax(logits), -1).mean(), (s, logits.argmax(-1))

    (l, (s, acc)), g = jax.value_and_grad(loss, has_aux=True)(p, s, x, True)
    return l, s, acc, g, loss(p, s, x, False)[0]


def unet_like(jax: Any) -> Any:
    jnp, lax, nn = jax.numpy, jax.lax, jax.nn
    dn = lax.conv_dimension_numbers((1, 8, 8, 2), (3, 3, 2, 2), ("NHWC", "HWIO", "NHWC"))

    def conv(x, w, s=1):
        return lax.conv_general_dilated(x, w, (s, s), "SAME", dimension_numbers=dn)

    ws = [data(3, 3, 2, 2, seed=i) * 0.3 for i in range(3)] + [data(3, 3, 4, 2, seed=5) * 0.3]
    x = data(1, 8, 8, 2, seed=9)

    def net(ws, x):
        d1 = nn.gelu(conv(x, ws[0]))
        d2 = nn.gelu(conv(d1, ws[1], 2))
        d2 = nn.standardize(d2, axis=-1)
        up = jnp.repeat(jnp.repeat(d2, 2, 1), 2, 2)
        up = lax.conv_general_dilated(up, ws[2], (1, 1), "SAME", rhs_dilation=(2, 2), dimension_numbers=dn)
        y = jnp.concatenate([up, d1], -1)
        y = lax.conv_general_dilated(y, ws[3], (1, 1), ((1, 1), (1, 1)), dimension_numbers=("NHWC", "HWIO", "NHWC"))
        pool = lax.reduce_window(y, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), ((0, 0), (1, 1), (1, 1), (0, 0)))
        dw = lax.conv_general_dilated(
            y, data(3, 3, 1, 2, seed=7), (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=2
        )
        return pool, dw

    return net(ws, x), jax.grad(lambda ws: sum(jnp.sum(o**2) for o in net(ws, x)))(ws)


def soft_actor(jax: Any) -> Any:
    jnp, random, nn = jax.numpy, jax.random, jax.nn

    def mlp(ps, x):
        *hidden, (w, b) = ps
        for w_, b_ in hidden:
            x = nn.relu(x @ w_ + b_)
        return x @ w + b

    def init(key, sizes):
        keys = random.split(key, len(sizes) - 1)
        return [
            (nn.initializers.he_normal()(k, (m, n), jnp.float64), jnp.zeros((n,), jnp.float64))
            for k, m, n in zip(keys, sizes[:-1], sizes[1:], strict=False)
        ]

    kp, kq, kn, kb = random.split(random.PRNGKey(2), 4)
    pi, q = init(kp, [3, 16, 4]), init(kq, [5, 16, 1])
    obs = random.normal(kb, (8, 3), jnp.float64)

    def sample(p, o, key):
        mu, ls = jnp.split(mlp(p, o), 2, -1)
        ls = jnp.clip(ls, -5, 2)
        u = mu + jnp.exp(ls) * random.normal(key, mu.shape, mu.dtype)
        a = jnp.tanh(u)
        lp = jax.scipy.stats.norm.logpdf(u, mu, jnp.exp(ls)).sum(-1) - jnp.sum(2 * (jnp.log(2.0) - u - nn.softplus(-2 * u)), -1)
        return a, lp

    def loss(p, la):
        a, lp = sample(p, obs, kn)
        qv = mlp(jax.lax.stop_gradient(q), jnp.concatenate([obs, a], -1))[:, 0]
        return jnp.mean(jnp.exp(la) * lp - qv), lp

    (l, lp), g = jax.value_and_grad(loss, has_aux=True)(pi, -1.0)
    polyak = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, pi, g)
    return l, lp, g, polyak


PROGRAMS = [
    transformer_lm,
    lstm_with_masks,
    optax_style,
    autoencoder_conv,
    graph_attention,
    beam_search,
    cnn_batchnorm_state,
    unet_like,
    soft_actor,
]
