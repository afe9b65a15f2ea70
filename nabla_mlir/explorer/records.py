"""The records of the operations of a program, with the source of each."""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections.abc import Iterable
from typing import Any

from nabla_mlir.explorer.recording import State
from nabla_mlir.table.registry import REGISTRY, OpDef
from nabla_mlir.table.rules import UNSUPPORTED, Zero

_ROOMS = ("nabla_mlir.ops.", "nabla_mlir.rules.")


def records_of(states: Iterable[State]) -> dict[str, Any]:
    """The documentation, the rules and the record of each operation of the states, and of their origins."""
    ops = {(op.name, op.origin) for state in states for op in state.operations}
    names = {name for name, _ in ops} | {step.of for _, origin in ops for step in origin.steps}
    return {name: _record(REGISTRY[name]) for name in sorted(names & set(REGISTRY))}


def _record(record: OpDef) -> dict[str, Any]:
    """The JSON of a record: its documentation, its rules, and its source."""
    module, line, source = _positions().get(record.name, ("", 0, ""))
    return {
        "doc": record.doc,
        "kind": record.kind,
        "jvp": _jvp(record),
        "batch": _batch(record),
        "module": module,
        "line": line,
        "source": source,
    }


def _jvp(record: OpDef) -> str:
    """The kind of derivative of an operation, as text for the page."""
    if record.partials is not None:
        return "partials: a derivative for each operand"
    if record.linear and not isinstance(record.jvp, (Zero, UNSUPPORTED)):  # a rule that is not zero comes from the operation
        return "linear: the operation itself on tangents, its transpose in reverse mode"
    return _rule(record.jvp)


def _batch(record: OpDef) -> str:
    """The kind of batching rule of an operation, as text for the page."""
    is_derived = record.kind == "elementwise" and not isinstance(record.batch, (Zero, UNSUPPORTED))
    return "elementwise: the same operation on all examples at once" if is_derived else _rule(record.batch)


def _rule(rule: Any) -> str:
    """The kind of a rule, as text for the page: zero, none with the reason, or one of its own."""
    if isinstance(rule, Zero):
        return "zero"
    return f"none: {rule.reason}" if isinstance(rule, UNSUPPORTED) else "one of its own, in the record"


@functools.cache
def _positions() -> dict[str, tuple[str, int, str]]:
    """The module, the line and the source text of each record, by the name of its operation."""
    positions = {}
    for name, module in sorted(sys.modules.items()):
        if not name.startswith(_ROOMS):
            continue
        text = inspect.getsource(module)
        for node in ast.parse(text).body:
            value = getattr(node, "value", None)
            arguments = value.args if isinstance(value, ast.Call) else []
            if arguments and isinstance(arguments[0], ast.Constant) and arguments[0].value in REGISTRY:
                source = "\n".join(text.splitlines()[node.lineno - 1 : node.end_lineno])
                positions[arguments[0].value] = (name, node.lineno, source)
    return positions
