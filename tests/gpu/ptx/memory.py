"""The memories of a kernel: global, shared, that of each thread, constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpu.ptx.counters import count_global, count_shared
from gpu.ptx.numbers import UNSIGNED, Array
from gpu.ptx.parser import Kernel, Unsupported

if TYPE_CHECKING:
    from gpu.ptx.simulator import Simulator
    from gpu.ptx.threads import Threads

# Generic addresses: shared memory begins at 0.
LOCAL = 1 << 30
CONSTANT = 1 << 31
GLOBAL = 1 << 32
_UNWRITTEN = 0xCD  # bytes of shared memory and of a thread's own before they are written


class Memory:
    """The memory of a launch: shared memory for each block, local memory for each thread, and access to global memory."""

    def __init__(self, simulator: Simulator, kernel: Kernel, threads: Threads, dynamic: int):
        self.simulator, self.kernel, self.threads = simulator, kernel, threads
        size = max((offset + size for offset, size in kernel.shared.values()), default=0) + dynamic
        self.shared_size = -(-max(size, 16) // 16) * 16
        self.shared = np.full(threads.blocks * self.shared_size, _UNWRITTEN, np.uint8)
        own = max((offset + size for offset, size in kernel.local.values()), default=0)
        self.local_size = -(-own // 16) * 16
        self.local = np.full(threads.count * self.local_size, _UNWRITTEN, np.uint8)

    def address_of(self, name: str) -> int:
        """The generic address of an array."""
        kernel = self.kernel
        if name in kernel.shared:
            return kernel.shared[name][0]
        if name in kernel.local:
            return LOCAL + kernel.local[name][0]
        if name in kernel.constants:
            return CONSTANT + kernel.constants[name]
        raise Unsupported(f"the interpreter does not have this name: {name}")

    def load(self, space: str, addresses: Array, bits: int, count: int, rows: Array) -> list[Array]:
        """`count` neighbours of each address, as unsigned numbers of every thread; zero in threads outside of `rows`."""
        result = [np.zeros(self.threads.count, UNSIGNED[bits]) for _ in range(count)]
        if len(rows):
            memory, first = self._cells(space, "ld", addresses, bits, count, rows)
            for i, x in enumerate(result):
                x[rows] = memory[first + i]
        return result

    def store(self, space: str, addresses: Array, values: Sequence[Array], rows: Array) -> None:
        """Writes neighbours at each address: of threads with one address, the last one's."""
        if len(rows):
            bits = 8 * values[0].dtype.itemsize
            memory, first = self._cells(space, "st", addresses, bits, len(values), rows)
            for i, x in enumerate(values):
                memory[first + i] = x.view(UNSIGNED[bits])[rows]

    def cells(self, space: str, addresses: Array, bits: int, rows: Array, name: str = "atom") -> tuple[Array, Array]:
        """The memory as unsigned numbers, and the index of each address in it."""
        return self._cells(space, name, addresses, bits, 1, rows)

    def _cells(self, space: str, name: str, addresses: Array, bits: int, count: int, rows: Array) -> tuple[Array, Array]:
        size = bits // 8
        a = addresses[rows]
        space = self._resolved(space, a)
        if (a % (size * count)).any():
            raise IndexError(f"{space} {name} at an address that is no multiple of {size * count}")
        if space == "shared":
            memory, offset, limit = self.shared, self.threads.block[rows] * self.shared_size, self.shared_size
        elif space == "local":
            a = a - LOCAL if (a >= LOCAL).all() else a
            memory, offset, limit = self.local, rows * self.local_size, self.local_size
        elif space == "const":
            a = a - CONSTANT if (a >= CONSTANT).all() else a
            memory, offset, limit = self.kernel.numbers, np.zeros_like(a), len(self.kernel.numbers)
        else:
            a = a - self.simulator.base
            memory, offset, limit = self.simulator.memory, np.zeros_like(a), len(self.simulator.memory)
        if a.min() < 0 or a.max() + size * count > limit:
            raise IndexError(f"{space} {name} outside of memory: bytes {a.min()} to {a.max() + size * count} of {limit}")
        self._count(space, name, rows, a, size * count)
        return memory.view(UNSIGNED[bits]), (a + offset) // size

    def _resolved(self, space: str, addresses: Array) -> str:
        if space == "shared" or space == "local":
            return space
        low, high = addresses.min(), addresses.max()
        if low >= GLOBAL or low >= self.simulator.base:
            return "global"
        found = {int(x) for x in np.searchsorted([LOCAL, CONSTANT, GLOBAL], [low, high], side="right")}
        if len(found) > 1:
            raise Unsupported(f"the interpreter does not have accesses of threads to different memories: {low} to {high}")
        return ("shared", "local", "const", "global")[found.pop()]

    def _count(self, space: str, name: str, rows: Array, addresses: Array, size: int) -> None:
        counts = self.simulator.counts
        if not self.simulator.is_counting:
            return
        if space == "global":
            count_global(counts, name, rows // 32, addresses, size)
        elif space == "shared":
            count_shared(counts, name, rows // 32, self.threads.lane[rows], addresses, size)
        else:
            counts[f"{space}.{name}.bytes"] += len(rows) * size
