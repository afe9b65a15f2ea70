"""Runs IREE's compiler in a separate process: from a StableHLO module to the bytes of a .vmfb.

If the compiler fails (it crashes on some modules), the caller gets a `CompileError` with the useful lines of the output
and a saved reproducer. Results are cached in a dictionary and on disk (`nabla_mlir.compiling.cache`).
"""

from __future__ import annotations

import hashlib
import json
import shlex
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

from nabla_mlir.base.errors import CompileError
from nabla_mlir.base.files import write_files
from nabla_mlir.base.locks import new_lock
from nabla_mlir.base.log import logger
from nabla_mlir.compiling import cache as disk
from nabla_mlir.compiling.internals import messages, phases
from nabla_mlir.compiling.internals.block_arguments import OVERWRITTEN, overwritten, reordered
from nabla_mlir.compiling.internals.held_references import held
from nabla_mlir.compiling.internals.references import LOST_BUFFER, lost_buffers
from nabla_mlir.targets import Target, merge_flags
from nabla_mlir.targets import target as as_target
from nabla_mlir.targets.toolchain import Finished, compiler_version, disassembled, iree_compile, run_compiler

# A rewrite of a module, as bytecode, before code is generated for it. It gets True if the kernels may be in several
# libraries, and returns True if they are.
BeforeCode = Callable[[bytes, bool], tuple[bytes, bool]]

_LOG = logger("cache")
_KEY_VERSION = 2  # of the form of key and entry, and of the corrections of artifacts: a new one leaves old entries unread
_MEMORY_ENTRIES = 64
_TO_END = ("-", "-o", "-")
_memory: OrderedDict[str, bytes] = OrderedDict()
_lock = new_lock()


def compile_module(
    source: bytes | str,
    target: str | Target = "cpu",
    *,
    flags: Sequence[str] = (),
    cache: bool = True,
    timeout: float | None = 1800.0,
    before_code: BeforeCode | None = None,
    in_steps: bool = False,
) -> bytes:
    """The artifact of a module, compiled or from the cache.

    Args:
      source: the module as MLIR text or bytecode. Locations in it appear in errors and not in the artifact, but they
        are part of the cache key: leave them out of the source if a moved line should still hit the cache.
      target: a target or its name.
      flags: additional flags of iree-compile; they override those of the target.
      cache: True reads the result from the cache, and stores it there.
      timeout: the seconds after which the compiler is stopped.
      before_code: a rewrite of a module that is compiled in steps; it raises ValueError if it fails. The source must
        determine the rewrite, because the source is the key in the cache.
      in_steps: True compiles a short module in steps, too.

    Raises:
      CompileError: the compiler refused the module, crashed, took too long or is not installed.
      TargetError: the target is unknown or cannot be described on this machine.
    """
    if isinstance(source, str):
        source = source.encode()
    arguments = merge_flags(as_target(target).flags(), list(flags))
    if not cache:
        return _compile(source, arguments, timeout, before_code, in_steps)
    key = cache_key(source, arguments)
    if (artifact := _remembered(key)) is not None:
        _LOG.info("%s: compiled before in this process", key[:12])
        return artifact
    artifact = disk.read(key)
    _LOG.info("%s: %s", key[:12], "not in the cache, it is compiled" if artifact is None else f"read from {disk.cache_dir()}")
    if artifact is None:
        artifact = _compile(source, arguments, timeout, before_code, in_steps)
        disk.write(key, artifact)
    _remember(key, artifact)
    return artifact


def cache_key(source: bytes, arguments: Sequence[str]) -> str:
    """The key of a module in the cache: a hash of the source, of all flags, and of the compiler's version.

    The flags (`arguments`) include those that describe the target.
    """
    header = json.dumps([_KEY_VERSION, compiler_version(), list(arguments)])
    return hashlib.sha256(header.encode() + b"\0" + source).hexdigest()


def clear_memory() -> None:
    """Drops the modules that this process has compiled; those on disk stay."""
    with _lock:
        _memory.clear()


def _remembered(key: str) -> bytes | None:
    """The artifact that this process stored under a key of the cache; None if there is none."""
    with _lock:
        if key in _memory:
            _memory.move_to_end(key)
        return _memory.get(key)


def _remember(key: str, artifact: bytes) -> None:
    """Stores an artifact in this process under its key; the least recently used ones are dropped beyond `_MEMORY_ENTRIES`."""
    with _lock:
        _memory[key] = artifact
        while len(_memory) > _MEMORY_ENTRIES:
            _memory.popitem(last=False)


def _compile(source: bytes, arguments: list[str], timeout: float | None, before_code: BeforeCode | None, in_steps: bool) -> bytes:
    """The artifact (.vmfb) of a module, compiled without the cache; raises CompileError if the compiler fails.

    Args:
      source: the module as MLIR text or bytecode.
      arguments: all flags of iree-compile.
      timeout: the seconds after which the compiler is stopped; None means any.
      before_code, in_steps: as for `compile_module`.
    """
    result = _run(source, arguments, timeout, before_code, in_steps)
    if result.returncode == 0 and result.stdout:
        if phases.is_artifact(arguments) and any(op in source for op in phases.BRANCHES):
            return _with_right_blocks(result.stdout, source, arguments)
        return result.stdout
    raise _error(result, source, arguments, timeout)


