"""Small complete programs as they are written for JAX. Each takes the module `jax`, which may be another one of that make."""

from __future__ import annotations

from collections import namedtuple
from functools import partial
from typing import Any

import numpy as np


def data(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def mlp_with_adam(jax: Any) -> Any:
    jnp = jax.numpy
    params = [(data(3, 8, seed=i) * 0.3 if i == 0 else data(8, 2, seed=i) * 0.3, np.zeros(8 if i == 0 else 2)) for i in range(2)]
    x, y = data(16, 3, seed=5), np.arange(16) % 2

    def predict(params, x):
        for w, b in params[:-1]:
            x = jax.nn.relu(jnp.dot(x, w) + b)
        w, b = params[-1]
        return jnp.dot(x, w) + b

    def loss(params, x, y):
        logits = jax.nn.log_softmax(predict(params, x))
        return -jnp.mean(jnp.sum(jax.nn.one_hot(y, 2, dtype=logits.dtype) * logits, axis=-1))

    @jax.jit
    def update(i, params, m, v):
        value, grads = jax.value_and_grad(loss)(params, x, y)
        m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, m, grads)
        v = jax.tree.map(lambda a, g: 0.999 * a + 0.001 * g**2, v, grads)

        def step(p, a, b):
            return p - 1e-2 * (a / (1 - 0.9**i)) / (jnp.sqrt(b / (1 - 0.999**i)) + 1e-8)

        return jax.tree.map(step, params, m, v), m, v, value

    m = jax.tree.map(jnp.zeros_like, params)
    v = jax.tree.map(jnp.zeros_like, params)
    for i in range(1, 4):
        params, m, v, value = update(float(i), params, m, v)
    return params, value


def vae_loss(jax: Any) -> Any:
    jnp = jax.numpy
    weights = {"enc": data(6, 4) * 0.3, "dec": data(2, 6, seed=1) * 0.3}
    x, noise = (data(5, 6, seed=2) > 0).astype(float), data(5, 2, seed=3)

    def loss(weights):
        mean, logvar = jnp.split(x @ weights["enc"], 2, axis=-1)
        z = mean + jnp.exp(0.5 * logvar) * noise
        logits = z @ weights["dec"]
        likelihood = -jnp.sum(jnp.logaddexp(0.0, jnp.where(x == 1, -logits, logits)), axis=-1)
        kl = -0.5 * jnp.sum(1 + logvar - mean**2 - jnp.exp(logvar), axis=-1)
        return jnp.mean(kl - likelihood)

    return jax.jit(jax.value_and_grad(loss))(weights)


def rnn_by_scan(jax: Any) -> Any:
    jnp, lax = jax.numpy, jax.lax
    w, u, xs = data(4, 4) * 0.3, data(3, 4, seed=1) * 0.3, data(7, 3, seed=2)

    def loss(w, u):
        def step(h, x):
            h = jnp.tanh(h @ w + x @ u)
            return h, h.sum()

        h, sums = lax.scan(step, jnp.zeros(4), xs)
        return jnp.sum(h**2) + sums.mean()

    return jax.jit(jax.grad(loss, argnums=(0, 1)))(w, u)


def ode_by_loops(jax: Any) -> Any:
    jnp, lax = jax.numpy, jax.lax

    def field(y, t):
        return jnp.array([y[1], -jnp.sin(y[0]) - 0.1 * y[1] + 0.2 * jnp.cos(t)])

    def rk4(y, t, h):
        k1 = field(y, t)
        k2 = field(y + 0.5 * h * k1, t + 0.5 * h)
        k3 = field(y + 0.5 * h * k2, t + 0.5 * h)
        k4 = field(y + h * k3, t + h)
        return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    def solve(y0):
        return lax.fori_loop(0, 20, lambda i, y: rk4(y, 0.1 * i, 0.1), y0)

    def crossing(y0):
        def body(state):
            y, t = state
            return rk4(y, t, 0.05), t + 0.05

        return lax.while_loop(lambda s: s[0][0] > 0.0, body, (y0, 0.0))

    y0 = np.array([1.0, 0.0])
    return solve(y0), jax.jacfwd(solve)(y0), jax.jit(crossing)(y0)


