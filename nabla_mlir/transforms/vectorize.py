"""The map of a function over an axis: vmap."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

from iree.compiler import ir

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import ShapeError, TreeError, check_function, user_frame
from nabla_mlir.base.typing import PyTree
from nabla_mlir.dialects import batch
from nabla_mlir.staging.eager import staged
from nabla_mlir.staging.specs import Spec
from nabla_mlir.staging.tracing import results_of, trace_region
from nabla_mlir.table.promotion import as_tensor, is_scalar
from nabla_mlir.table.tensor import Tensor
from nabla_mlir.transforms.arguments import own
from nabla_mlir.transforms.collectives import bound_axis
from nabla_mlir.transforms.vectorized import per_vectorized_entry
from nabla_mlir.transforms.vectorized_trees import axes_of_spec


def vmap(
    fun: Callable[..., Any], in_axes: PyTree = 0, out_axes: PyTree = 0, axis_name: str | None = None, axis_size: int | None = None
) -> Callable[..., Any]:
    """The function that applies `fun` to each entry along an axis of its arguments.

    Args:
      fun: any function of arrays.
      in_axes: the mapped axis of each positional argument: an int (negative counts from the end) or None (not
        mapped, shared by all entries), or a tuple of ints, None and pytrees of them that are prefixes of the
        arguments. Keyword arguments are mapped over axis 0.
      out_axes: the position of the mapped axis in the results; None for a result that does not vary.
      axis_name: a name for the axis, by which collectives such as `nm.psum` find it.
      axis_size: the size, needed if no argument is mapped.

    Raises:
      ShapeError: mapped axes have different sizes; the message lists the size of each argument.
      TreeError: in_axes or out_axes do not fit.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.vmap(lambda x, y: x * y, in_axes=(0, None))(np.arange(3.0), 2.0).tolist()
      [0.0, 2.0, 4.0]
    """
    check_function("vmap", fun)
    if hasattr(in_axes, "shape") or isinstance(in_axes, float):
        raise TreeError(
            f"vmap requires ints and None as in_axes, got {type(in_axes).__name__}.",
            where=user_frame(),
            help="vmap(f) is a function of the arguments of f: write vmap(f)(x).",
        )

    @functools.wraps(fun)
    def vmap_f(*args: Any, **kwargs: Any) -> Any:
        """The results of `fun` for all entries of the mapped axes, stacked."""
        whole = _untraced_arguments(in_axes, args)

        def run(*args: Any, **kwargs: Any) -> Any:
            """The results of `fun` for all entries, with the arguments that are not traced filled in."""
            values = tuple(whole.get(i, x) for i, x in enumerate(args))
            return _vmap(fun, in_axes, out_axes, axis_size, axis_name, values, kwargs)

        return staged(per_vectorized_entry(run))(*(None if i in whole else x for i, x in enumerate(args)), **kwargs)

    return vmap_f


def _vmap(
    f: Callable[..., Any],
    in_axes: Any,
    out_axes: Any,
    axis_size: int | None,
    axis_name: str | None,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """The results of `f` for all entries: it is traced for one entry, into the region of a `batch.vmap`.

    The parameters are those of `vmap`; `args` and `kwargs` are the arguments of `f`.
    """
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if isinstance(in_axes, tuple) and len(in_axes) != len(args):
        raise TreeError(
            f"vmap requires one entry of in_axes per positional argument, got {len(in_axes)} for {len(args)}.", where=user_frame()
        )
    leaves, spec = pytree.flatten((args, kwargs))
    per_args = pytree.broadcast_prefix(in_axes, pytree.flatten(args)[1], "in_axes")
    axes = [*per_args, *[0] * (len(leaves) - len(per_args))]
    tensors = [x if axis is None and _is_object(x) else as_tensor(x) for axis, x in zip(axes, leaves, strict=True)]
    names = [_argument_name(f, path) for path in pytree.paths(spec)]
    positions = [_check_in_axis(axis, t, name) for axis, t, name in zip(axes, tensors, names, strict=True)]
    size = _common_size(positions, tensors, names, axis_size)
    leaders = [i for i, position in enumerate(positions) if position is not None]
    inner_specs = [Spec(_without_axis(tensors[i].shape, positions[i]), tensors[i].dtype, tensors[i].weak) for i in leaders]
    box: dict[str, Any] = {}

    def body(*inner: Tensor) -> list[Any]:
        """The results of `f` for one entry; also finds the positions of the mapped axes in the results."""
        bound.block = ir.InsertionPoint.current.block
        # A Python number that is not mapped stays one, so that `f` can use its value.
        values: list[Any] = [x if is_scalar(x) else t for x, t in zip(leaves, tensors, strict=True)]
        for i, value in zip(leaders, inner, strict=True):
            values[i] = value
        inner_args, inner_kwargs = own(pytree.unflatten(spec, values))
        out_leaves, box["spec"] = pytree.flatten(f(*inner_args, **inner_kwargs))
        outs = [as_tensor(leaf) for leaf in out_leaves]
        per_out = pytree.broadcast_prefix(out_axes, box["spec"], "out_axes")
        counts = map(len, axes_of_spec(box["spec"]))
        box["positions"] = [_check_out_axis(axis, out, n) for axis, out, n in zip(per_out, outs, counts, strict=True)]
        return outs

    with bound_axis(axis_name, size) as bound:
        block, _, outs = trace_region(body, inner_specs, "the function given to vmap")
    in_positions = [[position] for position in positions if position is not None]
    op = batch.VmapOp.build(
        [tensors[i].value for i in leaders], block, [bound.symbol], [size], in_positions, [[p] for p in box["positions"]]
    ).op
    return pytree.unflatten(box["spec"], results_of(op, outs))


def _untraced_arguments(in_axes: Any, args: tuple[Any, ...]) -> dict[int, Any]:
    """The arguments, by position, that all entries share and that reach the function without being traced.

    These are Python integers, which are sizes and settings, and objects that hold more than numbers, such as the object of a
    method. `args` are all arguments of the call, and an axis None in `in_axes` means that the entries share the argument.
    """
    if not isinstance(in_axes, (tuple, list)) or len(in_axes) != len(args):
        return {}
    shared = {i: pytree.flatten(x)[0] for i, (axis, x) in enumerate(zip(in_axes, args, strict=True)) if axis is None}
    are_integers = {i for i, leaves in shared.items() if leaves and all(isinstance(x, int) for x in leaves)}
    return {i: args[i] for i, leaves in shared.items() if i in are_integers or any(map(_is_object, leaves))}


def _is_object(leaf: Any) -> bool:
    """True for a leaf that is no array and no number."""
    return not (is_scalar(leaf) or pytree.is_array(leaf))


def _argument_name(f: Callable[..., Any], path: str) -> str:
    """The name of an argument for messages, from its path in (args, kwargs).

    Example: "[0][0]['w']" gives "x['w']" for a function f(x).
    """
    match = re.match(r"\[0\]\[(\d+)\](.*)", path)
    if match is None:
        return path.removeprefix("[1]")
    try:
        names = list(inspect.signature(f).parameters)
    except (TypeError, ValueError):
        names = []
    i = int(match[1])
    return (names[i] if i < len(names) else f"argument {i}") + match[2]


def _check_in_axis(axis: Any, x: Tensor, name: str) -> int | None:
    """The mapped axis of the argument `x` as a number from 0; None if it is not mapped. Raises an error if `axis` does not fit.

    `name` is the name of the argument, for errors.
    """
    if axis is None:
        return None
    if not isinstance(axis, int) or isinstance(axis, bool):
        raise TreeError(f"in_axes requires ints and None, got {axis!r} for {name}.", where=user_frame())
    if not -x.ndim <= axis < x.ndim:
        raise ShapeError(
            f"vmap requires an axis of its argument, got axis {axis} for {name} of shape {x.shape}.",
            where=user_frame(),
            help="" if x.ndim else "a list or tuple of numbers is a tree of scalars: pass np.array(...), or None in in_axes.",
        )
    return axis % x.ndim


def _common_size(positions: list[int | None], tensors: list[Tensor], names: list[str], axis_size: int | None) -> int:
    """The size of the mapped axes; raises ShapeError if there is none, or if sizes differ.

    Args:
      positions: the mapped axis of each tensor, or None.
      tensors: the leaves of the arguments.
      names: their names, for errors.
      axis_size: the size that the user states, or None.
    """
    sizes = {n: t.shape[p] for n, t, p in zip(names, tensors, positions, strict=True) if p is not None}
    if axis_size is not None:
        sizes["axis_size"] = axis_size
    if not sizes:
        raise ShapeError("vmap requires a mapped argument or axis_size, got neither.", where=user_frame())
    if len(set(sizes.values())) > 1:
        text = ", ".join(f"{name}: {n}" for name, n in sizes.items())
        raise ShapeError(
            f"vmap requires mapped axes of one size, got {text}.",
            where=user_frame(),
            help="give None in in_axes for arguments that all entries share.",
        )
    return next(iter(sizes.values()))


def _without_axis(shape: tuple[int, ...], position: int | None) -> tuple[int, ...]:
    assert position is not None
    return shape[:position] + shape[position + 1 :]


def _check_out_axis(axis: Any, out: Tensor, names: int) -> int:
    """The position of the mapped axis in a result. The `names` named axes that the function has given come first."""
    if axis is None:
        return batch.NOT_CARRIED
    rank = out.ndim + 1 - names
    if not isinstance(axis, int) or not -rank <= axis < rank:
        raise ShapeError(f"out_axes requires an axis of a result of rank {rank}, got {axis!r}.", where=user_frame())
    return names + axis % rank
