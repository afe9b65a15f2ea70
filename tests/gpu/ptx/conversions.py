"""Moves, comparisons, selections and conversions between types."""

from __future__ import annotations

import numpy as np

from gpu.ptx.numbers import BITS, DTYPES, UNSIGNED, Array, bf16_to_f32, f32_to_half, flushed, round_to_tf32, to_integer
from gpu.ptx.parser import Instruction, Operand, Pair, Vector
from gpu.ptx.threads import Threads

_ROUND = {"rni": np.rint, "rmi": np.floor, "rpi": np.ceil, "rzi": np.trunc}


def mov(t: Threads, i: Instruction, mask: Array | None) -> None:
    """A move; a vector on one side is the parts of the other, the lowest bits first."""
    kind = i.kind
    to, source = i.operands
    dtype = UNSIGNED[BITS[kind]]
    if isinstance(source, Vector):
        each = BITS[kind] // len(source.items)
        parts = [t.get(a, f"b{each}").astype(dtype) << dtype(each * k) for k, a in enumerate(source.items)]
        t.put(to, np.bitwise_or.reduce(parts), mask)
    elif isinstance(to, Vector):
        x = t.get(source, kind).view(dtype)
        each = BITS[kind] // len(to.items)
        for k, part in enumerate(to.items):
            t.put(part, (x >> dtype(each * k)).astype(UNSIGNED[each]), mask)
    else:
        t.put(to, t.get(source, kind), mask)


def number(t: Threads, operand: Operand, kind: str) -> Array:
    """The value of an operand; of bf16 as f32."""
    x = t.get(operand, kind)
    return bf16_to_f32(x) if kind == "bf16" else x


def cvt(t: Threads, i: Instruction, mask: Array | None) -> None:
    """A conversion. To integers it rounds as the words say, and gives the nearest number of the type."""
    kinds = [word for word in i.words if word in BITS]
    to, source = kinds[0], kinds[-1]
    mode = "rz" if i.has("rz") else "rn"
    if to in ("bf16x2", "f16x2"):  # the first operand is the upper half
        if source != "f32" or i.has("sat", "ftz") or (mode == "rz" and to == "f16x2"):
            raise i.unsupported()
        high, low = (f32_to_half(to[:-2], t.get(a, "f32"), mode).astype(np.uint32) for a in i.operands[1:])
        t.put(i.operands[0], high << np.uint32(16) | low, mask)
        return
    x = number(t, i.operands[1], source)
    if to == "tf32":
        if not i.has("rna"):
            raise i.unsupported()
        result = round_to_tf32(x)
    elif to == "bf16":
        result = f32_to_half("bf16", x.astype(np.float32), mode)
    elif to in ("f16", "f32", "f64"):
        result = _to_float(x, i, to, mode)
    elif x.dtype.kind == "f":
        rounding = next((f for word, f in _ROUND.items() if i.has(word)), None)
        if rounding is None:
            raise i.unsupported()
        result = to_integer(rounding(flushed(x) if i.has("ftz") else x), to, source)
    else:
        info = np.iinfo(DTYPES[to])
        if i.has("sat"):
            given = np.iinfo(x.dtype)
            x = np.clip(x, max(info.min, given.min), min(info.max, given.max))
        result = x.astype(DTYPES[to])
    t.put(i.operands[0], result, mask)


def _to_float(x: Array, i: Instruction, to: str, mode: str) -> Array:
    if i.has("ftz") and x.dtype == np.float32:
        x = flushed(x)
    result = x.astype(DTYPES[to])
    for word, f in _ROUND.items():
        result = f(result) if i.has(word) else result
    if mode == "rz":  # one step back where rounding has gone away from zero
        wide = np.float64 if x.dtype.kind == "f" else np.longdouble
        beyond = np.abs(result.astype(wide)) > np.abs(x.astype(wide))
        result = np.where(beyond, np.nextafter(result, result.dtype.type(0)), result)
    if i.has("sat"):
        result = np.where(np.isnan(result), 0, np.clip(result, 0, 1)).astype(result.dtype)
    return flushed(result) if i.has("ftz") and to == "f32" else result


def cvta(t: Threads, i: Instruction, mask: Array | None) -> None:
    """A generic address: the same number, for shared memory begins at 0."""
    t.put(i.operands[0], t.get(i.operands[1], i.kind), mask)


_UNSIGNED_ORDER = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}


def setp(t: Threads, i: Instruction, mask: Array | None) -> None:
    """A comparison, combined with a predicate. With NaN it is false, or true if its name ends in u."""
    kind, name = i.kind, i.words[0]
    x, y = (number(t, a, kind) for a in i.operands[1:3])
    if i.has("ftz") and x.dtype == np.float32:
        x, y = flushed(x), flushed(y)
    if x.dtype.kind == "f":
        is_nan = np.isnan(x) | np.isnan(y)
        if name in ("nan", "num"):
            result = is_nan if name == "nan" else ~is_nan
        else:
            compared = _COMPARE[name[:2]](x, y)
            result = compared | is_nan if name.endswith("u") else compared & ~is_nan
    else:
        result = _COMPARE[_UNSIGNED_ORDER.get(name, name)](x, y)
    logic = next((word for word in ("and", "or", "xor") if i.has(word)), None)
    to = i.operands[0].items if isinstance(i.operands[0], Pair) else (i.operands[0],)
    for operand, value in zip(to, (result, ~result), strict=False):
        if logic:
            other = t.get(i.operands[3], "pred")
            value = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}[logic](value, other)
        t.put(operand, value, mask)


def selp(t: Threads, i: Instruction, mask: Array | None) -> None:
    """The first operand where the predicate is true, else the second."""
    x, y = (t.get(a, i.kind) for a in i.operands[1:3])
    t.put(i.operands[0], np.where(t.get(i.operands[3], "pred"), x, y), mask)
