"""Passes of other projects: an error in one names the pass, and mistakes that would end the process become errors.

MLIR's bindings check neither that an erased operation is unread, nor that a reader's operand stands in a block: the next reader
of the module would read freed memory. While a pass of another project runs, the functions of the bindings check both.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from iree.compiler import ir, rewrite  # type: ignore[attr-defined]  # not in the stubs

from nabla_mlir.base.errors import NablaError, PassError, raising_frame
from nabla_mlir.dialects.locations import source_of
from nabla_mlir.passes.base import Pass

_BASE: Any = ir.Operation.__mro__[1]  # the class of `erase`, which Operation and OpView inherit


class _State(threading.local):
    """The pass that runs in this thread, and the operations that it made or took outside any block."""

    def __init__(self) -> None:
        self.running = ""
        self.outside: list[Any] = []  # kept, because an operation in no block dies with its last reference


_state = _State()


def run_pass(item: Pass, module: ir.Operation) -> None:
    """Runs the pass `item` on a module; checks what it erases if the pass is of another project.

    Raises:
      PassError: a pass of another project raised an error, which is the cause, or left a value that nothing computes.
    """
    if type(item).__module__.startswith("nabla_mlir."):
        item.run(module)
        return
    with _checked(item.name, module):
        try:
            item.run(module)
        except NablaError:
            raise
        except Exception as error:
            raise PassError(
                f"{item.name} requires a run without errors, got {type(error).__name__}: {error}", where=raising_frame(error)
            ) from error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)  # from the pass on


@contextlib.contextmanager
def _checked(name: str, module: ir.Operation) -> Iterator[None]:
    """A context in which the functions of the bindings check what this thread does, for the pass `name`."""
    _install()
    before = (_state.running, _state.outside)
    _state.running, _state.outside = name, []
    try:
        yield
    finally:
        outside = _state.outside
        _state.running, _state.outside = before
        _check_outside(name, outside, module)


def _check_outside(name: str, operations: Sequence[Any], module: ir.Operation) -> None:
    """Raises PassError if the module reads an operation that the pass `name` left in no block."""
    lost = [(op, reader) for op in operations if (reader := _reader_in(module, op)) is not None]
    for op, _ in lost:
        module.regions[0].blocks[0].append(op)  # it must live as long as its readers
    for op, reader in lost:
        raise PassError(
            f"{name} requires that each operation stands in a block, got a {op.name} in none, which a {reader.name} reads.",
            where=source_of(reader.location),
            help="make it at an insertion point: `with ir.InsertionPoint(op), op.location: ...`.",
        )


def _reader_in(module: ir.Operation, op: Any) -> ir.Operation | None:
    """An operation of the module that reads a result of `op`; None if there is none, or if `op` has its place now."""
    try:
        if op.attached:
            return None
    except RuntimeError:  # it was erased
        return None
    readers = [use.owner.operation for result in op.results for use in result.uses]
    return next((reader for reader in readers if _is_inside(module, reader)), None)


def _is_inside(module: ir.Operation, op: ir.Operation) -> bool:
    while op.attached and op.parent is not None:
        op = op.parent.operation
        if op == module:
            return True
    return False


def _check_unread(values: Sequence[ir.Value], what: str, location: ir.Location) -> None:
    """Raises PassError if an operation reads one of the values, which the running pass is about to erase."""
    for value in values:
        for use in value.uses:
            raise PassError(
                f"{_state.running} requires that nothing reads what it erases, got {what}, which a {use.owner.name} reads.",
                where=source_of(location),
                help="first replace it, `value.replace_all_uses_with(other)`, or erase its readers.",
            )


@functools.cache
def _install() -> None:
    """Puts the checks around the functions of the bindings, once; they cost a call of Python where no such pass runs."""

    def before(owner: Any, name: str, check: Callable[..., None]) -> None:
        original = getattr(owner, name)

        @functools.wraps(original)
        def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
            """The function of the bindings, after the check."""
            if _state.running:
                check(self, *args, **kwargs)
            return original(self, *args, **kwargs)

        setattr(owner, name, checked)

    def noted(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def making(*args: Any, **kwargs: Any) -> Any:
            """The function of the bindings; an operation that it makes in no block is noted."""
            made = original(*args, **kwargs)
            if _state.running:
                _note(args[0] if made is None else made)
            return made

        return making

    before(_BASE, "erase", lambda op: _check_unread(op.results, f"a {op.operation.name}", op.location))
    before(rewrite.PatternRewriter, "erase_op", lambda _, op: _check_unread(op.results, f"a {op.operation.name}", op.location))
    before(ir.Block, "erase_argument", _check_argument)
    before(_BASE, "detach_from_parent", lambda op: _state.outside.append(op.operation))
    ir.Operation.create = staticmethod(noted(ir.Operation.create))
    for owner, name in ((_BASE, "clone"), (ir.OpView, "__init__")):
        setattr(owner, name, noted(getattr(owner, name)))


def _check_argument(block: ir.Block, index: int) -> None:
    _check_unread([block.arguments[index]], f"argument {index} of a block", block.owner.location)


def _note(made: Any) -> None:
    if not made.operation.attached:
        _state.outside.append(made.operation)
