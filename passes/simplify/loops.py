"""Simplification of loops: carries that do not change, that nobody needs, or that are equal; work that can go before."""

from __future__ import annotations

from iree.compiler import ir

from nabla_mlir.dialects.regions import made_by
from nabla_mlir.passes.dce import is_unused
from nabla_mlir.passes.simplify.loop_tapes import read_from_outside, shift_tapes
from nabla_mlir.rules.loops import carries_behind
from nabla_mlir.table.regions import body_of, bound_of, ends_of, reads_of
from nabla_mlir.table.traits import is_long


def simplify_loop(op: ir.Operation) -> ir.Operation | None:
    """Simplifies one `stablehlo.while`; returns what it is now, or None if nothing changed."""
    changed = _hoist_expensive(op) | shift_tapes(op) | read_from_outside(op)
    dropped = _shared_invariants(op) | _merged_equals(op)
    dropped |= _dead(op, dropped)
    if dropped:
        return _without(op, dropped)
    return op if changed else None


def _shared_invariants(op: ir.Operation) -> set[int]:
    """A carry that the body hands on as it is needs no carrying: its initial value is used from outside."""
    arguments, returned = ends_of(op.regions[1])
    tests = op.regions[0].blocks[0].arguments
    found = set()
    for i, (argument, value) in enumerate(zip(arguments, returned, strict=True)):
        if value == argument:
            init = op.operands[i]
            argument.replace_all_uses_with(init)
            tests[i].replace_all_uses_with(init)
            op.results[i].replace_all_uses_with(init)
            found.add(i)
    return found


def _merged_equals(op: ir.Operation) -> set[int]:
    """Two carries that start equal and change equally are one (by induction over the iterations)."""
    arguments, returned = ends_of(op.regions[1])
    tests = op.regions[0].blocks[0].arguments
    inits = list(op.operands)
    dropped: set[int] = set()
    for j in range(1, len(inits)):
        for i in range(j):
            if i in dropped or inits[i] != inits[j] or returned[i] == arguments[i]:
                continue
            if _same(returned[i], returned[j], {(arguments[i], arguments[j])}, {}):
                arguments[j].replace_all_uses_with(arguments[i])
                tests[j].replace_all_uses_with(tests[i])
                op.results[j].replace_all_uses_with(op.results[i])
                dropped.add(j)
                break
    return dropped


def _same(a: ir.Value, b: ir.Value, assumed: set[tuple[ir.Value, ir.Value]], known: dict[object, bool]) -> bool:
    """True if a and b are computed alike from the same values, given the assumed equalities."""
    if a == b or (a, b) in assumed:
        return True
    if (a, b) in known:
        return known[a, b]
    left, right = (made_by(v) for v in (a, b))
    equal = (
        left is not None
        and right is not None
        and left.name == right.name
        and not len(left.regions)
        and not len(right.regions)
        and left.results[0].type == right.results[0].type
        and list(left.results).index(a) == list(right.results).index(b)
        and {n: left.attributes[n] for n in left.attributes} == {n: right.attributes[n] for n in right.attributes}
        and len(left.operands) == len(right.operands)
        and all(_same(x, y, assumed, known) for x, y in zip(left.operands, right.operands, strict=True))
    )
    known[a, b] = equal
    return equal


def _dead(op: ir.Operation, dropped: set[int]) -> set[int]:
    """The carries that reach neither a used result nor the condition."""
    arguments, returned = ends_of(op.regions[1])
    tests, predicate = ends_of(op.regions[0])
    live = {i for i, r in enumerate(op.results) if not is_unused(r)}
    live |= {i for i, t in enumerate(tests) if t in predicate or not is_unused(t)}
    live |= carries_behind(op, [returned[i] for i in live])
    return {i for i in range(len(arguments)) if i not in live and i not in dropped}


def _without(op: ir.Operation, dropped: set[int]) -> ir.Operation:
    """Replaces the loop by one without some carries, which nothing reads any more but each other."""
    kept = [i for i in range(len(op.operands)) if i not in dropped]
    operands, types = [op.operands[i] for i in kept], [op.results[i].type for i in kept]
    with op.location, ir.InsertionPoint(op):
        new = ir.Operation.create(
            "stablehlo.while", operands=operands, results=types, attributes=bound_of(op), regions=2
        )
    body = op.regions[1].blocks[0]
    terminator = body.operations[len(body.operations) - 1].operation
    with terminator.location, ir.InsertionPoint(terminator):
        ir.Operation.create("stablehlo.return", operands=[terminator.operands[i] for i in kept])
    terminator.erase()
    _erase_readers(body)
    for old, target in zip(op.regions, new.regions, strict=True):
        block = old.blocks[0]
        for i in sorted(dropped, reverse=True):
            block.erase_argument(i)
        block.append_to(target)
    for k, i in enumerate(kept):
        op.results[i].replace_all_uses_with(new.results[k])
    op.erase()
    return new


def _erase_readers(block: ir.Block) -> None:
    for op in reversed([o.operation for o in block.operations]):
        if len(op.results) and all(is_unused(r) for r in op.results):
            op.erase()


def _hoist_expensive(op: ir.Operation) -> bool:
    """Moves expensive operations that are the same in every iteration before the loop, with what they need."""
    arguments, ops, _ = body_of(op.regions[1])
    varying = set(arguments)
    fixed: dict[ir.Value, ir.Operation] = {}
    expensive = []
    for inner in ops:
        if any(v in varying for v in reads_of(inner)):
            varying.update(inner.results)
            continue
        fixed.update((r, inner) for r in inner.results)
        if is_long(inner):
            expensive.append(inner)
    moved: set[ir.Operation] = set()

    def move(inner: ir.Operation) -> None:
        if inner in moved:
            return
        moved.add(inner)
        for value in reads_of(inner):
            if value in fixed:
                move(fixed[value])
        inner.move_before(op)

    for inner in expensive:
        move(inner)
    return bool(expensive)
