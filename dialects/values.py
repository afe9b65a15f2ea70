"""SSA values with arithmetic operators, and constants; `builder.py` has the other operations.

Operations are made at the current insertion point. A Python number in an expression with a value becomes a constant of the value's
type. Inside `recording()`, equal constants of a block are one operation at its start, and every new operation is added to a list,
from which the driver of patterns learns of it.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.locations import here
from nabla_mlir.dialects.regions import nested
from nabla_mlir.dialects.types import dtype_of, element_type

Number = bool | int | float | complex
BOOL = np.dtype(np.bool_)
# The attribute of an operation that no pattern rewrites; nabla-forget-final removes it.
FINAL = "nabla.final"


class Recording:
    """The operations that were made inside `recording()`, with their names, and the constants of each block."""

    def __init__(self) -> None:
        self.created: list[tuple[str, ir.Operation]] = []
        self.constants: dict[tuple[ir.Block, ir.Attribute], ir.Value] = {}


# The recording of this thread. It is not an argument, because every operator in an expression of a pattern would need it.
_recording: contextvars.ContextVar[Recording | None] = contextvars.ContextVar("recording", default=None)


@contextlib.contextmanager
def recording() -> Iterator[Recording]:
    """A context that records every operation that this module makes, except for those made as `final`."""
    record = Recording()
    token = _recording.set(record)
    try:
        yield record
    finally:
        _recording.reset(token)


class Val:
    """An SSA tensor value with arithmetic, for patterns of passes: each operator is one operation of StableHLO.

    The class `table.tensor.Tensor`, for users and rules, promotes types, broadcasts, and has named axes. Here, both operands have
    one type, and sizes may be dynamic. Comparisons are operations, too; `==` is `eq`, because Python uses the operator itself.
    """

    __slots__ = ("dtype", "type", "value")
    dtype: np.dtype
    type: Any
    value: ir.Value

    def __init__(self, value: ir.Value, like: Val | None = None):
        """Wraps a value. The type is copied from `like`, a value of the same type, because asking MLIR takes a microsecond."""
        self.value = value
        if like is None:
            self.type = value.type
            self.dtype = dtype_of(self.type.element_type)
        else:
            self.type, self.dtype = like.type, like.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes; a dynamic size is negative."""
        return tuple(self.type.shape)

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return self.type.rank

    @property
    def static(self) -> bool:
        """True if every size is known."""
        return self.type.has_static_shape

    def __add__(self, other: Val | Number) -> Val:
        return binary("stablehlo.add", self, other)

    def __radd__(self, other: Number) -> Val:
        return binary("stablehlo.add", self, other)

    def __sub__(self, other: Val | Number) -> Val:
        return binary("stablehlo.subtract", self, other)

    def __rsub__(self, other: Number) -> Val:
        return binary("stablehlo.subtract", splat(other, self), self)

    def __mul__(self, other: Val | Number) -> Val:
        return binary("stablehlo.multiply", self, other)

    def __rmul__(self, other: Number) -> Val:
        return binary("stablehlo.multiply", self, other)

    def __truediv__(self, other: Val | Number) -> Val:
        return binary("stablehlo.divide", self, other)

    def __rtruediv__(self, other: Number) -> Val:
        return binary("stablehlo.divide", splat(other, self), self)

    def __and__(self, other: Val | Number) -> Val:
        return binary("stablehlo.and", self, other)

    def __or__(self, other: Val | Number) -> Val:
        return binary("stablehlo.or", self, other)

    def __xor__(self, other: Val | Number) -> Val:
        return binary("stablehlo.xor", self, other)

    def __lshift__(self, other: Val | Number) -> Val:
        return binary("stablehlo.shift_left", self, other)

    def __rshift__(self, other: Val | Number) -> Val:
        """The logical shift."""
        return binary("stablehlo.shift_right_logical", self, other)

    def __invert__(self) -> Val:
        return unary("stablehlo.not", self)

    def __neg__(self) -> Val:
        return unary("stablehlo.negate", self)

    def __abs__(self) -> Val:
        return unary("stablehlo.abs", self)

    def __lt__(self, other: Val | Number) -> Val:
        return compare("LT", self, other)

    def __le__(self, other: Val | Number) -> Val:
        return compare("LE", self, other)

    def __gt__(self, other: Val | Number) -> Val:
        return compare("GT", self, other)

    def __ge__(self, other: Val | Number) -> Val:
        return compare("GE", self, other)


def make(
    name: str,
    operands: Sequence[Val],
    results: Sequence[ir.Type] | None = None,
    attributes: Mapping[str, ir.Attribute] | None = None,
    regions: int = 0,
    final: bool = False,
) -> ir.Operation:
    """Makes the operation `name` and records it; a `final` one is marked instead, so that no pattern rewrites it.

    Without `results`, MLIR infers their types; `regions` is the number of its regions.
    """
    op = hlo.emit(name, [v.value for v in operands], results=results, attributes=attributes, regions=regions)
    if final:
        op.attributes[FINAL] = ir.UnitAttr.get(op.context)
    elif (record := _recording.get()) is not None:
        record.created.append((name, op))
    return op


