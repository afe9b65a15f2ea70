"""The choice between interpreting and compiling a function on concrete arrays.

Functions that are called outside `jit` mostly run once. So a program is interpreted by NumPy as long as all its calls together
have taken less time than its compilation would. So it never takes more than twice as long as with the better choice. The time
is estimated by the size of the program and its operations, not measured, so that a program behaves the same in every run. For
the same reason nothing is compiled in the background: results would depend on the time of its end. Functions of `jit` are
compiled at their first call, and so are functions that are called on arrays of a GPU, which run there.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Literal, get_args

import numpy as np
from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.base.errors import DeployError, OutOfMemoryError, RuleMissingError, TargetError, TraceError, one_of, user_frame
from nabla_mlir.base.locks import cached_property, new_lock
from nabla_mlir.base.log import logger
from nabla_mlir.base.progress import running
from nabla_mlir.compiling.checking import compile_checked
from nabla_mlir.compiling.estimates import compilation_of, estimate
from nabla_mlir.compiling.lowering import clone_module, lower_module
from nabla_mlir.dialects.context import bytecode_of
from nabla_mlir.dialects.regions import functions_of, nested
from nabla_mlir.interpreter import Budget, OutOfStepsError, blocks, interpreted
from nabla_mlir.interpreter.finite import is_finite, stop_at_infinity
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
from nabla_mlir.table.registry import REGISTRY, OpDef
from nabla_mlir.targets import CPU, target_of

_LOG = logger("jit")
Mode = Literal["auto", "interpret", "compile"]
_FINITE = "finite"  # the mode within `debug_nans`
Runner = Callable[..., list[Array]]  # as `Function`: of arrays, the number of output buffers among them, and the result types


class Execution:
    """The current mode of execution; change it with `nm.set_execution`."""

    mode: str = "auto"
    outside: str = "auto"  # the mode around `debug_nans`


def set_execution(mode: Mode) -> str:
    """Sets how functions run on concrete arrays, and returns the previous mode.

    Args:
      mode: "auto" compiles functions of `jit`, and interprets other programs until their calls have cost as much as
        compilation would. "interpret" lets NumPy run all programs, and "compile" compiles all. The values agree up to
        rounding: each operation is within some units in the last place of its dtype, and sums are in another order.

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
    """A context in which functions are interpreted, in `jit` too, and a result of NaN or infinity raises an error.

    The error names the first operation whose operands are finite and whose result is not. Calls whose arguments are not
    finite are not checked, nor values that a mask removes, nor artifacts and prepared products
    (`operator.update(x, check=True)` checks these).

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
    """A function in its traced form, which is interpreted, and its lowered form, which is compiled. It is lowered on demand.

    Args:
      module: a traced module; its derivatives and maps are expanded here, as the interpreter would do, too.
      name: the name of the function.
      title: the name of the code in messages.
      is_lowered: True if the module is simplified plain StableHLO.
      memory_limit: the bytes that a compiled call may allocate at once; None sets no limit.
    """

    module: ir.Module
    name: str
    title: str
    memory_limit: int | None

    def __init__(self, module: ir.Module, name: str, is_lowered: bool = False, title: str = "", memory_limit: int | None = None):
        self.memory_limit = memory_limit
        self.name, self.title = name, title or name
        self.module, self._is_lowered = (module, True) if is_lowered else _expand(module)

    def lower(self) -> None:
        """Replaces the module by a lowered copy, because an interpreter may refer to operations of the original."""
        if not self._is_lowered:
            self.module = clone_module(self.module)
            lower_module(self.module)
            self._is_lowered = True

    @cached_property
    def calls_python(self) -> bool:
        """True if the function calls functions of Python, which compiled code cannot."""
        return any(map(calls_python, nested(self.module.operation)))

    @property
    def function(self) -> ir.Operation:
        """The operation of the function."""
        return functions_of(self.module.operation)[self.name]

    def digest(self) -> str:
        """The key of the code; equal code has equal keys."""
        text = self.module.operation.get_asm(assume_verified=True, use_local_scope=True)  # a third faster than `str`
        return f"{self.name} {hashlib.sha256(text.encode()).hexdigest()}"


def _on_host(inputs: Sequence[Any]) -> list[np.ndarray]:
    """The arrays as arrays of NumPy. An array of another device stores the copy, so that it is copied once."""
    return [x.numpy() if type(x) is Array else np.asarray(x) for x in inputs]


class Finite:
    """A function that NumPy runs. If its results are not finite, NumPy runs it again to find the operation."""

    def __init__(self, code: Code):
        self.function: blocks.Function = interpreted(code.module.operation, code.name)
        self.watched: blocks.Function = interpreted(code.module.operation, code.name, stop_at_infinity)

    def __call__(self, inputs: Sequence[Any], storage: int = 0, types: Any = None) -> list[Array]:
        """The results; raises NotFiniteError if they are not finite although the arguments `inputs` are. Other arguments are not
        used.
        """
        arrays = _on_host(inputs)
        results = self.function(arrays)
        if is_finite(arrays) and not is_finite(results):
            self.watched(arrays)  # runs again, and raises after the first operation whose result is not finite
        return [Array.from_numpy(y) for y in results]


class Interpreted:
    """A function that NumPy runs until its calls have taken as long as its compilation would."""

    budget: Budget | None

    def __init__(self, code: Code):
        """Prepares the interpreter for the code, and its allowance of time; the code is compiled later."""
        self.function: blocks.Function = interpreted(code.module.operation, code.name)
        self.budget = None if code.calls_python else allowance([code.function])
        self._code = code
        self._compiled: Runner | None = None

    def __call__(self, inputs: Sequence[Any], storage: int = 0, types: Any = None) -> list[Array]:
        """The results as arrays of the host; interpreted until the calls have used their allowance of time, and then compiled."""
        if self._compiled is None:
            try:
                with running(f"interpreting {self._code.title}"):
                    return [Array.from_numpy(y) for y in self.function(_on_host(inputs), self.budget)]
            except MemoryError as error:
                raise OutOfMemoryError(self._code.name, error) from None
            except OutOfStepsError:
                self._compiled = compiled_function(self._code, first=inputs)
        return self._compiled(inputs, storage, types)


class Endless:
    """A compiled function that may not end by itself. After Ctrl-C has ended a call, the next call loads the function again."""

    def __init__(self, load: Callable[[], Function]):
        self._load, self._function, self._interrupts = load, load(), Interrupts("call it again.")

    @property
    def device(self) -> Device:
        """The device of the function."""
        return self._function.device

    def __call__(self, inputs: Sequence[Any], storage: int = 0, types: Any = None) -> list[Array]:
        """The results. Ctrl-C ends the wait for them; after that, the next call loads the function again."""
        if self._interrupts.is_given_up:
            self._function, self._interrupts = self._load(), Interrupts("call it again.")
        return self._interrupts.call("the function", self._function, inputs, storage, types)


class OnDevice:
    """A function that runs on the device of its arrays: on this CPU by `function_of`, or compiled for another device.

    Args:
      code: the function.
      is_jitted: True compiles the function at the first call, unless everything is interpreted.
    """

    def __init__(self, code: Code, is_jitted: bool = False):
        self._code, self._is_jitted = code, is_jitted
        self._elsewhere: dict[str, Runner] = {}  # the runner for each driver of another device
        self._here: Runner | None = None  # the runner on the host, after the first call there

    @property
    def function(self) -> Function | None:
        """The compiled function on the host; None if it is interpreted or interruptible there, or has not run yet."""
        runner = self._here
        return runner if type(runner) is Function and not runner.is_in_order else None

    def __call__(self, inputs: Sequence[Any], storage: int = 0, types: Any = None) -> list[Array]:
        """The results, on the device of the arrays `inputs`; the code is compiled for each driver at its first call.

        The last `storage` inputs are memory for results. `types` are the expected result types, or None.
        """
        device = device_of(inputs)
        if device is None:
            if self._here is None:
                self._here = function_of(self._code, self._is_jitted, inputs[: len(inputs) - storage])
            return self._here(inputs, storage, types)
        if device.driver not in self._elsewhere:
            self._elsewhere[device.driver] = compiled_function(self._code, device, inputs[: len(inputs) - storage])
        return self._elsewhere[device.driver](inputs, storage, types)


def allowance(functions: Iterable[ir.Operation]) -> Budget | None:
    """The budget of operations that may be interpreted before it pays to compile the functions; None if it never pays."""
    return Budget(compilation_of(functions) / thresholds.STEP) if Execution.mode == "auto" else None


def function_of(code: Code, is_jitted: bool = False, first: Sequence[Any] | None = None) -> Runner:
    """The callable that runs a function. Equal code is interpreted by one object, and compiled once.

    Args:
      code: the function.
      is_jitted: True compiles the function at once, unless everything is interpreted.
      first: the arguments of its first call.

    Raises:
      RuleMissingError: the function is interpreted, and has an operation that the interpreter does not know.
    """
    mode = Execution.mode
    if (mode == "compile" or (is_jitted and mode == "auto")) and not code.calls_python:
        return compiled_function(code, first=first)
    return _runners.get(f"{mode} {code.digest()}", lambda: _make_interpreted(code, mode))


def _make_interpreted(code: Code, mode: str) -> Runner:
    """The callable that interprets a function; in the mode "auto", that of compiled code if the interpreter lacks an operation."""
    if mode == _FINITE:
        return Finite(code)
    if mode == "interpret" or code.calls_python:
        return Interpreted(code)
    try:
        return Interpreted(code)
    except RuleMissingError:
        return compiled_function(code)


def compiled_function(code: Code, device: Device | None = None, first: Sequence[Any] | None = None) -> Function | Endless:
    """The callable that runs compiled code, on this CPU or another device. Equal code is compiled once in each process.

    Args:
      code: the function.
      device: the device; None for this CPU.
      first: the arguments of its first call, on which the code is compared with the interpreter; None: random arguments.

    Raises:
      TargetError: there is a limit of memory, and another device.
    """
    limit = code.memory_limit
    if limit is not None and device is not None:
        raise TargetError(f"memory_limit requires arrays on a CPU, got some on {device.driver}.", where=user_frame())

    def compile_() -> Function | Endless:
        """The compiled function, loaded; if nothing bounds its time, in a form that Ctrl-C can interrupt."""
        cost = estimate(code.function)
        for copy in copies_of(code.function) if _LOG.isEnabledFor(logging.INFO) else ():
            _LOG.info("%s %s", code.title, copy)
        # The two drivers of a CPU share arrays without a copy, so each program uses the faster one.
        where = device or ("local-task" if cost.gain(cores()) > 0 else "local-sync")
        target = CPU(memory_limit=limit) if device is None else target_of(device.driver)
        examples = None if first is None else {code.name: _on_host(first)}
        vmfb, _ = compile_checked(code.module, target, title=code.title, examples=examples)

        def load() -> Function:
            """The compiled function, loaded for the device."""
            # The next call of a large program reuses its freed memory if the device caches freed memory.
            function = Executable.load(vmfb, pooled(where) if REFLECTED.encode() in vmfb else where).function(code.name)
            function.anew = load if device is None else None
            return function

        return load() if cost.is_bounded else Endless(load)

    code.lower()
    return _runners.get(f"compile {os.getpid()} {device} {limit} {code.digest()}", compile_)  # a fork has separate threads


def _expand(module: ir.Module) -> tuple[ir.Module, bool]:
    """A traced module with its derivatives and maps expanded, and True if that lowered it.

    Equal modules are expanded once: outside `jit`, a call of `grad(f)` traces f again, and most traces are equal. The key holds
    all on which the expansion depends: the bytecode with its source lines, the records of the operations, and the thresholds. A
    custom call is expanded each time, because its rules may be registered again.
    """
    ops = nested(module.operation)
    if not any(map(_needs_passes, ops)):
        return module, False

    def lowered() -> ir.Module:
        """The module itself, after it is lowered in place."""
        lower_module(module)
        return module

    if any(op.name == "stablehlo.custom_call" for op in ops):
        return lowered(), True
    rules = (OpDef.changes, *map(id, REGISTRY.values()), *thresholds.numbers())
    return _expansions.get((hashlib.sha256(bytecode_of(module)).digest(), rules), lowered), True


def _needs_passes(op: ir.Operation) -> bool:
    """True for a transform or another operation on named axes, which the interpreter cannot run."""
    return op.name in TRANSFORMS or op.name.startswith("batch.")


def device_of(inputs: Iterable[Any]) -> Device | None:
    """The accelerator on which some of the arrays lie; None if all are on the CPU, or if everything is interpreted.

    Raises:
      DeployError: the arrays are on several accelerators.
    """
    devices = {x.device.driver: x.device for x in inputs if type(x) is Array and not x.device.is_host}
    if not devices or Execution.mode in ("interpret", _FINITE):
        return None
    if len(devices) > 1:
        raise DeployError(
            f"a function requires arrays of one device, got some on {' and '.join(sorted(devices))}.",
            where=user_frame(),
            help="move them with x.to(driver).",
        )
    return next(iter(devices.values()))


class _Latest:
    """A cache that stores the `most` entries that were used last; it is bounded, because each function pins memory."""

    def __init__(self, most: int):
        self.most, self._lock = most, new_lock()
        self._found: OrderedDict[Hashable, Any] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The value of `key` in the cache; `make` computes it if the cache does not hold it, and the oldest value is dropped."""
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


_runners = _Latest(thresholds.CACHED_FUNCTIONS)  # by mode and code: the callable that runs it
_expansions = _Latest(thresholds.CACHED_FUNCTIONS)  # by traced module: the module with expanded transforms
