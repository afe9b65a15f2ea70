"""Output of the commands: formatted on a terminal if rich is installed, plain in a pipe."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TextIO

from nabla_mlir.base.progress import own_line, watch


def _console(stream: object) -> object | None:
    """A console of rich; None if rich is not installed or the stream is not a terminal."""
    if not getattr(stream, "isatty", lambda: False)():
        return None
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(file=stream)  # type: ignore[arg-type]


def colored(stream: TextIO) -> bool:
    """True if output has colors: on a terminal, unless NO_COLOR is set."""
    return stream.isatty() and not os.environ.get("NO_COLOR")


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table with a title, the names of its columns, and its rows of texts: with rich on a terminal, else aligned."""
    console = _console(sys.stdout)
    if console is not None:
        from rich.markup import escape
        from rich.table import Table

        table = Table(title=title, title_justify="left", title_style="bold", header_style="dim")
        for column in columns:
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(*map(escape, row))
        console.print(table)  # type: ignore[attr-defined]
        return
    print(title)
    widths = [max(len(cell) for cell in column) for column in zip(columns, *rows, strict=True)]
    for row in [columns, *rows]:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


class Progress:
    """The steps of a long command on standard error: shown on a terminal, silent when piped."""

    def __init__(self) -> None:
        self._console = _console(sys.stderr)
        self._shown = self._console is not None or sys.stderr.isatty()

    @contextlib.contextmanager
    def step(self, what: str) -> Iterator[None]:
        """A context that shows a step while it runs, and afterwards its duration."""
        start = time.perf_counter()
        if self._console is not None:
            with self._console.status(f"{what} ..."), own_line():  # type: ignore[attr-defined]
                yield
        else:
            with own_line():
                yield
        if self._shown:
            self.say(f"{what:40} {time.perf_counter() - start:6.2f} s")

    @contextlib.contextmanager
    def status(self, what: str) -> Iterator[None]:
        """A context that shows a text until its end."""
        if self._console is None:
            with watch(what):
                yield
        else:
            with self._console.status(f"{what} ..."), own_line():  # type: ignore[attr-defined]
                yield

    def say(self, text: str) -> None:
        """Prints a line on a terminal."""
        if self._shown:
            print(text, file=sys.stderr)
