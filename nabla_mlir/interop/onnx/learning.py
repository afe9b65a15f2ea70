"""Operators of ONNX's domain ai.onnx.ml: models of scikit-learn, by skl2onnx."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import nabla_mlir.numpy as nnp
from nabla_mlir import nn
from nabla_mlir.interop.onnx.table import Refusal, operator
from nabla_mlir.scipy import special
from nabla_mlir.table.tensor import Tensor

_ML = "ai.onnx.ml"
_POST: dict[str, Callable[[Tensor], Tensor]] = {
    "NONE": lambda x: x, "LOGISTIC": lambda x: nn.sigmoid(x), "SOFTMAX": lambda x: nn.softmax(x),
    "SOFTMAX_ZERO": lambda x: nnp.where(x == 0, x, nn.softmax(x)), "PROBIT": lambda x: special.ndtri(x),
}  # fmt: skip


def _floats(values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def _integers(labels: Any, strings: Any) -> np.ndarray:
    if strings:
        raise Refusal("labels that are integers", "strings")
    return np.array(labels, np.int64)


@operator("Scaler", domain=_ML)
def _scaler(x: Tensor, offset: Any = (0.0,), scale: Any = (1.0,)) -> Tensor:
    return (x.astype(np.float32) - _floats(offset)) * _floats(scale)


@operator("Normalizer", domain=_ML)
def _normalizer(x: Tensor, norm: str = "MAX") -> Tensor:
    x = x.astype(np.float32)
    if norm == "MAX":
        size = nnp.max(nnp.abs(x), -1, keepdims=True)
    else:
        size = nnp.sum(nnp.abs(x), -1, keepdims=True) if norm == "L1" else nnp.sqrt(nnp.sum(x * x, -1, keepdims=True))
    return x / nnp.where(size == 0, nnp.ones_like(size), size)


@operator("Binarizer", domain=_ML)
def _binarizer(x: Tensor, threshold: float = 0.0) -> Tensor:
    return (x > threshold).astype(x.dtype)


@operator("ArrayFeatureExtractor", domain=_ML)
def _array_feature_extractor(x: Tensor, places: Tensor) -> Tensor:
    columns = nnp.take(x, places.reshape(-1), -1)
    return columns if x.ndim > 1 else columns[None]


@operator("LinearRegressor", domain=_ML)
def _linear_regressor(
    x: Tensor, coefficients: Any = (), intercepts: Any = (), targets: int = 1, post_transform: str = "NONE"
) -> Tensor:
    y = x.astype(np.float32) @ _floats(coefficients).reshape(targets, -1).T
    return _POST[post_transform](y + _floats(intercepts) if intercepts else y)


@operator("LinearClassifier", domain=_ML)
def _linear_classifier(
    x: Tensor,
    coefficients: Any = (),
    intercepts: Any = (),
    classlabels_ints: Any = None,
    classlabels_strings: Any = None,
    multi_class: int = 0,
    post_transform: str = "NONE",
) -> tuple[Tensor, Tensor]:
    labels = _integers(classlabels_ints, classlabels_strings)
    weights = _floats(coefficients).reshape(-1, x.shape[-1])
    scores = x.astype(np.float32) @ weights.T + (_floats(intercepts) if intercepts else 0)
    if len(weights) == 1 and len(labels) == 2:
        scores = nnp.concatenate([1 - scores if post_transform == "NONE" else -scores, scores], -1)
    scores = _POST[post_transform](scores)
    return nnp.take(labels, nnp.argmax(scores, -1)), scores


def _kernel(name: str, x: Tensor, vectors: np.ndarray, params: Any) -> Tensor:
    gamma, start, degree = (*params, 0, 0, 0)[:3]
    if name == "RBF":
        return nnp.exp(-gamma * nnp.sum((x[:, None] - vectors) ** 2, -1))
    products = x @ vectors.T
    if name == "LINEAR":
        return products
    return (gamma * products + start) ** degree if name == "POLY" else nnp.tanh(gamma * products + start)


@operator("SVMRegressor", domain=_ML)
def _svm_regressor(
    x: Tensor,
    coefficients: Any = (),
    support_vectors: Any = (),
    rho: Any = (0.0,),
    kernel_type: str = "LINEAR",
    kernel_params: Any = (),
    n_supports: int = 0,
    one_class: int = 0,
    post_transform: str = "NONE",
) -> Tensor:
    x = x.astype(np.float32)
    if n_supports:
        vectors = _floats(support_vectors).reshape(n_supports, -1)
        y = _kernel(kernel_type, x, vectors, kernel_params) @ _floats(coefficients)[:, None] + _floats(rho)[0]
    else:
        y = x @ _floats(coefficients)[:, None] + _floats(rho)[0]
    return nnp.where(y > 0, 1.0, -1.0).astype(np.float32) if one_class else _POST[post_transform](y)


@operator("TreeEnsembleRegressor", domain=_ML)
def _tree_ensemble_regressor(
    x: Tensor,
    nodes_treeids: Any = (),
    nodes_nodeids: Any = (),
    nodes_featureids: Any = (),
    nodes_modes: Any = (),
    nodes_values: Any = (),
    nodes_truenodeids: Any = (),
    nodes_falsenodeids: Any = (),
    nodes_hitrates: Any = (),
    nodes_missing_value_tracks_true: Any = (),
    target_treeids: Any = (),
    target_nodeids: Any = (),
    target_ids: Any = (),
    target_weights: Any = (),
    n_targets: int = 1,
    base_values: Any = (),
    aggregate_function: str = "SUM",
    post_transform: str = "NONE",
) -> Tensor:
    """Constant in each cell: its derivatives are zero."""
    modes = [m.decode() if isinstance(m, bytes) else m for m in nodes_modes]
    if (
        aggregate_function not in ("SUM", "AVERAGE")
        or not {"BRANCH_LEQ", "LEAF"} >= set(modes)
        or any(nodes_missing_value_tracks_true)
    ):
        raise Refusal(
            "branches BRANCH_LEQ, and SUM or AVERAGE of them", f"{aggregate_function} of {sorted(set(modes))}"
        )
    place = {pair: i for i, pair in enumerate(zip(nodes_treeids, nodes_nodeids, strict=True))}
    trees = list(dict.fromkeys(nodes_treeids))
    left, right = (
        np.array(
            [
                i if m == "LEAF" else place[t, to]
                for i, (t, m, to) in enumerate(zip(nodes_treeids, modes, ids, strict=True))
            ]
        )
        for ids in (nodes_truenodeids, nodes_falsenodeids)
    )
    weights = np.zeros((len(modes), n_targets), np.float32)
    for tree, node, target, weight in zip(target_treeids, target_nodeids, target_ids, target_weights, strict=True):
        weights[place[tree, node], target] += weight
    at: Any = np.broadcast_to(np.array([place[t, 0] for t in trees]), (x.shape[0], len(trees)))
    features, thresholds = np.array(nodes_featureids), _floats(nodes_values)
    rows = x.astype(np.float32)
    for _ in range(_depth(left, right, [place[t, 0] for t in trees])):
        value = nnp.take_along_axis(rows, nnp.take(features, at), 1)
        at = nnp.where(value <= nnp.take(thresholds, at), nnp.take(left, at), nnp.take(right, at))
    total = nnp.sum(nnp.take(weights, at, 0), 1)
    total = total / len(trees) if aggregate_function == "AVERAGE" else total
    return _POST[post_transform](total + _floats(base_values) if base_values else total)


def _depth(left: np.ndarray, right: np.ndarray, roots: list[int]) -> int:
    """How many branches lie one behind the other."""
    front, count = set(roots), 0
    while any(left[i] != i for i in front):
        front, count = {int(j) for i in front for j in (left[i], right[i])}, count + 1
    return count
