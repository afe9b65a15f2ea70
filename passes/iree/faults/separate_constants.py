"""Constants that IREE would update in place although another operation reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects.regions import made_by, nested_in_functions
from nabla_mlir.dialects.stablehlo import constant_attribute, constant_splat
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.iree.faults.aliasing import computed, constant_key, copy_numbers
from nabla_mlir.table.traits import updated

Write = tuple[ir.Operation, int]  # an operation, and the index of the operand that it updates in place


@register
@dataclass(frozen=True)
class SeparateConstantsPass(Pass):
    """Compute each updated constant separately, if equal constants have other uses.

    IREE merges equal constants, and lets scatters and dynamic_update_slices change the one buffer in place. Another reader, an
    update or the caller, then sees the changed values (a wrong number, silently), or the compiler stops with "'stream.yield' op
    used resource not listed in explicit captures". An optimization_barrier of the whole constant does not help; one of a scalar
    from which it is computed does. Two scatters into one constant whose results are returned were wrong up to IREE 3.11. No
    small module shows the fault in 3.12 and 3.13.

    IREE fills the result of a reduce_window with its initial value, and adds to it in place. Of two with one initial value and
    one type of results, both add to one buffer: of ``(pool(x), pool(2 * x))`` the first result is the sum of both, and the
    second is 0 (3.13). So each gets an initial value that IREE does not know to be equal, except for windows of a constant:
    IREE evaluates them, and with a hidden initial value it takes one element of a window for all.

    IREE fills memory with the padding value of a pad, and writes the operand into it. Of two pads with one padding value of 64
    bits, both write into one memory, or the module is refused as above (3.13). So each gets a padding value of its own. Shorter
    numbers and zeros are right: IREE fills memory with them by a command, not by a kernel.

    Example: tests/filecheck/passes/separate_constants.mlir
    """

    name: ClassVar[str] = "nabla-separate-constants"

    def run(self, module: ir.Operation) -> None:
        """Computes updated constants separately, in place: each operation that writes to a constant gets a computed copy."""
        writes: dict[object, list[Write]] = {}
        uses: dict[object, int] = {}
        for op in nested_in_functions(module):
            if op.name == "stablehlo.constant":
                key = constant_attribute(op)
                uses[key] = uses.get(key, 0) + sum(1 for _ in op.results[0].uses)
            for i in updated(op):
                key = constant_key(op.operands[i])
                if key is not None:
                    writes.setdefault(key, []).append((op, i))
            if op.name == "stablehlo.reduce_window":
                for i, result in enumerate(op.results):
                    position = len(op.results) + i
                    start = op.operands[position]
                    if constant_key(op.operands[i]) is None:
                        writes.setdefault((constant_key(start) or start, result.type), []).append((op, position))
            if op.name == "stablehlo.pad" and _fills_by_kernel(op.operands[1]):
                writes.setdefault(("pad", constant_key(op.operands[1]) or op.operands[1]), []).append((op, 1))
        # Constants that are written and have another use, and memory that two operations would fill with one number.
        repeats = [write for key, group in writes.items() if max(uses.get(key, 0), len(group)) > 1 for write in group]
        for (op, i), number in zip(repeats, copy_numbers(module), strict=False):
            with ir.InsertionPoint(op), op.location:
                op.operands[i] = computed(op.operands[i], number)


def _fills_by_kernel(scalar: ir.Value) -> bool:
    """True if IREE fills memory with this number by a kernel: it has 64 bits and is not known to be zero."""
    _, dtype = shape_and_dtype(scalar.type)
    if dtype.itemsize < 8:
        return False
    maker = made_by(scalar)
    number = constant_splat(maker) if maker is not None and maker.name == "stablehlo.constant" else None
    return number is None or any(np.array(number).astype(dtype).tobytes())
