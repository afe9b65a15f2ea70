"""Large products as calls of the kernel that packs its factors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from iree.compiler import ir

from nabla_mlir import thresholds
from nabla_mlir.dialects.builder import Val, reshape
from nabla_mlir.dialects.regions import made_by, nested_in_functions
from nabla_mlir.dialects.stablehlo import DotDims, I64Array
from nabla_mlir.dialects.types import shape_and_dtype, tensor_type
from nabla_mlir.passes.iree.kernels.call import call_kernel
from nabla_mlir.passes.iree.kernels.product import Product, ProductKernel
from nabla_mlir.passes.iree.scheduling.nests import Transposes, replace_product, transposed_in_memory

_ELEMENTS = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}


class Axis(NamedTuple):
    """An axis of a factor: "b", of the batch; "f", free; "k", of the terms. Its place among these, and its size."""

    kind: str
    place: int
    size: int


class Factor(NamedTuple):
    """A factor, and what its axes are, in the order in which they lie in memory."""

    value: ir.Value
    axes: tuple[Axis, ...]

    def size(self, kind: str) -> int:
        """The product of the sizes of all axes of a kind."""
        return math.prod(a.size for a in self.axes if a.kind == kind)

    def letters(self, joined: frozenset[int]) -> str | None:
        """The letter of each group of axes that lie side by side; None if those of one kind do not, or a batch is last.

        Args:
          joined: batch axes that belong to the one before them, in both factors.
        """
        letters, before = "", None
        for axis in self.axes:
            follows = before is not None and before.kind == axis.kind and before.place + 1 == axis.place
            if not (follows and (axis.kind != "b" or axis.place in joined)):
                letter = str(axis.place - sum(n < axis.place for n in joined)) if axis.kind == "b" else axis.kind
                if letter in letters:
                    return None
                letters += letter
            before = axis
        return None if letters[-1].isdigit() else letters

    def in_order(self, block: ir.Block, transposes: Transposes) -> Factor:
        """The same factor in memory with its batches first and its terms last, made in a block."""
        order = sorted(range(len(self.axes)), key=lambda n: ("bfk".index(self.axes[n].kind), self.axes[n].place))
        key = self.value, block, tuple(order)
        sizes = [a.size for a in self.axes]
        if key not in transposes:
            transposes[key] = transposed_in_memory(reshape(Val(self.value), sizes), order)
        return Factor(transposes[key].value, tuple(self.axes[n] for n in order))


@dataclass(frozen=True)
class PackedProduct:
    """A product of stacked matrices that is large enough to be packed.

    Several axes of a kind are one where they lie side by side; so a factor is read as it lies in memory, also where it is
    the transpose of something else.
    """

    op: ir.Operation
    factors: tuple[Factor, Factor]
    element: str

    @staticmethod
    def of(op: ir.Operation, vector_bytes: int) -> PackedProduct | None:
        """What `op` is, if it is one."""
        if not all(v.type.has_static_shape for v in (*op.operands, *op.results)):
            return None
        dtypes = {shape_and_dtype(v.type)[1] for v in (*op.operands, *op.results)}
        if len(dtypes) > 1 or not dtypes <= _ELEMENTS.keys():
            return None
        left, right = _factors(op)
        sizes = left.size("f"), right.size("f"), left.size("k")
        least = thresholds.PACKED_PRODUCT_AVX512 if vector_bytes >= 64 else thresholds.PACKED_PRODUCT
        if min(sizes) < thresholds.PACKED_SIDE or left.size("b") * math.prod(sizes) < least:
            return None
        return PackedProduct(op, (left, right), _ELEMENTS[dtypes.pop()])

    def build(self, vector_bytes: int, transposes: Transposes) -> PackedCall:
        """Replaces the product; `transposes` holds those that there are by now."""
        shape, dtype = shape_and_dtype(self.op.results[0].type)
        left, right = self.factors
        joined = _joined(left.axes) & _joined(right.axes)
        with ir.InsertionPoint(self.op), self.op.location:
            if left.letters(joined) is None or right.letters(joined) is None:
                left, right = (f if f.letters(joined) else f.in_order(self.op.block, transposes) for f in self.factors)
                joined = _joined(left.axes) & _joined(right.axes)
            product = Product(
                batch=_batch_sizes(left.axes, joined), rows=left.size("f"), columns=right.size("f"), length=left.size("k"),
                left=left.letters(joined) or "", right=right.letters(joined) or "", element=self.element,
            )  # fmt: skip
            kernel = ProductKernel.of(product, vector_bytes)
            sides = (left, product.left_shape), (right, product.right_shape)
            operands = [reshape(Val(factor.value), size).value for factor, size in sides]
            call = PackedCall.at(self.op, kernel, operands, dtype)
            replaced = reshape(Val(call.result), shape)
        replace_product(self.op, replaced)
        return call


@dataclass(frozen=True)
class PackedCall:
    """A call of the kernel.

    Args:
      result: the product, its batches as one axis.
      kernel: that makes it.
      adds: whether it adds to what its memory held.
    """

    result: ir.Value
    kernel: ProductKernel
    adds: bool = False

    @staticmethod
    def at(
        op: ir.Operation, kernel: ProductKernel, factors: Sequence[ir.Value], dtype: np.dtype, onto: ir.Value | None = None
    ) -> PackedCall:
        """Calls the kernel at the insertion point, in the function of `op`."""
        types = [tensor_type(size, dtype) for size in kernel.results]
        numbers = (*kernel.numbers, int(onto is not None))
        result, _ = call_kernel(kernel.name, kernel.text, factors, types, op, numbers, kernel.workload, onto)
        return PackedCall(result, kernel, onto is not None)

    @property
    def op(self) -> ir.Operation:
        """The call."""
        return made_by(self.result)

    def added_to(self, other: PackedCall) -> PackedCall:
        """The sum of both, made where this one stands, in the memory of the other one."""
        with ir.InsertionPoint(self.op), self.op.location:
            shape, dtype = shape_and_dtype(self.result.type)
            before = len(self.kernel.workload) + len(self.kernel.numbers) + 1  # with the number that says whether it adds
            factors = list(self.op.operands)[before : before + 2]
            return PackedCall.at(self.op, self.kernel, factors, dtype, reshape(Val(other.result), shape).value)


def add_in_place(module: ir.Operation, calls: Iterable[PackedCall]) -> None:
    """Sums of two products that nothing else reads: the later product is added to the earlier one as it is made."""
    of = {call.result: call for call in calls}
    for op in [op for op in nested_in_functions(module) if op.name == "stablehlo.add"]:
        pair = [call for x in op.operands if (call := of.get(_before_reshapes(x))) and _is_read_by(call.result, op)]
        if len(pair) < 2 or pair[0].op.block != pair[1].op.block:
            continue
        first, second = pair if pair[0].op.is_before_in_block(pair[1].op) else pair[::-1]
        if second.adds:
            continue
        del of[first.result], of[second.result]  # erased, or read by the sum
        unused = [*_reshapes_of(first.result), second.op, *_reshapes_of(second.result)]
        total = second.added_to(first)
        of[total.result] = total
        with ir.InsertionPoint(op), op.location:
            replace_product(op, reshape(Val(total.result), shape_and_dtype(op.results[0].type)[0]))
        for dead in reversed(unused):
            dead.erase()


def _before_reshapes(value: ir.Value) -> ir.Value:
    while (maker := made_by(value)) is not None and maker.name == "stablehlo.reshape":
        value = maker.operands[0]
    return value


def _reshapes_of(value: ir.Value) -> list[ir.Operation]:
    """The reshapes of a value that has one use, and of these."""
    user = next(iter(value.uses)).owner.operation
    return [user, *_reshapes_of(user.results[0])] if user.name == "stablehlo.reshape" else []


def _is_read_by(value: ir.Value, op: ir.Operation) -> bool:
    """Whether an operation alone reads a value, perhaps reshaped."""
    users = [use.owner.operation for use in value.uses]
    if len(users) == 1 and users[0].name == "stablehlo.reshape":
        return _is_read_by(users[0].results[0], op)
    return len(users) == 1 and users[0] == op


def _factors(op: ir.Operation) -> tuple[Factor, Factor]:
    """The factors, with axes of size 1 left out, and the terms in the order in which they lie in the left one."""
    numbers = DotDims.decode(op.attributes["dot_dimension_numbers"])
    left, right = (
        _factor(op.operands[n], numbers[f"{side}_batching_dimensions"], numbers[f"{side}_contracting_dimensions"])
        for n, side in enumerate(("lhs", "rhs"))
    )
    order = [a.place for a in left.axes if a.kind == "k"]

    def renumbered(axes: Iterable[Axis]) -> tuple[Axis, ...]:
        return tuple(a._replace(place=order.index(a.place)) if a.kind == "k" else a for a in axes)

    return Factor(left.value, renumbered(left.axes)), Factor(right.value, renumbered(right.axes))


def _factor(value: ir.Value, batch: Sequence[int], terms: Sequence[int]) -> Factor:
    sizes = list(value.type.shape)
    free = [n for n in range(len(sizes)) if n not in (*batch, *terms)]
    axes: dict[int, Axis] = {}
    for kind, members in (("b", batch), ("f", free), ("k", terms)):
        kept = [n for n in members if sizes[n] != 1]
        axes |= {n: Axis(kind, place, sizes[n]) for place, n in enumerate(kept)}
    order = list(range(len(sizes)))
    while (maker := made_by(value)) is not None and maker.name == "stablehlo.transpose":
        permutation = I64Array.decode(maker.attributes["permutation"])
        order = [order[permutation.index(n)] for n in range(len(order))]
        value = maker.operands[0]
    return Factor(value, tuple(axes[n] for n in order if n in axes))


def _joined(axes: Sequence[Axis]) -> frozenset[int]:
    """Batch axes that lie right behind the one before them."""
    batches = ((x, y) for x, y in pairwise(axes) if x.kind == y.kind == "b")
    return frozenset(y.place for x, y in batches if x.place + 1 == y.place)


def _batch_sizes(axes: Sequence[Axis], joined: frozenset[int]) -> tuple[int, ...]:
    sizes: list[int] = []
    for axis in sorted(a for a in axes if a.kind == "b"):
        if axis.place in joined:
            sizes[-1] *= axis.size
        else:
            sizes.append(axis.size)
    return tuple(sizes)
