"""The end of a process whose daemon threads are in code of ours: they end, or stop before IREE's code.

Python ends a thread where it next wants the lock of the interpreter, and where that is above code of C++ the process aborts.
"""

from __future__ import annotations

import atexit
import ctypes
import sys
import threading
import time
import weakref
from types import FrameType, TracebackType
from typing import Protocol

WORKER = "nabla-call"  # the name of threads that make calls of the main one
_PATIENCE = 1.0  # seconds for calls to return
_PAUSE = 0.02  # in which the threads of short ones come to their next
_PACKAGE = __name__.partition(".")[0]


class Gate:
    """Stands for a lock when the process ends: some threads never come through it.

    Args:
      threads: their numbers.
    """

    def __init__(self, threads: set[int]):
        self._threads = threads

    def __enter__(self) -> None:
        if threading.get_ident() in self._threads:
            lock = threading.Lock()
            lock.acquire()
            lock.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Nothing is held."""

    def locked(self) -> bool:
        """Nothing is."""
        return False


class Caller(Protocol):
    """What holds its lock while it runs code."""

    _lock: threading.Lock | Gate


_callers: weakref.WeakSet[Caller] = weakref.WeakSet()


def stop_at_exit(caller: Caller) -> None:
    """Lets other threads call it no more when the process ends."""
    _callers.add(caller)


def _packages(frame: FrameType | None) -> set[str]:
    """Those whose code runs in the frame, or waits for what does."""
    names = set()
    while frame is not None:
        names.add(str(frame.f_globals.get("__name__")).partition(".")[0])
        frame = frame.f_back
    return names


def _end(threads: set[int]) -> None:
    """Raises SystemExit, of which nothing is told, in those that are seen in code of ours, until none is.

    Again and again: Python ignores what is raised while it collects garbage. An import would keep its lock.
    """
    end, times_seen_none = time.monotonic() + _PATIENCE, 0
    while times_seen_none < 3 and time.monotonic() < end:
        frames = sys._current_frames()
        packages = {number: _packages(frames[number]) for number in threads & set(frames)}
        ours = [number for number, names in packages.items() if _PACKAGE in names]
        for number in ours:
            if "importlib" not in packages[number]:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(number), ctypes.py_object(SystemExit))
        del frames
        times_seen_none = 0 if ours else times_seen_none + 1
        time.sleep(_PAUSE / 2)


@atexit.register
def _stop() -> None:
    threads = {t.ident for t in threading.enumerate() if t is not threading.current_thread() and t.name != WORKER and t.ident}
    if not threads:
        return
    _end(threads)
    threads &= set(sys._current_frames())
    if not threads:
        return
    gate, callers = Gate(threads), list(_callers)
    locks = {caller._lock for caller in callers}
    for caller in callers:
        caller._lock = gate
    end = time.monotonic() + _PATIENCE
    for lock in locks:
        if not isinstance(lock, Gate):
            lock.acquire(timeout=max(0.0, end - time.monotonic()))  # and holds it: others wait for it already
    time.sleep(_PAUSE)
