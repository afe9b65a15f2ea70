"""The workloads: a scalar function and its inputs, written once for both frameworks.

A factory takes a framework (`np` is the array namespace, `nn` has the activations; also `scan`, `conv`, `logsumexp`) and returns
the function, which is differentiated by its first argument. The inputs are NumPy arrays in f32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from workload import Function, Workload, dense, integers, normal
from workloads_science import SCIENCE


def rosenbrock(fw: Any) -> Function:
    """Chained Rosenbrock function."""
    return lambda x: fw.np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def logistic(fw: Any) -> Function:
    """Regularised logistic regression."""

    def loss(w: Any, rows: Any, signs: Any, l2: Any) -> Any:
        return fw.np.mean(fw.nn.softplus(-signs * (rows @ w))) + 0.5 * l2 * fw.np.sum(w * w)

    return loss


def _logistic_inputs(rows: int, columns: int) -> tuple[Any, ...]:
    signs = np.sign(normal(rows, seed=1))
    return normal(columns, scale=0.05), normal(rows, columns), signs, np.float32(1e-3)


def network(fw: Any) -> Function:
    """Two-layer network with a regularised cross-entropy."""

    def loss(params: Any, images: Any, labels: Any, l2: Any) -> Any:
        hidden = fw.nn.tanh(images @ params["hidden"]["w"] + params["hidden"]["b"])
        scores = hidden @ params["out"]["w"] + params["out"]["b"]
        likelihood = fw.np.sum(fw.nn.log_softmax(scores) * fw.nn.one_hot(labels, 10), axis=1)
        weights = fw.np.sum(params["hidden"]["w"] ** 2) + fw.np.sum(params["out"]["w"] ** 2)
        return -fw.np.mean(likelihood) + 0.5 * l2 * weights

    return loss


def _digits_inputs() -> tuple[Any, ...]:
    images, labels = load_digits(return_X_y=True)
    params = {"hidden": dense(64, 32), "out": dense(32, 10)}
    return params, (images / 16).astype(np.float32), labels.astype(np.int32), np.float32(1e-3)


def _mlp_inputs() -> tuple[Any, ...]:
    return {"hidden": dense(784, 256), "out": dense(256, 10)}, normal(128, 784), integers(10, 128), np.float32(1e-3)


def attention(fw: Any) -> Function:
    """One head of self-attention, and the squared distance to a target."""

    def loss(params: Any, x: Any, target: Any) -> Any:
        q, k, v = (x @ params[name] for name in "qkv")
        weights = fw.nn.softmax(q @ k.T * q.shape[1] ** -0.5, axis=-1)
        return fw.np.mean((weights @ v @ params["o"] - target) ** 2)

    return loss


def _attention_inputs() -> tuple[Any, ...]:
    params = {name: normal(64, 64, scale=0.125, seed=i) for i, name in enumerate("qkvo")}
    return params, normal(128, 64), normal(128, 64, seed=1)


def convolution(fw: Any) -> Function:
    """Two 3x3 convolutions, the mean over the image, a layer, and a cross-entropy."""

    def loss(params: Any, images: Any, labels: Any) -> Any:
        x = fw.nn.tanh(fw.conv(images, params["a"]))
        x = fw.nn.tanh(fw.conv(x, params["b"]))
        scores = fw.np.mean(x, axis=(1, 2)) @ params["out"]["w"] + params["out"]["b"]
        return -fw.np.mean(fw.np.sum(fw.nn.log_softmax(scores) * fw.nn.one_hot(labels, 10), axis=1))

    return loss


def _convolution_inputs() -> tuple[Any, ...]:
    params = {"a": normal(3, 3, 3, 16, scale=0.2), "b": normal(3, 3, 16, 16, scale=0.1), "out": dense(16, 10)}
    return params, normal(16, 28, 28, 3), np.arange(16, dtype=np.int32) % 10


def n_body(fw: Any) -> Function:
    """Softened gravitational energy."""

    def energy(positions: Any, masses: Any) -> Any:
        differences = positions[:, None, :] - positions[None, :, :]
        distance = fw.np.sqrt(fw.np.sum(differences * differences, axis=-1) + 1e-2)
        return -0.5 * fw.np.sum(masses[:, None] * masses[None, :] / distance)

    return energy


def recurrent(fw: Any) -> Function:
    """A scanned recurrent network of 50 steps."""

    def loss(params: Any, inputs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = fw.nn.tanh(h @ params["w"] + x)
            return h, None

        h, _ = fw.scan(step, params["h"], inputs)
        return fw.np.mean(h * h)

    return loss


def _recurrent_inputs() -> tuple[Any, ...]:
    return {"w": normal(32, 32, scale=0.2), "h": normal(16, 32)}, normal(50, 16, 32)


def mixture(fw: Any) -> Function:
    """Negative log-likelihood of a Gaussian mixture with full covariances (the GMM of ADBench)."""

    def loss(params: Any, points: Any) -> Any:
        differences = points[:, None, :] - params["means"][None]  # points x components x axes
        whitened = fw.np.einsum("kij,nkj->nki", params["roots"], differences)
        heights = params["weights"] + fw.np.sum(fw.np.log(fw.np.abs(params["diagonal"])), axis=1)
        scaled = whitened * params["diagonal"][None]
        return -fw.np.mean(fw.logsumexp(heights[None] - 0.5 * fw.np.sum(scaled**2, axis=2), axis=1))

    return loss


def _mixture_inputs() -> tuple[Any, ...]:
    params = {
        "means": normal(25, 10),
        "roots": normal(25, 10, 10, scale=0.3) + np.eye(10, dtype=np.float32),
        "diagonal": np.exp(normal(25, 10, scale=0.1)),
        "weights": normal(25),
    }
    return params, normal(1000, 10, seed=1)


def transformer(fw: Any) -> Function:
    """A block of a language model: layer norm, four heads of causal attention, a gelu network, cross-entropy."""

    def norm(x: Any) -> Any:
        centred = x - fw.np.mean(x, axis=-1, keepdims=True)
        return centred / fw.np.sqrt(fw.np.mean(centred**2, axis=-1, keepdims=True) + 1e-5)

    def loss(params: Any, x: Any, mask: Any, targets: Any) -> Any:
        y = norm(x)
        q, k, v = (fw.np.einsum("btd,dhc->bhtc", y, params[name]) for name in "qkv")
        scores = fw.np.einsum("bhtc,bhsc->bhts", q, k) * q.shape[-1] ** -0.5 + mask
        x = x + fw.np.einsum("bhts,bhsc,hcd->btd", fw.nn.softmax(scores, axis=-1), v, params["o"])
        x = x + fw.nn.gelu(norm(x) @ params["up"]) @ params["down"]
        scores = norm(x) @ params["out"]
        return -fw.np.mean(fw.np.sum(fw.nn.log_softmax(scores) * fw.nn.one_hot(targets, scores.shape[-1]), axis=-1))

    return loss


def _transformer_inputs() -> tuple[Any, ...]:
    params = {name: normal(64, 4, 16, scale=0.125, seed=i) for i, name in enumerate("qkv")}
    params |= {
        "o": normal(4, 16, 64, scale=0.125),
        "up": normal(64, 256, scale=0.125),
        "down": normal(256, 64, scale=0.06),
        "out": normal(64, 65, scale=0.1),
    }
    mask = np.where(np.tri(64, dtype=bool), 0, -1e9).astype(np.float32)
    return params, normal(4, 64, 64), mask, np.arange(4 * 64, dtype=np.int32).reshape(4, 64) % 65


def residual(fw: Any) -> Function:
    """A residual block of two 3x3 convolutions with normalised activations, and the distance to a target."""

    def norm(x: Any) -> Any:
        centred = x - fw.np.mean(x, axis=(0, 1, 2))
        return centred / fw.np.sqrt(fw.np.mean(centred**2, axis=(0, 1, 2)) + 1e-5)

    def loss(params: Any, x: Any, target: Any) -> Any:
        y = fw.conv(fw.nn.silu(norm(x)), params["a"])
        y = x + fw.conv(fw.nn.silu(norm(y)), params["b"])
        return fw.np.mean((y - target) ** 2)

    return loss


def _residual_inputs() -> tuple[Any, ...]:
    params = {"a": normal(3, 3, 32, 32, scale=0.06), "b": normal(3, 3, 32, 32, scale=0.06, seed=1)}
    return params, normal(8, 16, 16, 32), normal(8, 16, 16, 32, seed=1)


def orbit(fw: Any) -> Function:
    """A least-squares fit of the Lotka-Volterra equations, by 200 steps of the Runge-Kutta method of order 4."""

    def slope(rates: Any, y: Any) -> Any:
        prey, hunters = y[..., 0], y[..., 1]
        return fw.np.stack([rates[0] * prey - rates[1] * prey * hunters, rates[2] * prey * hunters - rates[3] * hunters], axis=-1)

    def loss(rates: Any, start: Any, observed: Any) -> Any:
        def step(y: Any, seen: Any) -> Any:
            h = 0.05
            a = slope(rates, y)
            b = slope(rates, y + 0.5 * h * a)
            c = slope(rates, y + 0.5 * h * b)
            d = slope(rates, y + h * c)
            y = y + (h / 6) * (a + 2 * b + 2 * c + d)
            return y, fw.np.sum((y - seen) ** 2)

        return fw.np.mean(fw.scan(step, start, observed)[1])

    return loss


def _orbit_inputs() -> tuple[Any, ...]:
    return np.array([1.1, 0.4, 0.1, 0.4], np.float32), np.abs(normal(64, 2)) + 1, np.abs(normal(200, 64, 2))


_LEARNING = (
    Workload("rosenbrock-10", "Rosenbrock n=10", rosenbrock, lambda: (normal(10, scale=0.5),)),
    Workload("rosenbrock-1e3", "Rosenbrock n=10³", rosenbrock, lambda: (normal(1000, scale=0.5),)),
    Workload("rosenbrock-1e6", "Rosenbrock n=10⁶", rosenbrock, lambda: (normal(1000000, scale=0.5),)),
    Workload("logistic", "logistic 2000x500", logistic, lambda: _logistic_inputs(2000, 500)),
    Workload("logistic-large", "logistic 20000x512", logistic, lambda: _logistic_inputs(20000, 512)),
    Workload("digits", "digits 1797x64-32-10", network, _digits_inputs),
    Workload("mlp", "network 784-256-10, batch 128", network, _mlp_inputs),
    Workload("attention", "attention 128x64", attention, _attention_inputs),
    Workload("conv", "3x3 convolutions 16x28x28", convolution, _convolution_inputs),
    Workload("n-body", "n-body energy, 256", n_body, lambda: (normal(256, 3), np.abs(normal(256)))),
    Workload("rnn", "recurrent network, 50 steps", recurrent, _recurrent_inputs),
    Workload("mixture", "Gaussian mixture 1000x10, 25", mixture, _mixture_inputs),
    Workload("transformer", "transformer block 4x64x64", transformer, _transformer_inputs),
    Workload("residual", "residual block 8x16x16x32", residual, _residual_inputs),
    Workload("orbit", "Runge-Kutta fit, 200 steps", orbit, _orbit_inputs),
)

WORKLOADS = (*_LEARNING, *SCIENCE, *(w.wide() for w in (*_LEARNING, *SCIENCE)))
