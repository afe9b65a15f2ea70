"""Methods as users of JAX write them: fixed points, filters, elements, transport, equations. Each takes the module `jax`."""
# ruff: noqa: E741

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from jax_programs import data


def deep_equilibrium(jax: Any) -> Any:
    jnp, lax = jax.numpy, jax.lax

    def fwd_solver(f, z):
        def cond(c):
            return jnp.linalg.norm(c[0] - c[1]) > 1e-10

        return lax.while_loop(cond, lambda c: (c[1], f(c[1])), (z, f(z)))[1]

    @partial(jax.custom_vjp, nondiff_argnums=(0,))
    def fixed_point(f, params, x):
        return fwd_solver(lambda z: f(params, x, z), jnp.zeros_like(x))

    def fp_fwd(f, params, x):
        z = fixed_point(f, params, x)
        return z, (params, x, z)

    def fp_bwd(f, res, zbar):
        params, x, z = res
        _, vjp_a = jax.vjp(lambda p, x: f(p, x, z), params, x)
        _, vjp_z = jax.vjp(lambda z: f(params, x, z), z)
        return vjp_a(fwd_solver(lambda u: vjp_z(u)[0] + zbar, jnp.zeros_like(z)))

    fixed_point.defvjp(fp_fwd, fp_bwd)

    def f(W, x, z):
        return jnp.tanh(W @ z + x)

    W, x = data(4, 4) * 0.2, data(4, seed=1)
    return (
        fixed_point(f, W, x),
        jax.grad(lambda W, x: fixed_point(f, W, x).sum(), argnums=(0, 1))(W, x),
        jax.vmap(lambda x: fixed_point(f, W, x))(data(3, 4, seed=2)),
    )


def adaptive_rk45(jax: Any) -> Any:
    jnp, lax = jax.numpy, jax.lax
    A = [[], [1 / 5], [3 / 40, 9 / 40], [44 / 45, -56 / 15, 32 / 9]]
    b, bs = np.array([1 / 6, 0, 2 / 3, 1 / 6]), np.array([1 / 8, 1 / 4, 1 / 2, 1 / 8])

    def f(t, y):
        return jnp.stack([y[1], (1 - y[0] ** 2) * y[1] - y[0]])

    def attempt(t, y, h):
        ks = []
        for a in A:
            ks.append(f(t, y + h * sum((c * k for c, k in zip(a, ks, strict=False)), start=jnp.zeros_like(y))))
        k = jnp.stack(ks)
        return y + h * b @ k, jnp.max(jnp.abs(h * (b - bs) @ k))

    def body(s):
        t, y, h, n, rej = s
        h = jnp.clip(h, 1e-6, 2.0 - t)
        yn, err = attempt(t, y, h)
        ok = err < 1e-4
        t, y = lax.cond(ok, lambda: (t + h, yn), lambda: (t, y))
        fac = jnp.clip(0.9 * (1e-4 / jnp.maximum(err, 1e-14)) ** 0.25, 0.2, 5.0)
        return t, y, h * fac, n + 1, rej + (~ok).astype(int)

    return lax.while_loop(lambda s: s[0] < 2.0 - 1e-9, body, (0.0, jnp.array([2.0, 0.0]), 0.1, 0, 0))


def hmm_associative(jax: Any) -> Any:
    jnp, lax, nn = jax.numpy, jax.lax, jax.nn
    logits, em = data(3, 3), data(7, 3, seed=1)

    def nll(logits):
        logt = nn.log_softmax(logits, axis=-1)
        mats = logt[None] + em[:, None, :]

        def op(a, b):
            return jax.scipy.special.logsumexp(a[..., :, :, None] + b[..., None, :, :], axis=-2)

        al = lax.associative_scan(op, mats)
        return -jax.scipy.special.logsumexp(al[-1][0]), al

    (v, al), g = jax.value_and_grad(nll, has_aux=True)(logits)

    def viterbi(c, m):
        s = c[:, None] + m
        return s.max(0), s.argmax(0)

    best, back = lax.scan(viterbi, jnp.zeros(3), nn.log_softmax(logits)[None] + em[:, None, :])
    path = lax.scan(lambda s, b: (b[s], s), best.argmax(), back, reverse=True)[1]
    return v, al, g, path


