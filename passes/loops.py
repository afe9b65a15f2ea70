"""What a loop carries in vain: values that nothing reads in the end, and values that always equal another one."""

from __future__ import annotations

from collections.abc import Callable

from iree.compiler import ir

from nabla_mlir.dialects.regions import nested

WHILE = "stablehlo.while"


def trim_carries(op: ir.Operation, is_pure: Callable[[ir.Operation], bool]) -> ir.Operation:
    """The loop without the carries that nothing needs; the operation itself if all are needed.

    What was computed only for them is dead in the new body.
    """
    _merge_twins(op)
    live = _live(op, is_pure)
    if len(live) == len(op.results):
        return op
    condition, body = (region.blocks[0] for region in op.regions)
    results, operands = list(op.results), list(op.operands)
    with ir.InsertionPoint(op), op.location:
        new = ir.Operation.create(
            WHILE, [results[i].type for i in live], [operands[i] for i in live],
            {a.name: a.attr for a in _named(op)}, regions=2,
        )  # fmt: skip
    condition.append_to(new.regions[0])
    body.append_to(new.regions[1])
    terminator = body.operations[len(body.operations) - 1].operation
    with ir.InsertionPoint(terminator), terminator.location:
        ir.Operation.create("stablehlo.return", operands=[terminator.operands[i] for i in live])
    terminator.erase()
    for new_result, i in zip(new.results, live, strict=True):
        results[i].replace_all_uses_with(new_result)
    op.erase()
    condition, body = (region.blocks[0] for region in new.regions)
    _erase_for_dead(body, set(range(len(results))) - set(live))
    for block in (condition, body):
        for i in reversed(range(len(results))):
            if i not in live:
                block.erase_argument(i)
    return new


def _named(op: ir.Operation) -> list[ir.NamedAttribute]:
    return [op.attributes[i] for i in range(len(op.attributes))]


def _erase_for_dead(body: ir.Block, dead: set[int]) -> None:
    """Erases what depends on dead carries: by construction nothing else reads it."""
    depends = _dependences(body)
    for op in reversed([o.operation for o in body.operations]):
        if any(depends.get(r, set()) & dead for r in op.results):
            op.erase()


def _dependences(body: ir.Block) -> dict[ir.Value, set[int]]:
    """For each value of the body, the carries it is computed from."""
    depends = {argument: {i} for i, argument in enumerate(body.arguments)}
    for op in body.operations:
        read = [v for inner in (op.operation, *nested(op.operation)) for v in inner.operands]
        union = set().union(*(depends.get(v, set()) for v in read))
        depends.update(dict.fromkeys(op.operation.results, union))
    return depends


def _live(op: ir.Operation, is_pure: Callable[[ir.Operation], bool]) -> list[int]:
    condition, body = (region.blocks[0] for region in op.regions)
    depends = _dependences(body)
    returned = list(body.operations[len(body.operations) - 1].operands)
    pending = [i for i, r in enumerate(op.results) if _is_used(r) or _is_used(condition.arguments[i])]
    for inner in list(body.operations)[:-1]:
        if not is_pure(inner.operation):
            read = [v for o in (inner.operation, *nested(inner.operation)) for v in o.operands]
            pending += set().union(*(depends.get(v, set()) for v in read))
    live: set[int] = set()
    while pending:
        i = pending.pop()
        if i not in live:
            live.add(i)
            pending += depends.get(returned[i], set())
    return sorted(live)


def _is_used(value: ir.Value) -> bool:
    return next(iter(value.uses), None) is not None


def _merge_twins(op: ir.Operation) -> None:
    """Two carries that start equal and are stepped alike (counters of two derivatives) become one."""
    condition, body = (region.blocks[0] for region in op.regions)
    inits, steps = list(op.operands), list(body.operations[len(body.operations) - 1].operands)
    for j in range(len(inits)):
        for i in range(j):
            if inits[i] == inits[j] and _alike(steps[i], steps[j], body.arguments[i], body.arguments[j]):
                for twin, kept in ((body.arguments[j], body.arguments[i]), (op.results[j], op.results[i]),
                                   (condition.arguments[j], condition.arguments[i])):  # fmt: skip
                    twin.replace_all_uses_with(kept)
                break


def _alike(a: ir.Value, b: ir.Value, x: ir.Value, y: ir.Value) -> bool:
    """True if `b` is what `a` is, with `y` for `x`."""
    if a == b:
        return True
    one, other = a.owner, b.owner
    if isinstance(one, ir.Block) or isinstance(other, ir.Block):
        return (a, b) == (x, y)
    one, other = one.operation, other.operation
    return (
        one.name == other.name
        and not len(one.regions)
        and len(one.results) == 1
        and str(one.attributes) == str(other.attributes)
        and a.type == b.type
        and len(one.operands) == len(other.operands)
        and all(
            u == v or (u, v) == (x, y) or _same_constant(u, v)
            for u, v in zip(one.operands, other.operands, strict=True)
        )
    )


def _same_constant(a: ir.Value, b: ir.Value) -> bool:
    owners = [v.owner for v in (a, b)]
    if any(isinstance(owner, ir.Block) for owner in owners):
        return False
    one, other = (owner.operation for owner in owners)
    return one.name == other.name == "stablehlo.constant" and one.attributes["value"] == other.attributes["value"]
