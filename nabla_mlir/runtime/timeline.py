"""Calls that return before they are done: when each has ended. Needs only IREE's runtime.

A call waits, on the device, for the one before it: for its arguments, for memory of the caller's that it writes to, and for
the state of a module, of which IREE 3.13 orders reads behind writes but not writes behind reads: a result that was handed out
changed with the next write, once in 400 calls. Between executables the host waits.
"""

from __future__ import annotations

import contextlib
import weakref

from iree.runtime import HalDevice, HalFence, HalSemaphore, VmVariantList

from nabla_mlir import thresholds
from nabla_mlir.errors import DeployError


class Timepoint:
    """The end of a call."""

    __slots__ = ("semaphore", "timeline")
    semaphore: HalSemaphore
    timeline: Timeline

    def __init__(self, timeline: Timeline, semaphore: HalSemaphore):
        self.timeline, self.semaphore = timeline, semaphore

    def is_reached(self) -> bool:
        """Whether the call has ended; one that failed has: who reads its results is told."""
        try:
            return self.semaphore.query() >= 1
        except (RuntimeError, ValueError):
            return True

    def wait(self) -> None:
        """Returns when the call has ended.

        Raises:
          DeployError: it failed on the device.
        """
        try:
            self.semaphore.wait(1)  # not through a fence: that takes 8 ms
        except (RuntimeError, ValueError) as error:
            raise DeployError(f"a call failed on the device after it had returned: {error}.",
                              help="load the module again; its state is lost.") from None  # fmt: skip


class Timeline:
    """The calls into one executable that may not have ended."""

    def __init__(self, device: HalDevice):
        self._device = device
        self._open: list[Timepoint] = []
        _TIMELINES.add(self)

    def __del__(self) -> None:
        """Waits for the calls, without Python's global lock: IREE's threads need it to let go of arrays of NumPy's."""
        with contextlib.suppress(DeployError):
            self.wait()

    def push_fences(self, inputs: VmVariantList) -> Timepoint:
        """Adds to the arguments of a call what it waits for, the call before if it runs, and what it signals; returns its end."""
        before = HalFence(1)
        if self._open and not self._open[-1].is_reached():
            before.insert(self._open[-1].semaphore, 1)
        end = Timepoint(self, self._device.create_semaphore(0))
        inputs.push_ref(before)
        inputs.push_ref(HalFence.create_at(end.semaphore, 1))
        return end

    def began(self, call: Timepoint) -> None:
        """The call was accepted."""
        if len(self._open) >= thresholds.OPEN_CALLS:
            self._open = self.unfinished()
        self._open.append(call)

    def unfinished(self) -> list[Timepoint]:
        """The ends of the calls that run."""
        return [point for point in self._open if not point.is_reached()]

    def wait(self) -> None:
        """Returns when all calls have ended."""
        while self._open:
            self._open.pop().wait()


_TIMELINES: weakref.WeakSet[Timeline] = weakref.WeakSet()


def wait_for_others(timeline: Timeline | None) -> None:
    """Returns when the calls of all timelines but this one have ended: they may read what is to be written now."""
    for other in list(_TIMELINES):
        if other is not timeline:
            other.wait()
