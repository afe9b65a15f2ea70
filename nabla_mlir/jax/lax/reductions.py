"""Reductions, windows and sorts under the names and with the parameters of `jax.lax`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import AxisError, DtypeError, ShapeError, TreeError, user_frame
from nabla_mlir.dialects.types import as_dtype, is_complex
from nabla_mlir.jax.lax.convolution import padtype_to_pads
from nabla_mlir.numpy import extrema, logic, reductions, running, sorting, ufuncs
from nabla_mlir.numpy.axes import axes_of, axis_of, joined
from nabla_mlir.numpy.operands import convert, tensor
from nabla_mlir.numpy.rearranging import lexsort
from nabla_mlir.numpy.special_values import described
from nabla_mlir.ops import windows
from nabla_mlir.ops.gather import along_axis
from nabla_mlir.ops.logic import logical_and, select
from nabla_mlir.ops.reduction import COMBINERS, identity_of
from nabla_mlir.ops.reduction import reduce as reduce_record
from nabla_mlir.ops.shape import expand, reshaped, transposed
from nabla_mlir.staging.eager import Static, library, staged
from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.table.tensor import Tensor, full, splat_of
from nabla_mlir.transforms.vectorize import vmap
from nabla_mlir.transforms.vectorized import per_vectorized_entry

# The functions that have a name in the records.
_WORDS: dict[Any, str] = {
    ufuncs.add: "add",
    ufuncs.multiply: "mul",
    ufuncs.maximum: "max",
    ufuncs.minimum: "min",
    logic.bitwise_and: "and",
    logic.bitwise_or: "or",
    logic.bitwise_xor: "xor",
    logic.logical_and: "and",
    logic.logical_or: "or",
}


# ---------------------------------------------------------------- reductions
def _by_word(name: str, word: str, doc: str) -> Callable[..., Any]:
    """The function of `jax.lax` that reduces along axes by the operation `word`."""

    @described(name, doc)
    def f(operand: Any, axes: Static[Any]) -> Tensor:
        x = tensor(operand)
        return (extrema.furthest if word in ("max", "min") else reductions.fold)(x, axes_of(name, tuple(axes), x.ndim), word)

    return library(f)


reduce_sum: Callable[..., Any] = _by_word("reduce_sum", "add", "The sum over these axes.")
reduce_prod: Callable[..., Any] = _by_word("reduce_prod", "mul", "The product over these axes.")
reduce_max: Callable[..., Any] = _by_word(
    "reduce_max", "max", "The largest element along these axes; equal largest elements share the derivative."
)
reduce_min: Callable[..., Any] = _by_word(
    "reduce_min", "min", "The smallest element along these axes; equal smallest elements share the derivative."
)
reduce_and: Callable[..., Any] = _by_word("reduce_and", "and", "The bitwise (or logical) and of all elements along these axes.")
reduce_or: Callable[..., Any] = _by_word("reduce_or", "or", "The bitwise (or logical) or of all elements along these axes.")
reduce_xor: Callable[..., Any] = _by_word("reduce_xor", "xor", "The bitwise exclusive or of all elements along these axes.")


def reduce(operands: Any, init_values: Any, computation: Callable[..., Any], dimensions: Sequence[int]) -> Any:
    """Combines the elements along `dimensions` by an associative function of two arguments, starting from `init_values`.

    Args:
      operands: an array, or a pytree of arrays of one shape.
      init_values: a scalar, or a pytree with one scalar for each array.
      computation: a function of two scalars, or of two pytrees of scalars, to one.
      dimensions: the axes.

    Raises:
      ShapeError: the arrays have different shapes.

    Example:
      >>> import numpy as np
      >>> float(reduce(np.array([1.0, 2.0, 4.0]), 1.0, lambda a, b: a * b, (0,)))
      8.0
    """

    def run(operands: Any, init_values: Any) -> Any:
        """Reduces by a record if the computation is a known operation, otherwise by halves."""
        xs, inits, spec = _pairs("reduce", operands, init_values)
        axes = axes_of("reduce", tuple(dimensions), xs[0].ndim)
        word = _operation_name(computation, xs[0]) if len(xs) == 1 else None
        if word is not None:
            return pytree.unflatten(spec, [reduce_record(xs[0], inits[0], dimensions=tuple(sorted(axes)), body=word)])
        return pytree.unflatten(spec, _reduce_by_halves(xs, inits, axes, _elementwise(computation, spec)))

    return staged(per_vectorized_entry(run))(operands, init_values)


def _pairs(name: str, operands: Any, init_values: Any) -> tuple[list[Tensor], list[Tensor], Any]:
    """The arrays and the initial values of a reduction as lists of leaves, and their common structure.

    `name` is the called function. Raises TreeError or ShapeError if they do not match.
    """
    leaves, spec = pytree.flatten(operands)
    starts, of_starts = pytree.flatten(init_values)
    if spec != of_starts:
        raise TreeError(f"{name} requires an initial value for each array, got {of_starts} for {spec}.", where=user_frame())
    xs = [tensor(x) for x in leaves]
    inits = [convert(tensor(i), x.dtype) for i, x in zip(starts, xs, strict=True)]
    if len({x.shape for x in xs}) != 1 or any(i.ndim for i in inits):
        raise ShapeError(
            f"{name} requires arrays of one shape and scalars as initial values, got shapes {[x.shape for x in xs]} and "
            f"{[i.shape for i in inits]}.",
            where=user_frame(),
        )
    return xs, inits, spec


def _operation_name(computation: Callable[..., Any], x: Tensor) -> str | None:
    """The word, such as "add", for a function that the records of reductions know; None for other functions.

    "max" and "min" of complex numbers have none, because records do not order them.
    """
    word = _WORDS.get(computation)
    return None if word in ("max", "min") and is_complex(x.dtype) else word


def _elementwise(computation: Callable[..., Any], spec: Any) -> Callable[[Sequence[Tensor], Sequence[Tensor]], list[Tensor]]:
    """A function that applies `computation`, a function of two pytrees of scalars, to lists of whole arrays, element by element.

    `spec` is the structure of these pytrees.
    """

    def on_vectors(low: Any, high: Any) -> Any:
        return computation(pytree.unflatten(spec, low), pytree.unflatten(spec, high))

    def run(low: Sequence[Tensor], high: Sequence[Tensor]) -> list[Tensor]:
        """Combines corresponding elements of two lists of arrays; raises TreeError if the results have another structure."""
        shape = low[0].shape
        flat = ([reshaped(v, (v.size,)) for v in side] for side in (low, high))
        out, of_out = pytree.flatten(vmap(on_vectors)(*flat))
        if of_out != spec:
            raise TreeError(
                f"a reduction requires a function with results like its arguments, {spec}, got {of_out}.", where=user_frame()
            )
        return [convert(reshaped(o, shape), v.dtype) for o, v in zip(out, low, strict=True)]

    return run


def _reduce_by_halves(xs: Sequence[Tensor], inits: Sequence[Tensor], axes: Sequence[int], join: Any) -> list[Tensor]:
    """The reduction of the arrays along the axes: halves are combined as whole arrays until one row is left.

    `join` combines two lists of arrays. The last step combines the row with the initial values.
    """
    rest = [d for d in range(xs[0].ndim) if d not in axes]
    shape = tuple(xs[0].shape[d] for d in rest)
    rows = [reshaped(transposed(x, (*axes, *rest)), (reductions.count(x.shape, tuple(axes)), *shape)) for x in xs]
    starts = [expand(i, (1, *shape), tuple(range(len(shape) + 1))) for i in inits]
    while rows[0].shape[0] > 1:
        half = rows[0].shape[0] // 2
        pairs = join([r[:half] for r in rows], [r[half : 2 * half] for r in rows])
        odd = [r[2 * half :] for r in rows]
        rows = [joined([p, o], 0) for p, o in zip(pairs, odd, strict=True)]
    out = join(starts, rows) if rows[0].shape[0] else starts
    return [reshaped(o, shape) for o in out]


def _index_dtype(name: str, x: Any, axis: int, dtype: Any) -> np.dtype:
    """The dtype of indices; raises an error unless it is an integer dtype and the axis exists."""
    index_dtype = as_dtype(dtype)
    if index_dtype.kind not in "iu":
        raise DtypeError(f"{name} requires an integer dtype of indices, got {index_dtype}.", where=user_frame())
    if not 0 <= axis < np.ndim(x):
        raise AxisError(f"{name} requires an axis of shape {np.shape(x)}, got {axis}.", where=user_frame())
    return index_dtype


@library
def argmax(operand: Any, axis: Static[int], index_dtype: Any) -> Tensor:
    """The index of the first largest element (or NaN) along an axis."""
    dtype = _index_dtype("argmax", operand, axis, index_dtype)
    return convert(extrema.argmax(operand, axis), dtype)


@library
def argmin(operand: Any, axis: Static[int], index_dtype: Any) -> Tensor:
    """The index of the first smallest element (or NaN) along an axis."""
    dtype = _index_dtype("argmin", operand, axis, index_dtype)
    return convert(extrema.argmin(operand, axis), dtype)


# ---------------------------------------------------------------- running
def _along(name: str, doc: str) -> Callable[..., Any]:
    """The function of `jax.lax` for a running reduction along one axis."""
    function = getattr(running, name)

    @described(name, doc)
    def f(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
        return function(operand, axis, reverse=reverse)

    return f


cumsum: Callable[..., Any] = _along("cumsum", "The running sum along an axis, or from its end if `reverse`.")
cumprod: Callable[..., Any] = _along("cumprod", "The running product along an axis, or from its end if `reverse`.")
cummax: Callable[..., Any] = _along("cummax", "The largest element so far along an axis, or from its end if `reverse`.")
cummin: Callable[..., Any] = _along("cummin", "The smallest element so far along an axis, or from its end if `reverse`.")
cumlogsumexp: Callable[..., Any] = _along("cumlogsumexp", "The logarithm of the running sum of exponentials along an axis.")


# ---------------------------------------------------------------- windows
def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[..., Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """Combines the elements of each sliding window by an associative function, starting from `init_value`.

    Args:
      operand: an array, or a pytree of arrays of one shape.
      init_value: a scalar that is combined once with each window, or a pytree with one for each array; padding and gaps between
        dilated elements have no effect.
      computation: a function of two scalars, or of two pytrees of scalars, to one.
      window_dimensions: the lengths of the window.
      window_strides: the step of the window along each axis; the default is 1.
      padding: "SAME", "VALID", or (low, high) for each axis.
      base_dilation: the distance of the elements of the array.
      window_dilation: the distance of the elements of the window.

    Raises:
      ShapeError: the number of lengths is not the number of axes, or a length or a step is not positive.
      TreeError: the initial values, or the results of the function, have another structure than the arrays.

    Example:
      >>> import numpy as np
      >>> reduce_window(np.array([1.0, 3.0, 2.0]), 0.0, ufuncs.add, (2,)).tolist()
      [4.0, 5.0]
    """
    rank = len(window_dimensions)
    ones = (1,) * rank
    strides, spread, holes = (tuple(v or ones) for v in (window_strides, base_dilation, window_dilation))

    def run(operand: Any, init_value: Any) -> Any:
        """Checks the window for the operands, and reduces; raises ShapeError if the window does not fit."""
        xs, inits, spec = _pairs("reduce_window", operand, init_value)
        x, init = xs[0], inits[0]
        if x.ndim != rank or {len(strides), len(spread), len(holes)} != {rank}:
            raise ShapeError(
                f"reduce_window requires a window for each axis of {x.shape}, got {tuple(window_dimensions)}.", where=user_frame()
            )
        if any(n < 1 for n in (*window_dimensions, *strides, *spread, *holes)):
            raise ShapeError(
                f"reduce_window requires positive lengths, strides and dilations, got {tuple(window_dimensions)}, {strides}, "
                f"{spread} and {holes}.",
                where=user_frame(),
            )
        sizes = [windows.spread(n, d) for n, d in zip(x.shape, spread, strict=True)]
        window = [windows.spread(n, d) for n, d in zip(window_dimensions, holes, strict=True)]
        pads = tuple(padtype_to_pads(sizes, window, strides, padding))
        geometry = {
            "window_dimensions": tuple(window_dimensions),
            "window_strides": strides,
            "base_dilations": spread,
            "window_dilations": holes,
            "padding": pads,
        }
        word = _operation_name(computation, x) if len(xs) == 1 else None
        join = _elementwise(computation, spec)
        outs, is_empty = _folded_windows(xs, inits, join, geometry) if word is None else (_named_windows(x, word, geometry), None)
        if word is not None and splat_of(init) == identity_of(word, x.dtype):
            return pytree.unflatten(spec, outs)
        starts = [expand(i, out.shape, tuple(range(out.ndim))) for i, out in zip(inits, outs, strict=True)]
        whole = join(starts, outs) if word is None else [REGISTRY[COMBINERS[word]](starts[0], outs[0])]
        if is_empty is not None:
            whole = [select(is_empty, start, w) for start, w in zip(starts, whole, strict=True)]
        return pytree.unflatten(spec, whole)

    return staged(per_vectorized_entry(run))(operand, init_value)


def _named_windows(x: Tensor, word: str, geometry: dict[str, Any]) -> list[Tensor]:
    """The elements of each window combined by a named operation; padding is its neutral element."""
    return [windows.reduce_window(x, full((), identity_of(word, x.dtype), x.dtype), body=word, **geometry)]


def _folded_windows(
    xs: Sequence[Tensor], inits: Sequence[Tensor], join: Any, geometry: dict[str, Any]
) -> tuple[list[Tensor], Tensor | None]:
    """The elements of each window combined by `join`, and a mask of the windows without elements (None if there are none).

    `geometry` has the parameters of the windows by name. The function has no neutral element, so a mask marks padding. The
    combination of an element with padding is the element. The padding has the initial value, where the function and its derivatives
    are defined.
    """
    around = geometry["base_dilations"], geometry["padding"]
    shape = geometry["window_dimensions"], geometry["window_strides"], geometry["window_dilations"]
    values = [windows.padded(x, init, *around) for x, init in zip(xs, inits, strict=True)]
    if values[0] is xs[0]:
        return list(windows.fold(list(xs), *shape, join)), None
    is_padding = windows.padded(full(xs[0].shape, False, np.dtype(bool)), full((), True, np.dtype(bool)), *around)

    def join_elements(low: list[Tensor], high: list[Tensor]) -> list[Tensor]:
        """The combination of two elements; an element combined with padding is the element."""
        (*below, low_mask), (*above, high_mask) = low, high
        each = zip(below, above, join(below, above), strict=True)
        return [*(select(low_mask, b, select(high_mask, a, c)) for a, b, c in each), logical_and(low_mask, high_mask)]

    *outs, is_empty = windows.fold([*values, is_padding], *shape, join_elements)
    return outs, is_empty


# ---------------------------------------------------------------- sorting
def top_k(operand: Any, k: int, *, axis: int = -1) -> list[Any]:
    """The k largest elements along an axis, in descending order, and their int32 indices, as a list like in JAX."""
    values, positions = sorting.top_k(operand, k, axis)
    return [values, positions.astype("int32")]


def approx_max_k(
    operand: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[Any]:
    """The k largest elements along an axis and their indices; the result is exact for all options."""
    return top_k(operand, k, axis=reduction_dimension)


def approx_min_k(
    operand: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[Any]:
    """The k smallest elements along an axis and their indices; the result is exact for all options."""
    values, positions = top_k(ufuncs.negative(operand), k, axis=reduction_dimension)
    return [ufuncs.negative(values), positions]


@library
def sort(operand: Any, dimension: Static[int] = -1, is_stable: bool = True, num_keys: Static[int] = 1) -> Any:
    """Sorts elements along an axis; several arrays are sorted together by the first `num_keys` of them.

    Raises:
      ShapeError: there are fewer arrays than keys, or their shapes differ.
    """
    if not isinstance(operand, (tuple, list)):
        return sorting.sort(operand, dimension, stable=is_stable)
    xs = [tensor(x) for x in operand]
    if not 1 <= num_keys <= len(xs) or len({x.shape for x in xs}) != 1:
        raise ShapeError(
            f"sort requires arrays of one shape, at least as many as keys, got {[x.shape for x in xs]} and num_keys={num_keys}.",
            where=user_frame(),
        )
    at = axis_of("sort", dimension, xs[0].ndim)
    order = lexsort(list(reversed(xs[:num_keys])), at)
    return tuple(along_axis(x, order, at) for x in xs)


def sort_key_val(keys: Any, values: Any, dimension: int = -1, is_stable: bool = True) -> tuple[Any, Any]:
    """The keys in order along an axis, and the values in that order."""
    return sort((keys, values), dimension, is_stable)
