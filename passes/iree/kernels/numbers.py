"""Scalars of a kernel with Python's operators, for iterations on a few numbers: ``x * y`` writes a multiplication to the kernel."""

from __future__ import annotations

from dataclasses import dataclass

from nabla_mlir.passes.iree.kernels.text import Index, Memory, Text


@dataclass(frozen=True)
class Number:
    """A value of the kernel's dtype; operands may be Python numbers."""

    t: Text
    name: str

    def __add__(self, other: Number | float) -> Number:
        """The sum, as an operation in the kernel."""
        return self._with("arith.addf", other)

    def __sub__(self, other: Number | float) -> Number:
        return self._with("arith.subf", other)

    def __mul__(self, other: Number | float) -> Number:
        return self._with("arith.mulf", other)

    def __truediv__(self, other: Number | float) -> Number:
        return self._with("arith.divf", other)

    def __neg__(self) -> Number:
        return Number(self.t, self.t.scalar("arith.negf", self.name))

    def __abs__(self) -> Number:
        return Number(self.t, self.t.scalar("math.absf", self.name))

    def sqrt(self) -> Number:
        """The square root."""
        return Number(self.t, self.t.scalar("math.sqrt", self.name))

    def is_at_most(self, other: Number | float) -> str:
        """x <= y as i1; False for NaN."""
        return self._compared("ole", other)

    def is_not_at_most(self, other: Number | float) -> str:
        """not (x <= y) as i1; True for NaN."""
        return self._compared("ugt", other)

    def equals(self, other: Number | float) -> str:
        """x == y as i1; False for NaN."""
        return self._compared("oeq", other)

    def is_less(self, other: Number | float) -> str:
        """x < y as i1; False for NaN."""
        return self._compared("olt", other)

    def with_sign_of(self, other: Number) -> Number:
        """The absolute value of this number, negated if `other` is negative."""
        return where(other.is_less(0.0), -abs(self), abs(self))

    def _with(self, operation: str, other: Number | float) -> Number:
        return Number(self.t, self.t.scalar(operation, self.name, self._number(other).name))

    def _compared(self, relation: str, other: Number | float) -> str:
        return self.t.result(f"arith.cmpf {relation}, {self.name}, {self._number(other).name} : {self.t.form.element}")

    def _number(self, other: Number | float) -> Number:
        return other if isinstance(other, Number) else Number(self.t, self.t.number(other))


def where(condition: str, x: Number, y: Number | float) -> Number:
    """`x` if the i1 `condition` is true, else `y`."""
    other = y if isinstance(y, Number) else Number(x.t, x.t.number(y))
    return Number(x.t, x.t.result(f"arith.select {condition}, {x.name}, {other.name} : {x.t.form.element}"))


def larger(x: Number, y: Number) -> Number:
    """The larger of two numbers; NaN if one is NaN."""
    return Number(x.t, x.t.scalar("arith.maximumf", x.name, y.name))


@dataclass(frozen=True)
class Numbers:
    """A row of numbers in memory, at the leading indices `position`."""

    t: Text
    memory: Memory
    position: tuple[Index, ...]

    def __getitem__(self, i: Index) -> Number:
        return Number(self.t, self.t.load(self.memory, *self.position, i))

    def __setitem__(self, i: Index, x: Number | float) -> None:
        value = x.name if isinstance(x, Number) else self.t.number(x)
        self.t.store(value, self.memory, *self.position, i)
