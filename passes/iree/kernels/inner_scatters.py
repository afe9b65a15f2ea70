"""The code of a scatter inside a kernel: one update after the other, in the order of their indices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from nabla_mlir.passes.iree.kernels.graph import Node, Scatter
from nabla_mlir.passes.iree.kernels.index import ZERO, Affine, linear, symbol
from nabla_mlir.passes.iree.kernels.steps import StepWriter
from nabla_mlir.passes.iree.kernels.writer import Buffer, Code, Writer

At = Mapping[int, Affine]  # the index of an update, by dimension


def write_scatter(kernel: StepWriter, scatter: Scatter) -> None:
    """Writes a scatter; afterwards the value of its result is known. A window that is partly outside is dropped."""
    writer, numbers = kernel.writer, scatter.numbers
    operand, _, updates = scatter.inits
    target, index_memory, update_memory = (kernel.allocate(n.size, n.dtype) for n in scatter.inits)
    kernel.run([], [kernel.slot(n, m) for n, m in zip(scatter.inits, (target, index_memory, update_memory), strict=True)])
    windows = list(numbers["update_window_dims"])
    batch = [d for d in range(len(updates.shape)) if d not in windows]

    def window(at: At) -> None:
        starts, is_inside = _starts(writer, scatter, [at[d] for d in batch], index_memory)

        def update(at: At) -> None:
            position = linear([s + o for s, o in zip(starts, _offsets(scatter, at, batch), strict=True)], operand.shape)
            value = writer.load(replace(update_memory, floor=writer.level), _linear(at, updates), 0)
            if scatter.combine:
                old = writer.load(replace(target, floor=writer.level), position, 0)
                value = kernel.apply(scatter.combine, (old, value), operand.dtype)
            writer.store(target, [position], [value], 0)

        if is_inside is None:
            _each(writer, updates.shape, windows, at, update)
            return
        with writer.block(f"scf.if {is_inside.name} {{"):
            _each(writer, updates.shape, windows, at, update)

    _each(writer, updates.shape, batch, {}, window)
    kernel.values[scatter.results[0]] = target


def _each(writer: Writer, shape: Sequence[int], dimensions: Sequence[int], at: At, body: Callable[[At], None]) -> None:
    """Runs `body` for each index of these dimensions."""
    if not dimensions:
        body(at)
        return
    first, *rest = dimensions
    if shape[first] == 1:
        _each(writer, shape, rest, {**at, first: ZERO}, body)
        return

    def inside(i: Affine, _: list[Code]) -> list[Code]:
        _each(writer, shape, rest, {**at, first: i}, body)
        return []

    writer.loop(shape[first], 1, [], inside)


def _linear(at: At, node: Node) -> Affine:
    return linear([at[d] for d in range(len(node.shape))], node.shape)


def _starts(writer: Writer, scatter: Scatter, batch: Sequence[Affine], memory: Buffer) -> tuple[list[Affine], Code | None]:
    """The first index of a window, and an i1 that tells if the window is inside; None if it always is."""
    operand, indices, _ = scatter.inits
    numbers, sizes = scatter.numbers, _window_sizes(scatter)
    starts, tests = [ZERO] * len(operand.shape), []
    vector = numbers["index_vector_dim"]
    for component, d in enumerate(numbers["scatter_dims_to_operand_dims"]):
        index = [*batch[:vector], Affine((), component), *batch[vector:]][: len(indices.shape)]
        start = writer.load(replace(memory, floor=writer.level), linear(index, indices.shape), 0)
        at = writer.code(
            f"arith.index_cast{'ui' * (start.dtype[0] == 'u')} {start.name} : {start.type} to index", (start,), "index", 0
        )
        count = operand.shape[d] - sizes[d] + 1
        tests.append(writer.compared("ult", at, writer.number(count)))  # a negative start is a huge number
        writer.ranges[at.name] = (0, count - 1)
        starts[d] = symbol(at.name)
    is_inside = None
    for test in tests:
        is_inside = test if is_inside is None else writer.combined("andi", is_inside, test)
    return starts, is_inside


def _window_sizes(scatter: Scatter) -> list[int]:
    """The size of a window along each dimension of the operand."""
    operand, _, updates = scatter.inits
    windows = iter([updates.shape[d] for d in scatter.numbers["update_window_dims"]])
    return [1 if d in _single(scatter) else next(windows) for d in range(len(operand.shape))]


def _offsets(scatter: Scatter, at: At, batch: Sequence[int]) -> list[Affine]:
    """The index in a window, and the indices along dimensions that operand and indices share."""
    numbers = scatter.numbers
    windows = iter([at[d] for d in numbers["update_window_dims"]])
    shared = zip(numbers["input_batching_dims"], numbers["scatter_indices_batching_dims"], strict=True)
    vector = numbers["index_vector_dim"]
    along = {d: at[batch[i - (i > vector)]] for d, i in shared}
    return [along.get(d, ZERO) if d in _single(scatter) else next(windows) for d in range(len(scatter.inits[0].shape))]


def _single(scatter: Scatter) -> set[int]:
    """The dimensions of the operand along which a window has one element."""
    return {*scatter.numbers["inserted_window_dims"], *scatter.numbers["input_batching_dims"]}
