"""The text of a module, line by line, with the number of the operation of each line."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from iree.compiler import ir

from nabla_mlir.explorer.marks import MARK_OR_ALIAS

ELIDED = 8  # the largest number of elements of a constant that is printed
_LOCATION = re.compile(r" loc\((?:#loc\d*|unknown)\)")
_ALIAS = re.compile(r"^(#loc\d*) = loc\((.*)\)$")
_LAST = re.compile(r" loc\((#loc\d*|unknown)\)$")
_NAMES = re.compile(r"%[\w$.#-]+(?::\d+)?")
NO_OPERATION = -1


@dataclass
class Line:
    """A line of IR.

    Attributes:
      text: the line without locations and indentation.
      depth: the level of indentation.
      operation: the number of its operation, or NO_OPERATION.
      is_first: True if its operation begins on this line.
    """

    text: str
    depth: int
    operation: int = NO_OPERATION
    is_first: bool = True

    @property
    def shape(self) -> str:
        """The text without the names of values: equal for equal operations."""
        return _NAMES.sub("%", self.text)


@dataclass
class _Open:
    """An operation whose regions are being read."""

    lines: list[Line] = field(default_factory=list)
    is_open: bool = False


def listing_of(module: ir.Operation) -> list[Line]:
    """The lines of a module whose operations are numbered by `marks.mark`."""
    text = module.get_asm(enable_debug_info=True, large_elements_limit=ELIDED)
    return lines_of(text)


def lines_of(text: str) -> list[Line]:
    """The lines of IR in a text in which each operation has a location; the number of an operation is in its location."""
    body, aliases = _without_aliases(text)
    numbers = {name: _number(rest, aliases) for name, rest in aliases.items()}
    lines: list[Line] = []
    stack: list[_Open] = []
    for raw in body:
        position = _LAST.search(raw)
        plain = without_locations(raw)
        line = Line(plain.strip(), (len(plain) - len(plain.lstrip())) // 2)
        if not line.text or line.text.startswith("//"):
            continue
        lines.append(line)
        opens = line.text.endswith("{")
        number = numbers.get(position[1], NO_OPERATION) if position is not None and not opens else NO_OPERATION
        # `stack` has the operations whose last line, which has the location, is not read yet.
        if line.text.startswith(("^", "}")) or (stack and not stack[-1].is_open):  # the line continues an operation
            if not stack:
                continue
            line.is_first = False
            stack[-1].lines.append(line)
            if opens:
                stack[-1].is_open = True
            elif position is not None and not line.text.startswith("^"):
                for part in stack.pop().lines:
                    part.operation = number
        elif position is not None and not opens:
            line.operation = number
        else:
            stack.append(_Open([line], opens))
    return lines


def _number(location: str, aliases: dict[str, str]) -> int:
    """The outermost number in the text of a location, or in the first part of a fused location that has one; else NO_OPERATION.

    `aliases` maps names of locations, such as "#loc3", to their texts. Example: 'loc("@7"(#loc3))' gives 7.
    """
    for match in MARK_OR_ALIAS.finditer(location):
        number = int(match[1]) if match[1] else _number(aliases.get(match[0], ""), aliases)
        if number != NO_OPERATION:
            return number
    return NO_OPERATION


def without_locations(line: str) -> str:
    """A line of IR without its locations, whether they are aliases or written out.

    Example:
      >>> without_locations('^bb0(%arg0: tensor<2xf32> loc("a.mlir":2:16), %arg1: i1 loc(#loc3)): loc(callsite("f"(#l) at #l1))')
      '^bb0(%arg0: tensor<2xf32>, %arg1: i1):'
    """
    line = _LOCATION.sub("", line)
    while (start := line.find(" loc(")) >= 0:
        end, depth, in_string = start + 4, 0, False
        for end in range(start + 4, len(line)):
            in_string ^= line[end] == '"'
            depth += 0 if in_string else (line[end] == "(") - (line[end] == ")")
            if depth == 0:
                break
        line = line[:start] + line[end + 1 :]
    return line


def _without_aliases(text: str) -> tuple[list[str], dict[str, str]]:
    """The lines of the IR in a text, and the location of each alias."""
    body, aliases = [], {}
    for line in text.splitlines():
        if line.startswith("{-#"):  # the section with the data of constants
            break
        alias = _ALIAS.match(line)
        if alias is None:
            body.append(line)
        else:
            aliases[alias[1]] = alias[2]
    # MLIR prints aliases of locations at the start and at the end of the text.
    for line in text.splitlines()[len(body) :]:
        if alias := _ALIAS.match(line):
            aliases[alias[1]] = alias[2]
    return body, aliases
