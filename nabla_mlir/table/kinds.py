"""The kinds of operations: each kind supplies the rules that can be derived, so that a record states only the other rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nabla_mlir.table.batching import all_prefixed, batch_by_decomposition
from nabla_mlir.table.forward import jvp_by_decomposition, scaled
from nabla_mlir.table.registry import (
    UNSUPPORTED,
    ZERO,
    MaybeZero,
    OpDef,
    Zero,
    add_any,
    materialize,
    register,
)
from nabla_mlir.table.tensor import Tensor
from nabla_mlir.table.traits import LONG, OWN_LOOP

# t, y, *xs -> t * dy/dx_i. One function per operand serves forward and reverse mode, because a diagonal linear map is
# its own transpose. The product is written out, so that a rule can say `t / y` instead of `t * (1 / y)`.
Partial = Callable[..., MaybeZero]


def elementwise(
    name: str,
    *,
    doc: str,
    partials: Sequence[Partial | Zero] | Zero,
    forward: Sequence[Partial | Zero] | None = None,
    **fields: Any,
) -> OpDef:
    """Registers an operation that acts on each element separately.

    Args:
      partials: for each operand ``(t, y, *xs, **params) -> t * dy/dx_i`` or ZERO. A single ZERO means that the
        derivative is zero wherever it exists, or that the result has no tangent. A partial may also return ZERO.
      forward: the partials of forward mode, if they differ at singular points.
    """

    def jvp(outs: list[Tensor], xs: Sequence[Tensor], tangents: Sequence[MaybeZero], **params: Any) -> list[MaybeZero]:
        return [scaled(forward or partials, outs[0], xs, tangents, params)]  # type: ignore[arg-type]

    def batch(xs: Sequence[Tensor], mapped: Sequence[bool], size: int, **params: Any) -> list[Tensor]:
        return record.apply(all_prefixed(xs, mapped, size), params)

    def transpose(cts: Sequence[MaybeZero], i: int, xs: Sequence[Tensor], **params: Any) -> MaybeZero:
        # The partial of a linear operand depends only on the other operands.
        return partials[i](cts[0], None, *xs, **params)  # type: ignore[index,operator]

    flat = isinstance(partials, Zero)
    record = OpDef(
        name=name, kind="elementwise", doc=doc, elementwise=True, jvp=ZERO if flat else jvp, batch=batch,
        transpose=transpose if "linear" in fields else None,
        partials=None if flat else tuple(partials), **fields,  # type: ignore[arg-type]
    )  # fmt: skip
    return register(record)


def jointly_linear_jvp(record: Callable[[], OpDef]) -> Any:
    """The jvp of an operation that is linear in several operands together: the operation itself, applied to the tangents."""

    def jvp(outs: list[Tensor], xs: Sequence[Tensor], tangents: Sequence[MaybeZero], **params: Any) -> list[MaybeZero]:
        op = record()
        linear = op.linear_operands(xs, params)
        if all(isinstance(tangents[i], Zero) for i in linear):
            return [ZERO] * len(outs)
        ins = [materialize(tangents[i], x) if i in linear else x for i, x in enumerate(xs)]
        return list(op.apply(ins, params))

    return jvp


def multilinear_jvp(record: Callable[[], OpDef]) -> Any:
    """The jvp of an operation that is linear in each operand separately: the product rule."""

    def jvp(outs: list[Tensor], xs: Sequence[Tensor], tangents: Sequence[MaybeZero], **params: Any) -> list[MaybeZero]:
        op = record()
        total: MaybeZero = ZERO
        for i in op.linear_operands(xs, params):
            tangent = tangents[i]
            if not isinstance(tangent, Zero):
                total = add_any(total, op.apply([*xs[:i], tangent, *xs[i + 1 :]], params)[0])
        return [total]

    return jvp


def structural(name: str, *, linear: tuple[int, ...] | str = (0,), **fields: Any) -> OpDef:
    """Registers an operation that moves, selects or sums elements; it is linear in the operands `linear` together."""
    fields.setdefault("jvp", jointly_linear_jvp(lambda: record))
    fields.setdefault("instructions", 1 if fields.get("elementwise") else OWN_LOOP)
    record = OpDef(name=name, kind="structural", linear=linear, joint=True, **fields)
    return register(record)


def contraction(name: str, *, linear: tuple[int, ...] = (0, 1), **fields: Any) -> OpDef:
    """Registers a product of tensors, which is linear in each of the operands `linear` separately."""
    record = OpDef(
        name=name, kind="contraction", linear=linear, joint=False, jvp=multilinear_jvp(lambda: record), reduces=True,
        instructions=LONG, **fields,
    )  # fmt: skip
    return register(record)


def nondifferentiable(name: str, **fields: Any) -> OpDef:
    """Registers an operation whose result has no tangent (integers, comparisons, random bits)."""
    record = OpDef(name=name, kind="nondifferentiable", jvp=ZERO, **fields)
    return register(record)


def composite(name: str, *, define: Callable[..., list[Tensor]], **fields: Any) -> OpDef:
    """Registers an operation that is defined by others; its rules are their rules.

    The operation itself stays in the IR; operations of the definition that compute only its value are dead code.
    """
    fields.setdefault("jvp", jvp_by_decomposition(define))
    fields.setdefault("batch", batch_by_decomposition(define))
    fields.setdefault("transpose", UNSUPPORTED("the operation is transposed through what defines it"))
    fields.setdefault("instructions", LONG)
    record = OpDef(name=name, kind="composite", define=define, **fields)
    return register(record)


def general(name: str, **fields: Any) -> OpDef:
    """Registers an operation whose record states all its rules."""
    fields.setdefault("transpose", UNSUPPORTED("the operation is not linear"))
    fields.setdefault("instructions", 1 if fields.get("elementwise") else LONG)
    record = OpDef(name=name, kind="general", **fields)
    return register(record)