def copy(source: ir.Operation, operands: Sequence[Val]) -> ir.Operation:
    """A copy of an operation, with its regions, on other operands of the same types."""
    clone = source.clone()
    for i, v in enumerate(operands):
        clone.operands[i] = v.value
    record = _recording.get()
    if record is not None:
        record.created.extend((inner.name, inner) for inner in (*nested(clone), clone.operation))
    return clone


def op(name: str, *operands: Val, type: ir.Type | None = None, final: bool = False, **attributes: ir.Attribute) -> Val:
    """The result of an operation with one result, whose type MLIR infers if `type` is None."""
    return Val(make(name, operands, None if type is None else [type], attributes, final=final).results[0])


def unary(name: str, x: Val) -> Val:
    """The result of an elementwise operation, of the type of `x`."""
    return Val(make(name, (x,), (x.type,)).result, x)


def binary(name: str, x: Val, y: Val | Number) -> Val:
    """The result of the elementwise operation `name`, of the type of `x`; a number `y` becomes a constant of this type."""
    if not isinstance(y, Val):
        y = splat(y, x)
    return Val(make(name, (x, y), (x.type,)).result, x)


def like(x: Val, dtype: Any) -> ir.Type:
    """The type of `x` with another element type."""
    return ir.RankedTensorType.get(x.type.shape, element_type(np.dtype(dtype)), loc=_unknown(x))


def _unknown(x: Val) -> ir.Location:
    """The unknown location in the context of a value."""
    return ir.Location.unknown(x.type.context)


def splat(value: Number, x: Val, dtype: Any = None) -> Val:
    """A constant with `value` everywhere, of the shape of `x` (which may be dynamic), and of its dtype if none is given."""
    dtype = x.dtype if dtype is None else np.dtype(dtype)
    if x.static:
        return full(value, x.shape, dtype)
    if dtype.kind == "u":  # IREE loses the dynamic sizes of unsigned values
        signed = np.dtype(f"i{dtype.itemsize}")
        return bitcast(splat(int(np.array(value, dtype).view(signed)), x, signed), dtype)
    shape = x
    if x.dtype != dtype:
        shape = bitcast(x, f"i{x.dtype.itemsize}") if x.dtype.kind == "u" else x
        shape = convert(shape, dtype)
    scalar = str(hlo.splat(_plain(value), (), dtype)).removeprefix("dense<").replace("> : tensor<", " : ").rstrip(">")
    return op("chlo.constant_like", shape, type=shape.type, value=hlo.parse_attribute(scalar))


def full(value: Number, shape: Sequence[int], dtype: Any) -> Val:
    """A constant of a static shape with `value` everywhere. The value comes first, unlike in `nabla_mlir.table.tensor.full`."""
    if np.dtype(dtype).kind == "c":
        part = np.zeros((), dtype).real.dtype
        return complex_(full(complex(value).real, shape, part), full(complex(value).imag, shape, part))
    return _constant(hlo.splat(_plain(value), tuple(shape), np.dtype(dtype)))


def _plain(value: Number) -> Number:
    """The number as a Python number, also if it is a scalar of NumPy."""
    return value.item() if isinstance(value, np.generic) else value


def constant(array: np.ndarray) -> Val:
    """A constant with the elements of an array. A complex one is made of two real ones, because IREE confuses complex constants."""
    if array.dtype.kind == "c":
        return complex_(constant(array.real), constant(array.imag))
    return _constant(hlo.elements(array))


def _constant(attribute: ir.Attribute) -> Val:
    """The value of a constant; inside `recording()`, equal constants of a block are one operation at its start."""
    point = ir.InsertionPoint.current
    block = point.block
    record = _recording.get()
    if record is not None:
        constant = record.constants.get((block, attribute))
        if constant is not None:
            return Val(constant)
        # At the start of the block it dominates every later use in the block.
        point = ir.InsertionPoint.at_block_begin(block)
    op = ir.Operation.create("stablehlo.constant", results=[attribute.type], attributes={"value": attribute}, ip=point, loc=here())
    if record is not None:
        record.constants[block, attribute] = op.results[0]
    return Val(op.results[0])


_DIRECTIONS = {
    word: hlo.parse_attribute(f"#stablehlo<comparison_direction {word}>") for word in ("EQ", "NE", "LT", "LE", "GT", "GE")
}


def compare(direction: str, x: Val, y: Val | Number) -> Val:
    """The elementwise comparison of `x` and `y` in a direction of StableHLO: EQ, NE, LT, LE, GT or GE."""
    if not isinstance(y, Val):
        y = splat(y, x)
    attributes = {"comparison_direction": _DIRECTIONS[direction]}
    return Val(make("stablehlo.compare", (x, y), (like(x, BOOL),), attributes).results[0])


def convert(x: Val, dtype: Any) -> Val:
    """The numbers of `x` converted to another element type; `x` itself if it has this type."""
    if x.dtype == np.dtype(dtype):
        return x
    return op("stablehlo.convert", x, type=like(x, dtype))


def bitcast(x: Val, dtype: Any) -> Val:
    """The bits of `x` read as a dtype of the same width."""
    return op("stablehlo.bitcast_convert", x, type=like(x, dtype))


def complex_(re: Val, im: Val | Number) -> Val:
    """The complex value re + i im."""
    return op("stablehlo.complex", re, im if isinstance(im, Val) else splat(im, re))
