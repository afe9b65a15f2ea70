"""Collectives over a mapped axis: what entries of `nm.vmap(f, axis_name=...)` tell each other.

The functions and their signatures are those of jax.lax. Each takes a pytree of arrays and works on every leaf.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from nabla_mlir import pytree
from nabla_mlir.errors import ShapeError, UnboundAxisError, user_frame
from nabla_mlir.ops import collectives
from nabla_mlir.staging.tracing import is_tracing
from nabla_mlir.table.promotion import as_tensor
from nabla_mlir.table.tensor import Tensor


@dataclass(frozen=True)
class BoundAxis:
    """An axis of a map that is being traced: the user's name for it, if any, its name in the IR, its size."""

    name: str | None
    symbol: str
    size: int


class _Bound(threading.local):
    axes: tuple[BoundAxis, ...] = ()


_bound = _Bound()


@contextlib.contextmanager
def bound_axis(name: str | None, size: int) -> Iterator[str]:
    """Binds an axis while the function mapped over it is traced.

    Yields:
      Its name in the IR. It differs from that of every axis around it, so that a collective traced for one of those
      cannot be taken for one over this axis.
    """
    outer, symbols = _bound.axes, {axis.symbol for axis in _bound.axes}
    stem = name or "i"
    candidates = itertools.chain([stem], (f"{stem}_{n}" for n in itertools.count(1)))
    symbol = next(candidate for candidate in candidates if candidate not in symbols)
    _bound.axes = (*outer, BoundAxis(name, symbol, size))
    try:
        yield symbol
    finally:
        _bound.axes = outer


def _axis(what: str, name: Any) -> BoundAxis:
    axes = _bound.axes if is_tracing() else ()
    match = next((axis for axis in reversed(axes) if axis.name == name and name is not None), None)
    if match is None:
        names = [axis.name for axis in axes if axis.name is not None]
        raise UnboundAxisError(
            f"{what} requires the name of an axis that is mapped around it, got {name!r}; bound are {names}.",
            where=user_frame(), help=f"call it inside nm.vmap(f, axis_name={name!r}).",
        )  # fmt: skip
    return match


def _over_axes(what: str, axis_name: Any, x: Any, over: Callable[[Tensor, str], Tensor]) -> Any:
    names = axis_name if isinstance(axis_name, (tuple, list)) else (axis_name,)
    axes = [_axis(what, name) for name in names]
    leaves, spec = pytree.flatten(x)
    tensors = [as_tensor(leaf) for leaf in leaves]
    for axis in axes:
        tensors = [over(t, axis.symbol) for t in tensors]
    return pytree.unflatten(spec, tensors)


def psum(x: Any, axis_name: str | tuple[str, ...]) -> Any:
    """The sum of `x` over the entries of a mapped axis, ``y = sum_i x_i``, the same for every entry.

    Args:
      x: a pytree of arrays.
      axis_name: the `axis_name` of a vmap around it, or several.

    Differentiated inside the map it stands for the sum of what every entry returns: the adjoint of psum is psum, as
    in JAX.

    Raises:
      UnboundAxisError: no map around it has an axis of that name.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.vmap(lambda x: x / nm.psum(x, "i"), axis_name="i")(np.array([1.0, 3.0])).tolist()
      [0.25, 0.75]
    """
    return _over_axes("psum", axis_name, x, lambda t, axis: collectives.psum(t, axis=axis))


def pmean(x: Any, axis_name: str | tuple[str, ...]) -> Any:
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


def pmax(x: Any, axis_name: str | tuple[str, ...]) -> Any:
    """The largest of the entries of a mapped axis; entries that tie share the derivative.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.vmap(lambda x: nm.pmax(x, "i") - x, axis_name="i")(np.array([1.0, 3.0])).tolist()
      [2.0, 0.0]
    """
    return _over_axes("pmax", axis_name, x, lambda t, axis: collectives.pmax(t, axis=axis))


def pmin(x: Any, axis_name: str | tuple[str, ...]) -> Any:
    """The smallest of the entries of a mapped axis; entries that tie share the derivative.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.vmap(lambda x: x - nm.pmin(x, "i"), axis_name="i")(np.array([1.0, 3.0])).tolist()
      [0.0, 2.0]
    """
    return _over_axes("pmin", axis_name, x, lambda t, axis: collectives.pmin(t, axis=axis))


def all_gather(x: Any, axis_name: str, *, axis: int = 0) -> Any:
    """All entries of a mapped axis, stacked along a new axis: ``y[j] = x_j`` for every entry.

    Args:
      x: a pytree of arrays of shape S.
      axis_name: the `axis_name` of a vmap around it.
      axis: where the new axis stands; negative counts from the end of the result.

    Raises:
      UnboundAxisError: no map around it has an axis of that name.
      ShapeError: `axis` lies outside the result.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.vmap(lambda x: nm.all_gather(x, "i"), axis_name="i")(np.array([1.0, 3.0])).tolist()
      [[1.0, 3.0], [1.0, 3.0]]
    """
    bound = _axis("all_gather", axis_name)
    leaves, spec = pytree.flatten(x)
    return pytree.unflatten(spec, [_gathered(as_tensor(leaf), bound, axis) for leaf in leaves])


def _gathered(x: Tensor, bound: BoundAxis, axis: int) -> Tensor:
    rank = x.ndim + 1
    if not -rank <= axis < rank:
        raise ShapeError(f"all_gather requires an axis of its result of rank {rank}, got {axis}.", where=user_frame())
    return collectives.all_gather(x, axis=bound.symbol, dimension=axis % rank, extent=bound.size)


def axis_index(axis_name: str) -> Tensor:
    """The place of the entry along a mapped axis: an int32 scalar.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.vmap(lambda x: x * nm.axis_index("i"), axis_name="i")(np.array([5, 6, 7])).tolist()
      [0, 6, 14]
    """
    return collectives.axis_index(axis=_axis("axis_index", axis_name).symbol)


def axis_size(axis_name: str | tuple[str, ...]) -> int:
    """The size of a mapped axis (or the product of several), a Python integer.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.vmap(lambda x: x / nm.axis_size("i"), axis_name="i")(np.array([1.0, 3.0])).tolist()
      [0.5, 1.5]
    """
    size = 1
    for name in axis_name if isinstance(axis_name, (tuple, list)) else (axis_name,):
        size *= _axis("axis_size", name).size
    return size
