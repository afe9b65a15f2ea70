"""Code that a map runs for every entry, though only some of them take its results.

What it does for the others may be infinite or not a number. The selection behind it drops those values, but not their
derivatives: a cotangent of zero times an infinite partial is not a number. So whatever enters the code passes a gate,
``select(taken, x, stop_gradient(x))``: it is the value itself, which simplification finds once every derivative has
been taken, and its tangents and cotangents are zero for entries that do not take the results.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from iree.compiler import ir

from nabla_mlir.ops.autodiff import stop_gradient
from nabla_mlir.ops.logic import select
from nabla_mlir.ops.shape import broadcast_in_dim
from nabla_mlir.table.batching import Mapped, batch_ops, prefixed
from nabla_mlir.table.forward import carries_tangent
from nabla_mlir.table.regions import reads_of
from nabla_mlir.table.tensor import Tensor
from nabla_mlir.table.traits import is_part


def choose(mask: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Per entry a or b; `mask` has the mapped axis alone."""
    if a.ndim > 1:
        mask = broadcast_in_dim(mask, shape=a.shape, broadcast_dimensions=(0,))
    return select(mask, a, b)


def gated(mask: Tensor, x: Tensor) -> Tensor:
    """`x`, whose derivative is zero where `mask` is false."""
    return choose(mask, x, stop_gradient(x)) if carries_tangent(x.value) else x


def batch_gated(
    ops: Sequence[ir.Operation], inner: Mapped, same: dict[ir.Value, ir.Value], size: int, mask: Tensor,
    arguments: Iterable[ir.Value] = (),
) -> None:  # fmt: skip
    """`batch_ops` with a gate at every value from outside that the operations use.

    A value from outside that all entries share has to be prefixed for it: its cotangent is a sum over entries, of which
    some do not count.

    Args:
      arguments: the parameters of the code, which have been gated.
    """
    inside = set(arguments)
    for op in ops:
        outside = [v for v in dict.fromkeys(reads_of(op)) if v not in inside and carries_tangent(v)]
        # Behind what reads a part of a value the gate is no larger than what is used.
        is_slice = is_part(op) and outside == [op.operands[0]]
        if not is_slice:
            for value in outside:
                operand = inner[value] if value in inner else prefixed(Tensor(same.get(value, value)), size)
                inner[value] = gated(mask, operand)
                inside.add(value)
        batch_ops([op], inner, size, unmapped=same)
        inside.update(op.results)
        if is_slice:
            (result,) = op.results
            operand = inner[result] if result in inner else prefixed(Tensor(same[result]), size)
            inner[result] = gated(mask, operand)
