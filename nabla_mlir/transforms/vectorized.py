"""Vectorised tensors: arrays with named axes, along which every operation acts on each entry separately.

Operands with equal names are combined entry by entry. Different names give all pairs, in order of first appearance. The
semantics are those of Nx (Elixir). Transforms and control flow act on each entry, too: `nm.grad` of a function of vectorised
tensors is a gradient for each entry, and `nm.while_loop` has a number of iterations for each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import ShapeError, TraceError, user_frame
from nabla_mlir.base.typing import ArrayLike, PyTree
from nabla_mlir.dialects.regions import move_here
from nabla_mlir.ops.shape import broadcast_in_dim, reduce_sum, reshape, transpose
from nabla_mlir.runtime.named import VectorizedArray
from nabla_mlir.staging.eager import staged
from nabla_mlir.staging.tracing import is_tracing, trace_region
from nabla_mlir.table.promotion import as_tensor
from nabla_mlir.table.tensor import NamedAxes, Tensor, wrap
from nabla_mlir.table.vectorized import TakesApartError, map_over, name_inside, per_entry_scope, union, unwrapped, whole, with_axes
from nabla_mlir.transforms.vectorized_trees import axes_of, entered, leaves_of

Names = str | Sequence[str] | Mapping[str, int]


# ---------------------------------------------------------------- names


def vectorize(x: PyTree, axes: Names) -> PyTree:
    """Gives names to the leading axes of arrays. Every later operation acts on each entry along these axes.

    Args:
      x: a pytree of arrays (or specs) of shape (n_1, ..., n_k, *S). New named axes come after existing ones.
      axes: a name, several names, or a dict of names and required sizes.

    Returns:
      The same data, of shape S for each entry.

    Raises:
      ShapeError: there are fewer axes than names, a size differs, or a name is in use.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> x, y = nm.vectorize(np.array([1.0, 2.0]), "row"), nm.vectorize(np.array([3.0, 4.0, 5.0]), "column")
      >>> nm.devectorize(x * y).tolist()
      [[3.0, 4.0, 5.0], [6.0, 8.0, 10.0]]
    """
    names = {axes: None} if isinstance(axes, str) else axes
    sizes = dict(names) if isinstance(names, Mapping) else dict.fromkeys(names)
    if len(sizes) != len(names):
        raise ShapeError(f"vectorize requires different names, got {list(names)}.", where=user_frame())
    if is_tracing():
        name_inside(list(sizes))
    leaves, spec = leaves_of(x)
    return pytree.unflatten(spec, [_add_names(_concrete(leaf), sizes) for leaf in leaves])


def _concrete(leaf: Any) -> Any:
    """The array `leaf` as a tensor inside a trace, and as an array outside."""
    if is_tracing():
        return as_tensor(leaf)
    return leaf if pytree.is_array(leaf) else np.asarray(leaf)


def _add_names(x: Any, sizes: Mapping[str, int | None]) -> Any:
    """The array `x` with names for its first axes, after the names that it has.

    `sizes` maps each new name to the size that the axis must have, or to None for any size.
    """
    axes = axes_of(x)
    if len(sizes) > len(x.shape):
        raise ShapeError(
            f"vectorize requires an axis for each name, got {len(sizes)} names for shape {tuple(x.shape)}.", where=user_frame()
        )
    for (name, size), actual in zip(sizes.items(), x.shape, strict=False):
        if size is not None and size != actual:
            raise ShapeError(f"vectorize requires axis '{name}' of size {size}, got {actual}.", where=user_frame())
        if name in dict(axes):
            raise ShapeError(
                f"vectorize requires an unused name, got '{name}' for an array that has axes {dict(axes)}.", where=user_frame()
            )
    return _with_names(x, (*axes, *zip(sizes, x.shape, strict=False)))


def _with_names(x: Any, axes: NamedAxes) -> Any:
    """The data of `x` with `axes` as its named axes, in place of those that it had."""
    if isinstance(x, Tensor):
        return with_axes(x, axes)
    data = x.data if isinstance(x, VectorizedArray) else x
    return VectorizedArray(data, axes) if axes else data


def devectorize(x: PyTree) -> PyTree:
    """Makes all named axes of arrays ordinary leading axes again.

    Inside a function that is differentiated for each entry, it ends the separate treatment of entries. The gradient is then
    that of the sum of the results, with respect to all entries.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.devectorize(nm.vectorize(np.array([[1.0, 2.0]]), "batch").sum()).tolist()
      [3.0]

      The axes of the result are known by their position, in the order of the names:

      >>> x = nm.vectorize(np.arange(6.0).reshape(2, 3), ["row", "column"])
      >>> nm.vectorize(nm.devectorize(x).T, ["column", "row"]).vectorized_axes
      {'column': 3, 'row': 2}
    """
    leaves, spec = leaves_of(x)
    return pytree.unflatten(spec, [_with_names(_unwrap(leaf), ()) for leaf in leaves])


def _unwrap(leaf: Any) -> Any:
    """The array `leaf` in a form whose named axes can be read: a tensor inside a trace, an array outside."""
    if not is_tracing():
        return _concrete(leaf)
    tensor = leaf if isinstance(leaf, Tensor) else leaf.__nabla_tensor__() if axes_of(leaf) else as_tensor(leaf)
    return unwrapped(tensor)


def revectorize(x: ArrayLike, target_axes: Mapping[str, int], target_shape: Sequence[int] = ()) -> Any:
    """The data of an array, in row-major order, with other named axes and another shape.

    Args:
      x: an array; its named axes lead.
      target_axes: names and sizes.
      target_shape: the shape of one entry. One size in `target_axes` or `target_shape` may be -1: it is inferred.

    Raises:
      ShapeError: the number of elements differs.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> x = nm.vectorize(np.arange(6.0).reshape(2, 3), {"a": 2, "b": 3})
      >>> nm.revectorize(x, {"pair": 3}, (2,)).vectorized_axes
      {'pair': 3}
    """

    def run(x: Any) -> Any:
        """The tensor with the named axes `target_axes` and the shape `target_shape`; one size may be -1."""
        tensor = whole(_unwrap(x))
        sizes = _infer_size((*target_axes.values(), *target_shape), tensor.size)
        name_inside(list(target_axes))
        return with_axes(reshape(tensor, shape=sizes), tuple(zip(target_axes, sizes, strict=False)))

    return staged(run)(x)


def _infer_size(sizes: tuple[int, ...], count: int) -> tuple[int, ...]:
    """The sizes with -1 replaced by the size that makes their product equal to `count`: (2, -1) and 6 give (2, 3)."""
    rest = math.prod(n for n in sizes if n != -1)
    if sizes.count(-1) == 1 and rest and count % rest == 0:
        sizes = tuple(count // rest if n == -1 else n for n in sizes)
    if math.prod(sizes) != count or -1 in sizes:
        raise ShapeError(f"revectorize requires sizes whose product is {count}, got {sizes}.", where=user_frame())
    return sizes


def reshape_vectors(xs: Sequence[Any], align_ranks: bool = False) -> tuple[Any, ...]:
    """Gives arrays the same named axes in the same order. An array without one of them gets it with size 1.

    Args:
      xs: arrays. The order of the axes is that of first appearance.
      align_ranks: True also adds leading axes of size 1 to entries, until all have the same rank.

    Raises:
      ShapeError: an axis has different sizes, neither of them 1.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> x, y = nm.vectorize(np.ones((2,)), "x"), nm.vectorize(np.ones((3,)), "y")
      >>> [z.vectorized_axes for z in nm.reshape_vectors([x, y])]
      [{'x': 2, 'y': 1}, {'x': 1, 'y': 3}]
    """

    def run(xs: Sequence[Any]) -> tuple[Any, ...]:
        """The tensors with the same named axes in the same order; an axis that a tensor did not have gets size 1."""
        tensors = [_unwrap(x) for x in xs]
        names = [name for name, _ in union([x.axes for x in tensors], "reshape_vectors")]
        rank = max((x.ndim for x in tensors), default=0) if align_ranks else 0
        return tuple(_align_axes(x, names, rank) for x in tensors)

    return staged(run)(tuple(xs))


def broadcast_vectors(xs: Sequence[Any], align_ranks: bool = False) -> tuple[Any, ...]:
    """Gives arrays the same named axes with the same sizes. A new axis, or one of size 1, gets the size of the other arrays.

    Args:
      xs: arrays.
      align_ranks: as for `reshape_vectors`.

    Raises:
      ShapeError: an axis has different sizes, neither of them 1.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> x, y = nm.vectorize(np.ones((2,)), "x"), nm.vectorize(np.ones((3,)), "y")
      >>> [z.vectorized_axes for z in nm.broadcast_vectors([x, y])]
      [{'x': 2, 'y': 3}, {'x': 2, 'y': 3}]
    """

    def run(xs: Sequence[Any]) -> tuple[Any, ...]:
        """The tensors with the same named axes of the same sizes; each is repeated along the axes that it did not have."""
        tensors = [_unwrap(x) for x in xs]
        axes = union([x.axes for x in tensors], "broadcast_vectors")
        rank = max((x.ndim for x in tensors), default=0) if align_ranks else 0
        return tuple(_broadcast_axes(_align_axes(x, [name for name, _ in axes], rank), axes) for x in tensors)

    return staged(run)(tuple(xs))


def _broadcast_axes(x: Tensor, axes: NamedAxes) -> Tensor:
    """The array with the sizes `axes` of its named axes; it is repeated along an axis that has size 1.

    Example: axes (("a", 1), ("b", 3)) and a request for ("a", 2), ("b", 3) repeat the array twice along "a".
    """
    data = whole(x)
    shape = (*(size for _, size in axes), *x.shape)
    if data.shape == shape:
        return x
    return with_axes(broadcast_in_dim(data, shape=shape, broadcast_dimensions=tuple(range(data.ndim))), axes)


def _align_axes(x: Tensor, names: Sequence[str], rank: int) -> Tensor:
    """The array with the named axes `names`, in this order, and entries of at least `rank` axes; new axes have size 1."""
    names_of_x = [name for name, _ in x.axes]
    order = [names_of_x.index(name) for name in names if name in names_of_x]
    data = whole(x)
    if order != sorted(order):
        data = transpose(data, permutation=(*order, *range(len(order), data.ndim)))
    axes = tuple((name, dict(x.axes).get(name, 1)) for name in names)
    shape = (*(size for _, size in axes), *[1] * (rank - x.ndim), *x.shape)
    return with_axes(data if data.shape == shape else reshape(data, shape=shape), axes)


# ---------------------------------------------------------------- functions per entry


def per_vectorized_entry(run: Callable[..., Any], together: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """The function that runs `run` on each entry of its vectorised arguments, and of captured vectorised tensors.

    It is a map over all axes of these tensors, and every result carries all of the axes. Without such axes, the function just runs.

    Args:
      run: a function that emits into the current trace.
      together: the function that runs instead, on the vectorised tensors themselves, if `run` reads their axes.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        """The results of `run` for each entry of the vectorised tensors among the arguments.

        If `run` needs all entries at once, `together` is called in its place; without it, TraceError is raised.
        """
        try:
            return _run_per_entry(run, args, kwargs)
        except TakesApartError:
            if together is not None:
                return together(*args, **kwargs)
        raise TraceError(
            "devectorize, revectorize and reshape_vectors require a tensor whose axes are not mapped over, got one "
            "inside a transform or a control flow function that acts on each entry.",
            where=user_frame(),
            help="call them outside of that function.",
        )

    call.__qualname__ = getattr(run, "__qualname__", call.__qualname__)  # messages name the transform by it
    return call


