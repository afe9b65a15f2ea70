"""Maps without expansion: the body for each entry; all entries run a step before the next step, so that collectives work.

This is the definition of a map, without any batch rule: the oracle of nabla-vmap.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects.batch import (
    ALL_GATHER,
    AXIS_INDEX,
    COLLECTIVES,
    NOT_CARRIED,
    PMAX,
    PMIN,
    PSUM,
    PSUM_SCATTER,
    VmapOp,
    axis_of,
    collectives,
)
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.interpreter.control import Read, control
from nabla_mlir.interpreter.frames import Arrays, Body, Collective, Frame


@control("batch.vmap")
def vmap(op: ir.Operation, block_of: Read) -> Body:
    """A function that runs a map: it stacks the results of all entries; a result that does not vary is that of the first entry.

    `block_of` gives the region of `op` with a number as a function.
    """
    body, view = block_of(0), VmapOp(op)
    axes, sizes, in_axes, out_axes = view.axes, view.sizes, view.in_axes, view.out_axes
    types = [shape_and_dtype(result.type) for result in op.results]

    def run(frame: Frame, xs: Arrays) -> Arrays:
        """Runs the body for each entry in a frame of its own, and writes the results to arrays."""
        positions = list(itertools.product(*map(range, sizes)))
        frames = [Frame(frame.budget, frame, frame.position | dict(zip(axes, position, strict=True))) for position in positions]
        for entry, position in zip(frames, positions, strict=True):
            entry.update((i, _entry(x, a, position)) for i, x, a in zip(body.arguments, xs, in_axes, strict=True))
        outs = [np.zeros(shape, dtype) for shape, dtype in types]
        for position, results in zip(positions, body.of_entries(frames), strict=True):
            for out, result, carried in zip(outs, results, out_axes, strict=True):
                _entry(out, carried, position)[...] = result
        return outs

    return run


def is_plain(op: ir.Operation) -> bool:
    """True if every collective over an axis of the map is directly in its body, not in an inner region."""
    view = VmapOp(op)
    return all(inner.parent == op for axis in view.axes for inner in collectives(op, axis))


def _entry(x: np.ndarray, positions: Sequence[int], index: Sequence[int]) -> np.ndarray:
    """A view of one entry of `x`, which has axis positions[k] for axis k of the map, or no such axis; `index` is the entry's
    index.
    """
    selection: list[int | slice] = [slice(None)] * x.ndim
    for position, i in zip(positions, index, strict=True):
        if position != NOT_CARRIED:
            selection[position] = i
    return x[(*selection, ...)]


def collective(op: ir.Operation, number: Callable[[ir.Value], int]) -> Collective | None:
    """A collective operation in the form in which blocks run it; None for another operation.

    `number` gives the number under which frames store a value.
    """
    if op.name not in COLLECTIVES:
        return None
    dimension = op.attributes["dimension"].value if "dimension" in op.attributes else 0

    def evaluate(entries: list[np.ndarray], count: int) -> Arrays:
        """The result for each of `count` entries, from all entries."""
        if op_name == AXIS_INDEX:
            return [np.array(i, np.int32) for i in range(count)]
        if op_name == ALL_GATHER:
            return [np.stack(entries, dimension)] * count
        if op_name == PSUM_SCATTER:
            total = _sum(entries)
            return [np.take(total, i, dimension) for i in range(count)]
        combine = {PSUM: _sum, PMAX: lambda xs: np.max(xs, axis=0), PMIN: lambda xs: np.min(xs, axis=0)}[op_name]
        return [combine(entries)] * count

    op_name = op.name
    return Collective([number(v) for v in op.operands], number(op.results[0]), axis_of(op), evaluate)


def _sum(entries: list[np.ndarray]) -> np.ndarray:
    return np.sum(entries, axis=0, dtype=entries[0].dtype)
