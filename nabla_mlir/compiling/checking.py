"""Checked compilation: an artifact is compared with the reference interpreter before its numbers are believed.

Each entry point is called once on this machine, on the arguments of the first call or on random ones, and the interpreter runs it
too, where that costs a small part of the compilation. Where a result differs by more than rounding explains
(`nabla_mlir.compiling.comparison`), the module is compiled by the next of `STRATEGIES`, with less and less between the
operations and the machine, until one is right.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, get_args

from iree.compiler import ir

from nabla_mlir.compiling import cache as disk
from nabla_mlir.compiling.lowering import clone_module, compile_lowered
from nabla_mlir.compiling.reference_check import DIFFERS, NOT_CHECKED, Checks, check_artifact, reason_not_to
from nabla_mlir.compiling.reference_runs import Examples, entries_of
from nabla_mlir.compiling.separation import separate_control, separate_operations
from nabla_mlir.compiling.wrong_numbers import culprit, save_reproducer
from nabla_mlir.errors import CompileError, MiscompileError, user_frame
from nabla_mlir.locks import new_lock
from nabla_mlir.log import logger
from nabla_mlir.runtime.manifest import Check
from nabla_mlir.targets import Target

_LOG = logger("check")
# What IREE says of some programs with branches and loops, which it takes with barriers around them.
CIRCULAR = "circular dependency"
Mode = Literal["off", "cheap", "always"]


class Checking:
    """The setting of `nm.set_checking`."""

    mode: Mode = "cheap"


def set_checking(mode: Mode) -> Mode:
    """Sets which compiled programs are compared with the interpreter; returns what it was before.

    Args:
      mode: "cheap" checks a program whose interpretation costs at most a tenth of its compilation, by an estimate that is known
        before; "always" checks every program that the interpreter runs, however long it takes; "off" checks none.

    Raises:
      CompileError: there is no such mode.

    Example:
      >>> import nabla_mlir as nm
      >>> before = nm.set_checking("off")
      >>> nm.set_checking(before)
      'off'
    """
    if mode not in get_args(Mode):
        raise CompileError(f"set_checking requires one of {', '.join(get_args(Mode))}, got {mode!r}.", where=user_frame())
    before, Checking.mode = Checking.mode, mode
    return before


@dataclass(frozen=True)
class Strategy:
    """A way to compile a lowered module for a target, with flags, from the cache or not; and its name."""

    name: str
    compile: Callable[[ir.Module, Target, Sequence[str], bool], bytes]


def _as_chosen(module: ir.Module, target: Target, flags: Sequence[str], cache: bool) -> bytes:
    return compile_lowered(module, target, flags=flags, cache=cache)


def _unscheduled(module: ir.Module, target: Target, flags: Sequence[str], cache: bool) -> bytes:
    return compile_lowered(module, target, flags=flags, cache=cache, schedule=False)


def _separated(separate: Callable[[ir.Module], None]) -> Callable[[ir.Module, Target, Sequence[str], bool], bytes]:
    def compile_(module: ir.Module, target: Target, flags: Sequence[str], cache: bool) -> bytes:
        copy = clone_module(module)
        separate(copy)
        return compile_lowered(copy, target, flags=flags, cache=cache, schedule=False)

    return compile_


# In the order in which they are tried: each leaves out more of what makes a program fast.
STRATEGIES = (
    Strategy("as chosen for the target", _as_chosen),
    Strategy("without rewrites for speed", _unscheduled),
    Strategy("with barriers around loops and branches", _separated(separate_control)),
    Strategy("with each operation in a dispatch of its own", _separated(separate_operations)),
)


def compile_checked(
    module: ir.Module, target: Target, *, flags: Sequence[str] = (), cache: bool = True, title: str = "",
    examples: Examples | None = None,
) -> tuple[bytes, Checks]:  # fmt: skip
    """Compiles a lowered module, and compares its entry points with the interpreter.

    Args:
      title: what is said to be compiled.
      examples: arguments of entry points, by name; others get random ones.

    Returns:
      The artifact, and what is known of the numbers of each entry point.

    Raises:
      MiscompileError: no strategy gives right numbers.
      CompileError: IREE refuses the module.
    """
    try:
        vmfb = compile_lowered(module, target, flags=flags, cache=cache, title=title)
    except CompileError as error:
        if CIRCULAR not in str(error):
            raise
        module = clone_module(module)
        separate_control(module)
        vmfb = compile_lowered(module, target, flags=flags, cache=cache, title=title)
    reason = "checking is off" if Checking.mode == "off" else reason_not_to(module, target)
    if reason:
        return vmfb, {name: Check(NOT_CHECKED, reason) for name in entries_of(module)}
    checks = _checked(module, target, vmfb, STRATEGIES[0], examples, cache)
    wrong = _wrong(checks)
    return (vmfb, checks) if wrong is None else _compiled_again(module, target, flags, cache, title, examples, wrong)


def _wrong(checks: Checks) -> tuple[str, Check] | None:
    """The first entry point that differs."""
    return next(((name, check) for name, check in checks.items() if check.status == DIFFERS), None)


def _compiled_again(
    module: ir.Module, target: Target, flags: Sequence[str], cache: bool, title: str, examples: Examples | None,
    wrong: tuple[str, Check],
) -> tuple[bytes, Checks]:  # fmt: skip
    """A module whose code differs from the interpreter, by the first other strategy that is right."""
    name, check = wrong
    where = culprit(module, target, flags, name, examples)
    folder = save_reproducer(module, target, flags, name, check.detail, examples)
    what = f"{title or name}: {check.detail}{f', from {where} on' if where else ''}"
    advice = f"please report it with the files in {folder}" if folder else "please report it"
    for strategy in STRATEGIES[1:]:
        with contextlib.suppress(CompileError):
            vmfb = strategy.compile(module, target, flags, cache)
            checks = _checked(module, target, vmfb, strategy, examples, cache)
            if _wrong(checks) is None:
                warnings.warn(
                    f"compiled code of {what}: it differed from the reference interpreter, and was compiled again "
                    f"{strategy.name}, which is right and may be slower; {advice}.", RuntimeWarning, stacklevel=2,
                )  # fmt: skip
                return vmfb, checks
    raise MiscompileError(
        f"compiling requires code that computes what the program says, got other numbers in {what}.", where=user_frame(),
        help=f"run it without the compiler (nm.set_execution('interpret')), and {advice}.", reproducer=folder,
    )  # fmt: skip


# ---------------------------------------------------------------- what is known of artifacts

_known: dict[str, Checks] = {}
_lock = new_lock()


def _checked(
    module: ir.Module, target: Target, vmfb: bytes, strategy: Strategy, examples: Examples | None, cache: bool
) -> Checks:
    """The checks of an artifact: those that are known of it, also from another process, or new ones."""
    key = hashlib.sha256(b"\0".join([b"check", str(module).encode(), vmfb])).hexdigest()
    with _lock:
        found = _known.get(key)
    if found is None and cache and (payload := disk.read(key)) is not None:
        found = {name: Check(**fields) for name, fields in json.loads(payload).items()}
    is_bounded = Checking.mode != "always"
    if found is None or (not is_bounded and any(check.status == NOT_CHECKED for check in found.values())):
        found = check_artifact(module, target, vmfb, examples, strategy.name, is_bounded)
        if cache and _wrong(found) is None:  # what differs is compared again: the interpreter may have been mended
            disk.write(key, json.dumps({name: asdict(check) for name, check in found.items()}).encode())
    with _lock:
        _known[key] = found
    for name, check in found.items():
        _LOG.info("%s: %s", name, check)
    return found
