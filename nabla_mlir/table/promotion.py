"""Promotion of dtypes, broadcasting of shapes, and the operators of Tensor that use both.

Mixed dtypes promote by NumPy's table (`numpy.promote_types`), with one exception while the default float dtype has 32
bits: an integer and a floating-point dtype give the floating-point dtype, as in JAX and PyTorch (int32 with float32
gives float32; NumPy gives float64). A Python scalar is weak: it gets the dtype of the other operand, unless its kind is
higher (a float with an integer tensor gives the default float dtype). While the default has 32 bits, a 64-bit NumPy
number such as `np.sqrt(2)` counts as 32 bits next to an array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nabla_mlir.base import pytree
from nabla_mlir.base.conversion import rank_of, scalar_misfit
from nabla_mlir.base.errors import DtypeError, RangeError, ShapeError, user_frame
from nabla_mlir.base.exchange import readable
from nabla_mlir.base.typing import DTypeLike
from nabla_mlir.dialects.types import PYTHON, as_dtype, is_complex, is_differentiable
from nabla_mlir.table.narrowing import follows_jax, has_wide, is_narrowing, narrow_dtype, narrowed
from nabla_mlir.table.registry import operation
from nabla_mlir.table.tensor import Tensor, constant, full
from nabla_mlir.table.vectorized import enter

# By kind of dtype: its rank in the order of promotion.
_KINDS = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
# The dtypes that NumPy gives to Python's numbers, as in `np.sqrt(2)`.
_NUMPYS_NUMBERS = (np.float64, np.complex128, np.int64)
_WIDE = tuple(map(np.dtype, _NUMPYS_NUMBERS))
_TYPES = {"i": int, "f": float, "c": complex}
_FLOAT32, _HALVES = np.dtype(np.float32), {as_dtype("bfloat16"), np.dtype(np.float16)}


def is_scalar(x: Any) -> bool:
    """True for Python numbers. NumPy scalars, some of which are subclasses of them, count as arrays with a dtype."""
    return isinstance(x, (bool, int, float, complex)) and not isinstance(x, np.generic)


class Defaults:
    """The dtypes of new arrays; change them with `nm.set_default_dtypes`."""

    float: np.dtype = np.dtype(np.float32)
    int: np.dtype = np.dtype(np.int32)


_PYTHON_TYPES = (int, float, complex)


def set_default_dtypes(*, float: DTypeLike | None = None, int: DTypeLike | None = None) -> None:
    """Sets the dtypes of creation functions without `dtype`, and of Python scalars that meet no array.

    Args:
      float: a real floating-point dtype (float32 at the start).
      int: an integer dtype (int32 at the start).

    Example:
      >>> set_default_dtypes(float="f32", int="i32")
    """
    if float is not None:
        Defaults.float = as_dtype(float)
    if int is not None:
        Defaults.int = as_dtype(int)
    PYTHON.update(zip(_PYTHON_TYPES, (Defaults.int, Defaults.float, np.promote_types(Defaults.float, np.complex64)), strict=True))


def scalar_dtype(value: Any) -> np.dtype:
    """The dtype that a Python scalar has without another operand; for a tensor or an array, its own dtype.

    Example: True gives bool, 2 the default integer dtype, 2.5 the default float dtype.
    """
    if hasattr(value, "dtype"):
        return value.dtype
    if isinstance(value, bool):
        return np.dtype(bool)
    if isinstance(value, int):
        return Defaults.int
    if isinstance(value, float):
        return Defaults.float
    return PYTHON[complex]


def default_dtypes() -> tuple[np.dtype, np.dtype, bool]:
    """The default dtypes of new arrays (floating point, integers), and `follows_jax`; a trace depends on them."""
    return Defaults.float, Defaults.int, follows_jax()


def scalar_array(value: Any, dtype: np.dtype, requirement: str) -> np.ndarray:
    """The Python scalar `value` as an array; raises DtypeError, "<requirement>, got ...", if the dtype cannot represent it."""
    problem = scalar_misfit(value, dtype)
    if problem is not None:
        raise DtypeError(f"{requirement}, got {problem}.", where=user_frame(), help="pass an array of the dtype that you want.")
    return np.asarray(value, dtype)


def promote_dtypes(operands: Sequence[Any]) -> np.dtype:
    """The dtype to which operands (tensors, arrays, Python scalars) promote."""
    if is_narrowing():
        return _promote_narrow(operands)
    return _promote_operands(operands)


def _promote_narrow(operands: Sequence[Any]) -> np.dtype:
    """The dtype to which operands promote by JAX's rules; it has 64 bits only if a tensor or an array of a device has."""
    if has_wide(operands):
        return _promote_operands(operands)
    narrow = [np.empty((), narrow_dtype(x.dtype)) if isinstance(x, (np.ndarray, np.generic)) else x for x in operands]
    return narrow_dtype(_promote_operands(narrow))


