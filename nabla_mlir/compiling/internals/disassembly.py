"""The host program of an artifact, parsed from the text of `iree-dump-module`: functions, blocks and instructions."""

from __future__ import annotations

import re
from typing import NamedTuple

# Pairs of registers: a branch copies the first to the second. %i1 is a number, %r1 a reference, and %R1 a reference
# that moves.
Moves = tuple[tuple[str, str], ...]


class Instruction(NamedTuple):
    """An instruction as three texts: its results, its operation and its operands."""

    results: str
    operation: str
    operands: str

    @property
    def own(self) -> str:
        """The operands without those that are passed to other blocks."""
        return re.sub(r"\^bb\d+\([^)]*\)", "", self.operands)

    @property
    def branches(self) -> list[tuple[str, Moves]]:
        """The labels of the next blocks, each with the pairs of registers that are copied to its arguments.

        Example:
          >>> Instruction("", "vm.br", " ^bb1(%i1->%i2, %R3->%r4)").branches
          [('bb1', (('%i1', '%i2'), ('%R3', '%r4')))]
        """
        lists = re.findall(r"\^(bb\d+)\(([^)]*)\)", self.operands)
        return [(label, tuple(re.findall(r"(%[irR]\d+)->(%[ir]\d+)", moves))) for label, moves in lists]


Block = list[Instruction]


def functions(text: str) -> dict[str, dict[str, Block]]:
    """The blocks of each function by label, in the text of `iree-dump-module`: functions are by name, or by number without one.

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


def wide_results(text: str) -> dict[str, list[bool]]:
    """The widths of the results of each function, by its name: True for a result of 64 bits. `text` is from `iree-dump-module`.

    A number of 64 bits fills two registers; the text of a call names only the first one.

    Example:
      >>> wide_results('vm.import @hal.device.query.i64 cconv "0rrr_iI"')
      {'hal.device.query.i64': [False, True]}
    """
    found = {name: [kind == "I" for kind in kinds] for name, kinds in re.findall(r'vm\.import @(\S+) cconv "[^"]*_(\w+)"', text)}
    for index, (name, kinds) in enumerate(re.findall(r"vm\.func @([^(]+)\(.*\) -> \((.*)\) \{", text)):
        wide = [kind.strip() in ("i64", "f64") for kind in kinds.split(",")]
        found |= {name: wide, f"module:{index}": wide}
    return found
