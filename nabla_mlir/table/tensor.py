"""Tensor: an SSA value with a shape, a dtype and operators. Rules and users write with the same class."""

from __future__ import annotations

import math
import operator
import threading
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

import numpy as np
from iree.compiler import ir

from nabla_mlir.array_methods import ArrayMethods
from nabla_mlir.dialects import stablehlo
from nabla_mlir.dialects.regions import made_by
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.errors import ConcretizationError, LeakedTracerError, user_frame

NamedAxes = tuple[tuple[str, int], ...]  # name and size of each


class Scope:
    """The region a tensor was made in. A tensor must not be used after its scope has closed."""

    __slots__ = ("open", "parent", "what")
    open: bool
    parent: Scope | None
    what: str

    def __init__(self, what: str, parent: Scope | None = None):
        self.what, self.parent, self.open = what, parent, True

    def check_open(self, what: str, got: object, help: str) -> None:
        """Raises LeakedTracerError if the function that was traced in this scope has ended."""
        if not self.open:
            raise LeakedTracerError(
                f"{what} requires that the trace that made it is still open, got {got!r} from {self.what}, which has ended.",
                where=user_frame(), help=help,
            )  # fmt: skip


class _State(threading.local):
    scope: Scope | None = None


_state = _State()


def current_scope() -> Scope | None:
    """The innermost open scope of this thread: None in passes and outside any trace."""
    return _state.scope


def set_scope(scope: Scope | None) -> None:
    """Makes `scope` the innermost one of this thread."""
    _state.scope = scope


CALL_INSIDE = "call it inside of the function that made it."
_RETURN_IT = "return the value from the function instead of storing it outside (global, attribute, list)."
_AS_STATIC = "pass the number as a static argument (jit(f, static_argnums=...))."
_KEEP = "keep it a tensor, or return it from the function"
_FOLLOWED = "use functions of nabla_mlir.numpy, which have derivatives, also to make y for y[i] = x"


def _unknown(_: Tensor) -> np.ndarray | None:
    return None


def _never(_: Tensor) -> bool:
    return False


_reader: Callable[[Tensor], np.ndarray | None] = _unknown
_is_followed: Callable[[Tensor], bool] = _never


def set_reader(reader: Callable[[Tensor], np.ndarray | None], is_followed: Callable[[Tensor], bool]) -> None:
    """Says what numbers a tensor has: None unless tracing knows them; and of which an open derivative follows the value."""
    global _reader, _is_followed
    _reader, _is_followed = reader, is_followed


