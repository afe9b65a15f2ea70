"""Buffers that IREE would share although several operations write to them."""

from __future__ import annotations

from iree.compiler import ir

from nabla_mlir.dialects.stablehlo import emit

Write = tuple[ir.Operation, int]  # an operation that updates its operand of this index in place


def separate_buffers(module: ir.Operation) -> None:
    """Gives each update of a constant a copy of its own, where several operations update equal ones.

    IREE 3.13 merges equal constants and lets scatters and dynamic_update_slices change the one buffer in place: the
    second one starts from the first one's result (a wrong number, silently), or the compiler stops with
    "'stream.yield' op used resource not listed in explicit captures". It does not look through an
    optimization_barrier.
    """
    writes: dict[object, list[Write]] = {}

    def collect(op: ir.Operation) -> ir.WalkResult:
        operation = op.operation
        for i in _updated(operation):
            value = operation.operands[i]
            made_by = getattr(value.owner, "operation", value.owner)
            if isinstance(made_by, ir.Operation) and made_by.name == "stablehlo.constant":
                key = (value.type, made_by.get_asm(use_local_scope=True, large_elements_limit=64).split("=", 1)[1])
                writes.setdefault(key, []).append((operation, i))
        return ir.WalkResult.ADVANCE

    module.walk(collect, ir.WalkOrder.POST_ORDER)
    for group in writes.values():
        for operation, i in group if len(group) > 1 else ():
            value = operation.operands[i]
            with ir.InsertionPoint(operation), operation.location:
                own = emit("stablehlo.optimization_barrier", [value], results=[value.type])
            operation.operands[i] = own.results[0]


def materialize_unique_updates(module: ir.Operation) -> None:
    """Computes the updates of scatters with unique indices apart from them.

    IREE 3.13 fuses what computes the updates into such a scatter, and may then stop with "write affecting operations
    on global resources are restricted to workgroup distributed contexts" (a gather, a product, a scatter).
    """
    scatters: list[ir.Operation] = []

    def collect(op: ir.Operation) -> ir.WalkResult:
        operation = op.operation
        if operation.name == "stablehlo.scatter" and _says_unique(operation):
            scatters.append(operation)
        return ir.WalkResult.ADVANCE

    module.walk(collect, ir.WalkOrder.POST_ORDER)
    for operation in scatters:
        for i in range((len(operation.operands) - 1) // 2 + 1, len(operation.operands)):
            value = operation.operands[i]
            with ir.InsertionPoint(operation), operation.location:
                own = emit("stablehlo.optimization_barrier", [value], results=[value.type])
            operation.operands[i] = own.results[0]


def _updated(op: ir.Operation) -> list[int]:
    """The operands whose buffer the operation writes to; for a loop the carries that its body updates in place."""
    if op.name == "stablehlo.dynamic_update_slice":
        return [0]
    if op.name == "stablehlo.scatter":
        return list(range((len(op.operands) - 1) // 2))
    if op.name != "stablehlo.while":
        return []
    written: set[ir.Type] = set()

    def collect(inner: ir.Operation) -> ir.WalkResult:
        if inner.operation.name in ("stablehlo.dynamic_update_slice", "stablehlo.scatter"):
            written.update(r.type for r in inner.operation.results)
        return ir.WalkResult.ADVANCE

    for inner in op.regions[1].blocks[0].operations:
        inner.operation.walk(collect, ir.WalkOrder.POST_ORDER)
    return [i for i, v in enumerate(op.operands) if v.type in written]


def _says_unique(op: ir.Operation) -> bool:
    return "unique_indices" in op.attributes and bool(op.attributes["unique_indices"].value)
