"""Jumps, barriers, and values of other threads of the warp."""

from __future__ import annotations

import numpy as np

from gpu.ptx.numbers import Array
from gpu.ptx.parser import Instruction, Pair, Register
from gpu.ptx.threads import Threads


def branch(t: Threads, i: Instruction, mask: Array | None) -> None:
    """Goes on at a label."""
    label = i.operands[0]
    if not isinstance(label, Register) or label.name not in t.kernel.labels:
        raise i.unsupported()
    t.jump(t.kernel.labels[label.name], mask)


def end(t: Threads, i: Instruction, mask: Array | None) -> None:
    """Ends threads."""
    t.end(mask)


def barrier(t: Threads, i: Instruction, mask: Array | None) -> None:
    """Waits for the threads of the block, or for a number of them; inside a warp there is nothing to wait for."""
    if i.has("warp"):
        return
    if i.has("arrive"):
        raise i.unsupported()
    numbers = [t.get(operand, "u32").astype(np.int64) for operand in i.operands]
    zeros = np.zeros(t.count, np.int64)
    t.wait(mask, *[*numbers, zeros, zeros][:2])


def nothing(t: Threads, i: Instruction, mask: Array | None) -> None:
    """Order of accesses and hints: accesses are in order here."""


def shuffle(t: Threads, i: Instruction, mask: Array | None) -> None:
    """The value of another thread of the warp, its own where there is none; and if there is one."""
    mode = next(word for word in i.words if word in ("bfly", "up", "down", "idx"))
    x = t.get(i.operands[1], "u32")
    n, c = (t.get(a, "u32").astype(np.int64) for a in i.operands[2:4])
    segment, clamp = c >> 8 & 31, c & 31
    low = t.lane & segment
    limit = low | (clamp & ~segment & 31)
    source = {"bfly": t.lane ^ n, "up": t.lane - n, "down": t.lane + n, "idx": low | (n & ~segment & 31)}[mode]
    is_found = source >= limit if mode == "up" else source <= limit
    value = x[np.arange(t.count) // 32 * 32 + np.where(is_found, source, t.lane)]
    if isinstance(i.operands[0], Pair):
        to, found = i.operands[0].items
        t.put(found, is_found, mask)
    else:
        to = i.operands[0]
    t.put(to, value, mask)


def vote(t: Threads, i: Instruction, mask: Array | None) -> None:
    """The predicates of the threads of the warp that execute: one bit each, or if all or any are true."""
    value = t.get(i.operands[1], "pred").reshape(-1, 32)
    there = (t.live if mask is None else mask & t.live).reshape(-1, 32)
    function = next(f for word, f in _VOTES.items() if i.has(word))
    t.put(i.operands[0], np.repeat(function(value, there), 32), mask)


def active_mask(t: Threads, i: Instruction, mask: Array | None) -> None:
    """One bit for each thread of the warp that executes."""
    t.put(i.operands[0], np.repeat(_ballot((t.live if mask is None else mask & t.live).reshape(-1, 32)), 32), mask)


def _ballot(flags: Array) -> Array:
    return (flags.astype(np.uint64) << np.arange(32, dtype=np.uint64)).sum(1).astype(np.uint32)


_VOTES = {
    "ballot": lambda value, there: _ballot(value & there),
    "all": lambda value, there: (value | ~there).all(1),
    "any": lambda value, there: (value & there).any(1),
}
