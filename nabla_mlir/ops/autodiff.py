"""Records of the operations of the dialect `ad` that rules may meet inside a region."""

from __future__ import annotations

from nabla_mlir.table.kinds import nondifferentiable
from nabla_mlir.table.registry import OpDef
from nabla_mlir.table.samples import Case

stop_gradient: OpDef = nondifferentiable(
    "ad.stop_gradient",
    doc="x, with the derivative zero.",
    moves=True,
    free=True,
    view=True,
    result=lambda x: [(x.shape, x.dtype)],
    batch=lambda xs, mapped, size: [stop_gradient(xs[0])],
    sample=[Case(((3, 2),), numpy=lambda x: x, smooth=False)],
)
