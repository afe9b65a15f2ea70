"""Lists of pairs of registers in IREE's bytecode: a branch copies the first register of each pair to the second.

A list is its length and its pairs, in numbers of 16 bits. For a reference, one bit states its kind, and another one states that the
first register gives the reference away.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Sequence

from nabla_mlir.compiling.internals.archive import sealed
from nabla_mlir.compiling.internals.disassembly import Moves

_REFERENCE, _GIVEN = 0x8000, 0x4000


def replaced(artifact: bytes, lists: Sequence[tuple[Moves, Moves]]) -> bytes:
    """The artifact in which some lists of pairs of registers are replaced by other lists of the same length.

    Args:
      artifact: IREE's bytecode, in its zip archive.
      lists: all lists of the artifact, each with the list that replaces it.

    If the bytes of a list also occur elsewhere in the artifact, or equal lists are replaced by different ones, they stay.
    """
    counts = Counter(encoded(old) for old, _ in lists)
    choices: dict[bytes, set[bytes]] = {}
    for old, new in lists:
        choices.setdefault(encoded(old), set()).add(encoded(new))
    code = artifact
    for before, afters in choices.items():
        after = next(iter(afters))
        if len(afters) == 1 and after != before and artifact.count(before) == counts[before]:
            code = code.replace(before, after)
    return artifact if code == artifact else sealed(code)


def encoded(moves: Moves) -> bytes:
    """The bytes of a list of pairs of registers: its length, then each register, in numbers of 16 bits."""
    numbers = [_number(x) for pair in moves for x in pair]
    return struct.pack(f"<{1 + len(numbers)}H", len(moves), *numbers)


def _number(register: str) -> int:
    """The number of 16 bits that represents a register in a list: "%i3" -> 0x0003, "%r3" -> 0x8003, "%R3" -> 0xC003."""
    kind, number = register[1], int(register[2:])
    return number | (_REFERENCE if kind in "rR" else 0) | (_GIVEN if kind == "R" else 0)
