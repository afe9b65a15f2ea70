"""The devices of this process. Needs only IREE's runtime."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from iree.runtime import BufferUsage, HalBufferView, HalDevice, HalDriver, MemoryType

from nabla_mlir.base.errors import DeployError, NablaError, OutOfMemoryError, user_frame
from nabla_mlir.base.locks import new_lock
from nabla_mlir.runtime.threads import POOL, checked, driver_with, generation, is_abandoned
from nabla_mlir.targets import TARGETS

P = ParamSpec("P")
T = TypeVar("T")


class Device:
    """A device of one of IREE's drivers. There is one object per driver in a process; get it with `device`.

    On a CPU, `threads` is the number of computing threads.
    """

    __slots__ = ("buffer_of", "driver", "enter", "hal", "is_host", "memory", "owners", "pool", "threads", "usage")
    buffer_of: Callable[..., HalBufferView]  # copies an array with the buffer protocol, as an element type
    driver: str
    enter: Callable[[], object] | None  # a thread calls it before it allocates or computes; None if nothing is needed
    hal: HalDevice
    is_host: bool
    memory: str
    owners: tuple[HalDriver, HalDevice]  # the objects that must live as long as the buffers; IREE's buffers do not hold them
    pool: HalDriver  # the pool to which its threads belong
    threads: int
    usage: int

    def __init__(self, driver: str, hal: HalDevice, pool: HalDriver, threads: int = 1, enter: Callable[[], object] | None = None):
        """Stores the objects of IREE; `enter` is called in each thread before it uses the device."""
        self.driver, self.hal, self.pool, self.threads, self.enter = driver, hal, pool, threads, enter
        self.owners = (pool, hal)
        self.is_host = driver.startswith("local")
        self.memory = "host" if self.is_host else driver  # equal for devices that read each other's arrays
        maps_memory = any(cls.maps_memory and driver in cls.drivers for cls in TARGETS.values())
        mapping = BufferUsage.MAPPING | BufferUsage.MAPPING_OPTIONAL if maps_memory else 0
        self.usage = int(BufferUsage.DEFAULT | mapping)
        self.buffer_of = self.on(functools.partial(hal.allocator.allocate_buffer_copy, MemoryType.DEVICE_LOCAL, self.usage, hal))

    @property
    def platform(self) -> str:
        """The kind of device under the name of JAX: "cpu", or the driver."""
        return "cpu" if self.is_host else self.driver

    def on(self, work: Callable[P, T]) -> Callable[P, T]:
        """The function `work` with a preparation: the calling thread first enters the device, if its driver requires that."""
        enter = self.enter
        if enter is None:
            return work

        def entered(*args: P.args, **kwargs: P.kwargs) -> T:
            """The result of `work`, after the thread has entered the device."""
            enter()
            return work(*args, **kwargs)

        return entered

    def __eq__(self, other: object) -> bool:
        """True if one device can read the arrays of the other without a copy: all drivers of this CPU count as equal."""
        return isinstance(other, Device) and self.memory == other.memory

    def __hash__(self) -> int:
        return hash(self.memory)

    def __repr__(self) -> str:
        return f"Device({self.driver!r})"


_device_lock = new_lock()


def device(driver: str | Device = "local-sync", threads: int | None = None) -> Device:
    """The device of a driver: local-sync (this CPU, on the calling thread), local-task (on a pool of threads), vulkan, cuda.

    Args:
      driver: the name of the driver, or a device.
      threads: the threads of the pool of local-task, which all devices with this number share; None means the cores of the
        process. Other drivers ignore it.

    Raises:
      DeployError: the driver does not exist, or finds no device on this machine; or the number of threads is not valid.
    """
    if isinstance(driver, Device):
        return driver
    count = checked(threads) if driver == POOL else 1
    with _device_lock:
        # Devices are cached; after a fork, or after a pool of threads is abandoned, the generation is another one.
        return _open(driver, count, generation(driver))


def pooled(driver: str | Device, threads: int | None = None) -> Device:
    """A separate device on the same cores and memory, which reuses freed memory for the next request of that size.

    So the calls of one program allocate nothing after the first call of each. The memory is freed when the last array on the
    device is. For GPUs, whose drivers have their own pools, the device itself is returned.
    """
    shared = device(driver, threads)
    if not shared.is_host:
        return shared
    pool = driver_with(shared.driver, shared.threads)
    return Device(shared.driver, pool.create_default_device(allocators=["caching"]), pool, shared.threads)


def usable(device: Device) -> Device:
    """The device itself, or a new one of its driver if its pool was abandoned."""
    return pooled(device.driver, device.threads) if is_abandoned(device.pool) else device


@functools.cache
def _open(driver: str, threads: int, generation: tuple[int, int]) -> Device:
    """A device of a driver, with a pool of this many threads. Raises DeployError if there is no such driver or device.

    It is opened once for each `generation` of the driver, so a forked process has its own devices. Devices of the parent process
    stay referenced, because IREE would wait for their threads to end.
    """
    kinds = {name: cls for cls in TARGETS.values() for name in cls.drivers}
    if driver.partition(":")[0] not in kinds:
        raise DeployError(
            f"a device requires a known driver, got {driver!r}.", where=user_frame(), help=f"use one of {', '.join(kinds)}."
        )
    try:
        pool = driver_with(driver, threads)
        kind = kinds[driver.partition(":")[0]]
        return Device(driver, pool.create_device_by_uri(kind.open_as(driver)), pool, threads, kind.entrance())
    except (RuntimeError, ValueError, OSError) as error:
        has_no_room = "thread creation failed" in str(error)
        raise DeployError(
            f"driver {driver} requires a device of its kind, got none: {reason(error)}.",
            where=user_frame(),
            help="free memory, or raise the limits of the process (ulimit -v, ulimit -u)."
            if has_no_room
            else "install the device's driver, or compile for the CPU.",
        ) from None


def reason(error: Exception) -> str:
    """The message of an error of IREE, without the locations in IREE's sources."""
    text = re.split(r"c/[\w/.]+:\d+: [A-Z_]+; ", str(error).split("\n")[0], maxsplit=1)[-1]
    return text.partition("; while ")[0].rstrip(".; ") or type(error).__name__


BEFORE_UPDATE = "a call before the first update"  # the end of the message of a prepared product's code


def refusal(name: str, error: Exception) -> NablaError:
    """The error of nabla_mlir to raise for an error of IREE during a call of the function `name`."""
    if isinstance(error, NablaError):
        return error
    if "RESOURCE_EXHAUSTED" in str(error):
        return OutOfMemoryError(name, reason(error))
    if BEFORE_UPDATE in str(error):
        return DeployError(
            f"{name} requires a point, got {BEFORE_UPDATE}.",
            where=user_frame(),
            help="first call update(x, ...), which stores the point.",
        )
    return DeployError(f"{name} requires the arguments it was compiled for, got: {reason(error)}.", where=user_frame())
