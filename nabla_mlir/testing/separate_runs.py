"""Calls compiled functions in a separate process, which may crash and is ended at a time limit."""

from __future__ import annotations

import atexit
import multiprocessing
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np

from nabla_mlir.base.errors import DeployError, NablaError
from nabla_mlir.runtime import Executable
from nabla_mlir.runtime.array import Array
from nabla_mlir.runtime.donation import call

SECONDS = 30.0  # the time limit for all calls of one module


@dataclass(frozen=True)
class Call:
    """A call of a function of a module.

    Args:
      name: the name of the function.
      arguments: arrays of the types of the function.
      donated: the indices of the donated arguments; the function may write to their memory.
    """

    name: str
    arguments: tuple[np.ndarray, ...]
    donated: tuple[int, ...] = ()


@dataclass(frozen=True)
class Result:
    """The results of a call, and the indices of arguments that it changed though they are not donated."""

    values: tuple[np.ndarray, ...]
    changed: tuple[int, ...]


class EndedError(NablaError):
    """The process of a call crashed, or was ended at the time limit.

    Args:
      what: "hangs" or "crashes".
    """

    def __init__(self, what: str, message: str):
        super().__init__(message)
        self.what = what


def run(vmfb: bytes, driver: str, calls: Sequence[Call], seconds: float | None = None) -> list[Result]:
    """The results of calls of a module, one after the other in a separate process.

    Args:
      vmfb: the compiled module.
      driver: IREE's driver.
      calls: the functions to call, with their arguments.
      seconds: the time limit for all calls; the default is `SECONDS`.

    Raises:
      EndedError: the calls exceed the time limit, or a call ends the process.
      DeployError: the runtime refuses the module or a call.
    """
    return _PROCESS.run(vmfb, driver, calls, SECONDS if seconds is None else seconds)


class _Process:
    """One separate process; it starts at the first call, and again at the first call after it ended."""

    def __init__(self) -> None:
        self._process: multiprocessing.process.BaseProcess | None = None
        self._pipe: Connection | None = None

    def run(self, vmfb: bytes, driver: str, calls: Sequence[Call], seconds: float) -> list[Result]:
        """The results of calls of the compiled module `vmfb`; raises EndedError if the process crashes or runs for more than
        `seconds`.
        """
        pipe = self._open()
        try:
            pipe.send((vmfb, driver, calls))
            if not pipe.poll(seconds):
                raise EndedError("hangs", f"calls of a module require at most {seconds:g} s, got one that goes on.")
            answer = pipe.recv()
        except (EOFError, OSError):
            assert self._process is not None
            self._process.join()
            code = self._process.exitcode
            self.end()
            raise EndedError("crashes", f"calls of a module require a process that goes on, got exit status {code}.") from None
        except BaseException:
            self.end()
            raise
        if isinstance(answer, str):
            raise DeployError(answer)
        return answer

    def _open(self) -> Connection:
        """The connection to the process, which is started if necessary."""
        if self._pipe is None:
            method = multiprocessing.get_context("spawn")  # a forked process would lack the threads of IREE
            self._pipe, end = method.Pipe()
            self._process = method.Process(target=_serve, args=(end,), daemon=True)
            self._process.start()
            end.close()
            self._pipe.recv()  # it is ready
            atexit.register(self.end)
        return self._pipe

    def end(self) -> None:
        """Ends the process; the next call starts another one."""
        if self._process is not None and self._pipe is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
        self._process = self._pipe = None
        atexit.unregister(self.end)


_PROCESS = _Process()


def _serve(pipe: Connection) -> None:
    """Runs the calls that arrive through a pipe, until the other end is closed."""
    pipe.send("ready")
    while True:
        try:
            vmfb, driver, calls = pipe.recv()
        except EOFError:
            return
        try:
            executable = Executable.load(vmfb, driver)
            answer: list[Result] | str = [_result_of_call(executable, item) for item in calls]
        except NablaError as error:
            answer = error.message
        pipe.send(answer)


def _result_of_call(executable: Executable, item: Call) -> Result:
    """The results of the call `item`, and the indices of the arguments that it changed although they are not donated."""
    function = executable.function(item.name)
    inputs = [Array.from_numpy(x, executable.device) for x in item.arguments]
    outputs = call(function, inputs, item.donated, None) if item.donated else function(inputs)
    values = tuple(np.array(y) for y in outputs)
    others = [i for i in range(len(inputs)) if i not in item.donated]
    return Result(values, tuple(i for i in others if np.asarray(inputs[i]).tobytes() != item.arguments[i].tobytes()))
