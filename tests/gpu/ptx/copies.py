"""Asynchronous copies from global to shared memory that are under way."""

from __future__ import annotations

from dataclasses import dataclass

from gpu.ptx.numbers import Array


@dataclass(frozen=True)
class Copy:
    """A copy: the threads that copy, the group of each one's copies, and the addresses and values of all threads."""

    rows: Array
    groups: Array
    addresses: Array
    values: list[Array]
