"""One line on standard error that shows the progress of long work; only on terminals and in notebooks."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import TextIO

from nabla_mlir.base.locks import new_lock

_AFTER = 1.0  # seconds of work that show nothing
_line = new_lock()  # the owner writes the line


@contextlib.contextmanager
def watch(what: str, state: object = "") -> Iterator[None]:
    """Shows `what` after one second, counts the seconds, and shows the total time at the end.

    It works on a terminal or in a notebook. It is silent if standard error is piped, inside another `watch`, and while
    another thread shows a line.

    Args:
      what: the name of the work.
      state: an object whose text is shown after the name, updated each second.
    """
    if not _is_watched(sys.stderr) or not _line.acquire(blocking=False):
        yield
        return
    start, end = time.perf_counter(), threading.Event()
    thread = threading.Thread(target=_count, args=(what, state, sys.stderr, end), daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()
        if (seconds := time.perf_counter() - start) >= _AFTER:
            _write(sys.stderr, f"{what}: {seconds:.1f} s\n")
        _line.release()


@contextlib.contextmanager
def own_line() -> Iterator[None]:
    """A context for callers that show progress themselves: `watch` writes nothing inside it."""
    mine = _line.acquire(blocking=False)
    try:
        yield
    finally:
        if mine:
            _line.release()


def _count(what: str, state: object, stream: TextIO, end: threading.Event) -> None:
    seconds = _AFTER
    while not end.wait(_AFTER):
        _write(stream, f"{what}{state} ... {seconds:.0f} s")
        seconds += _AFTER


def _write(stream: TextIO, text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # the terminal may be closed
        stream.write(f"\r{text}")
        stream.flush()


def _is_watched(stream: TextIO | None) -> bool:
    if stream is None:
        return False
    return type(stream).__module__.startswith("ipykernel.") or getattr(stream, "isatty", lambda: False)()
