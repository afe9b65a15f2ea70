"""Collectives over a mapped axis: communication between the entries of `nm.vmap(f, axis_name=...)`.

The functions and signatures are those of jax.lax. Each accepts a pytree of arrays, and works on every leaf.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import ShapeError, UnboundAxisError, user_frame
from nabla_mlir.base.typing import PyTree
from nabla_mlir.ops import collectives
from nabla_mlir.ops import logic as lg
from nabla_mlir.ops.shape import broadcast_in_dim, dynamic_slice, move_axis, reshaped, row
from nabla_mlir.rules.tapes import read_row
from nabla_mlir.staging.tracing import is_tracing
from nabla_mlir.table.promotion import as_tensor
from nabla_mlir.table.tensor import Tensor, constant, full, full_like


@dataclass
class BoundAxis:
    """An axis of a map that is being traced, with the user's name (if any), its name in the IR, its size, and the map's block.

    `shared` are values in the block that are known to be equal for all entries.
    """

    name: str | None
    symbol: str
    size: int
    block: ir.Block | None = None
    shared: set[ir.Value] = field(default_factory=set)


class _Bound(threading.local):
    axes: tuple[BoundAxis, ...] = ()


_bound = _Bound()


@contextlib.contextmanager
def bound_axis(name: str | None, size: int) -> Iterator[BoundAxis]:
    """Binds an axis while the function mapped over it is traced.

    Yields:
      The axis. Its name in the IR differs from the names of all enclosing axes, so collectives over them cannot be confused.
    """
    outer, symbols = _bound.axes, {axis.symbol for axis in _bound.axes}
    stem = name or "i"
    candidates = itertools.chain([stem], (f"{stem}_{n}" for n in itertools.count(1)))
    symbol = next(candidate for candidate in candidates if candidate not in symbols)
    axis = BoundAxis(name, symbol, size)
    _bound.axes = (*outer, axis)
    try:
        yield axis
    finally:
        _bound.axes = outer


def innermost_axis() -> BoundAxis | None:
    """The axis of the innermost map that is being traced."""
    return _bound.axes[-1] if is_tracing() and _bound.axes else None


def _find_axis(what: str, name: Any) -> BoundAxis:
    """The axis `name` of the innermost enclosing map that has it; raises UnboundAxisError, which names the collective `what`."""
    axes = _bound.axes if is_tracing() else ()
    match = next((axis for axis in reversed(axes) if axis.name == name and name is not None), None)
    if match is None:
        names = [axis.name for axis in axes if axis.name is not None]
        raise UnboundAxisError(
            f"{what} requires the name of an axis of an enclosing map, got {name!r}; bound are {names}.",
            where=user_frame(),
            help=f"call it inside nm.vmap(f, axis_name={name!r}).",
        )
    return match


def _over_axes(what: str, axis_name: Any, x: Any, over: Callable[[Tensor, str], Tensor]) -> Any:
    """The pytree `x` after a collective on each leaf, for one named axis after the other.

    Args:
      what: the name of the collective, for errors.
      axis_name: the name of the axis, or a tuple of names.
      x: the pytree.
      over: the collective of one tensor over the axis with a symbol of the IR.
    """
    names = axis_name if isinstance(axis_name, (tuple, list)) else (axis_name,)
    axes = [_find_axis(what, name) for name in names]
    leaves, spec = pytree.flatten(x)
    tensors = [as_tensor(leaf) for leaf in leaves]
    for axis in axes:
        tensors = [over(t, axis.symbol) for t in tensors]
    return pytree.unflatten(spec, tensors)


def psum(x: PyTree, axis_name: str | tuple[str, ...]) -> PyTree:
    """The sum of `x` over the entries of a mapped axis, ``y = sum_i x_i``, the same for every entry.

    Args:
      x: a pytree of arrays.
      axis_name: the `axis_name` of an enclosing vmap, or several.

    A derivative inside the map is that of the sum of the results of all entries: the adjoint of psum is psum, as in JAX.

    Raises:
      UnboundAxisError: no enclosing map has an axis of that name.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.vmap(lambda x: x / nm.psum(x, "i"), axis_name="i")(np.array([1.0, 3.0])).tolist()
      [0.25, 0.75]
    """
    return _over_axes("psum", axis_name, x, lambda t, axis: collectives.psum(t, axis=axis))


def pmean(x: PyTree, axis_name: str | tuple[str, ...]) -> PyTree:
    """The mean of `x` over the entries of a mapped axis; see `psum`.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.vmap(lambda x: x - nm.pmean(x, "i"), axis_name="i")(np.array([1.0, 3.0])).tolist()
      [-1.0, 1.0]
    """
    total = psum(x, axis_name)
    count = axis_size(axis_name)
    leaves, spec = pytree.flatten(total)
    return pytree.unflatten(spec, [leaf / count for leaf in leaves])


def pmax(x: PyTree, axis_name: str | tuple[str, ...]) -> PyTree:
    """The largest of the entries of a mapped axis; entries that tie share the derivative.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.vmap(lambda x: nm.pmax(x, "i") - x, axis_name="i")(np.array([1.0, 3.0])).tolist()
      [2.0, 0.0]
    """
    return _over_axes("pmax", axis_name, x, lambda t, axis: collectives.pmax(t, axis=axis))


def pmin(x: PyTree, axis_name: str | tuple[str, ...]) -> PyTree:
    """The smallest of the entries of a mapped axis; entries that tie share the derivative.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.vmap(lambda x: x - nm.pmin(x, "i"), axis_name="i")(np.array([1.0, 3.0])).tolist()
      [0.0, 2.0]
    """
    return _over_axes("pmin", axis_name, x, lambda t, axis: collectives.pmin(t, axis=axis))


def all_gather(x: PyTree, axis_name: str, *, axis: int = 0, tiled: bool = False) -> PyTree:
    """All entries of a mapped axis, stacked along a new axis: ``y[j] = x_j`` for every entry.

    Args:
      x: a pytree of arrays of shape S.
      axis_name: the `axis_name` of an enclosing vmap.
      axis: the position of the new axis; a negative one counts from the end of the result.
      tiled: True concatenates the entries along an existing axis instead of a new one.

    Raises:
      UnboundAxisError: no enclosing map has an axis of that name.
      ShapeError: `axis` lies outside the result.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.vmap(lambda x: nm.all_gather(x, "i"), axis_name="i")(np.array([1.0, 3.0])).tolist()
      [[1.0, 3.0], [1.0, 3.0]]
    """
    bound = _find_axis("all_gather", axis_name)
    return _map_leaves(x, lambda t: gathered("all_gather", t, bound, axis, tiled))


def _map_leaves(x: Any, f: Callable[[Tensor], Tensor]) -> Any:
    """The tree with the function `f` applied to each leaf."""
    leaves, spec = pytree.flatten(x)
    return pytree.unflatten(spec, [f(as_tensor(leaf)) for leaf in leaves])


def _check_axis(what: str, axis: int, rank: int) -> int:
    """The axis of an array of the given rank as a number from 0; raises ShapeError, which names `what`, if it is out of range."""
    if not -rank <= axis < rank:
        raise ShapeError(f"{what} requires an axis of its result of rank {rank}, got {axis}.", where=user_frame())
    return axis % rank


def gathered(what: str, x: Tensor, bound: BoundAxis, axis: int, tiled: bool = False) -> Tensor:
    """The values of `x` of all entries of the mapped axis `bound`, stacked along a new `axis`, or concatenated along it if `tiled`.

    `what` is the name of the collective, for errors.
    """
    at = _check_axis(what, axis, x.ndim if tiled else x.ndim + 1)
    out = collectives.all_gather(x, axis=bound.symbol, dimension=at, extent=bound.size)
    return reshaped(out, (*x.shape[:at], bound.size * x.shape[at], *x.shape[at + 1 :])) if tiled else out


def own_part(x: Tensor, bound: BoundAxis, axis: int, length: int = 1) -> Tensor:
    """The part of an array that belongs to the current entry i of the mapped axis `bound`: `length` elements along `axis` from i *
    `length` on.
    """
    position = collectives.axis_index(axis=bound.symbol) * length
    starts = [position if d == axis else full((), 0, position.dtype) for d in range(x.ndim)]
    return dynamic_slice(x, *starts, slice_sizes=tuple(length if d == axis else n for d, n in enumerate(x.shape)))


def psum_scatter(x: PyTree, axis_name: str, *, scatter_dimension: int = 0, tiled: bool = False) -> PyTree:
    """The sum over the entries of a mapped axis, of which each entry gets its own slice.

    Args:
      x: a pytree of arrays.
      axis_name: the `axis_name` of an enclosing vmap.
      scatter_dimension: the axis that is divided among the entries; its length is their number.
      tiled: True gives each entry a part of the axis, which stays; its length is a multiple of the number of entries.

    Raises:
      ShapeError: the length does not fit.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.vmap(lambda x: psum_scatter(x, "i"), axis_name="i")(np.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
      [4.0, 6.0]
    """
    bound = _find_axis("psum_scatter", axis_name)

    def one(t: Tensor) -> Tensor:
        """The sum of one leaf over all entries, of which each entry keeps its own part."""
        at = _check_axis("psum_scatter", scatter_dimension, t.ndim)
        parts = t.shape[at] // bound.size
        if t.shape[at] != (parts * bound.size if tiled else bound.size):
            raise ShapeError(
                f"psum_scatter requires an axis divided among {bound.size} entries, got length {t.shape[at]}.", where=user_frame()
            )
        if not tiled:
            return collectives.psum_scatter(t, axis=bound.symbol, dimension=at)
        return own_part(collectives.psum(t, axis=bound.symbol), bound, at, parts)

    return _map_leaves(x, one)


def all_to_all(x: PyTree, axis_name: str, split_axis: int, concat_axis: int, *, tiled: bool = False) -> PyTree:
    """The exchange of a mapped axis and an axis of the array: entry i gets slice i of every entry.

    Args:
      x: a pytree of arrays.
      axis_name: the `axis_name` of an enclosing vmap.
      split_axis: the axis that is divided among the entries; its length is their number (if `tiled`, a multiple).
      concat_axis: the axis of the slices of the other entries.
      tiled: True concatenates the parts along `concat_axis`, an existing axis.

    Raises:
      ShapeError: the length does not fit.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.vmap(lambda x: all_to_all(x, "i", 0, 0), axis_name="i")(np.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
      [[1.0, 3.0], [2.0, 4.0]]
    """
    bound = _find_axis("all_to_all", axis_name)

    def one(t: Tensor) -> Tensor:
        """The result for one leaf: each entry gathers the arrays of all entries and reads its part of each."""
        at, to = (_check_axis("all_to_all", a, t.ndim) for a in (split_axis, concat_axis))
        parts = t.shape[at] // bound.size
        if t.shape[at] != (parts * bound.size if tiled else bound.size):
            raise ShapeError(
                f"all_to_all requires an axis divided among {bound.size} entries, got length {t.shape[at]}.", where=user_frame()
            )
        every = collectives.all_gather(t, axis=bound.symbol, dimension=0, extent=bound.size)
        own_parts = own_part(every, bound, at + 1, parts)  # (entries, ..., part, ...)
        if not tiled:
            without_split = reshaped(own_parts, (bound.size, *t.shape[:at], *t.shape[at + 1 :]))
            return move_axis(without_split, 0, to)
        parts_in_order = move_axis(own_parts, 0, to)
        lengths = [parts if d == at else n for d, n in enumerate(t.shape)]
        lengths[to] *= bound.size
        return reshaped(parts_in_order, tuple(lengths))

    return _map_leaves(x, one)


def ppermute(x: PyTree, axis_name: str, perm: Sequence[tuple[int, int]]) -> PyTree:
    """The value of another entry of a mapped axis, for each entry: ``perm`` has pairs (source, destination).

    Args:
      x: a pytree of arrays.
      axis_name: the `axis_name` of an enclosing vmap.
      perm: the pairs; an entry that is not a destination gets zeros.

    Raises:
      ShapeError: a source or a destination is repeated, or is out of range.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.vmap(lambda x: ppermute(x, "i", [(0, 1), (1, 2)]), axis_name="i")(np.array([5.0, 6.0, 7.0])).tolist()
      [0.0, 5.0, 6.0]
    """
    bound = _find_axis("ppermute", axis_name)
    sources, targets = [list(side) for side in zip(*perm, strict=True)] if perm else ([], [])
    for side in (sources, targets):
        if len(set(side)) != len(side) or not all(0 <= i < bound.size for i in side):
            raise ShapeError(f"ppermute requires different entries below {bound.size}, got {list(perm)}.", where=user_frame())
    order = np.full(bound.size, -1, np.int32)  # for each entry its source; -1 without one
    order[targets] = sources

    def received(t: Tensor) -> Tensor:
        """For one leaf, the array of the entry that sends to the current entry; zeros if no entry does."""
        every = collectives.all_gather(t, axis=bound.symbol, dimension=0, extent=bound.size)
        own_position = reshaped(own_part(constant(order), bound, 0), ())  # the entry that sends; -1 if none does
        position = lg.clamp(full((), 0, own_position.dtype), own_position, full((), bound.size - 1, own_position.dtype))
        is_target = lg.compare(own_position, full((), 0, own_position.dtype), comparison_direction="GE")
        mask = broadcast_in_dim(is_target, shape=t.shape, broadcast_dimensions=())
        return lg.select(mask, read_row(every, position), full_like(t, 0))

    return _map_leaves(x, received)


def pshuffle(x: PyTree, axis_name: str, perm: Sequence[int]) -> PyTree:
    """The value of entry perm[i] of a mapped axis, for entry i.

    Raises:
      ShapeError: `perm` is not a permutation.
    """
    return ppermute(x, axis_name, list(zip(perm, range(len(perm)), strict=True)))


def pbroadcast(x: PyTree, axis_name: str, source: int) -> PyTree:
    """The value of one entry of a mapped axis, for every entry."""
    bound = _find_axis("pbroadcast", axis_name)

    def one(t: Tensor) -> Tensor:
        every = collectives.all_gather(t, axis=bound.symbol, dimension=0, extent=bound.size)
        return row(every, _check_axis("pbroadcast", source, bound.size))

    return _map_leaves(x, one)


def pswapaxes(x: PyTree, axis_name: str, axis: int) -> PyTree:
    """The exchange of a mapped axis and an axis of the array of the same length."""
    return all_to_all(x, axis_name, axis, axis)


def axis_index(axis_name: str) -> Tensor:
    """The index of the entry along a mapped axis, an int32 scalar.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.vmap(lambda x: x * nm.axis_index("i"), axis_name="i")(np.array([5, 6, 7])).tolist()
      [0, 6, 14]
    """
    return collectives.axis_index(axis=_find_axis("axis_index", axis_name).symbol)


def axis_size(axis_name: str | tuple[str, ...]) -> int:
    """The size of a mapped axis, or the product of several sizes, as a Python integer.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.vmap(lambda x: x / nm.axis_size("i"), axis_name="i")(np.array([1.0, 3.0])).tolist()
      [0.5, 1.5]
    """
    size = 1
    for name in axis_name if isinstance(axis_name, (tuple, list)) else (axis_name,):
        size *= _find_axis("axis_size", name).size
    return size
