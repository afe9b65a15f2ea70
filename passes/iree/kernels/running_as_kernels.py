"""Long running sums, products and extrema, which are combinations of shifted arrays, as kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir import thresholds
from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects import stablehlo as hlo
from nabla_mlir.dialects.builder import Val
from nabla_mlir.dialects.regions import made_by
from nabla_mlir.passes.base import register
from nabla_mlir.passes.dce import erase_dead_in
from nabla_mlir.passes.iree.driver import PatternPass
from nabla_mlir.passes.iree.kernels.call import call, form_of, has_form
from nabla_mlir.passes.iree.kernels.running import Running, running_text
from nabla_mlir.passes.iree.pattern import Patterns, Replacement, Target
from nabla_mlir.table.registry import REGISTRY

PATTERNS = Patterns()
_INFINITY = {"f32": ("0xFF800000", "0x7F800000"), "f64": ("0xFFF0000000000000", "0x7FF0000000000000")}
_COMBINERS = {"stablehlo.add": ("addf", 0.0), "stablehlo.multiply": ("mulf", 1.0), "stablehlo.maximum": ("maximumf", -math.inf),
              "stablehlo.minimum": ("minimumf", math.inf)}  # fmt: skip


@register
@dataclass(frozen=True)
class RunningAsKernelsPass(PatternPass):
    """Combine elements one after the other where all of an array is combined with itself, shifted by 1, 2, 4, ...

    That is how running sums are traced, and their derivatives: log2(n) operations on whole arrays, each of which reads
    and writes memory. The sum of 10^6 numbers so far took 17.6 ms, 0.6 in the kernel, which reads each once. Blocks of
    128 keep the errors of sums as small.

    Example: tests/filecheck/passes/running_as_kernels.mlir
    """

    name: ClassVar[str] = "nabla-running-as-kernels"
    patterns: ClassVar[Patterns] = PATTERNS
    vector_bytes: int = 64  # width of the CPU's vector registers

    def run(self, module: ir.Operation) -> None:
        """Rewrites `module` in place; the shifts go."""
        block = module.regions[0].blocks[0]
        count = len(block.operations)
        super().run(module)
        if len(block.operations) != count:
            erase_dead_in(block)


@PATTERNS.of(*_COMBINERS)
def combined_with_shifts(op: ir.Operation, target: Target) -> Replacement:
    """The order of the shifts does not matter, as they are combined by an operation whose terms may be grouped freely."""
    result = Val(op.results[0])
    if op.parent.name != "func.func" or not result.static or not has_form(result):
        return None
    if math.prod(result.shape) < thresholds.RUNNING_AS_KERNEL:
        return None
    shift = _shift(op)
    if shift is None:
        return None
    x, axis, distance = shift
    count, sign = result.shape[axis], 1 if distance > 0 else -1
    missing = {sign << k for k in range((count - 1).bit_length())} - {distance}
    if count < thresholds.RUNNING_AXIS or abs(distance) >= count or abs(distance).bit_count() != 1:
        return None
    while missing:
        maker = made_by(x)
        shift = None if maker is None or maker.name != op.name or maker.block != op.block else _shift(maker)
        if shift is None or shift[1] != axis or shift[2] not in missing or sum(1 for _ in x.uses) != 2:  # as itself and shifted
            return None
        missing.remove(shift[2])
        x = shift[0]
    return _call(op.name, Val(x), axis, sign < 0)


def _shift(op: ir.Operation) -> tuple[ir.Value, int, int] | None:
    """An array that an operation combines with itself, shifted: the array, the axis, and how far; None of another one."""
    for x, other in (tuple(op.operands), tuple(reversed(op.operands))):
        maker = made_by(other)
        if maker is None or maker.name != "stablehlo.pad" or maker.operands[0] != x or sum(1 for _ in other.uses) != 1:
            continue
        params = REGISTRY[maker.name].read(maker)
        low, high, inner = params["edge_padding_low"], params["edge_padding_high"], params["interior_padding"]
        axes = [a for a, n in enumerate(low) if n]
        number = made_by(maker.operands[1])
        value = hlo.constant_splat(number) if number is not None and number.name == "stablehlo.constant" else None
        if len(axes) == 1 and value == _COMBINERS[op.name][1] and not any(inner) and [-n for n in low] == list(high):
            return x, axes[0], low[axes[0]]
    return None


def _call(name: str, x: Val, axis: int, is_reversed: bool) -> Val:
    operation, number = _COMBINERS[name]
    form = form_of(x)
    neutral = f"{number:.1e}" if math.isfinite(number) else _INFINITY[form.element][number > 0]
    shape = math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :])
    running = Running(operation, neutral, *shape, is_reversed)
    sizes = "x".join(map(str, shape))
    kernel = f"running_{operation}_{'reversed_' if is_reversed else ''}{sizes}_{form.element}"
    text, results = running_text(kernel, running, form)
    (result,) = call(kernel, text, [b.reshape(x, shape)], results)
    return b.reshape(result, x.shape)
