"""Functions of neural networks: activations, normalisations, losses.

Conventions as in JAX: the derivative of relu is 0 at 0, and NaN stays NaN. Losses of a batch keep the batch axes;
take their mean for a scalar.
"""

from __future__ import annotations

import math
from typing import Any

from nabla_mlir.dialects.types import is_integer
from nabla_mlir.eager import library
from nabla_mlir.errors import DtypeError, ShapeError, user_frame
from nabla_mlir.numpy.common import Axis, axes_of, axis_of, convert, inexact, inexacts, require_real, sliced, tensor
from nabla_mlir.numpy.reductions import count, finite_max, fold, spread
from nabla_mlir.numpy.reductions import logsumexp as logsumexp
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import shape as sh
from nabla_mlir.ops.promotion import Defaults
from nabla_mlir.ops.tensor import Tensor, full, full_like


def _not_above(x: Tensor, bound: float) -> Tensor:
    return ew.compare(x, full_like(x, bound), comparison_direction="LE")


# ---------------------------------------------------------------- activations
@library
def relu(x: Any) -> Tensor:
    """max(x, 0), with derivative 0 at 0.

    Example:
      >>> import numpy as np
      >>> relu(np.array([-1.0, 2.0])).tolist()
      [0.0, 2.0]
    """
    x = require_real("relu", tensor(x))
    # Not maximum, whose ties share the derivative. NaN is not <= 0 and stays.
    return ew.select(_not_above(x, 0), full_like(x, 0), x)


@library
def relu6(x: Any) -> Tensor:
    """min(max(x, 0), 6), with derivative 0 at both bends."""
    return _clamped(inexact(x), 0.0, 6.0)


def _clamped(x: Tensor, low: float, high: float) -> Tensor:
    return ew.clamp(full((), low, x.dtype), x, full((), high, x.dtype))


@library
def hard_tanh(x: Any) -> Tensor:
    """min(max(x, -1), 1)."""
    return _clamped(inexact(x), -1.0, 1.0)


@library
def hard_sigmoid(x: Any) -> Tensor:
    """relu6(x + 3) / 6."""
    return _clamped(inexact(x) + 3.0, 0.0, 6.0) * (1 / 6)


@library
def hard_silu(x: Any) -> Tensor:
    """X * hard_sigmoid(x)."""
    x = inexact(x)
    return x * hard_sigmoid(x)


hard_swish = hard_silu


@library
def sigmoid(x: Any) -> Tensor:
    """1 / (1 + exp(-x))."""
    return ew.logistic(inexact(x))


@library
def tanh(x: Any) -> Tensor:
    """The hyperbolic tangent."""
    return ew.tanh(inexact(x))


@library
def silu(x: Any) -> Tensor:
    """X * sigmoid(x)."""
    x = inexact(x)
    return x * ew.logistic(x)


swish = silu


@library
def softplus(x: Any) -> Tensor:
    """log(1 + exp(x)), without overflow."""
    return _softplus(inexact(x))


def _softplus(x: Tensor) -> Tensor:
    # Branches of the same smooth function, so that derivatives of every order are right at 0 too.
    zero = full_like(x, 0)
    positive = ew.compare(x, zero, comparison_direction="GT")
    return ew.select(positive, x, zero) + ew.log_plus_one(ew.exponential(ew.select(positive, -x, x)))


@library
def log_sigmoid(x: Any) -> Tensor:
    """log(sigmoid(x)), without underflow."""
    return -_softplus(-inexact(x))


@library
def gelu(x: Any, approximate: bool = True) -> Tensor:
    """X times the normal distribution function of x, exactly or by the usual approximation with tanh."""
    x = inexact(x)
    if approximate:
        inner = (x + x * ew.square(x) * 0.044715) * math.sqrt(2 / math.pi)
        return x * ((ew.tanh(inner) + 1.0) * 0.5)
    return x * (ew.erfc(x * -math.sqrt(0.5)) * 0.5)


def _negative_part(x: Tensor) -> tuple[Tensor, Tensor]:
    """Where x <= 0, and x there, so that an exponential of it cannot overflow."""
    negative = _not_above(x, 0)
    return negative, ew.select(negative, x, full_like(x, 0))


