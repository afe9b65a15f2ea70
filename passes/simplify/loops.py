"""Simplification of loops: drops carries that are invariant, dead or equal, and moves work before the loop."""

from __future__ import annotations

from iree.compiler import ir

from nabla_mlir.base.errors import PassError
from nabla_mlir.dialects.locations import source_of
from nabla_mlir.dialects.regions import made_by
from nabla_mlir.dialects.stablehlo import constant_attribute
from nabla_mlir.passes.dce import is_unused
from nabla_mlir.passes.simplify.loop_tapes import read_from_outside, shift_tapes
from nabla_mlir.rules.loops import carries_behind
from nabla_mlir.table.regions import body_of, bound_of, ends_of, reads_of
from nabla_mlir.table.traits import is_long


def simplify_loop(op: ir.Operation) -> ir.Operation | None:
    """Simplifies one `stablehlo.while`; returns the new loop, or None if nothing changed."""
    _check_end(op)
    # All three run: `or` would stop at the first change.
    change = _hoist_expensive(op) | shift_tapes(op) | read_from_outside(op)
    dead = _replace_invariants(op) | _merge_equals(op)
    dead |= _dead_carries(op, dead)
    if dead:
        return _without(op, dead)
    return op if change else None


def _check_end(op: ir.Operation) -> None:
    """Refuses a loop whose iterations change no value that the condition reads: it has no iterations, or infinitely many.

    Without its invariant carries it would be dead code, and a loop that never ends would return its initial values.
    """
    arguments, outputs = ends_of(op.regions[1])
    tests = op.regions[0].blocks[0].arguments
    if all(is_unused(test) or value == argument for test, argument, value in zip(tests, arguments, outputs, strict=True)):
        raise PassError(
            "while_loop requires a body that changes what the condition reads, got a condition that stays as it is.",
            where=source_of(op.location),
            help="such a loop has no iterations or never ends.",
        )


def _replace_invariants(op: ir.Operation) -> set[int]:
    """Replaces each carry that the body returns unchanged by its initial value; returns the indices of these carries."""
    arguments, outputs = ends_of(op.regions[1])
    tests = op.regions[0].blocks[0].arguments
    equal = set()
    for i, (argument, value) in enumerate(zip(arguments, outputs, strict=True)):
        if value == argument:
            init = op.operands[i]
            argument.replace_all_uses_with(init)
            tests[i].replace_all_uses_with(init)
            op.results[i].replace_all_uses_with(init)
            equal.add(i)
    return equal


def _merge_equals(op: ir.Operation) -> set[int]:
    """Replaces a carry by an earlier one with an equal initial value and an equal update; returns the indices of such carries.

    By induction over the iterations, the two carries are equal.
    """
    arguments, outputs = ends_of(op.regions[1])
    tests = op.regions[0].blocks[0].arguments
    inits = list(op.operands)
    equal: set[int] = set()
    for j in range(1, len(inits)):
        for i in range(j):
            if i in equal or inits[i] != inits[j] or outputs[i] == arguments[i]:
                continue
            if _is_same(outputs[i], outputs[j], {(arguments[i], arguments[j])}, {}):
                arguments[j].replace_all_uses_with(arguments[i])
                tests[j].replace_all_uses_with(tests[i])
                op.results[j].replace_all_uses_with(op.results[i])
                equal.add(j)
                break
    return equal


def _is_same(a: ir.Value, b: ir.Value, pairs: set[tuple[ir.Value, ir.Value]], answers: dict[object, bool]) -> bool:
    """True if a and b are computed by the same operations from the same values.

    Args:
      a: a value.
      b: another value.
      pairs: pairs of values that are assumed to be equal.
      answers: the answers so far by pair of values; the function adds to them.
    """
    if a == b or (a, b) in pairs:
        return True
    if (a, b) in answers:
        return answers[a, b]
    left, right = (made_by(v) for v in (a, b))
    equal = (
        left is not None
        and right is not None
        and left.name == right.name
        and not len(left.regions)
        and not len(right.regions)
        and left.results[0].type == right.results[0].type
        and list(left.results).index(a) == list(right.results).index(b)
        and _has_equal_attributes(left, right)
        and len(left.operands) == len(right.operands)
        and all(_is_same(x, y, pairs, answers) for x, y in zip(left.operands, right.operands, strict=True))
    )
    answers[a, b] = equal
    return equal


def _has_equal_attributes(left: ir.Operation, right: ir.Operation) -> bool:
    """True if two operations have equal attributes; complex constants are compared by number, since the bindings cannot."""
    if left.name == "stablehlo.constant":
        return constant_attribute(left) == constant_attribute(right)
    return {n: left.attributes[n] for n in left.attributes} == {n: right.attributes[n] for n in right.attributes}


def _dead_carries(op: ir.Operation, dead: set[int]) -> set[int]:
    """The carries that reach neither a used result nor the condition, without those in `dead`."""
    arguments, outputs = ends_of(op.regions[1])
    tests, predicate = ends_of(op.regions[0])
    live = {i for i, r in enumerate(op.results) if not is_unused(r)}
    live |= {i for i, t in enumerate(tests) if t in predicate or not is_unused(t)}
    live |= carries_behind(op, [outputs[i] for i in live])
    return {i for i in range(len(arguments)) if i not in live and i not in dead}


def _without(op: ir.Operation, dead: set[int]) -> ir.Operation:
    """Replaces the loop by one without the carries `dead`, which only dead carries read."""
    live = [i for i in range(len(op.operands)) if i not in dead]
    operands, types = [op.operands[i] for i in live], [op.results[i].type for i in live]
    with op.location, ir.InsertionPoint(op):
        new = ir.Operation.create("stablehlo.while", operands=operands, results=types, attributes=bound_of(op), regions=2)
    body = op.regions[1].blocks[0]
    terminator = body.operations[len(body.operations) - 1].operation
    with terminator.location, ir.InsertionPoint(terminator):
        ir.Operation.create("stablehlo.return", operands=[terminator.operands[i] for i in live])
    terminator.erase()
    _erase_unused(body)
    for old, target in zip(op.regions, new.regions, strict=True):
        block = old.blocks[0]
        for i in sorted(dead, reverse=True):
            block.erase_argument(i)
        block.append_to(target)
    for k, i in enumerate(live):
        op.results[i].replace_all_uses_with(new.results[k])
    op.erase()
    return new


def _erase_unused(block: ir.Block) -> None:
    """Erases the operations of a block whose results nothing reads, from last to first."""
    for op in reversed([o.operation for o in block.operations]):
        if len(op.results) and all(is_unused(r) for r in op.results):
            op.erase()


def _hoist_expensive(op: ir.Operation) -> bool:
    """Moves expensive operations that do not change between iterations before the loop, with the operations of their operands.

    Returns True if there is one.
    """
    arguments, ops, _ = body_of(op.regions[1])
    varying = set(arguments)
    makers: dict[ir.Value, ir.Operation] = {}
    expensive = []
    for inner in ops:
        if any(v in varying for v in reads_of(inner)):
            varying.update(inner.results)
            continue
        makers.update((r, inner) for r in inner.results)
        if is_long(inner):
            expensive.append(inner)
    moved: set[ir.Operation] = set()

    def move(inner: ir.Operation) -> None:
        """Moves an operation before the loop, after the operations of its operands."""
        if inner in moved:
            return
        moved.add(inner)
        for value in reads_of(inner):
            if value in makers:
                move(makers[value])
        inner.move_before(op)

    for inner in expensive:
        move(inner)
    return bool(expensive)
