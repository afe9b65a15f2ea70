"""Periods of a sequence: the stretches in which the same items follow each other several times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Run:
    """A stretch of `length` items from `start` on, in which each item equals the one `period` items later."""

    start: int
    period: int
    length: int


def runs(items: Sequence[int], repetitions: int) -> list[Run]:
    """The longest stretches in which a block of items follows itself `repetitions` times or more, the shortest blocks first.

    A stretch of period p has windows of p items that occur next after exactly p items, and no wider window occurs earlier. So the
    distances to the next equal window, for windows of 1, 2, 4, ... items, contain all periods. That takes n log(n)² steps.

    Args:
      items: equal numbers for equal items.

    Example:
      >>> runs([7, 1, 2, 1, 2, 1, 2, 8, 8, 8], 3)
      [Run(start=7, period=1, length=3), Run(start=1, period=2, length=6)]
    """
    windows = np.asarray(items, np.uint64)
    found: list[Run] = []
    width = 1
    while len(windows) and width <= 2 * (len(items) // repetitions):
        for start, period, count in _constant(_distances(windows)):
            length = count - 1 + width + period
            if width // 2 < period <= width and length >= repetitions * period:
                found.append(Run(start, period, length))
        windows = _joint_hashes(windows[:-width], windows[width:])
        width *= 2
    return sorted(found, key=lambda run: (run.period, run.start))


def _distances(windows: np.ndarray) -> np.ndarray:
    """The number of items from each window to the next equal one (0 if there is none); windows are given by their hashes."""
    order = np.argsort(windows, kind="stable")
    is_equal = windows[order[1:]] == windows[order[:-1]]
    distances = np.zeros(len(windows), np.int64)
    distances[order[:-1][is_equal]] = (order[1:] - order[:-1])[is_equal]
    return distances


def _constant(distances: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """The stretches in which consecutive distances are equal, each as its start, its distance and its number of windows."""
    starts = np.flatnonzero(np.diff(distances, prepend=-1))
    counts = np.diff(starts, append=len(distances))
    for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
        yield start, int(distances[start]), count


def _joint_hashes(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The 64-bit hashes of windows, each made of two adjacent windows of equal width, from the hashes of both.

    Different windows may share a hash, so the callers of `runs` compare the items.
    """
    mixed = (left * np.uint64(0x9E3779B97F4A7C15)) ^ (right + np.uint64(0xD1B54A32D192ED03))
    mixed ^= mixed >> np.uint64(31)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    return np.asarray(mixed ^ (mixed >> np.uint64(29)))
