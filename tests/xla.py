"""Executors of StableHLO in tests where IREE would need seconds: our interpreter, and XLA for what that does not know.

The laws are about the IR that rules emit, not about what runs it, so most of them run here; that IREE computes each
operation right is tested apart, and so is that the interpreter does (tests/interpreter).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from iree.compiler import ir
from jax._src import compiler as jax_compiler
from jax._src.lib import xla_client
from jaxlib import lapack

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import RuleMissingError
from nabla_mlir.compiling.estimates import estimate
from nabla_mlir.compiling.lowering import lower_module
from nabla_mlir.dialects.context import parse_module
from nabla_mlir.dialects.regions import functions_of, made_by, nested
from nabla_mlir.dialects.stablehlo import COMPUTE_BARRIERS, OPTIMIZATION_BARRIER, emit, splat
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.interpreter import interpreted
from nabla_mlir.passes.iree.pipeline import LegalizeForIreePipeline
from nabla_mlir.passes.pipeline import Pipeline
from nabla_mlir.staging.tracing import Spec, trace_function

jax.config.update("jax_enable_x64", True)
lapack.prepare_lapack_call("potrf_ffi", np.dtype(np.float64))  # XLA's custom calls of LAPACK find its routines then


def compiled(text: str) -> Callable[[Sequence[np.ndarray]], list[np.ndarray]]:
    """The function `main` of a StableHLO module."""
    return _executor(parse_module(text))


STEPS = 20_000  # the interpreter takes some 10 µs for each, and XLA at least 20 ms to compile anything


def _executor(module: ir.Module) -> Callable[[Sequence[np.ndarray]], list[np.ndarray]]:
    """The function `main` of a module, interpreted, or compiled: if the interpreter does not know an operation, or for loops."""
    if estimate(functions_of(module.operation)["main"]).dispatches > STEPS:
        return by_xla(str(module))
    try:
        run = interpreted(module.operation, "main")
    except RuleMissingError:
        return by_xla(str(module))
    return lambda inputs: [np.array(y) for y in run([np.asarray(x) for x in inputs])]


def cost_of(text: str) -> tuple[float, float]:
    """Operations and bytes moved of the function `main` of a StableHLO module, as XLA counts them after fusion."""
    cost = _load(text).cost_analysis()
    return cost["flops"] + cost.get("transcendentals", 0.0), cost["bytes accessed"]


def _load(text: str, quick: bool = False) -> Any:
    """The function `main`, compiled; `quick` takes two thirds of the time to compile, for code that runs once."""
    client = jax.devices("cpu")[0].client
    options = jax_compiler.get_compile_options(num_replicas=1, num_partitions=1)
    if quick and not _COMPARES.search(text):
        options.executable_build_options.debug_options.xla_backend_optimization_level = 0
    devices = xla_client.DeviceList(tuple(jax.devices("cpu")[:1]))
    public = text.replace("func.func @main", "func.func public @main")
    return client.compile_and_load(public, devices, options)


# At optimisation level 0 one fusion contracts x * y + z and another does not, so that no element is equal to the maximum
# of all, and its derivative is NaN.
_COMPARES = re.compile(r"\b(compare|maximum|minimum|clamp|sort|select_and_scatter)\b.*[<x]b?f\d+>")


def by_xla(text: str) -> Callable[[Sequence[np.ndarray]], list[np.ndarray]]:
    executable = _load(text, quick=True)

    def call(inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        results = executable.execute_sharded([jax.device_put(np.asarray(x)) for x in inputs])
        return [np.asarray(parts[0]) for parts in results.disassemble_into_single_device_arrays()]

    return call


def run_module(text: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Runs the function `main` of a StableHLO module."""
    return compiled(text)(inputs)


def run_traced(function: Any, inputs: Sequence[np.ndarray], *, legalize: bool = False) -> Any:
    """Traces a function of flat arrays that returns a pytree, lowers it with our passes and runs it on XLA.

    With `legalize` it is what IREE gets that runs: without custom calls, whose layouts XLA would have to be told.
    """
    return compiled_traced(function, inputs, legalize=legalize)(inputs)


def _as_stablehlo(module: ir.Module) -> ir.Module:
    """A legalized module, with StableHLO's operations in the places of IREE's."""
    for op in [o for o in nested(module.operation) if o.name in (*COMPUTE_BARRIERS, "linalg.fill")]:
        gone = [op]
        with ir.InsertionPoint(op), op.location:
            if op.name in COMPUTE_BARRIERS:
                new = emit(OPTIMIZATION_BARRIER, [op.operands[0]], results=[op.results[0].type])
            else:
                barrier, empty = map(made_by, op.operands)
                number, mark = map(made_by, barrier.operands)
                gone += [empty, barrier, number, mark]
                value = splat(number.attributes["value"].value, *shape_and_dtype(op.results[0].type))
                new = emit("stablehlo.constant", [], attributes={"value": value})
        op.results[0].replace_all_uses_with(new.results[0])
        for made in gone:
            made.erase()
    for op in [o for o in nested(module.operation) if o.name == "util.optimization_barrier"]:
        op.erase()  # the last use of an argument
    return module


def compiled_traced(function: Any, like: Sequence[np.ndarray], *, legalize: bool = False) -> Callable[[Sequence[np.ndarray]], Any]:
    """The same, to be called many times on arrays like these."""
    box: dict[str, Any] = {}

    def flat(*tensors: Any) -> list[Any]:
        leaves, box["spec"] = pytree.flatten(function(*tensors))
        return leaves

    module, captured = trace_function(flat, [Spec(np.shape(x), np.asarray(x).dtype) for x in like], "main")
    lower_module(module)
    if legalize:
        Pipeline(LegalizeForIreePipeline().passes()).run(module.operation)
    call = _executor(_as_stablehlo(module))
    return lambda inputs: pytree.unflatten(box["spec"], call([*inputs, *captured]))