def kalman_filter(jax: Any) -> Any:
    jnp, lax = jax.numpy, jax.lax
    a, h = np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([[1.0, 0.0]])
    zs = data(10, 1)

    def log_likelihood(log_noise):
        q, r = jnp.eye(2) * jnp.exp(log_noise[0]), jnp.eye(1) * jnp.exp(log_noise[1])

        def step(carry, z):
            m, p = carry
            m, p = a @ m, a @ p @ a.T + q
            s = h @ p @ h.T + r
            gain = jnp.linalg.solve(s, h @ p).T
            e = z - h @ m
            ll = jax.scipy.stats.multivariate_normal.logpdf(z, h @ m, s)
            return (m + gain @ e, p - gain @ h @ p), ll

        (m, p), lls = lax.scan(step, (jnp.zeros(2), jnp.eye(2)), zs)
        return lls.sum(), (m, p)

    return jax.value_and_grad(log_likelihood, has_aux=True)(np.array([-2.0, -1.0]))


def gaussian_process(jax: Any) -> Any:
    jnp, linalg = jax.numpy, jax.scipy.linalg
    x, y, grid = data(6), data(6, seed=1), np.linspace(-1, 1, 4)

    def kernel(params, a, b):
        return jnp.exp(params["scale"]) * jnp.exp(-0.5 * ((a[:, None] - b[None, :]) / jnp.exp(params["length"])) ** 2)

    def loss(params):
        k = kernel(params, x, x) + 0.1 * jnp.eye(6)
        low = linalg.cholesky(k, lower=True)
        alpha = linalg.solve_triangular(low, y, lower=True)
        return 0.5 * jnp.dot(alpha, alpha) + jnp.sum(jnp.log(jnp.diag(low))) + 3 * jnp.log(2 * jnp.pi)

    def predict(params):
        factor = linalg.cho_factor(kernel(params, x, x) + 0.1 * jnp.eye(6))
        cross = kernel(params, grid, x)
        mean = cross @ linalg.cho_solve(factor, y)
        return mean, kernel(params, grid, grid) - cross @ linalg.cho_solve(factor, cross.T)

    params = {"scale": np.float64(0.1), "length": np.float64(-0.3)}
    return jax.value_and_grad(loss)(params), predict(params)


def newton_with_hessian(jax: Any) -> Any:
    jnp = jax.numpy

    def rosenbrock(x):
        return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    @jax.jit
    def step(x):
        g, h = jax.grad(rosenbrock)(x), jax.hessian(rosenbrock)(x)
        return x - jnp.linalg.solve(h, g), jnp.linalg.norm(g)

    x = np.array([-0.5, 0.3, 0.7])
    for _ in range(4):
        x, size = step(x)
    return x, size


def hmc_step(jax: Any) -> Any:
    jnp, lax = jax.numpy, jax.lax
    precision = np.array([[2.0, 0.3], [0.3, 1.0]])

    def potential(q):
        return 0.5 * q @ precision @ q + jnp.sum(jnp.log1p(q**2))

    @partial(jax.jit, static_argnames=("steps",))
    def leapfrog(q, p, step_size, steps):
        gradient = jax.grad(potential)

        def body(_, state):
            q, p = state
            q = q + step_size * p
            return q, p - step_size * gradient(q)

        p = p - 0.5 * step_size * gradient(q)
        q, p = lax.fori_loop(0, steps - 1, body, (q, p))
        q = q + step_size * p
        return q, p - 0.5 * step_size * gradient(q)

    q, p = np.array([0.5, -1.0]), np.array([0.2, 0.4])
    q1, p1 = leapfrog(q, p, 0.1, steps=8)
    change = potential(q1) + 0.5 * jnp.vdot(p1, p1) - potential(q) - 0.5 * jnp.vdot(p, p)
    return jnp.where(jnp.log(0.7) < -change, q1, q), lax.select(change > 0, change, -change)


