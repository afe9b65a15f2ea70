"""Buffers that IREE's bytecode gives away before it uses them: a check of what the compiler makes of loops.

Where a branch passes one reference for several arguments, the compiler of IREE 3.13 lets the last of them take it away,
also if an earlier one has the same register and is left with nothing: https://github.com/iree-org/iree/issues/24753.
The call then fails, with "indirect buffer reference slot 0 is out range". Two carries that an iteration makes at once
lie in one buffer, and which registers they get is chance, so that no form of a loop avoids it. The disassembly says
exactly whether it happened; `held_references` mends it then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from nabla_mlir.compiling.disassembly import Block, Moves, functions

_REGISTERS = 256  # more than a function has; all count as given where it starts
_FENCES = slice(2, 4)  # the operands of an operation of a queue that it waits for and signals


def lost_buffers(disassembly: str) -> list[str]:
    """The instructions that use a buffer that an earlier one has taken away, in the text of `iree-dump-module`.

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
    """Which registers hold a reference, forwards through the blocks until nothing changes."""
    holders = {"bb0": set(range(_REGISTERS))}
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
                after = _moved(now, moves)
                before = holders.get(target)
                if before is None or not before <= after:
                    holders[target] = after if before is None else before & after
                    work.append(target)
    return list(uses.values())


def _moved(holders: set[int], moves: Moves) -> set[int]:
    after = set(holders)
    for source, target in moves:
        if source[1] == "i":
            continue
        (after.add if int(source[2:]) in after else after.discard)(int(target[2:]))
        if source[1] == "R":
            after.discard(int(source[2:]))
    return after


def _buffers(operands: str) -> Iterator[int]:
    """The registers of references that an instruction needs; not those of fences, of which none means no wait."""
    if "@hal.fence." in operands:
        return
    inner = operands[operands.find("(") + 1 :].split(", ")
    if "@hal.device.queue." in operands:
        del inner[_FENCES]
    yield from (int(r) for operand in inner for r in re.findall(r"%[rR](\d+)", operand))
