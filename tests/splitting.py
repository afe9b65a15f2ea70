"""Splitting in tests: a traced function is divided, run, and the promise about its halves is checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import xla
from iree.compiler import ir

from nabla_mlir.compiling.lowering import lower_module
from nabla_mlir.dialects.context import context
from nabla_mlir.passes.split.split import Split, split_function
from nabla_mlir.staging.specs import Spec
from nabla_mlir.staging.tracing import trace_function
from nabla_mlir.table.regions import body_of, reads_of
from nabla_mlir.table.traits import is_free

READS = ("stablehlo.dynamic_slice", "stablehlo.slice")  # of state, in the regions of loops and choices


def split_of(
    function: Callable[..., Sequence[Any]],
    inputs: Sequence[np.ndarray],
    known: Sequence[int],
    limit: int | None = None,
    factors: bool = True,
) -> tuple[ir.Module, Split, list[np.ndarray]]:
    """The module of a function of flat arrays, its halves, and the arrays it captures (which are known)."""
    specs = [Spec(np.shape(x), np.asarray(x).dtype) for x in inputs]
    module, captured = trace_function(function, specs, "main")
    lower_module(module)
    every = [*known, *range(len(inputs), len(inputs) + len(captured))]
    with context(), ir.Location.unknown():
        split = split_function(module.body.operations[0].operation, every, limit, factors)
        module.operation.verify()
    return module, split, captured


def run(module: ir.Module, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of the whole function, that is of its halves one after the other."""
    return xla.run_module(str(module), [np.asarray(x) for x in inputs])


def needless(split: Split) -> list[str]:
    """The operations of the rest that depend on no unknown argument and are not free."""
    block = split.rest.regions[0].blocks[0]
    arguments = list(block.arguments)
    residuals = len(split.known.regions[0].blocks[0].operations[-1].operands) - len(split.early)
    return list(_needless([o.operation for o in block.operations], set(arguments[residuals:]), 0))


def needless_in(function: ir.Operation) -> list[str]:
    """The operations of an entry point that depend on no argument, are not free, and do not read state."""
    block = function.regions[0].blocks[0]
    ops = [o.operation for o in block.operations if o.operation.name.startswith(("stablehlo.", "chlo."))]
    return list(_needless(ops, set(block.arguments), 0))


def _needless(ops: Sequence[ir.Operation], varying: set[ir.Value], depth: int) -> Iterator[str]:
    for op in ops:
        if op.name in ("func.return", "stablehlo.return"):
            continue
        if not any(v in varying for v in reads_of(op)):
            index = all(not r.type.shape for r in op.results)
            if not is_free(op) and not (depth and (index or op.name in READS)):
                yield str(op)
            continue
        if op.name == "stablehlo.while":
            arguments, body, returned = body_of(op.regions[1])
            inner = {a for a, init in zip(arguments, op.operands, strict=True) if init in varying}
            while True:
                seen = varying | inner
                for o in body:
                    if any(v in seen for v in reads_of(o)):
                        seen |= set(o.results)
                grown = inner | {a for a, r in zip(arguments, returned, strict=True) if r in seen}
                if grown == inner:
                    break
                inner = grown
            yield from _needless(body, varying | inner, depth + 1)
            varying.update(r for r, a in zip(op.results, arguments, strict=True) if a in inner)
        elif op.name in ("stablehlo.if", "stablehlo.case"):
            for region in op.regions:
                yield from _needless(body_of(region)[1], varying, depth + 1)
            varying.update(op.results)
        else:
            varying.update(op.results)
