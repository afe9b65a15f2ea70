"""Buffers of devices, and the memory of the host: copies, views, loans. Needs only NumPy and IREE's runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
from iree.runtime import BufferUsage, HalBuffer, HalBufferView, HalElementType, HalFence, MappedMemory, MemoryType

from nabla_mlir.runtime.device import Device

_ALIGNMENT = 64  # of buffers in host memory; generated code relies on it
_BYTE = np.dtype(np.uint8)


class Mapped:
    """The bytes of a buffer in host memory, as an object with NumPy's array interface, which keeps the buffer alive.

    A mapping by IREE 3.13 is tied to one array object, but NumPy's views refer to the base, so a view could outlive its
    memory. The device is referenced, too, because the memory is returned to it.
    """

    __slots__ = ("__array_interface__", "_device", "_memory")
    _memory: MappedMemory | None
    __array_interface__: dict[str, Any]

    def __init__(self, source: HalBufferView | HalBuffer, size: int, device: Device):
        """Maps the first `size` bytes of a buffer of the device into the memory of the host."""
        self._device, self._memory = device, None
        self._memory = source.map()
        interface = np.frombuffer(self._memory, _BYTE, size).__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}  # the interface would mark it as read-only

    def __del__(self) -> None:
        self._memory = None  # freed before the device


def copied(array: np.ndarray, where: Device, element: HalElementType) -> HalBufferView:
    """A new buffer of the device `where` with the values of an array; `element` is its dtype in IREE."""
    if array.nbytes and array.dtype.kind != "V":
        return where.buffer_of(array, element)
    # As bytes, because the dtypes of ml_dtypes have no buffer protocol; never empty, because a device may refuse an
    # empty buffer.
    raw = array.reshape(-1).view(np.uint8) if array.nbytes else np.zeros(1, np.uint8)
    return HalBufferView(where.buffer_of(raw), array.shape, element)


def aligned_copy(array: np.ndarray) -> np.ndarray:
    """A copy of the array in memory that begins at a multiple of 64 bytes, so that a buffer can share it."""
    raw = np.empty(array.nbytes + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT  # the distance from the address of `raw` to the next multiple
    copy = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    np.copyto(copy, array)
    return copy


def lend(array: np.ndarray, where: Device, element: HalElementType) -> HalBufferView | None:
    """A buffer that shares the memory of the array and keeps the array alive; None if the memory is read-only or not aligned.

    `where` is the device, on the host, and `element` the dtype in IREE.
    """
    if not array.flags.writeable or array.ctypes.data % _ALIGNMENT:
        return None
    # DLPack, because `import_host_allocation` forgets its owner once the buffer is wrapped in a view.
    view = where.hal.from_dlpack_capsule(array.reshape(-1).view(np.uint8).__dlpack__())
    return HalBufferView(view.get_buffer(), array.shape, element)


def is_mappable(buffer: HalBuffer) -> bool:
    """True if the host can map the buffer into its memory, to read it without a copy."""
    memory, usage = int(MemoryType.HOST_VISIBLE), int(BufferUsage.MAPPING_SCOPED)
    return buffer.memory_type() & memory == memory and buffer.allowed_usage() & usage == usage


def staged(source: HalBuffer, where: Device) -> HalBuffer:
    """A copy of a buffer of the device `where`, in memory that the host can map; returns when the copy is done."""
    target = where.hal.allocator.allocate_buffer(
        memory_type=MemoryType.HOST_LOCAL | MemoryType.DEVICE_VISIBLE,
        allowed_usage=BufferUsage.TRANSFER_TARGET | BufferUsage.MAPPING_SCOPED,
        allocation_size=source.byte_length(),
    )
    signal = where.hal.create_semaphore(0)
    where.hal.queue_copy(
        source, target, wait_semaphores=HalFence.create_at(signal, 0), signal_semaphores=HalFence.create_at(signal, 1)
    )
    signal.wait(1)  # not through a fence, which takes 8 ms after a call
    return target


class Shared:
    """The memory of a NumPy array without its read-only flag; the user of this object must not write to it."""

    def __init__(self, host: np.ndarray):
        """Copies the array interface of `host`, without its mark for read-only memory."""
        self._host = host
        self.__array_interface__ = {**host.__array_interface__, "data": (host.ctypes.data, False)}
