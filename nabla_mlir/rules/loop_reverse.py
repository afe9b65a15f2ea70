"""Reverse mode of loops: a forward loop fills tapes, and a backward loop reads them from the last row to the first.

The derivative of ``for i in range(3): c = sin(c) * x`` is two loops:

    for i in range(3): tape[i] = c; c = sin(c) * x                               forward, with a tape
    for i in (2, 1, 0): dx += dc * sin(tape[i]); dc = dc * x * cos(tape[i])      backward

It is emitted in these steps (`while_vjp`):

1. `roles_of` says what happens to the cotangent of each carry and capture: dc is a carry, dx is a sum.
2. `masked_backward` emits the body of the backward loop, in which placeholders stand for the values of the iteration. It
   tells which of them the forward loop must store.
3. `_counted` or `_uncounted` emits both loops, and replaces the placeholders by rows of the tapes. The number of runs of
   each loop depends on what is known about the number of iterations, and on the bound on stored bytes.

The rule returns the cotangents, and the results of the forward loop in place of those of the original loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects.ad_rules import CUSTOM
from nabla_mlir.dialects.regions import nested
from nabla_mlir.ops.elementwise import add, divide, minimum, multiply, subtract
from nabla_mlir.ops.logic import compare, select
from nabla_mlir.rules.custom_regions import Exposed, exposed_rule
from nabla_mlir.rules.custom_values import apply_rules_in, has_rules
from nabla_mlir.rules.loop_body import Backward, active_carries, residual_bound, roles_of, step_back
from nabla_mlir.rules.loop_checkpoints import choose_plan, run_plan
from nabla_mlir.rules.loop_masks import masked_backward
from nabla_mlir.rules.loops import Counter, carries_behind, find_counter
from nabla_mlir.rules.masks import masked
from nabla_mlir.rules.policies import exposed
from nabla_mlir.rules.reverse import accumulate, active_values
from nabla_mlir.rules.tapes import INDEX, count_at, empty_tape, read_row, write_row
from nabla_mlir.table.regions import body_of, captures_of, clone_body, emit_while, replace, substitute
from nabla_mlir.table.registry import materialize, zeros
from nabla_mlir.table.rules import Cotangents, MaybeZero, Pulled
from nabla_mlir.table.tensor import Tensor, full, wrap
from nabla_mlir.table.traits import bytes_of


def while_vjp(op: ir.Operation, active: set[ir.Value], cts: Sequence[MaybeZero]) -> Pulled:
    """The cotangents of a loop's initial values and captures, which are emitted, and the values of a new loop with tapes before
    `op`.

    `active` are the differentiated values, and `cts` are the cotangents of the loop's results.
    """
    if not any(inner.name in CUSTOM or inner.name == "ad.checkpoint" for inner in nested(op)):
        return _pull_loop(op, active, cts)
    with ir.InsertionPoint(op):
        copy = op.clone().operation  # the code of checkpoints and custom rules is written into the copy
    for inner in body_of(copy.regions[1])[1]:
        if inner.name == "ad.checkpoint":  # the values that its policy saves can be stored in tapes
            substitute(inner, [wrap(r) for r in exposed(inner).results][: len(inner.results)])  # more results are saved
    pulled = _pull_loop(copy, active, cts)
    if pulled.values is None:
        return Pulled(pulled.cotangents, [wrap(r) for r in copy.results])
    copy.erase()  # a loop with tapes has replaced it
    return pulled


def _pull_loop(op: ir.Operation, active: set[ir.Value], cts: Sequence[MaybeZero]) -> Pulled:
    """The cotangents of the values that the loop `op` reads, and the results of a loop with tapes that replaces it, or None.

    `active` are the differentiated values, and `cts` are the cotangents of the results. Functions with custom rules in the loop may
    be replaced in place by the code of their rules.
    """
    rules = _exposed_rules(op, active)
    counter, roles = find_counter(op), roles_of(op, active)
    backward, masks = masked_backward(op, roles, cts, {v for rule in rules for v in rule.residuals})
    _apply_exposed(rules, backward)
    if has_rules(op):
        replacements = apply_rules_in(op, active)
        backward.stored = {holder: replacements.get(v, v) for holder, v in backward.stored.items()}
    seeds = [materialize(cts[i], wrap(op.results[i])) for i in roles.carries]
    results, values = _counted(op, backward, counter, seeds) if counter is not None else _uncounted(op, backward, seeds)
    inits = list(op.operands)
    reads = [inits[i] for i in roles.carries] + roles.sums
    cotangents: Cotangents = {}
    for i in sorted(roles.invariant):
        accumulate(cotangents, inits[i], cts[i], active)
    for value, ct, mask in zip(reads, results, masks, strict=True):
        accumulate(cotangents, value, masked(ct, mask), active)
    return Pulled(cotangents, values)


def _exposed_rules(op: ir.Operation, active: set[ir.Value]) -> list[Exposed]:
    """The `ad.custom_vjp` of the body that are differentiated, after the `fwd` of each was emitted in front of it.

    `active` are the differentiated values outside the loop.
    """
    arguments, ops, _ = body_of(op.regions[1])
    roots = [arguments[i] for i in active_carries(op, active)] + [v for v in captures_of(op) if v in active]
    varying = active_values(ops, roots)
    custom = [o for o in ops if o.name == "ad.custom_vjp" and any(v in varying for v in o.operands)]
    return [rule for o in custom if (rule := exposed_rule(o)) is not None]


def _apply_exposed(rules: Sequence[Exposed], backward: Backward) -> None:
    """Replaces each operation of `rules` by the results of its `fwd`, in the loop and among the values that `backward` stores in
    tapes.
    """
    replacement: dict[ir.Value, ir.Value] = {}
    for rule in rules:
        outs = [replacement.get(v, v) for v in rule.outs]  # an out may be the result of an earlier rule
        replacement.update(zip(rule.op.results, outs, strict=True))
    backward.stored = {holder: replacement.get(v, v) for holder, v in backward.stored.items()}
    for rule in rules:
        replace(rule.op, [wrap(replacement[r]) for r in rule.op.results])


def _empty_tapes(backward: Backward, length: int, others: set[ir.Value]) -> tuple[list[ir.Value], list[Tensor]]:
    """The values that are stored, without duplicates, and an empty tape for each.

    Args:
      backward: the body of the backward loop.
      length: the number of rows.
      others: values that need no tape, such as the counter.
    """
    values = [v for v in dict.fromkeys(backward.stored.values()) if v not in others]
    return values, [empty_tape(length, wrap(v)) for v in values]


def _forward_loop(
    op: ir.Operation,
    start: Sequence[Tensor],
    index: Tensor,
    stop: Tensor | None,
    offset: Tensor | None,
    stored: list[ir.Value],
    tapes: list[Tensor],
) -> tuple[list[Tensor], Tensor, list[Tensor]]:
    """Emits the loop from the state `start` on; it counts its iterations and fills tapes.

    Args:
      op: the original loop.
      start: the values of the carries.
      index: the number of the first iteration.
      stop: the index of the first iteration that does not run; None to use the loop's own condition.
      offset: the iteration of the first row of the tapes; None for 0.
      stored: the values that are written to tapes.
      tapes: a tape for each of them.

    Returns:
      The carries at the end, the number of the next iteration, and the tapes.
    """
    n = len(start)

    def condition(carry: list[Tensor]) -> Tensor:
        """True if another iteration runs: if the counter is below `stop`, or, without `stop`, if the loop's own condition holds."""
        if stop is not None:
            return compare(carry[n], stop, comparison_direction="LT")
        arguments, ops, (predicate,) = body_of(op.regions[0])
        mapping = {a: c.value for a, c in zip(arguments, carry[:n], strict=True)}
        clone_body(ops, mapping)
        return wrap(mapping.get(predicate, predicate))

    def body(carry: list[Tensor]) -> list[Tensor]:
        """The next state, the next counter, and the tapes with one more row."""
        state, i, rows = carry[:n], carry[n], carry[n + 1 :]
        arguments, ops, outputs = body_of(op.regions[1])
        mapping = {a: c.value for a, c in zip(arguments, state, strict=True)}
        clone_body(ops, mapping)
        row = i if offset is None else subtract(i, offset)
        new_tapes = [write_row(tape, wrap(mapping.get(v, v)), row) for tape, v in zip(rows, stored, strict=True)]
        new = [wrap(mapping.get(v, v)) for v in outputs]
        return [*new, add(i, full((), 1, INDEX)), *new_tapes]

    results = emit_while([*start, index, *tapes], condition, body, like=op)
    return results[:n], results[n], results[n + 1 :]


