"""The user's source line for an MLIR location."""

from __future__ import annotations

import contextlib
import re
import threading
import traceback
from collections.abc import Iterator

from iree.compiler import ir

from nabla_mlir.base.errors import ConcretizationError, NablaError, SourceRange, is_internal
from nabla_mlir.base.locks import new_lock

_FRAMES = 32  # the number of frames of the Python stack that MLIR stores in a location


class _Thread(threading.local):
    reads_stack = False  # True while this thread traces a function of the user


_thread = _Thread()
_lock = new_lock()
_switch = contextlib.ExitStack()
_tracing = 0  # the number of active traces in all threads, which need the switch


@contextlib.contextmanager
def user_lines() -> Iterator[None]:
    """A context in which new operations of this thread have the user's lines, which MLIR reads from the Python stack.

    MLIR has one switch for all threads, which is on while any thread traces. Operations of the other threads get the location
    that `here` returns, as if the switch were off.
    """
    global _tracing
    with _lock:
        if not _tracing:
            _switch.enter_context(ir.loc_tracebacks(max_depth=_FRAMES))
        _tracing += 1
    before, _thread.reads_stack = _thread.reads_stack, True
    try:
        yield
    finally:
        _thread.reads_stack = before
        with _lock:
            _tracing -= 1
            if not _tracing:
                _switch.close()


@contextlib.contextmanager
def lines_of_module() -> Iterator[None]:
    """A context in which passes run on a module during a trace: new operations have locations in it, not the user's lines."""
    before, _thread.reads_stack = _thread.reads_stack, False
    try:
        yield
    finally:
        _thread.reads_stack = before


def here() -> ir.Location | None:
    """The location for a new operation of this thread; None if MLIR reads it from the stack."""
    return None if _thread.reads_stack else ir.Location.current


def source_of(location: ir.Location) -> SourceRange | None:
    """The user's line for a location: its innermost frame outside nabla_mlir; None if there is none."""
    for position in positions_of(location):
        if not is_internal(position.filename):
            return position
    return None


def positions_of(location: ir.Location, function: str = "") -> Iterator[SourceRange]:
    """The source positions in a location, the innermost frame first.

    Args:
      location: the location of an operation.
      function: the name of the function around it. Positions in functions are frames of Python, with columns from zero.
    """
    if isinstance(location, ir.FileLineColLoc):
        name = location.filename.value if hasattr(location.filename, "value") else str(location.filename)
        column, end = (c + 1 if function else c for c in (location.start_col, location.end_col))
        yield SourceRange(name, location.start_line, column, end, function)
    elif isinstance(location, ir.NameLoc):
        is_function = step_of(location.name_str) is None and not location.name_str.startswith("@")  # the explorer's numbers
        yield from positions_of(location.child_loc, location.name_str if is_function else function)
    elif isinstance(location, ir.CallSiteLoc):
        yield from positions_of(location.callee, function)
        yield from positions_of(location.caller, function)
    elif isinstance(location, ir.FusedLoc):
        for part in location.locations:
            yield from positions_of(part, function)


@contextlib.contextmanager
def blaming(op: ir.Operation) -> Iterator[None]:
    """A context in which errors of a rule for the operation `op` get its position in the user's program.

    An error that was raised in a rule outside nabla_mlir keeps the position in this rule, and a note names the operation.
    """
    try:
        yield
    except NablaError as error:
        position = source_of(op.location)
        if position is None or getattr(error, "placed", False):
            raise
        where, help = position, error.help
        frames = traceback.extract_tb(error.__traceback__)
        if error.where is not None and any(not is_internal(frame.filename) for frame in frames[1:]):
            where = error.where
            # A rule called a function of NumPy, or of nabla_mlir.numpy, which makes operations of its own.
            if isinstance(error, ConcretizationError):
                help = "a rule calls operators and operations, such as nabla_mlir.ops.elementwise.sine: see CONTRIBUTING.md."
            help = f"{help}\n  note: a rule of {op.name} failed, which is used at {position.filename}:{position.line}.".lstrip()
        blame = type(error)(error.message, where=where, help=help)
        blame.placed = True  # type: ignore[attr-defined]  # an outer operation does not move it
        raise blame.with_traceback(error.__traceback__) from None


def named(step: str, location: ir.Location, of: str = "") -> ir.Location:
    """The location of an operation that a transform or a pass emits for the operation at `location`.

    Args:
      step: jvp, vjp, vmap, simplify, split, factor or legalize.
      location: the location of the original operation.
      of: the name of the original operation, or of the pattern.
    """
    return ir.Location.name(f"{step}({of})" if of else step, childLoc=location)


def step_of(name: str) -> tuple[str, str] | None:
    """The step and its operation or pattern, from the name in a location; None for the name of a function.

    Example:
      >>> step_of("vjp(stablehlo.sine)"), step_of("loss.<locals>.<lambda>")
      (('vjp', 'stablehlo.sine'), None)
    """
    match = _STEP.fullmatch(name)
    return None if match is None else (match[1], match[2] or "")


def is_derived(location: ir.Location) -> bool:
    """True if a derivative rule emitted the operation at a location."""
    while isinstance(location, ir.NameLoc):
        step = step_of(location.name_str)
        if step is not None and step[0] in ("jvp", "vjp"):
            return True
        location = location.child_loc
    return False


_STEP = re.compile(r"(jvp|vjp|vmap|simplify|split|factor|legalize)(?:\((.*)\))?")
