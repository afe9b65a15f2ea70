"""Random arguments for checks. They are the same with every version of NumPy, so that a check can be repeated on another machine.

`numpy.random.RandomState` and its distributions are frozen (NEP 19), and no other operation here depends on the order
of rounding.
"""

from __future__ import annotations

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
_SPECIAL = {"zeros": (0.0, -0.0), "infinities": (np.inf, -np.inf), "NaN": (np.nan,)}


def drawn(
    types: Sequence[tuple[tuple[int, ...], np.dtype]], name: str, draw: str = DRAWS[0], is_definite: bool = False
) -> list[np.ndarray]:
    """One random array for each type, a shape and a dtype; equal names and draws give equal arrays.

    Args:
      types: the types.
      name: the seed, such as the name of a function.
      draw: one of `DRAWS` or `RARE_DRAWS`.
      is_definite: True makes square matrices of the first draw symmetric and positive definite, as factorisations need.

    Example:
      >>> drawn([((2,), np.dtype("f4"))], "f")
      [array([0.30371985, 0.6311757 ], dtype=float32)]
    """
    rng = np.random.RandomState([*name.encode()])
    is_definite &= draw == DRAWS[0]
    return [_array(rng, shape, np.dtype(dtype), draw, is_definite) for shape, dtype in types]


def _array(rng: np.random.RandomState, shape: tuple[int, ...], dtype: np.dtype, draw: str, is_definite: bool) -> np.ndarray:
    """A random array of this shape and dtype; `draw` names the range of its numbers, and `is_definite` is as in `drawn`."""
    if dtype.kind in "biu" or "int" in dtype.name:  # NumPy reports the narrow integers of ml_dtypes as void
        return np.asarray(rng.randint(*_range_of(dtype, draw), shape)).astype(dtype)
    low, high = _RANGES[draw]
    scale = float(max((1, *shape))) ** -0.5 if draw == DRAWS[1] else 1.0
    is_square = len(shape) > 1 and shape[-1] == shape[-2] > 0
    if dtype.kind != "c" and draw not in _SPECIAL and not (is_definite and is_square):
        return _uniform(rng, shape, dtype, low, high, scale)
    x = scale * rng.uniform(low, high, shape)
    x = np.asarray(x + 1j * scale * rng.uniform(low, high, shape) if dtype.kind == "c" else x)
    if draw in _SPECIAL:
        special = np.array(_SPECIAL[draw])[rng.randint(0, len(_SPECIAL[draw]), shape)]
        is_special = np.asarray(rng.randint(0, 4, shape) == 0)
        if is_special.size:
            is_special.reshape(-1)[rng.randint(is_special.size)] = True
        x = np.where(is_special, special, x)
    return (_definite(x) if is_definite and is_square else x).astype(dtype)


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
    diagonal = np.diagonal(x, axis1=-2, axis2=-1).real + 1.0 + np.arange(n) / n
    whole = (x + np.conj(np.swapaxes(x, -1, -2))) / (4.0 * n)
    return np.where(np.eye(n, dtype=bool), diagonal[..., None], whole)
