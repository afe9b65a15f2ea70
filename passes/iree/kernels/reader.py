"""Reads loops: from operations of StableHLO to the nodes of a kernel."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from iree.compiler import ir

from nabla_mlir.dialects.regions import made_by
from nabla_mlir.dialects.stablehlo import BARRIERS, DotDims, GatherDims, ScatterDims, constant_splat
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.ops.windows import geometry_of
from nabla_mlir.passes.iree.internals.barriers import PARTS_OF_FILLS, fill_value
from nabla_mlir.passes.iree.kernels.formulas import FORMULAS, is_nonzero, total_order
from nabla_mlir.passes.iree.kernels.graph import (
    Branch,
    Compound,
    Loop,
    Node,
    NotSupported,
    Region,
    Scatter,
    Shape,
    Sort,
    Windows,
    next_number,
)
from nabla_mlir.passes.iree.kernels.scalars import DTYPES, ELEMENTWISE, VECTOR_COMBINATIONS, conversion
from nabla_mlir.passes.iree.math.chlo import expansion_of
from nabla_mlir.table.registry import REGISTRY

# The combiners of a reduction, by the operation in its region.
REDUCERS = tuple(VECTOR_COMBINATIONS)
# The largest number of elements of a window of `reduce_window`: the code has a term for each of them.
_WINDOW = 16
# Operations that become nodes of the same name: each element of the result is an element of an operand, or its own index.
_MOVES = ("slice", "reshape", "transpose", "broadcast_in_dim", "reverse", "dynamic_slice", "dynamic_update_slice")
_STRUCTURAL = (*_MOVES, "concatenate", "pad", "iota")


class Reader:
    """Makes nodes of the operations of a loop; `inputs` has the nodes of values from outside, and of constant arrays."""

    def __init__(self) -> None:
        self.inputs: dict[ir.Value, Node] = {}
        self._nodes: dict[ir.Value, Node] = {}

    def loop(self, op: ir.Operation) -> Loop:
        """A `stablehlo.while` as nodes. Raises NotSupported if there is no kernel code for an operation or a type in the loop."""
        inits, results = self._operands_and_results(op)
        condition, body = (self._region(r) for r in op.regions)
        return Loop(inits, results, condition, body)

    def _compound(self, op: ir.Operation) -> Compound:
        """The compound of a `while`, `if`, `case`, `sort` or `scatter`, whose operations are read, too."""
        if op.name == "stablehlo.while":
            return self.loop(op)
        inits, results = self._operands_and_results(op)
        if op.name == "stablehlo.sort":
            dimension = op.attributes["dimension"].value
            return Sort(inits, results, dimension, self._region(op.regions[0]), _wanted(op, dimension))
        if op.name == "stablehlo.scatter":
            return _scatter(op, inits, results)
        return Branch(inits, results, [self._region(r) for r in op.regions])

    def _operands_and_results(self, op: ir.Operation) -> tuple[list[Node], list[Node]]:
        """The nodes of the operands of an operation, and new nodes named "result" for its results."""
        results = [Node("result", (), *_type(r)) for r in op.results]
        self._nodes.update(zip(op.results, results, strict=True))
        return [self.node(v) for v in op.operands], results

    def _region(self, region: ir.Region) -> Region:
        """The region as nodes, with the range of their numbers, so that a plan knows which nodes are inside it."""
        first = next_number()
        block = region.blocks[0]
        arguments = [Node("argument", (), *_type(a)) for a in block.arguments]
        self._nodes.update(zip(block.arguments, arguments, strict=True))
        compounds: list[Compound] = []
        *ops, terminator = (o.operation for o in block.operations)
        for op in ops:
            if op.name in _COMPOUNDS:
                compounds.append(self._compound(op))
            elif op.name in BARRIERS:
                self._nodes.update(zip(op.results, map(self.node, op.operands), strict=True))
            elif op.name not in PARTS_OF_FILLS:
                self._nodes[op.results[0]] = self._read(op)
        results = [self.node(v) for v in terminator.operands]
        return Region(arguments, results, compounds, range(first, next_number()))

    def elementwise(self, op: ir.Operation) -> Node:
        """The result of an elementwise operation, or of a reshape of one element. Raises NotSupported for other operations."""
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
        """The node of a value: the result of an operation that was read, a constant, or a new input of the kernel."""
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
        if (number := fill_value(op)) is not None:
            return Node("constant", (), *_type(op.results[0]), {"value": number})
        if len(op.results) != 1 or not (dialect in ("stablehlo", "chlo") or op.name in BARRIERS):
            raise NotSupported(op.name)
        shape, dtype = _type(op.results[0])
        operands = tuple(self.node(v) for v in op.operands)
        if name in FORMULAS:
            return FORMULAS[name](*operands)
        if dialect == "chlo" and name not in ELEMENTWISE:
            return self._expanded(op, operands)
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
        if name == "gather":
            return _gather(op, operands, shape, dtype)
        if name == "reduce":
            return _reduction(op, operands, shape, dtype)
        if name == "reduce_window":
            return _window(op, operands, shape, dtype)
        if name == "convert" and dtype == "i1" != operands[0].dtype:
            return is_nonzero(operands[0])
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
                    return total_order(operands[0], operands[1], attributes["direction"])
                if kind == "i1" and attributes["direction"] not in ("EQ", "NE"):
                    raise NotSupported("an order of booleans")
            if not ELEMENTWISE[name].supports(kind):
                raise NotSupported(f"{name} of {kind}")
            return Node(name, operands, shape, dtype, attributes)
        if dialect == "stablehlo" and name in _STRUCTURAL:
            attributes = {a: _attribute(op.attributes[a]) for a in op.attributes}
            if name == "pad":
                return _padding(operands, shape, dtype, attributes)
            return Node(name, operands, shape, dtype, attributes)
        raise NotSupported(op.name)

    def _expanded(self, op: ir.Operation, operands: Sequence[Node]) -> Node:
        """The result of a function of CHLO by MLIR's own formula."""
        block = expansion_of(op)
        self._nodes.update(zip(block.arguments, operands, strict=True))
        *formula, end = (o.operation for o in block.operations)
        for inner in formula:
            self._nodes[inner.results[0]] = self._read(inner)
        return self.node(end.operands[0])