def _promote_operands(operands: Sequence[Any]) -> np.dtype:
    """The dtype to which operands promote by NumPy's table; weak operands count only if their kind is higher."""
    strong = [x.dtype for x in operands if not is_weak(x)]
    weak = [scalar_dtype(x) for x in operands if is_weak(x)]
    if not strong:
        return max(weak, key=lambda dtype: (_kind(dtype), dtype.itemsize))
    result = _promote_all([*strong, *(PYTHON[_TYPES[x.dtype.kind]] for x in operands if is_light(x))])
    for weak_dtype in weak:
        if _kind(weak_dtype) > _kind(result):
            # Kind 3 is complex: with a real floating-point operand, the result has the precision of that operand.
            is_complex_with_float = _kind(weak_dtype) == 3 and is_differentiable(result)
            result = np.promote_types(np.complex64, result) if is_complex_with_float else weak_dtype
    return result


def is_weak(x: Any) -> bool:
    """True for Python scalars, for tensors and arrays made from them alone, and for numbers for which `is_light` is true."""
    return is_scalar(x) or is_light(x) or _is_marked(x)


def _is_marked(x: Any) -> bool:
    """True for an array that is marked as weak."""
    return getattr(x, "weak", False) is True


def is_light(x: Any) -> bool:
    """True for a 64-bit NumPy number while the default dtypes have 32 bits: next to an array it counts as 32 bits."""
    is_number = isinstance(x, _NUMPYS_NUMBERS) or (isinstance(x, Tensor) and x.weak and x.dtype in _WIDE)
    return is_number and Defaults.float.itemsize < 8


def _kind(dtype: np.dtype) -> int:
    """The rank of a dtype among truth values, integers, real and complex numbers."""
    return _KINDS.get(dtype.kind, 2)  # bfloat16 and the like are of kind V


def common_type(a: np.dtype, b: np.dtype) -> np.dtype:
    """The dtype to which two dtypes promote: NumPy's, with two exceptions, so that results are not wider than needed.

    Two different 16-bit floating-point formats give float32, as in JAX. An integer and a floating-point dtype give the latter, if
    new arrays have 32 bits or NumPy does not know the format: int64 and bfloat16 give bfloat16.
    """
    if {a, b} == _HALVES:
        return _FLOAT32
    is_foreign = "V" in (a.kind, b.kind)  # bfloat16 and the formats of 8 bits
    if (Defaults.float.itemsize < 8 or is_foreign) and is_inexact(a) != is_inexact(b):
        return a if is_inexact(a) else b
    return np.promote_types(a, b)


def _promote_all(dtypes: Sequence[np.dtype]) -> np.dtype:
    """The dtype to which all `dtypes` promote; raises DtypeError if there is none."""
    result = dtypes[0]
    for dtype in dtypes[1:]:
        if dtype != result:
            try:
                result = common_type(result, dtype)
            except TypeError:
                raise DtypeError(
                    f"promotion requires dtypes that have a common one, got {result} and {dtype}.",
                    where=user_frame(),
                    help="convert one of them with astype.",
                ) from None
    return result


