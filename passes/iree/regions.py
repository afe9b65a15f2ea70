"""Scalar bodies (the regions of reductions, scatters and sorts), applied to whole tensors."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.builder import Val
from nabla_mlir.dialects.regions import last_of, made_by
from nabla_mlir.passes.iree.pattern import attributes_of
from nabla_mlir.table import traits


def is_elementwise(region: ir.Region) -> bool:
    """True if every operation of a body with scalar arguments maps scalars to scalars."""
    for op in _body(region):
        maps_scalars = op.name == traits.CONSTANT or traits.is_elementwise(op) or traits.is_view(op)
        if not maps_scalars or not all(r.type.rank == 0 for r in op.results):
            return False
    return True


def apply_elementwise(region: ir.Region, arguments: Sequence[Val | None], only: int | None = None) -> list[Val]:
    """The results of a scalar body, for which `is_elementwise` holds, applied to tensors of one shape.

    With `only`, the list has only the result with this index; arguments on which it does not depend may be None.
    """
    outputs = list(last_of(region.blocks[0]).operands)
    return _values_of(region, arguments, outputs if only is None else [outputs[only]])


def key_of(comparator: ir.Region, operands: Sequence[Val]) -> tuple[Val, str] | None:
    """The key of a sort and its direction (LT or GT), if the comparator compares a function of one operand for both elements.

    The key is this function of the operand. The result is None for other comparators, also for floats compared as numbers: with NaN
    they are not a total order.
    """
    if not is_elementwise(comparator):
        return None
    arguments, (output,) = list(comparator.blocks[0].arguments), last_of(comparator.blocks[0]).operands
    compare = made_by(output)
    if compare is None or compare.name != "stablehlo.compare":
        return None
    direction = hlo.enum("comparison_direction").decode(compare.attributes["comparison_direction"])
    kind = hlo.enum("comparison_type").decode(compare.attributes["compare_type"]) if "compare_type" in compare.attributes else ""
    x, y = compare.operands
    is_total = kind == "TOTALORDER" or Val(x).dtype.kind in "biu"
    for i, operand in enumerate(operands):
        first, second = arguments[2 * i : 2 * i + 2]
        if is_total and direction in ("LT", "GT") and _is_alike(x, y, {first: second}):
            positions: list[Val | None] = [operand if a == first else None for a in arguments]
            return _values_of(comparator, positions, [x])[0], direction
    return None


def _is_alike(x: ir.Value, y: ir.Value, counterparts: dict[ir.Value, ir.Value]) -> bool:
    """True if x becomes y when each argument of the body (a key of `counterparts`) is replaced by its counterpart."""
    if x in counterparts:
        return y == counterparts[x]
    left, right = made_by(x), made_by(y)
    if left is None or right is None or left.name != right.name or attributes_of(left) != attributes_of(right):
        return False
    if len(left.results) != 1 or len(left.operands) != len(right.operands):
        return False
    return all(_is_alike(a, b, counterparts) for a, b in zip(left.operands, right.operands, strict=True))


def _values_of(region: ir.Region, arguments: Sequence[Val | None], outputs: Sequence[ir.Value]) -> list[Val]:
    """The tensors that the values `outputs` of a body become for these arguments; only operations that they need are copied.

    An argument is None if no output depends on it.
    """
    block = region.blocks[0]
    needed = _needed(outputs)
    shape = next(a for a in arguments if a is not None)
    pairs = zip(block.arguments, arguments, strict=True)
    values: dict[ir.Value, Val] = {inner: outer for inner, outer in pairs if outer is not None}
    for op in _body(region):
        if not any(r in needed for r in op.results):
            continue
        if op.name == "stablehlo.constant":
            result = Val(op.results[0])
            number = hlo.constant_splat(op)
            assert number is not None  # a scalar
            values[op.results[0]] = b.splat(number, shape, result.dtype)
            continue
        operands = [_outer(values, v, shape) for v in op.operands]
        types = [b.like(shape, Val(r).dtype) for r in op.results]
        clone = b.make(op.name, operands, types, attributes_of(op))
        values.update(zip(op.results, map(Val, clone.results), strict=True))
    return [_outer(values, v, shape) for v in outputs]


def _needed(values: Sequence[ir.Value]) -> set[ir.Value]:
    """The values and all values from which they are computed."""
    ops, pending = set(), list(values)
    while pending:
        value = pending.pop()
        if value not in ops:
            ops.add(value)
            pending += [] if isinstance(value.owner, ir.Block) else value.owner.operands
    return ops


def _body(region: ir.Region) -> list[ir.Operation]:
    """The operations of a body without its terminator."""
    return [op.operation for op in region.blocks[0].operations][:-1]


def _outer(values: dict[ir.Value, Val], value: ir.Value, shape: Val) -> Val:
    """The tensor in `values` for a scalar of a body; a captured scalar is broadcast to the shape of `shape`."""
    if value not in values:
        values[value] = b.broadcast(Val(value), shape.shape, [])
    return values[value]


def single_operation(region: ir.Region) -> str | None:
    """The name of the only operation of a body with two arguments, if it is binary; else None."""
    block = region.blocks[0]
    ops = _body(region)
    if len(ops) != 1 or len(ops[0].operands) != 2:
        return None
    if {*ops[0].operands} != {*block.arguments} or len(ops[0].results) != 1:
        return None
    outputs = block.operations[1].operands
    return ops[0].name if len(outputs) == 1 and outputs[0] == ops[0].results[0] else None


def depends_only_on(region: ir.Region, result: int, arguments: Sequence[int]) -> bool:
    """True if the result number `result` of a body depends on no arguments other than those with the numbers `arguments`."""
    block = region.blocks[0]
    inputs = {block.arguments[i] for i in arguments}
    needed = _needed([last_of(region.blocks[0]).operands[result]])
    return all(a in inputs or a not in needed for a in block.arguments)
