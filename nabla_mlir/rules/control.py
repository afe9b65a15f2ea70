"""Control flow: while, if and case. Their rules rewrite regions, so the rules get the operation itself.

The derivative of a loop is again one loop, and so is the batch of a loop. An `if` stays one unless its predicate is batched.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects.regions import nested
from nabla_mlir.ops.logic import clamp, compare, logical_and, logical_not, select
from nabla_mlir.ops.reduction import reduce
from nabla_mlir.rules.custom_values import values_by_rules
from nabla_mlir.rules.gates import batch_gated, choose, gated
from nabla_mlir.rules.loop_body import active_carries
from nabla_mlir.rules.loop_reverse import while_vjp
from nabla_mlir.rules.loops import find_counter
from nabla_mlir.rules.masks import remasked
from nabla_mlir.rules.reverse import accumulate, active_values, pull_back
from nabla_mlir.table.batching import batch_ops, prefixed, varying_values, with_axis
from nabla_mlir.table.forward import carries_tangent, push_forward
from nabla_mlir.table.regions import body_of, captures_of, clone_body, emit_case, emit_while, fixed_point
from nabla_mlir.table.registry import OpDef, materialize, register
from nabla_mlir.table.rules import ZERO, Batch, ControlRules, Cotangents, MaybeZero, Pulled, Pushed, Tangents
from nabla_mlir.table.tensor import Tensor, full, wrap
from nabla_mlir.table.traits import LONG

BOOL = np.dtype(bool)


# ---------------------------------------------------------------- while


def _while_jvp(op: ir.Operation, tangents: Tangents) -> Pushed:
    """The results and tangents of a loop, by one new loop that carries both; `tangents` maps values to their tangents.

    Only carries that depend on values with tangents get tangents.
    """
    active = active_carries(op, set(tangents))
    inits = [wrap(v) for v in op.operands]
    if not active:
        return untouched(op)
    n = len(inits)

    def condition(carry: list[Tensor]) -> Tensor:
        """The condition of the original loop on the first `n` carries, the primal values."""
        arguments, ops, (predicate,) = body_of(op.regions[0])
        mapping = {a: c.value for a, c in zip(arguments, carry[:n], strict=True)}
        clone_body(ops, mapping)
        return wrap(mapping.get(predicate, predicate))

    def body(carry: list[Tensor]) -> list[Tensor]:
        """The next primal values, then the next tangents of the active carries."""
        arguments, ops, outputs = body_of(op.regions[1])
        mapping = {a: c.value for a, c in zip(arguments, carry[:n], strict=True)}
        all_tangents = dict(tangents)
        all_tangents.update({carry[i].value: t for i, t in zip(active, carry[n:], strict=True)})
        outs = _push_body(ops, outputs, mapping, all_tangents)
        return [*outs, *(materialize(all_tangents.get(outs[i].value, ZERO), outs[i]) for i in active)]

    with ir.InsertionPoint(op):
        seeds = [materialize(tangents.get(op.operands[i], ZERO), inits[i]) for i in active]
        results = emit_while([*inits, *seeds], condition, body, like=op)
    return with_tangents(results[:n], active, results[n:])


def untouched(op: ir.Operation) -> Pushed:
    """The results of an operation, without tangents."""
    return Pushed([wrap(r) for r in op.results], [ZERO] * len(op.results))


def with_tangents(values: Sequence[Tensor], indices: Sequence[int], tangents: Sequence[MaybeZero]) -> Pushed:
    """The results of an operation, of which only those at `indices` have tangents."""
    by_index = dict(zip(indices, tangents, strict=True))
    return Pushed(values, [by_index.get(i, ZERO) for i in range(len(values))])


def _push_body(
    ops: Sequence[ir.Operation], outputs: Sequence[ir.Value], mapping: dict[ir.Value, ir.Value], tangents: Tangents
) -> list[Tensor]:
    """Emits a copy of a body with its tangents; returns the values that the copy returns.

    Args:
      ops: the operations of the body.
      outputs: the values that the body returns.
      mapping: replaces arguments of the body; the results of the copies are added.
      tangents: the tangents of values; those of the copies are added.
    """
    clones = clone_body(ops, mapping)
    outs = [mapping.get(v, v) for v in outputs]
    replacements = push_forward(clones, tangents)
    return [wrap(replacements.get(v, v)) for v in outs]


def _while_batch(op: ir.Operation, batch: Batch) -> None:
    """Emits a loop over all entries of the map `batch`, and binds its results.

    If the predicate does not carry the mapped axis, the result is one loop with a batched body. If it does, the loop runs until
    the predicate of every entry is false.
    """
    arguments, ops, outputs = body_of(op.regions[1])
    tests, test_ops, (predicate,) = body_of(op.regions[0])
    changing = {i for i, (a, r) in enumerate(zip(arguments, outputs, strict=True)) if a != r}
    varying, predicate_varies = _varying_carries(op, batch, changing)
    inits = [with_axis(batch, v, i in varying) for i, v in enumerate(op.operands)]

    def test(carry: Sequence[Tensor], alive: Tensor | None = None) -> Tensor:
        """The predicate for the state `carry`, with an axis of entries if it varies; `alive` is the mask of the entries that still
        run.
        """
        inner = batch.inner(alive)
        for i, (a, c) in enumerate(zip(tests, carry, strict=True)):
            inner.bind(a, c, i in varying)
        batch_ops(test_ops, inner)
        return with_axis(inner, predicate, predicate_varies)

    def step(carry: Sequence[Tensor], alive: Tensor | None = None) -> list[Tensor]:
        """The next state; `alive` is the mask of the entries that still run, or None if all end together."""
        inner = batch.inner(alive)
        for i, (a, c) in enumerate(zip(arguments, carry, strict=True)):
            inner.bind(a, c if alive is None or i not in varying else gated(alive, c), i in varying)
        if alive is None:
            batch_ops(ops, inner)
        else:
            batch_gated(ops, inner, alive, arguments)
        return [with_axis(inner, r, i in varying) for i, r in enumerate(outputs)]

    frozen_at_end = varying & changing  # carries that must not change in an entry that has ended
    emit = functools.partial(_while_per_entry, live=batch.live, frozen_at_end=frozen_at_end) if predicate_varies else emit_while
    results = emit(inits, test, step, like=op)
    for i, (old, new) in enumerate(zip(op.results, results, strict=True)):
        batch.bind(old, new, i in varying)


def _varying_carries(op: ir.Operation, batch: Batch, changing: set[int]) -> tuple[set[int], bool]:
    """The carries that differ between the entries of a map, and True if the predicate differs too: a fixed point over the body.

    Args:
      op: the loop.
      batch: the values outside that are mapped.
      changing: the carries that an iteration changes.

    Example: in ``while x < n: x, i = 2 * x, i + 1`` only n is mapped. Then the predicate differs between entries, and
      so do x and i, because each entry stops at its own iteration.
    """
    arguments, ops, outputs = body_of(op.regions[1])
    tests, test_ops, (predicate,) = body_of(op.regions[0])
    captures = [v for v in captures_of(op) if v in batch]

    def iterate(state: tuple[set[int], bool]) -> tuple[set[int], bool]:
        """The carries that vary, and True if the predicate does, after one more iteration from those in `state`."""
        varying, _ = state
        inside = varying_values(ops, [*(arguments[i] for i in varying), *captures])
        more = varying | {i for i, r in enumerate(outputs) if r in inside}
        predicate_varies = predicate in varying_values(test_ops, [*(tests[i] for i in more), *captures])
        # The value of an ended entry stays, so each carry that changes differs between entries.
        return (more | changing if predicate_varies else more), predicate_varies

    return fixed_point(({i for i, v in enumerate(op.operands) if v in batch}, False), iterate)


def _while_per_entry(
    inits: Sequence[Tensor],
    test: Callable[..., Tensor],
    step: Callable[..., list[Tensor]],
    like: ir.Operation,
    *,
    live: Tensor | None,
    frozen_at_end: set[int],
) -> list[Tensor]:
    """Emits a loop that runs while the predicate of any entry holds; the values of an entry that has ended do not change.

    The predicate is a carry, so it is computed once per iteration.

    Args:
      inits: the initial values; mapped ones have the mapped axis in front.
      test: ``(carry, mask) -> predicate of each entry``.
      step: ``(carry, mask) -> carry`` of one iteration.
      like: the original loop.
      live: the mask of entries that use the results; the other entries do not start.
      frozen_at_end: the carries that differ between the entries and change.
    """

    def any_left(carry: list[Tensor]) -> Tensor:
        return _any(carry[-1])

    def body(carry: list[Tensor]) -> list[Tensor]:
        """The next values and the next mask of the entries that still run; the values of an ended entry stay."""
        *state, alive = carry
        new = [
            choose(alive, a, b) if i in frozen_at_end else a for i, (a, b) in enumerate(zip(step(state, alive), state, strict=True))
        ]
        # The predicate of an ended entry stays false.
        return [*new, logical_and(alive, test(new, alive))]

    first = test(inits)
    return emit_while([*inits, first if live is None else logical_and(live, first)], any_left, body, like=like)[:-1]


def _any(entries: Tensor) -> Tensor:
    """True if a predicate holds for any entry of the mapped axis."""
    return reduce(entries, full((), False, BOOL), dimensions=(0,), body="or")


# ---------------------------------------------------------------- if and case


def _branches(op: ir.Operation) -> list[tuple[list[ir.Operation], list[ir.Value]]]:
    """The operations of each branch, and the values that it returns."""
    return [body_of(region)[1:] for region in op.regions]


def _case_jvp(op: ir.Operation, tangents: Tangents) -> Pushed:
    """The results and tangents of a choice, by one new choice with the same index; `tangents` maps values to their tangents."""
    active = active_results(op, set(tangents))
    if not active:
        return untouched(op)
    with ir.InsertionPoint(op):
        branches = [functools.partial(branch_pushed, *b, tangents, active) for b in _branches(op)]
        results = emit_case(wrap(op.operands[0]), branches)
    n = len(op.results)
    return with_tangents(results[:n], active, results[n:])


def branch_pushed(
    ops: Sequence[ir.Operation], outputs: Sequence[ir.Value], tangents: Tangents, active: Sequence[int]
) -> list[Tensor]:
    """Emits a copy of a body without arguments; returns its results, then the tangents of the results at the indices `active`.

    `ops` and `outputs` are the operations and the results of the body, and `tangents` maps values from outside to their tangents.
    """
    all_tangents = dict(tangents)
    outs = _push_body(ops, outputs, {}, all_tangents)
    return [*outs, *(materialize(all_tangents.get(outs[i].value, ZERO), outs[i]) for i in active)]


def active_results(op: ir.Operation, roots: set[ir.Value]) -> list[int]:
    """Indices of the results of a choice, or of a region that runs once, that depend differentiably on `roots` in some branch."""
    active: set[int] = set()
    for ops, outputs in _branches(op):
        varying = active_values(ops, roots)
        active |= {i for i, r in enumerate(outputs) if r in varying and carries_tangent(r)}
    return sorted(active)


def _case_vjp(op: ir.Operation, active: set[ir.Value], cts: Sequence[MaybeZero]) -> Pulled:
    """The cotangents of the values that the branches of a choice capture, by a second choice with the same index.

    Its branches recompute the original branch and pull the cotangents `cts` back through it: values inside a branch are not
    visible outside, and IREE shares nothing between two choices. `active` are the differentiated values.
    """
    captures = [v for v in captures_of(op) if v in active]

    def branch(ops: Sequence[ir.Operation], outputs: Sequence[ir.Value]) -> Callable[[], list[Tensor]]:
        """A function that emits a branch and its reverse mode, and returns the cotangents of the captured values.

        `ops` and `outputs` are the operations and the results of the branch.
        """

        def make() -> list[Tensor]:
            """Emits the branch and its reverse mode; returns the cotangents of the captured values."""
            mapping: dict[ir.Value, ir.Value] = {}
            clones = clone_body(ops, mapping)
            varying = active_values(clones, captures)
            cotangents: Cotangents = {}
            for r, ct in zip(outputs, cts, strict=True):
                accumulate(cotangents, mapping.get(r, r), ct, varying)
            pull_back(clones, varying, cotangents)
            return [materialize(cotangents.get(v, ZERO), wrap(v)) for v in captures]

        return make

    if not captures:
        return Pulled({})
    results = remasked(emit_case(wrap(op.operands[0]), [branch(*b) for b in _branches(op)]), cts)
    return Pulled(dict(zip(captures, results, strict=True)), values_by_rules(op, active))


def _case_batch(op: ir.Operation, batch: Batch) -> None:
    """Emits a choice for all entries of the map `batch`, and binds its results.

    If the index is the same for all entries, the result is one choice between batched branches. Else every branch runs, and a
    selection picks the result of each entry.
    """
    index = op.operands[0]
    branches = _branches(op)
    captures = [v for v in captures_of(op) if v in batch]

    if index in batch:
        masks = _masks(batch[index], len(branches))
        outs = [_gated_branch(*b, batch, t) for b, t in zip(branches, masks, strict=True)]
        results = outs[-1]
        for values, entries in zip(reversed(outs[:-1]), reversed(masks[:-1]), strict=True):
            results = [choose(entries, a, b) for a, b in zip(values, results, strict=True)]
        for old, new in zip(op.results, results, strict=True):
            batch.bind(old, new)
        return
    wanted = [any(b[1][i] in varying_values(b[0], captures) for b in branches) for i in range(len(op.results))]
    bodies = [functools.partial(branch_batched, *b, wanted, batch) for b in branches]
    results = emit_case(batch[index], bodies)
    for old, new, is_mapped in zip(op.results, results, wanted, strict=True):
        batch.bind(old, new, is_mapped)


def branch_batched(ops: Sequence[ir.Operation], outputs: Sequence[ir.Value], wanted: Sequence[bool], batch: Batch) -> list[Tensor]:
    """Emits the batch of a body without arguments; returns its results.

    `ops` and `outputs` are the operations and the results of the body. Results for which `wanted` is True carry the mapped axis,
    even if they do not vary.
    """
    inner = batch.inner()
    batch_ops(ops, inner)
    return [with_axis(inner, r, m) for r, m in zip(outputs, wanted, strict=True)]


def _gated_branch(ops: Sequence[ir.Operation], outputs: Sequence[ir.Value], batch: Batch, mask: Tensor) -> list[Tensor]:
    """The results of the batch of a branch that only the entries of `mask` select; they all carry the mapped axis.

    `ops` and `outputs` are the operations and the results of the branch, and `batch` maps values to their batches. The derivatives
    of the other entries are zero. A branch with a loop that may not end runs only if some entry selects it.
    """

    def make() -> list[Tensor]:
        """Emits the batch of the branch; returns its results, which all carry the mapped axis."""
        inner = batch.inner(mask)
        batch_gated(ops, inner, mask)
        return [with_axis(inner, r) for r in outputs]

    def zeros_instead() -> list[Tensor]:
        """Zeros for the results of the batch, if no entry selects the branch."""
        return [prefixed(full(x.shape, 0, x.dtype), batch.size) for x in map(wrap, outputs)]

    if batch.live is not None:
        mask = logical_and(batch.live, mask)
    may_not_end = any(o.name == "stablehlo.while" and find_counter(o) is None for op in ops for o in [*nested(op), op])
    return emit_case(_any(mask), [make, zeros_instead]) if may_not_end else make()


def _masks(index: Tensor, branches: int) -> list[Tensor]:
    """The masks of the entries whose index selects branch 0, 1, ..., one mask for each of `branches` branches."""
    if index.dtype == BOOL:
        return [index, logical_not(index)]
    last = branches - 1
    # An index out of range selects the last branch (StableHLO specification, case).
    inside = clamp(full((), 0, index.dtype), index, full((), last, index.dtype))
    outside = compare(inside, index, comparison_direction="NE")
    index = select(outside, full(index.shape, last, index.dtype), index)
    return [compare(index, full(index.shape, i, index.dtype), comparison_direction="EQ") for i in range(branches)]


def control(name: str, doc: str, rules: ControlRules, runs: str = "") -> OpDef:
    """Registers a record of control flow."""
    return register(OpDef(name=name, kind="control", doc=doc, control=rules, multi=True, runs=runs, instructions=LONG))


while_: OpDef = control(
    "stablehlo.while",
    "The body repeated while the condition holds.",
    ControlRules(_while_jvp, while_vjp, _while_batch, active_carries),
    runs="loop",
)
_CHOICE = ControlRules(_case_jvp, _case_vjp, _case_batch, active_results)
if_: OpDef = control("stablehlo.if", "One of two branches, by a truth value.", _CHOICE, runs="choice")
case: OpDef = control("stablehlo.case", "One of several branches, by an integer.", _CHOICE, runs="choice")
