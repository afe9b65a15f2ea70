"""What the modules of the namespace share: operands, axes, and the making of functions from records."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from nabla_mlir.conversion import rank_of
from nabla_mlir.dialects.types import as_dtype, is_complex, is_integer
from nabla_mlir.errors import DtypeError, ShapeError, TraceError, user_frame
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import shape as sh
from nabla_mlir.table.promotion import (
    Defaults,
    as_tensor,
    is_inexact,
    is_scalar,
    promote,
    promote_dtypes,
    scalar_dtype,
)
from nabla_mlir.table.tensor import Tensor, full

Axis = int | Sequence[int] | None
Shape = tuple[int, ...]


def operand(x: Any) -> Any:
    """`x` as arithmetic takes it: a list becomes an array of the default dtypes, anything else stays."""
    if isinstance(x, (list, tuple)):
        from nabla_mlir.numpy.creation import asarray

        return asarray(x)
    if x is None or isinstance(x, (str, bytes)):
        raise TraceError(f"an array function requires arrays or numbers, got {x!r}.", where=user_frame())
    return x


def tensor(x: Any) -> Tensor:
    """`x` as a tensor of the current trace."""
    return as_tensor(operand(x))


def meet(name: str, *xs: Any, dtype: np.dtype | None = None) -> list[Tensor]:
    """The operands promoted to one dtype and broadcast to one shape."""
    return promote(name, *map(operand, xs), dtype=dtype)


def common_dtype(xs: Sequence[Any]) -> np.dtype:
    """The dtype in which the operands meet."""
    return promote_dtypes([operand(x) for x in xs])


def inexact_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype itself if it is of floating point, else the default float dtype."""
    return dtype if is_inexact(dtype) else Defaults.float


def inexact(x: Any) -> Tensor:
    """`x` as a tensor of floating point; integers and truth values take the default float dtype."""
    x = tensor(x)
    return x if is_inexact(x.dtype) else convert(x, Defaults.float)


def inexacts(name: str, *xs: Any) -> list[Tensor]:
    """The operands promoted together, to floating point at least."""
    xs = tuple(map(operand, xs))
    return promote(name, *xs, dtype=inexact_dtype(promote_dtypes(xs)))


def stored(value: Any, x: Tensor, shape: Shape, what: str) -> Tensor:
    """A value as it is stored in `x`; a scalar gets a shape. Raises DtypeError for a higher kind: floats in integers."""
    dtype = scalar_dtype(value) if is_scalar(value) else as_tensor(value).dtype
    if rank_of(dtype) > rank_of(x.dtype):
        raise DtypeError(f"{what} requires values of the kind of {x.dtype}, got {dtype}.", where=user_frame(),
                         help="convert one of them with astype.")  # fmt: skip
    return full(shape, value, x.dtype) if is_scalar(value) else convert(as_tensor(value), x.dtype)


def convert(x: Tensor, dtype: Any) -> Tensor:
    """`x` in another dtype, by NumPy's rules: bool is ``x != 0``, and a real dtype drops the imaginary part."""
    dtype = as_dtype(dtype)
    if x.dtype == dtype:
        return x
    if dtype.kind == "b":
        return ew.compare(x, full(x.shape, 0, x.dtype), comparison_direction="NE")
    if is_complex(x.dtype) and not is_complex(dtype):
        x = ew.real(x)
    return x if x.dtype == dtype else ew.convert(x, dtype=dtype)


def require_real(name: str, x: Tensor) -> Tensor:
    """`x`, or DtypeError if it is complex."""
    if is_complex(x.dtype):
        raise DtypeError(f"{name} requires real numbers, got {x.dtype}.", where=user_frame(),
                         help="complex numbers have no order; take abs, real or imag first.")  # fmt: skip
    return x


def require_integer(name: str, x: Tensor, *, bools: bool = False) -> Tensor:
    """`x`, or DtypeError unless its elements are integers (or, if allowed, truth values)."""
    if not is_integer(x.dtype) and not (bools and x.dtype.kind == "b"):
        raise DtypeError(
            f"{name} requires integers{' or truth values' if bools else ''}, got {x.dtype}.", where=user_frame()
        )
    return x


