"""Tensor: an SSA value with a shape, a dtype and operators. Rules and users write code with the same class."""

from __future__ import annotations

import contextlib
import math
import operator
import threading
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NoReturn

import numpy as np
from iree.compiler import ir

from nabla_mlir.base.array_methods import ArrayMethods
from nabla_mlir.base.errors import ConcretizationError, LeakedTracerError, ShapeError, user_frame
from nabla_mlir.dialects import stablehlo
from nabla_mlir.dialects.regions import made_by
from nabla_mlir.dialects.types import shape_and_dtype

NamedAxes = tuple[tuple[str, int], ...]  # (name, size) of each axis


class Scope:
    """The region in which a tensor was made. A tensor must not be used after its scope is closed, or while it waits.

    A scope waits while another function is traced on its own, into a module that cannot refer to the values of this one.
    """

    __slots__ = ("count", "open", "parent", "waits", "what")
    count: Callable[[], None] | None  # called for each new value
    open: bool
    waits: bool
    parent: Scope | None
    what: str

    def __init__(self, what: str, parent: Scope | None = None):
        self.what, self.parent, self.open, self.waits = what, parent, True, False
        self.count = None if parent is None else parent.count

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """A context in which this scope and those around it wait."""
        scopes, scope = [], self
        while scope is not None:
            if scope.open:
                scopes.append(scope)
            scope = scope.parent  # type: ignore[assignment]
        for scope in scopes:
            scope.open, scope.waits = False, True
        try:
            yield
        finally:
            for scope in scopes:
                scope.open, scope.waits = True, False

    def check_open(self, what: str, got: object, help: str) -> None:
        """Raises unless the scope is open.

        Raises LeakedTracerError if the function that was traced in this scope has ended, ConcretizationError if the scope waits.

        Args:
          what: the object that belongs to the scope, for the error.
          got: the object.
          help: advice for the error.
        """
        if self.open:
            return
        if self.waits:
            raise ConcretizationError(
                f"a function that is solved or compiled on its own requires numbers from outside, got {got!r} from {self.what}, "
                "which is still being traced.",
                where=user_frame(),
                help=_OUTSIDE,
            )
        raise LeakedTracerError(
            f"{what} requires that the trace that made it is still open, got {got!r} from {self.what}, which has ended.",
            where=user_frame(),
            help=help,
        )


class _State(threading.local):
    scope: Scope | None = None


_state = _State()


def current_scope() -> Scope | None:
    """The innermost open scope of this thread; None in passes and outside of traces."""
    return _state.scope


def set_scope(scope: Scope | None) -> None:
    """Makes `scope` the innermost scope of this thread."""
    _state.scope = scope


_OWN_FUNCTIONS = (
    "use the function of the same name in nabla_mlir.numpy, for SciPy's functions nabla_mlir.jax.scipy, and y = y + x for y += x."
)
_OUTSIDE = (
    "call solvers, operators and nm.trace outside of jit and grad; to differentiate a solution use nm.custom_root, nm.scan, "
    "or odeint of nabla_mlir.jax.experimental.ode."
)
CALL_INSIDE = "call it inside of the function that made it."
_RETURN_IT = "return the value from the function instead of storing it outside (global, attribute, list)."
_AS_STATIC = "pass the number as a static argument (jit(f, static_argnums=...))."
_KEEP = "keep it a tensor, or return it from the function"
_FOLLOWED = "use functions of nabla_mlir.numpy, which have derivatives, also to make y for y[i] = x"


def _unknown(_: Tensor) -> np.ndarray | None:  # the reader before tracing sets one: no numbers are known
    return None


def _never(_: Tensor) -> bool:  # the test before tracing sets one: no derivative follows a tensor
    return False


_reader: Callable[[Tensor], np.ndarray | None] = _unknown
_is_followed: Callable[[Tensor], bool] = _never


def set_reader(reader: Callable[[Tensor], np.ndarray | None], is_followed: Callable[[Tensor], bool]) -> None:
    """Sets how the numbers of a traced tensor are read.

    Args:
      reader: returns the numbers of a tensor, or None if tracing does not know them.
      is_followed: True for a tensor with respect to which an open derivative is taken.
    """
    global _reader, _is_followed
    _reader, _is_followed = reader, is_followed