def as_tensor(x: Any, dtype: np.dtype | None = None) -> Tensor:
    """A tensor of the current trace from a tensor, an array or a Python scalar, converted to `dtype` if that is given."""
    if dtype is None and is_narrowing():
        x = narrowed(x)
    if isinstance(x, Tensor):
        x = enter(x)
        return x if dtype is None or x.dtype == dtype else operation("convert")(x, dtype=dtype)
    if is_scalar(x):
        if dtype is not None and rank_of(scalar_dtype(x)) > rank_of(dtype):
            raise DtypeError(f"a Python scalar requires a dtype of its kind, got {dtype} for {x!r}.", where=user_frame())
        tensor = full((), _check_range(x, dtype or scalar_dtype(x)), dtype or scalar_dtype(x))
        tensor.weak = dtype is None
        return tensor
    x = readable(x)
    lift = getattr(x, "__nabla_tensor__", None)
    tensor = enter(lift()) if lift is not None else _capture_array(x)
    tensor.weak = tensor.weak or _is_marked(x)
    return tensor if dtype is None or tensor.dtype == dtype else operation("convert")(tensor, dtype=dtype)


def adopted(x: Any, dtype: np.dtype) -> Tensor:
    """A tensor of `x`, with `dtype` if `x` is weak and not of a higher kind; else with the dtype of `x`."""
    value = x if is_scalar(x) else as_tensor(x)
    fits = is_weak(value) and rank_of(scalar_dtype(value)) <= rank_of(dtype)
    return as_tensor(value, dtype if fits else None)


def _check_range(x: Any, dtype: np.dtype) -> Any:
    """The Python number `x`; raises RangeError if an integer `dtype` cannot represent it."""
    if dtype.kind in "iu":
        info = np.iinfo(dtype) if dtype.name in np.sctypeDict else None
        if info is not None and not info.min <= x <= info.max:
            raise RangeError(f"a Python integer requires the range of {dtype}, got {x}.", where=user_frame())
    return x


_capture: Callable[[np.ndarray], Tensor] = constant


def set_capture(capture: Callable[[np.ndarray], Tensor]) -> None:
    """Sets the function by which an array from outside enters a trace; tracing makes it an argument, so it is not copied.

    `capture` makes a tensor of the open trace from an array.
    """
    global _capture
    _capture = capture


def _capture_array(x: Any) -> Tensor:
    """A tensor of the current trace from an array outside of it; raises DtypeError for objects that are no numbers."""
    array = np.asarray(x)
    if array.dtype.kind not in "biufcV":
        what = array.dtype if pytree.is_array(x) else type(x).__name__
        raise DtypeError(f"a tensor requires numbers, got {what}.", where=user_frame(), help=pytree.advice_for(x))
    return _capture(array)


