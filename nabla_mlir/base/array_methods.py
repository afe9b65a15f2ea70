"""The methods of arrays: the same for tensors of a trace, arrays of a device and arrays with named axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from nabla_mlir.base.array_operators import ArrayOperators
from nabla_mlir.base.names import no_attribute

Axis = int | Sequence[int] | None


class AnyArray:
    """The base class of arrays of numbers and of arrays of keys, for `isinstance`."""

    __slots__ = ()


class ArrayMethods(AnyArray, ArrayOperators):
    """Operators, methods and properties under the names of NumPy."""

    __slots__ = ()

    if not TYPE_CHECKING:  # type checkers would accept every name

        def __getattr__(self, name: str) -> Any:
            if name[0] == "_":  # protocols, which are requested often
                raise AttributeError(name)
            raise no_attribute(f"{type(self).__name__!r} object", name, self)

    # ---------------------------------------------------------------- axes

    @property
    def T(self) -> Self:  # noqa: N802
        """The axes in reversed order."""
        return self._call("T")

    @property
    def mT(self) -> Self:  # noqa: N802
        """The last two axes exchanged."""
        return self._call("mT")

    @property
    def weak_type(self) -> bool:
        """True for a result of Python scalars alone, which takes the dtype of other operands, under the name of JAX."""
        weak: bool = getattr(self, "weak", False)
        return weak

    @property
    def aval(self) -> Any:
        """The shape and the dtype as one object, under the name of JAX."""
        return self._call("aval")

    def reshape(self, *shape: Any) -> Self:
        """An array with the same elements and another shape, given as one tuple or as numbers; one may be -1."""
        return self._call("reshape", *shape)

    def transpose(self, *axes: Any) -> Self:
        """The axes permuted, reversed if no order is given."""
        return self._call("transpose", *axes)

    def ravel(self, order: str = "C") -> Self:
        """The elements as a vector, in row-major ("C") or column-major ("F") order."""
        return self._call("ravel", order=order)

    def flatten(self, order: str = "C") -> Self:
        """The elements as a vector, in row-major ("C") or column-major ("F") order."""
        return self._call("flatten", order=order)

    def squeeze(self, axis: Axis = None) -> Self:
        """Drops all axes of size 1, or only the given axes."""
        return self._call("squeeze", axis=axis)

    def swapaxes(self, axis1: int, axis2: int) -> Self:
        """Exchanges two axes."""
        return self._call("swapaxes", axis1=axis1, axis2=axis2)

    def repeat(self, repeats: Any, axis: int | None = None, *, total_repeat_length: int | None = None) -> Self:
        """Repeats each element `repeats` times, or element i repeats[i] times; the numbers must be known."""
        return self._call("repeat", repeats=repeats, axis=axis, total_repeat_length=total_repeat_length)

    def take(
        self,
        indices: Any,
        axis: int | None = None,
        mode: Any = None,
        unique_indices: bool = False,
        indices_are_sorted: bool = False,
        fill_value: Any = None,
    ) -> Self:
        """The elements at `indices` along `axis`, or of the flattened array."""
        return self._call("take", indices, axis, mode, unique_indices, indices_are_sorted, fill_value)

    def compress(self, condition: Any, axis: int | None = None, *, size: int | None = None, fill_value: Any = 0) -> Self:
        """The entries along `axis` (of the flattened array if None) where a vector of truth values is true."""
        return self._call("compress", condition, axis=axis, **_sized(size, fill_value))

    def choose(self, choices: Any, out: None = None, mode: str = "raise") -> Self:
        """Selects `choices[i]` for each integer i of `a`; its element at the same position is the result."""
        return self._call("choose", choices, out=out, mode=mode)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Self:
        """The elements a[i, i + offset] of two axes, which become the last axis."""
        return self._call("diagonal", offset=offset, axis1=axis1, axis2=axis2)

    # ---------------------------------------------------------------- elements

    @property
    def at(self) -> Any:
        """Functional updates: ``x.at[index].set(value)``."""
        return self._call("at")

    @property
    def real(self) -> Self:
        """The real part."""
        return self._call("real")

    @property
    def imag(self) -> Self:
        """The imaginary part."""
        return self._call("imag")

    def copy(self) -> Self:
        """A separate array with the same values."""
        return self._call("copy")

    def astype(self, dtype: Any, *, copy: bool = True, device: Any = None) -> Self:
        """Converts `x` to another dtype; a conversion from floating point to integers truncates."""
        return self._call("astype", dtype=dtype, copy=copy, device=device)

    def view(self, dtype: Any = None) -> Self:
        """A copy with the bits of the elements as elements of another dtype; a narrower dtype makes the last axis longer."""
        return self._call("view", dtype)

    def nonzero(self, *, size: int | None = None, fill_value: Any = None) -> tuple[Any, ...]:
        """The indices of the nonzero elements along each axis, in row-major order."""
        return self._call("nonzero", **_sized(size, fill_value))

    def clip(self, min: Any = None, max: Any = None, *, out: None = None) -> Self:
        """Limits `x` to [min, max]; None means no bound. The derivative is zero outside and at the bounds."""
        return self._call("clip", min=min, max=max, out=out)

    def round(self, decimals: int = 0, *, out: None = None) -> Self:
        """The nearest number with `decimals` digits after the point, ties to even."""
        return self._call("round", decimals=decimals, out=out)

    def conj(self) -> Self:
        """The complex conjugate."""
        return self._call("conj")

    def conjugate(self) -> Self:
        """The complex conjugate."""
        return self._call("conjugate")

    def sort(self, axis: int | None = -1, *, descending: bool = False, stable: bool = True) -> Self:
        """Sorts the elements along `axis` (of the flattened array if None); NaN is last, or first if descending."""
        return self._call("sort", axis=axis, descending=descending, stable=stable)

    def argsort(self, axis: int | None = -1, *, descending: bool = False, stable: bool = True, dtype: Any = None) -> Self:
        """The indices that sort the array, as `dtype`, by default the integer one; the other arguments as for `sort`."""
        return self._call("argsort", axis=axis, descending=descending, stable=stable, **_given(dtype=dtype))

    def argpartition(self, kth: Any, axis: int | None = -1) -> Self:
        """The indices of the elements of `partition`."""
        return self._call("argpartition", kth, axis=axis)

    def searchsorted(self, v: Any, side: str = "left", sorter: Any = None, *, method: str | None = None) -> Self:
        """The indices at which elements `v` can be inserted into the sorted vector `a`; NaN is after all numbers."""
        return self._call("searchsorted", v=v, side=side, sorter=sorter, method=method)

    # ---------------------------------------------------------------- reductions and products

    def sum(
        self,
        axis: Axis = None,
        dtype: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
        promote_integers: bool = True,
        *,
        out: None = None,
    ) -> Self:
        """The sum over `axis` (an int, several, or None for all)."""
        more = {} if promote_integers else {"promote_integers": False}  # NumPy's methods do not have it
        return self._call("sum", axis=axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where, out=out, **more)

    def prod(
        self,
        axis: Axis = None,
        dtype: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
        promote_integers: bool = True,
        *,
        out: None = None,
    ) -> Self:
        """The product over `axis`; arguments as for `sum`."""
        more = {} if promote_integers else {"promote_integers": False}  # NumPy's methods do not have it
        return self._call("prod", axis=axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where, out=out, **more)

    def mean(self, axis: Axis = None, dtype: Any = None, keepdims: bool = False, where: Any = None, *, out: None = None) -> Self:
        """The mean over `axis`; integers give the default float dtype, and narrow floats are summed in float32."""
        return self._call("mean", axis=axis, dtype=dtype, keepdims=keepdims, where=where, out=out)

    def var(
        self,
        axis: Axis = None,
        dtype: Any = None,
        ddof: float = 0,
        keepdims: bool = False,
        where: Any = None,
        *,
        mean: Any = None,
        correction: float | None = None,
        out: None = None,
    ) -> Self:
        """The variance over `axis`: the mean of ``abs(a - mean(a))**2``, with n - ddof instead of n (or n - `correction`)."""
        more = _given(mean=mean)
        return self._call(
            "var", axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims, where=where, correction=correction, out=out, **more
        )

    def std(
        self,
        axis: Axis = None,
        dtype: Any = None,
        ddof: float = 0,
        keepdims: bool = False,
        where: Any = None,
        *,
        mean: Any = None,
        correction: float | None = None,
        out: None = None,
    ) -> Self:
        """The standard deviation over `axis`: the root of the variance; its derivative is 0 if all elements are equal."""
        more = _given(mean=mean)
        return self._call(
            "std", axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims, where=where, correction=correction, out=out, **more
        )

    def max(self, axis: Axis = None, keepdims: bool = False, initial: Any = None, where: Any = None, *, out: None = None) -> Self:
        """The largest element over `axis`; NaN if an element is NaN. Ties share the derivative."""
        return self._call("max", axis=axis, keepdims=keepdims, initial=initial, where=where, out=out)

    def min(self, axis: Axis = None, keepdims: bool = False, initial: Any = None, where: Any = None, *, out: None = None) -> Self:
        """The smallest element over `axis`; NaN if an element is NaN. Ties share the derivative; complex numbers as for `max`."""
        return self._call("min", axis=axis, keepdims=keepdims, initial=initial, where=where, out=out)

    def argmax(self, axis: int | None = None, keepdims: bool = False, *, out: None = None) -> Self:
        """The index of the first largest element (or NaN) along `axis`, or in the flattened array; complex numbers as in `max`."""
        return self._call("argmax", axis=axis, keepdims=keepdims, out=out)

    def argmin(self, axis: int | None = None, keepdims: bool = False, *, out: None = None) -> Self:
        """The index of the first smallest element (or NaN) along `axis`, or in the flattened array; complex numbers as in `max`."""
        return self._call("argmin", axis=axis, keepdims=keepdims, out=out)

    def any(self, axis: Axis = None, keepdims: bool = False, *, where: Any = None, out: None = None) -> Self:
        """True where an element over `axis` is not 0."""
        return self._call("any", axis=axis, keepdims=keepdims, where=where, out=out)

    def all(self, axis: Axis = None, keepdims: bool = False, *, where: Any = None, out: None = None) -> Self:
        """True where no element over `axis` is 0."""
        return self._call("all", axis=axis, keepdims=keepdims, where=where, out=out)

    def cumsum(
        self, axis: int | None = None, dtype: Any = None, include_initial: bool = False, *, reverse: bool = False, out: None = None
    ) -> Self:
        """The running sum along `axis`, or of the flattened array. `include_initial` adds a 0 as the first element."""
        return self._call("cumsum", axis=axis, dtype=dtype, include_initial=include_initial, reverse=reverse, out=out)

    def cumprod(
        self, axis: int | None = None, dtype: Any = None, include_initial: bool = False, *, reverse: bool = False, out: None = None
    ) -> Self:
        """The running product along `axis`, or of the flattened array. `include_initial` adds a 1 as the first; see `cumsum`."""
        return self._call("cumprod", axis=axis, dtype=dtype, include_initial=include_initial, reverse=reverse, out=out)

    def ptp(self, axis: Axis = None, keepdims: bool = False, *, out: None = None) -> Self:
        """The largest element minus the smallest element."""
        return self._call("ptp", axis=axis, keepdims=keepdims, out=out)

    def dot(self, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Self:
        """The sum of products over the last axis of a and the second-last (for a vector: the only) axis of b."""
        return self._call("dot", b, precision=precision, preferred_element_type=preferred_element_type)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, *, out: None = None) -> Self:
        """The sum of a diagonal of two axes, which the result does not have; `dtype` is the dtype of the sum."""
        return self._call("trace", offset=offset, axis1=axis1, axis2=axis2, dtype=dtype, out=out)


def _given(**values: Any) -> dict[str, Any]:
    """The arguments that are not None; NumPy's methods may not have the others."""
    return {name: value for name, value in values.items() if value is not None}


def _sized(size: int | None, fill_value: Any) -> dict[str, Any]:
    """The arguments `size` and `fill_value` if a size is given; NumPy's methods do not have them."""
    return {} if size is None else {"size": size, "fill_value": fill_value}
