"""Calls of the kernel for large products (kernels/product.py), and sums of their results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects.builder import Val, reshape
from nabla_mlir.dialects.regions import before_reshapes, made_by, nested_in_functions
from nabla_mlir.dialects.types import shape_and_dtype, tensor_type
from nabla_mlir.passes.iree.internals.dispatches import Constants, call_kernel
from nabla_mlir.passes.iree.kernels.product import ProductKernel
from nabla_mlir.passes.iree.scheduling.nests import replace_product


@dataclass(frozen=True)
class PackedCall:
    """A call of the kernel for large products.

    Args:
      result: the product, with its batch axes merged.
      kernel: the kernel.
      adds: True if it adds to the old content of its memory.
    """

    result: ir.Value
    kernel: ProductKernel
    adds: bool = False

    @staticmethod
    def at(
        op: ir.Operation,
        kernel: ProductKernel,
        factors: Sequence[ir.Value],
        dtype: np.dtype,
        constants: Constants,
        onto: ir.Value | None = None,
    ) -> PackedCall:
        """A new call of the kernel at the insertion point.

        Args:
          op: an operation of the function that contains the call.
          kernel: the kernel.
          factors: the flat arrays of both factors.
          dtype: the element type of the product.
          constants: a cache of constants.
          onto: memory to whose content the product is added; None for new memory.
        """
        types = [tensor_type(size, dtype) for size in kernel.results]
        numbers = (*kernel.numbers, int(onto is not None))
        result, _ = call_kernel(kernel.name, kernel.text, factors, types, op, numbers, kernel.workload, onto, constants)
        return PackedCall(result, kernel, onto is not None)

    @property
    def op(self) -> ir.Operation:
        """The operation that calls the kernel."""
        return made_by(self.result)

    def added_to(self, other: PackedCall, constants: Constants) -> PackedCall:
        """The sum of both products, computed at the position of this call, in the memory of the result of `other`.

        `constants` is a cache of constants.
        """
        with ir.InsertionPoint(self.op), self.op.location:
            shape, dtype = shape_and_dtype(self.result.type)
            before = len(self.kernel.workload) + len(self.kernel.numbers) + 1  # including the number that tells if it adds
            factors = list(self.op.operands)[before : before + 2]
            memory = reshape(Val(other.result), shape).value
            return PackedCall.at(self.op, self.kernel, factors, dtype, constants, memory)


def add_in_place(module: ir.Operation, calls: Iterable[PackedCall], constants: Constants) -> None:
    """Replaces sums of two products that nothing else reads: the later product is added to the memory of the earlier one.

    For example, a @ b + c @ d becomes two calls: the second adds c @ d to the result of the first. `calls` has the calls that
    compute products in the module, and `constants` is a cache of constants.
    """
    call_of = {call.result: call for call in calls}
    for op in [op for op in nested_in_functions(module) if op.name == "stablehlo.add"]:
        pair = [call for x in op.operands if (call := call_of.get(before_reshapes(x))) and _is_read_by(call.result, op)]
        if len(pair) < 2 or pair[0].op.block != pair[1].op.block:
            continue
        first, second = pair if pair[0].op.is_before_in_block(pair[1].op) else pair[::-1]
        if second.adds:  # to the memory of another product
            continue
        del call_of[first.result], call_of[second.result]  # erased, or read by the sum
        dead = [*_reshapes_of(first.result), second.op, *_reshapes_of(second.result)]
        total = second.added_to(first, constants)
        call_of[total.result] = total
        with ir.InsertionPoint(op), op.location:
            replace_product(op, reshape(Val(total.result), shape_and_dtype(op.results[0].type)[0]))
        for maker in reversed(dead):
            maker.erase()


def _reshapes_of(value: ir.Value) -> list[ir.Operation]:
    """The reshape that reads a value with one use, the reshape of its result, and so on; empty without a reshape."""
    user = next(iter(value.uses)).owner.operation
    return [user, *_reshapes_of(user.results[0])] if user.name == "stablehlo.reshape" else []


def _is_read_by(value: ir.Value, op: ir.Operation) -> bool:
    """True if `op` is the only reader of a value, also through reshapes."""
    users = [use.owner.operation for use in value.uses]
    if len(users) == 1 and users[0].name == "stablehlo.reshape":
        return _is_read_by(users[0].results[0], op)
    return len(users) == 1 and users[0] == op
