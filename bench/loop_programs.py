"""Programs with loops of small steps, written for JAX and for `nabla_mlir.jax`: samplers, solvers, filters, searches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

rng = np.random.default_rng(0)


@dataclass(frozen=True)
class Program:
    """A program with a loop.

    Args:
      title: its name in tables.
      function: the function of the framework (a module like `jax`) and of the arguments.
      arguments: the arguments: arrays, or an integer for the key of random numbers.
    """

    title: str
    function: Callable[..., Any]
    arguments: Sequence[Any]


def _real(*shape: int, scale: float = 1.0) -> np.ndarray:
    return (scale * rng.normal(size=shape)).astype(np.float32)


# ---------------------------------------------------------------- samplers


def hamiltonian(fw: Any, key: Any) -> Any:
    """Four chains of Hamiltonian Monte Carlo: 1,000 steps of 8 leapfrogs."""
    np_, lax, random = fw.numpy, fw.lax, fw.random

    def log_density(q: Any) -> Any:
        return -0.5 * np_.sum(q * q * np_.arange(1.0, 11.0)) - 0.1 * np_.sum(q**4)

    slope = fw.grad(log_density)

    def leap(_: Any, state: Any) -> Any:
        q, p = state
        p = p + 0.05 * slope(q)
        q = q + 0.1 * p
        return q, p + 0.05 * slope(q)

    def step(q: Any, key: Any) -> Any:
        for_momentum, for_test = random.split(key)
        p = random.normal(for_momentum, (10,))
        new, last = lax.fori_loop(0, 8, leap, (q, p))
        gain = log_density(new) - 0.5 * np_.sum(last**2) - log_density(q) + 0.5 * np_.sum(p**2)
        q = np_.where(np_.log(random.uniform(for_test)) < gain, new, q)
        return q, q[0]

    chain = lambda key: lax.scan(step, np_.zeros(10), random.split(key, 1000))[1]  # noqa: E731
    return fw.vmap(chain)(random.split(key, 4))


def gibbs(fw: Any, key: Any) -> Any:
    """200 sweeps over a ring of 16 normal variables."""
    np_, lax, random = fw.numpy, fw.lax, fw.random

    def one(i: Any, state: Any) -> Any:
        x, key = state
        key, own = random.split(key)
        mean = 0.4 * (x[(i + 1) % 16] + x[(i - 1) % 16])
        return x.at[i].set(mean + 0.5 * random.normal(own)), key

    def sweep(x: Any, key: Any) -> Any:
        x, _ = lax.fori_loop(0, 16, one, (x, key))
        return x, x[0]

    return lax.scan(sweep, np_.zeros(16), random.split(key, 200))[1]


def ising(fw: Any, key: Any) -> Any:
    """500 Metropolis steps of single spins on a grid of 16x16."""
    np_, lax, random = fw.numpy, fw.lax, fw.random

    def step(spins: Any, key: Any) -> Any:
        first, second, third = random.split(key, 3)
        i, j = random.randint(first, (), 0, 16), random.randint(second, (), 0, 16)
        field = spins[(i + 1) % 16, j] + spins[(i - 1) % 16, j] + spins[i, (j + 1) % 16] + spins[i, (j - 1) % 16]
        flips = random.uniform(third) < np_.exp(-0.8 * spins[i, j] * field)
        return np_.where(flips, spins.at[i, j].multiply(-1.0), spins), None

    return lax.scan(step, np_.ones((16, 16)), random.split(key, 500))[0]


def particles(fw: Any, key: Any, observed: Any) -> Any:
    """A filter with 128 particles, which are drawn anew at each of 100 observations."""
    np_, lax, random = fw.numpy, fw.lax, fw.random

    def step(state: Any, seen: Any) -> Any:
        x, key = state
        key, for_noise, for_offset = random.split(key, 3)
        x = 0.9 * x + 0.5 * random.normal(for_noise, (128,))
        total = np_.cumsum(fw.nn.softmax(-0.5 * (seen - x) ** 2))
        chosen = np_.searchsorted(total, (np_.arange(128) + random.uniform(for_offset)) / 128)
        x = x[np_.clip(chosen, 0, 127)]
        return (x, key), np_.mean(x)

    return lax.scan(step, (np_.zeros(128), key), observed)[1]


def bandits(fw: Any, key: Any) -> Any:
    """Eight bandits with ten arms: 200 choices by upper confidence bounds."""
    np_, lax, random = fw.numpy, fw.lax, fw.random
    means = np_.linspace(0, 1, 10)

    def step(state: Any, key: Any) -> Any:
        count, total = state
        bonus = np_.sqrt(2 * np_.log(np_.sum(count) + 1) / np_.maximum(count, 1e-3))
        arm = np_.argmax(total / np_.maximum(count, 1) + bonus)
        reward = means[arm] + random.normal(key)
        return (count.at[arm].add(1.0), total.at[arm].add(reward)), arm

    run = lambda key: lax.scan(step, (np_.zeros(10), np_.zeros(10)), random.split(key, 200))[1]  # noqa: E731
    return fw.vmap(run)(random.split(key, 8))


# ---------------------------------------------------------------- differential equations


def adaptive(fw: Any, start: Any) -> Any:
    """The oscillator of van der Pol by an adaptive Runge-Kutta method of order 3."""
    np_, lax = fw.numpy, fw.lax

    def slope(y: Any) -> Any:
        return np_.stack([y[1], (1 - y[0] ** 2) * y[1] * 5.0 - y[0]])

    def step(state: Any) -> Any:
        t, h, y = state
        first = slope(y)
        second = slope(y + h * first / 2)
        third = slope(y + 0.75 * h * second)
        new = y + h * (2 / 9 * first + 1 / 3 * second + 4 / 9 * third)
        error = h * (-5 / 72 * first + 1 / 12 * second + 1 / 9 * third - 1 / 8 * slope(new))
        size = np_.sqrt(np_.mean((error / (1e-4 + 1e-4 * np_.abs(new))) ** 2))
        accepted = size < 1
        later = h * np_.clip(0.9 * (size + 1e-8) ** (-1 / 3), 0.2, 5.0)
        return np_.where(accepted, t + h, t), np_.minimum(later, 20.0 - t), np_.where(accepted, new, y)

    return lax.while_loop(lambda state: state[0] < 19.99, step, (0.0, 0.01, start))[2]


def pendulum(fw: Any, start: Any) -> Any:
    """The gradient of 500 Euler steps of a pendulum."""
    np_, lax = fw.numpy, fw.lax

    def last(y: Any) -> Any:
        step = lambda y, _: (y + 0.01 * np_.stack([y[1], np_.sin(-y[0])]), None)  # noqa: E731
        return np_.sum(lax.scan(step, y, None, length=500)[0])

    return fw.grad(last)(start)


def events(fw: Any, first: Any) -> Any:
    """A queue of eight events until time 100."""
    np_, lax = fw.numpy, fw.lax

    def step(state: Any) -> Any:
        times, _ = state
        i = np_.argmin(times)
        now = times[i]
        return times.at[i].set(now + 0.3 + np_.sin(now) ** 2), now

    return lax.while_loop(lambda state: state[1] < 100.0, step, (first, 0.0))[0]


def tridiagonal(fw: Any, diagonal: Any, right: Any) -> Any:
    """Thomas' algorithm for 1,000 unknowns."""
    np_, lax = fw.numpy, fw.lax

    def forward(carry: Any, row: Any) -> Any:
        upper, value = carry
        d, b = row
        pivot = 1 / (d - upper)
        new = pivot, (b + value) * pivot
        return new, new

    def backward(x: Any, row: Any) -> Any:
        x = row[1] + row[0] * x
        return x, x

    zero = np_.float32(0)
    _, rows = lax.scan(forward, (zero, zero), (diagonal, right))
    return lax.scan(backward, zero, rows, reverse=True)[1]


