"""Buffers that are updated in place: each is written only when no other operation needs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.dialects.regions import last_of, made_by, nested_in_functions, stands_in
from nabla_mlir.dialects.types import is_scalar_integer
from nabla_mlir.passes.base import register
from nabla_mlir.passes.iree.driver import TargetPass
from nabla_mlir.passes.iree.faults.aliasing import computed, copy_numbers, is_constant
from nabla_mlir.passes.iree.faults.buffers import is_shared_behind_barrier
from nabla_mlir.passes.iree.faults.equal_values import EqualValues
from nabla_mlir.passes.iree.faults.ownership import come_before, makers_behind, root_of, uses_of
from nabla_mlir.passes.iree.internals.buffers import share_memory
from nabla_mlir.table.traits import is_choice, updated

_ENDS = ("stablehlo.return", "func.return")

Edge = tuple[ir.Operation, int]  # an operation, and the index of an operand that it writes, or passes on to be written


@register
@dataclass(frozen=True)
class UpdateInPlacePass(TargetPass):
    """Make loops update their carries in place, and copy values that neither the loop nor the function owns.

    IREE 3.13 loses the fact on which device the arguments of a loop's body are, and copies each of them in every iteration to
    the device where it already is. So writing one row costs as much as the whole array. If IREE is told that the device reaches
    its own memory, it omits these copies. The copies also prevented IREE from writing to an array that is still needed: outside
    the loop, as another carry, or in the next iteration of an outer loop. (An array from outside a loop that is updated inside it
    was overwritten even with the copies: a wrong number, silently.)

    Ownership, by which the pass decides where a copy is needed:

    - A loop owns its initial value if that is computed for it alone. An iteration owns its result if that is returned once.
    - An operation owns a value that is computed in its own block, if only operations from which it is itself computed read it.
      IREE 3.13 searches for operations that may run at the same time, forgets that a buffer must be read before it is written,
      and writes first (ScheduleConcurrency.cpp: `t = x + y; return t.at[0].set(9.0), c, t` for a constant c).
    - Values that IREE merges are one buffer (`EqualValues`). An argument of the function is the caller's (nabla-keep-arguments).
    - Two carries never start from one value: IREE may pin no reference to a buffer that is passed twice
      (nabla_mlir/compiling/internals/references.py).

    For Vulkan, IREE still copies in loops, because nested loops would free buffers twice there.

    Example: tests/filecheck/passes/update_in_place.mlir
    """

    name: ClassVar[str] = "nabla-update-in-place"

    def run(self, module: ir.Operation) -> None:
        """Copies each updated value that its operation does not own."""
        work: list[Edge] = [(op, i) for op in nested_in_functions(module) for i in updated(op)]
        seen: set[ir.Value] = set()
        numbers, equals = copy_numbers(module), EqualValues()
        while work:
            op, i = work.pop()
            value = op.operands[i]
            if not _is_owned(op, i, equals):
                with ir.InsertionPoint(op), op.location:
                    op.operands[i] = computed(value, next(numbers))
            elif value not in seen:
                seen.add(value)
                work += _sources(value)
        # Carries and results that would share one buffer are computed separately, too.
        owners = [op for op in nested_in_functions(module) if op.name == "stablehlo.while" or is_choice(op)]
        loops = [op for op in owners if op.name == "stablehlo.while"]
        for op, i in [edge for loop in loops for edge in _repeated_carries(loop)] + [e for o in owners for e in _shared_results(o)]:
            with ir.InsertionPoint(op), op.location:
                op.operands[i] = computed(op.operands[i], next(numbers))
        if loops and self.codegen.updates_in_loops:
            share_memory(module)


def _is_owned(op: ir.Operation, i: int, equals: EqualValues) -> bool:
    """True if `op` may write to the buffer of operand `i`, or pass it on to operations that write; `equals` finds equal values."""
    root = root_of(op.operands[i])
    maker = made_by(root)
    if (root.owner if maker is None else maker.block) != op.block:
        return False
    # A loop or a return does not write, but passes the buffer on to operations that may.
    hands_over = op.name == "stablehlo.while" or op.name in _ENDS
    if maker is not None and (is_choice(maker) or (hands_over and is_constant(root))):
        return False
    equal = [*equals.of(root)]
    if not all(stands_in(op.block, made_by(value)) for value in equal):
        return False  # IREE moves loop invariants out of loops
    uses = [use for value in (root, *equal) for use in uses_of(value)]
    others = [u.owner.operation for u in uses if (u.owner.operation, u.operand_number) != (op, i)]
    if op.name == "stablehlo.while":
        is_made = maker is not None or root.owner.owner.name == "stablehlo.while"
        return is_made and op not in others and come_before(others, op, makers_behind(op))
    if hands_over:
        return all(user.block == op.block and _is_plain(user) for user in others)
    return not is_shared_behind_barrier(op.operands[i]) and (not others or come_before(others, op, makers_behind(op)))


def _repeated_carries(loop: ir.Operation) -> list[Edge]:
    """The operands that give two carries of a loop the same initial value, or the same next value, without the first of them."""
    edges = []
    for op in (loop, _end(loop)):
        seen: set[ir.Value] = set()
        for i, value in enumerate(op.operands):
            root = root_of(value)
            if is_scalar_integer(value.type):  # it may be a number on the host, not a buffer
                continue
            if root in seen:
                edges.append((op, i))
            elif not is_constant(root):
                seen.add(root)
    return edges


def _shared_results(owner: ir.Operation) -> list[Edge]:
    """The returned values of a branch or a loop that it must not pass on, as operands of its terminators.

    These are constants and values from outside that the branch returns twice, or that are also read elsewhere; for a loop, all
    values from outside.
    """
    edges = []
    is_loop = owner.name == "stablehlo.while"
    ends = [last_of(region.blocks[0]) for region in owner.regions][1 if is_loop else 0 :]
    for end in ends:
        seen: set[ir.Value] = set()
        for i, value in enumerate(end.operands):
            root = root_of(value)
            maker = made_by(root)
            if is_scalar_integer(value.type):  # it may be a number on the host, not a buffer
                continue
            if is_constant(root):
                is_shared = True
            elif (root.owner if maker is None else maker.block) == end.block:
                continue
            else:
                is_argument = maker is None and root.owner.owner.name == "func.func"
                others = any(use.owner.operation not in ends for use in uses_of(root))
                is_shared = is_loop or is_argument or others or root in seen
            if is_shared:
                edges.append((end, i))
            seen.add(root)
    return edges


def _is_plain(op: ir.Operation) -> bool:
    """True if an operation has no regions and does not end a block."""
    return op.name not in _ENDS and not len(op.regions)


def _sources(value: ir.Value) -> list[Edge]:
    """The operands that become this value, as pairs of operation and index: the initial value of a loop, and its next values."""
    root = root_of(value)
    maker = made_by(root)
    if maker is None:
        loop, carries = root.owner.owner.operation, root.owner.arguments
    else:
        loop, carries = maker, maker.results
    if loop.name != "stablehlo.while":
        return []
    i = list(carries).index(root)
    return [(loop, i), (_end(loop), i)]


def _end(loop: ir.Operation) -> ir.Operation:
    """The terminator of the body of a loop."""
    return last_of(loop.regions[1].blocks[0])