def _backward_loop(backward: Backward, seeds: Sequence[Tensor], first: Tensor, last: Tensor, known_at: object) -> list[Tensor]:
    """Emits a loop that runs iterations first, first - 1, ..., last in reverse; returns the cotangents at its end.

    Args:
      backward: the body.
      seeds: the initial cotangents.
      first: the iteration that is pulled back first.
      last: the iteration that is pulled back last.
      known_at: a function from an iteration to the values of the forward loop in it.
    """

    def condition(carry: list[Tensor]) -> Tensor:
        return compare(carry[0], last, comparison_direction="GE")

    def body(carry: list[Tensor]) -> list[Tensor]:
        """The number of the iteration before i, and the cotangents after iteration i was pulled back."""
        i = carry[0]
        return [subtract(i, full((), 1, INDEX)), *step_back(backward, carry[1:], known_at(i))]  # type: ignore[operator]

    return emit_while([first, *seeds], condition, body)[1:]


def _counted(
    op: ir.Operation, backward: Backward, counter: Counter, seeds: list[Tensor]
) -> tuple[list[Tensor], list[Tensor] | None]:
    """Emits the backward loop of a loop with a constant number of iterations; the tapes have that length.

    Args:
      op: the loop.
      backward: the body of the backward loop, and the values that it reads from tapes.
      counter: the carry that counts.
      seeds: the cotangents of the active results.

    Returns:
      The results of the backward loop; and those of the forward loop with tapes, or None if the original loop stays.
    """
    sums = [zeros(wrap(v)) for v in backward.sums]
    arguments = body_of(op.regions[1])[0]
    counting = arguments[counter.carry]
    if counter.trips == 0:
        backward.holder.erase()
        return [*seeds, *sums], None
    bound, row = residual_bound(op), _row_bytes(backward, {counting})
    if bound is not None and row * counter.trips > bound:
        return _planned(op, backward, counter, [*seeds, *sums], bound), None
    with ir.InsertionPoint(op):
        stored, empty = _empty_tapes(backward, counter.trips, {counting})
        if stored:
            operands = [wrap(v) for v in op.operands]
            state, _, tapes = _forward_loop(op, operands, full((), 0, INDEX), None, None, stored, empty)
        else:
            state, tapes = None, []
    dtype = wrap(counting).dtype

    def known_at(i: Tensor) -> dict[ir.Value, Tensor]:
        """The values of the forward loop at iteration `i`: rows of the tapes, and the counter."""
        values = {v: read_row(tape, i) for v, tape in zip(stored, tapes, strict=True)}
        values[counting] = count_at(i, counter, dtype)
        return values

    # Iterations are pulled back from the last one to the first one.
    last, first = full((), counter.trips - 1, INDEX), full((), 0, INDEX)
    results = _backward_loop(backward, [*seeds, *sums], last, first, known_at)
    backward.holder.erase()
    return results, state


