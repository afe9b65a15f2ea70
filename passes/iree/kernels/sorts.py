"""Large sorts by one key as kernels: the key becomes integers in the same order, and other operands are gathered by index."""

from __future__ import annotations

import math

import numpy as np
from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.builder import Val
from nabla_mlir.passes.iree.faults.sort import counts
from nabla_mlir.passes.iree.kernels.call import call
from nabla_mlir.passes.iree.kernels.sort import sort_text
from nabla_mlir.passes.iree.linalg.stacks import take_rows
from nabla_mlir.passes.iree.order import from_key, to_key
from nabla_mlir.passes.iree.pattern import Patterns, Replacement, Target, operands
from nabla_mlir.passes.iree.regions import key_of
from nabla_mlir.passes.iree.target import machine

PATTERNS = Patterns()


@PATTERNS.of("stablehlo.sort")
def sort_by_a_key(op: ir.Operation, target: Target) -> Replacement:
    """A sort by one key as a call of a radix sort kernel, or None for a small sort or a comparator of another kind.

    IREE's sort needs quadratic time, and a sorting network would pass over all elements many times. A million f32 took 5.2 s; they
    take 20 ms in the kernel.
    """
    values = operands(op)
    x = values[0]
    if machine().vector_bytes == 0 or op.parent.name != "func.func" or not x.static:
        return None
    dim = hlo.I64.decode(op.attributes["dimension"]) % x.rank if "dimension" in op.attributes else x.rank - 1
    n, size = x.shape[dim], math.prod(x.shape)
    if n < thresholds.SORT_AS_KERNEL or size < thresholds.SORTED_BY_KERNEL:
        return None
    found = key_of(op.regions[0], values)
    if found is None:
        return None
    key, direction = found
    order = [*(d for d in range(x.rank) if d != dim), dim]
    rows = [b.reshape(b.transpose(v, order), (size // n, n)) for v in (to_key(key), *values)]
    # The complement ~k reverses the order of integers.
    keys, positions = _sorted(rows[0] if direction == "LT" else ~rows[0])
    shape, back = [x.shape[d] for d in order], sorted(range(x.rank), key=order.__getitem__)
    results = []
    for value, row in zip(values, rows[1:], strict=True):
        if value.value == key.value:
            result = from_key(keys if direction == "LT" else ~keys, value.dtype)
        elif counts(value.value, dim):
            result = positions if value.dtype == np.int32 else b.convert(positions, value.dtype)
        else:
            result = b.reshape(take_rows(b.reshape(row, (*row.shape, 1)), positions), row.shape)
        results.append(b.transpose(b.reshape(result, shape), back))
    return results


def _sorted(keys: Val) -> tuple[Val, Val]:
    """The sorted keys of each row, and the index that each key had in its row before, by a kernel."""
    rows, n = keys.shape
    element = f"i{8 * keys.dtype.itemsize}"
    name = f"sort_{rows}x{n}_{element}"
    text, results = sort_text(name, rows, n, element)
    found, positions, *_ = call(name, text, [keys], results)
    return found, positions