class Tensor(ArrayMethods):
    """A traced array: a value in the IR under construction, for users and for rules.

    Passes that write for the compiler have `dialects.values.Val`, whose operators are one operation each.

    Arithmetic follows NumPy: shapes broadcast, mixed dtypes promote by NumPy's table, Python scalars take the
    dtype of the tensor. It has no numbers: asking for them raises ConcretizationError.
    """

    __slots__ = ("dtype", "scope", "shape", "value", "weak")
    dtype: np.dtype
    scope: Scope | None
    shape: tuple[int, ...]
    value: ir.Value
    weak: bool
    functions: ClassVar[dict[str, Callable[..., Any]]] = {}  # arithmetic by promotion.py, the rest by numpy/methods.py
    axes: NamedAxes = ()  # of a vectorised tensor, see ops.vectorized
    device: ClassVar[None] = None  # that of the target

    def __init__(self, value: ir.Value, scope: Scope | None = None):
        self.value = value
        self.shape, self.dtype = shape_and_dtype(value.type)
        self.scope = scope
        self.weak = False  # a Python scalar that became an argument: it still takes the dtype of others

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    def __repr__(self) -> str:
        return f"Tensor({self.dtype}[{','.join(map(str, self.shape))}])"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __nabla_tensor__(self) -> Tensor:
        return self

    def to_device(self, device: Any, /, *, stream: None = None) -> Tensor:
        """The tensor itself: the target decides on which device it is."""
        return self

    def check_open(self) -> None:
        """Raises LeakedTracerError if the function that made this tensor has ended."""
        if self.scope is not None:
            self.scope.check_open("a tensor", self, _RETURN_IT)

    def _no_value(self, purpose: str, advice: str) -> NoReturn:
        self.check_open()
        raise ConcretizationError(
            f"{purpose} requires a concrete value, got the traced tensor {self!r}.", where=user_frame(), help=advice
        )

    def _known(self, purpose: str, advice: str) -> np.ndarray:
        """The numbers, where the arguments of the trace are at hand and decide them."""
        self.check_open()
        array = _reader(self)
        return self._no_value(purpose, advice) if array is None else array

    def _number(self, purpose: str, advice: str) -> np.ndarray:
        """The numbers, where also no derivative follows them: it would be lost with what Python computes of them."""
        array = self._known(purpose, advice)
        if _is_followed(self):
            call = f"{purpose[:-1]}nm.stop_gradient(x))" if purpose.endswith("()") else "nm.stop_gradient(x)"
            raise ConcretizationError(
                f"{purpose} requires a value that no derivative follows, got the traced tensor {self!r}.", where=user_frame(),
                help=f"{_FOLLOWED}; {call} is the number alone, whose derivative is 0.",
            )  # fmt: skip
        return array

    def __bool__(self) -> bool:
        # A comparison, whose derivative is 0: also that of a number with 0.
        return bool(self._known("bool()", "in `if` use nm.numpy.where or nm.cond; in `while` use nm.while_loop."))

    def __int__(self) -> int:
        return int(self._number("int()", _AS_STATIC))

    def __index__(self) -> int:
        return operator.index(self._number("an index or a shape", _AS_STATIC)[()])

    def __float__(self) -> float:
        return float(self._number("float()", f"{_KEEP}; for y[i] = x make y with nabla_mlir.numpy."))

    def __complex__(self) -> complex:
        return complex(self._number("complex()", f"{_KEEP}."))

    def __trunc__(self) -> int:
        return int(self._number("math.trunc()", _AS_STATIC))

    def __floor__(self) -> int:
        return math.floor(self._number("math.floor()", _AS_STATIC))

    def __ceil__(self) -> int:
        return math.ceil(self._number("math.ceil()", _AS_STATIC))

    def __dlpack__(self, **_: Any) -> NoReturn:
        self._no_value("DLPack", f"{_KEEP}.")

    def __dlpack_device__(self) -> NoReturn:
        self._no_value("DLPack", f"{_KEEP}.")

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        self._no_value("a NumPy function", "use the function of the same name in nabla_mlir.numpy, and y = y + x for y += x.")

    def __format__(self, form: str) -> str:
        if form:
            self._no_value("a format", "print it without one, or return it from the function.")
        return repr(self)

    def __reduce__(self) -> NoReturn:
        self._no_value("a copy or a pickle", "return it from the function; x.copy() is another tensor of the same values.")

    def item(self, *index: int) -> Any:
        """Not available on a traced tensor."""
        self._no_value("item()", "keep it a tensor, or return it from the function.")

    tolist = item


def wrap(value: ir.Value) -> Tensor:
    """A tensor of the current scope."""
    return Tensor(value, _state.scope)


def full(shape: tuple[int, ...], value: complex, dtype: np.dtype) -> Tensor:
    """A constant of `shape` that holds `value` everywhere; a splat, whatever the size."""
    attribute = stablehlo.splat(value, shape, dtype)
    return wrap(stablehlo.emit("stablehlo.constant", [], attributes={"value": attribute}).results[0])


def constant(array: np.ndarray) -> Tensor:
    """A constant that holds `array`."""
    attribute = stablehlo.elements(array)
    return wrap(stablehlo.emit("stablehlo.constant", [], attributes={"value": attribute}).results[0])


def full_like(x: Tensor, value: complex) -> Tensor:
    """A constant of the shape and dtype of `x`."""
    return full(x.shape, value, x.dtype)


def splat_of(x: Tensor) -> complex | float | int | bool | None:
    """The Python number if `x` is a constant that is the same everywhere, else None."""
    owner = made_by(x.value)
    if owner is None or owner.name != "stablehlo.constant":
        return None
    return stablehlo.constant_splat(owner)


def array_of(x: Tensor) -> np.ndarray | None:
    """The numbers of `x` if it is a constant, else None."""
    owner = made_by(x.value)
    if owner is None or owner.name != "stablehlo.constant":
        return None
    return stablehlo.constant_array(owner)