def entrywise(
    what: str, run: Callable[..., Any], vectorized: str, together: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """A transform of functions of vectorised tensors: of each entry ("union"), or of all entries together ("parameter").

    Args:
      what: the name of the transform.
      run: a function that emits into the current trace.
      vectorized: "union" or "parameter".
      together: the function for programs that remove named axes, which cannot run for each entry; by default `run`.

    Raises:
      TraceError: `vectorized` is neither.
    """
    if vectorized not in ("union", "parameter"):
        raise TraceError(f"{what} requires vectorized='union' or 'parameter', got {vectorized!r}.", where=user_frame())
    return staged(per_vectorized_entry(run, together or run) if vectorized == "union" else run)


def summed_entries(tree: Any) -> Any:
    """The tree in which each vectorised tensor is summed over its named axes; other leaves stay as they are."""
    leaves, spec = leaves_of(tree)
    sums = [reduce_sum(whole(x), tuple(range(len(x.axes)))) if axes_of(x) else x for x in leaves]
    return pytree.unflatten(spec, sums)


def _run_per_entry(run: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """The results of `run` for all entries of the vectorised tensors in its arguments; it is traced once, for one entry."""
    out_spec: Any = None
    scope: Any = None

    def body() -> list[Any]:
        """The leaves of the result of `run` for one entry."""
        nonlocal out_spec, scope
        with per_entry_scope() as scope:
            leaves, spec = leaves_of((args, kwargs))
            inner_args, inner_kwargs = pytree.unflatten(spec, [entered(leaf) for leaf in leaves])
            out = run(*inner_args, **inner_kwargs)
            outs, out_spec = pytree.flatten(out)
            return [as_tensor(leaf) for leaf in outs]

    block, _, outs = trace_region(body, [], "a function of vectorised tensors")
    if scope.operands:
        results = map_over(block, scope.operands, scope.axes, len(outs))
    else:  # no vectorised tensor was read: the code needs no map
        results = [_rewrap(out) for out in outs]
        *ops, terminator = (op.operation for op in block.operations)
        terminator.erase()
        move_here(ops)
    return pytree.unflatten(out_spec, results)


def _rewrap(out: Tensor) -> Tensor:
    """The tensor `out` of a finished region as a tensor of the current scope, as weak as before."""
    result = wrap(out.value)
    result.weak = out.weak
    return result
