"""Converts the operands of users to tensors of a trace with a common dtype."""

from __future__ import annotations

import array as array_module
from collections.abc import Sequence
from typing import Any

import numpy as np

from nabla_mlir.base import pytree
from nabla_mlir.base.conversion import integers_beyond, rank_of
from nabla_mlir.base.errors import CopyError, DtypeError, RangeError, ShapeError, TraceError, user_frame
from nabla_mlir.base.exchange import readable
from nabla_mlir.base.typing import DTypeLike
from nabla_mlir.dialects.types import as_dtype, is_complex, is_integer
from nabla_mlir.numpy.axes import Shape, joined
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import logic as lg
from nabla_mlir.ops.shape import reshaped
from nabla_mlir.runtime.array import Array
from nabla_mlir.runtime.device import device as device_of
from nabla_mlir.staging.eager import library
from nabla_mlir.staging.tracing import is_suspended, is_tracing, resumed
from nabla_mlir.table.narrowing import is_narrowing, narrow_dtype, narrowed
from nabla_mlir.table.promotion import Defaults, as_tensor, is_inexact, is_scalar, marked, promote, promote_dtypes, scalar_dtype
from nabla_mlir.table.tensor import Tensor, full
from nabla_mlir.table.vectorized import separate


def asarray(a: Any, dtype: DTypeLike | None = None, *, copy: bool | None = None, device: Any = None) -> Any:
    """Converts `a` to an array. Python numbers, also in lists, get the default dtypes; NumPy arrays do not change dtype.

    Args:
      a: an array, a number, nested lists of these, or a buffer of Python (bytearray, memoryview, array.array).
      dtype: the dtype of the result; the default depends on `a`.
      copy: True copies, so that later writes to `a` do not change the result; False never copies; None copies if needed.
      device: the device of the result; inside a trace, the target decides the device.

    Raises:
      CopyError: `copy` is False, and a copy or a conversion is needed.
      DtypeError: `a` is a masked array, whose mask would be lost.

    Example:
      >>> asarray([1.0, 2.0]).dtype
      dtype('float32')
    """
    dtype, a = None if dtype is None else as_dtype(dtype), readable(a)
    if is_narrowing():
        dtype, a = None if dtype is None else narrow_dtype(dtype), narrowed(a)
    if isinstance(a, (bytearray, memoryview, array_module.array)):
        a = np.asarray(a)
    leaves = [a]
    if isinstance(a, (list, tuple)):
        leaves, tree = pytree.flatten(a)
        a = pytree.unflatten(tree, leaves)
    if is_suspended(leaves):
        with resumed():
            return asarray(a, dtype)
    if is_tracing() and any(isinstance(leaf, Tensor) for leaf in leaves):
        out = _stacked(a)
        return out if dtype is None else strong(convert(out, dtype))
    if isinstance(a, Tensor):
        a.check_open()
    if is_tracing():
        return as_tensor(_host(a, leaves, dtype))
    result = _concrete(a, leaves, dtype, copy)
    return result if device is None else result.to(device)


def _concrete(x: Any, leaves: Sequence[Any], dtype: np.dtype | None, copy: bool | None) -> Array:
    """The value `x` without tensors as an array, as in `asarray`: the array itself, its shared memory, or a copy, as `copy` says.

    `leaves` are the numbers and arrays in nested lists.
    """
    is_same = isinstance(x, (Array, np.ndarray)) and (dtype is None or dtype == x.dtype)  # in NumPy, float64 == None is True
    if type(x) is Array and is_same and not (x.weak and dtype is not None):
        return x.copy() if copy else x
    if copy is False:
        out = Array.lent(x, device_of()) if is_same and x.flags.c_contiguous and x.flags.writeable else None
        if out is None:
            raise CopyError(
                f"asarray requires memory that it can share for copy=False, got {type(x).__name__}.",
                where=user_frame(),
                help="leave `copy` out.",
            )
        return out
    return _astype(x, dtype) if type(x) is Array else Array.from_numpy(_host(x, leaves, dtype))


