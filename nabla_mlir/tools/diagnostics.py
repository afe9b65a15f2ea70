"""Diagnostics of the command line tools: collected from MLIR and nabla_mlir, printed in the form of MLIR, and compared with
annotations.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from iree.compiler import ir

from nabla_mlir.base.errors import NablaError
from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.locations import source_of

PARSED = "-"  # the file name that MLIR gives to text from memory
_ATTACHED_OP = "see current operation"


@dataclass(frozen=True)
class Diagnostic:
    """An error, warning, remark or note with its position in the source; line 0 means no position."""

    severity: str
    message: str
    file: str = ""
    line: int = 0
    column: int = 0
    notes: tuple[Diagnostic, ...] = ()

    def render(self, sources: dict[str, str]) -> str:
        """The diagnostic in MLIR's form, with the line of the source and a caret if it is known; `sources` maps file
        names to texts.
        """
        position = f"{self.file}:{self.line}:{self.column}" if self.line else "<unknown>:0"
        lines = [f"{position}: {self.severity}: {self.message}"]
        text = sources.get(self.file, "").splitlines()[self.line - 1 : self.line] if self.line else []
        if text and self.column:
            lines += [text[0], " " * (self.column - 1) + "^"]
        return "\n".join([*lines, *(note.render(sources) for note in self.notes)])


def from_mlir(diagnostic: ir.Diagnostic | ir.DiagnosticInfo, file: str) -> Diagnostic:
    """A copy of MLIR's diagnostic; a position in a text that was parsed from memory gets the name `file`."""
    severity = diagnostic.severity.name.lower()
    notes = tuple(from_mlir(note, file) for note in diagnostic.notes)
    return _at_location(severity, diagnostic.message, diagnostic.location, file, notes)


def _at_location(severity: str, message: str, location: ir.Location, file: str, notes: tuple[Diagnostic, ...] = ()) -> Diagnostic:
    """A diagnostic with the position of a location of MLIR, if it has one; `file` is the name of the text that was parsed.

    `notes` are further diagnostics, which are shown below it.
    """
    where = source_of(location)
    if where is None:
        return Diagnostic(severity, message, notes=notes)
    name = file if where.filename == PARSED else where.filename
    return Diagnostic(severity, message, name, where.line, where.column, notes)


def from_error(error: NablaError, file: str) -> Diagnostic:
    """The diagnostic of an error of nabla_mlir; the help of the error is a note.

    Args:
      file: the name of the file that was parsed; an error of parsed text has no other name.
    """
    where = error.where
    position = ("", 0, 0)
    if where is not None:
        position = (file if where.filename == PARSED else where.filename, where.line, where.column)
    notes = (Diagnostic("note", error.help, *position),) if error.help else ()
    return Diagnostic("error", error.message, *position, notes)


@contextlib.contextmanager
def collected(file: str) -> Iterator[list[Diagnostic]]:
    """A context that collects the diagnostics of MLIR instead of printing them."""
    diagnostics: list[Diagnostic] = []
    ctx = context()
    before = ctx.emit_error_diagnostics

    def handler(diagnostic: ir.Diagnostic) -> bool:
        diagnostics.append(from_mlir(diagnostic, file))
        return True

    handle = ctx.attach_diagnostic_handler(handler)
    ctx.emit_error_diagnostics = True  # otherwise only the exception contains the errors
    try:
        yield diagnostics
    finally:
        ctx.emit_error_diagnostics = before
        handle.detach()


# ---------------------------------------------------------------- expected diagnostics

_EXPECTED = re.compile(
    r"expected-(?P<severity>error|warning|remark|note)(?P<re>-re)? *"
    r"(?P<at>@(?:[+-]\d+|above|below|unknown))? *\{\{(?P<text>.*)\}\}\s*$"
)


@dataclass
class Expectation:
    """An annotation such as ``// expected-error@+1 {{text}}``."""

    severity: str
    line: int
    text: str
    is_regex: bool
    written_at: int
    met: bool = field(default=False)

    def fits(self, diagnostic: Diagnostic) -> bool:
        """True if a diagnostic is the expected one."""
        if self.severity != diagnostic.severity or self.line != diagnostic.line:
            return False
        if not self.is_regex:
            return self.text in diagnostic.message
        parts = re.split(r"\{\{(.*?)\}\}", self.text)
        pattern = "".join(part if i % 2 else re.escape(part) for i, part in enumerate(parts))
        return re.search(pattern, diagnostic.message) is not None


def expectations(text: str) -> list[Expectation]:
    """The expected diagnostics that comments in a source state.

    `@above` and `@below` refer to the next line without an annotation.
    """
    lines = text.splitlines()
    matches = {i: m for i, line in enumerate(lines, 1) if (m := _EXPECTED.search(line))}
    result = []
    for number, match in matches.items():
        at = match["at"] or "@+0"
        if at == "@unknown":
            line = 0
        elif at in ("@above", "@below"):
            step = 1 if at == "@below" else -1
            line = number + step
            while line in matches:
                line += step
        else:
            line = number + int(at[1:])
        result.append(Expectation(match["severity"], line, match["text"], bool(match["re"]), number))
    return result


def compare(text: str, file: str, diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Errors for the differences between the annotations of a source and its diagnostics; an empty list if they agree."""
    annotations = expectations(text)
    problems = []
    for diagnostic in _flat(diagnostics):
        expectation = next((e for e in annotations if not e.met and e.fits(diagnostic)), None)
        if expectation is not None:
            expectation.met = True
            continue
        message = f"unexpected {diagnostic.severity}: {diagnostic.message}"
        problems.append(Diagnostic("error", message, diagnostic.file, diagnostic.line, diagnostic.column))
    for e in annotations:
        if not e.met:
            problems.append(Diagnostic("error", f'expected {e.severity} "{e.text}" was not produced', file, e.written_at))
    return problems


def _flat(diagnostics: Sequence[Diagnostic]) -> Iterator[Diagnostic]:
    """Yields diagnostics, each followed by its notes."""
    for diagnostic in diagnostics:
        yield diagnostic
        yield from _flat([note for note in diagnostic.notes if not note.message.startswith(_ATTACHED_OP)])
