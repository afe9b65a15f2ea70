"""Detection and correction of a fault of IREE: a branch may overwrite a number before it copies it.

A branch copies numbers, one after the other, to the registers of the next block's arguments. IREE 3.13 orders the copies so that
each register is read before it is written. But it does not see that a number of 64 bits in the registers 44 and 45 overlaps one of
32 bits in the register 45. So the copies ``%i48:49 -> %i44:45, %i45 -> %i20`` give a wrong number to %i20. Here the copies get
another order. A cycle needs a spare register, which only the compiler can add: other flags then lead to other registers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from nabla_mlir.compiling.internals.disassembly import Instruction, Moves, functions, wide_results
from nabla_mlir.compiling.internals.register_lists import replaced

OVERWRITTEN = "overwritten_number"  # the fault, in the table of faults


def overwritten(disassembly: str) -> list[str]:
    """The lists of copies that overwrite a number before they copy it, from a program as `iree-dump-module` prints it.

    Example:
      >>> overwritten('''^bb0:
      ...   %i4:5 = vm.const.i64 7
      ...   %i6:7 = vm.const.i64 8
      ...   vm.br ^bb1(%i6->%i4, %i7->%i5, %i5->%i2)
      ... ^bb1:
      ...   vm.return''')
      ['%i6->%i4, %i7->%i5, %i5->%i2']
    """
    return [", ".join(f"{x}->{y}" for x, y in moves) for moves, spare in _lists(disassembly) if _overwrites(moves, spare)]


def reordered(artifact: bytes, disassembly: str) -> bytes:
    """The artifact in which each list of copies has an order that loses no number; a list with a new cycle is not changed.

    Args:
      artifact: IREE's bytecode, in its zip archive.
      disassembly: the text of the artifact by `iree-dump-module`.
    """
    lists = list(_lists(disassembly))
    return replaced(artifact, [(moves, in_order(moves, spare) or moves) for moves, spare in lists])


def in_order(moves: Moves, spare: int) -> Moves | None:
    """The same copies in an order in which each source is read before it is overwritten; None if that needs more copies.

    Args:
      moves: pairs of registers that are copied one after the other.
      spare: the number of the first register that holds no value outside of such a list: the compiler's spare registers.

    Example:
      >>> in_order((("%i6", "%i4"), ("%i7", "%i5"), ("%i5", "%i2")), 8)
      (('%i6', '%i4'), ('%i5', '%i2'), ('%i7', '%i5'))
    """
    if not _overwrites(moves, spare):
        return moves
    numbers = [(_ordinal(x), _ordinal(y)) for x, y in moves if x[1] == "i"]
    pending = _values(numbers, spare)
    spares = sorted({y for _, y in numbers if y >= spare})
    ordered: list[tuple[int, int]] = []
    while pending:
        sources = set(pending.values())
        free = next((y for y in pending if y not in sources), None)
        if free is not None:
            ordered.append((pending.pop(free), free))
        elif spares:  # a cycle: the spare register keeps the number that the next copy overwrites
            first, stored = next(iter(pending)), spares.pop()
            ordered.append((first, stored))
            pending = {y: stored if x == first else x for y, x in pending.items()}
        else:
            return None
    if len(ordered) > len(numbers):
        return None
    ordered += [(numbers[0][0],) * 2] * (len(numbers) - len(ordered))  # the length of a list is fixed
    references = [pair for pair in moves if pair[0][1] != "i"]
    return (*references, *((f"%i{x}", f"%i{y}") for x, y in ordered))


def _values(moves: Sequence[tuple[int, int]], spare: int) -> dict[int, int]:
    """The net effect of a list of copies: for each register that it sets, the register that had its new value before the list.

    Copies are pairs of numbers of registers, from the first to the second; registers from `spare` on hold values only within the
    list. Example with spare = 8: ((1, 8), (2, 1), (8, 2)) exchanges two registers, {1: 2, 2: 1}.
    """
    values: dict[int, int] = {}
    for x, y in moves:
        values[y] = values[x] if x >= spare else x
    return {y: x for y, x in values.items() if y < spare and x != y}


def _overwrites(moves: Moves, spare: int) -> bool:
    """True if a copy reads a register that an earlier copy of the list has set; registers from number `spare` on may be read so."""
    written = set[int]()
    for x, y in moves:
        if x[1] != "i":
            continue
        if _ordinal(x) in written and _ordinal(x) < spare:
            return True
        written.add(_ordinal(y))
    return False


def _lists(disassembly: str) -> Iterator[tuple[Moves, int]]:
    """Yields the list of copies of each branch, with the number of the first spare register of its function.

    A spare register is used only in such lists.
    """
    wide = wide_results(disassembly)
    for blocks in functions(disassembly).values():
        instructions = [instruction for block in blocks.values() for instruction in block]
        spare = 1 + max((number for instruction in instructions for number in _used(instruction, wide)), default=-1)
        for instruction in instructions:
            for _, moves in instruction.branches:
                yield moves, spare


def _used(instruction: Instruction, wide: Mapping[str, Sequence[bool]]) -> Iterator[int]:
    """Yields the numbers of the integer registers that an instruction reads or sets, without those that are spare in its lists.

    `wide` says, for each result of a function, if it has 64 bits: a call names only the first of its two registers.
    """
    for text in (instruction.results, instruction.own):
        for first, second in re.findall(r"%i(\d+)(?::(\d+))?", text):
            yield int(second or first)
    callee = re.match(r"\s*@([\w.:$]+)", instruction.operands) if instruction.operation.startswith("vm.call") else None
    if callee and callee[1] in wide:
        for result, is_wide in zip(instruction.results.split(", "), wide[callee[1]], strict=False):
            if is_wide and result:
                yield _ordinal(result) + 1
    for _, moves in instruction.branches:
        for k, (_, y) in enumerate(moves):
            if y[1] == "i" and y not in {x for x, _ in moves[k + 1 :]}:
                yield _ordinal(y)


def _ordinal(register: str) -> int:
    """The number of a register: "%i12" -> 12."""
    return int(register[2:])
