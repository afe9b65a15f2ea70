"""The state of a module, in its global variables, and the arithmetic of its version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.base.errors import DeployError
from nabla_mlir.interpreter.frames import Arrays

State = dict[str, Any]  # the values of global variables, by name


def initial_state(module: ir.Operation) -> State:
    """The global variables of a module before any call; those without a value are None."""
    state: State = {}
    for op in (o.operation for o in module.regions[0].blocks[0].operations):
        if op.name == "util.global":
            value = op.attributes.get("initial_value", None)
            state[ir.StringAttr(op.attributes["sym_name"]).value] = (
                np.int64(value.value) if isinstance(value, ir.IntegerAttr) else None
            )
    return state


def stateful(op: ir.Operation, state: State) -> Callable[[Arrays], Arrays] | None:
    """A function of the operands that runs an operation on the module's state or its version; None for another operation.

    `state` maps the name of each global variable to its array.
    """
    match op.name:
        case "util.global.load":
            name = ir.FlatSymbolRefAttr(op.attributes["global"]).value
            return lambda _: [state[name]]
        case "util.global.store":
            name = ir.FlatSymbolRefAttr(op.attributes["global"]).value
            return lambda xs: state.update({name: np.array(xs[0])}) or []  # a copy: it may be memory of an argument
        case "arith.constant" if isinstance(op.attributes["value"], ir.IntegerAttr):
            number = np.int64(ir.IntegerAttr(op.attributes["value"]).value)
            return lambda _: [number]  # type: ignore[list-item]
        case "arith.addi":
            return lambda xs: [xs[0] + xs[1]]
        case "arith.cmpi" if ir.IntegerAttr(op.attributes["predicate"]).value == _NOT_EQUAL:
            return lambda xs: [xs[0] != xs[1]]
        case "cf.assert":
            return _assertion(ir.StringAttr(op.attributes["msg"]).value)
    return None


_NOT_EQUAL = 1  # of arith.cmpi


def _assertion(message: str) -> Callable[[Arrays], Arrays]:
    """A function that raises DeployError with this message if its argument is false."""

    def run(xs: Arrays) -> Arrays:
        """No results; raises the error if the only argument is false."""
        if not xs[0]:
            raise DeployError(f"{message}.")
        return []

    return run