def automaton(fw: Any, cells: Any) -> Any:
    """300 generations of rule 30 on a ring of 256 cells."""
    np_, lax = fw.numpy, fw.lax

    def step(cells: Any, _: Any) -> Any:
        kind = np_.roll(cells, 1) + 2 * cells + 4 * np_.roll(cells, -1)
        return (30 >> kind) & 1, np_.sum(cells)

    return lax.scan(step, cells, None, length=300)[1]


# ---------------------------------------------------------------- optimisation and roots


def momentum(fw: Any, w: Any, u: Any, x: Any, y: Any) -> Any:
    """500 steps with momentum on a network with 32 hidden units and 64 examples."""
    np_, lax = fw.numpy, fw.lax
    loss = lambda p: np_.mean((np_.tanh(x @ p[0]) @ p[1] - y) ** 2)  # noqa: E731

    def step(state: Any, _: Any) -> Any:
        weights, speeds = state
        speeds = [0.9 * v + g for v, g in zip(speeds, fw.grad(loss)(weights), strict=True)]
        return ([p - 0.01 * v for p, v in zip(weights, speeds, strict=True)], speeds), None

    return lax.scan(step, ([w, u], [w * 0, u * 0]), None, length=500)[0][0]


def _rosenbrock(np_: Any, x: Any) -> Any:
    return np_.sum((1 - x[:-1]) ** 2 + 100 * (x[1:] - x[:-1] ** 2) ** 2)


