"""The end of a process whose other threads call: they stop before IREE's code, within which Python would end them, and so abort."""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from types import TracebackType
from typing import Protocol

WORKER = "nabla-call"  # the name of threads that make calls of the main one
_PATIENCE = 1.0  # seconds for calls to return
_PAUSE = 0.02  # in which the threads of short ones come to their next


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


@atexit.register
def _stop() -> None:
    threads = {t.ident for t in threading.enumerate() if t is not threading.current_thread() and t.name != WORKER and t.ident}
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
