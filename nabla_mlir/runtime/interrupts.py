"""Calls that Ctrl-C or a time limit can end. They run on a separate thread, while the caller waits and sees the interrupt.

IREE cannot stop a call. An interrupted call continues in the background until it or the process ends, and its executable, with
the state, is abandoned. Only functions with a loop of unknown length are called in this manner; all others end by themselves.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from nabla_mlir.base.errors import DeployError
from nabla_mlir.base.locks import after_fork
from nabla_mlir.runtime.ending import WORKER
from nabla_mlir.runtime.executable import Function

T = TypeVar("T")
_limit: ContextVar[float | None] = ContextVar("limit", default=None)


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """A context in which a compiled call that may not end by itself is limited in time.

    These are calls of programs with a loop whose length depends on values. After the limit, as after Ctrl-C, their executable is
    abandoned. The next call of a function of `jit` loads it again; a loaded artifact raises an error that says what to do. Other
    calls end by themselves, and are not limited.

    Args:
      seconds: the limit for each call, greater than 0.

    Raises:
      DeployError: a call took longer; or `seconds` is not a positive number.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> count = nm.jit(lambda x: nm.while_loop(lambda c: c < 1, lambda c: c + x, 0 * x))
      >>> with nm.time_limit(0.2):
      ...     try:
      ...         count(np.float64(2e-10))
      ...     except nm.errors.DeployError as error:
      ...         print(error.message)
      the function requires at most 0.2 s, as time_limit says, got a call that goes on.
    """
    if not seconds > 0:
        raise DeployError(f"time_limit requires seconds greater than 0, got {seconds}.")
    before = _limit.set(float(seconds))
    try:
        yield
    finally:
        _limit.reset(before)


class _Worker:
    """A thread that makes calls one after another; it does not keep the process alive."""

    def __init__(self) -> None:
        """Starts the thread, which waits for calls."""
        self._calls: SimpleQueue[tuple[Callable[..., Any], Sequence[Any]] | None] = SimpleQueue()
        self._outcomes: SimpleQueue[tuple[bool, Any]] = SimpleQueue()
        threading.Thread(target=self._work, daemon=True, name=WORKER).start()

    def _work(self) -> None:
        """Makes the calls of the queue until the worker must end; the thread runs it."""
        while self._answer():
            pass

    def _answer(self) -> bool:
        """Runs the next call of the queue; returns False if the worker must end."""
        # A separate function, so that no variable keeps the arguments of the last call while the thread waits for the
        # next.
        call = self._calls.get()
        if call is None:
            return False
        self._outcomes.put(_outcome(*call))
        return True

    def end(self) -> None:
        """Ends the thread after its last call."""
        self._calls.put(None)

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """The result of a function in the worker's thread; raises the error of the function, or Empty at the time limit."""
        self._calls.put((function, arguments))
        is_right, outcome = self._outcomes.get(timeout=_limit.get())
        if not is_right:
            raise outcome
        result: T = outcome
        return result


def _outcome(function: Callable[..., Any], arguments: Sequence[Any]) -> tuple[bool, Any]:
    """The outcome of a call: (True, result), or (False, error) if it raised."""
    try:
        return True, function(*arguments)
    except BaseException as error:
        return False, error


class Interrupts:
    """The calls of an executable that may not end by themselves; after an interrupted call there are no others.

    Args:
      help: the advice for an executable that has been abandoned.
    """

    _worker: _Worker | None = None  # shared by all executables, because the main thread makes one call at a time
    is_given_up: bool

    def __init__(self, help: str):
        """No call has been interrupted yet; the class describes the argument."""
        self._help, self.is_given_up = help, False

    def check(self, name: str) -> None:
        """Raises DeployError if a call was interrupted, because it may still hold resources that the next call needs."""
        if self.is_given_up:
            message = f"{name} requires code that is free, got a call of it that was interrupted and goes on."
            raise DeployError(message, help=self._help)

    def call(self, name: str, function: Callable[..., T], *arguments: Any) -> T:
        """The result of a function of the executable for these arguments; `name` is that of the entry point, for errors.

        Raises:
          KeyboardInterrupt: the user has interrupted it.
          DeployError: it took longer than the time limit, or an earlier call was interrupted.
        """
        self.check(name)
        if threading.current_thread() is threading.main_thread():
            worker, Interrupts._worker = Interrupts._worker or _Worker(), None  # a nested call gets another worker
            return self._call(worker, name, function, *arguments)
        if _limit.get() is None:
            return function(*arguments)  # such a call cannot be interrupted
        worker = _Worker()
        try:
            return self._call(worker, name, function, *arguments)
        finally:
            worker.end()

    def _call(self, worker: _Worker, name: str, function: Callable[..., T], *arguments: Any) -> T:
        """The result of a function that runs in the thread of a worker; raises if it is interrupted, or exceeds the time limit.

        The executable is then given up, and the worker with it, since its call goes on. `name` is that of the entry point, for
        errors.
        """
        try:
            return worker.call(function, *arguments)
        except (KeyboardInterrupt, Empty) as error:
            self.is_given_up = True
            if isinstance(function, Function):
                function.abandon_pool()
            if isinstance(error, KeyboardInterrupt):
                raise
            message = f"{name} requires at most {_limit.get():g} s, as time_limit says, got a call that goes on."
            raise DeployError(message, help=self._help) from None
        finally:
            if threading.current_thread() is threading.main_thread() and not self.is_given_up:
                Interrupts._worker = worker


def _forget_worker() -> None:
    """Runs in a forked child, which does not have the worker's thread; the next call starts another one."""
    Interrupts._worker = None


after_fork(_forget_worker)  # only the forking thread exists in a child process
