"""The results of IREE's own phases, and the times of its named passes, as `iree-compile` reports them."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from nabla_mlir.base.errors import CompileError
from nabla_mlir.explorer.document import Numbers, longest_increasing
from nabla_mlir.explorer.listing import Line, lines_of
from nabla_mlir.explorer.recording import Recorder
from nabla_mlir.targets import Target
from nabla_mlir.targets.base import merge_flags
from nabla_mlir.targets.toolchain import run_compiler

_DOCS = {
    "input": "StableHLO becomes loops over elements: linalg, arith and math.",
    "abi": "Each entry point is wrapped in a function whose arguments and results are buffers.",
    "preprocessing": "The devices of the target are named; nothing else happens on the targets of nabla_mlir.",
    "global-optimization": "Layouts, transposes and constants, for the whole program.",
    "dispatch-creation": "Operations are fused; each group becomes a region that is one kernel.",
    "flow": "Regions become executables, and the program calls them with tensors.",
    "stream": "Tensors become ranges of buffers, and commands on them are put in order.",
    "executable-sources": "Each kernel becomes a separate module, which reads its buffers through bindings.",
    "executable-configurations": "A strategy of code generation is chosen for each kernel, with the sizes of its tiles.",
    "executable-targets": "Code generation: tiles, vectors, buffers, LLVM, and machine code.",
    "hal": "Commands to a device: buffers, kernels, barriers.",
    "vm": "The program becomes instructions of IREE's virtual machine, which are stored in the file.",
}
_FLAGS = (
    "--mlir-timing",
    "--mlir-timing-display=list",
    "--mlir-print-debuginfo",
    "--mlir-elide-elementsattrs-if-larger=8",
    "--mlir-elide-resource-strings-if-larger=64",
)
_MOST_LINES = 1500  # the largest phase that is shown: code generation prints a hundred lines for each operation
_WIDEST = 300  # the number of characters shown of a line: the description of a device has thousands
_PASSES = 30  # the number of slowest passes that are shown
_TIME = re.compile(r"^ *[\d.]+ \( *[\d.]+%\) +([\d.]+) \( *[\d.]+%\)  (\S.*)$")  # user time, wall time, name


# Entries of the report that are no passes: pipelines, analyses, sums, and the pass that writes the phases to files.
_NO_PASS = re.compile(r"Pipeline|::|^root$|^Rest$|^Total$|^\(A\)|^DumpModulePass$")
_MAPS = re.compile(r"#map\d*")  # each text numbers its maps from zero


@dataclass(frozen=True)
class Phases:
    """The phases of IREE for a module, each with its seconds and its text, and the slowest passes with their seconds."""

    names: list[str]
    seconds: list[float]
    texts: list[str]
    passes: list[tuple[str, float]]


def phases_in(recorder: Recorder, target: Target) -> Phases:
    """The phases of IREE for the current module of a recorder, which is compiled for a target.

    Raises:
      CompileError: IREE refuses the module.
    """
    text = recorder.module.operation.get_asm(enable_debug_info=True)
    with tempfile.TemporaryDirectory() as folder:
        flags = merge_flags(target.flags(), (*_FLAGS, f"--dump-compilation-phases-to={folder}"))
        start = time.time()  # this clock is also the clock of the files' times
        result = run_compiler(["-", *flags], text.encode(), timeout=600.0)
        if result.returncode:
            raise CompileError(f"explain requires a module that IREE compiles, got: {result.stderr.splitlines()[:1]}")
        files = sorted(Path(folder).glob("*.mlir"), key=lambda file: int(file.name.split(".")[-3]))
        times = [start, *(file.stat().st_mtime for file in files)]
        return Phases(
            [file.name.split(".")[-2] for file in files],
            [max(0.0, after - before) for before, after in pairwise(times)],
            [file.read_text() for file in files],
            passes_in(result.stderr)[:_PASSES],
        )


def passes_in(report: str) -> list[tuple[str, float]]:
    r"""The passes of a list of `--mlir-timing` with their wall-clock seconds, the slowest first.

    Example:
      >>> passes_in("    1.2 ( 9.0%)    0.5 ( 8.0%)  CSEPass\n    1.2 ( 9.0%)    0.7 ( 9.0%)  'func.func' Pipeline")
      [('CSEPass', 0.5)]
    """
    found = [match for line in report.splitlines() if (match := _TIME.match(line))]
    return [(match[2], float(match[1])) for match in found if not _NO_PASS.search(match[2])]


def document_of(phases: Phases, texts: Numbers, recorder: Recorder) -> dict[str, Any]:
    """The JSON of IREE's phases and passes; its numbers of operations refer to the last state of the recorder.

    `texts` gives each text of a line a number, under which the page stores it.
    """
    last: list[Line] = []
    before = ""  # the IR after the last phase, without the names of values
    items = []
    for name, seconds, text in zip(phases.names, phases.seconds, phases.texts, strict=True):
        lines = lines_of("\n".join(line for line in text.splitlines() if not line.startswith("#") or line.startswith("#loc")))
        now = "\n".join(line.shape for line in lines)
        item: dict[str, Any] = {
            "name": name,
            "doc": _DOCS.get(name, ""),
            "seconds": round(seconds, 4),
            "changed": now != before,
            "length": len(lines),
        }
        if now != before and len(lines) <= _MOST_LINES:
            item |= {
                "text": [texts.of(line.text if len(line.text) <= _WIDEST else f"{line.text[:_WIDEST]} …") for line in lines],
                "depth": [line.depth for line in lines],
                "operation": [recorder.position_of(line.operation) if line.operation >= 0 else -1 for line in lines],
                "same": same_lines(last, lines),
            }
            last = lines
        before = now
        items.append(item)
    return {"phases": items, "passes": [{"name": name, "seconds": seconds} for name, seconds in phases.passes]}


def same_lines(before: Sequence[Line], after: Sequence[Line]) -> list[int]:
    """The indices of the lines of `after` in `before`; a new line has -1. Equal lines may have other names of values.

    Only equal lines in the same order count, so a moved line is new: a b c before and c a b after give -1 0 1.
    """
    positions: dict[str, list[int]] = {}
    for i, line in reversed(list(enumerate(before))):
        positions.setdefault(_MAPS.sub("#map", line.shape), []).append(i)
    # For each line of `after`, a line of `before` with the same text, or -1.
    matches = [candidates.pop() if (candidates := positions.get(_MAPS.sub("#map", line.shape))) else -1 for line in after]
    ordered = set(longest_increasing(matches))
    return [pair if i in ordered else -1 for i, pair in enumerate(matches)]
