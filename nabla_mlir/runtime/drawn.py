"""Random arguments for checks. They are the same with every version of NumPy, so that a check can be repeated on another machine.

`numpy.random.RandomState` and its distributions are frozen (NEP 19), and no other operation here depends on the order
of rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

# Each name stands for the same numbers in every release: artifacts carry it.
DRAWS = ("numbers around 1", "small numbers of both signs", "numbers of both signs", "large numbers of both signs")
# For branches that none of these reaches. In the last three a quarter of the elements are special, and at least one.
RARE_DRAWS = ("huge numbers of both signs", "huge numbers", "tiny numbers of both signs", "zeros", "infinities", "NaN")
_RANGES = dict(
    zip(
        (*DRAWS, *RARE_DRAWS),
        ((0.2, 0.9), (-1.0, 1.0), (-2.5, 2.5), (-20.0, 20.0), (-2e3, 2e3), (0.0, 2e3), (-1e-4, 1e-4), *[(-2.5, 2.5)] * 3),
        strict=True,
    )
)  # of real numbers
_PART = 1 << 15  # the number of elements that are drawn at once
# The form of new references; those of older artifacts have form 1, in which each element is drawn. From form 2 on, an array of more
# than `_BLOCK` elements repeats a block, which takes a quarter of the time. The length is prime, so that no two rows of an array
# are equal.
FORM = 2
_BLOCK = 32_749
_LARGE = 16  # the length of a side from which on arguments are scaled
_VARIANCE = 0.5  # between those of numbers from -1 to 1, and of those above a half
_SCALARS = dict.fromkeys(DRAWS[1:3], 2.0**-10)  # the factors of scalars beside large arrays
_SPECIAL = {"zeros": (0.0, -0.0), "infinities": (np.inf, -np.inf), "NaN": (np.nan,)}


def drawn(
    types: Sequence[tuple[tuple[int, ...], np.dtype]], name: str, draw: str = DRAWS[0], is_definite: bool = False, form: int = 1
) -> list[np.ndarray]:
    """One random array for each type, a shape and a dtype; equal names and draws give equal arrays.

    Args:
      types: the types.
      name: the seed, such as the name of a function.
      draw: one of `DRAWS` or `RARE_DRAWS`.
      is_definite: True makes square matrices of the first draw symmetric and positive definite, as factorisations need.
      form: the version of the method; `FORM` is the newest.

    Example:
      >>> drawn([((2,), np.dtype("f4"))], "f")
      [array([0.30371985, 0.6311757 ], dtype=float32)]
    """
    # In form 1, all draws have the same order of their numbers, hence the same largest one.
    seed = f"{name}, {draw}" if form > 1 and draw in DRAWS else name
    rng = np.random.RandomState([*seed.encode()])
    is_definite &= draw == DRAWS[0]
    longest = max((side for shape, _ in types for side in shape), default=0)
    return [
        _array(rng, shape, np.dtype(dtype), draw, is_definite, form, _scale(shape, draw, form, longest)) for shape, dtype in types
    ]


def _array(
    rng: np.random.RandomState, shape: tuple[int, ...], dtype: np.dtype, draw: str, is_definite: bool, form: int, scale: float
) -> np.ndarray:
    """A random array of this shape and dtype, multiplied by `scale`; the other parameters are as in `drawn`."""
    if is_definite and len(shape) > 1 and shape[-1] == shape[-2] > 0 and not _is_integer(dtype):
        return _definite(_numbers(rng, shape, np.dtype("c16" if dtype.kind == "c" else "f8"), draw, 1.0)).astype(dtype)
    is_long = form > 1 and math.prod(shape) > _BLOCK
    x = _numbers(rng, (_BLOCK,) if is_long else shape, dtype, draw, scale)
    if form > 1 and draw in DRAWS[1:3] and dtype.kind == "f" and max((0, *shape)) >= _LARGE:
        # Larger than half of the largest, so that each element counts.
        x = (x + np.copysign(dtype.type(scale * _RANGES[draw][1]), x)) / dtype.type(2)
    if is_long:
        x = _repeated(x, shape)
    if form > 1 and draw == DRAWS[3] and dtype.kind == "f" and len(shape) > 1:
        x = np.copysign(x, x[..., :1])  # rows of one sign, so that the largest number of some rows is negative
    return x


def _scale(shape: tuple[int, ...], draw: str, form: int, longest: int) -> float:
    """The factor of the numbers of an array; `longest` is the length of the longest side of all arguments.

    Since form 2, products with large matrices keep the size of what they multiply, except for "large numbers". In form 1, vectors
    of "small numbers" were scaled as well, so that terms with a product vanished beside others.
    """
    if form == 1:
        return float(max((1, *shape))) ** -0.5 if draw == DRAWS[1] else 1.0
    if not shape and longest >= _LARGE:  # such as the factor of a penalty, which hides the rest
        return _SCALARS.get(draw, 1.0)
    side = max(shape[-2:]) if len(shape) > 1 else 0
    if draw == DRAWS[1] and side > 3:
        return float((_VARIANCE * side) ** -0.5)
    if draw == DRAWS[2] and side >= _LARGE:
        return float((_VARIANCE * side) ** -0.5) / _RANGES[draw][1]
    return float(side**-0.5) if draw == DRAWS[0] and side >= _LARGE else 1.0


def _repeated(block: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """An array of this shape that repeats a block; each repetition of numbers of floating point is a little smaller: no ties."""
    x = np.empty(shape, block.dtype)
    flat, is_integer = x.reshape(-1), _is_integer(block.dtype)
    for k, i in enumerate(range(0, flat.size, _BLOCK)):
        part = flat[i : i + _BLOCK]
        with np.errstate(invalid="ignore"):  # of a complex number with an infinite part
            part[...] = block[: part.size] if is_integer else block[: part.size] * block.dtype.type(1 - k % 256 / 1024)
    return x


def _is_integer(dtype: np.dtype) -> bool:
    """True for integers and truth values; NumPy reports the narrow integers of ml_dtypes as void."""
    return dtype.kind in "biu" or "int" in dtype.name


def _numbers(rng: np.random.RandomState, shape: tuple[int, ...], dtype: np.dtype, draw: str, scale: float) -> np.ndarray:
    """An array each of whose elements is drawn; real and complex numbers are multiplied by `scale`."""
    if _is_integer(dtype):
        return np.asarray(rng.randint(*_range_of(dtype, draw), shape)).astype(dtype)
    low, high = _RANGES[draw]
    if dtype.kind != "c" and draw not in _SPECIAL:
        return _uniform(rng, shape, dtype, low, high, scale)
    x = scale * rng.uniform(low, high, shape)
    x = np.asarray(x + 1j * scale * rng.uniform(low, high, shape) if dtype.kind == "c" else x)
    if draw in _SPECIAL:
        special = np.array(_SPECIAL[draw])[rng.randint(0, len(_SPECIAL[draw]), shape)]
        is_special = np.asarray(rng.randint(0, 4, shape) == 0)
        if is_special.size:
            is_special.reshape(-1)[rng.randint(is_special.size)] = True
        x = np.where(is_special, special, x)
    return x.astype(dtype)


def _uniform(
    rng: np.random.RandomState, shape: tuple[int, ...], dtype: np.dtype, low: float, high: float, scale: float
) -> np.ndarray:
    """An array of random numbers, ``scale * rng.uniform(low, high, shape)``, in this dtype.

    It is filled in parts that fit a cache: the whole at once takes 1.6 times as long.
    """
    x = np.empty(shape, dtype)
    flat = x.reshape(-1)
    for i in range(0, flat.size, _PART):
        part = flat[i : i + _PART]
        part[...] = scale * rng.uniform(low, high, part.shape)
    return x


def _range_of(dtype: np.dtype, draw: str) -> tuple[int, int]:
    """The smallest integer that is drawn for a dtype, and the one after the largest; narrow dtypes hold only -2 to 1, or 0 to 3."""
    if draw in DRAWS[:2] or dtype.kind == "b":
        return 0, 2
    largest = 9 if draw == DRAWS[2] else 100
    is_wide, is_unsigned = dtype.kind in "iu", dtype.kind == "u" or dtype.name.startswith("uint")
    return (0 if is_unsigned else -largest if is_wide else -2), (largest + 1 if is_wide else 4 if is_unsigned else 2)


def _definite(x: np.ndarray) -> np.ndarray:
    """Positive definite Hermitian matrices with distinct eigenvalues, made from random square matrices x."""
    n = x.shape[-1]
    # The diagonal is large, so the matrices are definite; its steps of 1 / n keep the eigenvalues distinct.
    diagonal = np.diagonal(x, axis1=-2, axis2=-1).real + 1.0 + np.arange(n) / n
    hermitian = (x + np.conj(np.swapaxes(x, -1, -2))) / (4.0 * n)
    return np.where(np.eye(n, dtype=bool), diagonal[..., None], hermitian)
