"""Gates for code that a map runs for every entry, though only some entries use its results.

For the other entries the code may compute infinity or NaN. The selection after the code drops those values, but not
their derivatives: a cotangent of zero times an infinite partial is NaN. So each value that enters the code passes a
gate, ``select(mask, x, stop_gradient(x))``. The gate returns x, and its tangents and cotangents are zero for entries
outside the mask. Simplification removes the gate once all derivatives have been expanded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from iree.compiler import ir

from nabla_mlir.ops.autodiff import stop_gradient
from nabla_mlir.ops.logic import select
from nabla_mlir.ops.shape import broadcast_in_dim
from nabla_mlir.table.batching import batch_ops, with_axis
from nabla_mlir.table.forward import carries_tangent
from nabla_mlir.table.regions import reads_of
from nabla_mlir.table.rules import Batch
from nabla_mlir.table.tensor import Tensor
from nabla_mlir.table.traits import is_part


def choose(mask: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """a where the entry of `mask` is True, else b; `mask` has only the mapped axis, which is first in a and b."""
    if a.ndim > 1:
        mask = broadcast_in_dim(mask, shape=a.shape, broadcast_dimensions=(0,))
    return select(mask, a, b)


def gated(mask: Tensor, x: Tensor) -> Tensor:
    """The value `x` with a derivative that is zero where `mask` is false."""
    return choose(mask, x, stop_gradient(x)) if carries_tangent(x.value) else x


def batch_gated(ops: Sequence[ir.Operation], batch: Batch, mask: Tensor, arguments: Iterable[ir.Value] = ()) -> None:
    """Applies `batch_ops`, with a gate at every value from outside that the operations read.

    A value from outside that all entries share is broadcast along the mapped axis first: its cotangent is a sum over
    the entries of the mask only.

    Args:
      ops: the operations.
      batch: the mapped values; the function binds the gated values and the results.
      mask: the entries that use the results.
      arguments: values that need no gate.
    """
    inside = set(arguments)
    for op in ops:
        outside = [v for v in dict.fromkeys(reads_of(op)) if v not in inside and carries_tangent(v)]
        # The gate stands after an operation that reads a part of a value, so it is no larger than that part.
        is_slice = is_part(op) and outside == [op.operands[0]]
        if not is_slice:
            for value in outside:
                batch.bind(value, gated(mask, with_axis(batch, value)))
                inside.add(value)
        batch_ops([op], batch)
        inside.update(op.results)
        if is_slice:
            (result,) = op.results
            batch.bind(result, gated(mask, with_axis(batch, result)))
