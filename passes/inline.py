"""Helpers of the expansions of `ad` and `batch` operations: they replace a region by its operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iree.compiler import ir

from nabla_mlir.base.errors import PassError
from nabla_mlir.dialects.ad import JvpOp, VjpOp
from nabla_mlir.dialects.batch import VmapOp
from nabla_mlir.dialects.locations import source_of
from nabla_mlir.dialects.regions import RegionOp, nested
from nabla_mlir.passes.dce import erase_dead

TRANSFORMS: dict[str, type[RegionOp]] = {"ad.jvp": JvpOp, "ad.vjp": VjpOp, "batch.vmap": VmapOp}


def inline_region(view: RegionOp, operands: Sequence[ir.Value], results: Sequence[ir.Value]) -> None:
    """Replaces a region operation by the operations of its body.

    Args:
      view: the operation.
      operands: the values that replace the arguments of the body.
      results: the values that replace the results of the operation; they are from the body or from outside.
    """
    op, block = view.op, view.block
    body = view.body
    # A returned argument is replaced with the others, so results are looked up after that.
    operand_of = dict(zip(block.arguments, operands, strict=True))
    results = [operand_of.get(v, v) for v in results]
    for argument, operand in operand_of.items():
        argument.replace_all_uses_with(operand)
    for inner in body:
        inner.move_before(op)
    for result, value in zip(op.results, results, strict=True):
        result.replace_all_uses_with(value)
    op.erase()
    erase_dead(body)


def expand_all(module: ir.Operation, name: str, expand: Callable[[ir.Operation], None], pass_name: str) -> None:
    """Expands every operation called `name`, innermost first.

    Raises:
      PassError: a body contains another transform, which has to be expanded first.
    """
    for op in [op for op in nested(module) if op.name == name]:
        inner = next((o for o in nested(op) if o.name in TRANSFORMS), None)
        if inner is not None:
            raise PassError(
                f"{pass_name} requires a body without other transforms, got {inner.name} inside {name}.",
                where=source_of(op.location),
                help="run nabla-expand, which expands all of them innermost first.",
            )
        expand(op)
