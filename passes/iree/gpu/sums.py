"""A sum, a maximum or a minimum over some axes of an array: the kernel, and the choice of its tiles.

The inner axes are those that are summed over; a row is an index along all other axes, so it has one result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nabla_mlir.passes.iree.gpu.addresses import offset_of, positions, split_index
from nabla_mlir.passes.iree.gpu.contraction import Access, Contraction, strides_of
from nabla_mlir.passes.iree.gpu.writer import Code, Writer, type_of
from nabla_mlir.passes.iree.kernels.scalars import neutral as neutral_of

WARPS = 4
_TILE = 2048  # the number of elements that a block of threads reads at once
_ROWS = 64  # the largest number of rows of a tile, if neighbours in memory are neighbours in the result
_BLOCKS = 528  # the number of blocks of threads: four for each multiprocessor
_LEAST_TILES = 2  # the least number of tiles of a part of the inner indices


@dataclass(frozen=True)
class Fold:
    """An operation that combines numbers: its name in kernels for CPUs (add), and its operation in this kernel (arith.addf)."""

    combination: str
    name: str


FOLDS = {
    (f"stablehlo.{combination}", kind): Fold(combination, f"arith.{word}")
    for combination, words in {"add": ("addf", "addi"), "maximum": ("maximumf", "maxsi"), "minimum": ("minimumf", "minsi")}.items()
    for kind, word in zip("fi", words, strict=True)
}


@dataclass(frozen=True)
class Sums:
    """The sums over the inner axes of an array, one for each index of the rows.

    Args:
      axes: the rows, the inner axes and the addresses of the elements, as a contraction without columns.
      fold: the operation that combines the elements.
      rows, inner: the sizes of a tile.
      splits: the number of parts of the inner indices; part s of row r is result r * splits + s.
    """

    axes: Contraction
    fold: Fold
    rows: int
    inner: int
    splits: int

    @staticmethod
    def of(shape: Sequence[int], dims: Sequence[int], element: str, fold: Fold, may_split: bool = True) -> Sums:
        """The sums over `dims` of an array of this shape, with tiles and parts that give work to all multiprocessors.

        `fold` is the operation that combines elements. There is only one part if `may_split` is False.
        """
        rows = tuple(d for d in range(len(shape)) if d not in dims)
        c = dict(zip(rows, strides_of([shape[d] for d in rows]), strict=True))
        a = dict(enumerate(strides_of(shape)))
        axes = Contraction(shape, (), rows, (), tuple(dims), Access(a), Access({}), Access(c), element, element).canonical()
        if axes.is_exchanged:  # a sum has no columns
            axes = replace(axes, rows=axes.columns, columns=(), a=axes.b, b=Access({}), is_exchanged=False)
        count, inner = axes.size(axes.rows), axes.size(axes.inner)
        # Threads run along the axis whose elements are neighbours in memory.
        is_along_rows = any(axes.a.linear.get(axis) == 1 for axis in axes.rows)
        tile_rows = min(_power_of_two(count), _ROWS) if is_along_rows else max(1, _TILE // _power_of_two(inner))
        tile_rows = min(tile_rows, _power_of_two(count))
        tile_inner = max(1, min(_power_of_two(inner), _TILE // tile_rows))
        parts = max(1, min(_BLOCKS // -(-count // tile_rows), inner // (_LEAST_TILES * tile_inner))) if may_split else 1
        return Sums(axes, fold, tile_rows, tile_inner, parts)

    @property
    def blocks(self) -> int:
        """The number of blocks of threads."""
        return -(-self.axes.size(self.axes.rows) // self.rows) * self.splits

    @property
    def part(self) -> int:
        """The number of inner indices in a part: a multiple of the size of a tile."""
        return -(-self.axes.size(self.axes.inner) // (self.splits * self.inner)) * self.inner


def _power_of_two(n: int) -> int:
    """The least power of two that is at least n."""
    return 1 << (n - 1).bit_length()


def sums_kernel(name: str, sums: Sums) -> str:
    """The text of a module with the kernel `name`, with the arguments (array, result), which computes `sums`."""
    w, axes = Writer(), sums.axes
    count, inner, element = axes.size(axes.rows), axes.size(axes.inner), axes.element
    shape = (sums.rows, sums.inner)
    block = w.op("tt.get_program_id x : i32", "i32")
    tile, part = w.over(block, sums.splits), w.rest(block, sums.splits)
    rows = positions(w, tile, sums.rows, count)
    at_rows = {axis: w.expand(x, 1) for axis, x in split_index(w, axes.sizes, axes.rows, rows).items()}
    row_mask = w.less(rows, count) if count % sums.rows else None
    kind = type_of(element, shape)
    neutral = w.op(f"arith.constant dense<{neutral_of(sums.fold.combination, element)}> : {kind}", element, shape)
    start = w.times(part, sums.part)
    end = w.least(w.add(start, w.number(sums.part)), w.number(inner))
    step = w.number(sums.inner)

    def combine(k: Code, total: Code) -> Code:
        """The tile of totals combined with the tile of elements that begins at the inner index k."""
        index = w.add(k, w.range(sums.inner))
        at_inner = {axis: w.expand(x, 0) for axis, x in split_index(w, axes.sizes, axes.inner, index).items()}
        inner_mask = None if inner % sums.inner == 0 else w.expand(w.less(index, inner), 0)
        masks = [w.expand(row_mask, 1) if row_mask else None, inner_mask]
        offset, _ = offset_of(w, axes.a, at_rows | at_inner)
        value = w.load(w.pointers(Code("%x", f"{element}*", ()), offset, shape), w.all([m for m in masks if m]), neutral)
        return w.op(f"{sums.fold.name} {total.name}, {value.name} : {kind}", element, shape)

    result = w.sum_loop(start, end, step, neutral, combine)
    reduced = Code(w.fresh(), element, (sums.rows,))
    w.line(f'{reduced.name} = "tt.reduce"({result.name}) <{{axis = 1 : i32}}> ({{')
    w.line(f"^bb0(%p: {element}, %q: {element}):")
    w.line(f"  %pq = {sums.fold.name} %p, %q : {element}")
    w.line(f"  tt.reduce.return %pq : {element}")
    w.line(f"}}) : ({kind}) -> {reduced.type}")
    target = w.add(w.times(rows, sums.splits), part) if sums.splits > 1 else rows
    w.store(w.pointers(Code("%y", f"{element}*", ()), target, (sums.rows,)), reduced, row_mask)
    return w.module(name, {"%x": element, "%y": element})