def array(
    object: Any,
    dtype: DTypeLike | None = None,
    copy: bool | None = True,
    order: str | None = None,
    ndmin: int = 0,
    *,
    device: Any = None,
) -> Any:
    """Converts `object` to a separate array with at least `ndmin` axes; see `asarray`.

    Args:
      object: an array, a number, or nested lists of these.
      dtype: the dtype of the result; the default depends on `object`.
      copy: True gives the result its own memory; False never copies.
      order: has no effect, because arrays have no strides.
      ndmin: the smallest number of axes; new leading axes have length 1.
      device: the device of the result.

    Example:
      >>> array([1.0, 2.0], ndmin=2).shape
      (1, 2)
    """
    out = asarray(object, dtype, copy=copy, device=device)
    return out if out.ndim >= ndmin else out[(None,) * (ndmin - out.ndim)]


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """Imports an array of another framework through DLPack, without a copy if the host memory is aligned to 64 bytes.

    Args:
      x: an object with `__dlpack__`.
      device: the device of the result.
      copy: True copies, False raises instead of copying, and None copies if needed. Shared memory must not be changed.

    Raises:
      CopyError: `copy` is False, and the memory cannot be shared.
      ExchangeError: the memory is not on the host, or its owner refuses the export, such as a tensor with a gradient.

    Example:
      >>> from_dlpack(np.arange(3.0)).tolist()
      [0.0, 1.0, 2.0]
    """
    if type(x) is Array:
        out = x.copy() if copy else x
    elif is_tracing() or copy is not None:
        out = asarray(x, copy=copy)
    else:
        out = Array.from_numpy(readable(x), copy=False)
    return out if device is None or is_tracing() else out.to(device)


def _host(x: Any, leaves: Sequence[Any], dtype: np.dtype | None) -> np.ndarray:
    """The numbers and nested lists `x` as a NumPy array, with the default dtypes of Python numbers.

    Args:
      x: the value.
      leaves: the numbers and arrays in it.
      dtype: the dtype of the result; None means that of the leaves.
    """
    try:
        host = np.asarray(x)
    except ValueError:
        raise ShapeError("asarray requires nested lists of equal lengths, got ragged ones.", where=user_frame()) from None
    if host.dtype.kind not in "biufcV":
        raise DtypeError(f"asarray requires numbers, got {host.dtype}.", where=user_frame())
    if host.dtype.kind == "f" and leaves and all(type(leaf) is int for leaf in leaves):
        # NumPy rounds a list of integers if one is outside int64.
        if min(leaves) < 0:
            raise DtypeError(f"asarray requires integers of one dtype, got {min(leaves)} to {max(leaves)}.", where=user_frame())
        host = np.asarray(x, np.uint64)
    if dtype is None:
        # A list of Python numbers is weak, like the numbers.
        weak = all(is_scalar(leaf) for leaf in leaves)
        widest = lambda: max(map(scalar_dtype, leaves), key=lambda d: "biufc".find(d.kind), default=Defaults.float)  # noqa: E731
        dtype = widest() if weak else promote_dtypes(leaves)
    if got := integers_beyond(host, dtype):
        raise RangeError(
            f"asarray requires integers in the range of {dtype}, got {got}.", where=user_frame(), help="pass a wider dtype."
        )
    return host.astype(dtype, copy=False)


@library
def _astype(x: Any, dtype: Any) -> Any:
    """The array in another dtype, which other operands take into account."""
    return strong(convert(as_tensor(x), dtype))


def _stacked(x: Any) -> Tensor:
    """Nested lists of tensors as one tensor with an axis for each level of nesting."""
    if not isinstance(x, (list, tuple)):
        return as_tensor(x)
    parts = [_stacked(e) for e in x]
    if len({part.shape for part in parts}) > 1:
        raise ShapeError("asarray requires nested lists of equal lengths, got ragged ones.", where=user_frame())
    common = promote_dtypes(parts)
    return joined([reshaped(convert(part, common), (1, *part.shape)) for part in parts], 0)


def operand(x: Any) -> Any:
    """A list `x` as an array of the default dtypes, for arithmetic; other operands are returned unchanged."""
    x = readable(x)
    if isinstance(x, (list, tuple)):
        return asarray(x)
    if x is None or isinstance(x, (str, bytes)):
        raise TraceError(f"an array function requires arrays or numbers, got {x!r}.", where=user_frame())
    return x


