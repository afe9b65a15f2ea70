"""The operators of arrays, and the lookup by which operators and methods find their functions.

Each calls the function that its class has under its name; `nabla_mlir.numpy.methods` fills these in. Where that is not
installed, as where artifacts are deployed, NumPy's method of that name does it on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self

import numpy as np

# NumPy's functions of operators, which NumPy's arrays and numbers call for ``numpy_array + x``; for comparisons the one with
# the sides exchanged.
_ARITHMETIC = {
    np.add: "add",
    np.subtract: "sub",
    np.multiply: "mul",
    np.divide: "truediv",
    np.floor_divide: "floordiv",
    np.remainder: "mod",
    np.divmod: "divmod",
    np.power: "pow",
    np.matmul: "matmul",
    np.bitwise_and: "and",
    np.bitwise_or: "or",
    np.bitwise_xor: "xor",
    np.left_shift: "lshift",
    np.right_shift: "rshift",
}
_COMPARISONS = {
    np.equal: ("eq", "eq"),
    np.not_equal: ("ne", "ne"),
    np.less: ("lt", "gt"),
    np.greater: ("gt", "lt"),
    np.less_equal: ("le", "ge"),
    np.greater_equal: ("ge", "le"),
}
_SIDES = {f: (f"__{name}__", f"__r{name}__") for f, name in _ARITHMETIC.items()} | {
    f: (f"__{left}__", f"__{right}__") for f, (left, right) in _COMPARISONS.items()
}


class ArrayOperators:
    """Operators under the names of NumPy: dtypes promote, shapes broadcast.

    Attributes:
      functions: by the name of the method, what it calls, with the array as the first argument.
    """

    __slots__ = ()
    functions: ClassVar[dict[str, Callable[..., Any]]] = {}

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Calls the function or method of this name; without nabla_mlir.numpy, NumPy's method on a copy."""
        if kwargs.pop("out", None) is not None:  # NumPy's functions pass it to methods
            raise TypeError(f"{name} requires out=None, got an array: write x[...] = array.{name}(...).")
        function = self.functions.get(name)
        if function is not None:
            return function(self, *args, **kwargs)
        if name == "sort":  # NumPy's method works in place
            raise TypeError("sort requires nabla_mlir.numpy, got an array where that is not loaded: np.sort(array) copies it.")
        member = getattr(self.__array__(), name)  # type: ignore[attr-defined]  # which every array has
        if not callable(member):
            return member
        # None and False are the defaults of NumPy's methods, so they are not passed. The axis is passed, because its default is not
        # None for all of them: sorting has -1.
        options = {name: value for name, value in kwargs.items() if name == "axis" or (value is not None and value is not False)}
        return member(*args, **options)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """The result of a NumPy function: by the operator of this class if there is one, and otherwise NumPy's on the numbers."""
        if method == "__call__" and not options and ufunc in _SIDES:
            left, right = inputs
            operator, mirrored_operator = _SIDES[ufunc]
            return left._call(operator, right) if isinstance(left, ArrayOperators) else self._call(mirrored_operator, left)
        if any(isinstance(x, ArrayOperators) for x in options.get("out", ())):
            raise TypeError(
                f"np.{ufunc.__name__} requires an array of NumPy's as out, got {type(self).__name__}: write x[...] = its result."
            )
        return getattr(ufunc, method)(*map(_numbers, inputs), **{name: _numbers(x) for name, x in options.items()})

    def __add__(self, other: Any) -> Self:
        return self._call("__add__", other)

    def __radd__(self, other: Any) -> Self:
        return self._call("__radd__", other)

    def __sub__(self, other: Any) -> Self:
        return self._call("__sub__", other)

    def __rsub__(self, other: Any) -> Self:
        return self._call("__rsub__", other)

    def __mul__(self, other: Any) -> Self:
        return self._call("__mul__", other)

    def __rmul__(self, other: Any) -> Self:
        return self._call("__rmul__", other)

    def __truediv__(self, other: Any) -> Self:
        return self._call("__truediv__", other)

    def __rtruediv__(self, other: Any) -> Self:
        return self._call("__rtruediv__", other)

    def __floordiv__(self, other: Any) -> Self:
        return self._call("__floordiv__", other)

    def __rfloordiv__(self, other: Any) -> Self:
        return self._call("__rfloordiv__", other)

    def __mod__(self, other: Any) -> Self:
        return self._call("__mod__", other)

    def __rmod__(self, other: Any) -> Self:
        return self._call("__rmod__", other)

    def __divmod__(self, other: Any) -> tuple[Self, Self]:
        return self._call("__divmod__", other)

    def __rdivmod__(self, other: Any) -> tuple[Self, Self]:
        return self._call("__rdivmod__", other)

    def __pow__(self, other: Any) -> Self:
        return self._call("__pow__", other)

    def __rpow__(self, other: Any) -> Self:
        return self._call("__rpow__", other)

    def __matmul__(self, other: Any) -> Self:
        return self._call("__matmul__", other)

    def __rmatmul__(self, other: Any) -> Self:
        return self._call("__rmatmul__", other)

    def __and__(self, other: Any) -> Self:
        return self._call("__and__", other)

    def __rand__(self, other: Any) -> Self:
        return self._call("__rand__", other)

    def __or__(self, other: Any) -> Self:
        return self._call("__or__", other)

    def __ror__(self, other: Any) -> Self:
        return self._call("__ror__", other)

    def __xor__(self, other: Any) -> Self:
        return self._call("__xor__", other)

    def __rxor__(self, other: Any) -> Self:
        return self._call("__rxor__", other)

    def __lshift__(self, other: Any) -> Self:
        return self._call("__lshift__", other)

    def __rlshift__(self, other: Any) -> Self:
        return self._call("__rlshift__", other)

    def __rshift__(self, other: Any) -> Self:
        return self._call("__rshift__", other)

    def __rrshift__(self, other: Any) -> Self:
        return self._call("__rrshift__", other)

    def __eq__(self, other: Any) -> Self:  # type: ignore[override]
        return self._call("__eq__", other)

    def __ne__(self, other: Any) -> Self:  # type: ignore[override]
        return self._call("__ne__", other)

    def __lt__(self, other: Any) -> Self:
        return self._call("__lt__", other)

    def __le__(self, other: Any) -> Self:
        return self._call("__le__", other)

    def __gt__(self, other: Any) -> Self:
        return self._call("__gt__", other)

    def __ge__(self, other: Any) -> Self:
        return self._call("__ge__", other)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # == compares element by element

    def __neg__(self) -> Self:
        return self._call("__neg__")

    def __pos__(self) -> Self:
        return self._call("__pos__")

    def __abs__(self) -> Self:
        return self._call("__abs__")

    def __round__(self, ndigits: int | None = None) -> Self:
        return self._call("round", ndigits or 0)

    def __invert__(self) -> Self:
        return self._call("__invert__")

    def __getitem__(self, index: Any) -> Self:
        return self._call("__getitem__", index)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._call("__setitem__", index, value)

    def __iter__(self) -> Iterator[Self]:
        return self._call("__iter__")

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """The module that has the functions for arrays of this kind."""
        return self._call("__array_namespace__", api_version=api_version)


def _numbers(x: Any) -> Any:
    return x.__array__() if isinstance(x, ArrayOperators) else x  # type: ignore[attr-defined]  # which every array has
