"""Counts of what a memory access costs: sectors of global memory, wavefronts of shared memory."""

from __future__ import annotations

from collections import Counter

import numpy as np

from gpu.ptx.numbers import Array

SECTOR = 32  # bytes that global memory moves at once
BANKS = 32  # words of 4 bytes that shared memory gives at once, each from a bank of its own


def count_global(counts: Counter[str], name: str, warps: Array, addresses: Array, size: int) -> None:
    """Adds the bytes of an access, and the different sectors that each warp reads."""
    counts[f"global.{name}.bytes"] += len(addresses) * size
    offsets = np.arange(0, max(size, 1), SECTOR)
    sectors = ((addresses[:, None] + offsets) // SECTOR).reshape(-1)
    counts[f"global.{name}.sectors"] += _distinct(np.repeat(warps, len(offsets)), sectors)


def count_shared(counts: Counter[str], name: str, warps: Array, lanes: Array, addresses: Array, size: int) -> None:
    """Adds the wavefronts of an access and the least number of them.

    Shared memory serves 128 bytes at once: 32 threads with 4 bytes, 16 with 8, 8 with 16. Of different words in one bank it
    gives one after the other; of one word to several threads it is one access.
    """
    counts[f"shared.{name}.bytes"] += len(addresses) * size
    served = warps * 8 + lanes // min(32, max(1, 128 // max(size, 4)))
    offsets = np.arange(max(1, size // 4))
    words = (addresses[:, None] // 4 + offsets).reshape(-1)
    groups = np.repeat(served, len(offsets))
    counts[f"shared.{name}.wavefronts"] += wavefronts(groups, words)
    counts[f"shared.{name}.ideal"] += len(np.unique(served))


def wavefronts(groups: Array, words: Array) -> int:
    """The number of wavefronts: for each group of threads, the most different words that lie in one bank."""
    if not len(words):
        return 0
    pairs = np.unique(groups.astype(np.int64) << 40 | words.astype(np.int64))
    group, word = pairs >> 40, pairs & ((1 << 40) - 1)
    _, index = np.unique(group, return_inverse=True)
    in_bank = np.bincount(index * BANKS + word % BANKS, minlength=(index[-1] + 1) * BANKS)
    return int(in_bank.reshape(-1, BANKS).max(1).sum())


def _distinct(groups: Array, values: Array) -> int:
    return len(np.unique(groups.astype(np.int64) << 40 ^ values.astype(np.int64) & ((1 << 40) - 1)))
