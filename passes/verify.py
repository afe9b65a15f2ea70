"""Verification of our dialects, and that none of them is left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.dialects.ad import STOP_GRADIENT
from nabla_mlir.dialects.locations import source_of
from nabla_mlir.dialects.regions import nested
from nabla_mlir.errors import VerifyError
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.inline import TRANSFORMS

OWN_DIALECTS = ("ad.", "batch.")


def verify_op(op: ir.Operation) -> None:
    """Checks one operation of `ad` or `batch`. Raises VerifyError."""
    if op.name in TRANSFORMS:
        TRANSFORMS[op.name](op).verify()  # type: ignore[attr-defined]
        return
    if op.name != STOP_GRADIENT:
        raise VerifyError(f"the dialects ad and batch have no operation {op.name!r}.", where=source_of(op.location))
    if [v.type for v in op.operands] != [r.type for r in op.results] or len(op.results) != 1:
        raise VerifyError(
            "ad.stop_gradient requires one operand and a result of its type.", where=source_of(op.location)
        )


@register
@dataclass(frozen=True)
class VerifyPass(Pass):
    """Check every `ad` and `batch` operation: MLIR itself cannot, since it does not know these dialects.

    Example: tests/filecheck/passes/verify.mlir
    """

    name: ClassVar[str] = "nabla-verify"

    def run(self, module: ir.Operation) -> None:
        for op in nested(module):
            if op.name.startswith(OWN_DIALECTS):
                verify_op(op)


@register
@dataclass(frozen=True)
class VerifyLoweredPass(Pass):
    """Refuse a module in which an `ad` or `batch` operation is left: the compiler would crash on it.

    Example: tests/filecheck/passes/verify_lowered.mlir
    """

    name: ClassVar[str] = "nabla-verify-lowered"

    def run(self, module: ir.Operation) -> None:
        for op in nested(module):
            if op.name.startswith(OWN_DIALECTS):
                raise VerifyError(
                    f"lowering requires that no transform is left, got {op.name}.", where=source_of(op.location),
                    help="run nabla-expand and nabla-remove-stop-gradient first.",
                )  # fmt: skip
