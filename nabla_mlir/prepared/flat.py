"""Conversions for operators: pytrees of a manifest as flat vectors, and numbers in the form that solvers expect."""

from __future__ import annotations

import numbers
import re
import reprlib
from collections.abc import Iterator, Sequence, Set
from typing import Any

import numpy as np

from nabla_mlir.base.conversion import rounded
from nabla_mlir.base.errors import DtypeError, ShapeError, TreeError, user_frame
from nabla_mlir.base.exchange import readable
from nabla_mlir.runtime.element_types import dtype_named
from nabla_mlir.runtime.manifest import Leaf
from nabla_mlir.runtime.treespec import TreeSpec


class Flat:
    """Pytrees of one structure as vectors: their leaves, concatenated.

    Attributes:
      spec: the structure.
      names: the name of each leaf, in the order of the vectors.
      shapes, sizes: the shape of each leaf, and its number of elements.
    """

    spec: TreeSpec
    names: tuple[str, ...]
    shapes: list[tuple[int, ...]]

    def __init__(self, spec: TreeSpec, leaves: Sequence[Leaf]):
        """Stores the structure of the leaves; raises DtypeError if they have several dtypes."""
        self.spec, self.shapes = spec, [leaf.shape for leaf in leaves]
        self.names = tuple(name_of_path(leaf.name) for leaf in leaves)
        dtypes = {leaf.dtype for leaf in leaves}
        if len(dtypes) != 1:
            found = ", ".join(f"{leaf.name} {leaf.dtype}" for leaf in leaves)
            raise DtypeError(
                f"an operator requires leaves of one dtype, got {found or 'none'}.",
                where=user_frame(),
                help="convert the leaves, for example with np.asarray(leaf, np.float64).",
            )
        self.dtype: np.dtype = dtype_named(dtypes.pop())
        self.sizes: list[int] = [int(np.prod(shape, dtype=int)) for shape in self.shapes]
        self.size: int = sum(self.sizes)

    @property
    def is_leaf(self) -> bool:
        """True if the pytree is one array."""
        return self.names == ("",)

    def leaves(self, vector: np.ndarray, batch: tuple[int, ...] = ()) -> list[np.ndarray]:
        """The arrays of a pytree from its vector, in the order of the leaves.

        `batch` is the shape of the axes before the last: () for one vector, (k,) for the k rows of a matrix; the arrays get it,
        too.
        """
        array = np.ascontiguousarray(vector)
        if len(self.shapes) == 1:
            return [array.reshape(batch + self.shapes[0])]
        parts = np.split(array, np.cumsum(self.sizes)[:-1], axis=-1)
        return [np.ascontiguousarray(p).reshape(batch + s) for p, s in zip(parts, self.shapes, strict=True)]

    def vector(self, leaves: Sequence[Any], batch: tuple[int, ...] = ()) -> np.ndarray:
        """The elements of the leaves as one vector in new memory, or as vectors along the axes `batch`; inverse of `leaves`."""
        if len(leaves) == 1:
            return np.array(leaves[0], self.dtype).reshape(*batch, -1)
        return np.concatenate([np.asarray(leaf, self.dtype).reshape(*batch, -1) for leaf in leaves], axis=-1)

    def ravel(self, tree: Any, name: str) -> np.ndarray:
        """The flat vector of a pytree of this structure; raises TreeError or ShapeError for another structure or shape.

        Args:
          tree: the pytree.
          name: its name in errors.
        """
        leaves = [readable(leaf) for leaf in self.spec.flatten(tree, name)]
        for leaf, path, shape in zip(leaves, self.names, self.shapes, strict=True):
            if np.asarray(leaf).dtype.kind in "OSU":
                raise TreeError(f"{path or name} requires numbers of shape {shape}, got {reprlib.repr(leaf)}.", where=user_frame())
            if np.shape(leaf) != shape:
                raise ShapeError(f"{path or name} requires shape {shape}, got {np.shape(leaf)}.", where=user_frame())
        return np.concatenate([rounded(leaf, self.dtype, name).reshape(-1) for leaf in leaves])

    def unravel(self, vector: np.ndarray) -> Any:
        """The pytree whose flat vector is given, with arrays of their own memory."""
        return self.spec.unflatten([leaf.copy() for leaf in self.leaves(vector)])

    def is_tree(self, value: Any) -> bool:
        """True if the factor of a product is meant as a pytree of this structure, and False if as a vector or a matrix."""
        shape = getattr(value, "shape", None)
        if shape is not None:
            return self.is_leaf and len(shape) > 1 and tuple(shape) == self.shapes[0] and shape[0] != self.size
        if isinstance(value, list) and all(isinstance(x, numbers.Number) for x in value):
            return not any(self.shapes) and not self.is_leaf  # else a vector
        return isinstance(value, (dict, tuple)) or not (self.is_leaf or isinstance(value, _NO_TREES))


_NO_TREES = (str, bytes, numbers.Number, type(None), type(lambda: 0), Set, Iterator)


def name_of_path(path: str) -> str:
    """The name of a leaf: the keys of its path without that of the argument, with dots between.

    Example:
      >>> name_of_path("params['layers'][0].weight"), name_of_path("params['0.weight']"), name_of_path("x")
      ('layers.0.weight', '0.weight', '')
    """
    keys = _KEY.findall(path)
    return ".".join(next(part for part in key if part) for key in keys)


_KEY = re.compile(r"""\['([^']*)'\]|\["([^"]*)"\]|\[([^]]*)\]|\.(\w+)""")


def is_same(x: np.ndarray, y: np.ndarray) -> bool:
    """True if two arrays of one dtype have the same bits; faster than `np.array_equal`."""
    return x.shape == y.shape and x.tobytes() == y.tobytes()


def plain(value: Any) -> Any:
    """An array without axes as a Python number; other values as they are."""
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
