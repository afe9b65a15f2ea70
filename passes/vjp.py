"""The expansion of reverse mode (`ad.vjp`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.dialects import debug
from nabla_mlir.dialects.ad import VjpOp
from nabla_mlir.dialects.locations import named
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.inline import expand_all, inline_region
from nabla_mlir.rules.custom_values import apply_unvisited_rules
from nabla_mlir.rules.reverse import accumulate, active_values, pull_back
from nabla_mlir.table.registry import materialize
from nabla_mlir.table.rules import ZERO, Cotangents
from nabla_mlir.table.tensor import wrap


def expand_vjp(op: ir.Operation) -> None:
    """Replaces one `ad.vjp` by its body and the cotangents of its arguments.

    The residuals are the values of the body. The emitted operations can be differentiated again.
    """
    view = VjpOp(op)
    view.verify()
    arguments, body = view.arguments, view.body
    if debug.wanted("ad"):
        debug.say(
            "ad",
            f"vjp of {len(body)} operations at {debug.types(view.primals)}, wrt {list(view.wrt)}, of {list(view.of)}",
            op.location,
        )
    roots = [arguments[i] for i in view.wrt]
    apply_unvisited_rules(body, roots, [view.terminator.operands[i] for i in view.of])
    body = view.body
    active = active_values(body, roots)
    outs = list(view.terminator.operands)
    cotangents: Cotangents = {}
    with ir.InsertionPoint(view.terminator), named("vjp", op.location):
        for i, seed in zip(view.of, view.seeds, strict=True):
            accumulate(cotangents, outs[i], wrap(seed), active)
        pull_back(body, active, cotangents, are_constant=True)
        results = [materialize(cotangents.get(root, ZERO), wrap(root)).value for root in roots]
    # The terminator is read after the rules: a rule may replace a primal by one computed together with its derivative.
    inline_region(view, view.primals, [*view.terminator.operands, *results])


@register
@dataclass(frozen=True)
class VjpPass(Pass):
    """Replace each `ad.vjp` by its body and the cotangents of its arguments.

    The rules are the jvp and transpose rules of the table. Only values that depend on `wrt` and reach `of` are pulled back.
    Bodies must not contain other transforms (see nabla-expand).

    Example: tests/filecheck/passes/vjp.mlir
    """

    name: ClassVar[str] = "nabla-vjp"

    def run(self, module: ir.Operation) -> None:
        expand_all(module, "ad.vjp", expand_vjp, self.name)
