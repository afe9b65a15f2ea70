"""Detection of a fault of IREE: its bytecode may drop a buffer before the last use.

If a branch passes one reference for several arguments, the compiler of IREE 3.13 lets the last of them take the
reference over, even if an earlier argument has the same register and is then empty:
https://github.com/iree-org/iree/issues/24753. The call fails with "indirect buffer reference slot 0 is out range". Two
carries that an iteration computes at once are in one buffer, and their registers are arbitrary, so no form of a loop
avoids the fault. The disassembly shows exactly if it happened; `held_references` then corrects it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from nabla_mlir.compiling.internals.disassembly import Block, Moves, functions

LOST_BUFFER = "lost_buffer"  # the fault, in the table of faults
_REGISTERS = 256  # more than a function has; all of them count as set at its start
_FENCES = slice(2, 4)  # the operands of a queue operation with its wait and signal fences


def lost_buffers(disassembly: str) -> list[str]:
    """The instructions that use a buffer whose reference an earlier one has moved, in the text of `iree-dump-module`.

    Example:
      >>> lost_buffers('''^bb0:
      ...   %r1 = vm.call @hal.device.queue.alloca(%r0, %i0, %r2, %r3)
      ...   vm.br ^bb1(%R1->%r4)
      ... ^bb1:
      ...   vm.call @hal.buffer.load(%r1)''')
      ['vm.call @hal.buffer.load(%r1)']
    """
    return [line for function in functions(disassembly).values() for line in _lost_in(function)]


def _lost_in(blocks: Mapping[str, Block]) -> list[str]:
    """The instructions of one function that use a lost buffer, as text; `blocks` has its blocks by label.

    They are found by a forward analysis of the registers that hold a reference on every path to a block.
    """
    holders = {"bb0": set(range(_REGISTERS))}  # at the start, all registers count as set
    work, uses = ["bb0"], {}
    while work:
        label = work.pop()
        now = set(holders[label])
        for number, instruction in enumerate(blocks[label]):
            (results, operation, operands), inner = instruction, instruction.own
            if operation == "vm.discard.refs":
                now -= {int(r) for r in re.findall(r"%r(\d+)", inner)}
            elif any(r not in now for r in _buffers(inner)):
                uses[label, number] = f"{f'{results} = ' if results else ''}{operation}{operands}"
            now -= {int(r) for r in re.findall(r"%R(\d+)", inner)}
            now |= {int(r) for r in re.findall(r"%r(\d+)", results)}
            for target, moves in instruction.branches:
                after = _holders_after(now, moves)
                before = holders.get(target)
                if before is None or not before <= after:
                    holders[target] = after if before is None else before & after
                    work.append(target)
    return list(uses.values())


def _holders_after(holders: set[int], moves: Moves) -> set[int]:
    """The numbers of the registers that hold a reference after the moves of a branch, from those that hold one before."""
    after = set(holders)
    for source, target in moves:
        if source[1] == "i":
            continue
        (after.add if int(source[2:]) in after else after.discard)(int(target[2:]))
        if source[1] == "R":  # "%R1" moves the reference away from register 1, "%r1" copies it
            after.discard(int(source[2:]))
    return after


def _buffers(operands: str) -> Iterator[int]:
    """Yields the numbers of the registers whose references an instruction needs, from its operands.

    A fence is left out: it may be empty, which means no wait.
    """
    if "@hal.fence." in operands:
        return
    inner = operands[operands.find("(") + 1 :].split(", ")
    if "@hal.device.queue." in operands:
        del inner[_FENCES]
    yield from (int(r) for operand in inner for r in re.findall(r"%[rR](\d+)", operand))
