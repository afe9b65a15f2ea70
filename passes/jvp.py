"""The expansion of forward mode (`ad.jvp`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.dialects import debug
from nabla_mlir.dialects.ad import JvpOp
from nabla_mlir.dialects.locations import named
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.inline import expand_all, inline_region
from nabla_mlir.table.forward import push_forward
from nabla_mlir.table.registry import materialize
from nabla_mlir.table.rules import ZERO, Tangents
from nabla_mlir.table.tensor import wrap


def expand_jvp(op: ir.Operation) -> None:
    """Replaces one `ad.jvp` by its body and the tangents of its results.

    During the expansion, tangents are stored by argument of the body. So a value that is an argument and is also
    captured is active only as the argument.
    """
    view = JvpOp(op)
    view.verify()
    if debug.wanted("ad"):
        debug.say(
            "ad",
            f"jvp of {len(view.body)} operations at {debug.types(view.primals)}, wrt {list(view.wrt)}, of {list(view.of)}",
            op.location,
        )
    arguments = view.arguments
    tangents: Tangents = {arguments[i]: wrap(t) for i, t in zip(view.wrt, view.seeds, strict=True)}
    push_forward(view.body, tangents, are_constant=True)
    outs = list(view.terminator.operands)
    with ir.InsertionPoint(view.terminator), named("jvp", op.location):
        out_tangents = [materialize(tangents.get(outs[i], ZERO), wrap(outs[i])).value for i in view.of]
    inline_region(view, view.primals, [*outs, *out_tangents])


@register
@dataclass(frozen=True)
class JvpPass(Pass):
    """Replace each `ad.jvp` by its body and the tangents of its results.

    Structural zeros emit nothing. Bodies must not contain other transforms (see nabla-expand).

    Example: tests/filecheck/passes/jvp.mlir
    """

    name: ClassVar[str] = "nabla-jvp"

    def run(self, module: ir.Operation) -> None:
        expand_all(module, "ad.jvp", expand_jvp, self.name)
