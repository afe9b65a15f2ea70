"""Vectorised arrays and tensors in pytrees: trees inside functions that run on entries, and the axes of their leaves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from nabla_mlir.base import pytree
from nabla_mlir.runtime.named import VectorizedArray
from nabla_mlir.staging.tracing import current_trace, is_tracing
from nabla_mlir.table.tensor import NamedAxes, Tensor
from nabla_mlir.table.vectorized import VectorizedTensor, enter, whole, with_axes


def _capture_array(x: VectorizedArray) -> Tensor:
    """A tensor of the open trace for a vectorised array, which becomes an argument of the trace."""
    trace = current_trace()
    assert trace is not None, "arrays become tensors inside a trace"
    # A constant would belong to the region in which the array is used first.
    return with_axes(trace.capture(x.data, x.data.shape, x.dtype), x.axes)


# The class of such arrays is independent of traces, because it is deployed without the tracer.
VectorizedArray.__nabla_tensor__ = _capture_array  # type: ignore[attr-defined]


def _rebuild(axes: NamedAxes, children: Iterable[Any]) -> Any:
    """A vectorised array or tensor, from its named axes and the only child of its node in a pytree."""
    (child,) = children
    # A function of entries that names axes itself: the axes of the entries lead.
    return with_axes(child, (*axes_of(child), *axes)) if isinstance(child, Tensor) else VectorizedArray(child, axes)


class _Nodes(threading.local):
    """True if a tree that was flattened in this thread had vectorised arrays or tensors."""

    are_met = False


_nodes = _Nodes()


def _children(x: Any) -> tuple[tuple[Any], NamedAxes, tuple[str]]:
    """The only child of a node (the array with all axes), its named axes, and the name of the child."""
    _nodes.are_met = True
    return (whole(x) if isinstance(x, Tensor) else x.data,), x.axes, ("data",)


# The child has the named axes as ordinary ones, so transforms that ignore names act on all entries together.
pytree.register_node(VectorizedTensor, _children, _rebuild)
pytree.register_node(VectorizedArray, _children, _rebuild)


def _reenter(tree: Any, is_leaf: Callable[[Any], bool] | None) -> tuple[list[Any], pytree.TreeSpec] | None:
    """The leaves and the structure of a pytree in a trace, with one entry in place of each vectorised tensor from outside.

    None if the pytree has no such tensor. `is_leaf` is as in `pytree.flatten`.
    """
    if not _nodes.are_met:
        return None
    _nodes.are_met = False
    if not is_tracing():
        return None
    leaves, spec = pytree.flatten_any(tree, lambda x: _is_vectorized(x) or (is_leaf is not None and is_leaf(x)))
    entries = pytree.unflatten(spec, [entered(leaf) if _is_vectorized(leaf) else leaf for leaf in leaves])
    found = pytree.flatten_any(entries, is_leaf)
    _nodes.are_met = False
    return found


pytree.set_reenter(_reenter)


def _is_vectorized(x: Any) -> bool:
    return isinstance(x, (VectorizedTensor, VectorizedArray))


def entered(leaf: Any) -> Any:
    """The leaf as functions for one entry see it: one entry of a vectorised tensor or array; other leaves are unchanged."""
    if isinstance(leaf, VectorizedArray):
        return enter(_capture_array(leaf))
    return enter(leaf) if isinstance(leaf, Tensor) else leaf


def leaves_of(tree: Any) -> tuple[list[Any], pytree.TreeSpec]:
    """The leaves and the structure of a tree, in which a vectorised tensor is one leaf."""
    return pytree.flatten(tree, is_leaf=_is_vectorized)


def axes_of(x: Any) -> NamedAxes:
    """The named axes of a value; empty without any."""
    return getattr(x, "axes", ())


def axes_of_leaves(tree: Any) -> list[NamedAxes]:
    """The named axes of each leaf."""
    return [axes_of(leaf) for leaf in leaves_of(tree)[0]]


def axes_of_spec(spec: pytree.TreeSpec) -> list[NamedAxes]:
    """The named axes of each leaf of a structure; they are the leading axes of the leaf."""
    tree = pytree.unflatten(spec, [0] * spec.num_leaves)
    return [axes_of(leaf) for leaf in pytree.flatten_any(tree, _is_vectorized)[0]]
