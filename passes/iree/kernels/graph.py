"""A loop as plain Python objects, without MLIR: kernels are planned and written from it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from iree.compiler import ir

from nabla_mlir.dialects.regions import made_by
from nabla_mlir.dialects.stablehlo import BARRIERS, DotDims, constant_splat
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.passes.iree.kernels.scalars import BYTES, DTYPES, ELEMENTWISE, VECTOR_COMBINATIONS, conversion, instructions
from nabla_mlir.table.traits import FUNCTION

Shape = tuple[int, ...]


class NotSupported(Exception):  # noqa: N818 - not an error: the loop stays as it is
    """The loop cannot become a kernel; the message has the reason."""


@dataclass(eq=False)
class Node:
    """A tensor value: the operation that computes it, or its origin."""

    name: str
    operands: tuple[Node, ...]
    shape: Shape
    dtype: str
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.size: int = math.prod(self.shape)
        # True if it changes while a loop runs; and True if its elements come from memory.
        self.fixed: bool = self.name not in ("argument", "result") and all(n.fixed for n in self.operands)
        self.from_memory: bool = self.name in ("input", "argument", "result") or any(n.from_memory for n in self.operands)
        is_computed = self.name in ELEMENTWISE or self.name in ("convert", "bitcast_convert", "reduce")
        self.is_work: bool = self.size > 1 and self.from_memory and is_computed
        self.is_costly: bool = is_computed and (
            (self.name in ELEMENTWISE and instructions(self.name) >= FUNCTION)
            or (self.name != "reduce" and any(n.is_costly for n in self.operands))
        )


@dataclass(eq=False)
class Region:
    """A computation from arguments to results; `loops` are its inner loops, in order."""

    arguments: list[Node]
    results: list[Node]
    loops: list[Loop]


@dataclass(eq=False)
class Loop:
    """A `stablehlo.while`."""

    inits: list[Node]
    condition: Region
    body: Region
    results: list[Node]


# The combiners of a reduction, by the operation in its region.
REDUCERS = tuple(VECTOR_COMBINATIONS)
_STRUCTURAL = (
    "slice",
    "reshape",
    "transpose",
    "broadcast_in_dim",
    "reverse",
    "iota",
    "dynamic_slice",
    "dynamic_update_slice",
    "concatenate",
    "pad",
)


class Reader:
    """Reads a loop; `inputs` maps captured values, and constant arrays, to 'input' nodes."""

    def __init__(self) -> None:
        self.inputs: dict[ir.Value, Node] = {}
        self._nodes: dict[ir.Value, Node] = {}

    def loop(self, op: ir.Operation) -> Loop:
        """The loop. Raises NotSupported for operations without kernel code."""
        inits = [self.node(v) for v in op.operands]
        condition, body = (self._region(r) for r in op.regions)
        results = [Node("result", (), n.shape, n.dtype) for n in inits]
        self._nodes.update(zip(op.results, results, strict=True))
        return Loop(inits, condition, body, results)

    def _region(self, region: ir.Region) -> Region:
        block = region.blocks[0]
        arguments = [Node("argument", (), *_type(a)) for a in block.arguments]
        self._nodes.update(zip(block.arguments, arguments, strict=True))
        loops = []
        *ops, terminator = (o.operation for o in block.operations)
        for op in ops:
            if op.name == "stablehlo.while":
                loops.append(self.loop(op))
            else:
                self._nodes[op.results[0]] = self._read(op)
        return Region(arguments, [self.node(v) for v in terminator.operands], loops)

    def elementwise(self, op: ir.Operation) -> Node:
        """The result of an elementwise operation, or of a reshape of one element.

        Raises:
          NotSupported: it is another operation, or has no kernel code.
        """
        name = op.name.partition(".")[2]
        if name not in _OF_EACH_ELEMENT and not (name == "reshape" and math.prod(op.results[0].type.shape) == 1):
            raise NotSupported(op.name)
        self._nodes[op.results[0]] = self._read(op)
        return self._nodes[op.results[0]]

    def read(self, op: ir.Operation) -> Node:
        """The result of an operation. Raises NotSupported if it has no kernel code."""
        self._nodes[op.results[0]] = self._read(op)
        return self._nodes[op.results[0]]

    def node(self, value: ir.Value) -> Node:
        """The node of a value: the result of an operation that was read, a constant, or an input."""
        if value not in self._nodes:
            owner = made_by(value)
            splat = None if owner is None else splat_of(owner)
            if splat is None:
                self._nodes[value] = self.inputs[value] = Node("input", (), *_type(value))
            else:
                self._nodes[value] = Node("constant", (), *_type(value), {"value": splat})
        return self._nodes[value]

    def _read(self, op: ir.Operation) -> Node:
        """The node of an operation's result; composites are expanded, and barriers are skipped."""
        dialect, _, name = op.name.partition(".")
        if len(op.results) != 1 or not (dialect in ("stablehlo", "chlo") or op.name in BARRIERS):
            raise NotSupported(op.name)
        shape, dtype = _type(op.results[0])
        operands = tuple(self.node(v) for v in op.operands)
        if name in _COMPOSITES:
            return _COMPOSITES[name](*operands)
        if name == "constant":
            splat = splat_of(op)
            if splat is None:
                self.inputs[op.results[0]] = Node("input", (), shape, dtype)
                return self.inputs[op.results[0]]
            return Node(name, (), shape, dtype, {"value": splat})
        if op.name in BARRIERS:
            return operands[0]
        if name == "dot_general":
            return _product(op, operands, shape, dtype)
        if name == "reduce":
            return _reduction(op, operands, shape, dtype)
        if name == "convert" and conversion(operands[0].dtype, dtype) is None:
            raise NotSupported(f"convert {operands[0].dtype} to {dtype}")
        if name == "bitcast_convert" and (shape != operands[0].shape or "i1" in (dtype, operands[0].dtype)):
            raise NotSupported("a bitcast to another width")
        if name in ("convert", "bitcast_convert"):
            return Node(name, operands, shape, dtype)
        if name in ELEMENTWISE:
            kind = operands[-1].dtype
            attributes = {}
            if name == "compare":
                attributes = {"direction": _word(op.attributes["comparison_direction"])}
                if "compare_type" in op.attributes and _word(op.attributes["compare_type"]) == "TOTALORDER":
                    raise NotSupported("a total order")
                if kind == "i1" and attributes["direction"] not in ("EQ", "NE"):
                    raise NotSupported("an order of booleans")
            if not ELEMENTWISE[name].supports(kind):
                raise NotSupported(f"{name} of {kind}")
            return Node(name, operands, shape, dtype, attributes)
        if dialect == "stablehlo" and name in _STRUCTURAL:
            attributes = {a: _attribute(op.attributes[a]) for a in op.attributes}
            if name == "pad" and any(attributes["interior_padding"]):
                raise NotSupported("a pad between elements")
            return Node(name, operands, shape, dtype, attributes)
        raise NotSupported(op.name)


