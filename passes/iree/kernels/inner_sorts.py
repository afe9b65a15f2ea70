"""The code of a sort inside a kernel. Sorted runs of 1, 2, 4, ... elements are merged from one half of memory to the other.

If only a few elements of the result are read, as in `top_k`, each element is inserted into a list of these few.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from nabla_mlir.passes.iree.kernels.graph import Sort
from nabla_mlir.passes.iree.kernels.index import ZERO, Affine, linear, symbol
from nabla_mlir.passes.iree.kernels.steps import StepWriter
from nabla_mlir.passes.iree.kernels.writer import Buffer, Code, Writer

# Up to this many elements an insertion is faster than merging.
_INSERTED = 16


def write_sort(kernel: StepWriter, sort: Sort) -> None:
    """Writes a stable sort; afterwards its results are in memory, in `kernel.values`."""
    writer, whole = kernel.writer, sort.inits[0]
    memories = [kernel.allocate(2 * n.size, n.dtype) for n in sort.inits]
    kernel.run([], [kernel.slot(n, memory) for n, memory in zip(sort.inits, memories, strict=True)])
    if sort.wanted <= _INSERTED:
        _each_row(writer, sort, lambda row: _insert(kernel, sort, row, memories))
        last = Affine((), whole.size)
    else:
        last = _merge_all(kernel, sort, memories)
    kernel.values.update((n, replace(m, offset=last)) for n, m in zip(sort.results, memories, strict=True))


def _merge_all(kernel: StepWriter, sort: Sort, memories: list[Buffer]) -> Affine:
    """Writes passes that merge sorted runs until there is one; returns the offset in each of `memories` of the sorted elements.

    Each memory has two halves: a pass reads one, and writes the other.
    """
    writer, whole = kernel.writer, sort.inits[0]
    count = whole.shape[sort.dimension]

    def merge(carries: list[Code]) -> list[Code]:
        """Merges all pairs of runs; the carries are the length of a run, and the half of memory that has the runs."""
        width, half = carries
        writer.ranges[half.name] = (0, 1)
        olds = [replace(m, offset=Affine(((half.name, whole.size),))) for m in memories]
        news = [replace(m, offset=Affine(((half.name, -whole.size),), whole.size)) for m in memories]
        _each_row(writer, sort, lambda row: _merge(kernel, sort, row, width, olds, news))
        return [writer.combined("addi", width, width), writer.combined("subi", writer.number(1), half)]

    start = [writer.number(1), writer.number(0)]
    writer.repeat_while(start, lambda carries: writer.compared("ult", carries[0], writer.number(count)), merge)
    return Affine((), (count - 1).bit_length() % 2 * whole.size)  # each pass changes the half


def _each_row(writer: Writer, sort: Sort, body: Callable[[list[Affine]], None]) -> None:
    """Writes loops over the dimensions that are not sorted; `body` writes one row, and gets the index of its first element."""
    shape = sort.inits[0].shape
    others = [d for d in range(len(shape)) if d != sort.dimension]
    writer.each(shape, others, lambda at: body([at.get(d, ZERO) for d in range(len(shape))]))


def _element(writer: Writer, sort: Sort, row: list[Affine], memory: Buffer, at: Affine) -> Code:
    """The element of a row at index `at` along the sorted dimension, loaded from `memory`; it may change later."""
    index = [*row[: sort.dimension], at, *row[sort.dimension + 1 :]]
    return writer.load(replace(memory, floor=writer.level), linear(index, sort.inits[0].shape), 0)


def _put(writer: Writer, sort: Sort, row: list[Affine], memories: list[Buffer], at: Affine, values: Sequence[Code]) -> None:
    """Stores `values`, one for each of `memories`, at index `at` along the sorted dimension of a row."""
    position = linear([*row[: sort.dimension], at, *row[sort.dimension + 1 :]], sort.inits[0].shape)
    for memory, value in zip(memories, values, strict=True):
        writer.store(memory, [position], [value], 0)


def _is_before(kernel: StepWriter, sort: Sort, x: Sequence[Code], y: Sequence[Code]) -> Code:
    """The i1 of the comparator: true if element x is before element y; both are given by their values in each operand."""
    kernel.values.update(zip(sort.comparator.arguments, (side for both in zip(x, y, strict=True) for side in both), strict=True))
    kernel.run(sort.comparator.compounds, [], sort.comparator.results)
    return kernel.scalar(sort.comparator.results[0])


def _insert(kernel: StepWriter, sort: Sort, row: list[Affine], memories: list[Buffer]) -> None:
    """Writes a loop that inserts each element of a row into the `wanted` first ones so far, in the second half of `memories`."""
    writer, whole = kernel.writer, sort.inits[0]
    zero, one, wanted = (writer.number(i) for i in (0, 1, sort.wanted))
    # The second half of each memory has the first elements so far, in order.
    first = [replace(m, offset=Affine((), whole.size)) for m in memories]

    def at(x: Code) -> Affine:
        """The index x, which is below `wanted`, as an affine expression."""
        writer.ranges[x.name] = (0, sort.wanted - 1)
        return symbol(x.name)

    def insert(i: Affine, _: list[Code]) -> list[Code]:
        """Moves larger elements back by one, and puts element i before them."""
        new = [_element(writer, sort, row, m, i) for m in memories]

        def is_smaller(carries: list[Code]) -> Code:
            """An i1: there is an element before index j, and the new element comes before it."""
            (j,) = carries
            before = writer.combined("subi", writer.combined("maxui", j, one), one)
            olds = [_element(writer, sort, row, m, at(before)) for m in first]
            return writer.combined("andi", writer.compared("ugt", j, zero), _is_before(kernel, sort, new, olds))

        def move(carries: list[Code]) -> list[Code]:
            """Moves the element before index j to index j, unless it leaves the first ones; returns the new index."""
            (j,) = carries
            before = writer.combined("subi", j, one)
            olds = [_element(writer, sort, row, m, at(before)) for m in first]
            with writer.block(f"scf.if {writer.compared('ult', j, wanted).name} {{"):
                _put(writer, sort, row, first, at(j), olds)
            return [before]

        (j,) = writer.repeat_while([writer.combined("minui", Code(writer.index(i), "index"), wanted)], is_smaller, move)
        with writer.block(f"scf.if {writer.compared('ult', j, wanted).name} {{"):
            _put(writer, sort, row, first, at(j), new)
        return []

    writer.loop(whole.shape[sort.dimension], 1, [], insert)


def _merge(kernel: StepWriter, sort: Sort, row: list[Affine], width: Code, olds: list[Buffer], news: list[Buffer]) -> None:
    """Writes a loop that merges neighbouring sorted runs of `width` elements of a row, from the buffers `olds` to `news`.

    `width` is a power of two. An iteration writes one element. The loop carries the index of the next element of the left run and
    of the right run, and takes the right element if it is before the left one.
    """
    writer, count = kernel.writer, sort.inits[0].shape[sort.dimension]
    zero, one, last, end = (writer.number(i) for i in (0, 1, count - 1, count))

    def store_next(k: Affine, carries: list[Code]) -> list[Code]:
        """Stores element k of the merged runs: the smaller one of the next elements of the two runs."""
        position, pair = Code(writer.index(k), "index"), writer.combined("addi", width, width)
        inside = writer.combined("andi", position, writer.combined("subi", pair, one))  # the index in the pair of runs
        low = writer.combined("subi", position, inside)
        middle, high = (writer.combined("minui", writer.combined("addi", low, size), end) for size in (width, pair))
        # At the beginning of a pair of runs, the carries are those of the pair before.
        begins = writer.compared("eq", inside, zero)
        left, right = (writer.selected(begins, start, c) for start, c in zip((low, middle), carries, strict=True))
        indices = [writer.combined("minui", i, last) for i in (left, right)]
        writer.ranges.update((i.name, (0, count - 1)) for i in indices)
        lefts, rights = ([_element(writer, sort, row, m, symbol(i.name)) for m in olds] for i in indices)
        has_left, has_right = writer.compared("ult", left, middle), writer.compared("ult", right, high)
        takes_right = writer.selected(has_left, _is_before(kernel, sort, rights, lefts), has_right)
        takes_right = writer.combined("andi", takes_right, has_right)
        _put(writer, sort, row, news, k, [writer.selected(takes_right, y, x) for x, y in zip(lefts, rights, strict=True)])
        moved = [writer.combined("addi", i, one) for i in (left, right)]
        return [writer.selected(takes_right, left, moved[0]), writer.selected(takes_right, moved[1], right)]

    writer.loop(count, 1, [zero, zero], store_next)
