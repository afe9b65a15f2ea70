"""Conversion between pytrees of one structure and flat vectors, which solvers require."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import ShapeError, TreeError, user_frame
from nabla_mlir.base.exchange import readable
from nabla_mlir.staging.specs import Spec, as_spec


class Vectors:
    """The flattening of pytrees with one structure and leaves of given shapes and dtypes.

    Args:
      tree: such a pytree, of arrays or of `nm.spec`.

    Attributes:
      spec: the structure.
      specs: the specs of the leaves.
      like: the pytree of their specs.
      size: the length of a vector.

    Example:
      >>> vectors = Vectors({"a": np.zeros(2), "b": np.zeros((1, 2))})
      >>> vectors.size, vectors.tree(np.arange(4.0))["b"].tolist()
      (4, [[2.0, 3.0]])
      >>> vectors.vector({"a": [1, 2], "b": [[3, 4]]}).tolist()
      [1.0, 2.0, 3.0, 4.0]
    """

    spec: pytree.TreeSpec

    def __init__(self, tree: Any):
        """Stores the structure, the shapes and the dtypes of `tree`."""
        leaves, self.spec = pytree.flatten(tree)
        self.specs: list[Spec] = [Spec(s.shape, s.dtype) for s in map(as_spec, map(readable, leaves))]
        self.like: Any = pytree.unflatten(self.spec, self.specs)
        self._ends = np.cumsum([0, *(math.prod(s.shape) for s in self.specs)]).tolist()
        self.size: int = self._ends[-1]

    def vector(self, tree: Any) -> np.ndarray:
        """The numbers of a pytree with this structure as a new vector of float64.

        Args:
          tree: a pytree of arrays with the shapes of the leaves.
        """
        return self.joined(pytree.flatten_like(self.spec, tree, "a vector", "the leaves"))

    def joined(self, leaves: Sequence[Any]) -> np.ndarray:
        """A new vector with the elements of all leaves."""
        if len(leaves) == 1:
            return np.array(leaves[0], np.float64).reshape(-1)
        return np.concatenate([np.asarray(leaf, np.float64).reshape(-1) for leaf in leaves]) if leaves else np.zeros(0)

    def leaves(self, vector: np.ndarray) -> list[np.ndarray]:
        """The leaves of a vector as new arrays in their dtypes; further axes of the vector become the last axes of each leaf.

        Args:
          vector: of shape (size, ...).
        """
        rows = zip(self._ends, self._ends[1:], self.specs, strict=False)
        return [np.array(vector[a:b], s.dtype).reshape(s.shape + np.shape(vector)[1:]) for a, b, s in rows]

    def tree(self, vector: np.ndarray) -> Any:
        """The pytree of a vector, with leaves as `leaves` returns them.

        Args:
          vector: of shape (size, ...).
        """
        return pytree.unflatten(self.spec, self.leaves(vector))

    def spread(self, who: str, what: str, value: Any, other: float) -> np.ndarray:
        """A vector with one number for each element, from a pytree like `tree`, or from one number for all elements.

        Args:
          who: the function that requires it.
          what: the name of the value in errors.
          value: a number, a pytree like this one of numbers and arrays, or a vector of all elements; None, also as a leaf,
            stands for `other`.
          other: the number that replaces None.

        Raises:
          TreeError, ShapeError: the value is neither a number nor such a pytree.
        """
        is_vector = isinstance(value, np.ndarray) and value.shape == (self.size,) and len(self.specs) != 1
        if value is None or isinstance(value, (int, float, np.number)):
            leaves: Sequence[Any] = [value] * len(self.specs)
        elif is_vector:
            leaves = pytree.flatten(self.tree(value))[0]
        else:
            leaves = pytree.flatten_like(self.spec, value, what, "what it is for")
        parts = []
        for leaf, like, path in zip(leaves, self.specs, pytree.paths(self.spec), strict=True):
            array = np.asarray(other if leaf is None else leaf, np.float64)
            if array.shape not in ((), like.shape):
                raise ShapeError(
                    f"{who} requires {what}{path} of shape {like.shape} or one number, got {array.shape}.", where=user_frame()
                )
            parts.append(np.broadcast_to(array, like.shape).reshape(-1))
        if not parts:
            raise TreeError(f"{who} requires {what} with arrays, got none.", where=user_frame())
        return np.concatenate(parts)
