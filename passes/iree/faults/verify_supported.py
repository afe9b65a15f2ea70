"""Refuses operations, by name, that IREE cannot compile and that no pass can rewrite."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.base.errors import RuleMissingError
from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.locations import source_of
from nabla_mlir.dialects.regions import functions_of, nested
from nabla_mlir.ops.callbacks import TARGET as PYTHON
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.iree.faults.one_device import SHARDINGS

_WITHOUT_RULE = {
    f"stablehlo.{name}"
    for name in (
        "infeed",
        "outfeed",
        "send",
        "recv",
        "create_token",
        "dynamic_conv",
        "dynamic_reshape",
        "dynamic_pad",
        "dynamic_gather",
    )
}


@register
@dataclass(frozen=True)
class VerifySupportedPass(Pass):
    """Refuse operations that IREE cannot compile, or on which it never ends, and that no pass rewrites.

    These are channels to the host, dynamic shapes that depend on values, calls of unknown code, and functions that call
    themselves.

    Example: tests/filecheck/passes/verify_supported.mlir
    """

    name: ClassVar[str] = "nabla-verify-supported"

    def run(self, module: ir.Operation) -> None:
        """Raises RuleMissingError for the first operation that is not supported."""
        calls: dict[str, dict[str, ir.Operation]] = {}
        for caller, function in functions_of(module).items():
            for op in nested(function):
                if op.name == "func.call":
                    calls.setdefault(caller, {})[op.attributes["callee"].value] = op
                elif op.name in _CHECKS:
                    _CHECKS[op.name](op)
        _refuse_recursion(calls)


def _custom_call(op: ir.Operation) -> None:
    """Raises RuleMissingError for a call of unknown code.

    Other passes rewrite calls of LAPACK and shardings; IREE itself supports only ApproxTopK.
    """
    name = hlo.String.decode(op.attributes["call_target_name"])
    if name == PYTHON:
        raise RuleMissingError(
            "compiling requires a program without calls of Python (debug.print, debug.callback, pure_callback), got one: "
            "compiled code runs without Python.",
            where=source_of(op.location),
            help="return the values, compile it for nm.Interpreter(), or call the function, which is interpreted.",
        )
    if name != "ApproxTopK" and name not in SHARDINGS and not name.startswith("lapack_"):
        raise RuleMissingError(f"stablehlo.custom_call requires a known target, got {name!r}.", where=source_of(op.location))


def _philox(op: ir.Operation) -> None:
    """Raises RuleMissingError for Philox with a state of three words, for which IREE's bits differ from XLA's."""
    words = op.operands[0].type.shape[0]
    if hlo.enum("rng_algorithm").decode(op.attributes["rng_algorithm"]) == "PHILOX" and words != 2:
        raise RuleMissingError(
            f"PHILOX requires a state of 2 words, got {words}.",
            where=source_of(op.location),
            help="use the algorithm THREE_FRY or DEFAULT.",
        )


def _unsupported(op: ir.Operation) -> None:
    """Raises RuleMissingError: IREE does not compile the operation."""
    raise RuleMissingError(f"{op.name} requires a rule for IREE, got none.", where=source_of(op.location))


_CHECKS: dict[str, Callable[[ir.Operation], None]] = {
    "stablehlo.custom_call": _custom_call,
    "stablehlo.rng_bit_generator": _philox,
    **dict.fromkeys(_WITHOUT_RULE, _unsupported),
}


def _refuse_recursion(calls: dict[str, dict[str, ir.Operation]]) -> None:
    """Raises RuleMissingError for a function that calls itself, on which the compiler never ends.

    `calls` has, for each caller, the calls by the name of the called function.
    """
    graph = dict(calls)
    # Functions without calls are removed repeatedly; if functions remain, they contain a cycle.
    while graph:
        leaves = [caller for caller, callees in graph.items() if not any(c in graph for c in callees)]
        if not leaves:
            caller, callees = next(iter(graph.items()))
            position = next(call for callee, call in callees.items() if callee in graph)
            raise RuleMissingError(
                f"func.call requires functions without recursion, got @{caller}.", where=source_of(position.location)
            )
        for caller in leaves:
            del graph[caller]
