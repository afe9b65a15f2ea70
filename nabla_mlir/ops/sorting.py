"""Sorting: several operands reordered together by a comparator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects import stablehlo
from nabla_mlir.dialects.stablehlo import I64, Bool
from nabla_mlir.dialects.types import shape_and_dtype, tensor_type
from nabla_mlir.ops.gather import along_axis
from nabla_mlir.ops.logic import compare
from nabla_mlir.ops.shape import iota
from nabla_mlir.sparsity import structure as patterns
from nabla_mlir.table.batching import all_prefixed
from nabla_mlir.table.kinds import general
from nabla_mlir.table.regions import body_of
from nabla_mlir.table.registry import OpDef, Region, clone_op
from nabla_mlir.table.rules import MaybeZero, MaybeZeros, Tensors, Zero
from nabla_mlir.table.samples import Case
from nabla_mlir.table.tensor import Tensor
from nabla_mlir.table.traits import ONE_BY_ONE


def emit_comparator(region: ir.Region, direction: str, operands: Sequence[Tensor]) -> None:
    """Fills a region with the comparison of the first operand's elements in `direction` ("LT" or "GT"); floats in total order."""
    types = [tensor_type((), x.dtype) for x in operands for _ in range(2)]
    block = ir.Block.create_at_start(region, types, [ir.Location.unknown()] * len(types))
    with ir.InsertionPoint(block):
        a, b = (Tensor(v) for v in block.arguments[:2])
        kind = "TOTALORDER" if a.dtype.kind not in "biu" else None
        less = compare(a, b, comparison_direction=direction, compare_type=kind)
        stablehlo.emit("stablehlo.return", [less.value], results=[])


def read_comparator(region: ir.Region) -> str | None:
    """The direction ("LT" or "GT") of a comparator in the form of `emit_comparator`; None for others.

    With a direction, NumPy can sort the whole array in one call.
    """
    arguments, ops, results = body_of(region)
    if len(ops) != 1 or ops[0].name != compare.name or list(ops[0].operands) != arguments[:2] or results != list(ops[0].results):
        return None
    params, kind = compare.read(ops[0]), shape_and_dtype(arguments[0].type)[1].kind
    is_total = params["compare_type"] == "TOTALORDER"
    is_written = is_total == (kind not in "biu") and params["comparison_direction"] in ("LT", "GT")
    return params["comparison_direction"] if is_written else None


def _comparator_ignoring(source: Region, payload: ir.Type) -> Any:
    """A function that fills a region with the comparator `source`, with two more arguments of type `payload` that it ignores."""

    def emit(region: ir.Region, _: Any, __: Any) -> None:
        """Copies the comparator `source` into `region`, with two more arguments for the payload, which it does not read."""
        block = source.source.blocks[0]
        types = [*(a.type for a in block.arguments), payload, payload]
        new = ir.Block.create_at_start(region, types, [ir.Location.unknown()] * len(types))
        mapping = {**source.captures, **dict(zip(block.arguments, list(new.arguments)[:-2], strict=True))}
        with ir.InsertionPoint(new):
            for op in block.operations:
                clone_op(op.operation, mapping)

    return emit


def _sort_with_order(xs: Sequence[Tensor], dimension: int, is_stable: bool, comparator: Any) -> list[Tensor]:
    """The sorted operands, and as a further array the index of each element before the sort.

    `comparator` is "LT", "GT" or a region.
    """
    dimension %= xs[0].ndim
    position = iota(shape=xs[0].shape, dtype=np.dtype(np.int32), iota_dimension=dimension)
    params = {"dimension": dimension, "is_stable": is_stable}
    if isinstance(comparator, Region):
        operands = [*xs, position]
        op = stablehlo.emit(
            "stablehlo.sort",
            [o.value for o in operands],
            results=[o.value.type for o in operands],
            regions=1,
            attributes={k: sort.attributes[k].encode(v) for k, v in params.items()},  # type: ignore[arg-type]
        )
        _comparator_ignoring(comparator, tensor_type((), position.dtype))(op.regions[0], None, None)
        return [Tensor(r) for r in op.results]
    return sort.apply([*xs, position], {**params, "comparator": comparator})


def _sort_jvp(outs: Tensors, xs: Tensors, tangents: MaybeZeros, dimension: int, **_: Any) -> list[MaybeZero]:
    """The forward rule: the tangents are reordered like their primals. `outs` are the results."""
    *_values, order = outs
    return [t if isinstance(t, Zero) else along_axis(t, order, dimension % order.ndim) for t in tangents]


def _sort_batch(xs: Tensors, mapped: Sequence[bool], size: int, dimension: int, **params: Any) -> list[Tensor]:
    dimension = dimension + 1 if dimension >= 0 else dimension  # a negative dimension counts from the end, so it does not shift
    return sort.apply(all_prefixed(xs, mapped, size), {"dimension": dimension, **params})


sort: OpDef = general(
    "stablehlo.sort",
    pattern=patterns.along("dimension"),
    doc="The operands reordered together along `dimension` by a comparator.",
    instructions=ONE_BY_ONE,
    updates=lambda op: range(len(op.operands)),
    attributes={"dimension": I64, "is_stable": Bool},
    defaults={"dimension": -1, "is_stable": False},
    regions=("comparator",),
    comparators=("comparator",),
    emit_region=emit_comparator,
    read_region=read_comparator,
    result=lambda *xs, **_: [(x.shape, x.dtype) for x in xs],
    multi=True,
    augmented=_sort_with_order,
    jvp=_sort_jvp,
    batch=_sort_batch,
    sample=[
        Case(((2, 5),), {"dimension": 1, "is_stable": True, "comparator": "LT"}, numpy=lambda x: np.sort(x, 1)),
        Case(((4, 2),), {"dimension": 0, "is_stable": True, "comparator": "GT"}, numpy=lambda x: -np.sort(-x, 0)),
    ],
)
