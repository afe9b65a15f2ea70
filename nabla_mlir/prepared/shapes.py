"""The shapes of batches that are in another process: trees of arrays without their numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nabla_mlir.base.errors import TreeError
from nabla_mlir.base.exchange import readable


@dataclass(frozen=True)
class Shape:
    """An array without its numbers."""

    shape: tuple[int, ...]
    dtype: np.dtype

    def array(self) -> np.ndarray:
        """An array with this shape and dtype that needs no memory."""
        return np.broadcast_to(np.zeros((), self.dtype), self.shape)


def shapes_of(tree: Any) -> Any:
    """A tree of dicts, lists and tuples with the shape and dtype of each array.

    Example:
      >>> shapes_of(({"rows": np.zeros((2, 3))},))
      ({'rows': Shape(shape=(2, 3), dtype=dtype('float64'))},)
    """
    if isinstance(tree, dict):
        return {key: shapes_of(child) for key, child in tree.items()}
    if isinstance(tree, (tuple, list)):
        return tuple(map(shapes_of, tree))
    array = np.asarray(readable(tree))
    return Shape(array.shape, array.dtype)


def arrays_like(tree: Any) -> Any:
    """A tree of arrays with the shapes in `tree`; each array has one element in memory, which all positions share."""
    if isinstance(tree, dict):
        return {key: arrays_like(child) for key, child in tree.items()}
    return tuple(map(arrays_like, tree)) if isinstance(tree, tuple) else tree.array()


def longest(batches: Sequence[Any]) -> Any:
    """The batch with the most rows, as a tree of arrays without memory. Raises TreeError if there are no batches.

    Each batch is a tree of shapes, as `shapes_of` returns it.
    """
    if not batches:
        raise TreeError("a sum over batches requires at least one, got none.")
    return arrays_like(max(batches, key=rows_of))


def rows_of(tree: Any) -> int:
    """The number of rows of a batch, a tree of shapes: the length of its first array that is not a scalar; 0 without one."""
    return next((leaf.shape[0] for leaf in _leaves(tree) if leaf.shape), 0)


def _leaves(tree: Any) -> Iterator[Shape]:
    """Yields the shape of each array of a tree of dicts and tuples, in order."""
    if isinstance(tree, Shape):
        yield tree
        return
    for child in tree.values() if isinstance(tree, dict) else tree:
        yield from _leaves(child)
