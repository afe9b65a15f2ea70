"""Runs IREE's compiler in a separate process: from a StableHLO module to the bytes of a .vmfb.

If the compiler fails (it crashes on some modules), the caller gets a `CompileError` with the useful lines of the output
and a saved reproducer. Results are cached in a dictionary and on disk (`nabla_mlir.compiling.cache`).
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import signal
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

from nabla_mlir.base import thresholds
from nabla_mlir.base.errors import CompileError, SourceRange
from nabla_mlir.base.files import write_files
from nabla_mlir.base.locks import new_lock
from nabla_mlir.base.log import logger
from nabla_mlir.compiling import cache as disk
from nabla_mlir.compiling.held_references import held
from nabla_mlir.compiling.references import lost_buffers
from nabla_mlir.targets import Target, merge_flags
from nabla_mlir.targets import target as as_target
from nabla_mlir.targets.cpu import LOCAL
from nabla_mlir.targets.toolchain import Finished, compiler_version, disassembled, iree_compile, run_compiler

# A rewrite of a module, as bytecode, before code is generated for it. It gets True if the kernels may be in several
# libraries, and returns True if they are.
BeforeCode = Callable[[bytes, bool], tuple[bytes, bool]]

_LOG = logger("cache")
_KEY_VERSION = 1  # the version of the form of key and entry
_MEMORY_ENTRIES = 64
# The verifier would need the names of values in debug output, which nobody reads.
_NO_NAMES = "--mlir-print-assume-verified"
UNVERIFIED = "--verify=false"
_TO_END = ("-", "-o", "-")
# IREE's last phase before code: kernels are functions in executables, both IREE's and those of nabla_mlir.
_KERNELS = "executable-sources"
_SEPARATE = "--iree-hal-link-executables=false"
# Flags that require a single library: C code calls it, the system's linker makes it, or the user requests it.
_ONE_LIBRARY = ("--iree-hal-link", "--iree-llvmcpu-link", "--iree-llvmcpu-static")
# Operations that IREE updates in place: if two wrongly share a buffer, only IREE's verifier detects it, before buffers
# are laid out.
_UPDATES = (b'"stablehlo.scatter"(', b"stablehlo.dynamic_update_slice ")
_LOOP = b"stablehlo.while"
# Operations on sliding windows: IREE's tiles of them may not fit together, which only its verifier detects.
_WINDOWS = (b"stablehlo.convolution", b"stablehlo.reduce_window", b"stablehlo.select_and_scatter")
_BYTECODE = b"ML\xefR"
# Messages of the compiler, its linker and the loader without memory or disk space; an object file may be cut off.
_NO_MEMORY = r"bad_alloc|[Oo]ut of memory|Cannot allocate memory|failed to map segment|pthread_create failed"
_NO_ROOM = r"No space left on device|[Dd]isk quota exceeded|File too large|iree-lld: error: \S+\.o: "
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
    """Compiles a module and returns the artifact.

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
    _LOG.info("%s: %s", key[:12], "not there, it is compiled" if artifact is None else f"read from {disk.cache_dir()}")
    if artifact is None:
        artifact = _compile(source, arguments, timeout, before_code, in_steps)
        disk.write(key, artifact)
    _remember(key, artifact)
    return artifact


def cache_key(source: bytes, arguments: Sequence[str]) -> str:
    """The key of a module in the cache: a hash of the source, all flags (which describe the target) and the compiler's version."""
    header = json.dumps([_KEY_VERSION, compiler_version(), list(arguments)])
    return hashlib.sha256(header.encode() + b"\0" + source).hexdigest()


def clear_memory() -> None:
    """Drops the modules that this process has compiled; those on disk stay."""
    with _lock:
        _memory.clear()


def _remembered(key: str) -> bytes | None:
    with _lock:
        if key in _memory:
            _memory.move_to_end(key)
        return _memory.get(key)


def _remember(key: str, artifact: bytes) -> None:
    with _lock:
        _memory[key] = artifact
        while len(_memory) > _MEMORY_ENTRIES:
            _memory.popitem(last=False)


def _compile(
    source: bytes, arguments: list[str], timeout: float | None, before_code: BeforeCode | None, in_steps: bool
) -> bytes:
    result = _run(source, arguments, timeout, before_code, in_steps)
    if result.returncode == 0 and result.stdout:
        if _LOOP in source and is_artifact(arguments):
            return _with_references(result.stdout, source, arguments)
        return result.stdout
    raise _error(result, source, arguments, timeout)


