"""Parts of arrays that IREE must not compute together with what reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.dialects.regions import made_by, nested_in_functions
from nabla_mlir.dialects.stablehlo import SLICES, I64Array
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.iree.faults.separate_uses import store_before_uses
from nabla_mlir.table.traits import is_view, updated

_SORTS = ("stablehlo.scatter", "stablehlo.sort")
_JOINS = ("stablehlo.pad", "stablehlo.dynamic_update_slice")


@register
@dataclass(frozen=True)
class SeparatePartsPass(Pass):
    """Put a barrier between a part of an array and what IREE 3.13 cannot compute together with it.

    In the dispatch of a scatter or a sort it has slices, and what puts the result into a larger array, and what is
    between them on the stack: "exceeded stack allocation limit of 32768 bytes", or "write affecting operations on global
    resources are restricted to workgroup distributed contexts". A reverse, a gather or a running window of
    elements that do not lie side by side has no vector code: "builtin.unrealized_conversion_cast".
    Example: tests/filecheck/passes/separate_parts.mlir
    """

    name: ClassVar = "nabla-separate-parts"

    def run(self, module: ir.Operation) -> None:
        """Rewrites `module` in place."""
        for op in nested_in_functions(module):
            for part in _parts(op):
                store_before_uses(part, part.results[0])
            if op.name in _SORTS and any(use.owner.name in _JOINS for result in op.results for use in result.uses):
                for result in op.results:
                    store_before_uses(op, result)


def _parts(op: ir.Operation) -> list[ir.Operation]:
    """The slices that must not be in the dispatch of an operation."""
    if op.name in _SORTS:
        return [part for i in updated(op) if (part := _cut(op.operands[i])) is not None]
    if op.name in ("stablehlo.reverse", "stablehlo.gather", "stablehlo.reduce_window"):
        part = _cut(op.operands[0])
        return [part] if part is not None and _is_strided(part) else []
    return []


def _cut(value: ir.Value) -> ir.Operation | None:
    """The slice that the value is a view of, if it is one."""
    maker = made_by(value)
    while maker is not None and (is_view(maker) or maker.name == "stablehlo.transpose"):
        maker = made_by(maker.operands[0])
    return maker if maker is not None and maker.name in SLICES else None


def _is_strided(part: ir.Operation) -> bool:
    """Whether neighbours in the slice are none in the array."""
    whole, cut = part.operands[0].type.shape, part.results[0].type.shape
    strides = I64Array.decode(part.attributes["strides"]) if "strides" in part.attributes else (1,) * len(whole)
    last = [(n == 1 or stride > 1) for n, stride, size in zip(cut, strides, whole, strict=True) if size > 1][-1:]
    return any(last)
