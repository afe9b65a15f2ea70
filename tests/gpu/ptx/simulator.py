"""Launches of kernels: which threads run, in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import DTypeLike

from gpu.ptx.instructions import execute
from gpu.ptx.memory import GLOBAL
from gpu.ptx.numbers import Array
from gpu.ptx.parser import Kernel
from gpu.ptx.threads import Threads

_TOGETHER = 4096  # threads that run together, whole blocks, unless blocks may wait for each other
_PHASE = 256  # instructions, after which other threads are chosen


class Simulator:
    """Runs kernels on one global memory.

    Args:
      memory: the bytes; by default 64 MiB of zeros.
      base: the address of the first one.
      is_counting: True to count sectors and wavefronts, which takes about a third of the time.

    Example:
      simulator = Simulator()
      x = simulator.put(np.arange(4, dtype=np.float32))
      simulator.launch(parse(text)["double"], (1, 1, 1), [x], threads=(4, 1, 1))
      simulator.get(x, (4,), np.float32)
    """

    def __init__(self, memory: Array | None = None, base: int = GLOBAL, is_counting: bool = True):
        self.memory = np.zeros(1 << 26, np.uint8) if memory is None else memory
        self.base, self.is_counting = base, is_counting
        self.counts: Counter[str] = Counter()
        self.parameters: dict[str, tuple[str, int | float]] = {}
        self._end = 256

    def put(self, array: Array) -> int:
        """Copies an array into new global memory; returns its address."""
        array = np.ascontiguousarray(array)
        start = -(-self._end // 256) * 256
        self._end = start + array.nbytes
        self.memory[start : self._end] = array.reshape(-1).view(np.uint8)
        return self.base + start

    def get(self, address: int, shape: Sequence[int], dtype: DTypeLike) -> Array:
        """A copy of an array in global memory."""
        start = address - self.base
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return self.memory[start : start + size].copy().view(dtype).reshape(shape)

    def launch(
        self,
        kernel: Kernel,
        grid: Sequence[int],
        arguments: Sequence[int | float],
        threads: Sequence[int] | None = None,
        dynamic: int = 0,
    ) -> None:
        """Runs a kernel to its end.

        Args:
          kernel: one of `parse`.
          grid, threads: the sizes of the grid and of a block; the text may state the latter.
          arguments: addresses and numbers.
          dynamic: bytes of shared memory behind the arrays of the text.
        """
        size = (*(threads or kernel.threads), 1, 1)[:3]
        grid = (*grid, 1, 1)[:3]
        self.parameters = {name: (kind, value) for (kind, name), value in zip(kernel.parameters, arguments, strict=True)}
        blocks = [(x, y, z) for z in range(grid[2]) for y in range(grid[1]) for x in range(grid[0])]
        step = len(blocks) if kernel.has_atomics else max(1, _TOGETHER // int(np.prod(size)))
        for start in range(0, len(blocks), step):
            _run(Threads(self, kernel, blocks[start : start + step], size, grid, dynamic))


def _run(t: Threads) -> None:
    """Executes one instruction after the other, each in the threads that are at it."""
    instructions = t.kernel.instructions
    with np.errstate(all="ignore"):
        choices = _choices(t)
        while t.live.any():
            if t.positions is None:
                position, mask = t.position, None
            else:
                position, mask = next(choices)
            if position == len(instructions):
                t.end(mask)
                continue
            instruction = instructions[position]
            t.counts[instruction.name] += t.warps if mask is None else int(mask.reshape(-1, 32).any(1).sum())
            active = mask
            if instruction.predicate is not None:
                value = t.predicate(instruction.predicate, instruction.is_negated)
                active = value & t.live if mask is None else value & mask
                if mask is None and (active == t.live).all():
                    active = None
            t.jump(position + 1, mask)
            if active is None or active.any():
                execute(t, instruction, active)
            t.converge()


def _choices(t: Threads) -> Iterator[tuple[int, Array]]:
    """The next instruction of threads that are at different ones, and those that are at it.

    The first instruction comes first, so that threads meet behind a condition. Where blocks wait for each other in a loop, this
    alone would never end. So the last instruction and single blocks run alternately.
    """
    step = 0
    while True:
        assert t.positions is not None
        if t.waiting.any():
            t.release()
        ready = t.live & ~t.waiting
        if not ready.any():
            raise RuntimeError(f"{t.kernel.name}: all threads wait at barriers, of which none is complete")
        phase = step // _PHASE % 3 if t.kernel.has_atomics else 0
        if phase == 2:
            one = ready & (t.block == step // _PHASE % t.blocks)
            ready = one if one.any() else ready
        position = t.positions[ready].max() if phase == 1 else t.positions[ready].min()
        yield int(position), ready & (t.positions == position)
        step += 1
