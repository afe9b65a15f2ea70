"""One buffer for all allocations of a function outside of its loops; it is laid out after IREE's stream phase.

By default IREE 3.13 allocates on a queue. With a thread pool, a buffer of more than 64 MiB is then requested from the
system in each call, and is freed some time after the call. Loops still allocate their own values in each iteration:
these are small, and freed memory is reused. A small buffer that is live only between two loops is allocated in the same
way, unless the common buffer has room for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects.stablehlo import emit, integer_constant
from nabla_mlir.passes.iree.internals.buffers import buffers_of

_ALLOCATION, _END = "stream.resource.alloca", "stream.resource.dealloca"
_ALIGNMENT = 64  # of IREE's allocations on a CPU
_MOST = 1.25  # the buffer may be this many times larger than the program's own use
# The operations that read, write or free a buffer, or pass it to their results or to other blocks.
_USES = ("stream.cmd.execute", _END)
_PASSED = ("stream.timepoint.await", "stream.resource.subview")
_BRANCHES = ("cf.br", "cf.cond_br")

Blocks = Sequence[ir.Block]
Position = tuple[int, int]  # of an operation: the index of its block, and its index in the block


@dataclass(frozen=True)
class _Allocation:
    """An allocation that runs once per call, with its position, its uses, and the position where it is freed (None if unknown)."""

    op: ir.Operation
    size: int
    position: Position
    end: ir.Operation | None
    end_position: Position | None
    uses: frozenset[Position]


def place_in_arena(function: ir.Operation) -> int:
    """The size in bytes of one buffer that now holds the allocations which run once per call; 0 if nothing changed.

    Two values may share memory if one is freed before the other is allocated; the second then waits for the first. Nothing changes
    if the program by itself would use much less memory, because the end of many values is not known. `function` is the host
    function, in the dialect stream.
    """
    blocks = list(function.regions[0].blocks)
    allocations = _allocations(blocks)
    starts = _starts(allocations, blocks)
    total = max((start + a.size for start, a in zip(starts, allocations, strict=True) if not _is_short_lived(a)), default=0)
    # A short-lived allocation that would enlarge the buffer stays as it is.
    has_room = [start + a.size <= total for start, a in zip(starts, allocations, strict=True)]
    allocations, starts = list(compress(allocations, has_room)), list(compress(starts, has_room))
    if total > _MOST * _at_once(allocations, blocks) or not total:
        return 0
    with function.location, ir.InsertionPoint.at_block_begin(blocks[0]):
        (buffer,) = buffers_of([total])
    ends = {i: _waits(i, starts, allocations, blocks) for i in range(len(starts))}
    for i, allocation in enumerate(allocations):
        _replace(allocation, buffer, starts[i], ends[i])
    for allocation in allocations:
        if allocation.end is not None:  # who waited for the deallocation now waits for what it waited for
            allocation.end.results[0].replace_all_uses_with(allocation.end.operands[2])
            allocation.end.erase()
        allocation.op.erase()
    _return_early(blocks)
    return total


def _is_short_lived(allocation: _Allocation) -> bool:
    """True if the allocation is small, and is freed in the block in which it is made."""
    is_gone = allocation.end_position is not None and allocation.end_position[0] == allocation.position[0]
    return is_gone and allocation.size <= thresholds.PLACED_TRANSIENTS


def _return_early(blocks: Blocks) -> None:
    """Makes each return wait only for the results, and not for the deallocation of other buffers.

    Otherwise a pool thread that frees a buffer could wake the caller before another thread has released its scratch
    memory, and the next call would not find that memory free.
    """
    for block in blocks:
        operations = [op.operation for op in block.operations]
        for op in operations if operations[-1].name == "util.return" else ():
            if op.name == _END and len(op.operands) == 3:  # operand 2 is the time point for which the deallocation waits
                op.results[0].replace_all_uses_with(op.operands[2])


def _allocations(blocks: Blocks) -> list[_Allocation]:
    """The allocations of a known size in blocks that are in no loop, which run once per call.

    Those are left out whose buffer is used by an unknown operation, or may outlive the call.
    """
    once = [k for k in range(len(blocks)) if not _can_reach(blocks, blocks[k].successors, k)]
    # A position is the number of a block and the index of an operation in it.
    all_positions = {op.operation: (k, i) for k, block in enumerate(blocks) for i, op in enumerate(block.operations)}
    positions = {op: position for op, position in all_positions.items() if position[0] in once}
    found = []
    for op, position in positions.items():
        size = integer_constant(op.operands[0]) if op.name == _ALLOCATION else None
        users = _users(op.results[0]) if size is not None else None
        if size is None or users is None or not all(user in all_positions for user in users):
            continue
        ends = [user for use in op.results[0].uses if (user := use.owner.operation).name == _END and len(user.operands) == 3]
        end = ends[0] if len(ends) == 1 and ends[0] in positions else None
        uses = frozenset(all_positions[user] for user in users)
        found.append(_Allocation(op, size, position, end, None if end is None else positions[end], uses))
    return found


def _users(buffer: ir.Value) -> list[ir.Operation] | None:
    """All operations that use a buffer, also as a block argument or as the result of an operation that passes it on.

    The result is None if the buffer may outlive the call, or if a user is an unknown operation.
    """
    names, users = [buffer], list[ir.Operation]()
    for name in names:  # the list grows during the loop
        for use in name.uses:
            user = use.owner.operation
            users.append(user)
            if user.name in _BRANCHES:
                aliases = [_argument(user, use.operand_number)]
            elif user.name in _PASSED:
                aliases = [r for r in user.results if r.type == buffer.type]
            elif user.name in _USES:
                aliases = []
            else:
                return None
            names += [value for value in aliases if value not in names]
    return users


def _argument(branch: ir.Operation, number: int) -> ir.Value:
    """The block argument to which a branch passes its operand number `number`."""
    if branch.name == "cf.br":
        return branch.successors[0].arguments[number]
    _, first, _ = branch.attributes["operandSegmentSizes"]
    return branch.successors[number > first].arguments[number - 1 - first * (number > first)]


def _can_reach(blocks: Blocks, starts: Sequence[ir.Block], goal: int, without: int = -1) -> bool:
    """True if one of the blocks `starts` is block number `goal`, or leads to it without passing through block number `without`."""
    pending, seen = [blocks.index(block) for block in starts], {without}
    while pending:
        if (k := pending.pop()) not in seen:
            seen.add(k)
            pending += [blocks.index(block) for block in blocks[k].successors]
    return goal in seen - {without}


def _ends_before(first: _Allocation, then: _Allocation, blocks: Blocks) -> bool:
    """True if `first` is freed before `then` is allocated on every path through the blocks."""
    if first.end_position is None:
        return False
    (end, _), (start, _) = first.end_position, then.position  # the blocks of both
    return first.end_position < then.position if end == start else not _can_reach(blocks, blocks[:1], start, without=end)


def _at_once(allocations: Sequence[_Allocation], blocks: Blocks) -> int:
    """The largest number of bytes that these allocations would use at the same time with a buffer each."""
    return max((sum(a.size for a in allocations if _is_used_after(b.position, a, blocks)) for b in allocations), default=0)


def _is_used_after(position: Position, allocation: _Allocation, blocks: Blocks) -> bool:
    """True if an allocation is made at or before a position, and is used after it on some path; it then needs memory there."""
    k, _ = position
    after = {j for j in range(len(blocks)) if _can_reach(blocks, blocks[k].successors, j)}
    is_live = allocation.position <= position
    return is_live and any(use > position if use[0] == k else use[0] in after for use in allocation.uses)


def _starts(allocations: Sequence[_Allocation], blocks: Blocks) -> list[int]:
    """The offset of each allocation in the common buffer, in the order of the allocations.

    Larger allocations come first. Each gets the smallest offset at which it overlaps no allocation that is live at the same time.
    Small allocations that are live only between two loops come last.
    """
    starts: dict[int, int] = {}
    for i in sorted(range(len(allocations)), key=lambda i: (_is_short_lived(allocations[i]), -allocations[i].size)):
        allocation, start = allocations[i], 0
        neighbors = [
            k
            for k in starts
            if not _ends_before(allocations[k], allocation, blocks) and not _ends_before(allocation, allocations[k], blocks)
        ]
        for k in sorted(neighbors, key=lambda k: starts[k]):
            if start + allocation.size <= starts[k]:
                break
            start = max(start, _aligned(starts[k] + allocations[k].size))
        starts[i] = start
    return [starts[i] for i in range(len(allocations))]


def _aligned(size: int) -> int:
    """The size, rounded up to a multiple of 64."""
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _waits(i: int, starts: Sequence[int], allocations: Sequence[_Allocation], blocks: Blocks) -> list[ir.Value]:
    """The time points of the deallocations for which allocation number `i` must wait, because it reuses their memory.

    `starts` has the offset of each allocation in the common buffer.
    """
    allocation = allocations[i]
    return [
        a.end.results[0]
        for start, a in zip(starts, allocations, strict=True)
        if a.end is not None
        and a is not allocation
        and start < starts[i] + allocation.size
        and starts[i] < start + a.size
        and _ends_before(a, allocation, blocks)
    ]


def _replace(allocation: _Allocation, buffer: ir.Value, start: int, ends: Sequence[ir.Value]) -> None:
    """Replaces an allocation by the part of the buffer at the offset `start`, which is ready at the time points `ends`."""
    op = allocation.op
    size, *waits = op.operands
    resource, timepoint = op.results
    with op.location, ir.InsertionPoint(op):
        index = ir.IndexType.get()
        offset = emit("arith.constant", [], results=[index], attributes={"value": ir.IntegerAttr.get(index, start)}).results[0]
        part = emit("hal.buffer.subspan", [buffer, offset, size], results=[buffer.type]).results[0]
        encoding = ir.TypeAttr.get(ir.RankedTensorType.get([allocation.size], ir.IntegerType.get_signless(8)))
        attributes = {name: op.attributes[name] for name in ("affinity",) if name in op.attributes} | {"result_encoding": encoding}
        memory = emit("stream.tensor.import", [part, size], results=[resource.type], attributes=attributes).results[0]
        waits += ends
        name = "stream.timepoint.join" if waits else "stream.timepoint.immediate"
        ready = emit(name, waits, results=[timepoint.type]).results[0]
    resource.replace_all_uses_with(memory)
    timepoint.replace_all_uses_with(ready)
