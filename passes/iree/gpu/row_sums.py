"""Kernels for sums of rows at given indices, whose bits do not depend on the order in which threads add.

Sums of floats depend on their order, and atomic additions have none. So a sum is one of integers. For f32, with m the largest
|update| that reaches an element and n updates in all:

    1. `largest`  computes m as bits, by an atomic maximum of integers
    2. `fixed`    sums the integers u * 2^s for the updates u, where 2^s makes n values as large as m fit into 62 bits
    3. the sum is (integer) * 2^-s (`gpu_scatters_as_kernels.py`)

An update loses what is smaller than m * 2^(log2 n - 61): with n = 10^6 that is 2^-41 m, where a sum in f32 would lose 2^-24 m.
Infinities and NaN are bits of the integer instead: 1, 2 and 4 for inf, -inf and NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nabla_mlir.passes.iree.gpu.contraction import strides_of
from nabla_mlir.passes.iree.gpu.writer import Code, Writer

INFINITY = 0x7F800000  # the bits of inf in f32; those of NaN are larger
POSITIVE, NEGATIVE, INVALID = 1, 2, 4
_BITS = 62  # the number of bits of a sum of integers, without its sign
_TILE = 1024  # the number of elements that a block of threads adds
WARPS = 4


@dataclass(frozen=True)
class RowSums:
    """The sums of `count` rows of `width` numbers at index vectors into positions of the shape `positions`.

    Rows whose index vector is out of range are dropped.
    """

    positions: tuple[int, ...]
    width: int
    count: int
    index: str  # the type of the indices, i32 or i64

    @property
    def blocks(self) -> int:
        """The number of blocks of threads."""
        return -(-self.count * self.width // _TILE)

    @property
    def log_count(self) -> int:
        """The bits that a sum of `count` integers has more than each of them."""
        return self.count.bit_length()


def exponent(sums: RowSums) -> int:
    """The number E that gives the scale 2^(E - e) of updates, if the largest |update| has the biased exponent e in f32.

    The largest update is then below 2^(e - 126), so a sum of `count` scaled updates has at most `_BITS` bits.
    """
    return _BITS - sums.log_count + 126


def largest(name: str, sums: RowSums) -> str:
    """The text of a kernel with the arguments (indices, updates, m): m = max(m, bits of |update|), for each element of m."""

    def body(w: Writer, element: _Element) -> None:
        """Raises m of the element to the size of the update."""
        update = element.load("%updates", "f32", element.source)
        w.atomic("max", element.pointers("%m", "i32"), w.magnitude(update), element.mask)

    return _kernel(name, sums, [("%indices", sums.index), ("%updates", "f32"), ("%m", "i32")], body)


def fixed(name: str, sums: RowSums) -> str:
    """The text of a kernel with the arguments (indices, updates, m, sum) that adds the updates as integers to the sum.

    Where m is infinite or NaN, it sets a bit in the sum for each kind of special number instead.
    """

    def body(w: Writer, element: _Element) -> None:
        """Adds an element as a fixed-point number; NaN and infinities set a bit of their kind instead."""
        update = element.load("%updates", "f32", element.source)
        bits = w.magnitude(update)
        m = element.load("%m", "i32", element.target)
        is_finite = w.less(m, INFINITY)
        scale = w.power_of_two(w.add(w.times(w.over(m, 1 << 23), -1), w.number(exponent(sums))))
        value = w.to_integer(w.multiply(w.widen(update), scale))
        pointers = element.pointers("%sum", "i64")
        w.atomic("add", pointers, value, w.both(element.mask, is_finite))
        sign = w.less(w.bits(update), 0)
        one = lambda n: w.spread(w.number(n), bits.shape)  # noqa: E731
        # Bits above those of infinity mean NaN.
        kind = w.select(w.less(bits, INFINITY + 1), w.select(sign, one(NEGATIVE), one(POSITIVE)), one(INVALID))
        is_special = w.negated(w.less(bits, INFINITY))
        w.atomic("or", pointers, w.extend(kind), w.both(element.mask, is_special))

    arguments = [("%indices", sums.index), ("%updates", "f32"), ("%m", "i32"), ("%sum", "i64")]
    return _kernel(name, sums, arguments, body)


def integers(name: str, sums: RowSums, element_type: str) -> str:
    """The text of a kernel with the arguments (indices, updates, sum) that adds updates of integers to the sum."""

    def body(w: Writer, element: _Element) -> None:
        """Adds the update to the sum of the element."""
        update = element.load("%updates", element_type, element.source)
        w.atomic("add", element.pointers("%sum", element_type), update, element.mask)

    return _kernel(name, sums, [("%indices", sums.index), ("%updates", element_type), ("%sum", element_type)], body)


@dataclass(frozen=True)
class _Element:
    """The elements of a tile: the offsets in the updates (`source`) and in the result (`target`), and a mask: false outside."""

    writer: Writer
    source: Code
    target: Code
    mask: Code

    def pointers(self, name: str, type: str) -> Code:
        """The addresses of the elements in the array `name` of the result's shape, whose elements have the type `type`."""
        return self.writer.pointers(Code(name, f"{type}*", ()), self.target, self.target.shape)

    def load(self, name: str, type: str, offset: Code) -> Code:
        """The elements of the array `name` at these offsets; zero where the mask is false."""
        return self.writer.load(self.writer.pointers(Code(name, f"{type}*", ()), offset, offset.shape), self.mask)


def _kernel(name: str, sums: RowSums, arguments: list[tuple[str, str]], body: Callable[[Writer, _Element], None]) -> str:
    """The text of a kernel with a thread for each element of the updates; `body` writes the code of a thread.

    `arguments` has the name and the element type of each array.
    """
    w = Writer()
    block = w.op("tt.get_program_id x : i32", "i32")
    source = w.add(w.times(block, _TILE), w.range(_TILE))
    row, column = w.over(source, sums.width), w.rest(source, sums.width)
    exists = w.less(source, sums.count * sums.width)
    masks = [exists]
    terms = [column] if sums.width > 1 else []
    for k, (size, step) in enumerate(zip(sums.positions, strides_of(sums.positions), strict=True)):
        offset = w.add(w.times(row, len(sums.positions)), w.number(k))
        index = w.load(w.pointers(Code("%indices", f"{sums.index}*", ()), offset, source.shape), exists)
        masks.append(w.within(index, size))
        terms.append(w.times(w.narrow(index), step * sums.width))
    target, mask = w.total(terms), w.all(masks)
    assert target is not None
    assert mask is not None
    body(w, _Element(w, source, target, mask))
    return w.module(name, dict(arguments))