def attention_block(jax: Any) -> Any:
    jnp = jax.numpy
    x = data(2, 5, 8)
    w = {k: data(8, 8, seed=i) * 0.3 for i, k in enumerate("qkvo")}

    def block(w, x):
        q, k, v = (jnp.einsum("btd,de->bte", x, w[n]).reshape(2, 5, 2, 4) for n in "qkv")
        logits = jnp.einsum("bthe,bshe->bhts", q, k) / jnp.sqrt(4.0)
        mask = jnp.tril(jnp.ones((5, 5), dtype=bool))
        weights = jax.nn.softmax(jnp.where(mask, logits, -1e9), axis=-1)
        out = jnp.einsum("bhts,bshe->bthe", weights, v).reshape(2, 5, 8)
        same = jax.nn.dot_product_attention(q, k, v, is_causal=True)
        return jax.nn.standardize(x + out @ w["o"], axis=-1), jnp.round(same, 4)  # JAX takes that softmax in float32

    return block(w, x), jax.grad(lambda w: jnp.sum(block(w, x)[0] ** 3))(w)


def conv_net(jax: Any) -> Any:
    jnp, lax = jax.numpy, jax.lax
    x, k1, k2, w = data(2, 8, 8, 1), data(3, 3, 1, 4, seed=1), data(3, 3, 4, 2, seed=2), data(8, 3, seed=3)

    def loss(k1, k2, w):
        y = lax.conv_general_dilated(x, k1, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        y = lax.reduce_window(jax.nn.gelu(y), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        y = lax.conv_general_dilated(y, k2, (2, 2), [(1, 1), (1, 1)], dimension_numbers=("NHWC", "HWIO", "NHWC"))
        logits = y.reshape((2, -1)) @ w
        return -jnp.mean(jax.nn.log_softmax(logits)[jnp.arange(2), jnp.array([0, 2])])

    return jax.jit(jax.value_and_grad(loss, (0, 1, 2)))(k1, k2, w)


def n_body(jax: Any) -> Any:
    jnp, lax = jax.numpy, jax.lax
    masses, q, v = jnp.array([1.0, 0.5, 0.2]), data(3, 2), data(3, 2, seed=1) * 0.1

    def energy(q):
        d = q[:, None] - q[None, :]
        r = jnp.sqrt(jnp.sum(d**2, axis=-1) + 0.01)
        i, j = jnp.triu_indices(3, k=1)
        return -jnp.sum(masses[i] * masses[j] / r[i, j])

    def step(state, _):
        q, v = state
        v = v - 0.01 * jax.grad(energy)(q) / masses[:, None]
        q = q + 0.01 * v
        return (q, v), energy(q) + 0.5 * jnp.sum(masses * jnp.sum(v**2, axis=1))

    return jax.jit(lambda q, v: lax.scan(step, (q, v), None, length=10))(q, v)


def logistic_regression(jax: Any) -> Any:
    jnp = jax.numpy
    w, x, y = data(3), data(6, 3, seed=1), (data(6, seed=2) > 0).astype(float)

    def loss(w, x, y):
        p = jax.nn.sigmoid(jnp.dot(x, w))
        return -(y * jnp.log(p) + (1 - y) * jnp.log(1 - p))

    grads = jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))(w, x, y)
    clipped = grads / jnp.maximum(1.0, jnp.linalg.norm(grads, axis=1, keepdims=True))
    hessian = jax.hessian(lambda w: jnp.mean(jax.vmap(loss, (None, 0, 0))(w, x, y)))(w)
    return clipped.mean(0), jnp.linalg.eigh(hessian)[0], jax.hessian(lambda w: loss(w, x[0], y[0]))(w)


def implicit_function(jax: Any) -> Any:
    jnp, lax = jax.numpy, jax.lax

    @jax.custom_vjp
    def cube_root(a):
        return lax.while_loop(lambda x: jnp.abs(x**3 - a) > 1e-12, lambda x: x - (x**3 - a) / (3 * x**2), 1.0)

    def forward(a):
        x = cube_root(a)
        return x, x

    cube_root.defvjp(forward, lambda x, ct: (ct / (3 * x**2),))

    @jax.custom_jvp
    def log1pexp(x):
        return jnp.log(1.0 + jnp.exp(x))

    @log1pexp.defjvp
    def log1pexp_jvp(primals, tangents):
        (x,), (t,) = primals, tangents
        return log1pexp(x), (1 - 1 / (1 + jnp.exp(x))) * t

    def root(a):
        return lax.custom_root(lambda x: x**2 - a, 1.0, _newton(jax), lambda g, y: y / g(1.0))

    a = np.float64(8.0)
    return jax.value_and_grad(cube_root)(a), jax.grad(jax.grad(log1pexp))(2.0), jax.value_and_grad(root)(np.float64(2.0))


