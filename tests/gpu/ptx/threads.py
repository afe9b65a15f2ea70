"""The state of the threads that run together: registers, positions in the program, waits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpu.ptx.copies import Copy
from gpu.ptx.memory import Memory
from gpu.ptx.numbers import BITS, DTYPES, UNSIGNED, Array
from gpu.ptx.parser import Address, Kernel, Number, Operand, Register, Unsupported, Vector

if TYPE_CHECKING:
    from gpu.ptx.simulator import Simulator

_SPECIAL = frozenset(
    ("%tid", "%ntid", "%ctaid", "%nctaid", "%laneid", "%warpid", "%clusterid", "%cluster_ctaid", "%cluster_ctarank")
)


class Threads:
    """The threads of several blocks; each block fills whole warps, the rest of its last warp has ended from the start.

    A mask is an array of one bool per thread, or None for all that have not ended.
    """

    def __init__(
        self,
        simulator: Simulator,
        kernel: Kernel,
        blocks: Sequence[tuple[int, int, int]],
        size: Sequence[int],
        grid: Sequence[int],
        dynamic: int,
    ):
        self.kernel, self.grid, self.size = kernel, grid, size
        self.counts, self.parameters = simulator.counts, simulator.parameters
        used = int(np.prod(size))
        self.per_block = -(-used // 32) * 32
        self.blocks = len(blocks)
        self.count = self.blocks * self.per_block
        index = np.tile(np.arange(self.per_block), self.blocks)
        self.index = index
        self.lane = index % 32
        self.block = np.repeat(np.arange(self.blocks), self.per_block)
        self.thread_id = (index % size[0], index // size[0] % size[1], index // (size[0] * size[1]))
        self.block_id = [np.repeat([block[axis] for block in blocks], self.per_block) for axis in range(3)]
        self.memory = Memory(simulator, kernel, self, dynamic)
        self.registers: dict[str, Array] = {}
        self.live = index < used
        self.position = 0  # of all live threads, while `positions` is None
        self.positions: Array | None = None
        self.waiting = np.zeros(self.count, bool)
        self.copies: list[Copy] = []
        self.committed = np.zeros(self.count, np.int64)  # the number of groups of copies that each thread has closed
        self.barrier = np.zeros((2, self.count), np.int64)  # the barrier that a thread waits at, and its number of threads

    @property
    def warps(self) -> int:
        """The number of warps."""
        return self.count // 32

    def rows(self, mask: Array | None) -> Array:
        """The numbers of the live threads in a mask."""
        return np.flatnonzero(self.live if mask is None else mask & self.live)

    def is_whole(self, mask: Array | None, group: int = 32) -> Array:
        """A mask of the groups of threads that execute. A group of which only some threads execute is an error."""
        active = (self.live if mask is None else mask & self.live).reshape(-1, group)
        if (active.any(1) != active.all(1)).any():
            raise Unsupported("the interpreter does not have instructions of a warp that some of its threads do not execute")
        return active[:, 0]

    # ---------------------------------------------------------------- registers

    def register(self, name: str) -> Array:
        """The bits of a register."""
        if name not in self.registers:
            kind = self.kernel.register_type(name)
            if kind is None:
                raise Unsupported(f"the interpreter does not have this name: {name}")
            self.registers[name] = np.zeros(self.count, UNSIGNED[BITS[kind]])
        return self.registers[name]

    def get(self, operand: Operand, kind: str) -> Array:
        """The value of an operand in every thread, as the NumPy type of `kind`."""
        dtype, bits = DTYPES[kind], BITS[kind]
        if isinstance(operand, Register):
            name = operand.name
            if self.kernel.register_type(name) is None:
                value = self._special(name) if name.split(".")[0] in _SPECIAL else self.memory.address_of(name)
                return np.full(self.count, value).astype(UNSIGNED[bits]).view(dtype)
            x = self.register(name)
            return x.view(dtype) if x.dtype.itemsize == np.dtype(dtype).itemsize else x.astype(UNSIGNED[bits]).view(dtype)
        if isinstance(operand, Number):
            if operand.kind == "int":
                value = operand.value & ((1 << bits) - 1)
                return np.full(self.count, bool(value) if bits == 1 else value, UNSIGNED[bits]).view(dtype)
            given = np.array(operand.value, UNSIGNED[BITS[operand.kind]])
            if BITS[operand.kind] == bits:
                return np.full(self.count, given).view(dtype)
            return np.full(self.count, given.view(DTYPES[operand.kind]).astype(dtype))
        raise Unsupported(f"the interpreter does not have this operand: {operand}")

    def put(self, operand: Operand, value: Array, mask: Array | None) -> None:
        """Writes a register, in the threads of the mask; signed numbers are extended to its size."""
        if not isinstance(operand, Register):
            raise Unsupported(f"the interpreter does not have this result: {operand}")
        name = operand.name
        if name == "_":
            return
        kind = self.kernel.register_type(name)
        if kind is None:
            raise Unsupported(f"the interpreter does not have this name: {name}")
        dtype = UNSIGNED[BITS[kind]]
        if value.dtype.itemsize != np.dtype(dtype).itemsize:
            signed = value.dtype.kind == "i"
            value = value.astype(np.dtype(dtype).name.removeprefix("u") if signed else dtype)
        value = np.ascontiguousarray(value).view(dtype)
        if mask is None:
            self.registers[name] = value.copy()
        else:
            self.registers[name] = np.where(mask, value, self.register(name))

    def _special(self, name: str) -> Array | int:
        base, _, axis = name.partition(".")
        i = "xyz".index(axis) if axis else 0
        if base == "%tid":
            return self.thread_id[i]
        if base in ("%ctaid", "%clusterid"):
            return self.block_id[i]
        if base == "%laneid":
            return self.lane
        if base == "%warpid":
            return self.index // 32
        return {"%ntid": self.size[i], "%nctaid": self.grid[i]}.get(base, 0)

    def address(self, operand: Operand) -> Array:
        """The address in every thread."""
        if not isinstance(operand, Address):
            raise Unsupported(f"the interpreter does not have this address: {operand}")
        if self.kernel.register_type(operand.base) is None:
            return np.full(self.count, self.memory.address_of(operand.base) + operand.offset, np.int64)
        return self.register(operand.base).astype(np.int64) + operand.offset

    def predicate(self, name: str, is_negated: bool) -> Array:
        """The value of a predicate in every thread."""
        value = self.register(name).view(np.bool_)
        return ~value if is_negated else value

    # ---------------------------------------------------------------- positions in the program

    def jump(self, position: int, mask: Array | None) -> None:
        """Moves the threads of the mask to an instruction."""
        if mask is None and self.positions is None:
            self.position = position
            return
        if self.positions is None:
            self.positions = np.full(self.count, self.position)
        self.positions[self.live if mask is None else mask & self.live] = position

    def end(self, mask: Array | None) -> None:
        """Ends the threads of the mask."""
        if self.positions is None and mask is not None:
            self.positions = np.full(self.count, self.position)
        self.live = np.zeros(self.count, bool) if mask is None else self.live & ~mask

    def wait(self, mask: Array | None, number: Array, threads: Array) -> None:
        """Stops the threads of the mask at a barrier, until all or this number of threads of their block are there."""
        active = self.live if mask is None else mask & self.live
        if self.positions is None:
            if mask is None:
                return  # all threads of all blocks are there
            self.positions = np.full(self.count, self.position)
        self.waiting |= active
        self.barrier[:, active] = np.stack([number, threads])[:, active]

    def release(self) -> None:
        """Lets go on the threads of each barrier at which all that it waits for have arrived."""
        rows = np.flatnonzero(self.waiting)
        keys = self.block[rows] * 16 + self.barrier[0, rows]
        for key in np.unique(keys):
            there = rows[keys == key]
            block = key // 16 * self.per_block
            needed = self.barrier[1, there[0]] or int(self.live[block : block + self.per_block].sum())
            if len(there) >= min(needed, self.per_block):
                self.waiting[there] = False

    def converge(self) -> None:
        """Notes that all live threads are at one instruction, if they are."""
        if self.positions is None or self.waiting.any():
            return
        live = self.positions[self.live]
        if not len(live) or (live == live[0]).all():
            self.position = int(live[0]) if len(live) else len(self.kernel.instructions)
            self.positions = None


def items(operand: Operand) -> tuple[Operand, ...]:
    """The parts of a vector, or the operand alone."""
    return operand.items if isinstance(operand, Vector) else (operand,)
