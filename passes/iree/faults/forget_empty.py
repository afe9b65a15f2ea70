"""Values without elements."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.dialects.builder import full
from nabla_mlir.dialects.regions import blocks_of, nested
from nabla_mlir.dialects.types import is_static_tensor, shape_and_dtype
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.dce import erase_dead_in, is_unused
from nabla_mlir.table.traits import CONSTANT


@register
@dataclass(frozen=True)
class ForgetEmptyPass(Pass):
    """Replace each value without elements by a constant.

    All such values are equal. With two loops that carry one, IREE 3.13 does not terminate ("maximum iteration count exceeded
    in fixed point pipeline").

    Example: tests/filecheck/passes/forget_empty.mlir
    """

    name: ClassVar[str] = "nabla-forget-empty"

    def run(self, module: ir.Operation) -> None:
        """Replaces values without elements by constants, in place."""
        for block in blocks_of(module):
            _forget(block)


def _forget(block: ir.Block) -> None:
    """Replaces the values without elements in a block by constants at its beginning."""
    ops = [inner for op in block.operations for inner in (*nested(op.operation), op.operation)]
    results = [result for op in ops if op.name != CONSTANT for result in op.results]
    carried = [x for op in ops for region in op.regions for inner in region.blocks for x in inner.arguments]
    empty = [x for x in (*block.arguments, *carried, *results) if _is_empty(x) and not is_unused(x)]
    if not empty:
        return
    constants: dict[ir.Type, ir.Value] = {}
    with ir.InsertionPoint.at_block_begin(block), block.owner.location:
        for type in dict.fromkeys(x.type for x in empty):
            shape, dtype = shape_and_dtype(type)
            constants[type] = full(0, shape, dtype).value
    for x in empty:
        x.replace_all_uses_with(constants[x.type])
    erase_dead_in(block)


def _is_empty(x: ir.Value) -> bool:
    """True for a static value with no elements."""
    return is_static_tensor(x.type) and math.prod(x.type.shape) == 0
