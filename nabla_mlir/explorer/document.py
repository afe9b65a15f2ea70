"""The content of the page as JSON; `document.schema.json` next to this file describes each field."""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Iterable, Sequence
from importlib import metadata
from typing import Any

from nabla_mlir.explorer.listing import Line
from nabla_mlir.explorer.marks import Origin
from nabla_mlir.explorer.recording import OperationState, Recorder, Row, State
from nabla_mlir.explorer.records import records_of

VERSION = 2
_AROUND = 3  # the number of lines shown before the first and after the last source line of an operation


class Numbers:
    """A table of distinct values, each with a number, so that the JSON stores each value once."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def of(self, value: Any) -> int:
        """The number of a value; a new value is added to the table."""
        if value not in self._numbers:
            self._numbers[value] = len(self.values)
            self.values.append(value)
        return self._numbers[value]


class Document:
    """Builds the JSON of an explanation from the states and rows of a recorder."""

    texts: Numbers

    def __init__(self, title: str, entries: Sequence[str], recorder: Recorder, first: str):
        """Builds the JSON of the states and rows of a recorder.

        Args:
          title: the title of the page.
          entries: the signatures of the entry points.
          recorder: the recorder that has run the passes.
          first: the name of the first state.
        """
        self.texts, self._origins, self._files = Numbers(), Numbers(), Numbers()
        states = [self._state(state, last) for last, state in zip([None, *recorder.states], recorder.states, strict=False)]
        rows = [_row(row) for row in recorder.rows]
        origins = [self._origin(origin) for origin in self._origins.values]
        self.json: dict[str, Any] = {
            "version": VERSION,
            "nabla_mlir": _version("nabla-mlir"),
            "iree": _version("iree-base-compiler"),
            "title": title,
            "entries": list(entries),
            "first": first,
            "texts": self.texts.values,
            "origins": origins,
            "files": [_file(name, origins, i) for i, name in enumerate(self._files.values)],
            "records": records_of(recorder.states),
            "states": states,
            "rows": rows,
        }

    def _state(self, state: State, last: State | None) -> dict[str, Any]:
        """The JSON of a state: its lines and operations, and for each line the index of the equal line of the state
        `last`, or -1.
        """
        ops = state.operations
        same = unchanged(last, state) if last is not None else [-1] * len(state.lines)
        is_mapped = any(op.axes is not None for op in ops)
        axes = {"axes": [None if op.axes is None else list(op.axes) for op in ops]} if is_mapped else {}
        return {
            "text": [self.texts.of(line.text) for line in state.lines],
            "depth": [line.depth for line in state.lines],
            "operation": [line.operation for line in state.lines],
            "same": same,
            "origin": [self._origins.of(op.origin) for op in ops],
            "predecessors": [op.predecessors[0] if len(op.predecessors) == 1 else list(op.predecessors) for op in ops],
            "flops": [op.flops for op in ops],
            "bytes": [op.bytes for op in ops],
            "state_bytes": state.state_bytes,
            "operations": sum(1 for line in state.lines if line.operation >= 0 and line.is_first),
            **axes,
        }

    def _origin(self, origin: Origin) -> dict[str, Any]:
        """The JSON of an origin: its steps, and the frames of the user's lines."""
        frames = [
            {"file": self._files.of(f.filename), "line": f.line, "column": f.column, "end": f.end_column, "function": f.function}
            for f in origin.frames
        ]
        return {"steps": [{"name": s.name, "of": s.of} for s in origin.steps], "frames": frames}


def unchanged(last: State, state: State) -> list[int]:
    """The indices of the lines of `state` in `last`, the state before it; a new line has -1.

    A line is unchanged if its operation has a predecessor with the same text except for the names of values. The indices increase:
    if operations have changed their order, the longest increasing sequence counts as unchanged.
    """
    lines: dict[tuple[int, str], list[int]] = {}
    for i, line in enumerate(last.lines):
        lines.setdefault((line.operation, line.shape), []).append(i)
    matches: list[int] = []  # for each line of `state`, a line of `last` with the same text, or -1
    for line in state.lines:
        candidates = _forerunners(line, state.operations)
        matches.append(next((p[0] for f in candidates if (p := lines.get((f, line.shape)))), -1))
        if matches[-1] >= 0:  # each line of the previous state is paired with at most one line
            key = (last.lines[matches[-1]].operation, line.shape)
            lines[key] = lines[key][1:]
    ordered = set(longest_increasing(matches))
    return [pair if i in ordered else -1 for i, pair in enumerate(matches)]


def _forerunners(line: Line, operations: Sequence[OperationState]) -> Iterable[int]:
    """The numbers of the predecessors of a line's operation; -1 for a line without an operation."""
    return (-1,) if line.operation < 0 else operations[line.operation].predecessors


def longest_increasing(numbers: Sequence[int]) -> list[int]:
    """The indices of a longest increasing subsequence of `numbers`; numbers below zero are ignored.

    Example:
      >>> longest_increasing([3, -1, 0, 1, 4, 2])
      [2, 3, 5]
    """
    tails: list[int] = []  # for each length, the index of the smallest last element of an increasing subsequence
    before: dict[int, int] = {}
    for i, number in enumerate(numbers):
        if number < 0:
            continue
        low, high = 0, len(tails)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if numbers[tails[middle]] < number else (low, middle)
        before[i] = tails[low - 1] if low else -1
        tails[low : low + 1] = [i]
    positions = []
    position = tails[-1] if tails else -1
    while position >= 0:
        positions.append(position)
        position = before[position]
    return positions[::-1]


def _row(row: Row) -> dict[str, Any]:
    """A row of the table of passes as a dict for JSON."""
    return {
        "name": row.name,
        "why": row.why,
        "doc": row.doc,
        "parent": row.parent,
        "before": row.before,
        "after": row.after,
        "seconds": round(row.seconds, 6),
    }


def _file(name: str, origins: Sequence[dict[str, Any]], number: int) -> dict[str, Any]:
    """The JSON of a file of the user: the lines that operations came from, with a few lines before and after them.

    `origins` are the origins of all operations, and `number` is the number of the file in them.
    """
    shown = [frame["line"] for origin in origins for frame in origin["frames"] if frame["file"] == number]
    text = linecache.getlines(name)
    first, last = max(1, min(shown) - _AROUND), min(len(text), max(shown) + _AROUND)
    # The excerpt begins at the start of a function, a class or an import.
    while first > 1 and text[first - 1 : first] and not text[first - 1].startswith(("def ", "class ", "@", "import ", "from ")):
        first -= 1
    lines = [line.rstrip("\n") for line in text[first - 1 : last]]
    return {"path": name, "name": _title(name), "first": first, "lines": lines}


def _title(name: str) -> str:
    """The name of a file; for a cell of a notebook the name in the notebook, such as In[3]."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    cell = None if shell is None else shell.compile.format_code_name(name)
    return cell[1] if cell else os.path.basename(name)


def _version(package: str) -> str:
    """The version of an installed package, or an empty text."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
