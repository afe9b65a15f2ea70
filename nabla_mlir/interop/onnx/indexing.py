"""Operators of ONNX that read and write at computed indices."""

from __future__ import annotations

from typing import Any

import numpy as np

import nabla_mlir.numpy as nnp
from nabla_mlir.interop.onnx.table import Refusal, operator
from nabla_mlir.table.tensor import Tensor

_WRITES = {"none": "set", "add": "add", "mul": "multiply", "max": "max", "min": "min"}


@operator("Gather")
def _gather(x: Tensor, positions: Tensor, axis: int = 0) -> Tensor:
    return nnp.take(x, positions, axis)


@operator("GatherElements")
def _gather_elements(x: Tensor, positions: Tensor, axis: int = 0) -> Tensor:
    return x[_grid(positions, axis % x.ndim)]


@operator("GatherND")
def _gather_nd(x: Tensor, positions: Tensor, batch_dims: int = 0) -> Tensor:
    return x[_coordinates(x, positions, batch_dims)]


@operator("Scatter", "ScatterElements")
def _scatter_elements(x: Tensor, positions: Tensor, updates: Tensor, axis: int = 0, reduction: str = "none") -> Tensor:
    return _written(x, _grid(positions, axis % x.ndim), updates, reduction)


@operator("ScatterND")
def _scatter_nd(x: Tensor, positions: Tensor, updates: Tensor, reduction: str = "none") -> Tensor:
    return _written(x, _coordinates(x, positions, 0), updates, reduction)


@operator("TensorScatter")
def _tensor_scatter(cache: Tensor, update: Tensor, starts: Any = None, axis: int = -2, mode: str = "linear") -> Tensor:
    """A copy of the cache with `update` written along `axis` from the index starts[b] on, for each entry b of the batch.

    `mode` "circular" continues at index 0 after the end of the axis.
    """
    axis %= cache.ndim
    index = list(np.ogrid[tuple(slice(n) for n in update.shape)])
    first = 0 if starts is None else starts.reshape(-1, *(1,) * (cache.ndim - 1))
    index[axis] = (index[axis] + first) % cache.shape[axis] if mode == "circular" else index[axis] + first
    return cache.at[tuple(index)].set(update)


def _grid(positions: Tensor, axis: int) -> tuple[Any, ...]:
    """The index arrays of all elements of `positions`, with `positions` itself along the axis."""
    index: list[Any] = list(np.ogrid[tuple(slice(n) for n in positions.shape)])
    index[axis] = positions
    return tuple(index)


def _coordinates(x: Tensor, positions: Tensor, batch_dims: int) -> tuple[Any, ...]:
    """The index arrays of `positions`, whose last axis has one index for each axis of x after the batch axes."""
    rank = positions.ndim - 1
    batch = [np.arange(x.shape[i]).reshape([-1 if j == i else 1 for j in range(rank)]) for i in range(batch_dims)]
    return (*batch, *(positions[..., i] for i in range(positions.shape[-1])))


def _written(x: Tensor, index: tuple[Any, ...], updates: Tensor, reduction: str) -> Tensor:
    """A copy of x with the updates written to, or combined with, the elements at an index; raises Refusal
    for an unknown reduction.
    """
    if reduction not in _WRITES:
        raise Refusal(f"a reduction of {', '.join(_WRITES)}", reduction)
    return getattr(x.at[index], _WRITES[reduction])(updates)
