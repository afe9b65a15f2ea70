"""Products that a loop sums: they become one product after the loop.

A tape is an array of which each iteration writes or reads one row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.ops.contraction import dot_general
from nabla_mlir.ops.elementwise import add
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.simplify.loop_tapes import tape_read, values_inside
from nabla_mlir.passes.simplify.pattern import has_one_use, owner
from nabla_mlir.passes.simplify.simplify import rewrite_loops
from nabla_mlir.rules.loops import Counter, find_counter
from nabla_mlir.rules.tapes import direction, empty_tape, write_row
from nabla_mlir.table.regions import MAX_RESIDUAL_BYTES, body_of
from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.table.tensor import Tensor, wrap
from nabla_mlir.table.traits import bytes_of


def stack_products(op: ir.Operation) -> bool:
    """True after sums of products in a loop became products after it: ``total += a_i b_i`` is one product over all rows.

    A factor that is read from a tape is already in memory; the other factor is written to a tape. The loop does not change if no
    factor is on a tape, if its memory is limited, or if the tapes would be large.
    """
    counter = find_counter(op)
    if counter is None or counter.trips < 2 or MAX_RESIDUAL_BYTES in op.attributes:
        return False
    arguments, _, outputs = body_of(op.regions[1])
    if not direction(op, arguments[counter.carry], counter):
        return False
    totals: dict[int, list[ir.Operation]] = {}
    for i, argument in enumerate(arguments):
        terms = _terms(outputs[i])
        if terms.count(argument) != 1 or not has_one_use(wrap(argument)):
            continue
        makers = [owner(wrap(t)) for t in terms if has_one_use(wrap(t))]
        products = [o for o in makers if o is not None and _is_stackable(o, op, counter)]
        if products:
            totals[i] = products
    if not totals:
        return False
    _stack(op, counter, totals)
    return True


def _terms(total: ir.Value) -> list[ir.Value]:
    """The terms of a sum, also of sums inside it; an inner sum with other uses counts as one term."""
    maker = owner(wrap(total))
    if maker is None or maker.name != "stablehlo.add" or not has_one_use(wrap(total)):
        return [total]
    return [term for part in maker.operands for term in _terms(part)]


def _is_stackable(product: ir.Operation, op: ir.Operation, counter: Counter) -> bool:
    """True if a product in the loop `op` can be computed after the loop, as one product over all iterations."""
    if product.name != "stablehlo.dot_general":
        return False
    dims = REGISTRY[product.name].read(product)["dot_dimension_numbers"]
    inside = values_inside(op)
    rows = [v for v in product.operands if tape_read(v, op, counter) is None]
    size = counter.trips * sum(map(bytes_of, rows))
    is_in_loop = not dims["lhs_batching_dimensions"] and all(v in inside for v in product.operands)
    # If no tape exists, both operands are computed in the loop, perhaps because of a checkpoint: they are not stored.
    return is_in_loop and len(rows) < 2 and size <= thresholds.STACKED


def _stack(op: ir.Operation, counter: Counter, totals: dict[int, list[ir.Operation]]) -> None:
    """Replaces the loop by one that writes factors to tapes, followed by the products of the tapes.

    For example, a loop that adds outer(x_i, y_i) to a sum stores the rows x_i and y_i; after it, the sum is XᵀY.

    Args:
      op: the loop.
      counter: the description of its counter.
      totals: by index of the carried sum, the products to take out of this sum.
    """
    arguments, _, outputs = body_of(op.regions[1])
    operands = [v for group in totals.values() for product in group for v in product.operands]
    operand_rows = list(dict.fromkeys(v for v in operands if tape_read(v, op, counter) is None))
    with ir.InsertionPoint(op), op.location:
        empty = [empty_tape(counter.trips, x) for x in map(wrap, operand_rows)]
    body = op.regions[1].blocks[0]
    terminator = body.operations[len(body.operations) - 1].operation
    new_outputs = []
    with ir.InsertionPoint(terminator), op.location:
        for i, value in enumerate(outputs):
            partial = {p.results[0] for p in totals.get(i, [])}
            new_outputs.append(_sum([t for t in _terms(value) if t not in partial]) if partial else value)
        for value, tape in zip(operand_rows, empty, strict=True):
            rows = wrap(body.add_argument(tape.value.type, op.location))
            new_outputs.append(write_row(rows, wrap(value), wrap(arguments[counter.carry])).value)
        ir.Operation.create("stablehlo.return", operands=new_outputs)
    terminator.erase()
    for tape in empty:
        op.regions[0].blocks[0].add_argument(tape.value.type, op.location)
    inits = [*op.operands, *(tape.value for tape in empty)]
    with ir.InsertionPoint(op), op.location:
        new = ir.Operation.create("stablehlo.while", operands=inits, results=[v.type for v in inits], regions=2)
    n = len(op.results)
    tapes = dict(zip(operand_rows, list(new.results)[n:], strict=True))
    with ir.InsertionPoint(op), op.location:
        sums = {}
        for i, group in totals.items():
            total = wrap(new.results[i])
            for product in group:
                total = add(total, _product_of_tapes(product, op, counter, tapes))
            sums[i] = total.value
    for region, target in zip(op.regions, new.regions, strict=True):
        region.blocks[0].append_to(target)
    for i, old in enumerate(op.results):
        old.replace_all_uses_with(sums.get(i, new.results[i]))
    op.erase()


def _sum(values: list[ir.Value]) -> ir.Value:
    """The sum of at least one value."""
    total = wrap(values[0])
    for value in values[1:]:
        total = add(total, wrap(value))
    return total.value


def _product_of_tapes(product: ir.Operation, op: ir.Operation, counter: Counter, tapes: dict[ir.Value, ir.Value]) -> Tensor:
    """The sum of a product over all iterations: a product of tapes, in which the rows are one more contracted dimension.

    Args:
      product: the product of one iteration.
      op: the loop.
      counter: the description of its counter.
      tapes: the tapes that the loop writes, by the value in their rows. Other factors are read from tapes that exist.
    """
    params = REGISTRY[product.name].read(product)
    dims = params["dot_dimension_numbers"]
    sides = []
    for value in product.operands:
        rows = tape_read(value, op, counter)
        sides.append(wrap(tapes[value] if rows is None else rows))
    stacks = {side: (0, *(d + 1 for d in dims[side])) for side in ("lhs_contracting_dimensions", "rhs_contracting_dimensions")}
    return dot_general(*sides, **{**params, "dot_dimension_numbers": {**dims, **stacks}})


@register
@dataclass(frozen=True)
class StackProductsPass(Pass):
    """Compute a sum of products after a loop: ``total += a_i b_i`` becomes one product over all rows of a and b.

    The gradient of a weight that every iteration uses has this form. Rows that are read from a tape exist already; the other
    factor is written to a tape. The loop stays as it is if neither factor is on a tape, if a limit on the memory of the loop is
    given, or if the tapes would be large.

    Example: tests/filecheck/passes/stack_products.mlir
    """

    name: ClassVar[str] = "nabla-stack-products"

    def run(self, module: ir.Operation) -> None:
        rewrite_loops(module, stack_products)