def finite_elements(jax: Any) -> Any:
    jnp, lax = jax.numpy, jax.lax
    n = 6
    xs = jnp.linspace(0, 1, n + 1)
    conn = jnp.stack([jnp.arange(n), jnp.arange(1, n + 1)], 1)

    def element(xe, k):
        h = xe[1] - xe[0]
        gp, w = np.array([-1, 1]) / np.sqrt(3), np.ones(2)
        Ke = k / h * jnp.array([[1.0, -1], [-1, 1]])
        N = jnp.stack([(1 - gp) / 2, (1 + gp) / 2])
        fe = (N * jnp.sin(jnp.pi * (xe[0] + h * (gp + 1) / 2)) * w).sum(1) * h / 2
        return Ke, fe

    def solve(k):
        Ke, fe = jax.vmap(element)(xs[conn], k)
        K = jnp.zeros((n + 1, n + 1)).at[conn[:, :, None], conn[:, None, :]].add(Ke)
        F = jnp.zeros(n + 1).at[conn].add(fe)
        u = jnp.linalg.solve(K[1:-1, 1:-1], F[1:-1])
        return jnp.concatenate([jnp.zeros(1), u, jnp.zeros(1)])

    k = jnp.ones(n) * 1.3
    return (
        solve(k),
        jax.grad(lambda k: solve(k).sum())(k),
        lax.linalg.tridiagonal_solve(jnp.r_[0.0, -jnp.ones(4)], 2 * jnp.ones(5), jnp.r_[-jnp.ones(4), 0.0], jnp.ones((5, 1))),
    )


def spectral_burgers(jax: Any) -> Any:
    jnp, lax = jax.numpy, jax.lax
    n = 16
    x = jnp.arange(n) * 2 * jnp.pi / n
    k = jnp.fft.rfftfreq(n, 1 / n)
    dealias = k < n / 3

    def rhs(uh, nu):
        u = jnp.fft.irfft(uh * dealias, n)
        return -0.5j * k * jnp.fft.rfft(u**2) - nu * k**2 * uh

    def step(uh, _, nu=0.1, h=0.01):
        k1 = rhs(uh, nu)
        k2 = rhs(uh + h * k1, nu)
        uh = uh + h * (k1 + k2) / 2
        return uh, jnp.sum(jnp.abs(uh) ** 2)

    def final(a):
        uh, e = lax.scan(step, jnp.fft.rfft(a * jnp.sin(x)), None, length=5)
        return jnp.fft.irfft(uh, n), e

    return final(1.0), jax.jacfwd(lambda a: final(a)[0])(1.0), jax.grad(lambda a: final(a)[1][-1])(1.0)


def root_and_implicit(jax: Any) -> Any:
    jnp, lax = jax.numpy, jax.lax

    def newton(f, x0):
        def body(s):
            x, _ = s
            J = jax.jacfwd(f)(x)
            d = jnp.linalg.solve(J, -f(x))
            return x + d, jnp.max(jnp.abs(d))

        return lax.while_loop(lambda s: s[1] > 1e-12, body, (x0, jnp.inf))[0]

    def solve(a):
        def f(x):
            return jnp.stack([x[0] ** 2 + x[1] - a[0], x[0] - jnp.cos(x[1]) * a[1]])

        return lax.custom_root(f, jnp.ones(2), newton, lambda g, y: jnp.linalg.solve(jax.jacobian(g)(y), y))

    a = jnp.array([2.0, 0.5])
    bis = lax.while_loop(
        lambda s: s[1] - s[0] > 1e-9,
        lambda s: lax.cond((s[0] + s[1]) ** 3 / 8 > 2, lambda a, b: (a, (a + b) / 2), lambda a, b: ((a + b) / 2, b), *s),
        (0.0, 2.0),
    )
    return solve(a), jax.jacrev(solve)(a), jax.jacfwd(jax.jacrev(solve))(a), bis


