"""A thin builder of StableHLO: wrapped values with arithmetic operators, and one function per operation.

Operations are made at the current insertion point. A Python number next to a value becomes a splat constant of
that value's type; constants stand once at the start of their block. Inside `recording()` every new operation is
also written to a list, which is how a rewrite driver learns of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.types import dtype_of, element_type, tensor_type

Number = bool | int | float | complex
BOOL = np.dtype(np.bool_)


class Recording:
    """The operations made while it is active, and the splat constants of each block."""

    def __init__(self) -> None:
        self.created: list[tuple[str, ir.Operation]] = []
        self.constants: dict[tuple[ir.Block, ir.Attribute], ir.Value] = {}


_recording: list[Recording] = []


@contextlib.contextmanager
def recording() -> Iterator[Recording]:
    """Records every operation that this module makes."""
    record = Recording()
    _recording.append(record)
    try:
        yield record
    finally:
        _recording.pop()


class Val:
    """An SSA tensor value with arithmetic. Comparisons give a value too, so `==` is spelled `eq`."""

    __slots__ = ("dtype", "type", "value")

    def __init__(self, value: ir.Value, like: Val | None = None):
        """Wraps a value; `like` is one of the same type, if there is one at hand (asking MLIR takes a microsecond)."""
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
    """Makes an operation and records it, unless it is `final`: then no pattern will look at it again."""
    made = hlo.emit(name, [v.value for v in operands], results=results, attributes=attributes, regions=regions)
    if _recording and not final:
        _recording[-1].created.append((name, made))
    return made


def copy(source: ir.Operation, operands: Sequence[Val]) -> ir.Operation:
    """A copy of an operation, with its regions, on other operands of the same types."""
    made = source.clone()
    for i, v in enumerate(operands):
        made.operands[i] = v.value
    if _recording:
        made.walk(_record_walked)
    return made


def _record_walked(op: ir.Operation) -> ir.WalkResult:
    _recording[-1].created.append((op.name, op.operation))
    return ir.WalkResult.ADVANCE


def op(
    name: str,
    *operands: Val,
    type: ir.Type | None = None,
    final: bool = False,
    **attributes: ir.Attribute,
) -> Val:
    """An operation with one result. Without `type` MLIR infers it."""
    return Val(make(name, operands, None if type is None else [type], attributes, final=final).results[0])


def unary(name: str, x: Val) -> Val:
    """An elementwise operation with the type of `x`."""
    return Val(make(name, (x,), (x.type,)).result, x)


def binary(name: str, x: Val, y: Val | Number) -> Val:
    """An elementwise operation with the type of `x`; a number becomes a constant of that type."""
    if not isinstance(y, Val):
        y = splat(y, x)
    return Val(make(name, (x, y), (x.type,)).result, x)


def like(x: Val, dtype: Any) -> ir.Type:
    """The type of `x` with another element type."""
    return ir.RankedTensorType.get(x.type.shape, element_type(np.dtype(dtype)), loc=_unknown(x))


def _unknown(x: Val) -> ir.Location:
    return ir.Location.unknown(x.type.context)


def splat(value: Number, x: Val, dtype: Any = None) -> Val:
    """A constant of the shape of `x` (which may be dynamic) and of its dtype, unless another is given."""
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
    """A constant that is `value` everywhere."""
    if np.dtype(dtype).kind == "c":
        part = np.zeros((), dtype).real.dtype
        return complex_(full(complex(value).real, shape, part), full(complex(value).imag, shape, part))
    return _constant(hlo.splat(_plain(value), tuple(shape), np.dtype(dtype)))


def _plain(value: Number) -> Number:
    return value.item() if isinstance(value, np.generic) else value


def constant(array: np.ndarray) -> Val:
    """A constant that holds `array`. Complex ones are put together from parts: IREE has trouble with them."""
    if array.dtype.kind == "c":
        return complex_(constant(array.real), constant(array.imag))
    return _constant(hlo.elements(array))


def _constant(attribute: ir.Attribute) -> Val:
    point = ir.InsertionPoint.current
    block = point.block
    record = _recording[-1] if _recording else None
    if record is not None:
        known = record.constants.get((block, attribute))
        if known is not None:
            return Val(known)
        # At the start of the block it dominates every later use in the block.
        point = ir.InsertionPoint.at_block_begin(block)
    made = ir.Operation.create(
        "stablehlo.constant", results=[attribute.type], attributes={"value": attribute}, ip=point
    )
    if record is not None:
        record.constants[block, attribute] = made.results[0]
    return Val(made.results[0])


_DIRECTIONS = {word: hlo.parse_attribute(f"#stablehlo<comparison_direction {word}>") for word in
               ("EQ", "NE", "LT", "LE", "GT", "GE")}  # fmt: skip


def compare(direction: str, x: Val, y: Val | Number) -> Val:
    """Elementwise comparison."""
    if not isinstance(y, Val):
        y = splat(y, x)
    attributes = {"comparison_direction": _DIRECTIONS[direction]}
    return Val(make("stablehlo.compare", (x, y), (like(x, BOOL),), attributes).results[0])


def eq(x: Val, y: Val | Number) -> Val:
    """Elementwise x == y."""
    return compare("EQ", x, y)


def ne(x: Val, y: Val | Number) -> Val:
    """Elementwise x != y; true where either is NaN."""
    return compare("NE", x, y)


def select(predicate: Val, x: Val | Number, y: Val | Number) -> Val:
    """Elementwise x where the predicate holds, else y. One of x and y may be a number."""
    if not isinstance(x, Val):
        assert isinstance(y, Val)
        x = splat(x, y)
    elif not isinstance(y, Val):
        y = splat(y, x)
    return Val(make("stablehlo.select", (predicate, x, y), (x.type,)).result, x)


def convert(x: Val, dtype: Any) -> Val:
    """`x` with another element type; no operation if it has it already."""
    if x.dtype == np.dtype(dtype):
        return x
    return op("stablehlo.convert", x, type=like(x, dtype))


def bitcast(x: Val, dtype: Any) -> Val:
    """The bits of `x` read as a dtype of the same width."""
    return op("stablehlo.bitcast_convert", x, type=like(x, dtype))


def sqrt(x: Val) -> Val:
    """Elementwise square root."""
    return unary("stablehlo.sqrt", x)


def exp(x: Val) -> Val:
    """Elementwise exponential."""
    return unary("stablehlo.exponential", x)


def log(x: Val) -> Val:
    """Elementwise natural logarithm."""
    return unary("stablehlo.log", x)


def floor(x: Val) -> Val:
    """Elementwise floor."""
    return unary("stablehlo.floor", x)


def round_even(x: Val) -> Val:
    """Elementwise rounding, ties to even."""
    return unary("stablehlo.round_nearest_even", x)


def maximum(x: Val, y: Val | Number) -> Val:
    """Elementwise maximum; NaN if either is."""
    return binary("stablehlo.maximum", x, y)


def minimum(x: Val, y: Val | Number) -> Val:
    """Elementwise minimum; NaN if either is."""
    return binary("stablehlo.minimum", x, y)


def real(x: Val) -> Val:
    """The real part."""
    if x.dtype.kind != "c":
        return x
    return op("stablehlo.real", x)


def imag(x: Val) -> Val:
    """The imaginary part."""
    return op("stablehlo.imag", x)


def complex_(re: Val, im: Val | Number) -> Val:
    """The complex value re + i im."""
    return op("stablehlo.complex", re, im if isinstance(im, Val) else splat(im, re))


def conj(x: Val) -> Val:
    """The complex conjugate; of a real value, itself."""
    return complex_(real(x), -imag(x)) if x.dtype.kind == "c" else x


def iota(shape: Sequence[int], dim: int, dtype: Any) -> Val:
    """0, 1, 2 ... along one dimension."""
    return op("stablehlo.iota", type=tensor_type(tuple(shape), np.dtype(dtype)), iota_dimension=hlo.I64.encode(dim))


def reshape(x: Val, shape: Sequence[int]) -> Val:
    """The elements of `x` in another static shape; no operation if it has it already."""
    if x.shape == tuple(shape):
        return x
    return op("stablehlo.reshape", x, type=tensor_type(tuple(shape), x.dtype))


def broadcast(x: Val, shape: Sequence[int], dims: Sequence[int]) -> Val:
    """Dimension i of `x` becomes dimension dims[i] of the result; size 1 is repeated."""
    if x.shape == tuple(shape) and list(dims) == list(range(x.rank)):
        return x
    dimensions = hlo.I64Array.encode(dims)
    return op("stablehlo.broadcast_in_dim", x, type=tensor_type(tuple(shape), x.dtype), broadcast_dimensions=dimensions)


def transpose(x: Val, permutation: Sequence[int]) -> Val:
    """Dimension i of the result is dimension permutation[i] of `x`."""
    if list(permutation) == list(range(x.rank)):
        return x
    return op("stablehlo.transpose", x, permutation=hlo.I64Array.encode(permutation))


def swap(x: Val) -> Val:
    """`x` with its last two dimensions swapped."""
    return transpose(x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])


def slice_(x: Val, start: Sequence[int], limit: Sequence[int], strides: Sequence[int] | None = None) -> Val:
    """The static slice start:limit:strides; no operation if it is all of `x`."""
    strides = [1] * x.rank if strides is None else strides
    if not any(start) and tuple(limit) == x.shape and all(s == 1 for s in strides):
        return x
    return op(
        "stablehlo.slice",
        x,
        start_indices=hlo.I64Array.encode(start),
        limit_indices=hlo.I64Array.encode(limit),
        strides=hlo.I64Array.encode(strides),
    )


def cut(x: Val, dim: int, start: int, limit: int, stride: int = 1) -> Val:
    """The slice start:limit:stride along one dimension, all of the others. Negative `dim` counts from the end."""
    dim %= x.rank
    starts, limits, strides = [0] * x.rank, list(x.shape), [1] * x.rank
    starts[dim], limits[dim], strides[dim] = start, limit, stride
    return slice_(x, starts, limits, strides)


def concat(parts: Sequence[Val], dim: int) -> Val:
    """The parts joined along one dimension."""
    parts = [p for p in parts if p.shape[dim]] or [parts[0]]
    if len(parts) == 1:
        return parts[0]
    return op("stablehlo.concatenate", *parts, dimension=hlo.I64.encode(dim % parts[0].rank))


def reverse(x: Val, dims: Sequence[int]) -> Val:
    """`x` with the order reversed along some dimensions."""
    return op("stablehlo.reverse", x, dimensions=hlo.I64Array.encode(dims))


def pad(
    x: Val, low: Sequence[int], high: Sequence[int], interior: Sequence[int] | None = None, value: Val | Number = 0
) -> Val:
    """`x` with `value` around it and between its elements."""
    interior = [0] * x.rank if interior is None else interior
    if not any([*low, *high, *interior]):
        return x
    return op(
        "stablehlo.pad",
        x,
        value if isinstance(value, Val) else full(value, (), x.dtype),
        edge_padding_low=hlo.I64Array.encode(low),
        edge_padding_high=hlo.I64Array.encode(high),
        interior_padding=hlo.I64Array.encode(interior),
    )


def dot(x: Val, y: Val, contract: tuple[Sequence[int], Sequence[int]], batch: int = 0, dtype: Any = None) -> Val:
    """dot_general over the given contracted dimensions; the first `batch` dimensions of both are batch."""
    dims = {
        "lhs_batching_dimensions": range(batch),
        "rhs_batching_dimensions": range(batch),
        "lhs_contracting_dimensions": contract[0],
        "rhs_contracting_dimensions": contract[1],
    }
    shape = list(x.shape[:batch])
    shape += [n for i, n in enumerate(x.shape) if i >= batch and i not in contract[0]]
    shape += [n for i, n in enumerate(y.shape) if i >= batch and i not in contract[1]]
    type = tensor_type(shape, np.dtype(dtype or x.dtype))
    return op("stablehlo.dot_general", x, y, type=type, dot_dimension_numbers=hlo.DotDims.encode(dims))


def matmul(x: Val, y: Val) -> Val:
    """The product of stacked matrices; all leading dimensions are batch."""
    return dot(x, y, ([x.rank - 1], [x.rank - 2]), batch=x.rank - 2)


def dynamic_slice(x: Val, start: Sequence[Val], sizes: Sequence[int]) -> Val:
    """The slice of the given sizes that starts at scalar indices."""
    return op("stablehlo.dynamic_slice", x, *start, slice_sizes=hlo.I64Array.encode(sizes))


def dynamic_update_slice(x: Val, update: Val, start: Sequence[Val]) -> Val:
    """`x` with `update` written at scalar indices."""
    return op("stablehlo.dynamic_update_slice", x, update, *start)


def fill_region(region: ir.Region, types: Sequence[ir.Type], body: Callable[..., Val | Sequence[Val]]) -> None:
    """Gives a region one block, whose operations `body` makes from the block's arguments."""
    location = ir.Location.current
    block = region.blocks.append(*types, arg_locs=[location] * len(types))
    with ir.InsertionPoint(block):
        results = body(*(Val(a) for a in block.arguments))
        results = [results] if isinstance(results, Val) else results
        hlo.emit("stablehlo.return", [r.value for r in results], results=[])


