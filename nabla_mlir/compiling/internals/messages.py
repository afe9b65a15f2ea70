"""Messages of IREE's compiler, its linker and the loader: the useful lines, the user's line, and resources that were missing."""

from __future__ import annotations

import re
import signal
import tempfile

from nabla_mlir.base.errors import SourceRange
from nabla_mlir.targets.toolchain import Finished

# Messages without memory or disk space; an object file may be cut off.
_NO_MEMORY = r"bad_alloc|[Oo]ut of memory|Cannot allocate memory|failed to map segment|pthread_create failed"
_NO_ROOM = r"No space left on device|[Dd]isk quota exceeded|File too large|iree-lld: error: \S+\.o: "
# Parts of messages by which a refusal is known to be a certain fault, where no fact about the module tells it.
CIRCULAR, STREAMABLE = "circular_dependency", "streamable_op"  # accepted with barriers around branches and loops
EQUAL_RESULTS = "equal_results_of_a_dispatch"  # accepted with each operation in a dispatch of its own
OF_STRATEGIES = frozenset({CIRCULAR, STREAMABLE, EQUAL_RESULTS})  # accepted with another strategy
FAULTS = {
    "sum_of_small_sums": "failed to legalize operation 'memref.alloc'",
    "wide_convolution": "'linalg.generic' op inferred input/output operand",
    CIRCULAR: "circular dependency",
    STREAMABLE: "streamable op expected to be in an execution region",
    EQUAL_RESULTS: "write affecting operations on global resources",
}


def fault_of(stderr: str) -> str:
    """The name of the fault for which the compiler refuses a module, from its error output; "" if the message is not known.

    Example:
      >>> fault_of("error: circular dependency: input operation uses partition output")
      'circular_dependency'
    """
    text = "\n".join(errors(stderr) or stderr.splitlines()[-5:])
    return next((name for name, part in FAULTS.items() if part in text), "")


def missing_resource(result: Finished) -> tuple[str, str] | None:
    """The resource that the compiler lacked on this machine, and advice, as texts; None if the module caused the failure."""
    if result.timed_out or result.returncode == 0:
        return None
    if signal_of(result) in ("SIGKILL", "SIGTERM"):
        return (
            "a compiler that nobody ends",
            "the system does so where memory is short, and batch systems after a time limit: "
            "free memory, or compile less at once; then call it again.",
        )
    folder = tempfile.gettempdir()
    if signal_of(result) == "SIGXFSZ" or re.search(_NO_ROOM, result.stderr):
        return f"room for its files in {folder}", "free some there, or set TMPDIR to a folder that has more."
    if re.search(_NO_MEMORY, result.stderr):
        return "memory and threads", "free some, raise the limits of the process (ulimit -v, ulimit -u), or compile less at once."
    return None


def advice(result: Finished, reproducer: str) -> str:
    """The help text of the error for a failed run; `reproducer` is the path of a script that repeats the failure, or ""."""
    if missing := missing_resource(result):
        return missing[1]
    if symbols := sorted(set(re.findall(r"undefined symbol: (\w+)", result.stderr))):
        return (
            f"the embedded format has no {', '.join(symbols)}: compute in f32, or where a C library is at hand use "
            "CPU(link_embedded=False) on this machine or nm.save_static_library for another."
        )
    if "floating-point registers are unavailable" in result.stderr:
        return "the CPU of this triple has none for numbers: for ARM with 32 bits use triple='armv7a-linux-gnueabihf'."
    if not reproducer:
        return "no reproducer could be saved: set NABLA_MLIR_CACHE_DIR to a folder that can be written."
    return f"run `sh {reproducer}` to see it again, with the compiler's full output."


def signal_of(result: Finished) -> str:
    """The name of the signal that ended the compiler, or its exit code."""
    try:
        return signal.Signals(-result.returncode).name
    except ValueError:
        return f"signal {-result.returncode}" if result.returncode < 0 else f"exit code {result.returncode}"


def errors(stderr: str) -> list[str]:
    """The lines with errors in the compiler's output, without duplicates: at most eight, each of one or two screen lines."""
    lines = [line.strip() for line in stderr.splitlines() if re.search(r"(^|\s|:)error:", line)]
    lines = [line.replace("<stdin>:", "module:") for line in dict.fromkeys(lines)]
    return [line if len(line) <= 240 else line[:237] + "..." for line in lines[:8]]


def frames(stderr: str) -> list[str]:
    """The passes in which the compiler crashed, from its output, innermost first; if none are listed, its functions."""
    passes = re.findall(r"(\w+Pass)::runOnOperation\(", stderr)
    functions = re.findall(r"^\s*#\d+ 0x[0-9a-f]+ (mlir::[\w:]+\w)\(", stderr, re.MULTILINE)
    return [f"in {name}" for name in dict.fromkeys(passes[:2] or functions[:3])]


def position(stderr: str) -> SourceRange | None:
    """The user's line of the first error in the compiler's output; None if the module does not have it."""
    match = re.search(r"^(?!<stdin>)(.+?):(\d+):(\d+): error:", stderr, re.MULTILINE)
    return SourceRange(match[1], int(match[2]), int(match[3])) if match else None
