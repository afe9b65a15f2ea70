"""The measured time of calls on this machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any


def durations(call: Callable[[], Any], seconds: float = 0.0, least: int = 3) -> list[float]:
    """The seconds of each call, for as many calls as fit into `seconds`, but at least `least`."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while (start := time.perf_counter()) < end or len(times) < least:
        call()
        times.append(time.perf_counter() - start)
    return times


def median(call: Callable[[], Any], seconds: float) -> float:
    """The median seconds of the calls that fit into `seconds`, after one warm-up call."""
    call()
    return statistics.median(durations(call, seconds))