def while_loop(initial: Sequence[Val], condition: Callable[..., Val], body: Callable[..., Sequence[Val]]) -> list[Val]:
    """stablehlo.while; both functions get the carried values."""
    types = [v.type for v in initial]
    made = make("stablehlo.while", initial, types, regions=2)
    fill_region(made.regions[0], types, condition)
    fill_region(made.regions[1], types, body)
    return [Val(r) for r in made.results]


def for_loop(count: int, initial: Sequence[Val], body: Callable[..., Sequence[Val]]) -> list[Val]:
    """A loop of fixed length; `body` gets the index (a scalar int32) and the carried values."""
    index = full(0, (), np.int32)
    result = while_loop([index, *initial], lambda i, *_: i < count, lambda i, *c: [i + 1, *body(i, *c)])
    return result[1:]


def reduce(
    operands: Sequence[Val],
    initial: Sequence[Val],
    dims: Sequence[int],
    body: Callable[..., Val | Sequence[Val]],
    final: bool = False,
) -> list[Val]:
    """stablehlo.reduce; `body` gets the scalars of the accumulators, then those of the elements."""
    shape = [n for i, n in enumerate(operands[0].shape) if i not in dims]
    types = [tensor_type(shape, v.dtype) for v in operands]
    attributes = {"dimensions": hlo.I64Array.encode(dims)}
    made = make("stablehlo.reduce", [*operands, *initial], types, attributes, regions=1, final=final)
    fill_region(made.regions[0], [v.type for v in initial] * 2, body)
    return [Val(r) for r in made.results]


def reduce_with(name: str, x: Val, initial: Number, dims: Sequence[int]) -> Val:
    """Reduction by one binary operation, such as `stablehlo.add`."""
    return reduce([x], [full(initial, (), x.dtype)], dims, lambda a, b: binary(name, a, b))[0]


def reduce_sum(x: Val, dims: Sequence[int]) -> Val:
    """The sum over some dimensions."""
    return reduce_with("stablehlo.add", x, 0, dims)


def reduce_any(x: Val, dims: Sequence[int]) -> Val:
    """True where any element along some dimensions is."""
    return reduce_with("stablehlo.or", x, False, dims)


def held(x: Val) -> Val:
    """The value behind a barrier: in memory, and what it is made of is not fused with what reads it."""
    return Val(hlo.emit("stablehlo.optimization_barrier", [x.value], results=[x.type]).results[0])
