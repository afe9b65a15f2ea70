"""The order of axes in memory: values are computed with their axes in the order in which products write and read them.

A value is free if it can be computed with its axes in any order, because it is made elementwise of broadcasts and constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.builder import Val, binary, broadcast, full, reduce, stored
from nabla_mlir.dialects.regions import blocks_in_functions, made_by
from nabla_mlir.dialects.types import shape_and_dtype, tensor_type
from nabla_mlir.ops.reduction import COMBINERS
from nabla_mlir.ops.shape import inverse
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.dce import erase_dead_in
from nabla_mlir.passes.iree.regions import single_operation
from nabla_mlir.passes.iree.scheduling.nests import transposed_in_memory
from nabla_mlir.table.tensor import splat_of, wrap
from nabla_mlir.table.traits import is_elementwise, size_of

Shape = tuple[int, ...]
Permutation = tuple[int, ...]


@register
@dataclass(frozen=True)
class OrderAxesPass(Pass):
    """Choose the order of the axes of each value that suits the operations that compute and read it.

    - ``transpose(x) * broadcast(y)`` is ``transpose(x * broadcast'(y))``; a sum over it, or a product with it, needs no
      transpose. Fused with elementwise operations, a transpose reads along the wrong axis: 500x1000 numbers times a row take
      1100 µs transposed, and 60 µs in their own order.
    - Differences of points, ``x[:, None, :] - x[None, :, :]``, have a last axis that is shorter than a vector. It moves to the
      front: the gradient of the energy of 256 bodies then takes 127 µs instead of 359.
    - A remaining transpose gets its own dispatch: 100x100 exponentials that are also read without the transpose take 5 µs
      instead of 23.

    Example: tests/filecheck/passes/order_axes.mlir
    """

    name: ClassVar[str] = "nabla-order-axes"

    def run(self, module: ir.Operation) -> None:
        """Chooses the orders of axes in all blocks, in place."""
        for block in blocks_in_functions(module):
            _order(block)


def _order(block: ir.Block) -> None:
    """Moves transposes of a block, then reorders arrays of points; the result or the operand of remaining transposes is stored."""
    permutations, shapes = [], []
    for op in (o.operation for o in block.operations):
        if op.name == "stablehlo.transpose" and size_of(op.results[0]) >= thresholds.ORDERED_ARRAY:
            permutations.append(_permutation(op))
        elif op.name == "stablehlo.reduce" and _is_narrow(op.operands[0]):
            shapes.append(tuple(op.operands[0].type.shape))
    for permutation in dict.fromkeys(permutations):
        _Layout(block, permutation).sink()
    for shape in dict.fromkeys(shapes):
        # In the new order, the last axis comes first.
        _Layout(block, (*range(1, len(shape)), 0)).move_free(shape)
    for op in [op.operation for op in block.operations]:
        if op.name == "stablehlo.transpose" and size_of(op.results[0]) >= thresholds.ORDERED_ARRAY:
            _store(op)


def _store(op: ir.Operation) -> None:
    """Stores the operand of a transpose in memory if it is computed elementwise, and the result if it is read elementwise.

    If IREE fuses them, the fused loop reads or writes memory along the wrong axis.
    """
    maker = made_by(op.operands[0])
    if maker is not None and is_elementwise(maker):
        with ir.InsertionPoint(op), op.location:
            op.operands[0] = stored(Val(op.operands[0])).value
    users = [(use.owner.operation, use.operand_number) for use in op.results[0].uses]
    if any(is_elementwise(user) for user, _ in users):
        with ir.InsertionPoint.after(op), op.location:
            copy = stored(Val(op.results[0])).value
        for user, i in users:
            user.operands[i] = copy


def has_free_order(value: ir.Value) -> bool:
    """True if a value can be computed in any order of its axes: elementwise from broadcasts and constants."""
    seen, work = {value}, [value]
    while work:
        op = made_by(current := work.pop())
        if op is None:
            return False
        if op.name == "stablehlo.broadcast_in_dim" or splat_of(wrap(current)) is not None:
            continue
        if not is_elementwise(op):
            return False
        work += [v for v in op.operands if v not in seen and _rank(v)]
        seen.update(op.operands)
    return True


def in_order(value: ir.Value, order: Permutation) -> ir.Value:
    """A free value with its axes in another order: axis i of the result is axis order[i] of the value.

    For example, ``exp(broadcast(row, (3, 5), dims=[1]))`` in the order (1, 0) is ``exp(broadcast(row, (5, 3),
    dims=[0]))``: it is recomputed, not transposed.
    """
    copies: dict[ir.Value, ir.Value] = {}
    position = inverse(order)

    def at(value: ir.Value) -> ir.Value:
        """The value in the new order, from `copies` if it was made already."""
        if _rank(value) and value not in copies:
            copies[value] = make(value)
        return copies.get(value, value)

    def make(value: ir.Value) -> ir.Value:
        """The value with its axes in the new order: a new constant, elementwise operation or broadcast."""
        shape, dtype = shape_and_dtype(value.type)
        new_shape, number = tuple(shape[d] for d in order), splat_of(wrap(value))
        if number is not None:
            return full(value=number, shape=new_shape, dtype=dtype).value
        op = made_by(value)
        assert op is not None
        if op.name != "stablehlo.broadcast_in_dim":
            return _rebuilt(op, [at(v) for v in op.operands], new_shape)
        positions = [position[d] for d in hlo.I64Array.decode(op.attributes["broadcast_dimensions"])]
        source = transposed_in_memory(Val(op.operands[0]), sorted(range(len(positions)), key=positions.__getitem__))
        return broadcast(source, new_shape, sorted(positions)).value

    return at(value)


class _Layout:
    """The values of a block that are rewritten with their axes in a new order, all by one permutation; they are called members.

    For example, let ``t = transpose(x)`` and ``u = t * broadcast(row)``; the members are t and u. In the new order t is
    x, and u is ``x * broadcast'(row)``. A reader that needs the old u gets ``transpose(x * broadcast'(row))``.
    """

    def __init__(self, block: ir.Block, permutation: Permutation):
        self._block, self._permutation = block, permutation
        self._members: dict[ir.Value, None] = {}
        self._free: dict[ir.Value, bool] = {}
        self._moved: dict[ir.Value, ir.Value] = {}  # from each member to its value in the new order

    def sink(self) -> None:
        """Moves transposes after the elementwise operations that read them, if fewer elements are transposed then.

        The other operands of these operations are transposes by the same permutation, or free values.
        """
        for op in (o.operation for o in self._block.operations):
            is_start = op.name == "stablehlo.transpose" and _permutation(op) == self._permutation
            if is_start or (any(v in self._members for v in op.operands) and self._can_move(op)):
                self._members[op.results[0]] = None
        exits = self._exits()
        # The transposes that are no longer needed, and the values that must then be transposed back.
        removed = [v for v in self._members if _is_transpose(v) and v not in exits]
        returned = [v for v in exits if not _is_transpose(v)]
        if sum(map(size_of, returned)) < sum(map(size_of, removed)):
            self._rewrite(returned)

    def move_free(self, shape: Shape) -> None:
        """Computes the free values of the shape `shape` in the new order, if no reader then needs a transpose back."""
        for op in (o.operation for o in self._block.operations):
            if self._can_move(op) and tuple(op.results[0].type.shape) == shape:
                self._members[op.results[0]] = None
        if self._members and not self._exits():
            self._rewrite(())

    def _exits(self) -> list[ir.Value]:
        """The members that a reader needs in the old order of axes."""
        return [v for v in self._members if any(not self._absorbs(user) for user in _users(v))]

    def _can_move(self, op: ir.Operation) -> bool:
        """True if an operation can be computed in the new order: its operands are members, free values or scalars."""
        return is_elementwise(op) and all(v in self._members or not _rank(v) or self._has_free_order(v) for v in op.operands)

    def _has_free_order(self, value: ir.Value) -> bool:
        """True if a value can be computed in any order of its axes (`has_free_order`); the answer is cached."""
        if value not in self._free:
            self._free[value] = has_free_order(value)
        return self._free[value]

    def _rewrite(self, exits: Sequence[ir.Value]) -> None:
        """Emits each member in the new order of axes, and makes its readers read this new value.

        The members in `exits` have readers that need the old order, so these members are also transposed back.
        """
        for op in [o.operation for o in self._block.operations]:
            if any(r in self._members for r in op.results):
                self._move(op)
            elif any(v in self._moved for v in op.operands) and self._absorbs(op):
                self._absorb(op)
        for value in exits:
            op = value.owner
            with ir.InsertionPoint.after(op), op.location:
                value.replace_all_uses_with(transposed_in_memory(Val(self._moved[value]), self._permutation).value)
        erase_dead_in(self._block)

    def _absorbs(self, op: ir.Operation) -> bool:
        """True if `op`, which reads a member, can be rewritten so that it reads the member in the new order."""
        if any(r in self._members for r in op.results):
            return True
        if op.block != self._block:
            return False
        if op.name == "stablehlo.dot_general":
            return all(v not in self._members or self._is_in_order(op, side) for side, v in enumerate(op.operands))
        return op.name == "stablehlo.transpose" or (op.name == "stablehlo.reduce" and _combiner(op) != "")

    def _is_in_order(self, product: ir.Operation, side: int) -> bool:
        """True if the free axes of factor 0 or 1 (`side`) keep their order, so that the result of the product does, too."""
        batch, contraction = _axes(product)[side]
        free = [d for d in range(_rank(product.operands[side])) if d not in (*batch, *contraction)]
        positions = [self._permutation[d] for d in free]
        return positions == sorted(positions)

    def _move(self, op: ir.Operation) -> None:
        """Computes the result of `op`, a member, in the new order; for a transpose, this is its operand."""
        if op.name == "stablehlo.transpose" and _permutation(op) == self._permutation:
            self._moved[op.results[0]] = op.operands[0]
            return
        order = inverse(self._permutation)
        with ir.InsertionPoint(op), op.location:
            operands = [self._moved.get(v) or in_order(v, order) for v in op.operands]
            self._moved[op.results[0]] = _rebuilt(op, operands, tuple(op.results[0].type.shape[d] for d in order))

    def _absorb(self, op: ir.Operation) -> None:
        """Rewrites an operation that reads members so that it reads them in the new order."""
        with ir.InsertionPoint(op), op.location:
            if op.name == "stablehlo.transpose":
                order = [self._permutation[d] for d in _permutation(op)]
                result = transposed_in_memory(Val(self._moved[op.operands[0]]), order)
            elif op.name == "stablehlo.reduce":
                result = _reduced(op, self._moved[op.operands[0]], self._permutation)
            else:
                result = self._multiplied(op)
        op.results[0].replace_all_uses_with(result.value)
        op.erase()

    def _multiplied(self, op: ir.Operation) -> Val:
        """The result of the product `op`, from factors in the new order, with adapted axis numbers."""
        factors = [self._moved.get(v, v) for v in op.operands]
        axes = [
            [[self._permutation[d] for d in ds] if v in self._moved else ds for ds in batch_and_contracted]
            for v, batch_and_contracted in zip(op.operands, _axes(op), strict=True)
        ]
        (lb, lc), (rb, rc) = axes
        numbers = hlo.DotDims.encode(dict(zip(hlo.DotDims.lists, (lb, rb, lc, rc), strict=True)))
        attributes = {a: op.attributes[a] for a in op.attributes} | {"dot_dimension_numbers": numbers}
        return Val(hlo.emit(op.name, factors, results=[op.results[0].type], attributes=attributes).results[0])


def _axes(product: ir.Operation) -> list[tuple[Sequence[int], Sequence[int]]]:
    """The batching and the contracting axes of each factor."""
    lb, rb, lc, rc = (hlo.DotDims.decode(product.attributes["dot_dimension_numbers"])[f] for f in hlo.DotDims.lists)
    return [(lb, lc), (rb, rc)]


def _reduced(op: ir.Operation, source: ir.Value, permutation: Permutation) -> Val:
    """The result of the reduction `op` of a transpose, computed from the operand `source` of the transpose.

    `permutation` is that of the transpose.
    """
    dims = [permutation[d] for d in hlo.I64Array.decode(op.attributes["dimensions"])]
    remaining = [d for d in range(_rank(source)) if d not in dims]
    combine = _combiner(op)
    (result,) = reduce([Val(source)], [Val(op.operands[1])], sorted(dims), lambda a, b: binary(combine, a, b))
    return transposed_in_memory(result, [remaining.index(d) for d in permutation if d in remaining])


def _combiner(op: ir.Operation) -> str:
    """The operation by which a reduction of one array combines; "" for other functions."""
    name = single_operation(op.regions[0]) if len(op.operands) == 2 else None
    return name if name is not None and name in COMBINERS.values() else ""


def _rebuilt(op: ir.Operation, operands: Sequence[ir.Value], shape: Shape) -> ir.Value:
    """The result of the elementwise operation `op` on other operands, which have the shape `shape`."""
    attributes = {a: op.attributes[a] for a in op.attributes}
    types = [tensor_type(shape, shape_and_dtype(op.results[0].type)[1])]
    return hlo.emit(op.name, operands, results=types, attributes=attributes).results[0]


def _is_narrow(value: ir.Value) -> bool:
    """True for a large array of points with a short last axis."""
    shape = value.type.shape
    return len(shape) > 2 and shape[-1] <= thresholds.NARROW_AXIS < shape[-2] and size_of(value) >= thresholds.ORDERED_ARRAY


def _is_transpose(value: ir.Value) -> bool:
    """True for the result of a transpose."""
    op = made_by(value)
    return op is not None and op.name == "stablehlo.transpose"


def _permutation(op: ir.Operation) -> Permutation:
    return tuple(hlo.I64Array.decode(op.attributes["permutation"]))


def _users(value: ir.Value) -> list[ir.Operation]:
    return [use.owner.operation for use in value.uses]


def _rank(value: ir.Value) -> int:
    return len(value.type.shape)
