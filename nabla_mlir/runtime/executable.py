"""Compiled modules in memory: an `Executable` runs the functions of a .vmfb on flat lists of arrays."""

from __future__ import annotations

import functools
import hashlib
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from iree.runtime import HalBufferView, VmContext, VmFunction, VmInstance, VmModule, VmVariantList, create_hal_module

from nabla_mlir.base.errors import DeployError
from nabla_mlir.base.locks import after_fork, cached_property
from nabla_mlir.base.progress import shown
from nabla_mlir.runtime import leak_reports
from nabla_mlir.runtime.array import Array, Shape
from nabla_mlir.runtime.device import Device, device, pooled, reason, refusal, usable
from nabla_mlir.runtime.ending import Gate, stop_at_exit
from nabla_mlir.runtime.manifest import SAVE_ANEW
from nabla_mlir.runtime.scratch import REFLECTED, keeping
from nabla_mlir.runtime.threads import POOL, abandon, generation
from nabla_mlir.runtime.timeline import Timeline, Timepoint, wait_for_others
from nabla_mlir.runtime.transfer import check_storage, fill, handed, memory_of
from nabla_mlir.targets import TARGETS

Types = Sequence[tuple[Shape, np.dtype]]
Recipe = tuple[Callable[..., Any], tuple[Any, ...]]
_OPEN = 64  # the number of modules from other processes that stay loaded


@functools.cache
def _instance() -> VmInstance:
    return VmInstance()


