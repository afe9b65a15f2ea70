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


def _captured(x: VectorizedArray) -> Tensor:
    trace = current_trace()
    assert trace is not None, "arrays become tensors inside a trace"
    # An argument of the whole trace also if it is small: a constant would belong to the region it is met in.
    return with_axes(trace.capture(x.data, x.data.shape, x.dtype), x.axes)


# Such an array knows nothing of traces, since it also lives where no program is traced.
VectorizedArray.__nabla_tensor__ = _captured  # type: ignore[attr-defined]


def _rebuilt(axes: NamedAxes, children: Iterable[Any]) -> Any:
    (child,) = children
    # A function of entries that names axes itself: the axes of the entries lead.
    return with_axes(child, (*axes_of(child), *axes)) if isinstance(child, Tensor) else VectorizedArray(child, axes)


class _Nodes(threading.local):
    """True if a tree that was flattened in this thread had vectorised arrays or tensors."""

    are_met = False


_nodes = _Nodes()


def _children(x: Any) -> tuple[tuple[Any], NamedAxes, tuple[str]]:
    _nodes.are_met = True
    return (whole(x) if isinstance(x, Tensor) else x.data,), x.axes, ("data",)


# As pytrees both hold the whole, so that transforms which know nothing of names act on all entries together.
pytree.register_node(VectorizedTensor, _children, _rebuilt)
pytree.register_node(VectorizedArray, _children, _rebuilt)


def _reentered(tree: Any, is_leaf: Callable[[Any], bool] | None) -> tuple[list[Any], pytree.TreeSpec] | None:
    """A tree in a trace, in the form that functions for one entry see: one entry of each vectorised tensor from outside."""
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


pytree.set_reenter(_reentered)


def _is_vectorized(x: Any) -> bool:
    return isinstance(x, (VectorizedTensor, VectorizedArray))


def entered(leaf: Any) -> Any:
    """A leaf, in the form that functions for one entry see."""
    if isinstance(leaf, VectorizedArray):
        return enter(_captured(leaf))
    return enter(leaf) if isinstance(leaf, Tensor) else leaf


def leaves_of(tree: Any) -> tuple[list[Any], pytree.TreeSpec]:
    """The leaves of a tree; a vectorised tensor is one."""
    return pytree.flatten(tree, is_leaf=_is_vectorized)


def axes_of(x: Any) -> NamedAxes:
    """The named axes of a value."""
    return getattr(x, "axes", ())


def axes_of_leaves(tree: Any) -> list[NamedAxes]:
    """The named axes of each leaf."""
    return [axes_of(leaf) for leaf in leaves_of(tree)[0]]


def axes_of_spec(spec: pytree.TreeSpec) -> list[NamedAxes]:
    """The named axes of each leaf of a structure; they are the leading axes of the leaf."""
    tree = pytree.unflatten(spec, [0] * spec.num_leaves)
    return [axes_of(leaf) for leaf in pytree.flatten_any(tree, _is_vectorized)[0]]
