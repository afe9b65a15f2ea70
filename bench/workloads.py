"""The workloads: a scalar function and its inputs, written once for both frameworks.

A factory takes a framework (`np` the array namespace, `nn` the activations, `scan`, `conv`) and returns the function;
its first argument is what it is differentiated by. The inputs are NumPy arrays in f32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

Function = Callable[..., Any]


@dataclass(frozen=True)
class Workload:
    """A name for the command line, a title, the factory of the function, and the maker of its arguments."""

    name: str
    title: str
    function: Callable[[Any], Function]
    inputs: Callable[[], tuple[Any, ...]]


def _normal(*shape: int, scale: float = 1.0, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng([seed, *shape]).normal(size=shape) * scale).astype(np.float32)


def _dense(n: int, m: int) -> dict[str, np.ndarray]:
    return {"w": _normal(n, m, scale=n**-0.5), "b": _normal(m, scale=0.1)}


def rosenbrock(fw: Any) -> Function:
    """Chained Rosenbrock function."""
    return lambda x: fw.np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def logistic(fw: Any) -> Function:
    """Regularised logistic regression."""

    def loss(w: Any, rows: Any, signs: Any, l2: Any) -> Any:
        return fw.np.mean(fw.nn.softplus(-signs * (rows @ w))) + 0.5 * l2 * fw.np.sum(w * w)

    return loss


def _logistic_inputs() -> tuple[Any, ...]:
    signs = np.sign(_normal(2000, seed=1))
    return _normal(500, scale=0.05), _normal(2000, 500), signs, np.float32(1e-3)


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
    params = {"hidden": _dense(64, 32), "out": _dense(32, 10)}
    return params, (images / 16).astype(np.float32), labels.astype(np.int32), np.float32(1e-3)


def _mlp_inputs() -> tuple[Any, ...]:
    labels = np.random.default_rng(0).integers(0, 10, 128).astype(np.int32)
    return {"hidden": _dense(784, 256), "out": _dense(256, 10)}, _normal(128, 784), labels, np.float32(1e-3)


def attention(fw: Any) -> Function:
    """One head of self-attention, and the squared distance to a target."""

    def loss(params: Any, x: Any, target: Any) -> Any:
        q, k, v = (x @ params[name] for name in "qkv")
        weights = fw.nn.softmax(q @ k.T * q.shape[1] ** -0.5, axis=-1)
        return fw.np.mean((weights @ v @ params["o"] - target) ** 2)

    return loss


def _attention_inputs() -> tuple[Any, ...]:
    params = {name: _normal(64, 64, scale=0.125, seed=i) for i, name in enumerate("qkvo")}
    return params, _normal(128, 64), _normal(128, 64, seed=1)


def convolution(fw: Any) -> Function:
    """Two 3x3 convolutions, the mean over the image, a layer, and a cross-entropy."""

    def loss(params: Any, images: Any, labels: Any) -> Any:
        x = fw.nn.tanh(fw.conv(images, params["a"]))
        x = fw.nn.tanh(fw.conv(x, params["b"]))
        scores = fw.np.mean(x, axis=(1, 2)) @ params["out"]["w"] + params["out"]["b"]
        return -fw.np.mean(fw.np.sum(fw.nn.log_softmax(scores) * fw.nn.one_hot(labels, 10), axis=1))

    return loss


def _convolution_inputs() -> tuple[Any, ...]:
    params = {"a": _normal(3, 3, 3, 16, scale=0.2), "b": _normal(3, 3, 16, 16, scale=0.1), "out": _dense(16, 10)}
    return params, _normal(16, 28, 28, 3), np.arange(16, dtype=np.int32) % 10


def n_body(fw: Any) -> Function:
    """Softened gravitational energy."""

    def energy(positions: Any, masses: Any) -> Any:
        apart = positions[:, None, :] - positions[None, :, :]
        distance = fw.np.sqrt(fw.np.sum(apart * apart, axis=-1) + 1e-2)
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
    return {"w": _normal(32, 32, scale=0.2), "h": _normal(16, 32)}, _normal(50, 16, 32)


WORKLOADS = (
    Workload("rosenbrock-1e3", "Rosenbrock n=10³", rosenbrock, lambda: (_normal(1000, scale=0.5),)),
    Workload("rosenbrock-1e6", "Rosenbrock n=10⁶", rosenbrock, lambda: (_normal(1000000, scale=0.5),)),
    Workload("logistic", "logistic 2000x500", logistic, _logistic_inputs),
    Workload("digits", "digits 1797x64-32-10", network, _digits_inputs),
    Workload("mlp", "network 784-256-10, batch 128", network, _mlp_inputs),
    Workload("attention", "attention 128x64", attention, _attention_inputs),
    Workload("conv", "3x3 convolutions 16x28x28", convolution, _convolution_inputs),
    Workload("n-body", "n-body energy, 256", n_body, lambda: (_normal(256, 3), np.abs(_normal(256)))),
    Workload("rnn", "recurrent network, 50 steps", recurrent, _recurrent_inputs),
)