def tensor(x: Any) -> Tensor:
    """Converts `x` to a tensor of the current trace."""
    return as_tensor(operand(x))


def meet(name: str, *xs: Any, dtype: np.dtype | None = None) -> list[Tensor]:
    """Promotes the operands to one dtype and broadcasts them to one shape."""
    return promote(name, *map(operand, xs), dtype=dtype)


def common_dtype(xs: Sequence[Any]) -> np.dtype:
    """The dtype to which the operands are promoted."""
    return promote_dtypes([operand(x) for x in xs])


def in_one_dtype(*xs: Any) -> list[Tensor]:
    """The operands `xs` in one dtype; shapes do not change, and Python numbers have all digits of the dtype."""
    operands = [operand(x) for x in xs]
    dtype = promote_dtypes(operands)
    return marked([as_tensor(x, dtype) for x in operands], operands)


def inexact_dtype(dtype: np.dtype) -> np.dtype:
    """A floating-point dtype unchanged; other dtypes give the default float dtype."""
    return dtype if is_inexact(dtype) else Defaults.float


def inexact(x: Any) -> Tensor:
    """Converts `x` to a floating-point tensor; integers and truth values get the default float dtype."""
    x = tensor(x)
    return x if is_inexact(x.dtype) else marked([convert(x, Defaults.float)], [x])[0]


def inexacts(name: str, *xs: Any) -> list[Tensor]:
    """Promotes the operands to one floating-point dtype, and broadcasts them."""
    xs = tuple(map(operand, xs))
    return promote(name, *xs, dtype=inexact_dtype(promote_dtypes(xs)))


def stored(value: Any, x: Tensor, shape: Shape, what: str) -> Tensor:
    """The tensor of a value that is stored in `x`, in the dtype of `x`; a scalar gets `shape`.

    Raises DtypeError for floats in integers and the like; `what` names the operation for the error.
    """
    dtype = scalar_dtype(value) if is_scalar(value) else as_tensor(value).dtype
    if rank_of(dtype) > rank_of(x.dtype):
        raise DtypeError(
            f"{what} requires values of a dtype of the kind of {x.dtype}, got {dtype}.",
            where=user_frame(),
            help="convert one of them with astype.",
        )
    return full(shape, value, x.dtype) if is_scalar(value) else convert(as_tensor(value), x.dtype)


def convert(x: Tensor, dtype: Any) -> Tensor:
    """The tensor `x` in the dtype `dtype`, by the rules of NumPy: bool is ``x != 0``, and a real dtype drops the imaginary part."""
    dtype = as_dtype(dtype)
    if x.dtype == dtype:
        return x
    if dtype.kind == "b":
        return lg.compare(x, full(x.shape, 0, x.dtype), comparison_direction="NE")
    if is_complex(x.dtype) and not is_complex(dtype):
        x = ew.real(x)
    return x if x.dtype == dtype else ew.convert(x, dtype=dtype)


def strong(x: Tensor) -> Tensor:
    """The tensor with a dtype that other operands take into account, even if it was made from Python scalars alone."""
    if not x.weak:
        return x
    out = separate(x)
    out.weak = False
    return out


def require_real(name: str, x: Tensor) -> Tensor:
    """The tensor `x`; raises DtypeError if it is complex. `name` is the called function, for errors."""
    if is_complex(x.dtype):
        raise DtypeError(
            f"{name} requires real numbers, got {x.dtype}.",
            where=user_frame(),
            help="complex numbers have no order; take abs, real or imag first.",
        )
    return x


def require_integer(name: str, x: Tensor, *, bools: bool = False) -> Tensor:
    """The tensor `x`; raises DtypeError unless its elements are integers, or truth values if `bools`. `name` is the caller, for
    errors.
    """
    if not is_integer(x.dtype) and not (bools and x.dtype.kind == "b"):
        raise DtypeError(f"{name} requires integers{' or truth values' if bools else ''}, got {x.dtype}.", where=user_frame())
    return x
