"""Products of rows and an invariant matrix inside a loop: they become one product before the loop.

A row is the element `i` of an array along its first axis, which iteration `i` reads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.dce import is_pure
from nabla_mlir.passes.simplify.simplify import rewrite_loops
from nabla_mlir.rules.loops import find_counter
from nabla_mlir.rules.tapes import read_row, row_read
from nabla_mlir.table.batching import batch_ops
from nabla_mlir.table.regions import MAX_RESIDUAL_BYTES, body_of
from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.table.rules import Batch
from nabla_mlir.table.tensor import wrap
from nabla_mlir.table.traits import bytes_of


@dataclass
class _Rows:
    """The operations of an iteration that read only row `index` of arrays from outside."""

    index: ir.Value
    count: int  # of rows
    read: dict[ir.Value, ir.Value] = field(default_factory=dict)  # a row -> the array that it is read from
    ops: list[ir.Operation] = field(default_factory=list)
    values: set[ir.Value] = field(default_factory=set)


def hoist_products(op: ir.Operation) -> bool:
    """True after products ``rows[i] @ w`` of a loop were computed for all i before the loop, which then reads rows of the result.

    The operations from the row to the product are mapped over all rows. The loop does not change if it has fewer iterations than
    rows, if its memory is limited, or if the stacked values would be large.
    """
    counter = find_counter(op)
    if counter is None or counter.trips < 2 or MAX_RESIDUAL_BYTES in op.attributes:
        return False
    progress = False
    for rows in _rows_of(op):
        products = [o for o in rows.ops if o.name == "stablehlo.dot_general" and _contracted(o) >= thresholds.HOISTED_PRODUCT]
        parts = _needed(rows, products)
        if products and rows.count <= counter.trips and rows.count * _bytes(parts) <= thresholds.STACKED:
            _hoist(op, rows, products, parts)
            progress = True
    return progress


def _rows_of(op: ir.Operation) -> list[_Rows]:
    """The operations of a loop's body that depend on rows at one index, and on nothing else that varies: a group for each index."""
    arguments, ops, _ = body_of(op.regions[1])
    varying = set(arguments)
    groups: dict[tuple[ir.Value, int], _Rows] = {}
    for inner in ops:
        if (row := _row_read(inner, varying)) is not None:
            rows, index = row
            count = wrap(rows).shape[0]
            group = groups.setdefault((index, count), _Rows(index, count))
            group.read[inner.results[0]] = rows
            group.values.add(inner.results[0])
            varying.add(inner.results[0])
            continue
        reads = [v for v in inner.operands if v in varying]
        if not reads and not len(inner.regions):
            continue  # the same in every iteration
        varying.update(inner.results)
        for group in groups.values():
            if all(v in group.values for v in reads) and not len(inner.regions) and is_pure(inner):
                group.ops.append(inner)
                group.values.update(inner.results)
    return list(groups.values())


def _row_read(op: ir.Operation, varying: set[ir.Value]) -> tuple[ir.Value, ir.Value] | None:
    """The array and the index if `op` reads one row, without its leading axis, of an array that is not in `varying`; else None."""
    read = row_read(op.results[0]) if len(op.results) == 1 else None
    return read if read is not None and read[0] not in varying and read[1] in varying else None


def _contracted(product: ir.Operation) -> int:
    """The number of terms in each sum of a `dot_general`."""
    dims = REGISTRY[product.name].read(product)["dot_dimension_numbers"]
    shape = wrap(product.operands[0]).shape
    return math.prod(shape[d] for d in dims["lhs_contracting_dimensions"])


def _needed(rows: _Rows, products: list[ir.Operation]) -> list[ir.Operation]:
    """The operations of a group on which the products depend, in order, including the products."""
    ops: list[ir.Operation] = []
    needed = {v for p in products for v in p.results}
    for inner in reversed(rows.ops):
        if any(r in needed for r in inner.results):
            ops.append(inner)
            needed.update(inner.operands)
    return ops[::-1]


def _bytes(ops: list[ir.Operation]) -> int:
    """The bytes of all results of some operations."""
    return sum(bytes_of(r) for o in ops for r in o.results)


def _hoist(op: ir.Operation, rows: _Rows, products: list[ir.Operation], parts: list[ir.Operation]) -> None:
    """Computes the products of all iterations at once before the loop `op`, and reads one row of them in each iteration.

    `rows` describes the rows that the products read, and `parts` are the operations between rows and products, with these.
    """
    batch = Batch(rows.count, {row: wrap(array) for row, array in rows.read.items()})
    inside = {r: o for o in body_of(op.regions[1])[1] for r in o.results}
    with ir.InsertionPoint(op), op.location:
        batch_ops(_with_constants(parts, inside, batch), batch)
    for product in products:
        with ir.InsertionPoint(product), product.location:
            row = read_row(batch[product.results[0]], wrap(rows.index))
        product.results[0].replace_all_uses_with(row.value)
        product.erase()


def _with_constants(ops: list[ir.Operation], inside: dict[ir.Value, ir.Operation], batch: Batch) -> list[ir.Operation]:
    """The operations `ops`, preceded by the operations of the body that compute their invariant operands.

    `inside` maps each value of the body to its operation; the values in `batch` need no computation.
    """
    in_order: dict[ir.Value, ir.Operation] = {}

    def add(inner: ir.Operation) -> None:
        """Adds an operation, after the operations that compute its operands."""
        if inner.results[0] in in_order:
            return
        for value in inner.operands:
            if value in inside and value not in batch:
                add(inside[value])
        in_order[inner.results[0]] = inner

    for inner in ops:
        add(inner)
    return list(in_order.values())


@register
@dataclass(frozen=True)
class HoistProductsPass(Pass):
    """Hoist products out of a loop: ``rows[i] @ w`` in every iteration becomes one product ``rows @ w`` before it.

    The operations between the row and the product are mapped over all rows. The loop stays as it is if there are more rows
    than iterations, if a limit on the memory of the loop is given, or if the stacked values would be large.

    Example: tests/filecheck/passes/hoist_products.mlir
    """

    name: ClassVar[str] = "nabla-hoist-products"

    def run(self, module: ir.Operation) -> None:
        rewrite_loops(module, hoist_products)