def broadcast_shapes(name: str, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The common shape, as in NumPy. Raises ShapeError with the name of the operation and the shapes."""
    first = shapes[0]
    if all(s == first for s in shapes):
        return first
    try:
        return tuple(np.broadcast_shapes(*shapes))
    except ValueError:
        raise ShapeError(
            f"{name} requires shapes that broadcast together, got {' and '.join(map(str, shapes))}, which cannot be broadcast.",
            where=user_frame(),
            help="add axes of size 1 (expand_dims) or transpose one of the operands.",
        ) from None


def broadcast_to(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The tensor broadcast by NumPy's rules: axes are aligned at the right, and axes of size 1 are repeated."""
    if x.shape == shape:
        return x
    offset = len(shape) - x.ndim
    axes = tuple(i for i, n in enumerate(x.shape) if n != 1 or shape[offset + i] == 1)
    if len(axes) != x.ndim:  # axes of size 1 are dropped first, so only the other axes are mapped
        x = operation("reshape")(x, shape=tuple(x.shape[i] for i in axes))
    return operation("broadcast_in_dim")(x, shape=shape, broadcast_dimensions=tuple(offset + i for i in axes))


def promote(name: str, *operands: Any, dtype: np.dtype | None = None) -> list[Tensor]:
    """The operands as tensors with one dtype and one shape; `name` is the operation, for errors. `dtype` replaces the
    promoted dtype.
    """
    operands = tuple(map(readable, operands))
    dtype = dtype or promote_dtypes([x if is_scalar(x) else _with_dtype(x) for x in operands])
    shape = broadcast_shapes(name, [() if is_scalar(x) else np.shape(x) for x in operands])
    tensors = []
    for x in operands:
        if is_scalar(x):
            tensors.append(full(shape, _check_range(x, dtype), dtype))
        else:
            tensors.append(broadcast_to(as_tensor(x, dtype), shape))
    return marked(tensors, operands)


def marked(tensors: list[Tensor], operands: Sequence[Any]) -> list[Tensor]:
    """The tensors, which were made from `operands`; marked as weak if all operands are, by the rules of JAX."""
    if follows_jax() and all(map(is_weak, operands)):
        for tensor in tensors:
            tensor.weak = True
    return tensors


def _with_dtype(x: Any) -> Any:
    """The value, as an array if it has no dtype."""
    return x if hasattr(x, "dtype") else np.asarray(x)


def _binary(name: str, flip: bool = False) -> Any:
    """The method for the binary operation `name` of tensors. `flip` exchanges the operands, as in `__radd__`."""

    def operator(self: Tensor, other: Any) -> Any:
        """The result of `self` and `other`, after promotion and broadcasting; NotImplemented if `other` is no operand."""
        self.check_open()
        if type(other) is Tensor and other.shape == self.shape and other.dtype == self.dtype:
            out = operation(name)(other, self) if flip else operation(name)(self, other)
        elif not _is_operand(other):
            refuse_list(name, self, other)
            return NotImplemented
        else:
            out = operation(name)(*promote(name, *((other, self) if flip else (self, other))))
        out.weak = self.weak and is_weak(other)
        return out

    operator.__name__ = name
    return operator


def refuse_list(name: str, x: Any, other: Any) -> None:
    """Raises DtypeError if the other operand of the operator `name` of the array `x` is a list or a tuple.

    Otherwise Python would take `x` for the number of times that a list is repeated, which only an integer can be.
    """
    if not isinstance(other, (list, tuple)) or (name == "multiply" and not x.ndim and x.dtype.kind in "iu"):
        return
    kind = type(other).__name__
    raise DtypeError(
        f"{name} requires arrays or numbers, got a {kind} of {len(other)}.",
        where=user_frame(),
        help=f"np.array(x) is the array of a {kind} x of numbers.",
    )


def _is_operand(x: Any) -> bool:
    """True for a value that an operator of tensors accepts."""
    is_number_or_array = isinstance(x, (Tensor, np.ndarray, np.generic)) or is_scalar(x) or hasattr(x, "__nabla_tensor__")
    return is_number_or_array or hasattr(x, "__dlpack__")


def _negative(self: Tensor) -> Tensor:
    """The method of unary `-`; raises DtypeError for truth values."""
    self.check_open()
    if self.dtype.kind == "b":
        raise DtypeError("negation requires numbers, got bool.", where=user_frame(), help="use ~x for the complement.")
    return operation("negate")(self)


Tensor.functions["__add__"] = _binary("add")
Tensor.functions["__radd__"] = _binary("add", flip=True)
Tensor.functions["__sub__"] = _binary("subtract")
Tensor.functions["__rsub__"] = _binary("subtract", flip=True)
Tensor.functions["__mul__"] = _binary("multiply")
Tensor.functions["__rmul__"] = _binary("multiply", flip=True)
Tensor.functions["__neg__"] = _negative


def _true_divide(self: Tensor, other: Any, flip: bool = False) -> Any:
    """The method of `/`; `flip` exchanges the operands."""
    self.check_open()
    if type(other) is Tensor and other.shape == self.shape and other.dtype == self.dtype and self.dtype.kind in "fcV":
        return operation("divide")(other, self) if flip else operation("divide")(self, other)
    if not _is_operand(other):
        refuse_list("divide", self, other)
        return NotImplemented
    return true_divide(other, self) if flip else true_divide(self, other)


def true_divide(x: Any, y: Any) -> Tensor:
    """x / y; integers are converted to the default float dtype first."""
    x, y = readable(x), readable(y)
    dtype = promote_dtypes([x if is_scalar(x) else _with_dtype(x) for x in (x, y)])
    return operation("divide")(*promote("divide", x, y, dtype=dtype if is_inexact(dtype) else Defaults.float))


def is_inexact(dtype: np.dtype) -> bool:
    """True for real and complex floating point."""
    return is_differentiable(dtype) or is_complex(dtype)


Tensor.functions["__truediv__"] = _true_divide
Tensor.functions["__rtruediv__"] = lambda self, other: _true_divide(self, other, flip=True)
