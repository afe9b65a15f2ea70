"""One line on standard error that shows the progress of long work; only on terminals and in notebooks.

`watch` is for work that is done once, such as a compilation: its line stays, with the time. `running` is for calls, of which there
may be thousands: its line vanishes with the end of the call. The environment variable NABLA_MLIR_PROGRESS=0 switches both off.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from nabla_mlir.base.locks import after_fork, new_lock

VARIABLE = "NABLA_MLIR_PROGRESS"
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
    """A context for callers that show progress themselves; `watch` writes nothing inside of it."""
    has_line = _line.acquire(blocking=False)
    try:
        yield
    finally:
        if has_line:
            _line.release()


class running:  # noqa: N801  # a context manager
    """Shows `what` and the seconds on a terminal after one second, and nothing after the end.

    A context costs less than a microsecond: one thread for all of them looks for those that take long.

    Args:
      what: the name of the work.
      state: an object whose text is shown after the name, updated four times a second.
    """

    __slots__ = ("is_shown", "start", "state", "what")
    what: str
    state: object
    start: float
    is_shown: bool

    def __init__(self, what: str, state: object = ""):
        self.what, self.state, self.start, self.is_shown = what, state, 0.0, False

    def __enter__(self) -> None:
        if _is_terminal():
            self.start = time.perf_counter()
            _monitor.add(self)

    def __exit__(self, *_: object) -> None:
        if self.start:
            _monitor.remove(self)


def shown(function: Callable[..., Any], what: str) -> Callable[..., Any]:
    """The function that shows the line `what` while `function` runs; `function` itself if standard error is no terminal."""
    if not _is_terminal():
        return function

    def call(*args: Any) -> Any:
        with running(what):
            return function(*args)

    return call


class _Monitor:
    """The contexts `running` that have begun, and a thread that shows the oldest one if it takes long."""

    def __init__(self) -> None:
        self._running: list[running] = []
        self._lock = new_lock()  # the owner writes, or changes the list
        self._has_thread, self._text = False, ""

    def add(self, one: running) -> None:
        """Starts to watch `one`, a context that begins, and starts the thread if necessary."""
        with self._lock:
            self._running.append(one)
            if self._has_thread:
                return
            self._has_thread = True
        threading.Thread(target=self._watch, name="nabla-progress", daemon=True).start()

    def remove(self, one: running) -> None:
        """Ends the watch of `one`, a context that ends, and erases its line."""
        with self._lock:
            self._running.remove(one)
            if one.is_shown:
                _write(sys.stderr, _ERASE)
                self._text = ""
                _line.release()

    def _watch(self) -> None:
        """Shows the oldest context from time to time; the thread ends after a while without contexts."""
        idle = 0
        while idle < _IDLE:
            time.sleep(_AFTER / 4)
            with self._lock:
                idle = 0 if self._running else idle + 1
                if self._running:
                    self._show(self._running[0])
                self._has_thread = idle < _IDLE

    def _show(self, one: running) -> None:
        """Writes the line of the context `one` if it has taken more than a second."""
        seconds = time.perf_counter() - one.start
        if seconds >= _AFTER and (one.is_shown or _line.acquire(blocking=False)):
            one.is_shown = True
            text = f"{one.what}{one.state} ... {seconds:.0f} s"
            if text != self._text:
                _write(sys.stderr, text)
            self._text = text

    def forget(self) -> None:
        """In a fork, which has no thread."""
        self._running, self._has_thread = [], False


_IDLE = 8  # looks of the thread that find nothing, after which it ends
_ERASE = "\033[2K\r"
_monitor = _Monitor()
after_fork(_monitor.forget)


def _is_terminal() -> bool:
    return _is_watched(sys.stderr) and getattr(sys.stderr, "isatty", lambda: False)()


def _count(what: str, state: object, stream: TextIO, end: threading.Event) -> None:
    """Shows the seconds that the work `what` has taken so far on `stream`, again and again until `end` is set."""
    seconds = _AFTER
    while not end.wait(_AFTER):
        _write(stream, f"{what}{state} ... {seconds:.0f} s")
        seconds += _AFTER


def _write(stream: TextIO, text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # the terminal may be closed
        stream.write(f"\r{text}")
        stream.flush()


def _is_watched(stream: TextIO | None) -> bool:
    """True if `stream` is a terminal or a notebook's output, so that a progress line makes sense, and the user has not
    turned it off.
    """
    if stream is None or os.environ.get(VARIABLE) == "0":
        return False
    return type(stream).__module__.startswith("ipykernel.") or getattr(stream, "isatty", lambda: False)()
