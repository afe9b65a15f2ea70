"""A progress bar on a terminal for passes over data."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec

from nabla_mlir.base.progress import running


@contextlib.contextmanager
def bar(title: str, total: int | None, is_wanted: bool) -> Iterator[Callable[[int], None]]:
    """A context that shows the progress of some work on standard error; it gives a function of the number of finished parts.

    Args:
      title: the name of the work.
      total: the number of parts, if it is known.
      is_wanted: True shows a bar if standard error is a terminal and rich is installed; otherwise there is one line, if the work
        takes more than a second.
    """
    if not is_wanted or (sys.stderr.isatty() and find_spec("rich") is None):
        parts = _Parts(total)
        with running(title, parts):
            yield parts.set
        return
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as display:
        task = display.add_task(title, total=total)
        yield lambda count: display.update(task, completed=count)


class _Parts:
    """The number of finished parts, as text."""

    def __init__(self, total: int | None):
        self._done, self._total = 0, total

    def set(self, count: int) -> None:
        """Sets the number of finished parts."""
        self._done = count

    def __str__(self) -> str:
        """``, 3 of 8``; without a known total ``, 3``."""
        return f", {self._done} of {self._total}" if self._total else f", {self._done}"
