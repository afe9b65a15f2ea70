"""The memory that a large function computes in, kept for its next call: that of the functions which ran last.

Such functions have one buffer for it, from the allocator of their device (`nabla-place-transients`), which keeps what is
freed. So that the memory of many functions does not add up, those that ran longest ago give theirs back.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from iree.runtime import HalBufferView, VmVariantList

from nabla_mlir import thresholds
from nabla_mlir.locks import new_lock
from nabla_mlir.runtime.device import Device

REFLECTED = "nabla.transients"  # where a function says how many bytes it computes in

_lock = new_lock()
_recent: list[weakref.ref[_Scratch]] = []  # those that ran last at the end


class _Scratch:
    __slots__ = ("__weakref__", "bytes", "calls", "device", "is_there", "running")

    def __init__(self, device: Device, bytes: int):
        self.device, self.bytes = device, bytes
        self.calls = self.running = 0  # those that have begun, and of them those that have not ended
        self.is_there = False  # whether the allocator has a buffer from a call before


def keeping(
    invoke: Callable[..., object], device: Device, bytes: int, *, overlaps: bool = False
) -> Callable[..., object]:
    """The same calls, of a function that computes in so many bytes of the device's allocator.

    A thread of the pool may be kept from letting go of the buffer when a call has ended: the next one then takes another, and
    what is free behind it is given back. Calls that overlap, in threads too, have buffers of their own.
    """
    scratch = _Scratch(device, bytes)

    def call(*args: Any) -> None:
        _note(scratch)
        with _lock:
            scratch.calls += 1
            scratch.running += 1
            number, is_alone, was_there = scratch.calls, scratch.running == 1, scratch.is_there
        before = _allocated(device)
        try:
            invoke(*args)
        finally:
            with _lock:
                scratch.running -= 1
                scratch.is_there = True
                is_alone &= scratch.calls == number
        growth = _allocated(device) - before
        if was_there and is_alone and not overlaps and growth >= bytes and growth - _of_results(args[-1]) >= bytes:
            with _lock:
                _trim(device, [scratch])

    return call


def _allocated(device: Device) -> int:
    """The bytes that the device's allocator has ever taken from the system."""
    return int(device.hal.allocator.statistics["device_bytes_allocated"])


def _of_results(outputs: VmVariantList) -> int:
    """The bytes of the arrays among the results of a call; a number is the version of its state."""
    places = [i for i in range(len(outputs)) if type(outputs.get_variant(i)) is not int]
    return sum(outputs.get_as_object(i, HalBufferView).byte_length for i in places)


def _note(scratch: _Scratch) -> None:
    """When one runs, others give memory back until no more than `KEPT_TRANSIENTS` is kept beside it."""
    with _lock:
        if _recent and _recent[-1]() is scratch:
            return
        others = [other for ref in _recent if (other := ref()) is not None and other is not scratch]
        total = sum(other.bytes for other in others)
        while total > thresholds.KEPT_TRANSIENTS:
            oldest = others.pop(0)
            total -= oldest.bytes
            _trim(oldest.device, [oldest, *others, scratch])
        _recent[:] = map(weakref.ref, [*others, scratch])


def _trim(device: Device, those: Sequence[_Scratch]) -> None:
    """A device gives back all that is free, buffers of those functions among it."""
    device.hal.allocator.trim()
    for other in those:
        other.is_there &= other.device is not device
