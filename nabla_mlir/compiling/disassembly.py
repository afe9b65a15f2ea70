"""The host program of an artifact, as `iree-dump-module` writes it: functions of blocks of instructions."""

from __future__ import annotations

import re
from typing import NamedTuple

# What the first of two registers holds is in the second one behind a branch: %i1 or %r1, %R1 if it gives a reference away.
Moves = tuple[tuple[str, str], ...]


class Instruction(NamedTuple):
    """The text of what an instruction sets, of its operation, and of its operands."""

    results: str
    operation: str
    operands: str

    @property
    def own(self) -> str:
        """The operands without what branches pass on."""
        return re.sub(r"\^bb\d+\([^)]*\)", "", self.operands)

    @property
    def branches(self) -> list[tuple[str, Moves]]:
        """The labels of the blocks behind it, and what it passes on to each.

        Example:
          >>> Instruction("", "vm.br", " ^bb1(%i1->%i2, %R3->%r4)").branches
          [('bb1', (('%i1', '%i2'), ('%R3', '%r4')))]
        """
        lists = re.findall(r"\^(bb\d+)\(([^)]*)\)", self.operands)
        return [(label, tuple(re.findall(r"(%[irR]\d+)->(%[ir]\d+)", moves))) for label, moves in lists]


Block = list[Instruction]


def functions(text: str) -> dict[str, dict[str, Block]]:
    """The blocks of each function, by their labels; those without a name have a number.

    Example:
      >>> functions('''vm.func @f(%i0: i32) -> () {
      ... ^bb0:
      ...   %i1 = vm.add.i32 %i0, %i0
      ...   vm.return''')["f"]["bb0"][0].operation
      'vm.add.i32'
    """
    blocks: dict[str, dict[str, Block]] = {}
    name, block = "", None
    for line in text.splitlines():
        if head := re.match(r"\s*vm\.func @([^(]+)\(", line):
            name, block = head[1], None
        elif label := re.match(r"\s*\^(bb\d+):", line):
            if label[1] == "bb0" and (not name or name in blocks):
                name = str(len(blocks))
            block = blocks.setdefault(name, {}).setdefault(label[1], [])
        elif block is not None and (parts := re.match(r"\s+(?:(.*?) = )?(vm\.\S+)(.*)", line)):
            block.append(Instruction(parts[1] or "", parts[2], parts[3]))
    return blocks
