"""The scalar bodies of reductions, scatters and sorts, applied to whole tensors."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.builder import Val
from nabla_mlir.dialects.regions import last_of
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
    """The operations of a scalar body on tensors of one shape; `is_elementwise` must hold.

    With `only`, that one result alone is made; arguments that it does not depend on may be None.
    """
    block = region.blocks[0]
    outputs = list(last_of(region.blocks[0]).operands)
    outputs = outputs if only is None else [outputs[only]]
    demand = _needed(outputs)
    shape = next(a for a in arguments if a is not None)
    pairs = zip(block.arguments, arguments, strict=True)
    values: dict[ir.Value, Val] = {inner: outer for inner, outer in pairs if outer is not None}
    for op in _body(region):
        if not any(r in demand for r in op.results):
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
    """The values and all that they are computed from."""
    ops, pending = set(), list(values)
    while pending:
        value = pending.pop()
        if value not in ops:
            ops.add(value)
            pending += [] if isinstance(value.owner, ir.Block) else value.owner.operands
    return ops


def _body(region: ir.Region) -> list[ir.Operation]:
    return [op.operation for op in region.blocks[0].operations][:-1]


def _outer(values: dict[ir.Value, Val], value: ir.Value, shape: Val) -> Val:
    """The tensor for a scalar; one captured from outside the body is repeated."""
    if value not in values:
        values[value] = b.broadcast(Val(value), shape.shape, [])
    return values[value]


def single_operation(region: ir.Region) -> str | None:
    """The name of the one binary operation that a body of two arguments consists of, if it does."""
    block = region.blocks[0]
    ops = _body(region)
    if len(ops) != 1 or len(ops[0].operands) != 2:
        return None
    if {*ops[0].operands} != {*block.arguments} or len(ops[0].results) != 1:
        return None
    outputs = block.operations[1].operands
    return ops[0].name if len(outputs) == 1 and outputs[0] == ops[0].results[0] else None


def depends_only_on(region: ir.Region, result: int, arguments: Sequence[int]) -> bool:
    """True if one result of a body is a function of the given arguments alone."""
    block = region.blocks[0]
    inputs = {block.arguments[i] for i in arguments}
    demand = _needed([last_of(region.blocks[0]).operands[result]])
    return all(a in inputs or a not in demand for a in block.arguments)
