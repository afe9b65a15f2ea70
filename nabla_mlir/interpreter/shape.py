"""Operations that move elements: views where NumPy has views."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nabla_mlir.interpreter.evaluations import evaluation

Shape = tuple[int, ...]


@evaluation("stablehlo.reshape")
def reshape(x: np.ndarray, shape: Shape) -> np.ndarray:
    """The same elements in row-major order."""
    return x.reshape(shape)


@evaluation("stablehlo.transpose")
def transpose(x: np.ndarray, permutation: Sequence[int]) -> np.ndarray:
    """Axis i of the result is axis permutation[i]."""
    return x.transpose(permutation)


@evaluation("stablehlo.broadcast_in_dim")
def broadcast_in_dim(x: np.ndarray, shape: Shape, broadcast_dimensions: Sequence[int]) -> np.ndarray:
    """The array with another shape: axis i becomes axis broadcast_dimensions[i], and the elements repeat along the other axes."""
    order = np.argsort(broadcast_dimensions).tolist()
    sizes = [1] * len(shape)
    for i in order:
        sizes[broadcast_dimensions[i]] = x.shape[i]
    return np.broadcast_to(x.transpose(order).reshape(sizes), shape)


@evaluation("stablehlo.slice")
def slice_(x: np.ndarray, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Sequence[int]) -> np.ndarray:
    """A strided slice."""
    return x[tuple(map(slice, start_indices, limit_indices, strides))]


@evaluation("stablehlo.concatenate")
def concatenate(*xs: np.ndarray, dimension: int) -> np.ndarray:
    """The operands, joined along an axis."""
    return np.concatenate(xs, axis=dimension)


@evaluation("stablehlo.reverse")
def reverse(x: np.ndarray, dimensions: Sequence[int]) -> np.ndarray:
    """The elements in reverse order along some axes."""
    return np.flip(x, tuple(dimensions))


@evaluation("stablehlo.iota")
def iota(shape: Shape, dtype: np.dtype, iota_dimension: int) -> np.ndarray:
    """The index along an axis."""
    sizes = [n if d == iota_dimension else 1 for d, n in enumerate(shape)]
    return np.broadcast_to(np.arange(shape[iota_dimension]).astype(dtype).reshape(sizes), shape)


@evaluation("stablehlo.pad")
def pad(
    x: np.ndarray,
    value: np.ndarray,
    edge_padding_low: Sequence[int],
    edge_padding_high: Sequence[int],
    interior_padding: Sequence[int],
) -> np.ndarray:
    """The array with padding of `value` around it and between its elements; a negative padding removes elements.

    The sequences have one number for each axis. Example: [1, 2] with low 1, high 0 and interior 1 gives [v, 1, v, 2].
    """
    spans = [max(n + (n - 1) * gap, 0) if n else 0 for n, gap in zip(x.shape, interior_padding, strict=True)]
    sizes = [low + n + high for low, n, high in zip(edge_padding_low, spans, edge_padding_high, strict=True)]
    out = np.full(sizes, value, x.dtype)
    targets, sources = [], []
    for low, gap, n, size in zip(edge_padding_low, interior_padding, x.shape, sizes, strict=True):
        step = gap + 1
        first = max(-(low // step), 0)  # the first element that does not lie before the result
        last = min(n, -((low - size) // step))
        sources.append(slice(first, max(last, first)))
        start = low + first * step
        targets.append(slice(start, start + max(last - first, 0) * step, step))
    if out.size and all(s.start < s.stop for s in sources):
        out[tuple(targets)] = x[tuple(sources)]
    return out


@evaluation("stablehlo.bitcast_convert")
def bitcast_convert(x: np.ndarray, shape: Shape, dtype: np.dtype) -> np.ndarray:
    """The same bits; a wider type takes a last axis together, a narrower one makes one."""
    return np.frombuffer(np.ascontiguousarray(x).tobytes(), dtype).reshape(shape)


@evaluation("stablehlo.dynamic_slice")
def dynamic_slice(x: np.ndarray, *starts: np.ndarray, slice_sizes: Sequence[int]) -> np.ndarray:
    """A block at a start index, which is clamped so that the block is inside the array."""
    return x[_inside(x.shape, starts, slice_sizes)]


@evaluation("stablehlo.dynamic_update_slice")
def dynamic_update_slice(x: np.ndarray, update: np.ndarray, *starts: np.ndarray) -> np.ndarray:
    """The operand with a block written at a start index, which is clamped so that the block is inside the array."""
    out = x.copy()
    out[_inside(x.shape, starts, update.shape)] = update
    return out


def _inside(shape: Shape, starts: Sequence[np.ndarray], sizes: Sequence[int]) -> tuple[slice, ...]:
    """The slices of a window of the given sizes in an array; starts are clamped so that the window is inside the array."""
    positions = [min(max(int(s), 0), n - size) for s, n, size in zip(starts, shape, sizes, strict=True)]
    return tuple(slice(s, s + size) for s, size in zip(positions, sizes, strict=True))
