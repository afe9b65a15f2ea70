"""Text of Triton's dialect: integers and masks of any shape, which broadcast as NumPy's do."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from nabla_mlir.passes.iree.emitter import Emitter

Shape = tuple[int, ...]


class Code(NamedTuple):
    """A value of the kernel: its name, its element type, and its shape; () is a scalar."""

    name: str
    element: str
    shape: Shape

    @property
    def type(self) -> str:
        """The MLIR type as text, such as `tensor<128x1xi32>`."""
        return type_of(self.element, self.shape)


def type_of(element: str, shape: Shape) -> str:
    """The type of a value as text; `f32*` is a pointer to f32."""
    if element.endswith("*"):
        element = f"!tt.ptr<{element[:-1]}>"
    return f"tensor<{'x'.join(map(str, shape))}x{element}>" if shape else element


class Writer(Emitter):
    """Writes operations. An equal operation of the same or an outer block is reused, but operations are not moved out of loops.

    Example: `w.less(w.add(w.range(4), w.number(3)), 5)` is the mask [1, 1, 0, 0].
    """

    def op(self, text: str, element: str, shape: Shape = ()) -> Code:
        """The result, of this element type and shape, of an operation without side effects; an equal operation is reused."""
        known = next((block.known[text] for block in self.blocks if text in block.known), None)
        return Code(known or self.pure(text, (), floor=self.level), element, shape)

    def sum_loop(self, start: Code, end: Code, step: Code, init: Code, body: Callable[[Code, Code], Code]) -> Code:
        """The last value of a sum that a loop carries from `init` on.

        `body(index, sum)` writes an iteration, and returns the new sum; the index runs from `start` to `end` (exclusively) by
        `step`.
        """

        def iterate(index: str, sums: list[str]) -> list[str]:  # the name of the new sum, in a list
            return [body(Code(index, "i32", ()), init._replace(name=sums[0])).name]

        bounds = [start.name, end.name, step.name, "i32"]
        return init._replace(name=self.for_loop(bounds, [init.name], [init.type], iterate)[0])

    def module(self, name: str, arguments: dict[str, str]) -> str:
        """The whole module: a kernel with these arguments, pointers to elements of these types, and the lines written so far."""
        inputs = ", ".join(f"{x}: !tt.ptr<{element}> {{tt.divisibility = 16 : i32}}" for x, element in arguments.items())
        body = "\n".join(f"    {line}" for line in self.blocks[0].lines)
        return f"module {{\n  tt.func public @{name}({inputs}) {{\n{body}\n    tt.return\n  }}\n}}\n"

    # Integers.

    def number(self, value: int) -> Code:
        """An i32 constant."""
        return self.op(f"arith.constant {value} : i32", "i32")

    def range(self, size: int) -> Code:
        """The i32 vector 0, 1, ..., size - 1."""
        return self.op(f"tt.make_range {{start = 0 : i32, end = {size} : i32}} : {type_of('i32', (size,))}", "i32", (size,))

    def add(self, x: Code, y: Code) -> Code:
        """x + y."""
        return self._binary("arith.addi", x, y)

    def times(self, x: Code, factor: int) -> Code:
        """x * factor."""
        return x if factor == 1 else self._binary("arith.muli", x, self.number(factor))

    def over(self, x: Code, divisor: int) -> Code:
        """x // divisor, of a number that is not negative."""
        return x if divisor == 1 else self._binary("arith.divsi", x, self.number(divisor))

    def rest(self, x: Code, divisor: int) -> Code:
        """x % divisor, of a number that is not negative."""
        return self._binary("arith.remsi", x, self.number(divisor))

    def least(self, x: Code, y: Code) -> Code:
        """The smaller of x and y."""
        return self._binary("arith.minsi", x, y)

    def total(self, terms: list[Code]) -> Code | None:
        """The sum of the terms; None if there are none. Terms of one shape are added first, so there are fewer large sums."""
        if not terms:
            return None
        by_shape: dict[Shape, Code] = {}
        for term in terms:
            by_shape[term.shape] = self.add(by_shape[term.shape], term) if term.shape in by_shape else term
        first, *others = (by_shape[shape] for shape in sorted(by_shape, key=lambda s: (len(s), s)))
        for other in others:
            first = self.add(first, other)
        return first

    # Masks.

    def less(self, x: Code, limit: int) -> Code:
        """x < limit."""
        return self._compare("slt", x, limit)

    def within(self, x: Code, limit: int) -> Code:
        """0 <= x < limit."""
        return self._compare("ult", x, limit)

    def equal(self, x: Code, value: int) -> Code:
        """x == value."""
        return self._compare("eq", x, value)

    def both(self, x: Code, y: Code) -> Code:
        """x and y."""
        return self._binary("arith.andi", x, y)

    def all(self, masks: list[Code]) -> Code | None:
        """The mask that is true where all of `masks` are; None if there are no masks."""
        result = None
        for mask in masks:
            result = mask if result is None else self.both(result, mask)
        return result

    def negated(self, mask: Code) -> Code:
        """not mask."""
        ones = self.spread(self.op("arith.constant true", "i1"), mask.shape)
        return self._binary("arith.xori", mask, ones)

    def select(self, mask: Code, x: Code, y: Code) -> Code:
        """x where the mask is true, else y."""
        return self.op(f"arith.select {mask.name}, {x.name}, {y.name} : {mask.type}, {x.type}", x.element, x.shape)

    # Conversions.

    def narrow(self, x: Code) -> Code:
        """An integer as i32."""
        return x if x.element == "i32" else self._convert("arith.trunci", x, "i32")

    def extend(self, x: Code) -> Code:
        """An i32 as i64."""
        return self._convert("arith.extsi", x, "i64")

    def widen(self, x: Code) -> Code:
        """An f32 as f64."""
        return self._convert("arith.extf", x, "f64")

    def to_integer(self, x: Code) -> Code:
        """An f64 as i64, without its fraction."""
        return self._convert("arith.fptosi", x, "i64")

    def bits(self, x: Code) -> Code:
        """The bits of an f32 as i32."""
        return self._convert("tt.bitcast", x, "i32")

    def magnitude(self, x: Code) -> Code:
        """The bits of |x| of an f32, which are in the order of the numbers."""
        return self._binary("arith.andi", self.bits(x), self.number(0x7FFFFFFF))

    def power_of_two(self, exponent: Code) -> Code:
        """2^exponent in f64: the bits of the float whose biased exponent is exponent + 1023, and whose mantissa is 0."""
        biased = self.extend(self.add(exponent, self.number(1023)))
        shift = self.spread(self.op("arith.constant 52 : i64", "i64"), biased.shape)
        return self._convert("tt.bitcast", self._binary("arith.shli", biased, shift), "f64")

    def multiply(self, x: Code, y: Code) -> Code:
        """x * y of floats."""
        return self._binary("arith.mulf", x, y)

    def _convert(self, name: str, x: Code, element: str) -> Code:
        """The value x with another element type, by the conversion operation `name`."""
        return self.op(
            f"{name} {x.name} : {x.type} -> {type_of(element, x.shape)}"
            if name == "tt.bitcast"
            else f"{name} {x.name} : {x.type} to {type_of(element, x.shape)}",
            element,
            x.shape,
        )

    # Shapes.

    def expand(self, x: Code, axis: int) -> Code:
        """x of shape (n,) as (1, n) for axis 0, as (n, 1) for axis 1."""
        shape = (1, *x.shape) if axis == 0 else (*x.shape, 1)
        text = f"tt.expand_dims {x.name} {{axis = {axis} : i32}} : {x.type} -> {type_of(x.element, shape)}"
        return self.op(text, x.element, shape)

    def spread(self, x: Code, shape: Shape) -> Code:
        """The value x, broadcast to a shape."""
        if x.shape == shape:
            return x
        word = "tt.broadcast" if x.shape else "tt.splat"
        return self.op(f"{word} {x.name} : {x.type} -> {type_of(x.element, shape)}", x.element, shape)

    # Memory.

    def pointers(self, base: Code, offset: Code | None, shape: Shape) -> Code:
        """The addresses of elements, in an array of `shape`: the pointer `base` plus the offset (None: 0)."""
        start = self.spread(base, shape)
        if offset is None:
            return start
        offset = self.spread(offset, shape)
        return self.op(f"tt.addptr {start.name}, {offset.name} : {start.type}, {offset.type}", start.element, shape)

    def zeros(self, element: str, shape: Shape) -> Code:
        """Zeros of an element type, in this shape."""
        number = "0.0" if element[0] in "fb" else "0"
        if not shape:
            return self.op(f"arith.constant {number} : {element}", element)
        return self.op(f"arith.constant dense<{number}> : {type_of(element, shape)}", element, shape)

    def load(self, pointers: Code, mask: Code | None, other: Code | None = None) -> Code:
        """The elements at the addresses `pointers`; `other` or zero where the mask is false. A mask None is true everywhere."""
        element, shape = pointers.element[:-1], pointers.shape
        if mask is None:
            return self.op(f"tt.load {pointers.name} : {pointers.type}", element, shape)
        mask, zeros = self.spread(mask, shape), other or self.zeros(element, shape)
        return self.op(f"tt.load {pointers.name}, {mask.name}, {zeros.name} : {pointers.type}", element, shape)

    def store(self, pointers: Code, value: Code, mask: Code | None) -> None:
        """Stores `value` at the addresses `pointers` where the mask is true (None: everywhere)."""
        extra = f", {self.spread(mask, pointers.shape).name}" if mask is not None else ""
        self.line(f"tt.store {pointers.name}, {value.name}{extra} : {pointers.type}")

    def atomic(self, name: str, pointers: Code, value: Code, mask: Code) -> None:
        """Updates the elements where the mask is true by an atomic operation, such as add or max, in an undefined order."""
        types = f"({pointers.type}, {value.type}, {mask.type}) -> {value.type}"
        self.result(f"tt.atomic_rmw {name}, relaxed, gpu, {pointers.name}, {value.name}, {mask.name} : {types}")

    def _binary(self, name: str, x: Code, y: Code) -> Code:
        """The result of an operation on two values, which are broadcast to one shape."""
        shape = _joined(x.shape, y.shape)
        x, y = self.spread(x, shape), self.spread(y, shape)
        return self.op(f"{name} {x.name}, {y.name} : {x.type}", x.element, shape)

    def _compare(self, predicate: str, x: Code, limit: int) -> Code:
        """The mask that is true where x and the number `limit` satisfy a predicate of `arith.cmpi`, such as slt."""
        number = self.op(f"arith.constant {limit} : {x.element}", x.element)
        y = self.spread(number, x.shape)
        return self.op(f"arith.cmpi {predicate}, {x.name}, {y.name} : {x.type}", "i1", x.shape)


def _joined(x: Shape, y: Shape) -> Shape:
    """The shape to which values of the shapes x and y are broadcast together; () is a scalar."""
    if not x or not y:
        return x or y
    return tuple(max(m, n) for m, n in zip(x, y, strict=True))