def _run(source: bytes, arguments: list[str], timeout: float | None, before_code: BeforeCode | None, in_steps: bool) -> Finished:
    """The output and exit code of the compiler; a long module is compiled in steps, between which it can be rewritten.

    A step runs without the verifier, and the next step verifies its result (`internals/phases.py`). The exception are modules whose
    wrong buffers or code only the verifier detects (`WITH_REMEDIES`). If a step fails, the module is compiled again with the
    verifier, whose reason is more exact. The arguments are those of `_compile`.
    """
    until = None if timeout is None else time.monotonic() + timeout
    module = source
    *others, last = phases.steps(source, arguments, in_steps)
    for flags in others:
        result = run_compiler([*arguments, *flags, *_TO_END], module, timeout=_left(until))
        if result.timed_out:
            return result
        if result.returncode:  # the verifier gives a more exact reason
            return run_compiler([*arguments, *_TO_END], source, timeout=_left(until))
        module = result.stdout
    code, is_divided = _code_of(module, before_code if others else None, phases.may_divide(arguments))
    result = run_compiler([*arguments, *last, *([phases.SEPARATE] if is_divided else []), *_TO_END], code, timeout=_left(until))
    if result.returncode and not result.timed_out and (is_divided or phases.UNVERIFIED in last):
        last = tuple(flag for flag in last if flag != phases.UNVERIFIED)
        code, _ = _code_of(module, before_code, may_divide=False)
        return run_compiler([*arguments, *last, *_TO_END], code, timeout=_left(until))
    return result


def _code_of(module: bytes, before_code: BeforeCode | None, may_divide: bool) -> tuple[bytes, bool]:
    """The module after the rewrite between two steps of the compiler, and True if it divided the kernels among several libraries.

    `module` is bytecode; without a rewrite (None) it is returned as it is. Raises CompileError if the rewrite fails.
    """
    if before_code is None:
        return module, False
    try:
        return before_code(module, may_divide)
    except ValueError as error:
        raise CompileError(f"compiling requires a module that can be rewritten after the stream phase, got {error}.") from None


def _left(until: float | None) -> float | None:
    """The seconds until `until`, a time of `time.monotonic`; None without a limit."""
    return None if until is None else max(until - time.monotonic(), 0.0)


def _with_right_blocks(artifact: bytes, source: bytes, arguments: list[str]) -> bytes:
    """The artifact with two faults of IREE's branches corrected; raises CompileError if that is not possible.

    Blocks must get the numbers that branches pass, and buffers must stay alive while they are used. The source and the flags of the
    compiler (`arguments`) are saved for a report if that fails.
    """
    text = disassembled(artifact)
    for fault, find, correct, effect in (
        (OVERWRITTEN, overwritten, reordered, "a branch would overwrite a number before it copies it"),
        (LOST_BUFFER, lost_buffers, held, "a loop would use a buffer that it has released"),
    ):
        if not find(text):
            continue
        artifact = correct(artifact, text)
        text = disassembled(artifact)
        if uses := find(text):
            raise CompileError(
                f"compiling requires code that keeps the values of its loops and branches, got a fault of IREE at {len(uses)} "
                f"position(s): {effect}." + _indented([line[:100] for line in uses[:2]]),
                help="write the loop or branch with other carries or results; please report it.",
                reproducer=_save_reproducer(source, arguments, "\n".join(uses)),
                fault=fault,
            )
    return artifact


def _error(result: Finished, source: bytes, arguments: list[str], timeout: float | None) -> CompileError:
    """The error for a failed run of the compiler, with the useful lines of its output and a saved reproducer.

    Args:
      result: the output and the exit code of the compiler.
      source: its input.
      arguments: its flags.
      timeout: the seconds after which it was stopped.
    """
    reproducer = _save_reproducer(source, arguments, result.stderr)
    where, fault = None, ""
    if result.timed_out:
        message = f"compiling requires that the compiler ends within {timeout:g} s, got no result in that time."
    elif missing := messages.missing_resource(result):
        message = f"compiling requires {missing[0]}, got an end of the compiler ({messages.signal_of(result)})."
    elif result.returncode < 0:
        message = f"compiling requires a module that IREE can handle, got a crash of the compiler ({messages.signal_of(result)})."
        message += _indented(messages.frames(result.stderr))
    else:
        errors = messages.errors(result.stderr)
        message = f"compiling requires a module that IREE accepts, got {len(errors) or 'an unknown number of'} error(s)."
        message += _indented(errors or result.stderr.splitlines()[-5:])
        where, fault = messages.position(result.stderr), messages.fault_of(result.stderr)
    return CompileError(message, where=where, help=messages.advice(result, reproducer), reproducer=reproducer, fault=fault)


def _indented(lines: Sequence[str]) -> str:
    """The lines as text to append to a message, each on a line of its own."""
    return "".join(f"\n    {line}" for line in lines)


def _save_reproducer(source: bytes, arguments: list[str], stderr: str) -> str:
    """The path of a script that repeats a failed compilation, which is saved with the input and the output; "" if that fails.

    `arguments` are the flags of the compiler, and `stderr` is its output.
    """
    folder = disk.cache_dir() / "reproducers"
    name = cache_key(source, arguments)[:16]
    suffix = "mlirbc" if source.startswith(phases.BYTECODE) else "mlir"
    command = shlex.join([str(iree_compile()), *arguments, f"{name}.{suffix}", "-o", "/dev/null"])
    script = f'#!/bin/sh\n# IREE compiler {compiler_version()}\ncd "$(dirname "$0")" && {command}\n'
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_files(
            {
                folder / f"{name}.{suffix}": source,
                folder / f"{name}.stderr": stderr.encode(),
                folder / f"{name}.sh": script.encode(),
            }
        )
    except OSError:
        return ""
    return str(folder / f"{name}.sh")
