"""Monte Carlo arithmetic in compiled loops: StableHLO that moves results by some units in their last place.

The interpreter does the same to the operations that it runs (`nabla_mlir.interpreter.rounding`). The factor of an element is
``1 + units * eps * u`` with a number u in [-1, 1) that depends on a seed, on the operation, on the index and on the element's own
bits, so that each iteration of a loop has another one. With 0 units, the factor is 1 and the code computes the exact program.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from iree.compiler import ir

from nabla_mlir.base.conversion import limits_of
from nabla_mlir.dialects import builder as hb
from nabla_mlir.dialects.builder import Val
from nabla_mlir.dialects.types import is_complex, is_differentiable, is_static_tensor, shape_and_dtype
from nabla_mlir.interpreter.rounding import PRODUCT, SUM, kind_of
from nabla_mlir.table.traits import CONSTANT

_EXACT_KINDS = ("exact", "compare")
# The finaliser of a hash that mixes 32 bits (C. Wellons, "Prospecting for hash functions", 2018: lowbias32).
_STEPS = ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 0))
_OF_INDICES, _OF_SEEDS, _OF_SITES = 0x9E3779B1, 0x85EBCA6B, 0x2545F491


def perturb(ops: Iterable[ir.Operation], seed: ir.Value, units: ir.Value) -> None:
    """Perturbs the results of operations in place; sums and products get perturbed operands, too, because their terms may cancel.

    Args:
      ops: operations of functions, loops and branches.
      seed: a scalar i32.
      units: a scalar f32, the largest perturbation in units of the last place.
    """
    for site, op in enumerate(ops):
        kind = kind_of(op)
        if kind in _EXACT_KINDS or op.name == CONSTANT:
            continue
        if kind in (SUM, PRODUCT):
            with ir.InsertionPoint(op):
                for i in range(2 if kind == PRODUCT else 1):
                    if _is_perturbed(op.operands[i]):
                        op.operands[i] = _perturbed_value(op.operands[i], seed, units, 3 * site + 1 + i)
        for result in op.results:
            if _is_perturbed(result):
                uses = [(use.owner, use.operand_number) for use in result.uses]
                with ir.InsertionPoint.after(op):
                    moved = _perturbed_value(result, seed, units, 3 * site)
                for owner, i in uses:
                    owner.operation.operands[i] = moved


def _is_perturbed(value: ir.Value) -> bool:
    """True if a value is a static tensor of floating-point numbers."""
    return is_static_tensor(value.type) and is_differentiable(shape_and_dtype(value.type)[1])


def _perturbed_value(value: ir.Value, seed: ir.Value, units: ir.Value, site: int) -> ir.Value:
    """The value with each element changed by at most `units` units in its last place; emits the operations.

    Args:
      value: a tensor of real or complex numbers.
      seed, units: scalars in the program: an i32, and the f32 that is the largest perturbation.
      site: a number that distinguishes this value from others, which get other perturbations.
    """
    x = Val(value)
    if not is_complex(x.dtype):
        return _scaled(x, Val(seed), Val(units), site).value
    parts = [_scaled(part, Val(seed), Val(units), site) for part in (hb.real(x), hb.imag(x))]
    return hb.complex_(*parts).value


def _scaled(x: Val, seed: Val, units: Val, site: int) -> Val:
    """The product x * (1 + u * eps * units), with a number u in [-1, 1) for each element; eps is the unit of the dtype.

    u is a hash of the seed of the run, of the number `site` of the value, and of the index and the bits of the element.
    """
    indices = hb.reshape(hb.iota((math.prod(x.shape),), 0, "int32"), x.shape)
    of_run = seed * _signed(_OF_SEEDS) + _signed((site + 1) * _OF_SITES)
    bits = _bits(x) ^ indices * _signed(_OF_INDICES) ^ hb.broadcast(of_run, x.shape, ())
    for shift, factor in _STEPS:  # the steps of the hash; factor 0 means no product
        bits = bits ^ bits >> shift
        bits = bits * _signed(factor) if factor else bits
    uniform = hb.convert(hb.convert(bits, "float32") * 2.0**-31, x.dtype)  # an i32 is in [-2^31, 2^31)
    unit = hb.convert(units, x.dtype) * float(limits_of(x.dtype).eps)
    return x * (hb.broadcast(unit, x.shape, ()) * uniform + 1.0)


def _signed(x: int) -> int:
    """The lower 32 bits of a number, as a signed integer: 0x85EBCA6B -> -2048144789."""
    return (x + (1 << 31)) % (1 << 32) - (1 << 31)


def _bits(x: Val) -> Val:
    """The bits of each element as an i32: of 64 bits both halves are combined, and shorter ones are extended."""
    size = x.dtype.itemsize
    bits = hb.bitcast(x, f"int{8 * size}")
    return bits if size == 4 else hb.convert(bits ^ bits >> 32, "int32") if size == 8 else hb.convert(bits, "int32")
