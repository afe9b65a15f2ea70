"""Operators of ONNX's domain ai.onnx.ml: models of scikit-learn, by skl2onnx."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import nabla_mlir.numpy as nnp
from nabla_mlir import nn
from nabla_mlir.interop.onnx.dtypes import array_of
from nabla_mlir.interop.onnx.table import Refusal, operator
from nabla_mlir.jax.mirrored import original
from nabla_mlir.jax.scipy import special
from nabla_mlir.table.tensor import Tensor
from nabla_mlir.transforms.scans import scan

_ML = "ai.onnx.ml"
POST: dict[str, Callable[[Tensor], Tensor]] = {
    "NONE": lambda x: x,
    "LOGISTIC": lambda x: nn.sigmoid(x),
    "SOFTMAX": lambda x: nn.softmax(x),
    "SOFTMAX_ZERO": lambda x: _softmax_zero(x),
    "PROBIT": original(special.ndtri),
}


def _floats(values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def _softmax_zero(x: Tensor) -> Tensor:
    """The softmax over the elements that are not zero; zeros stay zero. A row of zeros becomes 0.5."""
    is_zero = nnp.abs(x) <= 1e-7
    weights = nnp.where(is_zero, 0, nnp.exp(x - nnp.max(x, -1, keepdims=True)))
    total = nnp.sum(weights, -1, keepdims=True)
    return nnp.where(total == 0, 0.5, weights / nnp.where(total == 0, 1, total)).astype(x.dtype)


def integers(labels: Any, strings: Any) -> np.ndarray:
    """The labels of classes as an array of integers; raises Refusal if they are strings."""
    if strings:
        raise Refusal("labels that are integers", "strings")
    return np.array(labels, np.int64)


@operator("Scaler", domain=_ML)
def _scaler(x: Tensor, offset: Any = (0.0,), scale: Any = (1.0,)) -> Tensor:
    return (x.astype(np.float32) - _floats(offset)) * _floats(scale)


@operator("Normalizer", domain=_ML)
def _normalizer(x: Tensor, norm: str = "MAX") -> Tensor:
    """The rows of an array, each divided by its norm."""
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
def _array_feature_extractor(x: Tensor, positions: Tensor) -> Tensor:
    """The columns of x at `positions`; those of a vector as a matrix of one row."""
    columns = nnp.take(x, positions.reshape(-1), -1)
    return columns if x.ndim > 1 else columns[None]


@operator("LinearRegressor", domain=_ML)
def _linear_regressor(
    x: Tensor, coefficients: Any = (), intercepts: Any = (), targets: int = 1, post_transform: str = "NONE"
) -> Tensor:
    """The predictions of a linear model, shape (rows, targets): x @ coefficients^T + intercepts, then the function
    `post_transform`.
    """
    y = x.astype(np.float32) @ _floats(coefficients).reshape(targets, -1).T
    return POST[post_transform](y + _floats(intercepts) if intercepts else y)


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
    """The class of each row of x, and the scores x @ coefficients^T + intercepts of all classes, after the function
    `post_transform`.

    The labels of the classes are `classlabels_ints` or `classlabels_strings`. One row of weights for two classes is for the second.
    """
    labels = integers(classlabels_ints, classlabels_strings)
    weights = _floats(coefficients).reshape(-1, x.shape[-1])
    scores = x.astype(np.float32) @ weights.T + (_floats(intercepts) if intercepts else 0)
    if len(weights) == 1 and len(labels) == 2:
        scores = nnp.concatenate([1 - scores if post_transform == "NONE" else -scores, scores], -1)
    scores = POST[post_transform](scores)
    if len(weights) == 1 and len(labels) == 1:
        return nnp.where(scores[:, 0] >= (0 if post_transform == "NONE" else 0.5), labels[0], 0), scores
    return nnp.take(labels, nnp.argmax(scores, -1)), scores


def _kernel(name: str, x: Tensor, vectors: np.ndarray, params: Any) -> Tensor:
    """The kernel `name` ("RBF", "LINEAR", "POLY" or "SIGMOID") of each row of `x` with each support vector.

    `params` are gamma, the constant term and the degree.
    """
    gamma, start, degree = (*params, 0, 0, 0)[:3]
    if name == "RBF":
        return nnp.exp(-gamma * nnp.sum((x[:, None] - vectors) ** 2, -1))
    products = x @ vectors.T
    if name == "LINEAR":
        return products
    return (gamma * products + start) ** int(degree) if name == "POLY" else nnp.tanh(gamma * products + start)


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
    """The predictions of a support vector machine, or of a linear model without support vectors; with `one_class`, 1 or -1."""
    x = x.astype(np.float32)
    if n_supports:
        vectors = _floats(support_vectors).reshape(n_supports, -1)
        y = _kernel(kernel_type, x, vectors, kernel_params) @ _floats(coefficients)[:, None] + _floats(rho)[0]
    else:
        y = x @ _floats(coefficients)[:, None] + _floats(rho)[0]
    return nnp.where(y > 0, 1.0, -1.0).astype(np.float32) if one_class else POST[post_transform](y)


@operator("SVMClassifier", domain=_ML)
def _svm_classifier(
    x: Tensor,
    coefficients: Any = (),
    support_vectors: Any = (),
    vectors_per_class: Any = (),
    rho: Any = (),
    prob_a: Any = (),
    prob_b: Any = (),
    kernel_type: str = "LINEAR",
    kernel_params: Any = (),
    post_transform: str = "NONE",
    classlabels_ints: Any = None,
    classlabels_strings: Any = None,
) -> tuple[Tensor, Tensor]:
    """The class of each row, and the scores of the pairs of classes, or the probabilities of the classes. Raises Refusal if the
    model has no support vectors.

    The support vectors of each pair of classes decide between the two, and each decision is a vote.
    """
    labels, weights = integers(classlabels_ints, classlabels_strings), _floats(coefficients)
    if not sum(vectors_per_class):
        raise Refusal("support vectors", "weights alone")
    count, ends = len(labels), np.cumsum(vectors_per_class)
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    owner, rows = np.repeat(np.arange(count), vectors_per_class), weights.reshape(-1, ends[-1])
    # For each pair of classes (i, j), the weights of all support vectors; only those of i and j count.
    columns = [np.where(owner == i, rows[j - 1], 0) + np.where(owner == j, rows[i], 0) for i, j in pairs]
    kernel = _kernel(kernel_type, x.astype(np.float32), _floats(support_vectors).reshape(ends[-1], -1), kernel_params)
    scores = kernel @ np.stack(columns, 1).astype(np.float32) + _floats(rho)
    first, second = (np.eye(count, dtype=np.float32)[list(side)] for side in zip(*pairs, strict=True))
    wins = (scores > 0).astype(np.float32)
    winner = nnp.argmax(wins @ first + (1 - wins) @ second, -1)
    if prob_a:
        scores = _class_probabilities(scores, pairs, _floats(prob_a), _floats(prob_b))
    elif count == 2:
        scores = scores if post_transform == "PROBIT" else nnp.concatenate([-scores, scores], -1)
    return nnp.take(labels, winner), POST[post_transform](scores)


def _class_probabilities(scores: Tensor, pairs: Any, a: np.ndarray, b: np.ndarray) -> Tensor:
    """The probabilities of the classes, computed from those of pairs of classes: sigmoids of scores * a + b.

    The method is algorithm 2 of Wu, Lin and Weng, "Probability estimates for multi-class classification by pairwise coupling", JMLR
    5 (2004). The first values and the stopping rule are those of LIBSVM, which stops at errors of 0.005 / classes.
    """
    count = len(pairs) * 2 // max(j for _, j in pairs)  # n (n - 1) / 2 pairs of n classes, of which the last one is n - 1
    won = nnp.clip(1 - nn.sigmoid(scores * a + b), 1e-7, 1 - 1e-7)
    zero = nnp.zeros_like(won[:, 0])
    probabilities = [[zero] * count for _ in range(count)]
    for position, (i, j) in enumerate(pairs):
        probabilities[i][j], probabilities[j][i] = won[:, position], 1 - won[:, position]
    # r[i, j]: the probability of class i if the class is i or j.
    r = nnp.stack([nnp.stack(row, -1) for row in probabilities], -2)
    squares = nnp.sum(r * r, -2)
    q = -r.swapaxes(-1, -2) * r + squares[..., None] * np.eye(count, dtype=np.float32)

    def iteration(p: Any, _: Any) -> Any:
        """One iteration of the algorithm on the probabilities p; a row that has converged stays unchanged."""
        qp = nnp.sum(q * p[:, None], -1)
        quadratic_form = nnp.sum(p * qp, -1)
        is_done = nnp.max(nnp.abs(qp - quadratic_form[:, None]), -1) < 0.005 / count
        new = p
        for t in range(count):  # changes the probability of class t, and divides all by their sum 1 + step
            step = (quadratic_form - qp[:, t]) / q[:, t, t]
            new = new + step[:, None] * np.eye(count, dtype=np.float32)[t]
            quadratic_form = (quadratic_form + step * (step * q[:, t, t] + 2 * qp[:, t])) / (1 + step) ** 2
            qp = (qp + step[:, None] * q[:, t]) / (1 + step)[:, None]
            new = new / (1 + step)[:, None]
        return nnp.where(is_done[:, None], p, new), None

    even = nnp.zeros_like(r[..., 0]) + np.float32(1 / count)
    return scan(iteration, even, None, length=max(100, count))[0]


@operator("FeatureVectorizer", domain=_ML)
def _feature_vectorizer(*xs: Tensor, inputdimensions: Any = ()) -> Tensor:
    """The columns of all inputs, concatenated; each input is cut or padded with zeros to its given length."""
    parts = []
    for x, count in zip(xs, inputdimensions, strict=True):
        x = (x[:, None] if x.ndim == 1 else x)[:, :count].astype(np.float32)
        parts.append(nnp.pad(x, ((0, 0), (0, count - x.shape[1]))))
    return nnp.concatenate(parts, 1)


@operator("Imputer", domain=_ML)
def _imputer(
    x: Tensor,
    imputed_value_floats: Any = (),
    imputed_value_int64s: Any = (),
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Tensor:
    """A copy of x in which the missing value is replaced by the given value of each column.

    The missing value is `replaced_value_float` (or NaN), and the values of the columns are `imputed_value_floats`; or both are
    integers.
    """
    values, missing = (
        (imputed_value_floats, replaced_value_float) if imputed_value_floats else (imputed_value_int64s, replaced_value_int64)
    )
    is_missing = nnp.isnan(x) if np.isnan(missing) else x == missing
    return nnp.where(is_missing, np.array(values, x.dtype), x)


@operator("LabelEncoder", domain=_ML, since=2)
def _label_encoder(
    x: Tensor,
    keys_floats: Any = (),
    keys_int64s: Any = (),
    keys_strings: Any = (),
    keys_tensor: Any = None,
    values_floats: Any = (),
    values_int64s: Any = (),
    values_strings: Any = (),
    values_tensor: Any = None,
    default_float: float = -0.0,
    default_int64: int = -1,
    default_string: str = "",
    default_tensor: Any = None,
) -> Tensor:
    """The value that belongs to each element of x as a key, or the default for an unknown key; of repeated keys, the last one
    counts.

    Keys and values are given as a tensor, integers or floats; strings are refused. The parameters are ONNX's attributes.
    """
    keys, values = _numbers(keys_tensor, keys_int64s, keys_floats), _numbers(values_tensor, values_int64s, values_floats)
    default = np.array(default_int64 if values.dtype.kind == "i" else default_float, values.dtype)
    if default_tensor is not None:
        default = _numbers(default_tensor, (), ()).reshape(())
    keys, values = keys[::-1], values[::-1]
    is_equal = x[..., None] == keys
    if keys.dtype.kind == "f":
        is_equal = is_equal | (nnp.isnan(x)[..., None] & np.isnan(keys))
    return nnp.where(nnp.any(is_equal, -1), nnp.take(values, nnp.argmax(is_equal, -1)), default)


def _numbers(tensor: Any, whole: Any, floats: Any) -> np.ndarray:
    """The keys or values of an encoder as one array, from a tensor, integers or floats; raises Refusal if they are strings."""
    if tensor is not None:
        found = array_of(tensor)
        if found.dtype.kind in "OUS":
            raise Refusal("keys and values that are numbers", "strings")
        return found
    if not whole and not floats:
        raise Refusal("keys and values that are numbers", "strings")
    return np.array(whole, np.int64) if whole else _floats(floats)


@operator("OneHotEncoder", domain=_ML)
def _one_hot_encoder(x: Tensor, cats_int64s: Any = (), cats_strings: Any = (), zeros: int = 1) -> Tensor:
    """One at the category of each element, as a new last axis.

    An unknown category gives zeros if `zeros` is set, and NaN otherwise, where ONNX's runtime raises.
    """
    is_equal = x[..., None] == integers(cats_int64s, cats_strings)
    found = is_equal.astype(np.float32)
    return found if zeros else nnp.where(nnp.any(is_equal, -1, keepdims=True), found, np.nan)
