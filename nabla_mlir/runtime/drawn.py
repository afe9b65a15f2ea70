"""Random arguments for checks. They are the same with every version of NumPy, so that a check can be repeated on another machine.

`numpy.random.RandomState` and its distributions are frozen (NEP 19), and no other operation here depends on the order
of rounding.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

DRAWS = ("numbers around 1", "small numbers of both signs")


def drawn(
    types: Sequence[tuple[tuple[int, ...], np.dtype]], name: str, draw: str = DRAWS[0], is_definite: bool = False
) -> list[np.ndarray]:
    """One array for each type; equal names and draws give equal arrays.

    Args:
      draw: one of `DRAWS`.
      is_definite: True makes square matrices of the first draw symmetric and positive definite, as factorisations need.

    Example:
      >>> drawn([((2,), np.dtype("f4"))], "f")
      [array([0.30371985, 0.6311757 ], dtype=float32)]
    """
    rng = np.random.RandomState([*name.encode()])
    is_definite &= draw == DRAWS[0]
    return [_array(rng, shape, np.dtype(dtype), draw, is_definite) for shape, dtype in types]


def _array(rng: np.random.RandomState, shape: tuple[int, ...], dtype: np.dtype, draw: str, is_definite: bool) -> np.ndarray:
    if dtype.kind in "biu" or "int" in dtype.name:  # NumPy reports the narrow integers of ml_dtypes as void
        return np.asarray(rng.randint(0, 2, shape)).astype(dtype)
    low, high, scale = (0.2, 0.9, 1.0) if draw == DRAWS[0] else (-1.0, 1.0, float(max((1, *shape))) ** -0.5)
    x = scale * rng.uniform(low, high, shape)
    x = np.asarray(x + 1j * scale * rng.uniform(low, high, shape) if dtype.kind == "c" else x)
    is_square = len(shape) > 1 and shape[-1] == shape[-2] > 0
    return (_definite(x) if is_definite and is_square else x).astype(dtype)


def _definite(x: np.ndarray) -> np.ndarray:
    """Hermitian matrices with a dominant diagonal and distinct eigenvalues."""
    n = x.shape[-1]
    diagonal = np.diagonal(x, axis1=-2, axis2=-1).real + 1.0 + np.arange(n) / n
    whole = (x + np.conj(np.swapaxes(x, -1, -2))) / (4.0 * n)
    return np.where(np.eye(n, dtype=bool), diagonal[..., None], whole)
