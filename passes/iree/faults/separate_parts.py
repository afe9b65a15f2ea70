"""Parts of arrays that IREE must not compute in one dispatch with their readers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.dialects.regions import made_by, nested_in_functions
from nabla_mlir.dialects.stablehlo import SLICES, I64Array
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.iree.faults.buffers import STACK, bytes_of
from nabla_mlir.passes.iree.faults.separate_uses import store_before_uses
from nabla_mlir.table.traits import is_elementwise, is_part, is_view, updated

_SORTS = ("stablehlo.scatter", "stablehlo.sort")
_GATHERS = ("stablehlo.gather", "stablehlo.reverse")
_JOINS = ("stablehlo.pad", "stablehlo.dynamic_update_slice")


@register
@dataclass(frozen=True)
class SeparatePartsPass(Pass):
    """Put a barrier between a part of an array and an operation that IREE 3.13 cannot compute in the same dispatch.

    - In the dispatch of a scatter or a sort, IREE puts on the stack the slices that it reads, the result that is written into a
      larger array, and everything between: "exceeded stack allocation limit of 32768 bytes", or "write affecting operations on
      global resources are restricted to workgroup distributed contexts".
    - Updates of a scatter that are computed from gathered or reversed values are on the stack, too.
    - A reverse, a gather or a running window of elements that are not contiguous has no vector code:
      "builtin.unrealized_conversion_cast".

    Example: tests/filecheck/passes/separate_parts.mlir
    """

    name: ClassVar[str] = "nabla-separate-parts"

    def run(self, module: ir.Operation) -> None:
        """Adds barriers, in place: after slices, after gathered updates, and after sorts that are written into larger arrays."""
        for op in nested_in_functions(module):
            for part in _parts(op):
                store_before_uses(part, part.results[0])
            for value in _gathered_updates(op):
                store_before_uses(made_by(value), value)
            # A result that is written into a larger array would be computed on the stack (see the class).
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
    """The slice of whose result the value is a view or a transpose; None if there is none."""
    maker = _before_views(value)
    return maker if maker is not None and maker.name in SLICES else None


def _before_views(value: ir.Value) -> ir.Operation | None:
    """The operation that makes a value, or the value of which it is a view or a transpose; None for an argument."""
    maker = made_by(value)
    while maker is not None and _is_moved(maker):
        maker = made_by(maker.operands[0])
    return maker


def _is_moved(op: ir.Operation) -> bool:
    """True for a view or a transpose."""
    return is_view(op) or op.name == "stablehlo.transpose"


def _gathered_updates(op: ir.Operation) -> list[ir.Value]:
    """The updates of a scatter that are too large for the stack, and that are computed elementwise from a gather or a reverse."""
    if op.name != "stablehlo.scatter":
        return []
    updates = list(op.operands)[len(op.results) + 1 :]
    return [value for value in updates if (bytes_of(value.type) or 0) > STACK // 2 and _reads_a_gather(value)]


def _reads_a_gather(value: ir.Value) -> bool:
    """True if a value is computed from a gather by moves and elementwise operations only."""
    seen, work = {value}, [value]
    while work:
        maker = made_by(work.pop())
        if maker is None:
            continue
        if maker.name in _GATHERS:
            return True
        if _is_moved(maker) or is_elementwise(maker) or is_part(maker):
            work += [x for x in maker.operands if x not in seen]
            seen.update(maker.operands)
    return False


def _is_strided(part: ir.Operation) -> bool:
    """True if neighbours in the slice are not neighbours in the array."""
    whole, cut = part.operands[0].type.shape, part.results[0].type.shape
    strides = I64Array.decode(part.attributes["strides"]) if "strides" in part.attributes else (1,) * len(whole)
    # Only the last axis with several elements decides.
    last = [(n == 1 or stride > 1) for n, stride, size in zip(cut, strides, whole, strict=True) if size > 1][-1:]
    return any(last)
