"""Loads, stores, atomic operations and asynchronous copies."""

from __future__ import annotations

import numpy as np

from gpu.ptx.copies import Copy
from gpu.ptx.numbers import BITS, DTYPES, UNSIGNED, Array, bf16_to_f32, f32_to_bf16
from gpu.ptx.parser import Address, Instruction, Number, Register, Vector
from gpu.ptx.threads import Threads, items


def space_of(i: Instruction) -> str:
    """The memory that an instruction names, or "generic"."""
    names = (word.split("::")[0] for word in i.words)
    return next((name for name in names if name in ("param", "global", "shared", "local", "const")), "generic")


def ld(t: Threads, i: Instruction, mask: Array | None) -> None:
    """Reads a parameter, or memory."""
    kind, space = i.kind, space_of(i)
    if space == "param":
        source = i.operands[1]
        if not isinstance(source, Address) or source.offset or source.base not in t.parameters:
            raise i.unsupported()
        given, number = t.parameters[source.base]
        t.put(i.operands[0], np.full(t.count, number).astype(DTYPES[given]), mask)
        return
    to = items(i.operands[0])
    values = t.memory.load(space, t.address(i.operands[1]), BITS[kind], len(to), t.rows(mask))
    for operand, value in zip(to, values, strict=True):
        t.put(operand, value.view(DTYPES[kind]), mask)


def st(t: Threads, i: Instruction, mask: Array | None) -> None:
    """Writes memory."""
    kind = i.kind
    values = [t.get(operand, kind).view(UNSIGNED[BITS[kind]]) for operand in items(i.operands[1])]
    t.memory.store(space_of(i), t.address(i.operands[0]), values, t.rows(mask))


_ATOMIC = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


def atom(t: Threads, i: Instruction, mask: Array | None) -> None:
    """Changes memory, one thread after the other; `atom` gives the value before."""
    kind = i.kind
    if BITS[kind] < 16 or "x2" in kind or i.has("v2", "v4", "v8"):
        raise i.unsupported()
    name = next((word for word in i.words if word in (*_ATOMIC, "exch", "cas")), None)
    if name is None:
        raise i.unsupported()
    operands = i.operands if i.name == "atom" else [None, *i.operands]
    target, value = operands[1:3]
    assert target is not None
    assert value is not None
    rows, addresses, x = t.rows(mask), t.address(target), t.get(value, kind)
    if not len(rows):
        return
    memory, index = t.memory.cells(space_of(i), addresses, BITS[kind], rows)
    memory = memory.view(DTYPES[kind])
    if i.name == "red" and kind != "bf16":
        _ATOMIC[name].at(memory, index, x[rows])
        return
    other = t.get(operands[3], kind) if name == "cas" and operands[3] is not None else x
    before = np.zeros(t.count, DTYPES[kind])
    for row, k in zip(rows, index, strict=True):
        old = before[row] = memory[k]
        if name == "cas":
            memory[k] = other[row] if old == x[row] else old
        elif name == "exch":
            memory[k] = x[row]
        elif kind == "bf16":
            old_and_new = bf16_to_f32(np.array([old, x[row]], np.uint16))
            memory[k] = f32_to_bf16(_ATOMIC[name](old_and_new[:1], old_and_new[1:]))[0]
        else:
            memory[k] = _ATOMIC[name](old, x[row])
    if operands[0] is not None:
        t.put(operands[0], before, mask)


def cp_async(t: Threads, i: Instruction, mask: Array | None) -> None:
    """Copies from global to shared memory; what it read arrives when a thread waits for the group of the copy."""
    if not i.has("async"):
        raise i.unsupported()
    if i.has("commit_group"):
        t.committed[t.rows(mask)] += 1
    elif i.has("wait_group", "wait_all"):
        count = i.operands[0] if i.operands else Number(0)
        if not isinstance(count, Number):
            raise i.unsupported()
        if i.has("wait_all"):
            t.committed[t.rows(mask)] += 1
        _arrive(t, t.rows(mask), count.value)
    else:
        _start(t, i, mask)


def _start(t: Threads, i: Instruction, mask: Array | None) -> None:
    to, source, size, *rest = i.operands
    if isinstance(size, Vector) or not isinstance(size, Number) or size.value not in (4, 8, 16):
        raise i.unsupported()
    if rest and isinstance(rest[0], Register) and t.kernel.register_type(rest[0].name) == "pred":
        raise i.unsupported()
    rows, words = t.rows(mask), size.value // 4
    # A size of the source below that of the copy: zeros follow. A 64-bit operand is a hint for the cache.
    has_size = (bool(rest) and not i.has("L2::cache_hint")) or len(rest) > 1
    read = t.get(rest[0], "u32").astype(np.int64) if has_size else np.full(t.count, size.value)
    addresses = t.address(source)
    full = rows[read[rows] == size.value]
    values = t.memory.load("global", addresses, 32, words, full)
    partial = rows[(read[rows] != size.value) & (read[rows] != 0)]
    if len(partial):
        raise i.unsupported()
    t.copies.append(Copy(rows, t.committed[rows], t.address(to), values))


def _arrive(t: Threads, rows: Array, count: int) -> None:
    """Writes what these threads copy, but for their last `count` groups."""
    waits = np.zeros(t.count, bool)
    waits[rows] = True
    left = []
    for copy in t.copies:
        is_done = waits[copy.rows] & (copy.groups < t.committed[copy.rows] - count)
        t.memory.store("shared", copy.addresses, copy.values, copy.rows[is_done])
        if not is_done.all():
            rest = ~is_done
            left.append(Copy(copy.rows[rest], copy.groups[rest], copy.addresses, copy.values))
    t.copies = left
