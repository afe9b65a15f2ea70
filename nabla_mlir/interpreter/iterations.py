"""Progress of the outermost loop of a thread, so that another thread can show it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass
class Iterations:
    """The number of finished iterations of a loop, and their total number; 0 outside loops of known length."""

    done: int = 0
    total: int = 0

    def __str__(self) -> str:
        return f", iteration {self.done + 1} of {self.total}" if self.total > 1 else ""


class _Current(threading.local):
    iterations: Iterations | None = None


_current = _Current()


@contextlib.contextmanager
def counted() -> Iterator[Iterations]:
    """A context in which the outermost loops of this thread are counted."""
    outer, _current.iterations = _current.iterations, Iterations()
    try:
        yield _current.iterations
    finally:
        _current.iterations = outer


@contextlib.contextmanager
def outermost(total: int) -> Iterator[Iterations]:
    """A context with the counter of a loop that begins; the counter is unused if nobody shows progress or
    an outer loop is counted.
    """
    iterations, _current.iterations = _current.iterations or Iterations(), None
    iterations.done, iterations.total = 0, total
    try:
        yield iterations
    finally:
        iterations.total = 0
        _current.iterations = iterations