@library
def elu(x: Any, alpha: float = 1.0) -> Tensor:
    """X for x > 0, else alpha * (exp(x) - 1)."""
    x = inexact(x)
    negative, low = _negative_part(x)
    return ew.select(negative, ew.exponential_minus_one(low) * alpha, x)


@library
def celu(x: Any, alpha: float = 1.0) -> Tensor:
    """X for x > 0, else alpha * (exp(x / alpha) - 1)."""
    x = inexact(x)
    negative, low = _negative_part(x)
    return ew.select(negative, ew.exponential_minus_one(low / alpha) * alpha, x)


@library
def selu(x: Any) -> Tensor:
    """Elu scaled so that it keeps mean 0 and variance 1."""
    return elu(x, 1.6732632423543772) * 1.0507009873554805


@library
def leaky_relu(x: Any, negative_slope: float = 0.01) -> Tensor:
    """X for x > 0, else negative_slope * x."""
    x = inexact(x)
    return ew.select(ew.compare(x, full_like(x, 0), comparison_direction="GE"), x, x * negative_slope)


@library
def glu(x: Any, axis: int = -1) -> Tensor:
    """The first half of `x` along `axis` times the sigmoid of the second.

    Raises:
      ShapeError: the axis has an odd length.
    """
    x = inexact(x)
    axis = axis_of("glu", axis, x.ndim)
    n = x.shape[axis]
    if n % 2:
        raise ShapeError(f"glu requires an even length along axis {axis}, got shape {x.shape}.", where=user_frame())
    return sliced(x, axis, 0, n // 2) * ew.logistic(sliced(x, axis, n // 2, n))


# ---------------------------------------------------------------- over axes
def _shifted(name: str, x: Any, axis: Axis) -> tuple[Tensor, tuple[int, ...]]:
    """`x` less its largest element, which is a constant of differentiation: the results do not depend on it."""
    x = require_real(name, inexact(x))
    axes = axes_of(name, axis, x.ndim)
    return (x - spread(finite_max(x, axes), x.shape, axes), axes) if count(x.shape, axes) else (x, axes)


@library
def softmax(x: Any, axis: Axis = -1) -> Tensor:
    """exp(x) / sum(exp(x)) over `axis`, without overflow."""
    shifted, axes = _shifted("softmax", x, axis)
    powers = ew.exponential(shifted)
    return powers / spread(fold(powers, axes, "add"), powers.shape, axes)


@library
def log_softmax(x: Any, axis: Axis = -1) -> Tensor:
    """X - logsumexp(x) over `axis`, without overflow."""
    shifted, axes = _shifted("log_softmax", x, axis)
    return shifted - spread(ew.log(fold(ew.exponential(shifted), axes, "add")), shifted.shape, axes)


@library
def one_hot(labels: Any, num_classes: int, dtype: Any = None, axis: int = -1) -> Tensor:
    """A new axis of length `num_classes`, with 1 at the label and 0 elsewhere (everywhere for a label outside).

    Raises:
      DtypeError: the labels are not integers.
    """
    labels = tensor(labels)
    return convert(_is_label("one_hot", labels, num_classes, axis), Defaults.float if dtype is None else dtype)


def _is_label(name: str, labels: Tensor, classes: int, axis: int) -> Tensor:
    if not is_integer(labels.dtype):
        raise DtypeError(f"{name} requires integer labels, got {labels.dtype}.", where=user_frame())
    axis = axis_of(name, axis, labels.ndim + 1)
    shape = (*labels.shape[:axis], classes, *labels.shape[axis:])
    places = sh.iota(shape=shape, dtype=labels.dtype, iota_dimension=axis)
    return ew.compare(sh.expand(labels, shape, (axis,)), places, comparison_direction="EQ")


@library
def standardize(x: Any, axis: Axis = -1, epsilon: float = 1e-5) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) over `axis`."""
    x = inexact(x)
    axes = axes_of("standardize", axis, x.ndim)
    n = count(x.shape, axes)
    centred = x - spread(fold(x, axes, "add") / n, x.shape, axes)
    variance = fold(ew.square(centred), axes, "add") / n
    return centred * spread(ew.rsqrt(variance + epsilon), x.shape, axes)


@library
def layer_norm(x: Any, scale: Any = None, bias: Any = None, axis: Axis = -1, epsilon: float = 1e-5) -> Tensor:
    """standardize(x) * scale + bias; scale and bias broadcast against x."""
    return _affine(standardize(x, axis, epsilon), scale, bias)


@library
def rms_norm(x: Any, scale: Any = None, axis: Axis = -1, epsilon: float = 1e-6) -> Tensor:
    """X / sqrt(mean(x**2) + epsilon) over `axis`, times scale."""
    x = inexact(x)
    axes = axes_of("rms_norm", axis, x.ndim)
    power = fold(ew.square(x), axes, "add") / count(x.shape, axes)
    return _affine(x * spread(ew.rsqrt(power + epsilon), x.shape, axes), scale, None)


def _affine(x: Tensor, scale: Any, bias: Any) -> Tensor:
    x = x if scale is None else x * tensor(scale)
    return x if bias is None else x + tensor(bias)


# ---------------------------------------------------------------- losses
def _same_shapes(name: str, a: Any, b: Any) -> tuple[Tensor, Tensor]:
    shapes = tensor(a).shape, tensor(b).shape
    if shapes[0] != shapes[1]:
        # Broadcasting here is nearly always a mistake, (n, 1) against (n,), and silently wrong.
        raise ShapeError(
            f"{name} requires two arrays of one shape, got {shapes[0]} and {shapes[1]}.", where=user_frame()
        )
    first, second = inexacts(name, a, b)
    return first, second


@library
def squared_error(predictions: Any, targets: Any) -> Tensor:
    """(predictions - targets)**2, element by element."""
    predictions, targets = _same_shapes("squared_error", predictions, targets)
    return ew.square(predictions - targets)


@library
def mse(predictions: Any, targets: Any) -> Tensor:
    """The mean of (predictions - targets)**2 over all elements."""
    predictions, targets = _same_shapes("mse", predictions, targets)
    squares = ew.square(predictions - targets)
    return fold(squares, tuple(range(squares.ndim)), "add") / squares.size


@library
def huber(predictions: Any, targets: Any, delta: float = 1.0) -> Tensor:
    """d**2 / 2 for abs(d) <= delta, else delta * (abs(d) - delta / 2); d = predictions - targets, elementwise."""
    predictions, targets = _same_shapes("huber", predictions, targets)
    difference = predictions - targets
    size = ew.absolute(difference)
    return ew.select(_not_above(size, delta), ew.square(difference) * 0.5, size * delta - 0.5 * delta * delta)


@library
def softmax_cross_entropy(logits: Any, labels: Any, axis: int = -1) -> Tensor:
    """-sum(labels * log_softmax(logits)) over `axis`; labels are probabilities, one-hot for instance."""
    logits, labels = _same_shapes("softmax_cross_entropy", logits, labels)
    return -fold(labels * log_softmax(logits, axis), axes_of("softmax_cross_entropy", axis, logits.ndim), "add")


@library
def softmax_cross_entropy_with_integer_labels(logits: Any, labels: Any, axis: int = -1) -> Tensor:
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
        raise ShapeError(f"{name} requires labels in the shape of the logits without axis {axis}, got {logits.shape} "
                         f"and {labels.shape}.", where=user_frame())  # fmt: skip
    # The label's logit by comparison: its derivative is a mask, where that of a gather would be a scatter.
    shifted, axes = _shifted(name, logits, axis)
    mine = ew.select(_is_label(name, labels, logits.shape[axis], axis), shifted, full_like(shifted, 0))
    return ew.log(fold(ew.exponential(shifted), axes, "add")) - fold(mine, axes, "add")


@library
def binary_cross_entropy_with_logits(logits: Any, labels: Any) -> Tensor:
    """-labels * log(sigmoid(logits)) - (1 - labels) * log(1 - sigmoid(logits)), elementwise, without overflow."""
    logits, labels = _same_shapes("binary_cross_entropy_with_logits", logits, labels)
    return _softplus(logits) - labels * logits


@library
def kl_divergence(log_predictions: Any, targets: Any, axis: Axis = -1) -> Tensor:
    """sum(targets * (log(targets) - log_predictions)) over `axis`; a target of 0 contributes nothing."""
    predictions, targets = _same_shapes("kl_divergence", log_predictions, targets)
    absent = ew.compare(targets, full_like(targets, 0), comparison_direction="EQ")
    logs = ew.log(ew.select(absent, full_like(targets, 1), targets))
    return fold(targets * (logs - predictions), axes_of("kl_divergence", axis, targets.ndim), "add")
