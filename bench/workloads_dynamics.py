"""Workloads with time steps: fits of differential equations, control, and likelihoods of sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from workload import Function, Workload, dense, integers, normal


def _runge_kutta(slope: Callable[[Any], Any], y: Any, h: float) -> Any:
    a = slope(y)
    b = slope(y + 0.5 * h * a)
    c = slope(y + 0.5 * h * b)
    d = slope(y + h * c)
    return y + (h / 6) * (a + 2 * b + 2 * c + d)


def lorenz(fw: Any) -> Function:
    """The squared distance of a trajectory to an observed one, as a function of the three parameters."""

    def loss(rates: Any, start: Any, observed: Any) -> Any:
        def slope(y: Any) -> Any:
            a, b, c = y[0], y[1], y[2]
            return fw.np.stack([rates[0] * (b - a), a * (rates[1] - c) - b, a * b - rates[2] * c])

        def step(y: Any, seen: Any) -> Any:
            y = _runge_kutta(slope, y, 0.01)
            return y, fw.np.sum((y - seen) ** 2)

        return fw.np.mean(fw.scan(step, start, observed)[1])

    return loss


def neural_flow(fw: Any) -> Function:
    """The final positions of points whose velocity is a small network."""

    def loss(params: Any, points: Any, wanted: Any) -> Any:
        def slope(y: Any) -> Any:
            return fw.nn.tanh(y @ params["in"]["w"] + params["in"]["b"]) @ params["out"]["w"] + params["out"]["b"]

        y, _ = fw.scan(lambda y, _: (_runge_kutta(slope, y, 0.05), None), points, None, length=30)
        return fw.np.mean((y - wanted) ** 2)

    return loss


def cart_pole(fw: Any) -> Function:
    """The cost of a sequence of forces on a cart with a pole, by single shooting."""

    def loss(forces: Any, start: Any) -> Any:
        def step(state: Any, force: Any) -> Any:
            x, v, angle, spin = state[0], state[1], state[2], state[3]
            sine, cosine = fw.np.sin(angle), fw.np.cos(angle)
            push = (force + 0.05 * spin * spin * sine) / 1.1
            bend = (9.8 * sine - cosine * push) / (0.5 * (4 / 3 - 0.1 * cosine * cosine / 1.1))
            rate = fw.np.stack([v, push - 0.05 * bend * cosine / 1.1, spin, bend])
            state = fw.np.stack([x, v, angle, spin]) + 0.02 * rate
            return state, fw.np.sum(state * state) + 0.01 * force * force

        last, costs = fw.scan(step, start, forces)
        return fw.np.sum(costs) + 10 * fw.np.sum(last * last)

    return loss


def kalman(fw: Any) -> Function:
    """Negative log-likelihood of a linear system with four states and two observed coordinates."""

    def loss(params: Any, observed: Any) -> Any:
        unit = fw.np.eye(4, dtype=observed.dtype)
        move, see = 0.9 * unit + 0.1 * params["move"], params["see"]
        noise, blur = fw.np.exp(params["noise"]) * unit, fw.np.exp(params["blur"]) * fw.np.eye(2, dtype=observed.dtype)

        def step(state: Any, y: Any) -> Any:
            mean, spread = state
            mean, spread = move @ mean, move @ spread @ move.T + noise
            s = see @ spread @ see.T + blur
            error, det = y - see @ mean, s[0, 0] * s[1, 1] - s[0, 1] * s[1, 0]
            inverse = fw.np.stack([fw.np.stack([s[1, 1], -s[0, 1]]), fw.np.stack([-s[1, 0], s[0, 0]])]) / det
            gain = spread @ see.T @ inverse
            return (mean + gain @ error, spread - gain @ see @ spread), 0.5 * (error @ (inverse @ error) + fw.np.log(det))

        return fw.np.sum(fw.scan(step, (fw.np.zeros(4, observed.dtype), unit), observed)[1])

    return loss


def hidden_states(fw: Any) -> Function:
    """Negative log-likelihood of a hidden Markov model, by the forward algorithm."""

    def loss(params: Any, seen: Any) -> Any:
        moves, emitted = fw.nn.log_softmax(params["moves"]), fw.nn.log_softmax(params["emits"]).T[seen]

        def step(a: Any, here: Any) -> Any:
            return fw.logsumexp(a[:, None] + moves, axis=0) + here, None

        a, _ = fw.scan(step, fw.nn.log_softmax(params["start"]) + emitted[0], emitted[1:])
        return -fw.logsumexp(a, axis=0)

    return loss


def burgers(fw: Any) -> Function:
    """Finds the start of a wave from its shape after 100 explicit steps, with periodic boundaries."""

    def loss(start: Any, wanted: Any) -> Any:
        def step(u: Any, _: Any) -> Any:
            right, left = fw.np.roll(u, -1), fw.np.roll(u, 1)
            return u - 0.02 * u * (right - left) + 0.1 * (right - 2 * u + left), None

        u, _ = fw.scan(step, start, None, length=100)
        return fw.np.mean((u - wanted) ** 2)

    return loss


def _system() -> tuple[Any, ...]:
    params = {"move": normal(4, 4), "see": normal(2, 4), "noise": np.float32(-1), "blur": np.float32(-1)}
    return params, normal(100, 2)


DYNAMICS = (
    Workload(
        "lorenz",
        "Lorenz fit, 500 steps",
        lorenz,
        lambda: (np.array([10, 28, 8 / 3], np.float32), np.ones(3, np.float32), normal(500, 3)),
    ),
    Workload(
        "neural-flow",
        "neural flow, 30 Runge-Kutta steps",
        neural_flow,
        lambda: ({"in": dense(4, 24), "out": dense(24, 4)}, normal(64, 4), normal(64, 4, seed=1)),
    ),
    Workload("cart-pole", "cart-pole, 60 forces", cart_pole, lambda: (normal(60, scale=0.1), np.array([0, 0, 0.1, 0], np.float32))),
    Workload("kalman", "Kalman filter, 100 steps", kalman, _system),
    Workload(
        "hidden-states",
        "hidden Markov model, 10 states, 200 steps",
        hidden_states,
        lambda: ({"moves": normal(10, 10), "emits": normal(10, 20), "start": normal(10)}, integers(20, 200)),
    ),
    Workload("burgers", "Burgers equation, 128 x 100 steps", burgers, lambda: (normal(128), normal(128, seed=1))),
)
