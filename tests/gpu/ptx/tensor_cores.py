"""Matrices of warps and of groups of four warps: ldmatrix, mma.sync, wgmma.

The layouts are those of the PTX ISA: of a 16 x 8 tile of results, thread 4 g + q has in register i the row g + 8 (i // 2) and the
column 2 q + i % 2. Products are exact, and their sums are rounded once; the hardware's own rounding of sums is not documented.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from gpu.ptx.counters import wavefronts
from gpu.ptx.numbers import BITS, Array, half_to_f32, tf32_to_f32
from gpu.ptx.parser import Instruction, Number, Operand, Unsupported, Vector
from gpu.ptx.threads import Threads, items

_LANES = np.arange(32)
_G, _Q = _LANES // 4, _LANES % 4


def ldmatrix(t: Threads, i: Instruction, mask: Array | None) -> None:
    """8 x 8 matrices of 16-bit elements from shared memory: threads 8 k, ..., 8 k + 7 give the addresses of the rows of matrix k."""
    active = t.is_whole(mask)
    for k, operand in enumerate(items(i.operands[0])):
        index = _matrix_rows(t, i, i.operands[1], k, active)
        tile = t.memory.shared.view(np.uint16)[index]
        low, high = (tile[:, 2 * _Q + h, _G] if i.has("trans") else tile[:, _G, 2 * _Q + h] for h in (0, 1))
        value = np.zeros((t.warps, 32), np.uint32)
        value[active] = low.astype(np.uint32) | high.astype(np.uint32) << np.uint32(16)
        t.put(operand, value.reshape(-1), mask)


def stmatrix(t: Threads, i: Instruction, mask: Array | None) -> None:
    """The reverse of ldmatrix."""
    active = t.is_whole(mask)
    for k, operand in enumerate(items(i.operands[1])):
        index = _matrix_rows(t, i, i.operands[0], k, active)
        value = t.get(operand, "b32").reshape(-1, 32)[active]
        tile = np.zeros(index.shape, np.uint16)
        for h in (0, 1):
            place = (2 * _Q + h, _G) if i.has("trans") else (_G, 2 * _Q + h)
            tile[:, place[0], place[1]] = (value >> np.uint32(16 * h)).astype(np.uint16)
        t.memory.shared.view(np.uint16)[index] = tile


def _matrix_rows(t: Threads, i: Instruction, operand: Operand, k: int, active: Array) -> Array:
    """The index of each element of matrix k, [warps that execute, 8, 8], in shared memory as 16-bit elements."""
    if BITS[i.kind] != 16 or not i.has("m8n8"):
        raise i.unsupported()
    rows = t.address(operand).reshape(-1, 32)[active, 8 * k : 8 * k + 8]
    size = t.memory.shared_size
    if rows.size and (rows.min() < 0 or rows.max() + 16 > size or (rows % 16).any()):
        raise IndexError(f"{i.name} outside of shared memory or not at a multiple of 16: {rows.min()} to {rows.max()} of {size}")
    groups = np.repeat(np.arange(len(rows)), 32)
    words = (rows[..., None] // 4 + np.arange(4)).reshape(-1)
    t.counts[f"shared.{i.name}.wavefronts"] += wavefronts(groups, words)
    t.counts[f"shared.{i.name}.ideal"] += len(rows)
    block = t.block.reshape(-1, 32)[active, :1] * size
    return (rows + block)[..., None] // 2 + np.arange(8)


def _numbers(kind: str, bits: Array) -> Array:
    """The numbers of elements that a tensor core reads, from their bits."""
    return tf32_to_f32(bits) if kind == "tf32" else half_to_f32(kind, bits.astype(np.uint16))


def _fragments(t: Threads, operands: Sequence[Operand], kind: str) -> list[tuple[Array, int, int]]:
    """The elements of a factor, [warps, 32], each with its register and its half of the register."""
    result = []
    for k, operand in enumerate(operands):
        bits = t.get(operand, "b32").reshape(-1, 32)
        if kind == "tf32":
            result.append((tf32_to_f32(bits), k, 0))
        else:
            result += [(_numbers(kind, bits >> np.uint32(16 * half)), k, half) for half in (0, 1)]
    return result


def _rows_16(t: Threads, operands: Sequence[Operand], kind: str, k: int) -> Array:
    """The first factor of an mma, [warps, 16, k]."""
    matrix = np.zeros((t.warps, 16, k))
    for x, register, half in _fragments(t, operands, kind):
        column = _Q + 4 * (register // 2) if kind == "tf32" else 2 * _Q + half + 8 * (register // 2)
        matrix[:, _G + 8 * (register % 2), column] = x
    return matrix


def mma(t: Threads, i: Instruction, mask: Array | None) -> None:
    """D = A B + C by a warp: m16n8 of tf32, bf16 and f16 with sums of f32 or f16, m8n8k4 of f64."""
    shape = next((word for word in i.words if word[0] == "m" and "n8k" in word), None)
    kinds = [word for word in i.words if word in BITS]
    if shape is None or len(kinds) != 4 or i.words.count("row") != 1 or i.words.count("col") != 1:
        raise i.unsupported()
    result, kind, other, total = kinds
    k = int(shape.partition("k")[2])
    t.is_whole(mask)
    if shape == "m8n8k4":
        if set(kinds) != {"f64"}:
            raise i.unsupported()
        _mma_f64(t, i, mask)
        return
    if kind != other or result != total or total not in ("f32", "f16"):
        raise i.unsupported()
    if k not in {"tf32": (4, 8), "bf16": (8, 16), "f16": (8, 16)}.get(kind, ()):
        raise i.unsupported()
    b = np.zeros((t.warps, k, 8))
    for x, register, half in _fragments(t, items(i.operands[2]), kind):
        b[:, _Q + 4 * register if kind == "tf32" else 2 * _Q + half + 8 * register, _G] = x
    sums = np.zeros((t.warps, 16, 8))
    for n, operand in enumerate(items(i.operands[3])):
        if total == "f32":
            sums[:, _G + 8 * (n // 2), 2 * _Q + n % 2] = t.get(operand, "f32").reshape(-1, 32)
        else:
            for x, _, half in _fragments(t, [operand], "f16"):
                sums[:, _G + 8 * n, 2 * _Q + half] = x
    sums = (_rows_16(t, items(i.operands[1]), kind, k) @ b + sums).astype(np.float32)
    for n, operand in enumerate(items(i.operands[0])):
        if total == "f32":
            t.put(operand, sums[:, _G + 8 * (n // 2), 2 * _Q + n % 2].reshape(-1), mask)
        else:
            low, high = (sums[:, _G + 8 * n, 2 * _Q + h].astype(np.float16).view(np.uint16).astype(np.uint32) for h in (0, 1))
            t.put(operand, (low | high << np.uint32(16)).reshape(-1), mask)
    t.counts["mma.flop"] += int(t.is_whole(mask).sum()) * 2 * 16 * 8 * k


def _mma_f64(t: Threads, i: Instruction, mask: Array | None) -> None:
    a, b, c = (np.zeros((t.warps, *shape)) for shape in ((8, 4), (4, 8), (8, 8)))
    a[:, _G, _Q] = t.get(items(i.operands[1])[0], "f64").reshape(-1, 32)
    b[:, _Q, _G] = t.get(items(i.operands[2])[0], "f64").reshape(-1, 32)
    for n, operand in enumerate(items(i.operands[3])):
        c[:, _G, 2 * _Q + n] = t.get(operand, "f64").reshape(-1, 32)
    for n, operand in enumerate(items(i.operands[0])):
        t.put(operand, (a @ b + c)[:, _G, 2 * _Q + n].reshape(-1), mask)
    t.counts["mma.flop"] += int(t.is_whole(mask).sum()) * 2 * 8 * 8 * 4


def wgmma(t: Threads, i: Instruction, mask: Array | None) -> None:
    """D = A B + D by four warps, m64 of tf32, bf16 and f16 with sums of f32; B lies in shared memory, A there or in registers."""
    if not i.has("mma_async"):
        return  # the product is there at once
    shape = next((m for word in i.words if (m := re.fullmatch(r"m64n(\d+)k(\d+)", word))), None)
    kinds = [word for word in i.words if word in BITS]
    if shape is None or len(kinds) != 3 or kinds[0] != "f32" or kinds[1] != kinds[2]:
        raise i.unsupported()
    n, k, kind = int(shape[1]), int(shape[2]), kinds[1]
    if k != {"tf32": 8, "bf16": 16, "f16": 16}.get(kind):
        raise i.unsupported()
    flags = [x.value if isinstance(x, Number) else 0 for x in i.operands[4:]]
    if any(flag != 1 for flag in flags[:2]):
        raise i.unsupported()  # negated factors
    from_registers = isinstance(i.operands[1], Vector)
    transposed = [bool(flag) for flag in flags[2:]]  # of A, unless it lies in registers, and of B
    active = t.is_whole(mask, 128)
    b = _of_descriptors(t, i.operands[2], n, k, kind, transposed[-1] if transposed else False, active)
    if from_registers:
        a = _rows_16(t, items(i.operands[1]), kind, k).reshape(-1, 64, k)[active]
    else:
        a = _of_descriptors(t, i.operands[1], 64, k, kind, transposed[0] if transposed else False, active)
    product = np.zeros((len(active), 4, 16, n))
    product[active] = (a @ b.transpose(0, 2, 1)).reshape(-1, 4, 16, n)
    adds = t.get(i.operands[3], "pred")
    for r, operand in enumerate(items(i.operands[0])):
        column, part = r // 4 * 8, r % 4
        p = product[:, :, _G + 8 * (part // 2), column + 2 * _Q + part % 2].reshape(-1)
        t.put(operand, (p + np.where(adds, t.get(operand, "f32"), 0)).astype(np.float32), mask)
    t.counts["mma.flop"] += int(active.sum()) * 2 * 64 * n * k


def _of_descriptors(t: Threads, operand: Operand, rows: int, k: int, kind: str, transposed: bool, active: Array) -> Array:
    """The matrices [groups that execute, rows, k] that descriptors of shared memory show.

    The layouts are the canonical ones of the PTX ISA (section on matrix descriptors of wgmma): 8 rows of 128, 64 or 32 bytes whose
    units of 16 bytes are swizzled by the number of the row, or 8 rows of 16 bytes without swizzling.
    """
    size = 4 if kind == "tf32" else 2
    described = t.get(operand, "b64").reshape(-1, 128)[active, 0].astype(np.uint64)
    fields = [((described >> np.uint64(shift)) & np.uint64(0x3FFF)).astype(np.int64) << 4 for shift in (0, 16, 32)]
    start, leading, stride = (x[:, None, None] for x in fields)
    modes = set((described >> np.uint64(62)).tolist())
    if len(modes) > 1:
        raise Unsupported("the interpreter does not have wgmma with different layouts in one instruction")
    mode = int(modes.pop()) if modes else 0
    r, c = np.arange(rows)[None, :, None], np.arange(k)[None, None, :]
    if mode == 0:
        if transposed:
            raise Unsupported("the interpreter does not have wgmma with a transposed factor without swizzling")
        index = start + r // 8 * stride + c * size // 16 * leading + r % 8 * 16 + c * size % 16
    else:
        pitch = {1: 128, 2: 64, 3: 32}[mode]
        per = pitch // size
        if transposed:
            index = start + r // per * leading + c // 8 * stride + c % 8 * pitch + r % per * size
        else:
            index = start + r // 8 * stride + r % 8 * pitch + c * size
        index = index ^ ((index >> 7) & (pitch // 16 - 1)) << 4
    if index.size and index.max() + size > t.memory.shared_size:
        raise IndexError(f"wgmma outside of shared memory: {index.max()} of {t.memory.shared_size}")
    block = t.block.reshape(-1, 128)[active, :1, None] * t.memory.shared_size
    bits = t.memory.shared.view({2: np.uint16, 4: np.uint32}[size])[(index + block) // size]
    return _numbers(kind, bits).astype(np.float64)