def sinkhorn(jax: Any) -> Any:
    jnp, lax, nn = jax.numpy, jax.lax, jax.nn
    x, y = data(5, 2), data(4, 2, seed=1)
    a, b = jnp.full(5, 1 / 5), jnp.full(4, 1 / 4)

    @partial(jax.jit, static_argnames=("iters",))
    def loss(x, y, eps=0.5, iters=30):
        c = jnp.sum((x[:, None] - y[None]) ** 2, -1)

        def body(carry, _):
            f, g = carry
            f = eps * (jnp.log(a) - jax.scipy.special.logsumexp((g[None] - c) / eps, axis=1))
            g = eps * (jnp.log(b) - nn.logsumexp((f[:, None] - c) / eps, axis=0))
            return (f, g), jnp.abs(jnp.exp((f[:, None] + g[None] - c) / eps).sum(1) - a).sum()

        (f, g), errs = lax.scan(body, (jnp.zeros_like(a), jnp.zeros_like(b)), None, length=iters)
        return f @ a + g @ b, errs

    (v, e), g = jax.value_and_grad(loss, has_aux=True)(x, y)
    return v, e[:5], g


def variational_gp(jax: Any) -> Any:
    jnp, lin = jax.numpy, jax.scipy.linalg
    x, y, z = np.linspace(-1, 1, 9)[:, None], np.sin(3 * np.linspace(-1, 1, 9)), np.linspace(-1, 1, 4)[:, None]

    def k(a, b, l):
        return jnp.exp(-0.5 * jnp.sum((a[:, None] - b[None]) ** 2, -1) / l**2)

    def elbo(p):
        l, s = jnp.exp(p["l"]), jnp.exp(p["s"])
        kzz = k(z, z, l) + 1e-6 * jnp.eye(4)
        kzx = k(z, x, l)
        L = jnp.linalg.cholesky(kzz)
        A = lin.solve_triangular(L, kzx, lower=True) / s
        B = jnp.eye(4) + A @ A.T
        LB = jnp.linalg.cholesky(B)
        c = lin.solve_triangular(LB, A @ y, lower=True) / s
        return (
            -0.5 * 9 * jnp.log(2 * jnp.pi)
            - jnp.log(jnp.diag(LB)).sum()
            - 9 * jnp.log(s)
            - 0.5 * (y @ y) / s**2
            + 0.5 * c @ c
            - 0.5 * (9 - s**2 * jnp.trace(A @ A.T)) / s**2
        )

    p = {"l": jnp.array(-0.5), "s": jnp.array(-1.0)}
    h = jax.hessian(elbo)(p)
    return jax.value_and_grad(elbo)(p), h, jax.jvp(jax.grad(elbo), (p,), (jax.tree.map(jnp.ones_like, p),))[1]


def lanczos(jax: Any) -> Any:
    jnp, lax = jax.numpy, jax.lax
    a = data(8, 8)
    a = a + a.T

    def step(carry, _):
        v0, v1, beta = carry
        w = a @ v1 - beta * v0
        alpha = jnp.vdot(w, v1)
        w = w - alpha * v1
        nb = jnp.linalg.norm(w)
        return (v1, w / nb, nb), (alpha, nb)

    v = np.ones(8) / np.sqrt(8)
    _, (al, be) = lax.scan(step, (jnp.zeros(8), v, 0.0), length=4)
    t = jnp.diag(al) + jnp.diag(be[:-1], 1) + jnp.diag(be[:-1], -1)
    return jnp.linalg.eigvalsh(t), jax.scipy.linalg.eigh_tridiagonal(al, be[:-1], eigvals_only=True)