def adam(fw: Any, start: Any) -> Any:
    """500 steps of Adam on Rosenbrock's function of 20 variables."""
    np_, lax = fw.numpy, fw.lax
    value = lambda x: _rosenbrock(np_, x)  # noqa: E731

    def step(state: Any, i: Any) -> Any:
        x, mean, square = state
        g = fw.grad(value)(x)
        mean, square, t = 0.9 * mean + 0.1 * g, 0.999 * square + 0.001 * g * g, i + 1.0
        x = x - 0.01 * (mean / (1 - 0.9**t)) / (np_.sqrt(square / (1 - 0.999**t)) + 1e-8)
        return (x, mean, square), value(x)

    return lax.scan(step, (start, start * 0, start * 0), np_.arange(500.0))[1]


def limited_memory(fw: Any, start: Any) -> Any:
    """60 steps of L-BFGS with backtracking, ten variables and five pairs."""
    np_, lax, pairs = fw.numpy, fw.lax, 5
    value = lambda x: _rosenbrock(np_, x)  # noqa: E731

    def direction(g: Any, steps: Any, changes: Any, scales: Any) -> Any:
        def back(i: Any, state: Any) -> Any:
            q, factors = state
            j = pairs - 1 - i
            factor = scales[j] * np_.dot(steps[j], q)
            return q - factor * changes[j], factors.at[j].set(factor)

        q, factors = lax.fori_loop(0, pairs, back, (g, np_.zeros(pairs)))
        forth = lambda j, q: q + steps[j] * (factors[j] - scales[j] * np_.dot(changes[j], q))  # noqa: E731
        return -lax.fori_loop(0, pairs, forth, q * 0.01)

    def step(state: Any, _: Any) -> Any:
        x, g, steps, changes, scales = state
        d = direction(g, steps, changes, scales)
        too_long = lambda t: (value(x + t * d) > value(x) + 1e-4 * t * np_.dot(g, d)) & (t > 1e-6)  # noqa: E731
        new = x + lax.while_loop(too_long, lambda t: t * 0.5, 1.0) * d
        slope = fw.grad(value)(new)
        curvature = np_.dot(new - x, slope - g)
        scale = np_.where(curvature > 1e-10, 1 / np_.where(curvature > 1e-10, curvature, 1.0), 0.0)
        steps = np_.roll(steps, -1, 0).at[-1].set(new - x)
        changes = np_.roll(changes, -1, 0).at[-1].set(slope - g)
        return (new, slope, steps, changes, np_.roll(scales, -1).at[-1].set(scale)), value(new)

    shape = (pairs, start.shape[0])
    state = (start, fw.grad(value)(start), np_.zeros(shape), np_.zeros(shape), np_.zeros(pairs))
    return lax.scan(step, state, None, length=60)[1]


def curves(fw: Any, x: Any, y: Any) -> Any:
    """20 steps of Levenberg-Marquardt for 64 curves with three parameters."""
    np_, lax = fw.numpy, fw.lax

    def fit(x: Any, y: Any) -> Any:
        residual = lambda p: p[0] * np_.exp(-p[1] * x) + p[2] - y  # noqa: E731

        def step(_: Any, state: Any) -> Any:
            p, damping = state
            jacobian, r = fw.jacfwd(residual)(p), residual(p)
            normal = jacobian.T @ jacobian
            new = p - np_.linalg.solve(normal + damping * np_.diag(np_.diag(normal)), jacobian.T @ r)
            better = np_.sum(residual(new) ** 2) < np_.sum(r**2)
            return np_.where(better, new, p), np_.where(better, damping / 3, damping * 2)

        return lax.fori_loop(0, 20, step, (np_.ones(3), np_.float32(1)))[0]

    return fw.vmap(fit)(x, y)


