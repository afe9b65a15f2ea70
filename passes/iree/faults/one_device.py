"""Operations that a program for one device does not need: collectives and shardings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.base.errors import RuleMissingError
from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.builder import Val
from nabla_mlir.passes.base import register
from nabla_mlir.passes.iree.driver import PatternPass
from nabla_mlir.passes.iree.pattern import Patterns, Replacement, Target, operands

PATTERNS = Patterns()
SHARDINGS = ("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement")


@PATTERNS.of("stablehlo.replica_id", "stablehlo.partition_id")
def device_id(op: ir.Operation, target: Target) -> Replacement:
    """The number of the only device, 0, as a constant."""
    return b.full(0, (), Val(op.results[0]).dtype)


@PATTERNS.of(
    "stablehlo.all_reduce",
    "stablehlo.all_gather",
    "stablehlo.all_to_all",
    "stablehlo.reduce_scatter",
    "stablehlo.collective_broadcast",
)
def collective(op: ir.Operation, target: Target) -> Replacement:
    """The operands of a collective operation, which are its results on one device; IREE cannot run collective operations."""
    groups = hlo.array_of(op.attributes["replica_groups"])
    if groups.size > 1:
        raise RuleMissingError(f"{op.name} requires one device, got groups of {groups.shape[-1]} at {op.location}.")
    return operands(op)


@PATTERNS.of("stablehlo.collective_permute")
def collective_permute(op: ir.Operation, target: Target) -> Replacement:
    """The operand of a permutation between devices, or zeros if no device sends to this one."""
    (x,) = operands(op)
    pairs = hlo.array_of(op.attributes["source_target_pairs"])
    if pairs.size and pairs.max() > 0:
        raise RuleMissingError(f"{op.name} requires one device, got {pairs.tolist()} at {op.location}.")
    return x if pairs.size else b.splat(0, x)


@PATTERNS.of("stablehlo.custom_call")
def sharding(op: ir.Operation, target: Target) -> Replacement:
    """The operands of a call that only distributes arrays over devices, which has no effect on one device; else None."""
    is_identity = hlo.String.decode(op.attributes["call_target_name"]) in SHARDINGS
    return operands(op)[: len(op.results)] if is_identity else None


@register
@dataclass(frozen=True)
class OneDevicePass(PatternPass):
    """Remove operations that a program for one device does not need: collective operations, shardings.

    IREE 3.13 compiles collective operations, but cannot run them. Groups of several devices are refused.

    Example: tests/filecheck/passes/one_device.mlir
    """

    name: ClassVar[str] = "nabla-one-device"
    patterns: ClassVar[Patterns] = PATTERNS
