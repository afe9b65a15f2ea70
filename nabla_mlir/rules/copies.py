"""Detection of copies of whole arguments that a function makes only to write to a part of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from iree.compiler import ir

from nabla_mlir.base.errors import SourceRange
from nabla_mlir.dialects.arguments import is_writable
from nabla_mlir.dialects.locations import source_of
from nabla_mlir.dialects.regions import made_by, nested
from nabla_mlir.table.traits import bytes_of, updated

_WRITTEN = {
    "stablehlo.dynamic_update_slice": 1,
    "stablehlo.scatter": -1,
}  # by operation: the index of the operand with the written elements
_MANY = 4  # A copy is reported if it has at least this many bytes for each byte that is written.


@dataclass(frozen=True)
class Copy:
    """A copy of an argument that the caller still owns; the function makes it to write to a part of the argument.

    Attributes:
      argument: the index of the argument.
      bytes: the size of the copy.
      written: the bytes that one execution of the operation writes.
      where: the user's line that writes.
    """

    argument: int
    bytes: int
    written: int
    where: SourceRange | None

    def __str__(self) -> str:
        line = "" if self.where is None else f" ({self.where.filename}:{self.where.line})"
        what = f"copies {self.bytes:,} bytes of argument {self.argument} to write {self.written:,}"
        return f"{what}{line}; jit's donate_argnums saves that"


def overwritten(value: ir.Value) -> ir.BlockArgument | None:
    """The block argument that `value` is a changed version of; None if there is no such argument.

    Only writes to parts, reshapes and loops may lie between the argument and `value`. `value` may also be the argument itself.
    """
    maker = made_by(value)
    while maker is not None:
        position = list(maker.results).index(value)
        if maker.name not in ("stablehlo.reshape", "stablehlo.while") and position not in updated(maker):
            return None
        value = maker.operands[position]
        maker = made_by(value)
    return ir.BlockArgument(value)


def copies_of(func: ir.Operation) -> Iterator[Copy]:
    """The copies in a `func.func` of plain StableHLO that would not be made if the caller donated the argument."""
    for op in nested(func):
        if op.name not in _WRITTEN:
            continue
        argument = overwritten(op.operands[0])
        if argument is None or argument.owner.owner.operation != func or is_writable(func, argument.arg_number):
            continue
        size, part = bytes_of(op.operands[0]), bytes_of(op.operands[_WRITTEN[op.name]])
        if size >= _MANY * part and _is_read_last(op):
            yield Copy(argument.arg_number, size, part, source_of(op.location))


def _is_read_last(op: ir.Operation) -> bool:
    """True if no operation after `op` reads an earlier version of the array that `op` writes to.

    If one does, the copy is needed even with a donated argument.
    """
    value = op.operands[0]
    while True:
        readers = [use.owner.operation for use in value.uses]
        if any(r != op and (r.block != op.block or op.is_before_in_block(r)) for r in readers):
            return False
        maker = made_by(value)
        if maker is None:
            return True
        op, value = maker, maker.operands[list(maker.results).index(value)]
