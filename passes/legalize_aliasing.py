"""Buffers that IREE would share although two operations write to them."""

from __future__ import annotations

from iree.compiler import ir

from nabla_mlir.dialects.stablehlo import emit

# They write into the buffer of their first operand.
_WRITERS = {"stablehlo.scatter"}


def separate_buffers(module: ir.Operation) -> None:
    """Gives each scatter into a constant a copy of its own.

    IREE 3.13 merges equal constants and lets several scatters update the one buffer in place: the second one starts
    from the first one's result (seen as a wrong product of updates), or the compiler stops with "'stream.yield' op
    used resource not listed in explicit captures". It does not look through an optimization_barrier.
    """

    def separate(op: ir.Operation) -> ir.WalkResult:
        operation = op.operation
        if operation.name not in _WRITERS:
            return ir.WalkResult.ADVANCE
        count = (len(operation.operands) - 1) // 2
        for i in range(count):
            value = operation.operands[i]
            made_by = getattr(value.owner, "operation", value.owner)
            if isinstance(made_by, ir.Operation) and made_by.name == "stablehlo.constant":
                with ir.InsertionPoint(operation), operation.location:
                    own = emit("stablehlo.optimization_barrier", [value], results=[value.type])
                operation.operands[i] = own.results[0]
        return ir.WalkResult.ADVANCE

    module.walk(separate, ir.WalkOrder.POST_ORDER)
