"""One line on standard error while something takes long: for those who watch, and for nobody else."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import TextIO

from nabla_mlir.locks import new_lock

_AFTER = 1.0  # seconds that nobody minds
_line = new_lock()  # held by who writes on the line


@contextlib.contextmanager
def watch(what: str, state: object = "") -> Iterator[None]:
    """Says what is done once it has taken a second, counts the seconds, and says at the end how many they were.

    On a terminal or in a notebook; silent when piped, within another line, and while another thread has one.

    Args:
      what: is done.
      state: stands behind it, each second as it is then.
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
    """For who shows progress in another way: nothing is written inside."""
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
    with contextlib.suppress(OSError, ValueError):  # whoever watched has gone
        stream.write(f"\r{text}")
        stream.flush()


def _is_watched(stream: TextIO | None) -> bool:
    if stream is None:
        return False
    return type(stream).__module__.startswith("ipykernel.") or getattr(stream, "isatty", lambda: False)()