def _newton(jax: Any) -> Any:
    def solve(f, x0):
        return jax.lax.fori_loop(0, 30, lambda _, x: x - f(x) / jax.grad(f)(x), x0)

    return solve


def graph_network(jax: Any) -> Any:
    jnp = jax.numpy
    nodes, senders, receivers = data(4, 3), np.array([0, 1, 2, 3, 0]), np.array([1, 2, 3, 0, 2])
    w = data(3, 3, seed=1)

    def layer(w, nodes):
        messages = jnp.tanh(nodes[senders] @ w)
        total = jax.ops.segment_sum(messages, receivers, num_segments=4)
        highest = jax.ops.segment_max(messages, receivers, num_segments=4)
        count = jnp.bincount(receivers, length=4)
        return nodes + total / jnp.maximum(count, 1)[:, None] + highest

    return layer(w, nodes), jax.grad(lambda w: jnp.sum(layer(w, nodes) ** 2))(w)


State = namedtuple("State", ["x", "count"])


def trees(jax: Any) -> Any:
    jnp = jax.numpy

    @jax.tree_util.register_pytree_node_class
    class Layer:
        def __init__(self, w, name):
            self.w, self.name = w, name

        def tree_flatten(self):
            return (self.w,), self.name

        @classmethod
        def tree_unflatten(cls, aux, children):
            return cls(*children, aux)

    tree = {"a": [data(2), (data(2, 2), None)], "s": State(np.float64(1.0), np.float64(2.0))}
    flat, unravel = jax.flatten_util.ravel_pytree(tree)
    doubled = jax.tree.map(lambda x: 2 * x, Layer(data(3), "first"))
    total = jax.tree_util.tree_reduce(lambda a, b: a + b, jax.tree.map(jnp.sum, tree))
    names = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(tree)]
    turned = jax.tree.transpose(jax.tree.structure([0, 0]), jax.tree.structure({"x": 0}), [{"x": 1.0}, {"x": 2.0}])
    grads = jax.grad(lambda layer: jnp.sum(layer.w**2))(doubled)
    return flat, unravel(flat * 2), doubled.w, total, sum(map(len, names)), turned, grads.w, len(jax.tree.leaves(tree))


def spectra(jax: Any) -> Any:
    jnp = jax.numpy
    x = data(16)

    def power(x):
        window = jnp.asarray(np.hanning(16))
        spectrum = jnp.abs(jnp.fft.rfft(x * window)) ** 2
        return jnp.convolve(spectrum, np.ones(3) / 3, mode="same")

    peak = jnp.argmax(power(x))
    return power(x), jax.jacrev(power)(x), jnp.interp(2.5, jnp.arange(9.0), power(x)), peak


def finite_volumes(jax: Any) -> Any:
    jnp, lax = jax.numpy, jax.lax
    u = np.sin(np.linspace(0, 2 * np.pi, 12, endpoint=False)) + 1.5

    def flux(u):
        left, right = u, jnp.roll(u, -1)
        return 0.5 * (left**2 + right**2) / 2 - 0.5 * jnp.maximum(jnp.abs(left), jnp.abs(right)) * (right - left)

    def step(u, _):
        f = flux(u)
        u = u - 0.1 * (f - jnp.roll(f, 1))
        return u, jnp.stack([u.sum(), lax.cummax(u)[-1]])

    def final(u):
        return lax.scan(step, u, None, length=6)

    return final(u), jax.jvp(lambda u: final(u)[0], (u,), (np.ones(12),))[1]


