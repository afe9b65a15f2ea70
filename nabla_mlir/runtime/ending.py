"""The end of a process whose daemon threads run nabla_mlir: they end, or stop before they enter IREE's code.

At exit, Python ends a thread when it next requests the interpreter lock. If C++ frames are on its stack then, the
process aborts.
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

WORKER = "nabla-call"  # the name of threads that run calls for the main thread
_PATIENCE = 1.0  # seconds in which calls may return
_PAUSE = 0.02  # seconds in which a thread with short calls reaches its next call
_PACKAGE = __name__.partition(".")[0]


class Gate:
    """Replaces a lock when the process ends: threads in `threads` block forever when they acquire it.

    Args:
      threads: the identifiers of these threads.
    """

    def __init__(self, threads: set[int]):
        self._threads = threads

    def __enter__(self) -> None:
        """Blocks forever in one of the threads; other threads pass."""
        if threading.get_ident() in self._threads:
            lock = threading.Lock()
            lock.acquire()
            lock.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Does nothing, because no lock is held."""

    def locked(self) -> bool:
        """Always False."""
        return False


class Caller(Protocol):
    """An object that holds its lock while it runs code."""

    _lock: threading.Lock | Gate


_callers: weakref.WeakSet[Caller] = weakref.WeakSet()


def stop_at_exit(caller: Caller) -> None:
    """Registers a caller: when the process ends, other threads can no longer call it."""
    _callers.add(caller)


def _packages(frame: FrameType | None) -> set[str]:
    """The names of the top-level packages whose functions are on the stack above `frame`, such as numpy and nabla_mlir."""
    names = set()
    while frame is not None:
        names.add(str(frame.f_globals.get("__name__")).partition(".")[0])
        frame = frame.f_back
    return names


def _end(threads: set[int]) -> None:
    """Raises SystemExit in those of the threads (identifiers) that run nabla_mlir, until none does or a second is over.

    It is raised repeatedly, because Python ignores exceptions during garbage collection. A thread in an import is spared, because
    the import would keep its lock.
    """
    end, times_seen_none = time.monotonic() + _PATIENCE, 0
    while times_seen_none < 3 and time.monotonic() < end:
        frames = sys._current_frames()
        packages = {number: _packages(frames[number]) for number in threads & set(frames)}
        ours = [number for number, names in packages.items() if _PACKAGE in names]
        for number in ours:
            if "importlib" not in packages[number]:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(number), ctypes.py_object(SystemExit))
        del frames  # a frame keeps its variables alive
        times_seen_none = 0 if ours else times_seen_none + 1
        time.sleep(_PAUSE / 2)


@atexit.register
def _stop() -> None:
    """Ends or blocks the daemon threads that run nabla_mlir; Python calls it before it ends."""
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
            lock.acquire(timeout=max(0.0, end - time.monotonic()))  # and keeps the lock: other threads wait for it already
    time.sleep(_PAUSE)
