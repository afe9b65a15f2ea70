"""Sums of products, c[i] = sum_k a[i, k] b[i, k], by their axes and by where each element lies in memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

Linear = Mapping[int, int]  # the factor of each axis


@dataclass(frozen=True)
class WindowAxis:
    """An axis of an array that is read at `base` + sum of factor * index, which may lie outside it: there it is zero.

    With `dilation` d, only multiples of d are elements; d - 1 zeros lie between neighbours.
    """

    terms: Linear
    base: int
    limit: int  # the positions 0, ..., limit - 1 lie inside
    dilation: int
    stride: int  # the distance in memory of neighbouring elements


@dataclass(frozen=True)
class Access:
    """The element that an array gives for an index along each axis: at base + sum of factor * index, and of its windows."""

    linear: Linear
    windows: tuple[WindowAxis, ...] = ()
    base: int = 0

    def plain(self, sizes: Sequence[int]) -> Access:
        """The same element, with windows that stay inside of the array as plain axes."""
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
      a, b, c: where the elements lie.
      element: the type of the elements of a and b: f32, bf16 or f16.
      result: the type of those of c.
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
        """The number of indices of several axes together."""
        return math.prod(self.sizes[axis] for axis in axes)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The sizes of batch, rows, columns and inner axes."""
        batch, rows, columns, inner = map(self.size, (self.batch, self.rows, self.columns, self.inner))
        return batch, rows, columns, inner

    def canonical(self) -> Contraction:
        """The same sums with as few axes as possible, and rows and columns exchanged if neighbours in memory would be rows.

        Example: x[4, 128, 512] w[512, 2048] has rows of size 512 = 4 * 128, and each other role one axis.
        """
        a, b = self.a.plain(self.sizes), self.b.plain(self.sizes)
        used = [axis for axis, size in enumerate(self.sizes) if size > 1]
        roles = [tuple(axis for axis in axes if axis in used) for axes in (self.batch, self.rows, self.columns, self.inner)]
        batch, rows, columns, inner = roles
        # The order of a sum is free, that of rows and columns too: they follow the order in memory.
        rows, columns = (tuple(sorted(axes, key=lambda x: -self.c.linear.get(x, 0))) for axes in (rows, columns))
        windowed = {axis for w in (*a.windows, *b.windows) for axis in w.terms}
        uses = (a, b, self.c)
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
    """The axes, the slowest first: windows, then by the distance in memory."""

    def speed(axis: int) -> tuple[bool, int]:
        distance = access.linear.get(axis, _distance(access, axis))
        return axis not in windowed or distance == 1, -distance

    return tuple(sorted(axes, key=speed))


def _distance(access: Access, axis: int) -> int:
    return max((w.stride * abs(w.terms.get(axis, 0)) for w in access.windows), default=0)


def _merge(sizes: Sequence[int], axes: tuple[int, ...], uses: Sequence[Access]) -> tuple[Sequence[int], tuple[int, ...]]:
    """The sizes and axes where neighbours that each array reads like one axis are one: the later of the two."""
    sizes, left = list(sizes), list(axes)
    for slow, fast in pairwise(axes):
        if all(_is_one(use, slow, fast, sizes[fast]) for use in uses):
            sizes[fast] *= sizes[slow]
            left.remove(slow)
    return sizes, tuple(left)


def _is_one(use: Access, slow: int, fast: int, size: int) -> bool:
    if any(slow in w.terms or fast in w.terms for w in use.windows):
        return False
    return use.linear.get(slow, 0) == size * use.linear.get(fast, 0)


def strides_of(shape: Sequence[int]) -> list[int]:
    """The distance in memory of neighbours along each axis."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def digits(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The divisor and the size of each axis in an index of all of them, the fastest first."""
    divisor = 1
    for size in reversed(sizes):
        yield divisor, size
        divisor *= size
