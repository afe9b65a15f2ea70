"""The operations of a block as items of a sequence: two are equal if they do the same with other operands."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from iree.compiler import ir

from nabla_mlir.dialects.types import is_static_tensor
from nabla_mlir.passes.dce import is_pure
from nabla_mlir.table.traits import CONSTANT

SLICE = "stablehlo.slice"
_STARTS = ("start_indices", "limit_indices")


class Items:
    """The operations of a block in their order, without constants, and the values that they compute.

    Attributes:
      ops: the operations.
      forms: a number for each operation; those with equal numbers differ in the values that they read, and slices also in their
        start indices.
      positions: for each result, the index of its operation, and its index among the results of that operation.
    """

    def __init__(self, operations: Sequence[ir.Operation]) -> None:
        """Numbers the operations and their forms; operations of one form get one number."""
        numbers: dict[Hashable, int] = {}
        self.ops = [op for op in operations if op.name != CONSTANT]
        self.forms = [numbers.setdefault(_form(op), len(numbers)) for op in self.ops]
        self.positions = {r: (i, j) for i, op in enumerate(self.ops) for j, r in enumerate(op.results)}
        self._is_erased = [False] * len(self.ops)

    def is_whole(self, start: int, length: int) -> bool:
        """True if no operation of a stretch was erased."""
        return not any(self._is_erased[start : start + length])

    def erase(self, start: int, length: int) -> None:
        """Erases a stretch of operations whose results nothing else reads."""
        for i in reversed(range(start, start + length)):
            # A new value may get the address of an erased one, and would then be found under it.
            for result in self.ops[i].results:
                del self.positions[result]
            self.ops[i].erase()
            self._is_erased[i] = True


def _form(op: ir.Operation) -> Hashable:
    """A key that is equal for operations that differ only in operands, and unique for an operation that is not rolled."""
    if not is_pure(op) or not all(is_static_tensor(v.type) for v in (*op.operands, *op.results)):
        return object()
    attributes = _attributes(op, _STARTS if op.name == SLICE else ())
    types = tuple(v.type for v in op.operands), tuple(v.type for v in op.results)
    return op.name, attributes, types, _regions(op, {}) if len(op.regions) else ()


def _attributes(op: ir.Operation, without: Sequence[str] = ()) -> Hashable:
    """The attributes of an operation as a key, except those named in `without`."""
    try:
        return tuple((name, op.attributes[name]) for name in op.attributes if name not in without)
    except TypeError:  # the bindings cannot return every attribute
        return str(op.attributes)


def _regions(op: ir.Operation, numbers: dict[ir.Value, int]) -> Hashable:
    """The regions of an operation as a key, in which numbers stand for values.

    Args:
      op: the operation.
      numbers: the numbers of the values seen so far; the function adds the values in the regions, and those that they capture.
    """
    parts: list[Hashable] = []
    for region in op.regions:
        for block in region.blocks:
            for argument in block.arguments:
                numbers[argument] = len(numbers)
            parts.append(tuple(a.type for a in block.arguments))
            for inner in (each.operation for each in block.operations):
                reads = tuple((numbers.setdefault(v, len(numbers)), v.type) for v in inner.operands)
                nested = _regions(inner, numbers) if len(inner.regions) else ()
                parts.append((inner.name, _attributes(inner), reads, nested, tuple(r.type for r in inner.results)))
                for result in inner.results:
                    numbers[result] = len(numbers)
    return tuple(parts)