class Function:
    """A function of an executable, from a flat sequence of arrays to a list of `Array`.

    If it was compiled for asynchronous calls, it returns before the call ends; the calls then have a timeline.
    """

    __slots__ = ("__weakref__", "_invoke", "_lock", "_timeline", "_vm", "anew", "device", "name")
    _invoke: Callable[..., object]
    name: str
    device: Device
    anew: Callable[[], Function] | None  # loads the function again, if it has no state and has lost its threads

    def __init__(
        self, name: str, vm: VmFunction, context: VmContext, lock: threading.Lock | Gate, device: Device, timeline: Timeline | None
    ):
        """A function that is called under `lock`, which all functions of its context share; asynchronous calls have a timeline."""
        self.name, self._vm, self._invoke, self._lock, self.device = name, vm, device.on(context.invoke), lock, device
        self._timeline, self.anew = timeline, None
        if size := vm.reflection.get(REFLECTED):
            self._invoke = keeping(self._invoke, device, int(size), overlaps=timeline is not None)
        self._invoke = shown(self._invoke, f"running {name}")
        _functions.add(self)
        stop_at_exit(self)

    def __call__(self, arguments: Sequence[Array | np.ndarray], storage: int = 0, types: Types | None = None) -> list[Array]:
        """Calls the function; the last `storage` arguments are memory for its results.

        Args:
          arguments: the arrays.
          storage: the number of arguments that are memory for results.
          types: the shape and the dtype of each result, if they are known; reading them from the results takes time.

        Raises:
          DeployError: the module refuses the arguments (their number, a shape or a dtype), or fails; or the memory for
            results cannot be written, or overlaps with an argument or another result.
          OutOfMemoryError: there is not enough memory.
        """
        if storage or self._timeline is not None:
            return self._call_in_order(arguments, storage, types)
        memory = self.device.memory
        inputs = VmVariantList(len(arguments))
        for argument in arguments:
            if type(argument) is np.ndarray:
                inputs.push_ref(handed(argument, self.device))
                continue
            if type(argument) is not Array or argument.device.memory is not memory or argument.pending is not None:
                argument = self._in_device_memory(argument)
                if argument.pending is not None:
                    argument.block_until_ready()
            argument.is_alone = False
            inputs.push_ref(argument._view or argument.memory())
        outputs, where = self.outputs(inputs), self.device
        if types is None or len(types) != len(outputs):
            return self._arrays(outputs, types, None)
        return [Array(outputs.get_as_ref(i), where, None, False, type_) for i, type_ in enumerate(types)]

    def outputs(self, inputs: VmVariantList) -> VmVariantList:
        """The list of results of a call without a timeline, for arguments in device memory; raises nabla_mlir's errors."""
        outputs = VmVariantList(1)
        try:
            with self._lock:
                self._invoke(self._vm, inputs, outputs)
        except (ValueError, RuntimeError, IndexError) as error:
            raise refusal(self.name, error) from None
        return outputs

    @property
    def is_in_order(self) -> bool:
        """True if its calls are ordered on a timeline."""
        return self._timeline is not None

    def _call_in_order(self, arguments: Sequence[Array | np.ndarray], storage: int, types: Types | None) -> list[Array]:
        """The results of a call that writes to its last `storage` arguments, or that runs after earlier calls on a timeline."""
        where, timeline = self.device, self._timeline
        pending: Timepoint | None = None
        inputs, outputs = VmVariantList(len(arguments)), VmVariantList(4)
        memory: list[Array] = []  # to which the function writes: that of a target, or new memory
        targets, arguments = arguments[len(arguments) - storage :], arguments[: len(arguments) - storage]
        if storage:
            check_storage(self.name, targets, arguments, where)
            memory = [memory_of(target, where) for target in targets]
            wait_for_others(timeline)
        for argument in map(self._in_device_memory, arguments):
            if argument.pending is not None and argument.pending.timeline is not timeline:
                argument.block_until_ready()
            argument.is_alone = False  # the call may use its memory, so it is not donated without a copy
            inputs.push_ref(argument.memory())
        for array in memory:
            inputs.push_ref(array.to_write())
        try:
            with self._lock:
                if timeline is not None:
                    pending = timeline.push_fences(inputs)
                self._invoke(self._vm, inputs, outputs)
                if timeline is not None and pending is not None:
                    timeline.began(pending)
        except (ValueError, RuntimeError, IndexError) as error:
            raise refusal(self.name, error) from None
        if storage:
            _, version = self._count(outputs, types)
            return [fill(target, array, version, pending) for target, array in zip(targets, memory, strict=True)]
        return self._arrays(outputs, types, pending)

    def _arrays(self, outputs: VmVariantList, types: Types | None, pending: Timepoint | None) -> list[Array]:
        """The results as arrays of these types, if they are known; `pending` is the end of the call if it is asynchronous."""
        count, version = self._count(outputs, types)
        kinds: Sequence[tuple[Shape, np.dtype] | None] = [None] * count if types is None else types
        get, where = outputs.get_as_object, self.device
        return [Array(get(i, HalBufferView), where, version, False, kind, pending) for i, kind in enumerate(kinds)]

    def _in_device_memory(self, argument: Array | np.ndarray) -> Array:
        """The argument as an array in memory that the function can read."""
        if type(argument) is not Array:
            if self._timeline is None:
                return Array.from_numpy(argument, self.device)
            native = np.asarray(argument, argument.dtype.newbyteorder("="), order="C")
            return Array.owned(native, self.device)  # a copy, because the call may be the last reader
        return argument if argument.device.memory == self.device.memory else argument.to(self.device)

    def abandon_pool(self) -> None:
        """Marks the pool of the device as abandoned, after a call that does not end; functions on it would wait for that call."""
        if self.device.driver != POOL:
            return
        abandon(self.device.pool)
        for function in list(_functions):
            if function.device.pool is self.device.pool:
                function.lose_threads(_HELD, _RELOAD)

    def lose_threads(self, what: str, help: str) -> None:
        """Makes later calls load the code again, or raise that it requires `what` if it has state: its threads are lost."""
        error = DeployError(f"{self.name} requires {what}.", help=help)
        _remains.append((self.device, self._invoke))

        def refuse(*call: Any) -> None:
            """Makes the call on newly loaded code, which later calls use, too; raises the error if that is impossible."""
            if self.anew is None:
                raise error
            new = self.anew()
            self._vm, self._invoke, self._lock, self.device = new._vm, new._invoke, new._lock, new.device
            self._invoke(self._vm, *call[1:])

        self._invoke, self._lock = refuse, threading.Lock()

    @property
    def is_called(self) -> bool:
        """True while a call runs."""
        return self._lock.locked()

    @staticmethod
    def _count(outputs: VmVariantList, types: Types | None) -> tuple[int, int | None]:
        """The number of results, and the version of the state, an integer after them; None for a function without state."""
        count = len(outputs)
        last = outputs.get_variant(count - 1) if count and (types is None or count > len(types)) else None
        if type(last) is int:
            count -= 1
        if types is not None and count != len(types):
            raise DeployError(f"a manifest requires code with {len(types)} results, got {count}.", help=SAVE_ANEW)
        return count, last if type(last) is int else None

    @property
    def declaration(self) -> str:
        """The signature of the function in MLIR, if the module has it."""
        return self._vm.reflection.get("iree.abi.declaration", self.name)

    def __repr__(self) -> str:
        return f"<function {self.declaration} on {self.device.driver}>"


