"""The memory of a call, computed from IREE's host program: its allocations and deallocations, in order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from nabla_mlir.compiling.internals.disassembly import Block, Instruction, functions

_VISITS = 3  # of a block: in the second iteration a loop still holds values of the first, and later iterations hold no more
# The indices of the operands with the allocated size, and with the freed buffer.
_ALLOCATED = {"@hal.device.queue.alloca": 7, "@hal.allocator.allocate": 4}
_FREED = {"@hal.device.queue.dealloca": 4}
_LASTING = "@hal.allocator.allocate"


def allocated_at_once(disassembly: str) -> dict[str, int]:
    """The peak memory of a call of each function, in bytes, from a program as `iree-dump-module` prints it; results are included.

    Functions whose sizes depend on values are left out. A buffer is live until the program frees it, or no register holds it. All
    branches are followed, and loops are followed twice.

    Example:
      >>> allocated_at_once('''vm.func @f(%r0: !vm.ref<?>) -> () {
      ... ^bb0:
      ...   %i0:1 = vm.const.i64 4096  // 0x0000000000001000
      ...   %r1 = vm.call @hal.device.queue.alloca(%r0, %i2, %r3, %r4, %i2, %i5, %i5, %i0, %i2)
      ...   %r2 = vm.call @hal.device.queue.alloca(%r0, %i2, %r3, %r4, %i2, %i5, %i5, %i0, %i2)
      ...   vm.call @hal.device.queue.dealloca(%r0, %i2, %r3, %r4, %R1, %i2)
      ...   %r1 = vm.call @hal.device.queue.alloca(%r0, %i2, %r3, %r4, %i2, %i5, %i5, %i0, %i2)
      ...   vm.return %R2''')
      {'f': 8192}
    """
    program = functions(disassembly)
    peaks = {name: _peak_of(name, program) for name in program}
    return {name: bytes for name, bytes in peaks.items() if bytes is not None}


@dataclass
class _State:
    """The state at a point of a function: the buffers in each register, known numbers, and freed buffers.

    A buffer of an allocator stays live until no register holds it, even after a deallocation on a queue.
    """

    held: dict[str, frozenset[int]] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    freed: frozenset[int] = frozenset()
    lasting: frozenset[int] = frozenset()

    def copy(self) -> _State:
        """An independent copy of the state."""
        return _State(dict(self.held), dict(self.numbers), self.freed, self.lasting)

    def alive(self) -> frozenset[int]:
        """The numbers of the buffers that some register holds, and that are not freed."""
        return frozenset().union(*self.held.values()) - self.freed

    def move(self, moves: Sequence[tuple[str, str]]) -> None:
        """Copies registers as a branch does, all at the same time: each pair has a source and a target.

        A source in capitals, as in ("R1", "r4"), gives its buffer away.
        """
        before = self.copy()
        for source, target in moves:
            self.held.pop(target, None)
            self.numbers.pop(target, None)
            if (buffers := before.held.get(source.lower())) is not None:
                self.held[target] = buffers
            if (number := before.numbers.get(source)) is not None:
                self.numbers[target] = number
        targets = {target for _, target in moves}
        for source, _ in moves:
            if source[0] == "R" and source.lower() not in targets:
                self.held.pop(source.lower(), None)


def _peak_of(name: str, program: Mapping[str, Mapping[str, Block]]) -> int | None:
    """The largest number of bytes that a function and the functions that it calls hold at once; None if a size is not known.

    `program` has the blocks of each function, by name and label. The walk follows all branches, but visits each block at most
    `_VISITS` times, which is enough for loops.
    """
    blocks, sizes, peak = program[name], list[int](), 0
    visits = dict.fromkeys(blocks, 0)
    work = [("bb0", _State())]
    while work:
        label, state = work.pop()
        if visits[label] == _VISITS:
            continue
        visits[label] += 1
        for instruction in blocks[label]:
            target = re.search(r"@[\w.:$]+", instruction.operands) if "vm.call" in instruction.operation else None
            callee = target[0] if target else ""
            size = 0
            if callee in _ALLOCATED:
                number = state.numbers.get(_operands(instruction)[_ALLOCATED[callee]])
                if number is None:
                    return None
                size = number
            elif callee[1:] in program and callee[1:] != name:  # a call of itself is not followed
                inner = _peak_of(callee[1:], program)
                if inner is None:
                    return None
                peak = max(peak, _bytes(state, sizes) + inner)
            _update_state(state, instruction, callee, len(sizes) if size else None)
            if size:
                sizes.append(size)
                peak = max(peak, _bytes(state, sizes))
            work += _branches(state, instruction)
    return peak


def _bytes(state: _State, sizes: Sequence[int]) -> int:
    """The sum of the sizes of the live buffers; `sizes` has the size of each buffer by its number."""
    return sum(sizes[i] for i in state.alive())


def _update_state(state: _State, instruction: Instruction, callee: str, buffer: int | None) -> None:
    """Updates the state by an instruction other than a branch.

    `callee` is the function that it calls, with @, or "". `buffer` is the number of the buffer that it allocates; None if it
    allocates none.
    """
    results, operation, operands = instruction
    if callee in _FREED:
        state.freed |= state.held.get(_operands(instruction)[_FREED[callee]].lower(), frozenset()) - state.lasting
    if buffer is not None and callee == _LASTING:
        state.lasting |= {buffer}
    registers = re.findall(r"%([rR]\d+)", instruction.own)
    operand_buffers = frozenset().union(*(state.held.get(r.lower(), frozenset()) for r in registers))
    buffers = operand_buffers if buffer is None else frozenset({buffer})
    for register in registers:
        if register[0] == "R" or operation == "vm.discard.refs":
            state.held.pop(register.lower(), None)
    if slot := re.search(r"\.refs\[\d+\]", operands) if operation == "vm.global.store.ref" else None:
        state.held[slot[0]] = buffers
    for register in re.findall(r"%(r\d+)", results):
        state.held[register] = buffers
    for register in re.findall(r"%(i\d+)", results):
        state.numbers.pop(register, None)
        if (number := _number(state, operation, operands)) is not None:
            state.numbers[register] = number


def _number(state: _State, operation: str, operands: str) -> int | None:
    """The integer that an instruction computes; None if it is not known.

    Only constants and their conversions are followed, because sizes are no more than that.
    """
    if re.fullmatch(r"vm\.const\.i\d+\.zero", operation):
        return 0
    if re.fullmatch(r"vm\.const\.i\d+", operation):
        return int(operands.split()[0])
    if operation.startswith("vm.ext.i32.i64"):
        return state.numbers.get(operands.split()[0].lstrip("%"))
    return None


def _operands(instruction: Instruction) -> list[str]:
    """The registers that a call reads, without the percent sign: "@f(%r0, %i2)" -> ["r0", "i2"]."""
    return [word.strip(" %") for word in instruction.operands.partition("(")[2].partition(")")[0].split(",")]


def _branches(state: _State, instruction: Instruction) -> Iterator[tuple[str, _State]]:
    """Yields the labels of the blocks to which an instruction branches, each with the state in which it begins."""
    for target, moves in reversed(instruction.branches):
        after = state.copy()
        after.move([(x.lstrip("%"), y.lstrip("%")) for x, y in moves])
        yield target, after
