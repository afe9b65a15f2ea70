"""Checked compilation: an artifact is compared with the reference interpreter before its numbers are believed.

Each entry point is called once on this machine, on the arguments of the first call or on random ones. The interpreter
runs it, too, if that costs a small part of the compilation. If a result differs by more than rounding explains
(`nabla_mlir.compiling.comparison`), the module is compiled by the next of `STRATEGIES`, each of which optimises less,
until the results are right.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Literal, cast, get_args

from iree.compiler import ir

from nabla_mlir.base.errors import CompileError, MiscompileError, TargetError, one_of, user_frame
from nabla_mlir.base.locks import new_lock
from nabla_mlir.base.log import logger, warn
from nabla_mlir.compiling import cache as disk
from nabla_mlir.compiling.internals.messages import OF_STRATEGIES
from nabla_mlir.compiling.lowering import compile_lowered
from nabla_mlir.compiling.reference_check import DIFFERS, NOT_CHECKED, Checks, check_artifact, check_in_parts, reason_not_to
from nabla_mlir.compiling.reference_runs import TOO_LONG, Examples, entries_of
from nabla_mlir.compiling.strategies import STRATEGIES, Strategy
from nabla_mlir.compiling.wrong_numbers import culprit, save_reproducer
from nabla_mlir.runtime.drawn import DRAWS, FORM, RARE_DRAWS
from nabla_mlir.runtime.manifest import Check
from nabla_mlir.targets import Target

_LOG = logger("check")
Mode = Literal["off", "cheap", "parts", "always"]


class Checking:
    """The current setting of `nm.set_checking`, for the whole process."""

    mode: Mode = "cheap"


def set_checking(mode: Mode) -> Mode:
    """Sets which compiled programs are compared with the interpreter; returns the previous setting.

    Args:
      mode: "cheap" checks a program whose interpretation costs at most a tenth of its compilation, by an estimate that is known
        before; "parts" checks others in parts: their expensive products and loops are compiled separately, and some rows, columns
        and iterations of these are interpreted; "always" checks every program that the interpreter runs, however long it takes;
        "off" checks none.

    Raises:
      CompileError: there is no such mode.

    Example:
      >>> import nabla_mlir as nm
      >>> before = nm.set_checking("off")
      >>> nm.set_checking(before)
      'off'
    """
    before, Checking.mode = Checking.mode, one_of("set_checking", mode, get_args(Mode), CompileError)
    return before


def mode_for(target: Target) -> Mode:
    """The mode of checking for a target: the target's own if it has one, otherwise the setting of the process.

    Raises:
      TargetError: the target's own setting does not exist.
    """
    return cast("Mode", one_of("checking of a target", target.checking or Checking.mode, get_args(Mode), TargetError))


def compile_checked(
    module: ir.Module,
    target: Target,
    *,
    flags: Sequence[str] = (),
    cache: bool = True,
    title: str = "",
    examples: Examples | None = None,
    anew: bool = False,
    first: tuple[Strategy, bytes] | None = None,
) -> tuple[bytes, Checks]:
    """The artifact (.vmfb) of a lowered module, and the check of each entry point against the interpreter, by name.

    Code with wrong numbers is compiled again by the next strategy, with a warning.

    Args:
      module: the module.
      target: what it is compiled for.
      flags: additional flags of iree-compile.
      cache: True reads artifacts and checks from the cache, and stores them there.
      title: the name of the module in messages.
      examples: arguments of entry points, by name; others get random ones.
      anew: True compares also if an equal artifact has been compared on other arguments.
      first: the result of `compile_unchecked` for this module, if the caller has it.

    Raises:
      MiscompileError: no strategy gives right numbers.
      CompileError: IREE refuses the module.
    """
    mode = mode_for(target)
    strategy, vmfb = first or compile_unchecked(module, target, flags=flags, cache=cache, title=title)
    reason = "checking is off" if mode == "off" else reason_not_to(module, target)
    if reason:
        return vmfb, {name: Check(NOT_CHECKED, reason, strategy=strategy.name) for name in entries_of(module)}
    check = functools.partial(_checks_of, module, target, examples=examples, cache=cache, mode=mode, anew=anew)
    checks = check(vmfb, strategy)
    if (wrong := _first_difference(checks)) is None:
        return vmfb, checks
    what, advice, folder = _report(module, target, flags, title, examples, *wrong)
    for other in STRATEGIES[STRATEGIES.index(strategy) + 1 :]:
        with contextlib.suppress(CompileError):
            vmfb = compile_lowered(module, target, flags=flags, cache=cache, title=title, strategy=other)
            checks = check(vmfb, other)
            if _first_difference(checks) is None:
                warn(
                    f"compiled code of {what}: it differed from the reference interpreter, and was compiled again "
                    f"{other.name}, which is right and may be slower; {advice}."
                )
                return vmfb, checks
    raise MiscompileError(
        f"compiling requires code that computes what the program says, got other numbers in {what}.",
        where=user_frame(),
        help=f"run it without the compiler (nm.set_execution('interpret')), and {advice}.",
        reproducer=folder,
    )


def compile_unchecked(
    module: ir.Module, target: Target, *, flags: Sequence[str] = (), cache: bool = True, title: str = ""
) -> tuple[Strategy, bytes]:
    """The first strategy with which IREE compiles a lowered module, and the artifact (.vmfb) that it gives.

    The next strategy is tried only if IREE refuses the module for a fault that it avoids. `title` is the name of the module in
    messages, and `flags` are additional flags of iree-compile.

    Raises:
      CompileError: IREE refuses the module.
    """
    *others, last = STRATEGIES
    for strategy in others:
        try:
            return strategy, compile_lowered(module, target, flags=flags, cache=cache, title=title, strategy=strategy)
        except CompileError as error:
            if error.fault not in OF_STRATEGIES:
                raise
            _LOG.warning("IREE refuses %s %s: the next strategy is tried", title or "a module", strategy.name)
    return last, compile_lowered(module, target, flags=flags, cache=cache, title=title, strategy=last)


def _first_difference(checks: Checks) -> tuple[str, Check] | None:
    """The name and the check of the first entry point whose results differ; None if there is none."""
    return next(((name, check) for name, check in checks.items() if check.status == DIFFERS), None)


def _report(
    module: ir.Module, target: Target, flags: Sequence[str], title: str, examples: Examples | None, name: str, check: Check
) -> tuple[str, str, str]:
    """Three texts about wrong code: what differs and from which operation on, advice, and the folder of a reproducer.

    The folder is "" if it could not be written.

    Args:
      module, target, flags, title, examples: the arguments of `compile_checked`: the program, and how it was compiled.
      name: the entry point with wrong results.
      check: the check that found them.
    """
    where = culprit(module, target, flags, name, examples)
    folder = save_reproducer(module, target, flags, name, check, examples)
    what = f"{title or name}: {check.detail}{f', from {where} on' if where else ''}"
    return what, f"please report it with the files in {folder}" if folder else "please report it", folder


# ---------------------------------------------------------------- what is known of artifacts

_known: dict[str, Checks] = {}
# A release that draws other arguments compares again what an earlier release has compared.
_FORM = (b"check", b"%d" % FORM, *(draw.encode() for draw in (*DRAWS, *RARE_DRAWS)))
_lock = new_lock()


def _may_change(check: Check, mode: Mode) -> bool:
    """True if a new check in this mode may decide what the known check left open."""
    return check.detail == TOO_LONG if mode == "parts" else mode == "always" and check.status == NOT_CHECKED


def _checks_of(
    module: ir.Module,
    target: Target,
    vmfb: bytes,
    strategy: Strategy,
    *,
    examples: Examples | None,
    cache: bool,
    mode: Mode,
    anew: bool,
) -> Checks:
    """The check of each entry point of an artifact, by name: known from before in this process or on disk, or made now.

    Args:
      module: the lowered module.
      target: what it was compiled for.
      vmfb: the artifact.
      strategy: the strategy by which it was compiled.
      examples: arguments of entry points, by name; others get random ones.
      cache: True reads checks from the disk, and stores them there.
      mode: the mode of checking.
      anew: True makes new checks in any case.
    """
    key = hashlib.sha256(b"\0".join([*_FORM, str(module).encode(), vmfb])).hexdigest()
    with _lock:
        found = _known.get(key)
    if found is None and cache and (payload := disk.read(key)) is not None:
        found = {name: Check(**fields) for name, fields in json.loads(payload).items()}
    if found is None or anew or any(_may_change(check, mode) for check in found.values()):
        found = check_artifact(module, target, vmfb, examples, strategy.name, mode != "always")
        if mode == "parts" and any(check.detail == TOO_LONG for check in found.values()):
            in_parts = check_in_parts(module, target, vmfb, examples, strategy)
            found = {name: in_parts[name] if check.detail == TOO_LONG else check for name, check in found.items()}
        if (
            cache and _first_difference(found) is None
        ):  # a difference is not stored, because the interpreter may be the one at fault
            disk.write(key, json.dumps({name: asdict(check) for name, check in found.items()}).encode())
    with _lock:
        _known[key] = found
    for name, check in found.items():
        _LOG.info("%s: %s", name, check)
    return found