class Tensor(ArrayMethods):
    """A traced array: a value in the IR under construction, for users and for rules.

    Passes that write for the compiler have `dialects.values.Val`, whose operators are one operation each.

    Arithmetic follows NumPy: shapes broadcast, mixed dtypes promote by NumPy's table, Python scalars take the dtype of
    the tensor. It has no numbers: reading them raises ConcretizationError.
    """

    __slots__ = ("dtype", "scope", "shape", "value", "weak")
    dtype: np.dtype
    scope: Scope | None
    shape: tuple[int, ...]
    value: ir.Value
    weak: bool
    functions: ClassVar[dict[str, Callable[..., Any]]] = {}  # arithmetic by promotion.py, the rest by numpy/methods.py
    axes: NamedAxes = ()  # the named axes of a vectorised tensor, see vectorized.py
    device: ClassVar[None] = None  # the target determines the device

    def __init__(self, value: ir.Value, scope: Scope | None = None):
        self.value = value
        self.shape, self.dtype = shape_and_dtype(value.type)
        self.scope = scope
        self.weak = False  # True for an argument that was a Python scalar: it still takes the dtype of other operands

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def itemsize(self) -> int:
        """The bytes of one element."""
        return int(self.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self.size * self.itemsize

    def __repr__(self) -> str:
        return f"Tensor({self.dtype}[{','.join(map(str, self.shape))}])"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __nabla_tensor__(self) -> Tensor:
        return self

    def to_device(self, device: Any, /, *, stream: None = None) -> Tensor:
        """The tensor itself; the target determines the device."""
        return self

    def check_open(self) -> None:
        """Raises LeakedTracerError if the function that made this tensor has ended."""
        if self.scope is not None:
            self.scope.check_open("a tensor", self, _RETURN_IT)

    def _no_value(self, purpose: str, advice: str) -> NoReturn:
        """Raises ConcretizationError: a traced tensor has no numbers for `purpose`, such as "bool()"; `advice` says what
        to write.
        """
        self.check_open()
        raise ConcretizationError(
            f"{purpose} requires a concrete value, got the traced tensor {self!r}.", where=user_frame(), help=advice
        )

    def _known(self, purpose: str, advice: str) -> np.ndarray:
        """The numbers of the tensor, if the arguments of the trace have numbers that determine them; else raises
        ConcretizationError.

        `purpose` and `advice` are parts of the error.
        """
        self.check_open()
        array = _reader(self)
        return self._no_value(purpose, advice) if array is None else array

    def _number(self, purpose: str, advice: str) -> np.ndarray:
        """The numbers of the tensor, if they are known; raises ConcretizationError if they are not, or if a derivative follows the
        tensor.

        Python code that computes with a number would lose the derivative. `purpose` and `advice` are parts of the error.
        """
        array = self._known(purpose, advice)
        if _is_followed(self):
            call = f"{purpose[:-1]}nm.stop_gradient(x))" if purpose.endswith("()") else "nm.stop_gradient(x)"
            raise ConcretizationError(
                f"{purpose} requires a value that no derivative follows, got the traced tensor {self!r}.",
                where=user_frame(),
                help=f"{_FOLLOWED}; {call} is the number alone, whose derivative is 0.",
            )
        return array

    def __bool__(self) -> bool:
        """The truth value of one element, if it is known; else raises ConcretizationError, or ShapeError for several elements."""
        # Comparisons have the derivative 0, also comparisons with the number 0.
        array = self._known("bool()", "in `if` use nm.numpy.where or nm.cond; in `while` use nm.while_loop.")
        if array.size != 1:
            raise ShapeError(
                f"bool() requires one truth value, got an array of shape {self.shape}.",
                where=user_frame(),
                help="in `if` use .any() or .all(); for a choice for each element use nm.numpy.where.",
            )
        return bool(array)

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
        self._no_value("a NumPy function", _OWN_FUNCTIONS)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> NoReturn:
        """Raises ConcretizationError for a function of PyTorch, which calls this method."""
        name = getattr(function, "__name__", "")
        raise ConcretizationError(
            f"PyTorch's {name} requires tensors of PyTorch, got a tensor that nabla_mlir traces.",
            where=user_frame(),
            help="use functions of nabla_mlir.numpy and nabla_mlir.nn; nm.from_torch imports a torch.nn.Module.",
        )

    def __format__(self, form: str) -> str:
        if form:
            self._no_value("a format", "print it without one, or return it from the function.")
        return repr(self)

    def __reduce__(self) -> NoReturn:
        self._no_value("a copy or a pickle", "return it from the function; x.copy() is another tensor of the same values.")

    def item(self, *index: int) -> Any:
        """Raises ConcretizationError: a traced tensor has no numbers."""
        self._no_value("item()", "keep it a tensor, or return it from the function.")

    tolist = item


def wrap(value: ir.Value) -> Tensor:
    """A tensor of the current scope for an MLIR value."""
    scope = _state.scope
    if scope is not None and scope.count is not None:
        scope.count()
    return Tensor(value, scope)


def full(shape: tuple[int, ...], value: complex, dtype: np.dtype) -> Tensor:
    """A splat constant: `value` for every element of `shape`."""
    attribute = stablehlo.splat(value, shape, dtype)
    return wrap(stablehlo.emit("stablehlo.constant", [], attributes={"value": attribute}).results[0])


def constant(array: np.ndarray) -> Tensor:
    """A constant with the elements of `array`."""
    attribute = stablehlo.elements(array)
    return wrap(stablehlo.emit("stablehlo.constant", [], attributes={"value": attribute}).results[0])


def full_like(x: Tensor, value: complex) -> Tensor:
    """A constant of the shape and dtype of `x`."""
    return full(x.shape, value, x.dtype)


def splat_of(x: Tensor) -> complex | float | int | bool | None:
    """The Python number if `x` is a constant with equal elements, else None."""
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