_HELD = "a pool of threads that is free, got one with a call that was interrupted and goes on"
_RELOAD = "load it anew, or take a clone() of the module: they have a pool of their own."
_BEFORE = "load or compile it after the fork, or start processes by multiprocessing's 'spawn'."
_functions: weakref.WeakSet[Function] = weakref.WeakSet()
_remains: list[tuple[Device, Callable[..., object]]] = []  # objects that would wait for their threads when they are freed


def _lose_threads() -> None:
    """Runs in a forked child: functions on a thread pool can no longer be called, because the child has none of its threads.

    If another thread was in a call of IREE at the fork, no function can: that thread may hold a lock of IREE forever.
    """
    functions = list(_functions)
    is_called = any(function.is_called for function in functions)
    for function in functions:
        if is_called or function.device.driver != "local-sync":
            function.lose_threads("the process that loaded it, got a fork of it, which has none of its threads", _BEFORE)


after_fork(_lose_threads)
leak_reports.disable()


class Runnable(Protocol):
    """The functions of a module, of compiled code or of an interpreted stage."""

    @property
    def driver(self) -> str:
        """The driver on which it runs."""

    @property
    def device(self) -> Device:
        """The device of its arrays."""

    def function(self, name: str) -> Callable[..., list[Array]]:
        """The function with this name."""

    def wait(self) -> None:
        """Returns when all earlier calls have ended."""

    def clone(self) -> Runnable:
        """The same code with fresh state."""

    def on(self, driver: str | Device) -> Runnable:
        """The same code with fresh state on another device."""

    @property
    def digest(self) -> str:
        """The key of the code; equal code has equal keys."""

    def recipe(self) -> Recipe:
        """A function and its arguments that make the same code with fresh state; both can be pickled."""