def _planned(op: ir.Operation, backward: Backward, counter: Counter, cts: list[Tensor], bound: int) -> list[Tensor]:
    """Emits the backward loop in pieces, because the tapes of all iterations would need more than `bound` bytes; returns its
    results.

    A state consists of the carries on which the tapes depend. A loop that only collects its results has no such carries.
    `backward` has the body of the backward loop, `counter` the carry that counts, and `cts` are the first cotangents.
    """
    counting = op.regions[1].blocks[0].arguments[counter.carry]
    inits = [wrap(v) for v in op.operands]
    carries = sorted(carries_behind(op, [counting, *backward.stored.values()]))
    state_bytes = sum(inits[i].nbytes for i in carries)
    plan = choose_plan(op, counter.trips, _row_bytes(backward, {counting}), state_bytes, bound)
    stored, empty = _empty_tapes(backward, plan.length, {counting})
    one = full((), 1, INDEX)

    def all_carries(state: Sequence[Tensor]) -> list[Tensor]:
        """All carries of the loop, for the carries in `state`."""
        by_carry = dict(zip(carries, state, strict=True))
        return [by_carry.get(i, init) for i, init in enumerate(inits)]  # the other carries are not read

    def advance(state: Sequence[Tensor], first: Tensor, stop: Tensor) -> list[Tensor]:
        """The state at iteration `stop`, from that at iteration `first`."""
        end = _forward_loop(op, all_carries(state), first, stop, None, [], [])[0]
        return [end[i] for i in carries]

    def pull_piece(state: Sequence[Tensor], first: Tensor, stop: Tensor, cts: Sequence[Tensor]) -> list[Tensor]:
        """The cotangents at iteration `first`, from those at iteration `stop`; runs the piece forward from `state` to fill the
        tapes.
        """
        # The tapes have rows only for this piece: row 0 is iteration `first`.
        _, _, tapes = _forward_loop(op, all_carries(state), index=first, stop=stop, offset=first, stored=stored, tapes=empty)

        def known_at(i: Tensor) -> dict[ir.Value, Tensor]:
            """The values of the forward loop at iteration `i`: rows of the tapes of this piece, and the counter."""
            row = subtract(i, first)
            values = {v: read_row(tape, row) for v, tape in zip(stored, tapes, strict=True)}
            values[counting] = count_at(i, counter, wrap(counting).dtype)
            return values

        return _backward_loop(backward, cts, subtract(stop, one), first, known_at)

    results = run_plan(plan, [inits[i] for i in carries], cts, advance, pull_piece)
    backward.holder.erase()
    return results


