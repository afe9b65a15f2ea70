"""Calls that Ctrl-C ends: they run on a thread of their own, while the main thread waits where it can be interrupted.

IREE cannot stop a call, so one that is interrupted goes on behind the scenes until it ends or the process does, and what it
runs in, an executable with its state, is given up. Only functions with a loop whose length their values decide are called
so: all others end by themselves.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, TypeVar

from nabla_mlir.errors import DeployError

T = TypeVar("T")


class _Worker:
    """A thread that makes one call after the other; it does not keep the process alive."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Callable[..., Any], Sequence[Any]]] = SimpleQueue()
        self._outcomes: SimpleQueue[tuple[bool, Any]] = SimpleQueue()
        threading.Thread(target=self._work, daemon=True, name="nabla-call").start()

    def _work(self) -> None:
        while True:  # without a variable that would keep what the last call was given
            self._outcomes.put(_outcome(*self._calls.get()))

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """What the function returns or raises; the wait for it can be interrupted."""
        self._calls.put((function, arguments))
        is_right, outcome = self._outcomes.get()
        if not is_right:
            raise outcome
        result: T = outcome
        return result


def _outcome(function: Callable[..., Any], arguments: Sequence[Any]) -> tuple[bool, Any]:
    """Whether a call returned, and what; or what it raised."""
    try:
        return True, function(*arguments)
    except BaseException as error:
        return False, error


class Interrupts:
    """The calls of an executable that may not end by themselves; one that is interrupted is the last.

    Args:
      help: what to do about an executable that has been given up.
    """

    _worker: _Worker | None = None  # of all executables: the main thread makes one call at a time

    def __init__(self, help: str):
        self._help, self.is_given_up = help, False

    def check(self, name: str) -> None:
        """Raises DeployError if a call of the executable has been interrupted, and may still hold what this one needs."""
        if self.is_given_up:
            message = f"{name} requires code that is free, got a call of it that was interrupted and goes on."
            raise DeployError(message, help=self._help)

    def call(self, name: str, function: Callable[..., T], *arguments: Any) -> T:
        """Calls a function of the executable.

        Raises:
          KeyboardInterrupt: the user has interrupted it.
          DeployError: an earlier call was interrupted.
        """
        self.check(name)
        if threading.current_thread() is not threading.main_thread():
            return function(*arguments)  # which nobody can interrupt
        worker, Interrupts._worker = Interrupts._worker or _Worker(), None  # a call within this one has another
        try:
            result = worker.call(function, *arguments)
        except KeyboardInterrupt:
            self.is_given_up = True
            raise
        except BaseException:
            Interrupts._worker = worker
            raise
        Interrupts._worker = worker
        return result


def _forget_worker() -> None:
    Interrupts._worker = None


os.register_at_fork(after_in_child=_forget_worker)  # a child has no thread but the one that forked
