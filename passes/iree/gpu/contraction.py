"""Sums of products, c[i] = sum over k of a[i, k] b[i, k], described by their axes and the addresses of the elements.

Axes are numbered 0, 1, ...; inner axes are those that are summed over. An address is a linear function of the indices.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

Linear = Mapping[int, int]  # a linear function: the factor of the index along each axis


@dataclass(frozen=True)
class WindowAxis:
    """An axis of an array that is read through a window, which may reach outside the array, where elements are zero.

    Args:
      terms: the position along the axis is `base` plus, for each axis of the contraction, the factor times the index.
      base: the position for indices 0.
      limit: the positions 0, ..., limit - 1 are inside.
      dilation: the element n is at the position n * dilation; positions between elements are zero.
      stride: the distance in memory between neighbouring elements.
    """

    terms: Linear
    base: int
    limit: int
    dilation: int
    stride: int


@dataclass(frozen=True)
class Access:
    """The address of an element of an array, from the indices along the axes: `base`, plus the linear part, plus the windows."""

    linear: Linear
    windows: tuple[WindowAxis, ...] = ()
    base: int = 0

    def plain(self, sizes: Sequence[int]) -> Access:
        """The same address, in which windows that never reach outside the array are parts of `linear`.

        A window is an index base + sum of factor * index over its `terms`; low and high are its smallest and largest value. `sizes`
        has the size of each axis.
        """
        result = Access(dict(self.linear), (), self.base)
        for window in self.windows:
            ends = [factor * (sizes[axis] - 1) for axis, factor in window.terms.items()]
            low, high = (window.base + sum(pick(0, end) for end in ends) for pick in (min, max))
            if low < 0 or high >= window.limit or window.dilation > 1:
                result = replace(result, windows=(*result.windows, window))
                continue
            linear = dict(result.linear)
            for axis, factor in window.terms.items():
                linear[axis] = linear.get(axis, 0) + factor * window.stride
            result = replace(result, linear=linear, base=result.base + window.base * window.stride)
        return result


@dataclass(frozen=True)
class Contraction:
    """c[batch, rows, columns] = sum over inner of a[batch, rows, inner] b[batch, inner, columns].

    Args:
      sizes: the size of each axis.
      batch, rows, columns, inner: the axes with each role, the slowest first.
      a, b, c: the addresses of the elements.
      element: the type of the elements of a and b: f32, bf16 or f16.
      result: the type of the elements of c.
    """

    sizes: Sequence[int]
    batch: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    inner: tuple[int, ...]
    a: Access
    b: Access
    c: Access
    element: str
    result: str
    is_exchanged: bool = False  # a is the second operand of the operation

    def size(self, axes: Sequence[int]) -> int:
        """The number of index tuples of several axes: the product of their sizes."""
        return math.prod(self.sizes[axis] for axis in axes)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The sizes of batch, rows, columns and inner axes."""
        batch, rows, columns, inner = map(self.size, (self.batch, self.rows, self.columns, self.inner))
        return batch, rows, columns, inner

    def canonical(self) -> Contraction:
        """The same sums with as few axes as possible; rows and columns are exchanged if elements of c in a column are neighbours.

        Example: for x[4, 128, 512] w[512, 2048], the row axes of sizes 4 and 128 become one axis of size 512.
        """
        a, b = self.a.plain(self.sizes), self.b.plain(self.sizes)
        used = [axis for axis, size in enumerate(self.sizes) if size > 1]
        roles = [tuple(axis for axis in axes if axis in used) for axes in (self.batch, self.rows, self.columns, self.inner)]
        batch, rows, columns, inner = roles
        # The order of a sum is free, that of rows and columns too: they follow the order in memory.
        rows, columns = (tuple(sorted(axes, key=lambda x: -self.c.linear.get(x, 0))) for axes in (rows, columns))
        windowed = {axis for w in (*a.windows, *b.windows) for axis in w.terms}
        uses = (a, b, self.c)
        # The order of the sum that joins the most axes.
        orders = [_sorted(inner, use, windowed) for use in (a, b)]
        inner = min(orders, key=lambda axes: len(_merge(self.sizes, axes, uses)[1]))
        sizes, axes = self.sizes, []
        for role in (batch, rows, columns, inner):
            sizes, merged = _merge(sizes, role, uses)
            axes.append(merged)
        batch, rows, columns, inner = axes
        result = replace(self, sizes=sizes, batch=batch, rows=rows, columns=columns, inner=inner, a=a, b=b)
        if any(self.c.linear.get(axis) == 1 for axis in result.rows) and not any(
            result.c.linear.get(axis) == 1 for axis in result.columns
        ):
            result = replace(
                result, rows=result.columns, columns=result.rows, a=result.b, b=result.a, is_exchanged=not result.is_exchanged
            )
        return result


def _sorted(axes: Sequence[int], access: Access, windowed: set[int]) -> tuple[int, ...]:
    """The axes in the order of a loop nest: first those of windows (the set `windowed`), then by decreasing stride in memory."""

    def speed(axis: int) -> tuple[bool, int]:
        """The key of an axis in the order: False, which comes first, for windows whose elements are not neighbours."""
        distance = access.linear.get(axis, _distance(access, axis))
        return axis not in windowed or distance == 1, -distance

    return tuple(sorted(axes, key=speed))


def _distance(access: Access, axis: int) -> int:
    """The largest distance in memory, through a window, between elements that are neighbours along an axis; 0 for no window."""
    return max((w.stride * abs(w.terms.get(axis, 0)) for w in access.windows), default=0)


def _merge(sizes: Sequence[int], axes: tuple[int, ...], uses: Sequence[Access]) -> tuple[Sequence[int], tuple[int, ...]]:
    """The sizes of all axes, and those of `axes` that are left after neighbours in `axes` are joined.

    Two neighbours are joined, under the number of the second one, if each array of `uses` reads them like one axis.
    """
    sizes, left = list(sizes), list(axes)
    for slow, fast in pairwise(axes):
        if all(_is_one(use, slow, fast, sizes[fast]) for use in uses):
            sizes[fast] *= sizes[slow]
            left.remove(slow)
    return sizes, tuple(left)


def _is_one(use: Access, slow: int, fast: int, size: int) -> bool:
    """True if an array reads two axes like one: the stride of `slow` is the stride of `fast` times `size`, the size of `fast`."""
    if any(slow in w.terms or fast in w.terms for w in use.windows):
        return False
    return use.linear.get(slow, 0) == size * use.linear.get(fast, 0)


def strides_of(shape: Sequence[int]) -> list[int]:
    """The distance in memory between neighbours along each axis of an array of this shape in row-major order."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def digits(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The divisor and the size of each axis, the last one first: the index along an axis is (flat index // divisor) % size."""
    divisor = 1
    for size in reversed(sizes):
        yield divisor, size
        divisor *= size
