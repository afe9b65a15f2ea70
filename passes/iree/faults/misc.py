"""Legalisation of what a program for one device does not need, and clear errors for what cannot be compiled."""

from __future__ import annotations

import re

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.builder import Val
from nabla_mlir.dialects.regions import made_by
from nabla_mlir.dialects.types import is_float
from nabla_mlir.errors import RuleMissingError
from nabla_mlir.passes.iree.pattern import Replacement, Target, attributes_of, operands, pattern


@pattern("stablehlo.replica_id", "stablehlo.partition_id")
def device_id(op: ir.Operation, target: Target) -> Replacement:
    """Collective operations compile but cannot run; there is one device, number 0."""
    return b.full(0, (), Val(op.results[0]).dtype)


@pattern(
    "stablehlo.all_reduce", "stablehlo.all_gather", "stablehlo.all_to_all", "stablehlo.reduce_scatter",
    "stablehlo.collective_broadcast",
)  # fmt: skip
def collective(op: ir.Operation, target: Target) -> Replacement:
    """Collective operations compile but cannot run; on one device they do nothing."""
    groups = hlo.array_of(op.attributes["replica_groups"])
    if groups.size > 1:
        raise RuleMissingError(f"{op.name} requires one device, got groups of {groups.shape[-1]} at {op.location}.")
    return operands(op)


@pattern("stablehlo.collective_permute")
def collective_permute(op: ir.Operation, target: Target) -> Replacement:
    """As the other collectives; without a sender the result is zero."""
    (x,) = operands(op)
    pairs = hlo.array_of(op.attributes["source_target_pairs"])
    if pairs.size and pairs.max() > 0:
        raise RuleMissingError(f"{op.name} requires one device, got {pairs.tolist()} at {op.location}.")
    return x if pairs.size else b.splat(0, x)


_IDENTITIES = ("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement")


@pattern("stablehlo.rng_bit_generator")
def philox(op: ir.Operation, target: Target) -> Replacement:
    """From a state of three words Philox gives other bits than XLA's."""
    (state,) = operands(op)
    if "PHILOX" in str(op.attributes["rng_algorithm"]) and state.shape != (2,):
        raise RuleMissingError(
            f"PHILOX requires a state of 2 words, got {state.shape[0]} at {op.location}.",
            help="use the algorithm THREE_FRY or DEFAULT.",
        )
    return None


@pattern("stablehlo.rng")
def uniform(op: ir.Operation, target: Target) -> Replacement:
    """Uniform numbers may be rounded to the upper bound, which is excluded; in narrow formats they often are."""
    low, high, _ = operands(op)
    result = Val(op.results[0])
    if "UNIFORM" not in str(op.attributes["rng_distribution"]) or not (is_float(low.dtype) and result.static):
        return None
    made = Val(b.make(op.name, operands(op), [result.type], attributes_of(op), final=True).results[0])
    low, high = (b.broadcast(v, result.shape, []) for v in (low, high))
    return b.select(made < high, made, low)


@pattern("stablehlo.convert")
def counter_to_float(op: ir.Operation, target: Target) -> Replacement:
    """The compiler moves scalar arithmetic on loop counters to the host, whose VM cannot convert integers to f64."""
    (x,) = operands(op)
    owner = made_by(x.value)
    name = owner.name if owner is not None else ""
    hidden = name in (hlo.OPTIMIZATION_BARRIER, "stablehlo.constant")
    if x.rank or x.dtype.kind not in "iu" or Val(op.results[0]).dtype != np.float64 or hidden:
        return None
    return b.convert(b.held(x), np.float64)


@pattern("stablehlo.convert")
def counter_to_unsigned(op: ir.Operation, target: Target) -> Replacement:
    """On the host a conversion of a loop counter to unsigned makes arithmetic of unsigned types, which it has not."""
    (x,) = operands(op)
    wanted = Val(op.results[0]).dtype
    if x.rank or x.dtype.kind not in "iu" or wanted.kind != "u":
        return None
    width = np.dtype(f"i{wanted.itemsize}")
    signed = x if x.dtype == width else b.convert(x, width)
    return Val(b.make("stablehlo.bitcast_convert", [signed], [op.results[0].type], {}).results[0])


@pattern("stablehlo.convert")
def truth_to_float(op: ir.Operation, target: Target) -> Replacement:
    """Folded into a product, a conversion of booleans to floats gives one of i1 that the compiler refuses; SPIR-V has none."""
    (x,) = operands(op)
    result = Val(op.results[0])
    if x.dtype != np.bool_ or not (is_float(result.dtype) and x.static):
        return None
    return b.select(x, b.splat(1, result), b.splat(0, result))


@pattern("stablehlo.reverse")
def reverse(op: ir.Operation, target: Target) -> Replacement:
    """For Vulkan a reversed matrix fused into what reads it twice does not compile: it is made on its own."""
    if target != "vulkan":
        return None
    made = Val(b.make(op.name, operands(op), [op.results[0].type], attributes_of(op), final=True).results[0])
    return b.stored(made)


@pattern("stablehlo.custom_call")
def custom_call(op: ir.Operation, target: Target) -> Replacement:
    """No custom call compiles but ApproxTopK."""
    name = hlo.String.decode(op.attributes["call_target_name"])
    if name in _IDENTITIES:
        return operands(op)[: len(op.results)]
    if name == "ApproxTopK" or name.startswith("lapack_"):
        return None
    raise RuleMissingError(f"stablehlo.custom_call requires a known target, got {name!r} at {op.location}.")


@pattern(
    "stablehlo.infeed", "stablehlo.outfeed", "stablehlo.send", "stablehlo.recv", "stablehlo.create_token",
    "stablehlo.dynamic_conv", "stablehlo.dynamic_reshape", "stablehlo.dynamic_pad", "stablehlo.dynamic_gather",
)  # fmt: skip
def unsupported(op: ir.Operation, target: Target) -> Replacement:
    """Does not compile."""
    raise RuleMissingError(f"{op.name} requires a rule for IREE, got {_place(op)}.")


def _place(op: ir.Operation) -> str:
    return re.sub(r"^loc\((.*)\)$", r"\1", str(op.location))
