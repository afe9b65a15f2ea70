"""Prepared products: the half that depends on the point, the half of each product, and the residuals stored between them."""

from __future__ import annotations

from typing import Any

from iree.compiler import ir

from nabla_mlir.dialects.regions import functions_of, made_by, nested
from nabla_mlir.explorer.recording import Recorder
from nabla_mlir.rules.cost import cost_of, cost_of_function
from nabla_mlir.table.regions import reads_of
from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.table.traits import bytes_of

_LOAD, _STORE = "util.global.load", "util.global.store"


def halves_of(recorder: Recorder) -> dict[str, Any] | None:
    """The JSON of the functions that share a state, and of its residuals; None for a module without state.

    `recorder` has the module and the numbers of its operations. The `flops` and `bytes` of a residual are the cost of recomputing
    it in each product: the sum over all operations that compute it.
    """
    functions = functions_of(recorder.module.operation)
    accesses = [(name, op) for name, f in functions.items() for op in nested(f) if op.name in (_LOAD, _STORE)]
    if not accesses:
        return None
    stores = {_symbol(op): op for _, op in accesses if op.name == _STORE}
    residuals = []
    for symbol, op in stores.items():
        loads = [(name, load) for name, load in accesses if load.name == _LOAD and _symbol(load) == symbol]
        if isinstance(op.operands[0].type, ir.RankedTensorType):  # a scalar is the version, which counts the points
            residuals.append(_residual(symbol, op.operands[0], loads, recorder))
    return {
        "state": len(recorder.states) - 1,
        "functions": [_function(name, f, {op.name for n, op in accesses if n == name}) for name, f in functions.items()],
        "residuals": sorted(residuals, key=lambda r: -r["nbytes"]),
        "recomputed": [part for name, f in functions.items() for part in _recomputed(name, f, recorder)],
    }


def _function(name: str, func: ir.Operation, accesses: set[str]) -> dict[str, Any]:
    """The JSON of a function: its cost, and its half, "known" for the half that writes the state and "rest" for the other one.

    `accesses` has the names of the operations by which it reads or writes the state.
    """
    half = "known" if _STORE in accesses else "rest" if _LOAD in accesses else ""
    cost = cost_of_function(func)
    return {"name": name, "half": half, "flops": cost.flops, "bytes": cost.bytes}


def _residual(symbol: str, value: ir.Value, loads: list[tuple[str, ir.Operation]], recorder: Recorder) -> dict[str, Any]:
    """The JSON of a residual: its type and size, the operations that compute and read it, and the cost of computing it.

    `symbol` is the name of its global variable, `value` the value that is stored, and `loads` are the reads of each function.
    `recorder` numbers the operations of the page.
    """
    maker = made_by(value)
    cost = [cost_of(op) for op in _made_of(value) if op.name in REGISTRY]
    return {
        "name": symbol,
        "type": str(value.type),
        "nbytes": bytes_of(value),
        "made_by": -1 if maker is None else recorder.number_of(maker),
        "read_by": sorted({number for _, load in loads for number in _readers(load, recorder)}),
        "readers": sorted({name for name, _ in loads}),
        "flops": sum(c.flops for c in cost),
        "bytes": sum(c.bytes for c in cost),
    }


def _recomputed(name: str, func: ir.Operation, recorder: Recorder) -> list[dict[str, Any]]:
    """The JSON of the values that the product `name` recomputes from residuals, although they depend only on the point.

    A vector that the product gets changes none of them, so the first half could store them. `func` is the operation of the
    function, and `recorder` numbers the operations of the page.
    """
    block = func.regions[0].blocks[0]
    # values that depend on the vectors, and values that depend only on the residuals
    varying, known = set(block.arguments), set[ir.Value]()
    own_operations: list[ir.Operation] = []
    for op in (o.operation for o in block.operations):
        reads = reads_of(op)
        if any(value in varying for value in reads):
            varying.update(op.results)
        elif op.name == _LOAD or any(value in known for value in reads):
            known.update(op.results)
            own_operations += [op] if op.name in REGISTRY else []
    # Of the recomputed operations, only those are shown whose results a varying operation reads.
    last = [
        op
        for op in own_operations
        if any(result in varying for use in op.results[0].uses for result in use.owner.operation.results)
    ]
    return [
        {
            "function": name,
            "made_by": recorder.number_of(op),
            "type": str(op.results[0].type),
            "nbytes": bytes_of(op.results[0]),
            "flops": sum(cost_of(part).flops for part in _made_of(op.results[0]) if part.name in REGISTRY),
        }
        for op in last
    ]


def _readers(load: ir.Operation, recorder: Recorder) -> list[int]:
    return [recorder.number_of(use.owner.operation) for use in load.results[0].uses]


def _made_of(value: ir.Value) -> list[ir.Operation]:
    """The operations that compute a value, each once."""
    seen: dict[ir.Value, ir.Operation] = {}
    work = [value]
    while work:
        op = made_by(work.pop())
        if op is not None and op.results[0] not in seen:
            seen[op.results[0]] = op
            work += reads_of(op)
    return list(seen.values())


def _symbol(op: ir.Operation) -> str:
    return str(op.attributes["global"].value)
