"""The code of a scatter inside a kernel: one update after the other, in the order of their indices."""

from __future__ import annotations

import functools
from dataclasses import replace

from nabla_mlir.passes.iree.kernels.graph import Scatter
from nabla_mlir.passes.iree.kernels.index import ZERO, Affine, component_at, linear, symbol
from nabla_mlir.passes.iree.kernels.steps import StepWriter
from nabla_mlir.passes.iree.kernels.writer import At, Buffer, Code, Writer


def write_scatter(kernel: StepWriter, scatter: Scatter) -> None:
    """Writes a scatter; afterwards its result is in memory, in `kernel.values`. A window that is partly outside is dropped."""
    writer, windows = kernel.writer, scatter.windows
    operand, _, updates = scatter.inits
    target, index_memory, update_memory = (kernel.allocate(n.size, n.dtype) for n in scatter.inits)
    kernel.run([], [kernel.slot(n, m) for n, m in zip(scatter.inits, (target, index_memory, update_memory), strict=True)])

    def window(at: At) -> None:
        """Writes the updates of the window for the batch indices `at`, if the window is inside the operand."""
        starts, tests = _starts(writer, scatter, at, index_memory)

        def update(at: At) -> None:
            """Writes the update of one element of the window; `at` is its index in the array of updates."""
            offsets = [ZERO if along is None else at[along] for along, _ in windows.sources]
            position = linear([s + o for s, o in zip(starts, offsets, strict=True)], operand.shape)
            source = linear([at[d] for d in range(len(updates.shape))], updates.shape)
            value = writer.load(replace(update_memory, floor=writer.level), source, 0)
            if scatter.combine:
                old = writer.load(replace(target, floor=writer.level), position, 0)
                value = kernel.apply(scatter.combine, (old, value), operand.dtype)
            writer.store(target, [position], [value], 0)

        if not tests:
            writer.each(updates.shape, windows.inner, update, at)
            return
        is_inside = functools.reduce(functools.partial(writer.combined, "andi"), tests)
        with writer.block(f"scf.if {is_inside.name} {{"):
            writer.each(updates.shape, windows.inner, update, at)

    writer.each(updates.shape, windows.batch, window)
    kernel.values[scatter.results[0]] = target


def _starts(writer: Writer, scatter: Scatter, at: At, memory: Buffer) -> tuple[list[Affine], list[Code]]:
    """The first index of a window along each dimension of the operand, and i1 values that are all true if the window is inside.

    `at` has the batch indices of the window, and `memory` has the index vectors of the scatter.
    """
    (operand, indices, _), windows = scatter.inits, scatter.windows
    starts: list[Affine] = []
    tests: list[Code] = []
    for n, size, (_, component) in zip(operand.shape, windows.sizes, windows.sources, strict=True):
        if component is None:
            starts.append(ZERO)
            continue
        index = linear(component_at(windows, at, component, indices.shape), indices.shape)
        start = writer.as_index(writer.load(replace(memory, floor=writer.level), index, 0))
        tests.append(writer.compared("ult", start, writer.number(n - size + 1)))  # a negative start is a huge number
        writer.ranges[start.name] = (0, n - size)
        starts.append(symbol(start.name))
    return starts, tests