def mixture(jax: Any) -> Any:
    jnp, norm = jax.numpy, jax.scipy.stats.norm
    x = data(20)

    def nll(params):
        logits, mean, log_scale = params
        parts = jax.nn.log_softmax(logits) + norm.logpdf(x[:, None], mean, jnp.exp(log_scale))
        return -jnp.mean(jax.scipy.special.logsumexp(parts, axis=1))

    params = (np.zeros(2), np.array([-1.0, 1.0]), np.zeros(2))
    for _ in range(3):
        value, g = jax.value_and_grad(nll)(params)
        params = jax.tree.map(lambda p, g: p - 0.5 * g, params, g)
    return params, value, norm.cdf(params[1]), jax.scipy.special.gammaln(x**2 + 1).sum()


def checkpointed(jax: Any) -> Any:
    jnp = jax.numpy
    ws = data(3, 4, 4) * 0.5

    @jax.checkpoint
    def layer(x, w):
        return jnp.tanh(x @ w)

    @partial(jax.checkpoint, policy=jax.checkpoint_policies.dots_saveable)
    def block(x, w):
        return jnp.sin(layer(x, w)) + x

    def loss(ws, x):
        for w in ws:
            x = block(x, w)
        with jax.named_scope("head"):
            return jnp.sum(jax.lax.stop_gradient(x) * x)

    return jax.jit(jax.grad(loss))(ws, data(4))


def embeddings(jax: Any) -> Any:
    jnp, lax = jax.numpy, jax.lax
    table, ids = data(5, 3), np.array([[0, 4], [2, 2]])

    def loss(table):
        rows = jnp.take(table, ids, axis=0)
        best, positions = lax.top_k(rows.reshape(2, 6), 2)
        picked = jnp.take_along_axis(rows.reshape(2, 6), positions, axis=1)
        return jnp.sum(best * picked) + table.at[1].get().sum()

    updated = jnp.asarray(table).at[ids[0]].add(1.0).at[7].set(9.0, mode="drop")
    outside = jnp.asarray(table).at[jnp.array([1, 9])].get(mode="fill", fill_value=-1.0)
    sliced = lax.dynamic_slice(jnp.asarray(table), (1, 0), (2, 2))
    placed = lax.dynamic_update_slice(jnp.asarray(table), np.ones((1, 1)), (4, 2))
    return jax.grad(loss)(table), updated, outside, sliced, placed, lax.dynamic_slice_in_dim(jnp.asarray(table), 3, 2)


def collectives(jax: Any) -> Any:
    lax = jax.lax
    x = data(4, 4)

    def each(row):
        mean = lax.pmean(row, "i")
        shifted = lax.ppermute(row, "i", [(k, (k + 1) % 4) for k in range(4)])
        exchanged = lax.all_to_all(row, "i", 0, 0)
        return row - mean, shifted, exchanged, lax.axis_index("i") * lax.psum(1, "i"), lax.all_gather(row[:1], "i", tiled=True)

    return jax.vmap(each, axis_name="i")(x), jax.jacrev(lambda x: jax.vmap(each, axis_name="i")(x)[2])(x)


def physics_informed(jax: Any) -> Any:
    jnp = jax.numpy
    w1, w2, points = data(2, 6) * 0.5, data(6, seed=1), data(5, 2, seed=2)

    def u(params, x):
        return jnp.tanh(x @ params[0]) @ params[1]

    def residual(params, x):
        u_t = jax.grad(u, 1)(params, x)[1]
        u_xx = jax.jvp(lambda x: jax.jvp(lambda x: u(params, x), (x,), (np.array([1.0, 0.0]),))[1], (x,), (np.array([1.0, 0.0]),))[
            1
        ]
        return u_t - 0.1 * u_xx

    def loss(params):
        return jnp.mean(jax.vmap(lambda x: residual(params, x))(points) ** 2)

    return jax.jit(jax.value_and_grad(loss))((w1, w2))


PROGRAMS = [
    mlp_with_adam,
    vae_loss,
    rnn_by_scan,
    ode_by_loops,
    kalman_filter,
    gaussian_process,
    newton_with_hessian,
    hmc_step,
    attention_block,
    conv_net,
    n_body,
    logistic_regression,
    implicit_function,
    graph_network,
    trees,
    spectra,
    finite_volumes,
    mixture,
    checkpointed,
    embeddings,
    collectives,
    physics_informed,
]
