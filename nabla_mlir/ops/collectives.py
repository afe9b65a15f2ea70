"""Collectives: operations inside a map that read every entry of a named axis.

Expanding the map over that axis replaces them by plain operations; maps over other axes only add a batch axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nabla_mlir.dialects.batch import ALL_GATHER, AXIS_INDEX, PMAX, PMIN, PSUM, PSUM_SCATTER
from nabla_mlir.dialects.stablehlo import I64, String
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.ops.elementwise import convert
from nabla_mlir.ops.logic import compare
from nabla_mlir.ops.reduction import identity_of, reduce
from nabla_mlir.ops.shape import expand, move_axis, reduce_sum
from nabla_mlir.table.kinds import jointly_linear_jvp, nondifferentiable
from nabla_mlir.table.registry import OpDef, register
from nabla_mlir.table.rules import ZERO, CollectiveRule, MaybeZero, MaybeZeros, Tensors, Zero
from nabla_mlir.table.tensor import Tensor, full, full_like

Shape = tuple[int, ...]


def _collective(name: str, *, entries: CollectiveRule, attributes: Any = None, **fields: Any) -> OpDef:
    """Registers a collective. It has a meaning only inside a map, so its laws are tested there.

    Args:
      name: the name of the operation.
      entries: the rule for a map over the axis of the collective: ``(x, is_mapped, size, ...) -> (result, is_mapped)``.
      attributes: the attributes besides `axis`.
      fields: further fields of the record.
    """

    def batch(xs: Tensors, mapped: Sequence[bool], size: int, **params: Any) -> list[Tensor]:
        return record.apply(xs, {k: v + 1 if k == "dimension" else v for k, v in params.items()})

    fields.setdefault("jvp", jointly_linear_jvp(lambda: record))
    record: OpDef = OpDef(
        name=name,
        kind="collective",
        attributes={"axis": String, **(attributes or {})},
        sample=[],
        batch=batch,
        collective=entries,
        **fields,
    )
    return register(record)


def _same_type(x: Tensor, **_: Any) -> list[tuple[Shape, np.dtype]]:
    return [(x.shape, x.dtype)]


# ---------------------------------------------------------------- reductions


def _sum_entries(x: Tensor, is_mapped: bool, size: int) -> tuple[Tensor, bool]:
    """The sum over the entries, which does not vary; an operand that does not vary is multiplied by their number."""
    return (reduce_sum(x, (0,)) if is_mapped else x * full_like(x, size)), False


psum: OpDef = _collective(
    PSUM,
    doc="The sum over the entries of a mapped axis.",
    linear=(0,),
    result=_same_type,
    entries=_sum_entries,
    transpose=lambda cts, i, xs, axis: psum(cts[0], axis=axis),
)


def _extreme(name: str, doc: str, body: str) -> OpDef:
    """Registers pmax or pmin; `body` is the name of the combiner, "max" or "min"."""

    def entries(x: Tensor, is_mapped: bool, size: int) -> tuple[Tensor, bool]:
        """The extremum over the entries, which are the first axis if `is_mapped`, and False, because it is the same for
        all entries.
        """
        if not is_mapped:
            return x, False
        return reduce(x, full((), identity_of(body, x.dtype), x.dtype), dimensions=(0,), body=body), False

    def jvp(outs: Tensors, xs: Tensors, tangents: MaybeZeros, axis: str) -> list[MaybeZero]:
        """The mean of the tangents of those entries that attain the extremum. `xs` are the operands and `outs` the results."""
        (x,), (tangent,), (y,) = xs, tangents, outs
        if isinstance(tangent, Zero):
            return [ZERO]
        ties = convert(compare(x, y, comparison_direction="EQ"), dtype=x.dtype)
        return [psum(tangent * (ties / psum(ties, axis=axis)), axis=axis)]

    return _collective(name, doc=doc, result=_same_type, jvp=jvp, entries=entries)


pmax: OpDef = _extreme(PMAX, "The largest of the entries of a mapped axis; ties share the tangent.", "max")
pmin: OpDef = _extreme(PMIN, "The smallest of the entries of a mapped axis; ties share the tangent.", "min")


# ---------------------------------------------------------------- gathering and scattering entries


def _gather_entries(x: Tensor, is_mapped: bool, size: int, dimension: int, extent: int) -> tuple[Tensor, bool]:
    """All entries of a map as one array with the axis `dimension`, and False, because the array does not vary.

    `is_mapped` is True if `x` has the axis of the `size` entries first. `extent`, the size that the result's type states, is not
    used.
    """
    if is_mapped:
        return move_axis(x, 0, dimension), False
    return expand(x, (*x.shape[:dimension], size, *x.shape[dimension:]), (dimension,)), False


all_gather: OpDef = _collective(
    ALL_GATHER,
    doc="The entries of a mapped axis, stacked along `dimension`.",
    attributes={"dimension": I64},
    linear=(0,),
    entries=_gather_entries,
    result=lambda x, axis, dimension, extent: [((*x.shape[:dimension], extent, *x.shape[dimension:]), x.dtype)],
    result_params=lambda op: {"extent": shape_and_dtype(op.results[0].type)[0][op.attributes["dimension"].value]},
    transpose=lambda cts, i, xs, axis, dimension, extent: psum_scatter(cts[0], axis=axis, dimension=dimension),
)


def _scatter_sum(x: Tensor, is_mapped: bool, size: int, dimension: int) -> tuple[Tensor, bool]:
    """The sum over the `size` entries, of which entry i gets slice i along `dimension`; and True, because the entries differ.

    `is_mapped` is True if `x` has the entries as its first axis; else all entries have the same `x`.
    """
    total, _ = _sum_entries(x, is_mapped, size)
    return move_axis(total, dimension, 0), True


psum_scatter: OpDef = _collective(
    PSUM_SCATTER,
    doc="The sum over the entries of a mapped axis; each entry gets its own slice of `dimension`.",
    attributes={"dimension": I64},
    linear=(0,),
    entries=_scatter_sum,
    result=lambda x, axis, dimension: [((*x.shape[:dimension], *x.shape[dimension + 1 :]), x.dtype)],
    transpose=lambda cts, i, xs, axis, dimension: all_gather(cts[0], axis=axis, dimension=dimension, extent=xs[0].shape[dimension]),
)

axis_index: OpDef = nondifferentiable(
    AXIS_INDEX,
    doc="The index of an entry along a mapped axis.",
    attributes={"axis": String},
    result=lambda axis: [((), np.dtype(np.int32))],
    sample=[],
    # It varies only over its own axis, and the expansion of that axis replaces it by a mapped value.
    batch=lambda xs, mapped, size, axis: [axis_index(axis=axis)],
)
