"""The order of calls that return before they are done. Needs only IREE's runtime.

The calls into one executable form a row: each waits until the one before it has ended, on the device, so that the host
only asks for the end of the last. Between executables the host waits.
"""

from __future__ import annotations

import weakref

from iree.runtime import HalDevice, HalFence, HalSemaphore, VmVariantList

from nabla_mlir.errors import DeployError


class Point:
    """The end of a call."""

    __slots__ = ("_semaphore", "_value", "timeline")

    def __init__(self, timeline: Timeline, semaphore: HalSemaphore, value: int):
        self.timeline, self._semaphore, self._value = timeline, semaphore, value

    def is_reached(self) -> bool:
        """Whether the call has ended."""
        return self._semaphore.query() >= self._value

    def wait(self) -> None:
        """Returns when the call has ended.

        Raises:
          DeployError: it failed on the device.
        """
        try:
            self._semaphore.wait(self._value)  # not through a fence: that takes 8 ms
        except RuntimeError as error:
            raise DeployError(f"a call failed on the device after it had returned: {error}.",
                              help="load the module again; its state is lost.") from None  # fmt: skip


class Timeline:
    """The calls into one executable, in their order."""

    def __init__(self, device: HalDevice):
        self._semaphore, self._last = device.create_semaphore(0), 0
        _TIMELINES.add(self)

    def push_fences(self, inputs: VmVariantList) -> Point:
        """Adds to the arguments of a call what it waits for, and what it signals when it is done."""
        inputs.push_ref(HalFence.create_at(self._semaphore, self._last))
        inputs.push_ref(HalFence.create_at(self._semaphore, self._last + 1))
        return Point(self, self._semaphore, self._last + 1)

    def advance(self) -> None:
        """The call was accepted: the next one waits for it."""
        self._last += 1

    def end(self) -> Point:
        """The end of the last call."""
        return Point(self, self._semaphore, self._last)


_TIMELINES: weakref.WeakSet[Timeline] = weakref.WeakSet()


def wait_for_others(timeline: Timeline | None) -> None:
    """Returns when the calls of all timelines but this one have ended: they may read what is to be written now."""
    for other in list(_TIMELINES):
        if other is not timeline:
            other.end().wait()
