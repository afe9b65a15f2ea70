"""How far the outermost loop that a thread runs is, for who shows progress from another thread."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass
class Iterations:
    """The iterations of a loop that are done, and how many there are: 0 outside of loops of known length."""

    done: int = 0
    total: int = 0

    def __str__(self) -> str:
        return f", iteration {self.done + 1} of {self.total}" if self.total > 1 else ""


class _Current(threading.local):
    iterations: Iterations | None = None


_current = _Current()


@contextlib.contextmanager
def counted() -> Iterator[Iterations]:
    """Within it the outermost loops of this thread are counted."""
    outer, _current.iterations = _current.iterations, Iterations()
    try:
        yield _current.iterations
    finally:
        _current.iterations = outer


@contextlib.contextmanager
def outermost(total: int) -> Iterator[Iterations]:
    """The count of a loop that begins; one that nobody reads if nobody asks, or if a loop around it is counted."""
    iterations, _current.iterations = _current.iterations or Iterations(), None
    iterations.done, iterations.total = 0, total
    try:
        yield iterations
    finally:
        iterations.total = 0
        _current.iterations = iterations
