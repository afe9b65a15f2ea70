"""The ends of asynchronous calls, which return before they are done. Needs only IREE's runtime.

On the device, a call waits for the call before it: for its arguments, for memory of the caller to which it writes, and
for the state of a module. IREE 3.13 orders reads of the state after writes, but not writes after reads: a returned
result changed with the next write, once in 400 calls. Between executables the host waits.
"""

from __future__ import annotations

import contextlib
import weakref

from iree.runtime import HalDevice, HalFence, HalSemaphore, VmVariantList

from nabla_mlir.base import thresholds
from nabla_mlir.base.errors import DeployError


class Timepoint:
    """The end of a call."""

    __slots__ = ("semaphore", "timeline")
    semaphore: HalSemaphore
    timeline: Timeline

    def __init__(self, timeline: Timeline, semaphore: HalSemaphore):
        """The end of a call on a timeline, at which the call raises the semaphore to 1."""
        self.timeline, self.semaphore = timeline, semaphore

    def is_reached(self) -> bool:
        """True if the call has ended, also if it failed; the reader of its results gets the error."""
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
            self.semaphore.wait(1)  # not through a fence, which takes 8 ms
        except (RuntimeError, ValueError) as error:
            raise DeployError(
                f"a call failed on the device after it had returned: {error}.", help="load the module again; its state is lost."
            ) from None


class Timeline:
    """The calls into one executable that may still run."""

    def __init__(self, device: HalDevice):
        """A timeline without calls, for an executable on this device."""
        self._device = device
        self._open: list[Timepoint] = []
        _TIMELINES.add(self)

    def __del__(self) -> None:
        """Waits for the calls, without Python's global lock: IREE's threads need it to let go of arrays of NumPy's."""
        with contextlib.suppress(DeployError):
            self.wait()

    def push_fences(self, inputs: VmVariantList) -> Timepoint:
        """The end of a call that is about to begin; two fences are appended to its arguments (`inputs`).

        The call waits for the first fence, the end of the call before it, and signals the second, its own end.
        """
        before = HalFence(1)
        if self._open and not self._open[-1].is_reached():
            before.insert(self._open[-1].semaphore, 1)
        end = Timepoint(self, self._device.create_semaphore(0))
        inputs.push_ref(before)
        inputs.push_ref(HalFence.create_at(end.semaphore, 1))
        return end

    def began(self, call: Timepoint) -> None:
        """Records that the device has accepted a call, of which `call` is the end: later calls wait for it."""
        if len(self._open) >= thresholds.OPEN_CALLS:
            self._open = self.unfinished()
        self._open.append(call)

    def unfinished(self) -> list[Timepoint]:
        """The ends of the calls that still run."""
        return [point for point in self._open if not point.is_reached()]

    def wait(self) -> None:
        """Returns when all calls have ended."""
        while self._open:
            self._open.pop().wait()


_TIMELINES: weakref.WeakSet[Timeline] = weakref.WeakSet()


def wait_for_others(timeline: Timeline | None) -> None:
    """Returns when the calls of all timelines except `timeline` have ended, because they may read memory that is written next."""
    for other in list(_TIMELINES):
        if other is not timeline:
            other.wait()
