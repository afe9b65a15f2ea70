"""From an MLIR location back to the user's source line."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from iree.compiler import ir

from nabla_mlir.errors import NablaError, SourceRange, is_internal


def source_of(location: ir.Location) -> SourceRange | None:
    """The user's line that a location stands for: its innermost frame outside nabla_mlir."""
    for place in _places(location, ""):
        if not is_internal(place.filename):
            return place
    return None


def _places(location: ir.Location, function: str) -> Iterator[SourceRange]:
    if isinstance(location, ir.FileLineColLoc):
        yield SourceRange(
            location.filename.value if hasattr(location.filename, "value") else str(location.filename),
            location.start_line,
            location.start_col,
            location.end_col,
            function,
        )
    elif isinstance(location, ir.NameLoc):
        is_function = step_of(location.name_str) is None
        yield from _places(location.child_loc, location.name_str if is_function else function)
    elif isinstance(location, ir.CallSiteLoc):
        yield from _places(location.callee, function)
        yield from _places(location.caller, function)
    elif isinstance(location, ir.FusedLoc):
        for part in location.locations:
            yield from _places(part, function)


@contextlib.contextmanager
def blaming(op: ir.Operation) -> Iterator[None]:
    """Gives errors of a rule the place in the user's program of the operation that it was applied to."""
    try:
        yield
    except NablaError as error:
        place = source_of(op.location)
        if place is None or getattr(error, "placed", False):
            raise
        blame = type(error)(error.message, where=place, help=error.help)
        blame.placed = True  # type: ignore[attr-defined]  # an outer operation does not move it
        raise blame from None


def named(step: str, location: ir.Location, of: str = "") -> ir.Location:
    """The location of an operation that a transform or a pass made for the operation at `location`.

    Args:
      step: jvp, vjp, vmap, simplify, split, factor or legalize.
      location: of the operation it was made for.
      of: the name of that operation, or of the pattern that made it.
    """
    return ir.Location.name(f"{step}({of})" if of else step, childLoc=location)


def step_of(name: str) -> tuple[str, str] | None:
    """The step and what it was done to, where the name of a location says one; None for the name of a function.

    Example:
      >>> step_of("vjp(stablehlo.sine)"), step_of("loss.<locals>.<lambda>")
      (('vjp', 'stablehlo.sine'), None)
    """
    match = _STEP.fullmatch(name)
    return None if match is None else (match[1], match[2] or "")


_STEP = re.compile(r"(jvp|vjp|vmap|simplify|split|factor|legalize)(?:\((.*)\))?")