_COMPOUNDS = tuple(f"stablehlo.{name}" for name in ("while", "if", "case", "sort", "scatter"))
_OF_EACH_ELEMENT = frozenset({*ELEMENTWISE, *FORMULAS, "convert", "bitcast_convert"})


def _type(value: ir.Value) -> tuple[Shape, str]:
    """The shape and the element type (such as "f32") of a value. Raises NotSupported if kernels do not have the type."""
    known = _shape_and_word(value.type)
    if known is None:
        raise NotSupported(f"a value of type {value.type}")
    return known


@functools.lru_cache(maxsize=65536)
def _shape_and_word(kind: ir.Type) -> tuple[Shape, str] | None:
    """The shape and the element type of a tensor type; None if kernels do not have the type."""
    if not isinstance(kind, ir.RankedTensorType) or not kind.has_static_shape or 0 in kind.shape:
        return None
    element = str(kind.element_type)
    return (shape_and_dtype(kind)[0], element) if element in DTYPES else None


def splat_of(op: ir.Operation) -> Any:
    """The number with which a constant is filled, if `op` is one, or is a chain of barriers after one; else None."""
    while op.name in BARRIERS and len(op.operands) == 1:
        owner = made_by(op.operands[0])
        if owner is None:
            return None
        op = owner
    return constant_splat(op) if op.name == "stablehlo.constant" else None


def _word(attribute: ir.Attribute) -> str:
    """The word of an enumeration attribute: EQ for ``#stablehlo<comparison_direction EQ>``."""
    return str(attribute).rstrip(">").split()[-1]


def _attribute(attribute: ir.Attribute) -> Any:
    """An integer attribute as an int, or an array attribute as a tuple."""
    return attribute.value if isinstance(attribute, ir.IntegerAttr) else tuple(attribute)


def _product(op: ir.Operation, operands: Sequence[Node], shape: Shape, dtype: str) -> Node:
    """A product as a sum of products of broadcast factors, over dimensions (batch, rows, columns, contracted).

    For 3x5 and 5x4, ``a @ b`` is ``sum(broadcast(a, (3, 4, 5), dims=[0, 2]) * broadcast(b, (3, 4, 5), dims=[2, 1]))``
    over the last dimension.
    """
    if any(x.dtype != dtype for x in operands) or dtype not in ("f32", "f64"):
        raise NotSupported("a product of other types")
    numbers = DotDims.decode(op.attributes["dot_dimension_numbers"])
    batch = [numbers[f"{side}_batching_dimensions"] for side in ("lhs", "rhs")]
    contracting = [numbers[f"{side}_contracting_dimensions"] for side in ("lhs", "rhs")]
    sizes = (*shape, *(operands[0].shape[d] for d in contracting[0]))
    free = len(batch[0])  # the dimension of the result for the next free dimension of a factor
    positions = []  # for each factor, its dimensions among all dimensions of the product
    for x, b, c in zip(operands, batch, contracting, strict=True):
        position = {d: i for i, d in enumerate(b)} | {d: len(shape) + i for i, d in enumerate(c)}
        for d in range(len(x.shape)):
            if d not in position:
                position[d], free = free, free + 1
        positions.append(tuple(position[d] for d in range(len(x.shape))))
    # The dimension along which vectors run; factors that do not have it last are transposed in memory.
    lane, packed = _vector_dimension(operands, positions, shape, sizes)
    factors = []
    for x, dims in zip(operands, positions, strict=True):
        if lane in packed and lane in dims and dims[-1] != lane:
            order = (*(d for d in range(len(dims)) if dims[d] != lane), dims.index(lane))
            x = Node("transpose", (x,), tuple(x.shape[d] for d in order), dtype, {"permutation": order, "in_memory": True})
            dims = tuple(dims[d] for d in order)
        factors.append(Node("broadcast_in_dim", (x,), sizes, dtype, {"broadcast_dimensions": dims}))
    terms = Node("multiply", tuple(factors), sizes, dtype)
    zero = Node("constant", (), (), dtype, {"value": 0.0})
    dimensions = tuple(range(len(shape), len(sizes)))
    return Node("reduce", (terms, zero), shape, dtype, {"dimensions": dimensions, "combine": "add", "lane": lane})


