"""The kinds of operations: each kind supplies the rules that can be derived, so that a record states only the other rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nabla_mlir.table.batching import all_prefixed, batch_by_decomposition
from nabla_mlir.table.forward import jvp_by_decomposition, scaled
from nabla_mlir.table.registry import OpDef, add_any, materialize, register
from nabla_mlir.table.rules import UNSUPPORTED, ZERO, BatchRule, Jvp, Linear, MaybeZero, Partial, Transpose, Zero
from nabla_mlir.table.tensor import Tensor
from nabla_mlir.table.traits import LONG, OWN_LOOP


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

    def jvp(outs: Sequence[Tensor], xs: Sequence[Tensor], tangents: Sequence[MaybeZero], **params: Any) -> list[MaybeZero]:
        return [scaled(forward or partials, outs[0], xs, tangents, params)]  # type: ignore[arg-type]

    def batch(xs: Sequence[Tensor], mapped: Sequence[bool], size: int, **params: Any) -> list[Tensor]:
        return record.apply(all_prefixed(xs, mapped, size), params)

    has_zero_derivative = isinstance(partials, Zero)
    record = OpDef(
        name=name,
        kind="elementwise",
        doc=doc,
        elementwise=True,
        jvp=ZERO if has_zero_derivative else jvp,
        batch=batch,
        partials=None if has_zero_derivative else tuple(partials),  # type: ignore[arg-type]
        **fields,
    )
    return register(record)


def jointly_linear_jvp(record: Callable[[], OpDef]) -> Jvp:
    """The jvp rule of an operation that is linear in several operands together: the operation itself, applied to the tangents.

    `record` returns the operation's record, which does not exist yet when the rule is made.
    """

    def jvp(outs: Sequence[Tensor], xs: Sequence[Tensor], tangents: Sequence[MaybeZero], **params: Any) -> list[MaybeZero]:
        """The tangents of the results, from those of the operands `xs`; zeros if no linear operand has one."""
        op = record()
        linear = op.linear_operands(xs, params)
        if all(isinstance(tangents[i], Zero) for i in linear):
            return [ZERO] * len(outs)
        ins = [materialize(tangents[i], x) if i in linear else x for i, x in enumerate(xs)]
        return list(op.apply(ins, params))

    return jvp


def multilinear_jvp(record: Callable[[], OpDef]) -> Jvp:
    """The jvp rule of an operation that is linear in each operand separately: the product rule.

    `record` returns the operation's record, which does not exist yet when the rule is made.
    """

    def jvp(outs: Sequence[Tensor], xs: Sequence[Tensor], tangents: Sequence[MaybeZero], **params: Any) -> list[MaybeZero]:
        """The tangent of the result: the sum of the operation with one operand replaced by its tangent.

        `tangents` are those of the operands `xs`; a structural zero among them adds nothing.
        """
        op = record()
        total: MaybeZero = ZERO
        for i in op.linear_operands(xs, params):
            tangent = tangents[i]
            if not isinstance(tangent, Zero):
                total = add_any(total, op.apply([*xs[:i], tangent, *xs[i + 1 :]], params)[0])
        return [total]

    return jvp


def structural(
    name: str,
    *,
    transpose: Transpose | UNSUPPORTED | None = None,
    batch: BatchRule | UNSUPPORTED | None = None,
    linear: Linear = (0,),
    jvp: Jvp | Zero | UNSUPPORTED | None = None,
    **fields: Any,
) -> OpDef:
    """Registers an operation that moves, selects or sums elements; returns its record.

    It is linear in the operands `linear` together, so its forward rule is the operation itself on tangents. `fields` are further
    fields of the record.
    """
    fields.setdefault("instructions", 1 if fields.get("elementwise") else OWN_LOOP)
    record = OpDef(
        name=name,
        kind="structural",
        jvp=jvp or jointly_linear_jvp(lambda: record),
        transpose=transpose,
        linear=linear,
        joint=True,
        batch=batch,
        **fields,
    )
    return register(record)


def contraction(
    name: str,
    *,
    transpose: Transpose | UNSUPPORTED | None = None,
    batch: BatchRule | UNSUPPORTED | None = None,
    linear: Linear = (0, 1),
    **fields: Any,
) -> OpDef:
    """Registers a product of tensors, which is linear in each of the operands `linear` separately; returns its record."""
    record = OpDef(
        name=name,
        kind="contraction",
        jvp=multilinear_jvp(lambda: record),
        transpose=transpose,
        linear=linear,
        joint=False,
        batch=batch,
        reduces=True,
        instructions=LONG,
        **fields,
    )
    return register(record)


def nondifferentiable(name: str, *, batch: BatchRule | UNSUPPORTED | None = None, **fields: Any) -> OpDef:
    """Registers an operation whose result has no tangent (integers, comparisons, random bits)."""
    return register(OpDef(name=name, kind="nondifferentiable", jvp=ZERO, batch=batch, **fields))


def composite(
    name: str,
    *,
    define: Callable[..., list[Tensor]],
    jvp: Jvp | Zero | UNSUPPORTED | None = None,
    batch: BatchRule | UNSUPPORTED | None = None,
    **fields: Any,
) -> OpDef:
    """Registers an operation that is defined by other operations, whose rules give its rules.

    The operation itself stays in the IR; operations of the definition that compute only its value are dead code.

    Args:
      name: the name of the operation.
      define: ``(operands, **params) -> results``, which emits the other operations.
      jvp: a forward rule instead of the derived one.
      batch: a batch rule instead of the derived one.
      fields: further fields of the record.
    """
    fields.setdefault("transpose", UNSUPPORTED("the operation is transposed through what defines it"))
    fields.setdefault("instructions", LONG)
    record = OpDef(
        name=name,
        kind="composite",
        define=define,
        jvp=jvp or jvp_by_decomposition(define),
        batch=batch or batch_by_decomposition(define),
        **fields,
    )
    return register(record)


def general(
    name: str,
    *,
    jvp: Jvp | Zero | UNSUPPORTED | None = None,
    batch: BatchRule | UNSUPPORTED | None = None,
    transpose: Transpose | UNSUPPORTED | None = None,
    **fields: Any,
) -> OpDef:
    """The record of a new operation in the table, with `fields`; `jvp`, `batch` and `transpose` are its rules, or why
    there is none.
    """
    fields.setdefault("instructions", 1 if fields.get("elementwise") else LONG)
    transpose = transpose or UNSUPPORTED("the operation is not linear")
    return register(OpDef(name=name, kind="general", jvp=jvp, batch=batch, transpose=transpose, **fields))
