"""Ownership: the operations that read a buffer, and their order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from iree.compiler import ir

from nabla_mlir.dialects.regions import made_by, within
from nabla_mlir.dialects.stablehlo import BARRIERS
from nabla_mlir.table.regions import reads_of
from nabla_mlir.table.traits import is_view


def root_of(value: ir.Value) -> ir.Value:
    """The value that owns the memory of `value`: the source of its chain of views, or the value itself if it is not a view."""
    maker = made_by(value)
    while maker is not None and _is_view(maker):
        value = maker.operands[list(maker.results).index(value)]
        maker = made_by(value)
    return value


def uses_of(root: ir.Value) -> list[ir.OpOperand]:
    """The uses of a value and of its views, by operations that do not make views."""
    uses, work = [], [root]
    while work:
        for use in work.pop().uses:
            user = use.owner.operation
            if _is_view(user):
                work.append(user.results[use.operand_number])
            else:
                uses.append(use)
    return uses


def come_before(users: Iterable[ir.Operation], op: ir.Operation, makers: Iterable[ir.Operation]) -> bool:
    """True if all users have ended when `op` writes, because `op` is computed from each user, or from an operation around it.

    Args:
      users: the operations that read a buffer.
      op: the operation that writes to the buffer; if it is a user itself, it does not count.
      makers: the operations from which `op` is computed: `makers_behind(op)`.
    """
    remaining = {within(op.block, user) for user in users if user != op}
    if op in remaining:
        return False
    for maker in makers if remaining else ():
        remaining.discard(maker)
        if not remaining:
            break
    return not remaining


def makers_behind(op: ir.Operation) -> Iterator[ir.Operation]:
    """The operations from which the operands of `op` are computed, directly or through others, without duplicates."""
    seen: set[ir.Operation] = set()
    work = list(op.operands)
    while work:
        maker = made_by(work.pop())
        if maker is None or maker in seen:
            continue
        seen.add(maker)
        yield maker
        work += reads_of(maker)


def _is_view(op: ir.Operation) -> bool:
    """True if the result of an operation is in the memory of its operand."""
    return is_view(op) or op.name in BARRIERS
