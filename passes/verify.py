"""Verification of our dialects, and of modules in which none of them remains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.base.errors import VerifyError
from nabla_mlir.dialects.ad import DEGREES, GUARDS, STOP_GRADIENT
from nabla_mlir.dialects.ad_rules import RECUR, RULES, verify_recur
from nabla_mlir.dialects.batch import COLLECTIVES, CollectiveOp
from nabla_mlir.dialects.locations import source_of
from nabla_mlir.dialects.regions import nested
from nabla_mlir.dialects.types import is_static_tensor
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.inline import TRANSFORMS

OWN_DIALECTS = ("ad.", "batch.")


def verify_op(op: ir.Operation) -> None:
    """Raises VerifyError if an operation of the dialects `ad` and `batch` is not valid."""
    if op.name in TRANSFORMS:
        TRANSFORMS[op.name](op).verify()  # type: ignore[attr-defined]
        return
    if op.name in COLLECTIVES:
        CollectiveOp(op).verify()
        return
    if op.name in RULES:
        RULES[op.name](op).verify()
        return
    if op.name == RECUR:
        verify_recur(op)
        return
    if op.name in GUARDS:
        _verify_guard(op)
        return
    if op.name not in (STOP_GRADIENT, "ad.name"):
        raise VerifyError(f"the dialects ad and batch have no operation {op.name!r}.", where=source_of(op.location))
    types = [v.type for v in [*op.operands, *op.results]]
    if len(op.operands) != 1 or len(op.results) != 1 or types[0] != types[1] or not is_static_tensor(types[0]):
        raise VerifyError(
            f"{op.name} requires one operand, a tensor of static shape, and a result of its type, "
            f"got {', '.join(map(str, types))}.",
            where=source_of(op.location),
        )
    if op.name == "ad.name" and not isinstance(dict(op.attributes).get("name"), ir.StringAttr):
        raise VerifyError("ad.name requires the attribute 'name', a string.", where=source_of(op.location))


def _verify_guard(op: ir.Operation) -> None:
    """Raises VerifyError if a guarded product, quotient or root is not valid."""
    types = [str(v.type) for v in [*op.operands, *op.results]]
    count = GUARDS[op.name]
    if len(set(types)) != 1 or len(op.operands) != count or len(op.results) != 1 or not is_static_tensor(op.results[0].type):
        raise VerifyError(
            f"{op.name} requires {count} operands and one result of the same type, a tensor of static shape, "
            f"got {', '.join(types)}.",
            where=source_of(op.location),
        )
    if op.name in DEGREES and not isinstance(dict(op.attributes).get("degree"), ir.FloatAttr):
        raise VerifyError(f"{op.name} requires the attribute 'degree', a float.", where=source_of(op.location))


@register
@dataclass(frozen=True)
class VerifyPass(Pass):
    """Check every `ad` and `batch` operation. MLIR cannot, because it does not know these dialects.

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
    """Refuse a module with a remaining `ad` or `batch` operation: the compiler would crash on it.

    Example: tests/filecheck/passes/verify_lowered.mlir
    """

    name: ClassVar[str] = "nabla-verify-lowered"

    def run(self, module: ir.Operation) -> None:
        """Raises VerifyError for the first operation of the dialects `ad` and `batch` in the module."""
        for op in nested(module):
            if op.name.startswith(OWN_DIALECTS):
                raise VerifyError(
                    f"lowering requires that no transform is left, got {op.name}.",
                    where=source_of(op.location),
                    help="run nabla-expand and nabla-remove-stop-gradient first.",
                )
