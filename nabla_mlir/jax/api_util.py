"""Functions of pytrees as functions of leaves, under the names of `jax.api_util`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from nabla_mlir.base import pytree
from nabla_mlir.jax.environment import typeof as shaped_abstractify
from nabla_mlir.jax.extend import linear_util

__all__ = ["debug_info", "flatten_axes", "flatten_fun", "flatten_fun_nokwargs", "safe_map", "shaped_abstractify"]


@linear_util.transformation_with_aux
def flatten_fun(in_tree: Any, *leaves: Any) -> Iterator[Any]:
    """A `WrappedFun` of the leaves of ``(args, kwargs)``, whose structure is `in_tree`, and a reader of the structure of its
    result.
    """
    args, kwargs = pytree.unflatten(in_tree, leaves)
    result = yield args, kwargs
    yield pytree.flatten_any(result)


@linear_util.transformation_with_aux
def flatten_fun_nokwargs(in_tree: Any, *leaves: Any) -> Iterator[Any]:
    """A `WrappedFun` of the leaves of the arguments, and a reader of the structure of its result."""
    result = yield pytree.unflatten(in_tree, leaves), {}
    yield pytree.flatten_any(result)


def flatten_axes(name: str, treedef: Any, axis_tree: Any, *, kws: bool = False, tupled_args: bool = False) -> list[Any]:
    """An axis for each leaf of a structure, from a tree that is a prefix of the structure.

    Example:
      >>> import nabla_mlir as nm
      >>> flatten_axes("in_axes", nm.jax.tree.structure(({"a": 0, "b": 1}, 2)), (0, None))
      [0, 0, None]
    """
    if kws:  # the axes of keyword arguments are 0
        treedef_args, treedef_kwargs = treedef.children()
        return pytree.broadcast_prefix(axis_tree, treedef_args, name) + [0] * int(treedef_kwargs.num_leaves)
    return pytree.broadcast_prefix(axis_tree, treedef, name)


def safe_map(f: Callable[..., Any], *args: Any) -> list[Any]:
    """The list of the results of `f` for corresponding elements. Raises ValueError if the lengths of the sequences differ.

    Example:
      >>> safe_map(lambda x, y: x + y, [1, 2], [3, 4])
      [4, 6]
    """
    return [f(*each) for each in zip(*args, strict=True)]


def debug_info(traced_for: str, fun: Any, *args: Any, **kwargs: Any) -> None:
    """None: errors and IR show the user's lines, so functions carry no other description."""
    return
