"""Building and reading the regions of control flow: blocks, captures, loops."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from iree.compiler import ir

from nabla_mlir.dialects import stablehlo
from nabla_mlir.dialects.regions import made_by, scratch
from nabla_mlir.dialects.types import is_differentiable, shape_and_dtype
from nabla_mlir.table.registry import REGISTRY, OpDef, clone_op, missing_rule
from nabla_mlir.table.rules import Zero
from nabla_mlir.table.tensor import Tensor, current_scope, set_scope, wrap

T = TypeVar("T")
Fill = Callable[[list[Tensor]], Sequence[Tensor]]


def body_of(region: ir.Region) -> tuple[list[ir.Value], list[ir.Operation], list[ir.Value]]:
    """The arguments, operations and returned values of a region with one block."""
    block = region.blocks[0]
    ops = [op.operation for op in block.operations]
    return list(block.arguments), ops[:-1], list(ops[-1].operands)


def ends_of(region: ir.Region) -> tuple[list[ir.Value], list[ir.Value]]:
    """The arguments and returned values of a region with one block; cheaper than `body_of`."""
    block = region.blocks[0]
    return list(block.arguments), list(block.operations[len(block.operations) - 1].operation.operands)


def captures_of(op: ir.Operation) -> list[ir.Value]:
    """The values from outside that the regions of an operation read, without duplicates, in order of appearance."""
    inside: set[ir.Value] = set()
    captures: dict[ir.Value, None] = {}
    for region in op.regions:
        _collect(region, inside, captures)
    return list(captures)


def _collect(region: ir.Region, inside: set[ir.Value], captures: dict[ir.Value, None]) -> None:
    """Adds to `captures` the values from outside that a region reads, and to `inside` the values that the region defines."""
    for block in region.blocks:
        inside.update(block.arguments)
        for op in block.operations:
            operation = op.operation
            for value in operation.operands:
                if value not in inside:
                    captures[value] = None
            if len(operation.regions):
                for inner in operation.regions:
                    _collect(inner, inside, captures)
            inside.update(operation.results)


def captures_by_rule(op: ir.Operation, record: OpDef) -> list[ir.Value]:
    """The values from outside, read in the regions of `op`, on which its results depend differentiably: those of comparators are
    left out.

    `record` is the operation's entry in the table.
    """
    if not len(op.regions):
        return []
    inside: set[ir.Value] = set()
    captures: dict[ir.Value, None] = {}
    comparators = [i for i, name in enumerate(record.regions) if name in record.comparators]
    for i, region in enumerate(op.regions):
        if i not in comparators:
            _collect(region, inside, captures)
    return list(captures)


def decomposed(op: ir.Operation, record: OpDef, transform: str) -> list[Tensor]:
    """Emits the decomposition of an operation into operations without regions; returns its results.

    `transform` is "vmap", "jvp", "vjp" or "jet", for the error.

    Raises:
      RuleMissingError: its record has no decomposition.
    """
    if record.decomposition is None:
        how = "varies over the mapped axis" if transform == "vmap" else "is differentiated"
        raise missing_rule(op, transform, f"its region uses a value from outside that {how}")
    return record.decomposition([wrap(v) for v in op.operands], **record.read(op))


def reads_of(op: ir.Operation) -> list[ir.Value]:
    """All values that an operation reads: its operands and the captures of its regions."""
    return [*op.operands, *captures_of(op)] if len(op.regions) else list(op.operands)


def may_vary(value: ir.Value) -> bool:
    """True if the value may depend, through floating-point values, on an argument of a block: a derivative may then reach it."""
    seen: set[ir.Value] = set()
    stack = [value]
    while stack:
        value = stack.pop()
        if value in seen or not is_differentiable(shape_and_dtype(value.type)[1]):
            continue
        seen.add(value)
        op = made_by(value)
        if op is None:
            return True
        record = REGISTRY.get(op.name)
        stack.extend([] if record is not None and isinstance(record.jvp, Zero) else reads_of(op))
    return False


def dependents(ops: Iterable[ir.Operation], roots: Iterable[ir.Value]) -> set[ir.Value]:
    """The values that depend on `roots` through the operations `ops`, including `roots`.

    Of a loop or a branch, only those results are included that depend on `roots`.
    """
    values = set(roots)
    for op in ops:
        if any(v in values for v in reads_of(op)):
            values.update(_dependent_results(op, values))
    return values


def _dependent_results(op: ir.Operation, values: set[ir.Value]) -> Iterable[ir.Value]:
    """The results that may depend on `values`; for loops and branches, result by result."""
    results = list(op.results)
    if op.name == "stablehlo.while":
        return _dependent_carries(op, values)
    if op.name not in ("stablehlo.if", "stablehlo.case", "ad.checkpoint") or any(v in values for v in op.operands):
        return results
    regions = [body_of(region) for region in op.regions]
    inside = [dependents(ops, values) for _, ops, _ in regions]
    return [r for i, r in enumerate(results) if any(outs[i] in seen for (_, _, outs), seen in zip(regions, inside, strict=True))]


def _dependent_carries(op: ir.Operation, values: set[ir.Value]) -> Iterable[ir.Value]:
    """The results of a loop that depend on `values`; all results, if the number of iterations depends on them."""
    state, test, (goes_on,) = body_of(op.regions[0])
    carried, ops, outs = body_of(op.regions[1])

    def iterate(found: list[bool]) -> list[bool]:
        """The flags `found` for the carries that depend on `values`, after one more iteration of the loop."""
        roots = lambda arguments: {*values, *(a for a, f in zip(arguments, found, strict=True) if f)}  # noqa: E731
        if goes_on in dependents(test, roots(state)):
            return [True] * len(found)
        seen = dependents(ops, roots(carried))
        return [f or out in seen for f, out in zip(found, outs, strict=True)]

    found = fixed_point([v in values for v in op.operands], iterate)
    return [r for r, f in zip(op.results, found, strict=True) if f]


def fixed_point(state: T, iterate: Callable[[T], T], same: Callable[[T, T], bool] = operator.eq) -> T:
    """The first of state, iterate(state), iterate(iterate(state)), ... that another iteration does not change.

    This finds facts about the carries of a loop: `iterate` gets facts about the arguments of the body, and returns the facts
    about its results.

    Args:
      state: the first state.
      iterate: a function from a state to the next.
      same: compares two states.

    Example:
      >>> fixed_point({0}, lambda found: found | {min(i + 1, 3) for i in found})
      {0, 1, 2, 3}
    """
    while not same(state, new := iterate(state)):
        state = new
    return new


def fill(region: ir.Region, types: Sequence[ir.Type], make: Fill) -> list[Tensor]:
    """Gives an empty region its block; returns the values that the block returns.

    Args:
      region: the region.
      types: the types of the arguments of the block.
      make: a function from the arguments to the returned values, which emits the operations.
    """
    block = ir.Block.create_at_start(region, list(types), [ir.Location.unknown()] * len(types))
    scope = current_scope()
    with ir.InsertionPoint(block):
        set_scope(None)
        try:
            outs = list(make([Tensor(a) for a in block.arguments]))
        finally:
            set_scope(scope)
        stablehlo.emit("stablehlo.return", [out.value for out in outs], results=[])
    return outs


MAX_RESIDUAL_BYTES = "ad.max_residual_bytes"  # the attribute of a loop: how many bytes reverse mode may store for it


def emit_while(
    inits: Sequence[Tensor], condition: Callable[[list[Tensor]], Tensor], body: Fill, like: ir.Operation | None = None
) -> list[Tensor]:
    """Emits ``while condition(carry): carry = body(carry)`` and returns the last carry.

    Args:
      inits: the first carry.
      condition: a function from the carry to a scalar truth value.
      body: a function from the carry to the next carry.
      like: the loop from which this one is made; its bound on memory is copied.
    """
    types = [x.value.type for x in inits]
    attributes = bound_of(like) if like is not None else {}
    op = stablehlo.emit("stablehlo.while", [x.value for x in inits], results=types, attributes=attributes, regions=2)
    fill(op.regions[0], types, lambda carry: [condition(carry)])
    fill(op.regions[1], types, body)
    return [wrap(r) for r in op.results]


def bound_of(op: ir.Operation) -> dict[str, ir.Attribute]:
    """The attribute that bounds the memory of a loop, as a dict; empty if the loop has none."""
    return {MAX_RESIDUAL_BYTES: op.attributes[MAX_RESIDUAL_BYTES]} if MAX_RESIDUAL_BYTES in op.attributes else {}


def emit_case(index: Tensor, branches: Sequence[Callable[[], Sequence[Tensor]]]) -> list[Tensor]:
    """The results of a choice between branches, which is emitted.

    It is a `stablehlo.if` for a truth value as index, whose first branch is that for True, and a `stablehlo.case` for an integer.
    The branches emit their operations and return results.
    """
    name = "stablehlo.if" if index.dtype.kind == "b" else "stablehlo.case"
    # The first branch is emitted into a scratch operation, because the result types are its types.
    with scratch(len(branches)) as holder:
        outs = []
        for region, branch in zip(holder.regions, branches, strict=True):
            outs.append(fill(region, [], lambda _, b=branch: b()))  # type: ignore[misc]  # mypy has no type for `b`
        op = stablehlo.emit(name, [index.value], results=[o.value.type for o in outs[0]], regions=len(branches))
        for old, new in zip(holder.regions, op.regions, strict=True):
            old.blocks[0].append_to(new)
    return [wrap(r) for r in op.results]


def clone_body(ops: Iterable[ir.Operation], mapping: dict[ir.Value, ir.Value]) -> list[ir.Operation]:
    """Clones operations at the insertion point; `mapping` replaces values, and the results are added to it."""
    return [clone_op(op, mapping) for op in ops]


def emit_call(func: ir.Operation, arguments: Sequence[Tensor]) -> list[Tensor]:
    """Emits a copy of the body of the function `func` on `arguments` at the insertion point; returns its results."""
    block = func.regions[0].blocks[0]
    mapping = {a: x.value for a, x in zip(block.arguments, arguments, strict=True)}
    *ops, terminator = (op.operation for op in block.operations)
    clone_body(ops, mapping)
    return [wrap(mapping[v]) for v in terminator.operands]


Replacements = dict[ir.Value, ir.Value]  # from the result of a replaced operation to the value that replaces it


def substitute(op: ir.Operation, values: Sequence[Tensor]) -> Replacements:
    """Replaces an operation by `values`, unless these are its own results; returns a map from old results to new values."""
    replacements = {old: new.value for old, new in zip(op.results, values, strict=True) if old != new.value}
    if replacements:
        replace(op, values)
    return replacements


def replace(op: ir.Operation, results: Sequence[Tensor]) -> None:
    """Replaces the results of an operation by `results`, and erases the operation."""
    for old, new in zip(op.results, results, strict=True):
        old.replace_all_uses_with(new.value)
    op.erase()
