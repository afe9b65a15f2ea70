"""Convolution and correlation of vectors, and the windows of spectral analysis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.numpy.operands import convert
from nabla_mlir.numpy.products import as_preferred, pair
from nabla_mlir.numpy.shapes import flip
from nabla_mlir.numpy.special_values import described
from nabla_mlir.numpy.ufuncs import conj
from nabla_mlir.ops.convolution import convolution, numbers
from nabla_mlir.ops.shape import reshaped
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import Defaults, common_type
from nabla_mlir.table.tensor import Tensor, constant


def convolved(name: str, a: Tensor, v: Tensor, mode: str) -> Tensor:
    """The convolution of `a` and `v` along all axes: "full", "same" (the shape of the first array) or "valid".

    Both arrays have as many axes. `name` is the caller, for errors.
    """
    if mode not in ("full", "same", "valid"):
        raise ShapeError(f"{name} requires mode 'full', 'same' or 'valid', got {mode!r}.", where=user_frame())
    if a.ndim != v.ndim or not a.size or not v.size:
        raise ShapeError(
            f"{name} requires arrays with as many axes and some elements, got shapes {a.shape} and {v.shape}.", where=user_frame()
        )
    dtype = common_type(a.dtype, v.dtype)
    a, v = (convert(x, dtype) for x in (a, v))
    around = []
    for n in v.shape:
        low, high = {"full": (n - 1, n - 1), "valid": (0, 0), "same": (n // 2, n - n // 2 - 1)}[mode]
        around.append((low, high))
    rank = a.ndim
    position = tuple(range(rank + 2))
    ones = (1,) * rank
    out = convolution(
        reshaped(a, (1, 1, *a.shape)),
        reshaped(v, (1, 1, *v.shape)),
        dimension_numbers=numbers(position, position, position),
        window_strides=ones,
        padding=tuple(around),
        lhs_dilation=ones,
        rhs_dilation=ones,
        window_reversal=(True,) * rank,
        feature_group_count=1,
        batch_group_count=1,
        precision_config=None,
        dtype=dtype,
    )
    return reshaped(out, out.shape[2:])


def _vectors(name: str, a: Any, v: Any, preference: Any) -> tuple[Tensor, Tensor]:
    """Both operands in one dtype, at least the preferred one; raises ShapeError unless they are vectors. `name` is the caller."""
    x, y = pair(name, a, v, preference)
    if x.ndim != 1 or y.ndim != 1:
        raise ShapeError(f"{name} requires vectors, got shapes {x.shape} and {y.shape}.", where=user_frame())
    return x, y


@library
def convolve(
    a: ArrayLike, v: ArrayLike, mode: str = "full", *, precision: Any = None, preferred_element_type: Any = None
) -> Tensor:
    """The convolution of vectors, ``c[k] = sum_i a[i] v[k - i]``.

    Args:
      a, v: the vectors.
      mode: "full", "same" (the length of the longer vector) or "valid" (only complete overlaps).
      precision: has no effect; every product has the precision of its dtype.
      preferred_element_type: the dtype of the result.

    Raises:
      ShapeError: an argument is not a vector or is empty, or the mode is unknown.

    Example:
      >>> convolve(np.array([1.0, 2.0]), np.array([1.0, 10.0])).tolist()
      [1.0, 12.0, 20.0]
    """
    x, y = _vectors("convolve", a, v, preferred_element_type)
    if x.size < y.size:
        x, y = y, x
    return as_preferred(convolved("convolve", x, y, mode), preferred_element_type)


@library
def correlate(
    a: ArrayLike, v: ArrayLike, mode: str = "valid", *, precision: Any = None, preferred_element_type: Any = None
) -> Tensor:
    """The correlation of vectors, ``c[k] = sum_i a[i + k] conj(v[i])``; arguments as for `convolve`.

    Example:
      >>> correlate(np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0])).tolist()
      [2.0, 3.0]
    """
    x, y = _vectors("correlate", a, v, preferred_element_type)
    y = flip(conj(y))
    if x.size >= y.size:
        return as_preferred(convolved("correlate", x, y, mode), preferred_element_type)
    # The correlation of exchanged operands is the reversed result.
    return as_preferred(flip(convolved("correlate", flip(y), flip(x), mode)), preferred_element_type)


# ---------------------------------------------------------------- windows
def _window(name: str, doc: str) -> Callable[..., Any]:
    """The function `name` for a window of spectral analysis, such as "hanning", whose values NumPy computes; `doc` is its
    docstring.
    """
    numbers_of = getattr(np, name)

    @described(name, doc)
    def f(M: Static[int], *shape: float) -> Tensor:  # M: the number of points; shape: further parameters, such as Kaiser's beta
        return constant(np.asarray(numbers_of(M, *shape)).astype(Defaults.float))

    return library(f)


bartlett: Callable[..., Any] = _window("bartlett", "The window of Bartlett with M samples: a triangle that ends at 0.")
blackman: Callable[..., Any] = _window(
    "blackman", "The window of Blackman with M samples: 0.42 - 0.5 cos(t) + 0.08 cos(2t), t = 2 pi n / (M - 1)."
)
hamming: Callable[..., Any] = _window("hamming", "The window of Hamming with M samples: 0.54 - 0.46 cos(2 pi n / (M - 1)).")
hanning: Callable[..., Any] = _window("hanning", "The window of Hann with M samples: 0.5 - 0.5 cos(2 pi n / (M - 1)).")


@library
def kaiser(M: Static[int], beta: Static[float]) -> Tensor:
    """The Kaiser window of M samples with the known shape parameter `beta`."""
    return constant(np.kaiser(M, beta).astype(Defaults.float))
