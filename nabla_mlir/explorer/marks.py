"""The correspondence of operations before and after a pass: their locations have numbers, which their successors inherit.

A pass leaves an operation unchanged, moves it, or creates others at its location. So operations are numbered before a pass. After
the pass, the outermost number in a location is the number of the predecessor.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from nabla_mlir.base.errors import SourceRange, is_internal
from nabla_mlir.dialects.locations import positions_of, step_of

_MARK = re.compile(r"@(\d+)")
_NO_FILES = ("-", "nabla-mlir")  # the names for text that a pass of nabla_mlir has parsed, and for the command
MARK_OR_ALIAS = re.compile(r'"@(\d+)"|#loc\d*')  # a number or an alias in the text of a location


@dataclass(frozen=True)
class Step:
    """A transform or a pass that created an operation; `of` is the name of the operation or pattern that it was applied to."""

    name: str
    of: str


@dataclass(frozen=True)
class Origin:
    """The origin of an operation: the frames of the user's line, and the steps that were applied to it, the last one first."""

    steps: tuple[Step, ...]
    frames: tuple[SourceRange, ...]


def mark(ops: Sequence[ir.Operation], first: int) -> None:
    """Gives the operations `ops` the numbers first, first + 1, ... in their locations; an earlier outermost number is replaced."""
    for i, op in enumerate(ops, first):
        location = op.location
        inner = location.child_loc if _number(location) is not None else location
        op.location = ir.Location.name(f"@{i}", childLoc=inner)


def unmark(ops: Sequence[ir.Operation]) -> None:
    """Removes the numbers from the locations.

    `ops` are operations whose locations carry numbers by which the page recognises them.
    """
    for op in ops:
        op.location = _bare(op.location)


def predecessors(location: ir.Location) -> tuple[int, ...]:
    """The outermost numbers in a location: one, or several if the location is fused."""
    return tuple(dict.fromkeys(_outermost(location)))


def is_same_position(location: ir.Location) -> bool:
    """True if the number is outermost in the location, so that no pass has changed the operation."""
    return _number(location) is not None


def origin_of(location: ir.Location) -> Origin:
    """The steps and the user's lines of a location."""
    frames = [p for p in positions_of(location) if os.path.basename(p.filename) not in _NO_FILES and not is_internal(p.filename)]
    return Origin(tuple(dict.fromkeys(_steps(location))), tuple(dict.fromkeys(frames)))


def _number(location: ir.Location) -> int | None:
    """The number in the location of a numbered operation, whose name is a mark such as "@7"; None for another location."""
    match = _MARK.fullmatch(location.name_str) if isinstance(location, ir.NameLoc) else None
    return None if match is None else int(match[1])


def _outermost(location: ir.Location) -> Iterator[int]:
    """Yields the outermost number of each part of a location."""
    number = _number(location)
    if number is not None:
        yield number
    else:
        for part in _parts(location):
            yield from _outermost(part)


def _parts(location: ir.Location) -> list[ir.Location]:
    """The direct parts of a location: its child, the two sides of a call, or the fused locations."""
    if isinstance(location, ir.NameLoc):
        return [location.child_loc]
    if isinstance(location, ir.CallSiteLoc):
        return [location.callee, location.caller]
    return list(location.locations) if isinstance(location, ir.FusedLoc) else []


def _bare(location: ir.Location) -> ir.Location:
    """The location without the numbers of operations."""
    if isinstance(location, ir.NameLoc):
        child = _bare(location.child_loc)
        return child if _number(location) is not None else ir.Location.name(location.name_str, childLoc=child)
    if isinstance(location, ir.FusedLoc):
        return ir.Location.fused([_bare(part) for part in location.locations])
    return location


def _steps(location: ir.Location) -> Iterator[Step]:
    """Yields the steps in a location, the outermost first."""
    step = step_of(location.name_str) if isinstance(location, ir.NameLoc) else None
    if step is not None:
        yield Step(*step)
    for part in _parts(location):
        yield from _steps(part)
