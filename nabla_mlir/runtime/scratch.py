"""The scratch memory of large functions: it is reused by the next call, for the functions that ran most recently.

Such a function has one scratch buffer from the allocator of its device (`nabla-place-transients`), which keeps freed
memory for reuse. To bound the sum over many functions, the memory of those that ran longest ago is freed.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from iree.runtime import HalBufferView, VmVariantList

from nabla_mlir.base import thresholds
from nabla_mlir.base.locks import new_lock
from nabla_mlir.runtime.device import Device

REFLECTED = "nabla.transients"  # the attribute with the size of a function's scratch memory

_lock = new_lock()
_recent: list[weakref.ref[_Scratch]] = []  # most recent last


class _Scratch:
    __slots__ = ("__weakref__", "bytes", "calls", "device", "is_allocated", "running")

    def __init__(self, device: Device, bytes: int):
        """The record of a function on this device that has scratch memory of this size."""
        self.device, self.bytes = device, bytes
        self.calls = self.running = 0  # the number of calls that have begun, and of those that have not ended
        self.is_allocated = False  # True if the allocator has a buffer from an earlier call


def keeping(invoke: Callable[..., object], device: Device, bytes: int, *, overlaps: bool = False) -> Callable[..., object]:
    """The function `invoke` with a record of its scratch memory, so that memory of functions that ran long ago is freed.

    After a call, a pool thread may release the buffer late. The next call then allocates another buffer, and the first one is freed
    when it is released. Overlapping calls, also from several threads, have separate buffers.

    Args:
      invoke: the call of a function of IREE, whose last argument is the list of results.
      device: its device.
      bytes: the size of its scratch memory.
      overlaps: True if a call may begin before the one before it has ended.
    """
    scratch = _Scratch(device, bytes)

    def call(*args: Any) -> None:
        """Calls the function, and frees unused memory if the call had to allocate a second scratch buffer."""
        _note(scratch)
        with _lock:
            scratch.calls += 1
            scratch.running += 1
            number, is_alone, was_allocated = scratch.calls, scratch.running == 1, scratch.is_allocated
        before = _allocated(device)
        try:
            invoke(*args)
        finally:
            with _lock:
                scratch.running -= 1
                scratch.is_allocated = True
                is_alone &= scratch.calls == number  # no other call began in the meantime
        # The call allocated a second buffer if the memory grew by its size, also without the results.
        growth = _allocated(device) - before
        if was_allocated and is_alone and not overlaps and growth >= bytes and growth - _bytes_of_results(args[-1]) >= bytes:
            with _lock:
                _trim(device, [scratch])

    return call


def _allocated(device: Device) -> int:
    """The total number of bytes that the device's allocator has requested from the system so far."""
    return int(device.hal.allocator.statistics["device_bytes_allocated"])


def _bytes_of_results(outputs: VmVariantList) -> int:
    """The number of bytes of the arrays among the results of a call; an integer among the results is the version of its state."""
    positions = [i for i in range(len(outputs)) if type(outputs.get_variant(i)) is not int]
    return sum(outputs.get_as_object(i, HalBufferView).byte_length for i in positions)


def _note(scratch: _Scratch) -> None:
    """Records that a function runs now; frees memory of the functions that ran longest ago, if all have too much together."""
    with _lock:
        if _recent and _recent[-1]() is scratch:
            return
        others = [other for ref in _recent if (other := ref()) is not None and other is not scratch]
        total = sum(other.bytes for other in others)
        while total > thresholds.POOLED_TRANSIENTS:
            oldest = others.pop(0)
            total -= oldest.bytes
            _trim(oldest.device, [oldest, *others, scratch])
        _recent[:] = map(weakref.ref, [*others, scratch])


def _trim(device: Device, records: Sequence[_Scratch]) -> None:
    """Frees all unused memory of a device, and marks the `records` of functions on this device as not allocated."""
    device.hal.allocator.trim()
    for record in records:
        record.is_allocated &= record.device is not device
