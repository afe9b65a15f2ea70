"""The data and the function of the demo: handwritten digits and a two-layer network that reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import nabla_mlir.numpy as nnp
from nabla_mlir import nn

PIXELS, HIDDEN, DIGITS = 64, 32, 10


def logits(params: Any, images: Any) -> Any:
    """A score for each digit."""
    hidden = nn.tanh(images @ params["hidden"]["w"] + params["hidden"]["b"])
    return hidden @ params["out"]["w"] + params["out"]["b"]


def loss(params: Any, images: Any, labels: Any, l2: Any) -> Any:
    """Mean cross-entropy plus l2/2 times the sum of the squared weights."""
    likelihood = nnp.sum(nn.log_softmax(logits(params, images)) * nn.one_hot(labels, DIGITS, dtype=images.dtype), axis=1)
    weights = nnp.sum(params["hidden"]["w"] ** 2) + nnp.sum(params["out"]["w"] ** 2)
    return -nnp.mean(likelihood) + l2 / 2 * weights


def predict(params: Any, images: Any) -> Any:
    """The digit with the highest score."""
    return nnp.argmax(logits(params, images), axis=1)


def initial_params(seed: int) -> dict[str, dict[str, np.ndarray]]:
    """Small random weights."""
    rng = np.random.default_rng(seed)
    sizes = {"hidden": (PIXELS, HIDDEN), "out": (HIDDEN, DIGITS)}
    return {k: {"w": rng.normal(size=(n, m)) / np.sqrt(n), "b": np.zeros(m)} for k, (n, m) in sizes.items()}


def digits(seed: int) -> list[np.ndarray]:
    """Training images, test images, training labels, test labels; pixels between 0 and 1."""
    images, labels = load_digits(return_X_y=True)
    return train_test_split(images / 16.0, labels.astype(np.int32), test_size=0.2, random_state=seed, stratify=labels)
