"""Map rules of primitives, under the names of `jax.interpreters.batching`.

``primitive_batchers[p] = rule`` gives a primitive the rule ``rule(args, axes, **params) -> (out, out_axis)``; an axis is None
for an argument that does not vary.
"""

from __future__ import annotations

from typing import Any

from nabla_mlir.jax.primitives import Primitive
from nabla_mlir.jax.primitives import axis_primitive_batchers as axis_primitive_batchers
from nabla_mlir.jax.primitives import not_mapped as not_mapped
from nabla_mlir.jax.primitives import primitive_batchers as primitive_batchers
from nabla_mlir.numpy.shapes import broadcast_to, expand_dims, moveaxis

NotMapped = type(None)


def moveaxis_of(x: Any, src: Any, dst: int) -> Any:
    """The array with the mapped axis at another position."""
    return x if src == dst else moveaxis(x, src, dst)


def broadcast(x: Any, sz: int, axis: int, mesh_axis: Any = None) -> Any:
    """The array with a new axis of length `sz` at position `axis`, along which its elements are repeated."""
    shape = list(x.shape)
    shape.insert(axis, sz)
    return broadcast_to(expand_dims(x, axis), tuple(shape))


def bdim_at_front(x: Any, bdim: int | None, size: int) -> Any:
    """The array with the mapped axis in front; an array without one is repeated."""
    return broadcast(x, size, 0) if bdim is None else moveaxis_of(x, bdim, 0)


def defvectorized(prim: Primitive) -> None:
    """Declares that a primitive of one argument acts on each element."""
    primitive_batchers[prim] = lambda args, dims, **params: (prim.bind(*args, **params), dims[0])


def defbroadcasting(prim: Primitive) -> None:
    """Sets the batching rule of an elementwise primitive, which broadcasts its arguments."""

    def rule(args: Any, dims: Any, **params: Any) -> Any:
        """The result for all entries, and its mapped axis 0: the mapped axes move to the front, and all arguments get one rank."""
        rank = max(x.ndim - (d is not None) for x, d in zip(args, dims, strict=True))
        size = next(x.shape[d] for x, d in zip(args, dims, strict=True) if d is not None)
        front = [x if d is None else moveaxis_of(x, d, 0) for x, d in zip(args, dims, strict=True)]
        wide = [
            x if d is None else x.reshape((size,) + (1,) * (rank + 1 - x.ndim) + tuple(x.shape[1:]))
            for x, d in zip(front, dims, strict=True)
        ]
        return prim.bind(*wide, **params), 0

    primitive_batchers[prim] = rule
