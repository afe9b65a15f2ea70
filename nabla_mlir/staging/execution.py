"""What runs a function on concrete arrays: NumPy at first, the compiler's code when its calls have cost what compiling does.

The rule for functions that are called outside `jit`, which mostly run once: a program is interpreted as long as its calls
have taken together less than it would take to compile it, so that it never takes more than twice as long as with the better
of both. The time is reckoned by the program's size and the operations that it runs, not measured: a program behaves alike
in every run, which is also why nothing is compiled in the background: bits would depend on when that ends. What `jit`
decorates is compiled at its first call, and so is what is called on arrays of a GPU, which are computed where they are.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, get_args

import numpy as np
from iree.compiler import ir

from nabla_mlir import thresholds
from nabla_mlir.compiling.checking import compile_checked
from nabla_mlir.compiling.estimates import compilation_of, estimate
from nabla_mlir.compiling.lowering import clone_module, lower_module
from nabla_mlir.dialects.regions import functions_of, nested
from nabla_mlir.errors import (
    DeployError,
    OutOfMemoryError,
    RuleMissingError,
    TargetError,
    TraceError,
    one_of,
    user_frame,
)
from nabla_mlir.interpreter import Budget, OutOfStepsError, blocks, interpreted
from nabla_mlir.interpreter.finite import is_finite, stop_at_infinity
from nabla_mlir.locks import cached_property, new_lock
from nabla_mlir.log import logger
from nabla_mlir.ops.callbacks import calls_python
from nabla_mlir.passes.inline import TRANSFORMS
from nabla_mlir.rules.copies import copies_of
from nabla_mlir.runtime import Executable
from nabla_mlir.runtime.array import Array
from nabla_mlir.runtime.device import Device, pooled
from nabla_mlir.runtime.executable import Function
from nabla_mlir.runtime.interrupts import Interrupts
from nabla_mlir.runtime.scratch import REFLECTED
from nabla_mlir.runtime.threads import cores
from nabla_mlir.targets import CPU, target_of

_LOG = logger("jit")
Mode = Literal["auto", "interpret", "compile"]
_FINITE = "finite"  # the mode within `debug_nans`
Runner = Callable[..., list[Array]]  # as `Function`: of arrays, the number of those that are memory, and the results' types


class Execution:
    """How functions run on concrete arrays; change it with `nm.set_execution`."""

    mode: str = "auto"
    outside: str = "auto"  # the mode around `debug_nans`


def set_execution(mode: Mode) -> str:
    """Sets what runs functions on concrete arrays; returns what it was before.

    Args:
      mode: "auto" compiles what `jit` decorates, and interprets any other program until its calls have cost what compiling
        it would; "interpret" has NumPy run all of both, "compile" compiles all. Values of the two agree to rounding: each
        operation is within some units in the last place of its dtype, sums are in another order.

    Raises:
      TraceError: there is no such mode.

    Example:
      >>> import nabla_mlir as nm
      >>> before = nm.set_execution("interpret")
      >>> float(nm.jit(lambda x: x + x)(2.0))
      4.0
      >>> nm.set_execution(before)
      'interpret'
    """
    before, Execution.mode = Execution.mode, one_of("set_execution", mode, get_args(Mode), TraceError)
    return before


@contextlib.contextmanager
def debug_nans(new_val: bool = True) -> Iterator[None]:
    """Within it functions are interpreted, in `jit` too, and one whose result is NaN or infinity says where that comes from.

    That is the first operation that makes it of finite numbers. Nothing is said of a call whose arguments are not finite, of
    what something masks, and of artifacts and prepared products (`operator.update(x, check=True)` looks at those).

    Raises:
      NotFiniteError: with the operation, the values, and the user's line.

    Example:
      >>> import nabla_mlir as nm, nabla_mlir.numpy as nnp, numpy as np
      >>> with nm.debug_nans():
      ...     try:
      ...         nm.jit(lambda x: nnp.log(x) * x)(np.array([1.0, 0.0]))
      ...     except nm.errors.NotFiniteError as error:
      ...         print(error.message)
      stablehlo.log requires operands with a finite result, got -inf at (1,) from 0.0.
    """
    before = Execution.mode
    if before != _FINITE:
        Execution.outside = before
    Execution.mode = _FINITE if new_val else Execution.outside
    try:
        yield
    finally:
        Execution.mode = before


class Code:
    """A function as it is interpreted, and as it is compiled: lowered, which most functions that run once never need.

    Args:
      module: a traced one; its derivatives and maps are expanded here, since they would be by the interpreter too.
      name: the function's.
      title: what users know it by, for messages.
      is_lowered: the module holds plain StableHLO that has been simplified.
      memory_limit: bytes that a call may allocate at once where it is compiled; None is as many as it takes.
    """

    module: ir.Module
    name: str
    title: str
    memory_limit: int | None

    def __init__(
        self, module: ir.Module, name: str, is_lowered: bool = False, title: str = "", memory_limit: int | None = None
    ):
        self.memory_limit = memory_limit
        self.module, self.name, self.title, self._is_lowered = module, name, title or name, is_lowered
        if not is_lowered and any(map(_needs_passes, nested(module.operation))):
            lower_module(module)
            self._is_lowered = True

    def lower(self) -> None:
        """Lowers the module, a copy of it: operations of it may be known to an interpreter."""
        if not self._is_lowered:
            self.module = clone_module(self.module)
            lower_module(self.module)
            self._is_lowered = True

    @cached_property
    def calls_python(self) -> bool:
        """Whether it calls functions of Python, which compiled code cannot."""
        return any(map(calls_python, nested(self.module.operation)))

    @property
    def function(self) -> ir.Operation:
        """Its operation."""
        return functions_of(self.module.operation)[self.name]

    def digest(self) -> str:
        """What equal code has in common."""
        text = self.module.operation.get_asm(assume_verified=True, use_local_scope=True)  # a third faster than `str`
        return f"{self.name} {hashlib.sha256(text.encode()).hexdigest()}"


def _on_host(inputs: Sequence[Any]) -> list[np.ndarray]:
    """As arrays of NumPy; those of a device keep what they are read as, for the next operation."""
    return [x.numpy() if type(x) is Array else np.asarray(x) for x in inputs]


class Finite:
    """A function that NumPy runs, and once more if its results are not finite, to see where that comes from."""

    def __init__(self, code: Code):
        self.function: blocks.Function = interpreted(code.module.operation, code.name)
        self.watched: blocks.Function = interpreted(code.module.operation, code.name, stop_at_infinity)

    def __call__(self, inputs: Sequence[Any], storage: int = 0, types: Any = None) -> list[Array]:
        """The results; raises NotFiniteError if they are not finite while the arguments are."""
        arrays = _on_host(inputs)
        results = self.function(arrays)
        if is_finite(arrays) and not is_finite(results):
            self.watched(arrays)
        return [Array.from_numpy(y) for y in results]


class Interpreted:
    """A function that NumPy runs until that has taken as long as compiling it."""

    budget: Budget | None

    def __init__(self, code: Code):
        self.function: blocks.Function = interpreted(code.module.operation, code.name)
        self.budget = None if code.calls_python else allowance([code.function])
        self._code = code
        self._compiled: Runner | None = None

    def __call__(self, inputs: Sequence[Any], storage: int = 0, types: Any = None) -> list[Array]:
        """The results, in arrays of the host."""
        if self._compiled is None:
            try:
                return [Array.from_numpy(y) for y in self.function(_on_host(inputs), self.budget)]
            except MemoryError as error:
                raise OutOfMemoryError(self._code.name, error) from None
            except OutOfStepsError:
                self._compiled = compiled_function(self._code, first=inputs)
        return self._compiled(inputs, storage, types)


class Endless:
    """A compiled function that may not end by itself; after a call that Ctrl-C has ended it is loaded anew."""

    def __init__(self, load: Callable[[], Function]):
        self._load, self._function, self._interrupts = load, load(), Interrupts("call it again.")

    @property
    def device(self) -> Device:
        """Where it runs."""
        return self._function.device

    def __call__(self, inputs: Sequence[Any], storage: int = 0, types: Any = None) -> list[Array]:
        """The results."""
        if self._interrupts.is_given_up:
            self._function, self._interrupts = self._load(), Interrupts("call it again.")
        return self._interrupts.call("the function", self._function, inputs, storage, types)


class OnDevice:
    """A function where its arrays are: on this CPU as `function_of` says, or on another device, compiled for that.

    Args:
      is_jitted: it is to be compiled at once, unless everything is interpreted.
    """

    def __init__(self, code: Code, is_jitted: bool = False):
        self._code, self._is_jitted = code, is_jitted
        self._elsewhere: dict[str, Runner] = {}  # by the driver of the device
        self._first: Sequence[Any] | None = None  # the arguments of the first call, on which compiled code is checked

    @cached_property
    def _here(self) -> Runner:
        return function_of(self._code, self._is_jitted, self._first)

    @property
    def function(self) -> Function | None:
        """What runs it on the host if that is compiled code alone; None if it is something else, or has not run yet."""
        here = self.__dict__.get("_here")
        return here if type(here) is Function and not here.is_in_order else None

    def __call__(self, inputs: Sequence[Any], storage: int = 0, types: Any = None) -> list[Array]:
        """The results, where the arrays are."""
        device = device_of(inputs)
        if device is None:
            if "_here" not in self.__dict__:
                self._first = inputs[: len(inputs) - storage]
            here, self._first = self._here, None
            return here(inputs, storage, types)
        if device.driver not in self._elsewhere:
            self._elsewhere[device.driver] = compiled_function(self._code, device, inputs[: len(inputs) - storage])
        return self._elsewhere[device.driver](inputs, storage, types)


def allowance(functions: Iterable[ir.Operation]) -> Budget | None:
    """The steps for which functions of a module may be interpreted before it pays to compile it; None if it never does."""
    return Budget(compilation_of(functions) / thresholds.STEP) if Execution.mode == "auto" else None


def function_of(code: Code, is_jitted: bool = False, first: Sequence[Any] | None = None) -> Runner:
    """What runs a function. Equal code is read, or compiled, once.

    Args:
      is_jitted: it is to be compiled at once, unless everything is interpreted.
      first: the arguments of its first call.

    Raises:
      RuleMissingError: it is to be interpreted, and has an operation that the interpreter does not know.
    """
    mode = Execution.mode
    if (mode == "compile" or (is_jitted and mode == "auto")) and not code.calls_python:
        return compiled_function(code, first=first)
    return _runners.get(f"{mode} {code.digest()}", lambda: _interpreted(code, mode))


def _interpreted(code: Code, mode: str) -> Runner:
    if mode == _FINITE:
        return Finite(code)
    if mode == "interpret" or code.calls_python:
        return Interpreted(code)
    try:
        return Interpreted(code)
    except RuleMissingError:
        return compiled_function(code)


def compiled_function(code: Code, device: Device | None = None, first: Sequence[Any] | None = None) -> Function | Endless:
    """Compiles a function for this CPU, or for another device; equal code is compiled once per process.

    Args:
      first: the arguments of its first call, on which the code is compared with the interpreter; random ones if None.

    Raises:
      TargetError: it may allocate no more than so much on another device.
    """
    limit = code.memory_limit
    if limit is not None and device is not None:
        raise TargetError(f"memory_limit requires arrays on a CPU, got some on {device.driver}.", where=user_frame())

    def compile_() -> Function | Endless:
        cost = estimate(code.function)
        for copy in copies_of(code.function) if _LOG.isEnabledFor(logging.INFO) else ():
            _LOG.info("%s %s", code.title, copy)
        # Arrays cross between the two drivers of a CPU without a copy, so each program has the one that suits it.
        where = device or ("local-task" if cost.gain(cores()) > 0 else "local-sync")
        target = CPU(memory_limit=limit) if device is None else target_of(device.driver)
        examples = None if first is None else {code.name: _on_host(first)}
        vmfb, _ = compile_checked(code.module, target, title=code.title, examples=examples)

        def load() -> Function:
            # What a large program computes in is found again by its next call where the device keeps what is freed.
            function = Executable.load(vmfb, pooled(where) if REFLECTED.encode() in vmfb else where).function(code.name)
            function.anew = load if device is None else None
            return function

        return load() if cost.is_bounded else Endless(load)

    code.lower()
    return _runners.get(f"compile {os.getpid()} {device} {limit} {code.digest()}", compile_)  # a fork has threads of its own


def _needs_passes(op: ir.Operation) -> bool:
    return op.name in TRANSFORMS or op.name.startswith("batch.")


def device_of(inputs: Iterable[Any]) -> Device | None:
    """The device that is no CPU and has some of the arrays; None if there is none, or if all is interpreted.

    Raises:
      DeployError: they are on several such devices.
    """
    devices = {x.device.driver: x.device for x in inputs if type(x) is Array and not x.device.is_host}
    if not devices or Execution.mode in ("interpret", _FINITE):
        return None
    if len(devices) > 1:
        raise DeployError(f"a function requires arrays of one device, got some on {' and '.join(sorted(devices))}.",
                          where=user_frame(), help="move them with x.to(driver).")  # fmt: skip
    return next(iter(devices.values()))


class _Runners:
    """Functions by their code: those used last, since each holds memory. A program that is kept keeps its own."""

    def __init__(self, most: int):
        self.most, self._lock = most, new_lock()
        self._found: OrderedDict[str, Any] = OrderedDict()

    def get(self, key: str, make: Callable[[], Any]) -> Any:
        """What was made for a key, or is made now."""
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
                return self._found[key]
        new = make()  # without the lock: others need not wait for the compiler
        with self._lock:
            runner = self._found.setdefault(key, new)
            if len(self._found) > self.most:
                self._found.popitem(last=False)
        return runner


_runners = _Runners(thresholds.KEPT_FUNCTIONS)
