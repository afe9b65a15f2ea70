"""The problems of the recipes: written once for our namespace and for NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np

import nabla_mlir.nn as nn
import nabla_mlir.numpy as nnp


def logistic_loss(w: Any, rows: Any, signs: Any, l2: Any) -> Any:
    """Regularised logistic regression: the mean of log(1 + exp(-signs * rows @ w)) and l2/2 |w|²."""
    return nnp.mean(nn.softplus(-signs * (rows @ w))) + 0.5 * l2 * nnp.sum(w * w)


def logistic_data(samples: int = 200, features: int = 12, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows and the signs that a random plane with noise gives them."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(samples, features))
    return rows, np.sign(rows @ rng.normal(size=features) + 0.5 * rng.normal(size=samples))


def network(params: Any, rows: Any) -> Any:
    """One hidden layer."""
    return nnp.tanh(rows @ params["hidden"]) @ params["out"]


def network_loss(params: Any, rows: Any, targets: Any) -> Any:
    """The mean squared error of the network."""
    return nnp.mean((network(params, rows) - targets) ** 2)


def network_data(seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Parameters, rows and targets."""
    rng = np.random.default_rng(seed)
    params = {"hidden": rng.normal(size=(3, 8)) * 0.7, "out": rng.normal(size=8) * 0.5}
    rows = rng.normal(size=(60, 3))
    return params, rows, np.sin(rows @ np.array([1.0, -1.0, 0.5]))
