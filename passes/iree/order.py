"""The total order of elements, as an order of integers."""

from __future__ import annotations

import numpy as np

from nabla_mlir.dialects.builder import Val, binary, bitcast, convert


def to_key(x: Val) -> Val:
    """Signed integers in the order of the elements of x; `from_key` recovers the elements.

    Unsigned integers get their highest bit flipped. Floats keep their bits if they are positive; the others are flipped
    (`_folded`).
    """
    if x.dtype.kind == "b" or (x.dtype.kind in "iu" and x.dtype.itemsize < 4):
        return convert(x, np.int32)
    if x.dtype.kind == "i":
        return x
    if x.dtype.kind == "u":
        signed = bitcast(x, np.dtype(f"i{x.dtype.itemsize}"))
        return signed ^ int(np.iinfo(signed.dtype).min)
    wide = x if x.dtype.itemsize >= 4 else convert(x, np.float32)
    return _folded(bitcast(wide, np.dtype(f"i{wide.dtype.itemsize}")))


def from_key(key: Val, dtype: np.dtype) -> Val:
    """The elements, of this dtype, from which `to_key` made the keys."""
    if dtype.kind == "b" or (dtype.kind in "iu" and dtype.itemsize < 4) or dtype.kind == "i":
        return key if key.dtype == dtype else convert(key, dtype)
    if dtype.kind == "u":
        return bitcast(key ^ int(np.iinfo(key.dtype).min), dtype)
    wide = bitcast(_folded(key), np.dtype(f"f{key.dtype.itemsize}"))
    return wide if wide.dtype == dtype else convert(wide, dtype)


def _folded(bits: Val) -> Val:
    """Integers in the order of floats, from the bits of the floats; or the bits, from such integers.

    All bits but the sign are flipped for negative numbers, so doing it twice gives the same bits.
    """
    width = 8 * bits.dtype.itemsize
    sign = binary("stablehlo.shift_right_arithmetic", bits, width - 1)
    return bits ^ (sign & int(np.iinfo(bits.dtype).max))
