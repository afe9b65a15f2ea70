"""Functions of sliding windows over the spatial axes of (batch, *spatial, channels): convolution and pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.numpy.operands import common_dtype, convert, inexact, inexact_dtype, require_real, tensor
from nabla_mlir.numpy.reductions import widened
from nabla_mlir.ops.convolution import conv_params, convolution
from nabla_mlir.ops.reduction import identity_of
from nabla_mlir.ops.windows import reduce_window, spread, window_params
from nabla_mlir.staging.eager import library
from nabla_mlir.table.tensor import Tensor, full, full_like

Lengths = int | Sequence[int]
Padding = str | Sequence[tuple[int, int]]


@library
def conv(
    x: ArrayLike, kernel: ArrayLike, strides: Lengths = 1, padding: Padding = "SAME", dilation: Lengths = 1, groups: int = 1
) -> Tensor:
    """The cross-correlation y[b, p, o] = sum over window offsets q and channels i of x[b, s*p + d*q, i] * kernel[q, i, o].

    Args:
      x: (batch, *spatial, channels), one to three spatial axes.
      kernel: (*window, channels / groups, features).
      strides: s, one number or one for each spatial axis.
      padding: "SAME" (ceil(n / s) positions, the odd zero at the end), "VALID" (none), or (low, high) for each
        spatial axis.
      dilation: d, the distance of neighbouring kernel elements.
      groups: channels and features are cut in so many parts; each part of the features sees its part of the channels.

    Returns:
      (batch, *positions, features).

    Raises:
      ShapeError: the shapes do not fit each other, the strides or the groups.

    Example:
      >>> import numpy as np
      >>> conv(np.arange(4.0).reshape(1, 4, 1), np.ones((2, 1, 1)), padding="VALID").ravel().tolist()
      [1.0, 3.0, 5.0]
    """
    dtype = inexact_dtype(common_dtype([x, kernel]))
    x, kernel = convert(tensor(x), dtype), convert(tensor(kernel), dtype)
    rank = _spatial_rank("conv", x)
    if kernel.ndim != x.ndim:
        raise ShapeError(
            f"conv requires a kernel of {x.ndim} axes (*window, channels, features) for an x of shape "
            f"{x.shape}, got shape {kernel.shape}.",
            where=user_frame(),
        )
    if groups < 1 or x.shape[-1] != groups * kernel.shape[-2] or kernel.shape[-1] % groups:
        raise ShapeError(
            f"conv requires {x.shape[-1]} channels of x = groups * channels of the kernel, and features in "
            f"groups, got kernel {kernel.shape} and groups={groups}.",
            where=user_frame(),
        )
    strides, dilation = _lengths("conv", "strides", strides, rank), _lengths("conv", "dilation", dilation, rank)
    window = [spread(n, d) for n, d in zip(kernel.shape[:rank], dilation, strict=True)]
    last = ("b", *range(rank), "f")
    params = conv_params(
        rank,
        dimension_numbers=(last, (*range(rank), "i", "o"), last),
        window_strides=strides,
        rhs_dilation=dilation,
        padding=_padding("conv", padding, x.shape[1:-1], window, strides),
        feature_group_count=groups,
    )
    return convolution(x, kernel, **params, dtype=x.dtype)


@library
def max_pool(x: ArrayLike, window: Lengths, strides: Lengths | None = None, padding: Padding = "VALID") -> Tensor:
    """The largest element of each window; padding is never the result. The first of equal elements gets the derivative, as in JAX.

    Args:
      x: (batch, *spatial, channels), real.
      window: its length, or one for each spatial axis.
      strides: likewise; the window's lengths by default.
      padding: as in `conv`.

    Raises:
      ShapeError: the shapes do not fit.

    Example:
      >>> import numpy as np
      >>> max_pool(np.array([1.0, 3.0, 2.0, 0.0]).reshape(1, 4, 1), 2).ravel().tolist()
      [3.0, 2.0]
    """
    x = require_real("max_pool", inexact(x))
    return _reduced("max_pool", x, "max", window, strides, padding)


@library
def avg_pool(
    x: ArrayLike, window: Lengths, strides: Lengths | None = None, padding: Padding = "VALID", count_padding: bool = True
) -> Tensor:
    """The mean of each window; arguments as in `max_pool`.

    `count_padding=False` divides by the number of elements of x in the window instead of the window's size.

    Example:
      >>> import numpy as np
      >>> avg_pool(np.array([1.0, 3.0, 2.0, 0.0]).reshape(1, 4, 1), 2).ravel().tolist()
      [2.0, 1.0]
    """
    x = inexact(x)
    dtype, x = x.dtype, widened(x)
    total = _reduced("avg_pool", x, "add", window, strides, padding)
    if count_padding:
        return convert(total / math.prod(_lengths("avg_pool", "window", window, x.ndim - 2)), dtype)
    return convert(total / _reduced("avg_pool", full_like(x, 1), "add", window, strides, padding), dtype)


def _reduced(name: str, x: Tensor, body: str, window: Lengths, strides: Lengths | None, padding: Padding) -> Tensor:
    """The reduction of the windows along all axes but the first and the last.

    Args:
      name: the called function, for errors.
      x: the array.
      body: the reduction, such as "max".
      window: the lengths of the window.
      strides: the steps between windows; None means the lengths of the window.
      padding: the padding, as in `max_pool`.
    """
    rank = _spatial_rank(name, x)
    window = _lengths(name, "window", window, rank)
    strides = window if strides is None else _lengths(name, "strides", strides, rank)
    sides = _padding(name, padding, x.shape[1:-1], window, strides)
    params = window_params(
        x.ndim, window_dimensions=(1, *window, 1), window_strides=(1, *strides, 1), padding=((0, 0), *sides, (0, 0))
    )
    return reduce_window(x, full((), identity_of(body, x.dtype), x.dtype), body=body, **params)


# ---------------------------------------------------------------- arguments


def _spatial_rank(name: str, x: Tensor) -> int:
    """The number of spatial axes of x, which has the axes (batch, *spatial, channels); raises ShapeError unless it is 1, 2 or 3."""
    if not 3 <= x.ndim <= 5:
        raise ShapeError(
            f"{name} requires x of shape (batch, *spatial, channels) with one to three spatial axes, got shape {x.shape}.",
            where=user_frame(),
        )
    return x.ndim - 2


def _lengths(name: str, what: str, value: Lengths, rank: int) -> tuple[int, ...]:
    """A positive length for each spatial axis, from one number or all. Raises ShapeError for others; `what` names the argument.

    `value` is one number for all axes, or a sequence.
    """
    lengths = (value,) * rank if isinstance(value, int) else tuple(value)
    if len(lengths) != rank or min(lengths) < 1:
        raise ShapeError(
            f"{name} requires {what} >= 1, one number or {rank} (one for each spatial axis), got {value}.", where=user_frame()
        )
    return lengths


def _padding(
    name: str, value: Padding, sizes: Sequence[int], window: Sequence[int], strides: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    """The padding before and after each spatial axis, from "SAME", "VALID" or pairs of numbers.

    `sizes`, `window` and `strides` have one number for each axis, and `name` is the name of the function, for errors.
    """
    if value == "VALID":
        return ((0, 0),) * len(sizes)
    if value == "SAME":
        totals = [max((-(-n // s) - 1) * s + w - n, 0) for n, w, s in zip(sizes, window, strides, strict=True)]
        return tuple((p // 2, p - p // 2) for p in totals)
    if isinstance(value, str) or len(value) != len(sizes):
        raise ShapeError(
            f'{name} requires padding "SAME", "VALID" or {len(sizes)} pairs (low, high), got {value!r}.', where=user_frame()
        )
    return tuple((int(low), int(high)) for low, high in value)