class Executable:
    """A compiled module in its own context, which holds the state of the module (its global variables).

    Threads: any number of threads may call it. IREE does not allow overlapping calls into one context, so a lock makes them wait
    for each other; Python's global lock is free during a call. For parallel calls, give each thread a `clone()`. It shares the
    code and has its own state.
    """

    def __init__(self, module: VmModule, driver: str | Device):
        """A context for the module on a device, with fresh state; raises DeployError if IREE cannot load it there."""
        self.device: Device = device(driver)
        self._module = module
        self._lock: threading.Lock | Gate = threading.Lock()
        stop_at_exit(self)
        self._timeline: Timeline | None = None
        self._functions: dict[str, Function] = {}
        try:
            hal = create_hal_module(_instance(), self.device.hal)
            self._context = self.device.on(VmContext)(_instance(), modules=[hal, module])
        except (ValueError, RuntimeError, IndexError) as error:
            raise _not_loaded(self.driver, reason(error)) from None

    @staticmethod
    def load(source: bytes | str | os.PathLike[str], driver: str | Device | None = None) -> Executable:
        """Loads a .vmfb from bytes or from a file.

        Args:
          source: the content or the path.
          driver: local-sync, local-task, vulkan or cuda, or a device; None is local-sync.

        Raises:
          DeployError: the content is damaged, or does not fit the driver or this machine.
        """
        if not isinstance(source, bytes):
            path = Path(source)
            if not path.exists():
                raise DeployError(f"load requires an artifact, got {path}, which does not exist.", help="check the path.")
            source = path.read_bytes()
        try:
            module = VmModule.copy_buffer(_instance(), source)
        except (ValueError, RuntimeError) as error:
            raise DeployError(
                f"loading requires a complete .vmfb file, got {len(source)} bytes: {reason(error)}.",
                help="the file is truncated or damaged, or another version of IREE wrote it: compile it again.",
            ) from None
        return Executable(module, driver or "local-sync")

    @property
    def driver(self) -> str:
        """The driver on which it runs."""
        return self.device.driver

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of its functions."""
        return tuple(name for name in self._module.function_names if not name.startswith("__"))

    def function(self, name: str) -> Function:
        """Returns the function of the executable with a name.

        Raises:
          DeployError: there is no such function; the message lists those that exist.
        """
        if name not in self._functions:
            vm = self._module.lookup_function(name)
            if vm is None:
                raise DeployError(f"function requires one of {', '.join(self.functions) or 'none'}, got {name!r}.")
            has_fences = vm.reflection.get("iree.abi.model") == "coarse-fences"
            if has_fences and self._timeline is None:
                self._timeline = Timeline(self.device.hal)
            timeline = self._timeline if has_fences else None
            self._functions[name] = Function(name, vm, self._context, self._lock, self.device, timeline)
        return self._functions[name]

    def wait(self) -> None:
        """Returns when all earlier calls have ended.

        Raises:
          DeployError: one of them failed on the device.
        """
        if self._timeline is not None:
            self._timeline.wait()

    def clone(self) -> Executable:
        """The same code with fresh state and its own lock, on the same device."""
        return self.on(usable(self.device))

    def on(self, driver: str | Device) -> Executable:
        """The same code with fresh state on another device that can run it."""
        return Executable(self._module, driver)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of its .vmfb."""
        return hashlib.sha256(self._module.stashed_flatbuffer_blob).hexdigest()

    def recipe(self) -> Recipe:
        """The function that loads it in another process, on the same driver, with fresh state. Equal content is loaded once."""
        return _reopened, (bytes(self._module.stashed_flatbuffer_blob), self.driver, self.device.threads)

    def __reduce__(self) -> Recipe:
        return self.recipe()

    def __repr__(self) -> str:
        return f"<Executable {', '.join(self.functions)} on {self.driver}>"


def _reopened(content: bytes, driver: str, threads: int) -> Executable:
    return Executable(*_loaded(content, driver, threads, generation(driver)))


@functools.lru_cache(maxsize=_OPEN)
def _loaded(content: bytes, driver: str, threads: int, generation: tuple[int, int]) -> tuple[VmModule, Device]:
    """The module and the device for the bytes of a .vmfb; equal content is loaded once in a process, and its users share them."""
    executable = Executable.load(content, pooled(driver, threads))
    return executable._module, executable.device


def _not_loaded(driver: str, what: str) -> DeployError:
    """The error to raise for a module that IREE cannot load on a driver; `what` is IREE's message."""
    if "binding count" in what:  # IREE fuses without regard to the limits of its runtime
        return DeployError(
            f"loading requires kernels that read and write few buffers, got: {what}.",
            help="separate some operations with nm.jax.lax.optimization_barrier, so that fewer are fused, and report the program.",
        )
    drivers = "; ".join(f"{name}: {' or '.join(cls.drivers)}" for name, cls in TARGETS.items())
    return DeployError(
        f"loading requires a module compiled for the driver {driver}, got: {what}.",
        help=f"load it with the driver of its target ({drivers}).",
    )
