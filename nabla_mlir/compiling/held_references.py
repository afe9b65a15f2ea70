"""References that IREE's bytecode would give away before they are used (`references.py`), held instead.

A branch has a list of pairs of registers, 16 bits each: what the first one holds is in the second one behind it. Of a
reference one bit says that the first one gives it away. Where the block behind the branch, or one that follows, still reads
the first one, that bit is wrong, and is cleared: both registers hold the reference then, and the buffer stays a little longer.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from nabla_mlir.compiling.archive import sealed
from nabla_mlir.compiling.disassembly import Block, Moves, functions

_REFERENCE, _GIVEN = 0x8000, 0x4000  # bits of a register's number


def held(artifact: bytes, disassembly: str) -> bytes:
    """An artifact in which no branch gives away a reference that is still read from its register.

    Args:
      artifact: IREE's bytecode, in its zip archive.
      disassembly: of it, by `iree-dump-module`.

    A list of pairs whose bytes stand in other places of the artifact too stays as it is.
    """
    rows = [row for blocks in functions(disassembly).values() for row in _rows(blocks)]
    places: dict[Moves, set[int]] = {}
    for moves, wrong in rows:
        places.setdefault(moves, set()).update(wrong)
    counts = Counter(_encoded(moves) for moves, _ in rows)
    code = artifact
    for moves, wrong in places.items():
        old = _encoded(moves)
        if wrong and artifact.count(old) == counts[old]:
            code = code.replace(old, _encoded([(x.lower() if i in wrong else x, y) for i, (x, y) in enumerate(moves)]))
    return sealed(code)


def _rows(blocks: Mapping[str, Block]) -> Iterator[tuple[Moves, set[int]]]:
    """What each branch passes on, and the places in it that give away what is still read."""
    reads = _reads(blocks)
    for block in blocks.values():
        for instruction in block:
            for target, moves in instruction.branches:
                later = reads[target] - {y for _, y in moves}
                yield moves, {i for i, (x, _) in enumerate(moves) if x[1] == "R" and x.lower() in later}


def _reads(blocks: Mapping[str, Block]) -> dict[str, set[str]]:
    """For each block the registers of references that it, or one that follows, reads before they are set."""
    found: dict[str, set[str]] = {label: set() for label in blocks}
    is_complete = False
    while not is_complete:
        is_complete = True
        for label, block in reversed(list(blocks.items())):
            alive = set[str]()
            for instruction in reversed(block):
                alive -= set(re.findall(r"%r\d+", instruction.results))
                for target, moves in instruction.branches:
                    alive |= found[target] - {y for _, y in moves}
                    alive |= {x.lower() for x, _ in moves if x[1] != "i"}
                if instruction.operation != "vm.discard.refs":
                    alive |= {x.lower() for x in re.findall(r"%[rR]\d+", instruction.own)}
            if alive != found[label]:
                found[label], is_complete = alive, False
    return found


def _encoded(moves: Sequence[tuple[str, str]]) -> bytes:
    """How many pairs there are, and the pairs."""
    numbers = [_number(x) for pair in moves for x in pair]
    return struct.pack(f"<{1 + len(numbers)}H", len(moves), *numbers)


def _number(register: str) -> int:
    kind, number = register[1], int(register[2:])
    return number | (_REFERENCE if kind in "rR" else 0) | (_GIVEN if kind == "R" else 0)
