"""Losses, and one-hot labels."""

from __future__ import annotations

from typing import Any

from nabla_mlir.base.errors import DtypeError, ShapeError, user_frame
from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.dialects.types import is_integer
from nabla_mlir.nn.activations import log_softmax, shifted_by_largest, softplus_of
from nabla_mlir.numpy.axes import Axis, axes_of, axis_of, shape_of
from nabla_mlir.numpy.operands import convert, inexact, inexacts, tensor
from nabla_mlir.numpy.reductions import fold, wide_mean, widened
from nabla_mlir.numpy.special_values import nan_where
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import logic as lg
from nabla_mlir.ops import shape as sh
from nabla_mlir.ops.guards import product
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import Defaults
from nabla_mlir.table.tensor import Tensor, full_like


@library
def one_hot(x: ArrayLike, num_classes: Static[int], dtype: Any = None, axis: Static[int] = -1) -> Tensor:
    """A new axis of length `num_classes`, with 1 at the label and 0 elsewhere; all are 0 for a label out of range.

    Raises:
      DtypeError: the labels are not integers.
    """
    labels = tensor(x)
    return convert(_is_label("one_hot", labels, num_classes, axis), Defaults.float if dtype is None else dtype)


def _is_label(name: str, labels: Tensor, classes: int, axis: int) -> Tensor:
    """True where a class is the label: a one-hot encoding with the classes along `axis`."""
    if not is_integer(labels.dtype):
        raise DtypeError(f"{name} requires integer labels, got {labels.dtype}.", where=user_frame())
    axis = axis_of(name, axis, labels.ndim + 1)
    shape = (*labels.shape[:axis], *shape_of(name, classes), *labels.shape[axis:])
    positions = sh.iota(shape=shape, dtype=labels.dtype, iota_dimension=axis)
    return lg.compare(sh.expand(labels, shape, (axis,)), positions, comparison_direction="EQ")


def _same_shapes(name: str, a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """The arrays `a` and `b` in one floating-point dtype; raises ShapeError if their shapes differ. `name` is the function's, for
    errors.
    """
    shapes = tensor(a).shape, tensor(b).shape
    if shapes[0] != shapes[1]:
        # Broadcasting here is nearly always a mistake, (n, 1) against (n,), and silently wrong.
        raise ShapeError(f"{name} requires two arrays of one shape, got {shapes[0]} and {shapes[1]}.", where=user_frame())
    first, second = inexacts(name, a, b)
    return first, second


@library
def squared_error(predictions: ArrayLike, targets: ArrayLike) -> Tensor:
    """(predictions - targets)**2, element by element."""
    predictions, targets = _same_shapes("squared_error", predictions, targets)
    return ew.square(predictions - targets)


@library
def mse(predictions: ArrayLike, targets: ArrayLike) -> Tensor:
    """The mean of (predictions - targets)**2 over all elements."""
    predictions, targets = _same_shapes("mse", predictions, targets)
    squares = ew.square(widened(predictions - targets))
    return convert(wide_mean(squares, tuple(range(squares.ndim))), predictions.dtype)


@library
def huber(predictions: ArrayLike, targets: ArrayLike, delta: float = 1.0) -> Tensor:
    """d**2 / 2 for abs(d) <= delta, else delta * (abs(d) - delta / 2); d = predictions - targets, elementwise."""
    predictions, targets = _same_shapes("huber", predictions, targets)
    difference = predictions - targets
    size = ew.absolute(difference)
    linear = size * delta - 0.5 * delta * delta
    # Strictly: for delta = 0 the function is 0, and so is its second derivative. NaN stays, in the linear part.
    return lg.select(size < delta, convert(ew.square(difference) * 0.5, linear.dtype), linear)


@library
def softmax_cross_entropy(logits: ArrayLike, labels: ArrayLike, axis: Static[int] = -1) -> Tensor:
    """-sum(labels * log_softmax(logits)) over `axis`; labels are probabilities, one-hot for instance."""
    logits, labels = _same_shapes("softmax_cross_entropy", logits, labels)
    return -fold(labels * log_softmax(logits, axis), axes_of("softmax_cross_entropy", axis, logits.ndim), "add")


@library
def softmax_cross_entropy_with_integer_labels(logits: ArrayLike, labels: ArrayLike, axis: Static[int] = -1) -> Tensor:
    """logsumexp(logits) - logits[label] along `axis`.

    Args:
      logits: an array with an axis of classes.
      labels: integers in [0, classes), in the shape of the logits without that axis.
      axis: the axis of classes.

    Raises:
      ShapeError: the shapes do not fit.
    """
    name = "softmax_cross_entropy_with_integer_labels"
    logits, labels = inexact(logits), tensor(labels)
    axis = axis_of(name, axis, logits.ndim)
    if labels.shape != logits.shape[:axis] + logits.shape[axis + 1 :]:
        raise ShapeError(
            f"{name} requires labels in the shape of the logits without axis {axis}, got {logits.shape} and {labels.shape}.",
            where=user_frame(),
        )
    # The label's logit by comparison: its derivative is a mask, where that of a gather would be a scatter.
    shifted, axes = shifted_by_largest(name, logits, axis)
    label_logits = lg.select(_is_label(name, labels, logits.shape[axis], axis), shifted, full_like(shifted, 0))
    total = ew.log(fold(widened(ew.exponential(shifted)), axes, "add"))
    return convert(total, shifted.dtype) - fold(label_logits, axes, "add")


@library
def binary_cross_entropy_with_logits(logits: ArrayLike, labels: ArrayLike) -> Tensor:
    """-labels * log(sigmoid(logits)) - (1 - labels) * log(1 - sigmoid(logits)), elementwise, without overflow."""
    logits, labels = _same_shapes("binary_cross_entropy_with_logits", logits, labels)
    return softplus_of(logits) - labels * logits


@library
def kl_divergence(log_predictions: ArrayLike, targets: ArrayLike, axis: Static[Axis] = -1) -> Tensor:
    """sum(targets * (log(targets) - log_predictions)) over `axis`; a target of 0 contributes nothing."""
    predictions, targets = _same_shapes("kl_divergence", log_predictions, targets)
    weights = nan_where(predictions, targets)
    return fold(product(weights, ew.log(targets) - predictions), axes_of("kl_divergence", axis, targets.ndim), "add")
