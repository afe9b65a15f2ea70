"""Selections between values by one predicate, computed on the device with the values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects.regions import nested_in_functions
from nabla_mlir.dialects.types import is_static_tensor
from nabla_mlir.ops.logic import compare, select
from nabla_mlir.ops.shape import broadcast_in_dim
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.table.regions import body_of, clone_body, replace
from nabla_mlir.table.tensor import Tensor, full, wrap
from nabla_mlir.table.traits import CONSTANT, is_cheap, size_of

_CHOICES = ("stablehlo.if", "stablehlo.case")
_FREE = (CONSTANT, "stablehlo.broadcast_in_dim", "stablehlo.reshape")
# Division by 0 ends the process, and the branch may prevent it.
_DIVISIONS = ("stablehlo.divide", "stablehlo.remainder")


@register
@dataclass(frozen=True)
class ChooseOnDevicePass(Pass):
    """Write a branch that only selects between small values as a `select`, and broadcast the predicate of a `select`.

    IREE 3.13 decides a branch, and a `select` by one truth value, on the host, which waits for the predicate. If another
    branch or a loop reads the result, IREE may also put the work before and after the branch into one part of the program
    ("circular dependency"). For example, the accepted step of a Hamiltonian Monte Carlo in f64 did not compile.

    Example: tests/filecheck/passes/choose_on_device.mlir
    """

    name: ClassVar[str] = "nabla-choose-on-device"
    most_operations: int = thresholds.BRANCH_OPERATIONS  # the largest number in all branches together, because all of them will run
    most_elements: int = thresholds.BRANCH_ELEMENTS  # the largest number in a result, which a branch would not copy

    def run(self, module: ir.Operation) -> None:
        """Replaces branches between small values by `select`, and broadcasts scalar predicates, in place."""
        for op in nested_in_functions(module):
            if op.name in _CHOICES and self._is_small(op) and self._may_run_always(op):
                with ir.InsertionPoint(op), op.location:
                    replace(op, _chosen(op))
            elif op.name == "stablehlo.select" and self._is_small(op):
                with ir.InsertionPoint(op), op.location:
                    op.operands[0] = _broadcast(wrap(op.operands[0]), wrap(op.results[0])).value

    def _is_small(self, op: ir.Operation) -> bool:
        """True if all results of an operation are static and small enough to be computed for both cases."""
        return all(is_static_tensor(r.type) and size_of(r) <= self.most_elements for r in op.results)

    def _may_run_always(self, op: ir.Operation) -> bool:
        """True if running all branches is cheaper than the decision on the host, and no operation in them can fail."""
        inner = [o for region in op.regions for o in body_of(region)[1] if o.name not in _FREE]
        return len(inner) <= self.most_operations and all(map(self._is_harmless, inner))

    def _is_harmless(self, op: ir.Operation) -> bool:
        """True if an operation is cheap, has small results, and cannot fail: integer divisions can."""
        if op.name in _DIVISIONS and wrap(op.results[0]).dtype.kind in "iu":
            return False
        return is_cheap(op) and self._is_small(op)


def _chosen(op: ir.Operation) -> list[Tensor]:
    """The results of a branch as `select` between the results of all branches, which are computed first."""
    predicate = wrap(op.operands[0])
    branches = [_inlined(region) for region in op.regions]
    if op.name == "stablehlo.if":
        return [_select(predicate, *each) for each in zip(*branches, strict=True)]
    results = branches[-1]  # also for an index out of range
    for k in reversed(range(len(branches) - 1)):
        is_chosen = compare(predicate, full((), k, predicate.dtype), comparison_direction="EQ")
        results = [_select(is_chosen, *each) for each in zip(branches[k], results, strict=True)]
    return results


def _inlined(region: ir.Region) -> list[Tensor]:
    """The results of a region, whose operations are copied to the insertion point."""
    _, ops, outputs = body_of(region)
    mapping: dict[ir.Value, ir.Value] = {}
    clone_body(ops, mapping)
    return [wrap(mapping.get(v, v)) for v in outputs]


def _select(predicate: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    """The elementwise selection between `yes` and `no`, by a predicate that is broadcast if it is a scalar."""
    return select(_broadcast(predicate, yes), yes, no)


def _broadcast(predicate: Tensor, like: Tensor) -> Tensor:
    """A scalar predicate broadcast to the shape of `like`; a predicate of this shape is unchanged."""
    return predicate if predicate.shape == like.shape else broadcast_in_dim(predicate, shape=like.shape, broadcast_dimensions=())