def _full(value: float, like: Node, dtype: str = "") -> Node:
    return Node("constant", (), like.shape, dtype or like.dtype, {"value": value})


def _not(x: Node) -> Node:
    ones = (1 << 8 * BYTES[x.dtype]) - 1 if x.dtype[0] == "u" else -1
    return Node("xor", (x, _full(True if x.dtype == "i1" else ones, x)), x.shape, x.dtype)


def _negative(x: Node) -> Node:
    if x.dtype[0] == "f":
        return Node("negate", (x,), x.shape, x.dtype)
    return Node("subtract", (_full(0, x), x), x.shape, x.dtype)


def _is_finite(x: Node) -> Node:
    size = Node("abs", (x,), x.shape, x.dtype)
    return Node("compare", (size, _full(math.inf, x)), x.shape, "i1", {"direction": "LT"})


def _sign(x: Node) -> Node:
    """-1 or 1; zeros and NaN are returned unchanged."""
    result = x
    for value, direction in ((-1, "LT"), (1, "GT")):
        test = Node("compare", (x, _full(0, x)), x.shape, "i1", {"direction": direction})
        result = Node("select", (test, _full(value, x), result), x.shape, x.dtype)
    return result


def _clamped(low: Node, x: Node, high: Node) -> Node:
    return Node("minimum", (Node("maximum", (x, low), x.shape, x.dtype), high), x.shape, x.dtype)


def _logistic(x: Node) -> Node:
    one = _full(1.0, x)
    power = Node("exponential", (_negative(x),), x.shape, x.dtype)
    return Node("divide", (one, Node("add", (one, power), x.shape, x.dtype)), x.shape, x.dtype)


def _shifted(name: str) -> Callable[[Node, Node], Node]:
    """A shift. If the amount is at least the number of bits, the result is 0 (or all sign bits in an arithmetic shift)."""

    def make(x: Node, n: Node) -> Node:
        bits = 8 * BYTES[x.dtype]
        amount = Node("bitcast_convert", (n,), n.shape, f"ui{bits}")
        if name == "shift_right_arithmetic":
            most = Node("minimum", (amount, _full(bits - 1, amount)), n.shape, amount.dtype)
            return Node(name, (x, most), x.shape, x.dtype)
        small = Node("compare", (amount, _full(bits, amount)), x.shape, "i1", {"direction": "LT"})
        return Node("select", (small, Node(name, (x, n), x.shape, x.dtype), _full(0, x)), x.shape, x.dtype)

    return make


# Composite operations.
_COMPOSITES: dict[str, Callable[..., Node]] = {
    "square": lambda x: Node("multiply", (x, x), x.shape, x.dtype),
    "is_finite": _is_finite,
    "not": _not,
    "negate": _negative,
    "sign": _sign,
    "clamp": _clamped,
    "logistic": _logistic,
    **{name: _shifted(name) for name in ("shift_left", "shift_right_logical", "shift_right_arithmetic")},
}
_OF_EACH_ELEMENT = frozenset({*ELEMENTWISE, *_COMPOSITES, "convert", "bitcast_convert"})


def _type(value: ir.Value) -> tuple[Shape, str]:
    """The shape and the element type of a value. Raises NotSupported if kernels do not have the type."""
    known = _shape_and_word(value.type)
    if known is None:
        raise NotSupported(f"a value of type {value.type}")
    return known


