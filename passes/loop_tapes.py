"""Rewrites of what loops store and sum: tapes that others hold already, and products that are summed after the loop.

A tape is a carry of which every iteration writes one row, at its counter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects.types import shape_and_dtype, tensor_type
from nabla_mlir.ops.contraction import dot_general
from nabla_mlir.ops.elementwise import add
from nabla_mlir.ops.loops import Counter, find_counter
from nabla_mlir.ops.regions import MAX_RESIDUAL_BYTES, body_of, bound_of
from nabla_mlir.ops.registry import REGISTRY
from nabla_mlir.ops.shape import concatenate, dynamic_update_slice, reshape, slice_
from nabla_mlir.ops.tensor import Tensor, full, splat_of, wrap
from nabla_mlir.passes.dce import is_unused
from nabla_mlir.passes.patterns import has_one_use, owner

MAX_STACKED_BYTES = 1 << 26  # beyond, stacking the operands of products costs more memory than the loop is worth


@dataclass(frozen=True)
class _Tape:
    carry: int
    row: ir.Value  # what an iteration writes


def shift_tapes(op: ir.Operation) -> bool:
    """Drops a tape of what a carry was before each iteration where another one holds what it is after it.

    Its rows are the initial value and all rows of the other but the last.
    """
    counter = find_counter(op)
    if counter is None or counter.trips < 2 or not _counts_rows(counter):
        return False
    arguments, _, returned = body_of(op.regions[1])
    tapes = [t for i in range(len(arguments)) if (t := _tape(op, i, counter)) is not None]
    changed = False
    for before in tapes:
        if before.row not in arguments or is_unused(op.results[before.carry]):
            continue
        source = arguments.index(before.row)
        after = next((t for t in tapes if t.row == returned[source] and t.carry != before.carry), None)
        if after is None:
            continue
        with ir.InsertionPoint.after(op), op.location:
            rows, first = wrap(op.results[after.carry]), wrap(op.operands[source])
            first = reshape(first, shape=(1, *first.shape))
            earlier, later = (first, _rows(rows, 0, -1)) if counter.step > 0 else (_rows(rows, 1, None), first)
            shifted = concatenate(earlier, later, dimension=0)
        op.results[before.carry].replace_all_uses_with(shifted.value)
        changed = True
    return changed


def _rows(x: Tensor, start: int, stop: int | None) -> Tensor:
    limits = (range(x.shape[0])[start:stop].stop, *x.shape[1:])
    return slice_(x, start_indices=(start, *[0] * (x.ndim - 1)), limit_indices=limits, strides=(1,) * x.ndim)


def _counts_rows(counter: Counter) -> bool:
    """True if the counter takes the values 0 ... trips - 1, in either direction."""
    return (counter.start, counter.step) in ((0, 1), (counter.trips - 1, -1))


def _tape(op: ir.Operation, carry: int, counter: Counter) -> _Tape | None:
    """The tape that a carry is, if every row of it is written."""
    arguments, _, returned = body_of(op.regions[1])
    update = owner(wrap(returned[carry]))
    if update is None or update.name != "stablehlo.dynamic_update_slice":
        return None
    rows, row, index, *rest = list(update.operands)
    shape = shape_and_dtype(rows.type)[0]
    whole_row = shape_and_dtype(row.type)[0] == (1, *shape[1:]) and all(splat_of(wrap(i)) == 0 for i in rest)
    if rows != arguments[carry] or index != arguments[counter.carry] or not whole_row or shape[0] != counter.trips:
        return None
    made_by = owner(wrap(row))
    value = made_by.operands[0] if made_by is not None and made_by.name == "stablehlo.reshape" else row
    if shape_and_dtype(value.type)[0] != shape[1:] or not has_one_use(wrap(arguments[carry])):
        return None
    return _Tape(carry, value)


# ---------------------------------------------------------------- products summed in a loop


def stack_products(op: ir.Operation) -> bool:
    """Sums products after the loop: ``total += a_i b_i`` becomes one product over all rows of a and b.

    Rows that are read from a tape are there already; others are written to one. Left alone where a bound on the
    memory of the loop is given, or where the tapes would be large.
    """
    counter = find_counter(op)
    if counter is None or counter.trips < 2 or not _counts_rows(counter) or MAX_RESIDUAL_BYTES in op.attributes:
        return False
    arguments, _, returned = body_of(op.regions[1])
    totals: dict[int, list[ir.Operation]] = {}
    for i, argument in enumerate(arguments):
        products = _summed(returned[i], argument)
        chosen = [p for p in products or [] if _stackable(p, op, counter)]
        if chosen and has_one_use(wrap(argument)):
            totals[i] = chosen
    if not totals:
        return False
    _stack(op, counter, totals)
    return True


def _summed(total: ir.Value, carry: ir.Value) -> list[ir.Operation] | None:
    """The products that a sum of terms adds to `carry`; None if it is no such sum."""
    terms, work = [], [total]
    while work:
        value = work.pop()
        made_by = owner(wrap(value))
        if made_by is not None and made_by.name == "stablehlo.add" and has_one_use(wrap(value)):
            work += list(made_by.operands)
        else:
            terms.append(value)
    if terms.count(carry) != 1:
        return None
    owners = [owner(wrap(t)) for t in terms if has_one_use(wrap(t))]
    return [o for o in owners if o is not None and o.name == "stablehlo.dot_general"]


def _stackable(product: ir.Operation, op: ir.Operation, counter: Counter) -> bool:
    dims = REGISTRY[product.name].read(product)["dot_dimension_numbers"]
    inside = _inside(op)
    stored = [v for v in product.operands if _tape_read(v, op, counter) is None]
    size = sum(int(np.prod((counter.trips, *x.shape))) * x.dtype.itemsize for x in map(wrap, stored))
    return (
        not dims["lhs_batching_dimensions"]
        and all(v in inside for v in product.operands)
        and size <= MAX_STACKED_BYTES
    )


def _inside(op: ir.Operation) -> set[ir.Value]:
    """The values that an iteration computes or is given."""
    arguments, ops, _ = body_of(op.regions[1])
    return {*arguments, *(r for o in ops for r in o.results)}


def _tape_read(value: ir.Value, op: ir.Operation, counter: Counter) -> ir.Value | None:
    """The tape outside the loop whose row at the counter `value` is."""
    made_by = owner(wrap(value))
    if made_by is not None and made_by.name == "stablehlo.reshape":
        made_by = owner(wrap(made_by.operands[0]))
    if made_by is None or made_by.name != "stablehlo.dynamic_slice":
        return None
    rows, index, *rest = list(made_by.operands)
    shape = shape_and_dtype(rows.type)[0]
    sizes = shape_and_dtype(made_by.results[0].type)[0]
    is_row = sizes == (1, *shape[1:]) and all(splat_of(wrap(i)) == 0 for i in rest)
    counting = body_of(op.regions[1])[0][counter.carry]
    if rows in _inside(op) or index != counting or not is_row or shape[0] != counter.trips:
        return None
    return rows if shape_and_dtype(value.type)[0] == shape[1:] else None


def _stack(op: ir.Operation, counter: Counter, totals: dict[int, list[ir.Operation]]) -> None:
    """Replaces the loop by one that writes the operands of the products to tapes, with the products behind it."""
    arguments, _, returned = body_of(op.regions[1])
    products = [p for chosen in totals.values() for p in chosen]
    stored = list(dict.fromkeys(v for p in products for v in p.operands if _tape_read(v, op, counter) is None))
    with ir.InsertionPoint(op), op.location:
        empty = [full((counter.trips, *x.shape), 0, x.dtype) for x in map(wrap, stored)]
    body = op.regions[1].blocks[0]
    terminator = body.operations[len(body.operations) - 1].operation
    kept = []
    with ir.InsertionPoint(terminator), op.location:
        for i, value in enumerate(returned):
            kept.append(_without_products(value, totals[i]) if i in totals else value)
        for value, tape in zip(stored, empty, strict=True):
            rows = wrap(body.add_argument(tape.value.type, op.location))
            kept.append(_written(rows, wrap(value), wrap(arguments[counter.carry])).value)
        ir.Operation.create("stablehlo.return", operands=kept)
    terminator.erase()
    for tape in empty:
        op.regions[0].blocks[0].add_argument(tape.value.type, op.location)
    operands = [*op.operands, *(tape.value for tape in empty)]
    with ir.InsertionPoint(op), op.location:
        new = ir.Operation.create(
            "stablehlo.while", operands=operands, results=[v.type for v in operands], attributes=bound_of(op), regions=2
        )
    n = len(op.results)
    tapes = dict(zip(stored, list(new.results)[n:], strict=True))
    with ir.InsertionPoint(op), op.location:
        sums = {}
        for i, chosen in totals.items():
            total = wrap(new.results[i])
            for product in chosen:
                total = add(total, _whole(product, op, counter, tapes))
            sums[i] = total.value
    for region, target in zip(op.regions, new.regions, strict=True):
        region.blocks[0].append_to(target)
    for i, old in enumerate(op.results):
        old.replace_all_uses_with(sums.get(i, new.results[i]))
    op.erase()


def _without_products(total: ir.Value, products: list[ir.Operation]) -> ir.Value:
    """The sum without some of its terms."""
    made_by = owner(wrap(total))
    if made_by is None or made_by.name != "stablehlo.add" or not has_one_use(wrap(total)):
        return total
    parts = [v for v in made_by.operands if owner(wrap(v)) not in products]
    kept = [_without_products(v, products) for v in parts]
    left = [v for v in kept if v is not None]
    return _sum(left)


def _sum(values: list[ir.Value]) -> ir.Value:
    total = wrap(values[0])
    for value in values[1:]:
        total = add(total, wrap(value))
    return total.value


def _written(rows: Tensor, value: Tensor, index: Tensor) -> Tensor:
    zero = full((), 0, index.dtype)
    return dynamic_update_slice(rows, reshape(value, shape=(1, *value.shape)), index, *([zero] * value.ndim))


def _whole(product: ir.Operation, op: ir.Operation, counter: Counter, tapes: dict[ir.Value, ir.Value]) -> Tensor:
    """One product over the rows of all iterations: the row is one more contracted dimension."""
    params = REGISTRY[product.name].read(product)
    dims = params["dot_dimension_numbers"]
    sides = []
    for value in product.operands:
        rows = _tape_read(value, op, counter)
        sides.append(wrap(tapes[value] if rows is None else rows))
    stacked = {
        side: (0, *(d + 1 for d in dims[side])) for side in ("lhs_contracting_dimensions", "rhs_contracting_dimensions")
    }
    return dot_general(*sides, **{**params, "dot_dimension_numbers": {**dims, **stacked}})