def _run(
    source: bytes, arguments: list[str], timeout: float | None, before_code: BeforeCode | None, in_steps: bool
) -> Finished:
    """Runs the compiler; a long module is compiled in steps, between which it can be rewritten.

    MLIR verifies the whole module after each pass. For a network of many layers this takes half of the first step and a
    quarter of the last. So a step runs without the verifier, and its result is verified once, when the next step reads
    it. The exception are modules whose wrong buffers or code only the verifier detects (`WITH_REMEDIES`).
    """
    until = None if timeout is None else time.monotonic() + timeout
    module = source
    *others, last = _steps(source, arguments, in_steps)
    for flags in others:
        result = run_compiler([*arguments, *flags, *_TO_END], module, timeout=_left(until))
        if result.timed_out:
            return result
        if result.returncode:  # the verifier gives a more exact reason
            return run_compiler([*arguments, *_TO_END], source, timeout=_left(until))
        module = result.stdout
    code, is_divided = _code_of(module, before_code if others else None, may_divide(arguments))
    result = run_compiler([*arguments, *last, *([_SEPARATE] if is_divided else []), *_TO_END], code, timeout=_left(until))
    if result.returncode and not result.timed_out and (is_divided or UNVERIFIED in last):
        last = tuple(flag for flag in last if flag != UNVERIFIED)
        code, _ = _code_of(module, before_code, may_divide=False)
        return run_compiler([*arguments, *last, *_TO_END], code, timeout=_left(until))
    return result


def _code_of(module: bytes, before_code: BeforeCode | None, may_divide: bool) -> tuple[bytes, bool]:
    if before_code is None:
        return module, False
    try:
        return before_code(module, may_divide)
    except ValueError as error:
        raise CompileError(f"compiling requires a module that can be rewritten behind its streams, got {error}.") from None


def may_divide(arguments: Sequence[str]) -> bool:
    """True if the artifact may have several libraries with these flags."""
    return set(LOCAL) <= set(arguments) and not any(a.startswith(_ONE_LIBRARY) for a in arguments)


def _steps(source: bytes, arguments: Sequence[str], in_steps: bool) -> list[tuple[str, ...]]:
    """The flags of each step of a compilation."""
    # In bytecode, neither lines nor operations can be counted.
    is_short = source.startswith(_BYTECODE) or source.count(b"\n") < thresholds.VERIFIED_ONCE
    if not in_steps and (is_short or not is_artifact(arguments)):
        return [()]
    to_flow, to_kernels = _to("flow"), _to(_KERNELS)
    last: tuple[str, ...] = (f"--compile-from={_KERNELS}", _NO_NAMES)
    if set(LOCAL) <= set(arguments) and not is_short and not any(window in source for window in _WINDOWS):
        last = (*last, UNVERIFIED)
    if _LOOP not in source and sum(map(source.count, _UPDATES)) < 2:
        return [(*to_kernels, UNVERIFIED), last]
    return [(*to_flow, UNVERIFIED), ("--compile-from=flow", *to_kernels), last]


def _to(phase: str) -> tuple[str, ...]:
    return (f"--compile-to={phase}", "--emit-mlir-bytecode", _NO_NAMES)


def _left(until: float | None) -> float | None:
    return None if until is None else max(until - time.monotonic(), 0.0)


def is_artifact(arguments: Sequence[str]) -> bool:
    """True if the compiler produces an artifact for the runtime with these flags."""
    return not any(a.startswith(("--compile-to", "--compile-from", "--compile-mode", "--output-format")) for a in arguments)


def _with_references(artifact: bytes, source: bytes, arguments: list[str]) -> bytes:
    """The artifact, corrected so that loops hold their buffers as long as these are used."""
    text = disassembled(artifact)
    if not lost_buffers(text):
        return artifact
    artifact = held(artifact, text)
    if not (uses := lost_buffers(disassembled(artifact))):
        return artifact
    raise CompileError(
        f"compiling requires code that keeps the buffers of its loops, got a fault of IREE in {len(uses)} place(s): "
        "a loop would use a buffer that it has given away." + _indented([line[:100] for line in uses[:2]]),
        help="write the loop with other carries; please report it.",
        reproducer=_save_reproducer(source, arguments, "\n".join(uses)),
    )  # fmt: skip


