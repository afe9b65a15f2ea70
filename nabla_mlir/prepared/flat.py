"""Conversions for operators: pytrees of a manifest as flat vectors, and numbers in the form that solvers expect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nabla_mlir.base.errors import DtypeError
from nabla_mlir.runtime.element_types import dtype_named
from nabla_mlir.runtime.manifest import Leaf
from nabla_mlir.runtime.treespec import TreeSpec


class Flat:
    """Pytrees of one structure as vectors: their leaves, concatenated."""

    spec: TreeSpec
    shapes: list[tuple[int, ...]]

    def __init__(self, spec: TreeSpec, leaves: Sequence[Leaf]):
        self.spec, self.shapes = spec, [leaf.shape for leaf in leaves]
        dtypes = {leaf.dtype for leaf in leaves}
        if len(dtypes) != 1:
            raise DtypeError(f"an operator requires leaves of one dtype, got {', '.join(sorted(dtypes))}.")
        self.dtype: np.dtype = dtype_named(dtypes.pop())
        self.sizes: list[int] = [int(np.prod(shape, dtype=int)) for shape in self.shapes]
        self.size: int = sum(self.sizes)

    def leaves(self, vector: np.ndarray, batch: tuple[int, ...] = ()) -> list[np.ndarray]:
        """The leaves of a vector, or of several vectors along a leading axis."""
        array = np.ascontiguousarray(vector)
        if len(self.shapes) == 1:
            return [array.reshape(batch + self.shapes[0])]
        parts = np.split(array, np.cumsum(self.sizes)[:-1], axis=-1)
        return [np.ascontiguousarray(p).reshape(batch + s) for p, s in zip(parts, self.shapes, strict=True)]

    def vector(self, leaves: Sequence[Any], batch: tuple[int, ...] = ()) -> np.ndarray:
        """The leaves as one vector, in new memory."""
        if len(leaves) == 1:
            return np.array(leaves[0], self.dtype).reshape(*batch, -1)
        return np.concatenate([np.asarray(leaf, self.dtype).reshape(*batch, -1) for leaf in leaves], axis=-1)


def is_same(x: np.ndarray, y: np.ndarray) -> bool:
    """True if two arrays of one dtype have the same bits; faster than `np.array_equal`."""
    return x.shape == y.shape and x.tobytes() == y.tobytes()


def plain(value: Any) -> Any:
    """An array without axes as a Python number; other arrays as they are."""
    return value.item() if hasattr(value, "item") and not value.shape else value


def joined(real: np.ndarray, imaginary: np.ndarray) -> np.ndarray:
    """The complex array with these real and imaginary parts."""
    out = np.empty(real.shape, np.result_type(np.complex64, real.dtype if real.dtype.kind == "f" else np.float32))
    out.real, out.imag = real, imaginary
    return out


def is_finite(value: Any) -> bool:
    """True if all numbers of a pytree are finite."""
    if isinstance(value, dict):
        return all(map(is_finite, value.values()))
    if isinstance(value, (tuple, list)):
        return all(map(is_finite, value))
    return bool(np.all(np.isfinite(value)))
