"""Corrects references that IREE's bytecode would move before their last use (`references.py`).

A branch has a list of pairs of 16-bit registers: it copies the first register to the second. For a reference, one bit
states that the reference moves, and leaves the first register empty. If a later block still reads the first register, this bit is
wrong. It is cleared here: both registers then hold the reference, and the buffer lives a little longer.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping

from nabla_mlir.compiling.internals.disassembly import Block, Moves, functions
from nabla_mlir.compiling.internals.register_lists import replaced


def held(artifact: bytes, disassembly: str) -> bytes:
    """The artifact, corrected so that no branch moves a reference that is still read from its register.

    Args:
      artifact: IREE's bytecode, in its zip archive.
      disassembly: the text of the artifact by `iree-dump-module`.

    A list whose bytes also occur elsewhere in the artifact is not changed.
    """
    rows = [row for blocks in functions(disassembly).values() for row in _rows(blocks)]
    wrong: dict[Moves, set[int]] = {}
    for moves, indices in rows:
        wrong.setdefault(moves, set()).update(indices)
    return replaced(artifact, [(moves, _with_live_references(moves, wrong[moves])) for moves, _ in rows])


def _with_live_references(moves: Moves, wrong: Container[int]) -> Moves:
    """The pairs of registers in which those with an index in `wrong` copy the reference (%r1) instead of moving it (%R1)."""
    return tuple((x.lower() if i in wrong else x, y) for i, (x, y) in enumerate(moves))


def _rows(blocks: Mapping[str, Block]) -> Iterator[tuple[Moves, set[int]]]:
    """Yields the pairs of registers of each branch, and the indices of those that move a reference which is still read.

    `blocks` are those of one function, by label.
    """
    reads = _reads(blocks)
    for block in blocks.values():
        for instruction in block:
            for target, moves in instruction.branches:
                later = reads[target] - {y for _, y in moves}
                yield moves, {i for i, (x, _) in enumerate(moves) if x[1] == "R" and x.lower() in later}


def _reads(blocks: Mapping[str, Block]) -> dict[str, set[str]]:
    """The reference registers that are live at the start of each block, by its label: they are read before they are set.

    This is the backward analysis of live values, repeated until nothing changes.
    """
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