def fisher_natural_gradient(jax: Any) -> Any:
    jnp = jax.numpy
    x, y = data(8, 3), (data(8, seed=1) > 0).astype(float)
    flat, unravel = jax.flatten_util.ravel_pytree({"w": data(3, seed=2), "b": np.array(0.1)})

    def logits(f):
        return x @ unravel(f)["w"] + unravel(f)["b"]

    def nll(f):
        return jnp.mean(jnp.logaddexp(0, logits(f)) - y * logits(f))

    def fvp(f, v):
        z, jv = jax.jvp(logits, (f,), (v,))
        p = jax.nn.sigmoid(z)
        return jax.vjp(logits, f)[1](p * (1 - p) * jv / 8)[0] + 1e-3 * v

    def step(f):
        g = jax.grad(nll)(f)
        d, _ = jax.scipy.sparse.linalg.cg(lambda v: fvp(f, v), g, maxiter=20, tol=1e-12)
        return f - d

    f = jax.lax.fori_loop(0, 4, lambda i, f: step(f), flat)

    def hvp(v):
        return jax.jvp(jax.grad(nll), (f,), (v,))[1]

    gn = jax.vmap(hvp)(jnp.eye(flat.size))
    return jnp.round(f, 7), jnp.round(gn, 7), jax.tree.map(jnp.shape, unravel(f))


def typed_and_named(jax: Any) -> Any:
    jnp = jax.numpy
    from_typing = jax.typing.ArrayLike

    def f(x: from_typing) -> jax.Array:
        x = jnp.asarray(x, dtype=jax.dtypes.canonicalize_dtype(float))
        return jnp.where(x > 0, x, 0.0)

    ok = isinstance(jnp.ones(2), jax.Array), jnp.issubdtype(jnp.float32, jnp.floating), jax.dtypes.issubdtype(np.int32, np.integer)

    @jax.custom_vjp
    def g(x, n):
        return x**n

    def bwd(res, ct):
        x, n = res
        return ct * n * x ** (n - 1), np.zeros(np.shape(n), dtype=jax.dtypes.float0)

    g.defvjp(lambda x, n: (g(x, n), (x, n)), bwd)
    with jax.ensure_compile_time_eval():
        table = jnp.arange(4) ** 2
    if True:
        dev = jnp.ones(2) + 1
    return (
        f([1.0, -2.0]),
        ok,
        jax.grad(g)(2.0, 3),
        table,
        dev,
        jax.tree.map(lambda x: x.dtype == jnp.float64, jnp.zeros(2)),
        jax.local_device_count() >= 1,
    )


def split_step(jax: Any) -> Any:
    """Gross and Pitaevskii's equation in a trap, and the slope and curvature of where the wave is by how strong the trap is."""
    jnp, lax = jax.numpy, jax.lax
    n = 32
    x = jnp.linspace(-5, 5, n, endpoint=False)
    k = 2 * jnp.pi * jnp.fft.fftfreq(n, 10 / n)
    psi = jnp.exp(-((x - 1) ** 2)) + 0j

    def evolve(w, psi):
        def kick(p):
            return p * jnp.exp(-0.025j * (0.5 * w * x**2 + jnp.abs(p) ** 2))

        def step(p, _):
            p = lax.fft(kick(p), "FFT", (n,))
            p = kick(lax.fft(jnp.exp(-0.025j * k**2) * p, lax.FftType.IFFT, (n,)))
            return p, jnp.vdot(p, p).real

        return lax.scan(step, psi, None, length=10)

    where = lambda w: jnp.sum(x * jnp.abs(evolve(w, psi)[0]) ** 2)  # noqa: E731
    real = lax.fft(x.reshape(4, 8), lax.FftType.RFFT, (4, 8))
    return evolve(1.0, psi), jax.grad(where)(1.0), jax.grad(jax.grad(where))(1.0), real, lax.fft(real, "IRFFT", (4, 8))


PROGRAMS = [
    split_step,
    deep_equilibrium,
    adaptive_rk45,
    hmm_associative,
    finite_elements,
    spectral_burgers,
    root_and_implicit,
    sinkhorn,
    variational_gp,
    lanczos,
    fisher_natural_gradient,
    typed_and_named,
]
