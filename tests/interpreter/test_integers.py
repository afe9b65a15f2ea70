"""Operations on integers of every width at the ends of their range, interpreted and compiled, against Python's own integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
from nabla_mlir.jax import lax

DTYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def quotient(a: int, b: int, bits: int) -> int:
    """Cut off towards 0; all bits set where b is 0 (StableHLO leaves that open; XLA and IREE agree)."""
    if b == 0:
        return -1
    return abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)


def rest(a: int, b: int, bits: int) -> int:
    return a - quotient(a, b, bits) * b if b else a


def unsigned(a: int, bits: int) -> int:
    return a % (1 << bits)


ORACLES: dict[str, Callable[..., int]] = {
    "add": lambda a, b, _: a + b,
    "sub": lambda a, b, _: a - b,
    "mul": lambda a, b, _: a * b,
    "div": quotient,
    "rem": rest,
    "max": lambda a, b, _: max(a, b),
    "min": lambda a, b, _: min(a, b),
    "bitwise_and": lambda a, b, _: a & b,
    "bitwise_or": lambda a, b, _: a | b,
    "bitwise_xor": lambda a, b, _: a ^ b,
    "shift_left": lambda a, b, bits: a << b if 0 <= b < bits else 0,
    "shift_right_logical": lambda a, b, bits: unsigned(a, bits) >> b if 0 <= b < bits else 0,
    "shift_right_arithmetic": lambda a, b, bits: a >> (b if 0 <= b < bits else bits - 1),
    "bitwise_not": lambda a, _, bits: ~a,
    "neg": lambda a, _, bits: -a,
    "abs": lambda a, _, bits: abs(a),
    "sign": lambda a, _, bits: (a > 0) - (a < 0),
    "population_count": lambda a, _, bits: unsigned(a, bits).bit_count(),
    "clz": lambda a, _, bits: bits - unsigned(a, bits).bit_length(),
}
UNARY = {"bitwise_not", "neg", "abs", "sign", "population_count", "clz"}


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    limits = np.iinfo(dtype)
    values = [limits.min, limits.min + 1, limits.max, limits.max // 2, limits.max - 7, *range(10), 15, 31, 32, 63, 64]
    values += [-n for n in (1, 2, 7, 9)] if limits.min < 0 else []
    a, b = np.meshgrid(*[np.array(values, dtype)] * 2)
    return a.ravel(), b.ravel()


def expected(name: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Modulo the range of the dtype; the sign of shifts of unsigned numbers is that of their bits."""
    bits = 8 * a.dtype.itemsize
    signed = np.dtype(f"i{a.dtype.itemsize}") if name == "shift_right_arithmetic" else a.dtype
    results = [ORACLES[name](int(x), int(y), bits) for x, y in zip(a.view(signed), b, strict=True)]
    return np.array([unsigned(r, bits) for r in results], f"u{a.dtype.itemsize}").view(a.dtype)


def everything(a: Any, b: Any) -> dict[str, Any]:
    return {name: getattr(lax, name)(*(a, b)[: 1 if name in UNARY else 2]) for name in ORACLES}


@pytest.mark.parametrize("dtype", DTYPES)
def test_interpreted(dtype: str) -> None:
    a, b = pairs(dtype)
    got = nm.trace(everything, a, b).lower().compile(nm.Interpreter())(a, b)
    for name, result in got.items():
        np.testing.assert_array_equal(result, expected(name, a, b), err_msg=name, strict=True)


def test_compiled() -> None:
    args = {dtype: pairs(dtype) for dtype in DTYPES}
    got = nm.jit(lambda args: {dtype: everything(*ab) for dtype, ab in args.items()})(args)
    for dtype, results in got.items():
        for name, result in results.items():
            np.testing.assert_array_equal(np.asarray(result), expected(name, *args[dtype]), err_msg=f"{name} {dtype}", strict=True)