def _error(result: Finished, source: bytes, arguments: list[str], timeout: float | None) -> CompileError:
    """The error for a failed run of the compiler, with the useful lines of its output and a saved reproducer."""
    reproducer = _save_reproducer(source, arguments, result.stderr)
    where = None
    if result.timed_out:
        message = f"compiling requires that the compiler ends within {timeout:g} s, got no result in that time."
    elif lack := _lack(result):
        message = f"compiling requires {lack[0]}, got an end of the compiler ({_signal(result)})."
    elif result.returncode < 0:
        message = f"compiling requires a module that IREE can handle, got a crash of the compiler ({_signal(result)})."
        message += _indented(_frames(result.stderr))
    else:
        errors = _errors(result.stderr)
        message = (
            f"compiling requires a module that IREE accepts, got {len(errors) or 'an unknown number of'} error(s)."
        )
        message += _indented(errors or result.stderr.splitlines()[-5:])
        where = _position(result.stderr)
    return CompileError(message, where=where, help=_help(result, reproducer), reproducer=reproducer)


def _lack(result: Finished) -> tuple[str, str] | None:
    """The resource that the machine did not give the compiler, and advice; None if the module caused the failure."""
    if result.timed_out or result.returncode == 0:
        return None
    if _signal(result) in ("SIGKILL", "SIGTERM"):
        return ("a compiler that nobody ends", "the system does so where memory is short, and batch systems after a time limit: "
                "free memory, or compile less at once; then call it again.")  # fmt: skip
    folder = tempfile.gettempdir()
    if _signal(result) == "SIGXFSZ" or re.search(_NO_ROOM, result.stderr):
        return f"room for its files in {folder}", "free some there, or set TMPDIR to a folder that has more."
    if re.search(_NO_MEMORY, result.stderr):
        return "memory and threads", "free some, raise the limits of the process (ulimit -v, ulimit -u), or compile less at once."
    return None


def _help(result: Finished, reproducer: str) -> str:
    if lack := _lack(result):
        return lack[1]
    if symbols := sorted(set(re.findall(r"undefined symbol: (\w+)", result.stderr))):
        return (
            f"the embedded format has no {', '.join(symbols)}: compute in f32, or where a C library is at hand use "
            "CPU(link_embedded=False) on this machine or nm.save_static_library for another."
        )
    if not reproducer:
        return "no reproducer could be saved: set NABLA_MLIR_CACHE_DIR to a folder that can be written."
    return f"run `sh {reproducer}` to see it again, with the compiler's full output."


def _signal(result: Finished) -> str:
    try:
        return signal.Signals(-result.returncode).name
    except ValueError:
        return f"signal {-result.returncode}" if result.returncode < 0 else f"exit code {result.returncode}"


def _errors(stderr: str) -> list[str]:
    """The lines with errors, without duplicates: at most eight, each of one or two screen lines."""
    lines = [line.strip() for line in stderr.splitlines() if re.search(r"(^|\s|:)error:", line)]
    lines = [line.replace("<stdin>:", "module:") for line in dict.fromkeys(lines)]
    return [line if len(line) <= 240 else line[:237] + "..." for line in lines[:8]]


def _frames(stderr: str) -> list[str]:
    """The passes in which the compiler crashed, innermost first; if none are listed, its functions."""
    passes = re.findall(r"(\w+Pass)::runOnOperation\(", stderr)
    functions = re.findall(r"^\s*#\d+ 0x[0-9a-f]+ (mlir::[\w:]+\w)\(", stderr, re.MULTILINE)
    return [f"in {name}" for name in dict.fromkeys(passes[:2] or functions[:3])]


def _position(stderr: str) -> SourceRange | None:
    """The user's line of the first error; None if the module does not have it."""
    match = re.search(r"^(?!<stdin>)(.+?):(\d+):(\d+): error:", stderr, re.MULTILINE)
    return SourceRange(match[1], int(match[2]), int(match[3])) if match else None


def _indented(lines: Sequence[str]) -> str:
    return "".join(f"\n    {line}" for line in lines)


def _save_reproducer(source: bytes, arguments: list[str], stderr: str) -> str:
    """Saves the input, the output and a script with the command; returns the script's path, or "" if that fails."""
    folder = disk.cache_dir() / "reproducers"
    name = cache_key(source, arguments)[:16]
    suffix = "mlirbc" if source.startswith(_BYTECODE) else "mlir"
    command = shlex.join([str(iree_compile()), *arguments, f"{name}.{suffix}", "-o", "/dev/null"])
    script = f'#!/bin/sh\n# IREE compiler {compiler_version()}\ncd "$(dirname "$0")" && {command}\n'
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_files({
            folder / f"{name}.{suffix}": source, folder / f"{name}.stderr": stderr.encode(), folder / f"{name}.sh": script.encode(),
        })  # fmt: skip
    except OSError:
        return ""
    return str(folder / f"{name}.sh")
