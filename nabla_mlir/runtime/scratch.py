"""The memory that a large function computes in, kept for its next call: that of the functions which ran last.

Such functions have one buffer for it, from the allocator of their device (`nabla-place-transients`), which keeps what is
freed. So that the memory of many functions does not add up, those that ran longest ago give theirs back.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from nabla_mlir import thresholds
from nabla_mlir.locks import new_lock
from nabla_mlir.runtime.device import Device

REFLECTED = "nabla.transients"  # where a function says how many bytes it computes in

_lock = new_lock()
_recent: list[weakref.ref[_Scratch]] = []  # those that ran last at the end


class _Scratch:
    __slots__ = ("__weakref__", "bytes", "device")

    def __init__(self, device: Device, bytes: int):
        self.device, self.bytes = device, bytes


def keeping(invoke: Callable[..., object], device: Device, bytes: int) -> Callable[..., object]:
    """The same calls, of a function that computes in so many bytes of the device's allocator."""
    scratch = _Scratch(device, bytes)

    def call(*args: Any) -> None:
        _note(scratch)
        invoke(*args)

    return call


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
            oldest.device.hal.allocator.trim()
        _recent[:] = map(weakref.ref, [*others, scratch])