@functools.lru_cache(maxsize=65536)
def _shape_and_word(kind: ir.Type) -> tuple[Shape, str] | None:
    if not isinstance(kind, ir.RankedTensorType) or not kind.has_static_shape or 0 in kind.shape:
        return None
    element = str(kind.element_type)
    return (shape_and_dtype(kind)[0], element) if element in DTYPES else None


def splat_of(op: ir.Operation) -> Any:
    """The number with which a constant (also behind barriers) is filled; None for other operations."""
    while op.name in BARRIERS and len(op.operands) == 1:
        owner = made_by(op.operands[0])
        if owner is None:
            return None
        op = owner
    return constant_splat(op) if op.name == "stablehlo.constant" else None


def _word(attribute: ir.Attribute) -> str:
    return str(attribute).rstrip(">").split()[-1]


def _attribute(attribute: ir.Attribute) -> Any:
    return attribute.value if isinstance(attribute, ir.IntegerAttr) else tuple(attribute)


def _product(op: ir.Operation, operands: Sequence[Node], shape: Shape, dtype: str) -> Node:
    """A product as a sum of products of broadcast factors, over dimensions (batch, rows, columns, contracted).

    For 3x5 and 5x4, ``a @ b`` is ``sum(broadcast(a, (3, 4, 5), dims=[0, 2]) * broadcast(b, (3, 4, 5), dims=[2, 1]))``
    over the last dimension.
    """
    if any(n.dtype != dtype for n in operands) or dtype not in ("f32", "f64"):
        raise NotSupported("a product of other types")
    numbers = DotDims.decode(op.attributes["dot_dimension_numbers"])
    batch = [numbers[f"{side}_batching_dimensions"] for side in ("lhs", "rhs")]
    contracting = [numbers[f"{side}_contracting_dimensions"] for side in ("lhs", "rhs")]
    sizes = (*shape, *(operands[0].shape[d] for d in contracting[0]))
    free = len(batch[0])
    positions = []  # for each factor, its dimensions among all dimensions of the product
    for n, b, c in zip(operands, batch, contracting, strict=True):
        position = {d: i for i, d in enumerate(b)} | {d: len(shape) + i for i, d in enumerate(c)}
        for d in range(len(n.shape)):
            if d not in position:
                position[d], free = free, free + 1
        positions.append(tuple(position[d] for d in range(len(n.shape))))
    lane, packed = _vector_dimension(operands, positions, shape, sizes)
    factors = []
    for n, p in zip(operands, positions, strict=True):
        if lane in packed and lane in p and p[-1] != lane:
            order = (*(d for d in range(len(p)) if p[d] != lane), p.index(lane))
            n = Node("transpose", (n,), tuple(n.shape[d] for d in order), dtype, {"permutation": order, "in_memory": True})
            p = tuple(p[d] for d in order)
        factors.append(Node("broadcast_in_dim", (n,), sizes, dtype, {"broadcast_dimensions": p}))
    terms = Node("multiply", tuple(factors), sizes, dtype)
    zero = Node("constant", (), (), dtype, {"value": 0.0})
    dimensions = tuple(range(len(shape), len(sizes)))
    return Node("reduce", (terms, zero), shape, dtype, {"dimensions": dimensions, "combine": "add", "lane": lane})


def _vector_dimension(
    operands: Sequence[Node], positions: Sequence[tuple[int, ...]], shape: Shape, sizes: Shape
) -> tuple[int | None, set[int]]:
    """The dimension of a product along which vectors are read, and the dimensions along which a factor must be transposed
    for that.

    It is the last dimension of the result, if the factor that has it can be read along it, or is transposed once before
    the loop. Otherwise it is the contracted dimension, if both factors can be read along it.
    """
    columns = [d for d, n in enumerate(shape) if n > 1]
    last = [p[-1] if p else None for p in positions]
    along = last[0] if last[0] == last[1] and last[0] is not None and last[0] >= len(shape) else None
    if not columns:
        return along, set()
    column = columns[-1]
    owner = next(i for i in (1, 0) if column in positions[i])
    if last[owner] == column and (along is None or shape[column] >= 4):
        return column, set()
    if along is not None and sizes[along] > 1 and not (operands[owner].fixed and shape[column] >= 4):
        return along, set()
    return column, {column}


def _reduction(op: ir.Operation, operands: tuple[Node, ...], shape: Shape, dtype: str) -> Node:
    body = [o.operation.name.removeprefix("stablehlo.") for o in op.regions[0].blocks[0].operations]
    if len(operands) != 2 or len(body) != 2 or body[0] not in REDUCERS:
        raise NotSupported("a reduction of another kind")
    block = op.regions[0].blocks[0]
    if {*block.operations[0].operation.operands} != {*block.arguments}:
        raise NotSupported("a reduction of another kind")
    if not ELEMENTWISE[body[0]].supports(dtype):
        raise NotSupported(f"a reduction by {body[0]} of {dtype}")
    return Node("reduce", operands, shape, dtype, {"dimensions": tuple(op.attributes["dimensions"]), "combine": body[0]})