def evolution(fw: Any, key: Any) -> Any:
    """60 generations of a covariance matrix adaptation with 16 points in 8 dimensions."""
    np_, lax, random = fw.numpy, fw.lax, fw.random

    def step(state: Any, key: Any) -> Any:
        mean, covariance, scale = state
        factor = np_.linalg.cholesky(covariance + 1e-6 * np_.eye(8))
        points = mean + scale * random.normal(key, (16, 8)) @ factor.T
        values = np_.sum((points - 1) ** 2 * np_.arange(1.0, 9.0), 1)
        best = points[np_.argsort(values)[:8]]
        d = (best - mean) / scale
        return (np_.mean(best, 0), 0.8 * covariance + 0.2 * d.T @ d / 8, scale * 0.97), np_.min(values)

    return lax.scan(step, (np_.zeros(8), np_.eye(8), np_.float32(0.5)), random.split(key, 60))[1]


def conjugate_gradients(fw: Any, a: Any, b: Any) -> Any:
    """Conjugate gradients for 50 unknowns."""
    np_, lax = fw.numpy, fw.lax

    def step(state: Any) -> Any:
        x, r, p, k = state
        product = a @ p
        length = r @ r / (p @ product)
        new = r - length * product
        return x + length * p, new, new + (new @ new) / (r @ r) * p, k + 1

    goes_on = lambda state: (state[1] @ state[1] > 1e-8) & (state[3] < 60)  # noqa: E731
    return lax.while_loop(goes_on, step, (np_.zeros_like(b), b, b, 0))[0]


def newton(fw: Any, a: Any) -> Any:
    """Newton's method for two equations."""
    np_, lax = fw.numpy, fw.lax
    f = lambda x: np_.stack([x[0] ** 2 + x[1] - a[0], x[1] ** 3 - x[0] * a[1]])  # noqa: E731
    step = lambda state: (state[0] - np_.linalg.solve(fw.jacfwd(f)(state[0]), f(state[0])), state[1] + 1)  # noqa: E731
    goes_on = lambda state: (np_.max(np_.abs(f(state[0]))) > 1e-5) & (state[1] < 50)  # noqa: E731
    return lax.while_loop(goes_on, step, (np_.ones(2), 0))[0]


# ---------------------------------------------------------------- filters, searches, decoding


def kalman(fw: Any, observed: Any) -> Any:
    """A Kalman filter with four states and two observations, 200 steps."""
    np_, lax = fw.numpy, fw.lax
    move, see = np_.eye(4) + 0.1 * np_.eye(4, k=1), np_.eye(2, 4)

    def step(state: Any, z: Any) -> Any:
        mean, covariance = state
        mean, covariance = move @ mean, move @ covariance @ move.T + 0.1 * np_.eye(4)
        gain = np_.linalg.solve(see @ covariance @ see.T + np_.eye(2), see @ covariance).T
        mean = mean + gain @ (z - see @ mean)
        return (mean, covariance - gain @ see @ covariance), mean[0]

    return lax.scan(step, (np_.zeros(4), np_.eye(4)), observed)[1]


def viterbi(fw: Any, transitions: Any, scores: Any) -> Any:
    """The best path of 100 steps through 20 states."""
    np_, lax = fw.numpy, fw.lax

    def step(best: Any, own: Any) -> Any:
        sums = best[:, None] + transitions
        return np_.max(sums, 0) + own, np_.argmax(sums, 0)

    last, origins = lax.scan(step, scores[0], scores[1:])
    return lax.scan(lambda i, origin: (origin[i], origin[i]), np_.argmax(last), origins, reverse=True)[1]


def beams(fw: Any, logits: Any) -> Any:
    """A search with four beams: 50 steps, 40 words."""
    np_, lax = fw.numpy, fw.lax

    def step(scores: Any, own: Any) -> Any:
        scores, at = lax.top_k((scores[:, None] + own[None, :]).reshape(-1), 4)
        return scores, at % own.shape[0]

    return lax.scan(step, np_.zeros(4), logits)[1]


def decoding(fw: Any, w: Any, u: Any, embedding: Any) -> Any:
    """100 greedy steps of a recurrent network with 32 units and 50 words."""
    np_, lax = fw.numpy, fw.lax

    def step(state: Any, _: Any) -> Any:
        h, word = state
        h = np_.tanh(h @ w + embedding[word])
        word = np_.argmax(h @ u)
        return (h, word), word

    return lax.scan(step, (np_.zeros(32), 0), None, length=100)[1]


