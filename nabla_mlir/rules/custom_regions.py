"""The code of custom rules: each rule is a region of its operation, and is emitted where the rule is applied."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from nabla_mlir.base.errors import RuleMissingError
from nabla_mlir.dialects import stablehlo
from nabla_mlir.dialects.ad_rules import CUSTOM, RECUR, WITHOUT_RULE
from nabla_mlir.dialects.locations import source_of
from nabla_mlir.dialects.regions import nested
from nabla_mlir.table.regions import body_of, clone_body, fill, replace
from nabla_mlir.table.tensor import Tensor, wrap


def emit_rule(op: ir.Operation, region: int, arguments: Sequence[ir.Value]) -> list[Tensor]:
    """Emits a region of a custom rule on `arguments`; returns the values that the region returns.

    `region` is the number of the region: 0 is the function, 1 and 2 are its rules.

    Raises:
      RuleMissingError: the rule was not traced. If it raised an error when it was traced, that error is raised.
    """
    if region and WITHOUT_RULE in op.attributes:
        label = CUSTOM[op.name](op).label
        if isinstance(reason := op.attributes[WITHOUT_RULE], ir.StringAttr):
            number, _, text = reason.value.partition(" ")
            if (error := _errors.get(number)) is not None:
                raise error
            raise RuleMissingError(f"the derivative requires the rule of {label}, got {text}.", where=source_of(op.location))
        raise RuleMissingError(
            f"the derivative requires the rule of {label} within its own rules, got a trace that was made for fewer derivatives.",
            where=source_of(op.location),
            help="differentiate the Python function as often, and trace that.",
        )
    parameters, ops, outputs = body_of(op.regions[region])
    mapping = dict(zip(parameters, arguments, strict=True))
    for clone in clone_body(ops, mapping):
        for inner in [*nested(clone), clone]:
            if inner.name == RECUR and op.name in CUSTOM and inner.attributes["name"] == op.attributes["name"]:
                _replace_recur(op, inner, clone, mapping)
    return [wrap(mapping.get(v, v)) for v in outputs]


_errors: OrderedDict[str, Exception] = OrderedDict()  # by the number in the IR: the error that a rule raised when it was traced
_numbers = itertools.count()
_MOST = 64  # stored errors; few, because each pins the frames of its traceback


def postponed(error: Exception) -> ir.Attribute:
    """The attribute of an operation whose rule raised an error: `emit_rule` raises it where a derivative needs the rule."""
    number = str(next(_numbers))
    _errors[number] = error
    while len(_errors) > _MOST:
        _errors.popitem(last=False)
    return ir.StringAttr.get(f"{number} {type(error).__name__}: {error}")


def _replace_recur(op: ir.Operation, inner: ir.Operation, clone: ir.Operation, mapping: dict[ir.Value, ir.Value]) -> None:
    """Replaces `inner`, an `ad.recur` inside `clone`, by a copy of the whole operation `op`, and updates `mapping`.

    `clone` is a copied operation of a rule, and `mapping` maps the values of the rule to those of its copy. Nothing changes if a
    rule of the same name encloses the `ad.recur`: that rule replaces it later.
    """
    around = inner
    while around != clone:
        around = around.parent.operation
        if around.name in CUSTOM and around.attributes["name"] == op.attributes["name"]:
            return
    if [v.type for v in inner.operands] != [v.type for v in op.operands]:
        label = op.attributes["name"].value
        raise RuleMissingError(
            f"the custom rule of {label} requires to call {label} on one entry at a time, got a call under vmap.",
            where=source_of(inner.location),
            help="call a function without a custom rule there.",
        )
    with ir.InsertionPoint(inner):
        whole = op.clone().operation
    for i, operand in enumerate(inner.operands):
        whole.operands[i] = operand
    copy_of = dict(zip(inner.results, whole.results, strict=True))
    for key, value in mapping.items():
        if value in copy_of:
            mapping[key] = copy_of[value]
    for old, new in copy_of.items():
        old.replace_all_uses_with(new)
    inner.erase()


@dataclass(frozen=True)
class Exposed:
    """An `ad.custom_vjp` whose operands include the results and residuals of its `fwd`, which is emitted before it."""

    op: ir.Operation
    outs: list[ir.Value]
    residuals: list[ir.Value]


def exposed_rule(op: ir.Operation) -> Exposed | None:
    """Emits the `fwd` of an `ad.custom_vjp` in front of it; returns the new operation, or None if `bwd` calls the function itself.

    Reverse mode of a loop then sees the residuals in the body, and can store them in tapes.
    """
    if any(inner.name == RECUR for o in body_of(op.regions[2])[1] for inner in [*nested(o), o]):
        return None
    first, n = len(op.operands), len(op.results)
    with ir.InsertionPoint(op):
        values = [out.value for out in emit_rule(op, 1, list(op.operands))]
        new = stablehlo.emit(
            op.name,
            [*op.operands, *values],
            results=[r.type for r in op.results],
            attributes={name: op.attributes[name] for name in op.attributes},
            regions=3,
        )
    types = [v.type for v in new.operands]
    # The function and its `fwd` need no code: their results and residuals are operands.
    fill(new.regions[0], types, lambda xs: xs[first : first + n])
    fill(new.regions[1], types, lambda xs: xs[first:])
    op.regions[2].blocks[0].append_to(new.regions[2])
    replace(op, [wrap(r) for r in new.results])
    return Exposed(new, values[:n], values[n:])
