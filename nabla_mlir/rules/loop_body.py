"""The body of a backward loop: one iteration in reverse, and the values of the forward iteration that it needs.

Cheap values are recomputed. The carries and the results of expensive operations are stored. Values that do not change
between iterations are never stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from nabla_mlir.dialects.regions import made_by, scratch_block
from nabla_mlir.ops.shape import dynamic_slice
from nabla_mlir.rules.loops import find_counter, invariant_carries
from nabla_mlir.rules.masks import masked, row_of
from nabla_mlir.rules.reverse import PLACEHOLDER, accumulate, active_values, pull_back
from nabla_mlir.rules.tapes import tape_of
from nabla_mlir.table.forward import carries_tangent
from nabla_mlir.table.regions import MAX_RESIDUAL_BYTES, body_of, captures_of, clone_body, fixed_point, reads_of
from nabla_mlir.table.registry import add_any, materialize
from nabla_mlir.table.rules import ZERO, Cotangents
from nabla_mlir.table.tensor import Tensor, wrap
from nabla_mlir.table.traits import is_long


@dataclass
class Backward:
    """The body of the backward loop, before it is known which values are read from tapes."""

    holder: ir.Operation
    block: ir.Block
    stored: dict[ir.Value, ir.Value]  # placeholder -> the value of the original body that it represents
    cts: list[int]  # indices of the carries whose cotangents the backward loop carries
    sums: list[ir.Value]  # values from outside whose cotangents the backward loop sums


@dataclass(frozen=True)
class Roles:
    """The values of a loop, grouped by their role in reverse mode.

    Attributes:
      invariant: carries that no iteration changes. The cotangent of the result is that of the initial value.
      tapes: carries of which each iteration writes one row. The iteration reads the same row of the cotangent.
      carries: the other carries that vary. Their cotangents are carries of the backward loop.
      sums: values from outside, and initial values of invariant carries, that the iterations read. The cotangent is a
        sum over the iterations.
    """

    invariant: set[int]
    tapes: list[int]
    carries: list[int]
    sums: list[ir.Value]


def roles_of(op: ir.Operation, active: set[ir.Value]) -> Roles:
    """The roles that the carries and captures of a loop have in its backward loop; `active` are the differentiated values
    outside.
    """
    invariant, counter, inits = set(invariant_carries(op)), find_counter(op), list(op.operands)
    varying = [i for i in active_carries(op, active) if i not in invariant]
    tapes = []
    if counter is not None and residual_bound(op) is None:  # in IREE 3.13, nested loops lose values that they read from outside
        tapes = [i for i in varying if tape_of(op, i, counter) is not None]
    sums = [v for v in captures_of(op) if v in active]
    sums += [inits[i] for i in sorted(invariant) if inits[i] in active and inits[i] not in sums]
    return Roles(invariant, tapes, [i for i in varying if i not in tapes], sums)


def residual_bound(op: ir.Operation) -> int | None:
    """The largest number of bytes of states and tapes that reverse mode may store for a loop; None if it is not bounded."""
    return int(op.attributes[MAX_RESIDUAL_BYTES].value) if MAX_RESIDUAL_BYTES in op.attributes else None


def active_carries(op: ir.Operation, roots: set[ir.Value]) -> list[int]:
    """Indices of the carries that depend differentiably on `roots` (initial values or captures): a fixed point over the body."""
    arguments, ops, outputs = body_of(op.regions[1])
    active = {i for i, init in enumerate(op.operands) if init in roots and carries_tangent(init)}
    captures = [v for v in captures_of(op) if v in roots]

    def iterate(active: set[int]) -> set[int]:
        """The active carries after one more iteration."""
        varying = active_values(ops, [*(arguments[i] for i in active), *captures])
        return active | {i for i, r in enumerate(outputs) if r in varying and carries_tangent(r)}

    found = fixed_point(active, iterate)
    return sorted(found)


def trace_backward(
    op: ir.Operation,
    roles: Roles,
    masks: Sequence[Tensor | None],
    rows: Mapping[int, tuple[Tensor, Tensor | None]],
    residuals: set[ir.Value],
) -> Backward:
    """Emits one iteration in reverse, with a placeholder for every value of the forward iteration.

    Args:
      op: the loop.
      roles: the roles of its carries and captures.
      masks: for each of `roles.carries` and `roles.sums`, a mask outside of which its cotangent is zero, or None.
      rows: by carry that is a tape, the cotangent of the whole tape and its mask; the iteration reads its own row of both.
      residuals: values of the body that are stored if they are needed, even if they are cheap.
    """
    arguments, ops, outputs = body_of(op.regions[1])
    carries, sums = roles.carries, roles.sums
    types = [arguments[i].type for i in carries] + [v.type for v in sums]
    block = scratch_block(types)
    backward = Backward(block.owner.operation, block, {}, carries, sums)
    with ir.InsertionPoint(block):
        mapping: dict[ir.Value, ir.Value] = {}
        for i, argument in enumerate(arguments):
            mapping[argument] = op.operands[i] if i in roles.invariant else _placeholder(argument.type)
            if i not in roles.invariant:
                backward.stored[mapping[argument]] = argument
        clones = clone_body(ops, mapping)
        results = [list(c.results) for c in clones]
        roots = [mapping[arguments[i]] for i in carries] + sums
        active = active_values(clones, roots)
        cotangents: Cotangents = {}
        incoming = [wrap(a) for a in block.arguments]
        for i, ct, mask in zip(carries, incoming, masks, strict=False):  # the sums follow the carries
            accumulate(cotangents, mapping.get(outputs[i], outputs[i]), masked(ct, mask), active)
        for i, (whole, mask) in rows.items():
            # The operands of the dynamic_update_slice that writes a row of the tape.
            _, row, *position = (mapping.get(v, v) for v in _maker_of(outputs[i]).operands)
            starts, sizes = [wrap(v) for v in position], wrap(row).shape
            row_ct = dynamic_slice(whole, *starts, slice_sizes=sizes)
            accumulate(cotangents, row, masked(row_ct, row_of(mask, starts, sizes)), active)
        replacements = pull_back(clones, active, cotangents)  # an inner loop is replaced by one with tapes
        outs = [materialize(cotangents.get(mapping[arguments[i]], ZERO), wrap(arguments[i])) for i in carries]
        for value, total in zip(sums, incoming[len(carries) :], strict=True):
            new_total = add_any(total, cotangents.get(value, ZERO))
            assert isinstance(new_total, Tensor)
            outs.append(new_total)
        ir.Operation.create("stablehlo.return", operands=[o.value for o in outs])
    copies = [[replacements.get(r, r) for r in rs] for rs in results]
    stored = [is_long(o) or any(r in residuals for r in o.results) for o in ops]
    _choose_stored(backward, ops, copies, stored)
    return backward


def _maker_of(value: ir.Value) -> ir.Operation:
    """The operation that computes a value, which must not be an argument."""
    maker = made_by(value)
    assert maker is not None
    return maker


def _placeholder(type: ir.Type) -> ir.Value:
    return ir.Operation.create(PLACEHOLDER, results=[type]).results[0]


def _choose_stored(backward: Backward, ops: list[ir.Operation], copies: list[list[ir.Value]], stored: list[bool]) -> None:
    """Replaces results that the backward body needs by placeholders, if these results are stored.

    Args:
      backward: the body, which contains a copy of the forward iteration.
      ops: the operations of the original body.
      copies: for each operation, the results of its copy.
      stored: for each operation, True if its results are stored. The copy stays until the walk, from last to first, reaches it.
    """
    pinned = {r for results, s in zip(copies, stored, strict=True) if s for r in results}
    _erase_unused((o.operation for o in backward.block.operations), pinned)
    for original, results, is_stored in zip(reversed(ops), reversed(copies), reversed(stored), strict=True):
        if not is_stored:
            continue
        pinned.difference_update(results)
        with ir.InsertionPoint.at_block_begin(backward.block):
            for old, new in zip(original.results, results, strict=True):
                if next(iter(new.uses), None) is not None:
                    holder = _placeholder(new.type)
                    backward.stored.pop(holder, None)  # an erased placeholder may have had the same address
                    backward.stored[holder] = old
                    new.replace_all_uses_with(holder)
        _erase_unused((maker for v in results if (maker := made_by(v)) is not None), pinned)
    placeholders = {o.operation.results[0] for o in backward.block.operations if o.operation.name == PLACEHOLDER}
    backward.stored = {p: v for p, v in backward.stored.items() if p in placeholders}


def _erase_unused(ops: Iterable[ir.Operation], pinned: set[ir.Value]) -> None:
    """Erases the operations of `ops` whose results nothing uses, and the operations whose results only they used.

    Args:
      pinned: results of operations that stay.
    """
    work = {op.results[0]: op for op in ops if len(op.results)}
    while work:
        _, op = work.popitem()
        if any(r in pinned or next(iter(r.uses), None) is not None for r in op.results):
            continue
        block = op.block
        makers = [maker for v in reads_of(op) if (maker := made_by(v)) is not None and maker.block == block]
        op.erase()
        work.update((maker.results[0], maker) for maker in makers)


def step_back(backward: Backward, carry: Sequence[Tensor], values: dict[ir.Value, Tensor]) -> list[Tensor]:
    """Emits a copy of the backward body; returns the new values of the carries of the backward loop.

    In the body, a placeholder operation stands for each stored value of the forward iteration; `values` has its tensor.

    Args:
      backward: the body.
      carry: the current values of these carries.
      values: maps each stored value of the forward iteration to the tensor that is read from its tape.
    """
    mapping = {a: c.value for a, c in zip(backward.block.arguments, carry, strict=True)}
    *ops, terminator = (o.operation for o in backward.block.operations)
    for placeholder, value in backward.stored.items():
        mapping[placeholder] = values[value].value
    clone_body([o for o in ops if o.name != PLACEHOLDER], mapping)
    return [wrap(mapping.get(v, v)) for v in terminator.operands]