def axis_of(name: str, axis: Any, ndim: int) -> int:
    """One axis counted from the front. Raises ShapeError if there is no such axis."""
    try:
        axis = operator.index(axis)
    except TypeError:
        raise ShapeError(f"{name} requires an integer as axis, got {axis!r}.", where=user_frame()) from None
    if not -ndim <= axis < ndim:
        raise ShapeError(f"{name} requires an axis of an array with {ndim} axes, got {axis}.", where=user_frame())
    return axis % ndim


def axes_of(name: str, axis: Axis, ndim: int) -> Shape:
    """Axes counted from the front, in the order given; None stands for all. Raises ShapeError if one is there twice."""
    if axis is None:
        return tuple(range(ndim))
    axes = tuple(axis_of(name, a, ndim) for a in (axis if isinstance(axis, (tuple, list)) else (axis,)))
    if len(set(axes)) != len(axes):
        raise ShapeError(f"{name} requires different axes, got {axis}.", where=user_frame())
    return axes


def shape_of(name: str, shape: Any) -> Shape:
    """A shape from an int or a sequence of ints, none of them negative."""
    try:
        lengths = (
            tuple(operator.index(n) for n in shape) if isinstance(shape, (tuple, list)) else (operator.index(shape),)
        )
    except TypeError:
        raise ShapeError(f"{name} requires a shape of integers, got {shape!r}.", where=user_frame()) from None
    if any(n < 0 for n in lengths):
        raise ShapeError(f"{name} requires lengths that are not negative, got {lengths}.", where=user_frame())
    return lengths


def sliced(x: Tensor, axis: int, start: int, stop: int, step: int = 1) -> Tensor:
    """``x[start:stop:step]`` along one axis; `x` itself if that is everything."""
    if (start, stop, step) == (0, x.shape[axis], 1):
        return x
    starts, stops, steps = [0] * x.ndim, list(x.shape), [1] * x.ndim
    starts[axis], stops[axis], steps[axis] = start, stop, step
    return sh.slice_(x, start_indices=tuple(starts), limit_indices=tuple(stops), strides=tuple(steps))


def reshaped(x: Tensor, shape: Shape) -> Tensor:
    """`x` under another shape; nothing is emitted if it has it already."""
    return x if x.shape == shape else sh.reshape(x, shape=shape)


def transposed(x: Tensor, permutation: Sequence[int]) -> Tensor:
    """`x` with its axes permuted; nothing is emitted for the identity, a reshape if only axes of size 1 move."""
    permutation = tuple(permutation)
    if permutation == tuple(range(x.ndim)):
        return x
    real = [d for d in permutation if x.shape[d] != 1]
    if real == sorted(real):
        return reshaped(x, tuple(x.shape[d] for d in permutation))
    return sh.transpose(x, permutation=permutation)


def joined(xs: Sequence[Tensor], axis: int) -> Tensor:
    """The operands behind each other; those of length 0 are left out."""
    kept = [x for x in xs if x.shape[axis]] or [xs[0]]
    return kept[0] if len(kept) == 1 else sh.concatenate(*kept, dimension=axis)


def padded(x: Tensor, axis: int, low: int, high: int, value: Any = 0) -> Tensor:
    """`x` with `value` before and behind it along one axis; negative widths cut off."""
    lows, highs = [0] * x.ndim, [0] * x.ndim
    lows[axis], highs[axis] = low, high
    fill = value if isinstance(value, Tensor) else full((), value, x.dtype)
    return sh.pad(x, fill, edge_padding_low=tuple(lows), edge_padding_high=tuple(highs), interior_padding=(0,) * x.ndim)


def described(name: str, doc: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives a function made from a record its name and documentation."""

    def apply(f: Callable[..., Any]) -> Callable[..., Any]:
        f.__name__ = f.__qualname__ = name
        f.__doc__ = doc
        return f

    return apply


def dynamic_shape(name: str, advice: str) -> NoReturn:
    """Raises TraceError: the result's shape would depend on values."""
    raise TraceError(f"{name} requires a result whose shape does not depend on values, got a traced array.",
                     where=user_frame(), help=advice)  # fmt: skip
