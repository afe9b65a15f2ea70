"""A pass and an operation of another project. `nabla-opt --load my_passes.py` knows both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects.regions import made_by, nested
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.table.kinds import elementwise
from nabla_mlir.table.samples import reals

gauss = elementwise(
    "my.gauss",
    doc="exp(-x * x).",
    partials=[lambda t, y, x: t * (-2.0 * x * y)],
    instructions=20,
    numpy=lambda x: np.exp(-x * x),
    sample=(reals(-2, 2),),
    result=lambda x: [(x.shape, x.dtype)],
)


@register
@dataclass(frozen=True)
class DoubleNegationPass(Pass):
    """Replace the negation of a negation by its operand."""

    name: ClassVar[str] = "my-double-negation"

    def run(self, module: ir.Operation) -> None:
        """Rewrites `module` in place."""
        for op in [op for op in nested(module) if op.name == "stablehlo.negate"]:
            inner = made_by(op.operands[0])
            if inner is not None and inner.name == "stablehlo.negate":
                op.results[0].replace_all_uses_with(inner.operands[0])
                op.erase()