def _gather(op: ir.Operation, operands: tuple[Node, ...], shape: Shape, dtype: str) -> Node:
    """The node of a gather, whose dimension numbers are written as `Windows` of the result."""
    numbers, sizes = GatherDims.decode(op.attributes["dimension_numbers"]), tuple(op.attributes["slice_sizes"])
    batching = zip(numbers["operand_batching_dims"], numbers["start_indices_batching_dims"], strict=True)
    single, starts = numbers["collapsed_slice_dims"], numbers["start_index_map"]
    windows = _windows(shape, numbers["offset_dims"], single, batching, starts, numbers["index_vector_dim"], sizes)
    return Node("gather", operands, shape, dtype, {"windows": windows})


def _scatter(op: ir.Operation, inits: list[Node], results: list[Node]) -> Scatter:
    """The node of a kernel's graph for a `stablehlo.scatter` with one operand; raises NotSupported for several.

    The dimension numbers become `Windows`: the part of the operand that each slice of the updates changes.
    """
    if len(inits) != 3:  # operand, indices and updates
        raise NotSupported("a scatter of several operands")
    operand, _, updates = inits
    numbers = ScatterDims.decode(op.attributes["scatter_dimension_numbers"])
    batching = [*zip(numbers["input_batching_dims"], numbers["scatter_indices_batching_dims"], strict=True)]
    inner, single, starts = (numbers[a] for a in ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims"))
    extents = iter([updates.shape[d] for d in inner])
    sizes = tuple(1 if d in single or d in dict(batching) else next(extents) for d in range(len(operand.shape)))
    windows = _windows(updates.shape, inner, single, batching, starts, numbers["index_vector_dim"], sizes)
    return Scatter(inits, results, windows, _combination(op, operand.dtype))


def _windows(
    shape: Shape,
    inner: Sequence[int],
    single: Sequence[int],
    batching: Iterable[tuple[int, int]],
    starts: Sequence[int],
    vector: int,
    sizes: Shape,
) -> Windows:
    """The windows of an array of `shape` (the result of a gather, or the updates of a scatter), from the dimension numbers.

    A window extends along the dimensions `inner` of the array, and has one element along the dimensions `single` of the operand.
    `starts` has the dimension of the operand for each component of an index vector; `vector` and `sizes` are those of `Windows`.
    """
    batch = tuple(d for d in range(len(shape)) if d not in inner)
    along = {d: batch[i - 1 if i > vector else i] for d, i in batching}
    along.update(zip((d for d in range(len(sizes)) if d not in single and d not in along), inner, strict=True))
    components = {d: k for k, d in enumerate(starts)}
    sources = tuple((along.get(d), components.get(d)) for d in range(len(sizes)))
    return Windows(batch, tuple(inner), vector, sources, sizes)


def _vector_dimension(
    operands: Sequence[Node], positions: Sequence[tuple[int, ...]], shape: Shape, sizes: Shape
) -> tuple[int | None, set[int]]:
    """The dimension of a product along which vectors are read (None: any), and a set: this dimension if a factor is transposed.

    It is the last dimension of the result, if the factor with this dimension ends with it, or can be transposed once before the
    loop. Else it is the contracted one, if both end with it. `positions` has the dimension in `sizes` of each axis of an operand.
    """
    columns = [d for d, n in enumerate(shape) if n > 1]
    last = [p[-1] if p else None for p in positions]
    contracted = last[0] if last[0] == last[1] and last[0] is not None and last[0] >= len(shape) else None
    if not columns:
        return contracted, set()
    column = columns[-1]
    owner = next(i for i in (1, 0) if column in positions[i])
    if last[owner] == column and (contracted is None or shape[column] >= 4):
        return column, set()
    if contracted is not None and sizes[contracted] > 1 and not (operands[owner].fixed and shape[column] >= 4):
        return contracted, set()
    return column, {column}


def _padding(operands: tuple[Node, ...], shape: Shape, dtype: str, attributes: Mapping[str, Any]) -> Node:
    """The node of a pad; where a padding is negative, a slice before the pad removes the elements."""
    (x, value), low, high = operands, attributes["edge_padding_low"], attributes["edge_padding_high"]
    if min((*low, *high), default=0) < 0:
        if any(attributes["interior_padding"]):
            raise NotSupported("a pad between elements that removes some")
        starts = tuple(max(-i, 0) for i in low)
        limits = tuple(n - max(-i, 0) for n, i in zip(x.shape, high, strict=True))
        part = tuple(b - a for a, b in zip(starts, limits, strict=True))
        if min(part) <= 0:
            raise NotSupported("a pad that leaves no element")
        x = Node("slice", (x,), part, dtype, {"start_indices": starts, "limit_indices": limits, "strides": (1,) * len(part)})
        edges = {f"edge_padding_{side}": tuple(max(i, 0) for i in sizes) for side, sizes in (("low", low), ("high", high))}
        attributes = {**attributes, **edges}
    return Node("pad", (x, value), shape, dtype, attributes)


def _window(op: ir.Operation, operands: tuple[Node, ...], shape: Shape, dtype: str) -> Node:
    """A `reduce_window` as elementwise operations on slices of the padded operand: sums of neighbours are ``x[0:4] + x[1:5]``."""
    name, window = _combination(op, dtype), REGISTRY[op.name].read(op) | geometry_of(op)
    sizes, strides, dilations = (window[a] for a in ("window_dimensions", "window_strides", "window_dilations"))
    if len(operands) != 2 or not name or math.prod(sizes) > _WINDOW or any(n != 1 for n in window["base_dilations"]):
        raise NotSupported("a window of another kind")
    x, start = operands
    low, high = zip(*window["padding"], strict=True)
    whole = tuple(n + a + b for n, a, b in zip(x.shape, low, high, strict=True))
    if whole != x.shape:
        padding = {"edge_padding_low": low, "edge_padding_high": high, "interior_padding": (0,) * len(shape)}
        x = _padding((x, start), whole, dtype, padding)
    result = Node("broadcast_in_dim", (start,), shape, dtype, {"broadcast_dimensions": ()})
    for offset in itertools.product(*map(range, sizes)):
        starts = tuple(i * n for i, n in zip(offset, dilations, strict=True))
        limits = tuple(a + (n - 1) * step + 1 for a, n, step in zip(starts, shape, strides, strict=True))
        part = Node("slice", (x,), shape, dtype, {"start_indices": starts, "limit_indices": limits, "strides": strides})
        result = Node(name, (result, part), shape, dtype)
    return result


def _wanted(op: ir.Operation, dimension: int) -> int:
    """The number of first elements along the sorted `dimension` that are read; all unless each reader is a slice from 0 on."""
    wanted = 0
    for result in op.results:
        for use in result.uses:
            reader = use.owner.operation
            if reader.name != "stablehlo.slice" or reader.attributes["start_indices"][dimension]:
                return shape_and_dtype(result.type)[0][dimension]
            wanted = max(wanted, reader.attributes["limit_indices"][dimension])
    return wanted


def _combination(op: ir.Operation, dtype: str) -> str:
    """The operation that combines the elements of a reduction or scatter, such as "add"; "" if an update replaces the element."""
    block = op.regions[0].blocks[0]
    *body, end = (o.operation for o in block.operations)
    if not body and end.operands[0] == block.arguments[1]:
        return ""
    name = body[0].name.removeprefix("stablehlo.") if len(body) == 1 else ""
    if name not in REDUCERS or {*body[0].operands} != {*block.arguments}:
        raise NotSupported(f"{op.name} of another kind")
    if not ELEMENTWISE[name].supports(dtype):
        raise NotSupported(f"{op.name} by {name} of {dtype}")
    return name


def _reduction(op: ir.Operation, operands: tuple[Node, ...], shape: Shape, dtype: str) -> Node:
    """The node of a reduction of one operand by one operation. Raises NotSupported for other reductions."""
    name = _combination(op, dtype)
    if len(operands) != 2 or not name:
        raise NotSupported("a reduction of another kind")
    return Node("reduce", operands, shape, dtype, {"dimensions": tuple(op.attributes["dimensions"]), "combine": name})
