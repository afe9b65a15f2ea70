"""Finds and runs IREE's compiler, always in a separate process: a crash of it does not affect this one."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import importlib.util
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from nabla_mlir.base.errors import CompileError, writing

_SUFFIX = ".exe" if sys.platform == "win32" else ""


@dataclass(frozen=True)
class Finished:
    """The outcome of a process: its exit code (negative: the signal that killed it), or `timed_out`."""

    returncode: int
    stdout: bytes
    stderr: str
    timed_out: bool = False


@functools.cache
def iree_compile() -> Path:
    """The path of the `iree-compile` program.

    Raises:
      CompileError: the compiler is not installed.
    """
    try:
        spec = importlib.util.find_spec("iree.compiler")
    except ModuleNotFoundError:
        spec = None
    if spec is not None and spec.submodule_search_locations:
        path = Path(next(iter(spec.submodule_search_locations))) / "_mlir_libs" / f"iree-compile{_SUFFIX}"
        if path.exists():
            return path
    raise CompileError(
        "compiling requires IREE's compiler, got an environment without it.",
        help="pip install iree-base-compiler (an artifact that is already compiled needs only iree-base-runtime).",
    )


def has_compiler() -> bool:
    """True if IREE's compiler is installed."""
    try:
        iree_compile()
    except CompileError:
        return False
    return True


@functools.cache
def triton_version() -> str:
    """The version of the installed Triton, whose compiler makes kernels for NVIDIA GPUs; "" if there is none."""
    if sys.platform != "linux" or importlib.util.find_spec("triton") is None:
        return ""
    try:
        return importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        return ""


@functools.cache
def compiler_version() -> str:
    """The version of the installed compiler with its source revision.

    Example:
      >>> compiler_version()
      '3.13.0rc20261016 @ 89ece87b89852100c0a4ac3d515e14842d090967'
    """
    facts = runpy.run_path(str(iree_compile().parent.with_name("version.py")))  # to run the compiler takes 20 ms
    return f"{facts['VERSION']} @ {facts['REVISIONS']['IREE']}"


def disassembled(artifact: bytes) -> str:
    """The host program of an artifact as text, from `iree-dump-module`.

    Raises:
      SaveError: the folder for temporary files has no room for the artifact.
    """
    spec = importlib.util.find_spec("iree._runtime_libs")
    assert spec is not None  # a dependency
    assert spec.submodule_search_locations
    tool = Path(next(iter(spec.submodule_search_locations))) / f"iree-dump-module{_SUFFIX}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "module.vmfb"
        with writing(folder):
            path.write_bytes(artifact)
        process = subprocess.run([tool, "--output=disassembly", path], capture_output=True, text=True, check=True)
    return process.stdout


def run_compiler(arguments: list[str], stdin: bytes, *, timeout: float | None = None, program: str = "iree-compile") -> Finished:
    """Runs `iree-compile`, or a program next to it, to its end; its failure does not affect this process."""
    return run_process([str(iree_compile().with_name(f"{program}{_SUFFIX}")), *arguments], stdin, timeout=timeout)


def run_process(command: list[str], stdin: bytes, *, timeout: float | None = None) -> Finished:
    """Runs a program to its end; its failure does not affect this process.

    The child process has its own session, so that a timeout or an interrupt also ends a linker that it has started. The child
    ends when the calling thread ends, even if the parent process is killed.
    """
    process = subprocess.Popen(
        [*_bound_to_parent(), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        stdout, stderr = process.communicate(stdin, timeout=timeout)
    except subprocess.TimeoutExpired:
        _kill(process)
        return Finished(process.returncode, b"", "", timed_out=True)
    except BaseException:
        _kill(process)
        raise
    return Finished(process.returncode, stdout, stderr.decode(errors="replace"))


@functools.cache
def _bound_to_parent() -> tuple[str, ...]:
    """The start of a command line that makes the kernel end the process when this process ends; empty if not available.

    A compiler for which nobody waits may run for hours, and use many gigabytes.
    """
    setpriv = shutil.which("setpriv") if sys.platform == "linux" else None
    if setpriv is None:
        return ()
    prefix = (setpriv, "--pdeathsig", "KILL", "--")
    is_known = subprocess.run([*prefix, setpriv, "--version"], stdin=subprocess.DEVNULL, capture_output=True).returncode == 0
    return prefix if is_known else ()  # BusyBox has another program with that name


_PARSING = 20.0  # seconds for bytecode, plus one for each megabyte; it usually takes a hundredth of that


def bytecode_fault(content: bytes) -> str:
    """The reason why MLIR bytecode cannot be read in this process; "" if it can be read.

    MLIR's reader trusts the lengths in the bytecode, so wrong ones would end the process.
    """
    seconds = _PARSING + len(content) / 1e6
    process = run_compiler(
        ["--allow-unregistered-dialect", "--mlir-disable-threading", "--mlir-elide-elementsattrs-if-larger=8", "-", "-o", "-"],
        content,
        timeout=seconds,
        program="iree-opt",
    )
    if process.timed_out:
        return f"a reader that does not end in {seconds:.0f} seconds"
    if process.returncode == 0:
        return "" if _is_text(process.stdout) else "names that are not UTF-8, which Python's bindings of MLIR cannot hand over"
    first = next((line for line in process.stderr.splitlines() if "error:" in line.lower()), "")
    return first or f"a reader that ended by the signal {-process.returncode}"


def _is_text(module: bytes) -> bool:
    """True if the names of operations in a printed module are valid text.

    MLIR prints unknown names in quotes, with other bytes in hexadecimal digits.
    """
    names = {name for name in re.findall(rb'"((?:[^"\\\n]|\\.)*)"\(', module) if b"\\" in name}
    try:
        for name in names:
            re.sub(rb"\\([0-9A-F]{2})", lambda match: bytes([int(match[1], 16)]), name).decode()
    except UnicodeDecodeError:
        return False
    return True


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Ends a process, with the processes that it has started, and waits for it."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.communicate()