def _row_bytes(backward: Backward, others: set[ir.Value]) -> int:
    """The bytes that the tapes need for one iteration, without tapes of `others`."""
    return sum(bytes_of(v) for v in dict.fromkeys(backward.stored.values()) if v not in others)


def _uncounted(op: ir.Operation, backward: Backward, seeds: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Emits the backward loop of a loop whose number of iterations is known only at run time; returns the results of both loops.

    The tapes hold LOOP_CHUNK iterations. A loop of up to LOOP_CHUNK iterations runs forward twice. A longer one is restarted for
    each chunk: memory stays bounded, and the extra work grows with (trips / LOOP_CHUNK) ** 2. Chunks are shorter if LOOP_CHUNK
    iterations do not fit into LOOP_MEMORY, or into the user's bound. `seeds` are the cotangents of the active results.
    """
    sums = [zeros(wrap(v)) for v in backward.sums]
    zero, one = full((), 0, INDEX), full((), 1, INDEX)
    with ir.InsertionPoint(op):
        inits = [wrap(v) for v in op.operands]
        state, trips, _ = _forward_loop(op, inits, full((), 0, INDEX), None, None, [], [])
    length, row = thresholds.LOOP_CHUNK, _row_bytes(backward, set())
    bound = residual_bound(op)
    if bound is None:
        bound = thresholds.LOOP_MEMORY
    if length * row > bound:
        length = max(1, bound // row)
    chunk = full((), length, INDEX)
    stored, empty = _empty_tapes(backward, length, set())

    def back_chunk(carry: list[Tensor]) -> list[Tensor]:
        """Runs forward to the first iteration of a chunk, stores the chunk, pulls back through it, and goes to the one before."""
        first, cts = carry[0], carry[1:]  # first: the first iteration of the chunk
        start, _, _ = _forward_loop(op, inits, zero, first, None, [], [])
        stop = minimum(add(first, chunk), trips)
        _, _, tapes = _forward_loop(op, start, first, stop, first, stored, empty)

        def known_at(i: Tensor) -> dict[ir.Value, Tensor]:
            row = subtract(i, first)
            return {v: read_row(tape, row) for v, tape in zip(stored, tapes, strict=True)}

        results = _backward_loop(backward, cts, subtract(stop, one), first, known_at)
        return [subtract(first, chunk), *results]

    last_chunk = multiply(divide(subtract(trips, one), chunk), chunk)
    inits_back = [last_chunk, *seeds, *sums]
    _, *results = emit_while(inits_back, lambda carry: compare(carry[0], zero, comparison_direction="GE"), back_chunk)
    # A loop that ran no iteration has nothing to pull back; the start of its last chunk is 0, too.
    ran = compare(trips, zero, comparison_direction="GT")
    results = [select(ran, r, s) for r, s in zip(results, [*seeds, *sums], strict=True)]
    backward.holder.erase()
    return results, state