def branches(fw: Any, x: Any, choices: Any) -> Any:
    """200 steps, each by one of three functions."""
    np_, lax = fw.numpy, fw.lax
    functions = [lambda c: np_.sin(c) + 1, lambda c: c * 0.5, lambda c: np_.roll(c, 1)]
    return lax.scan(lambda c, k: (lax.switch(k, functions, c), None), x, choices)[0]


def values(fw: Any, transitions: Any, rewards: Any) -> Any:
    """Value iteration with 40 states and four actions."""
    np_, lax = fw.numpy, fw.lax

    def step(state: Any) -> Any:
        new = np_.max(rewards + 0.95 * np_.einsum("asp,p->sa", transitions, state[0]), 1)
        return new, np_.max(np_.abs(new - state[0]))

    return lax.while_loop(lambda state: state[1] > 1e-4, step, (np_.zeros(40), np_.float32(1)))[0]


def clusters(fw: Any, x: Any) -> Any:
    """20 steps of k-means with eight clusters of 200 points."""
    np_, lax = fw.numpy, fw.lax

    def step(centres: Any, _: Any) -> Any:
        nearest = np_.argmin(np_.sum((x[:, None] - centres[None]) ** 2, -1), 1)
        member = fw.nn.one_hot(nearest, 8)
        return (member.T @ x) / np_.maximum(member.sum(0), 1)[:, None], None

    return lax.scan(step, x[:8], None, length=20)[0]


_MATRIX = _real(50, 50)
_DEFINITE = (_MATRIX @ _MATRIX.T / 50 + np.eye(50)).astype(np.float32)
_CHANCES = rng.random((4, 40, 40)).astype(np.float32)
_LINE = np.tile(np.linspace(0, 3, 20, dtype=np.float32), (64, 1))

PROGRAMS = (
    Program("Hamiltonian Monte Carlo, 4 chains", hamiltonian, (0,)),
    Program("Gibbs sampling, 16 variables", gibbs, (1,)),
    Program("Ising model 16x16", ising, (5,)),
    Program("particle filter, 128 particles", particles, (3, _real(100))),
    Program("bandits, 8 runs", bandits, (2,)),
    Program("adaptive Runge-Kutta", adaptive, (np.array([2, 0], np.float32),)),
    Program("pendulum, gradient", pendulum, (np.array([1, 0], np.float32),)),
    Program("queue of events", events, (rng.random(8).astype(np.float32),)),
    Program("tridiagonal system, 1,000", tridiagonal, (np.full(1000, 2.5, np.float32), _real(1000))),
    Program("cellular automaton, 256", automaton, (rng.integers(0, 2, 256).astype(np.int32),)),
    Program("momentum, small network", momentum, (_real(8, 32, scale=0.3), _real(32, 1, scale=0.3), _real(64, 8), _real(64, 1))),
    Program("Adam, 20 variables", adam, (np.zeros(20, np.float32),)),
    Program("L-BFGS, 10 variables", limited_memory, (np.full(10, -1, np.float32),)),
    Program("Levenberg-Marquardt, 64 curves", curves, (_LINE, np.exp(-1.3 * _LINE) + _real(64, 20, scale=0.05))),
    Program("evolution strategy, 8 variables", evolution, (4,)),
    Program("conjugate gradients, 50", conjugate_gradients, (_DEFINITE, _real(50))),
    Program("Newton's method, 2 equations", newton, (np.array([2, 1], np.float32),)),
    Program("Kalman filter, 4 states", kalman, (_real(200, 2),)),
    Program("Viterbi, 20 states", viterbi, (_real(20, 20), _real(100, 20))),
    Program("beam search, 4 of 160", beams, (_real(50, 40),)),
    Program("decoding, 32 units", decoding, (_real(32, 32, scale=0.3), _real(32, 50), _real(50, 32))),
    Program("switch of 3 functions", branches, (_real(16), rng.integers(0, 3, 200).astype(np.int32))),
    Program("value iteration, 40 states", values, (_CHANCES / _CHANCES.sum(-1, keepdims=True), _real(40, 4))),
    Program("k-means, 200 points", clusters, (_real(200, 3),)),
)
