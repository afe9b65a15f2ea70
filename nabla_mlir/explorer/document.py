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

VERSION = 1
_AROUND = 3  # lines of a file that are shown before the first and behind the last that an operation came from


class Numbers:
    """Values that occur often, and the number of each."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def of(self, value: Any) -> int:
        """The number of a value, a new one if it has none yet."""
        if value not in self._numbers:
            self._numbers[value] = len(self.values)
            self.values.append(value)
        return self._numbers[value]


class Document:
    """Builds the JSON of an explanation from what a recorder has kept."""

    texts: Numbers

    def __init__(self, title: str, entries: Sequence[str], recorder: Recorder, first: str):
        """Args: the title, the signatures of the entry points, the module through its passes, the name of the first state."""
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
            "forerunners": [op.forerunners[0] if len(op.forerunners) == 1 else list(op.forerunners) for op in ops],
            "flops": [op.flops for op in ops],
            "bytes": [op.bytes for op in ops],
            "state_bytes": state.state_bytes,
            "operations": sum(1 for line in state.lines if line.operation >= 0 and line.is_first),
            **axes,
        }

    def _origin(self, origin: Origin) -> dict[str, Any]:
        frames = [
            {"file": self._files.of(f.filename), "line": f.line, "column": f.column, "end": f.end_column, "function": f.function}
            for f in origin.frames
        ]
        return {"steps": [{"name": s.name, "of": s.of} for s in origin.steps], "frames": frames}


def unchanged(last: State, state: State) -> list[int]:
    """The line of the state before that is the same operation, for each line, in the same order; -1 for a new line.

    Lines are the same if they are of one operation and its forerunner, and say the same but for names. Of those as many are
    taken as stand in the same order.
    """
    lines: dict[tuple[int, str], list[int]] = {}
    for i, line in enumerate(last.lines):
        lines.setdefault((line.operation, line.shape), []).append(i)
    pairs: list[int] = []
    for line in state.lines:
        candidates = _forerunners(line, state.operations)
        pairs.append(next((p[0] for f in candidates if (p := lines.get((f, line.shape)))), -1))
        if pairs[-1] >= 0:  # each line of the state before is the same as one at most
            key = (last.lines[pairs[-1]].operation, line.shape)
            lines[key] = lines[key][1:]
    ordered = set(longest_increasing(pairs))
    return [pair if i in ordered else -1 for i, pair in enumerate(pairs)]


def _forerunners(line: Line, operations: Sequence[OperationState]) -> Iterable[int]:
    return (-1,) if line.operation < 0 else operations[line.operation].forerunners


def longest_increasing(numbers: Sequence[int]) -> list[int]:
    """The places of a longest increasing part of `numbers`, those below zero left out.

    Example:
      >>> longest_increasing([3, -1, 0, 1, 4, 2])
      [2, 3, 5]
    """
    tails: list[int] = []  # of the parts of each length, that which ends lowest: the place of its end
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
    """A file of the user's, from some lines before the first line that is asked for to some behind the last."""
    asked = [frame["line"] for origin in origins for frame in origin["frames"] if frame["file"] == number]
    text = linecache.getlines(name)
    first, last = max(1, min(asked) - _AROUND), min(len(text), max(asked) + _AROUND)
    while first > 1 and text[first - 1 : first] and not text[first - 1].startswith(("def ", "class ", "@", "import ", "from ")):
        first -= 1
    lines = [line.rstrip("\n") for line in text[first - 1 : last]]
    return {"path": name, "name": _title(name), "first": first, "lines": lines}


def _title(name: str) -> str:
    """The name of a file; of a notebook's cell what the notebook calls it, such as In[3]."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    cell = None if shell is None else shell.compile.format_code_name(name)
    return cell[1] if cell else os.path.basename(name)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
