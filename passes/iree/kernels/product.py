"""Products of matrices as a kernel: blocks of both factors are packed, and tiles of the result stay in registers.

The loops are those of Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008): a block of terms
at a time, whose part of the right factor is packed as panels of columns; of the left factor so many rows as a core's own
cache holds, packed as panels of rows; then each panel with each. Since panels are read from one end to the other, it does
not matter how the factors lie in memory, nor how far apart their rows are.

Sizes are numbers that the kernel is given, so that one kernel serves all products whose factors lie alike.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from nabla_mlir import thresholds
from nabla_mlir.passes.iree.kernels.text import Form, Index, Memory, Text, Tile

# Where an element of a factor stands, from its row (of the left factor) or column, and its term.
Place = Callable[[Index, Index], Sequence[Index]]


@dataclass(frozen=True)
class Product:
    """C[b, i, j] = sum over k of A[b, i, k] B[b, k, j].

    Args:
      batch: the sizes of the batch axes.
      rows: of A.
      columns: of B.
      length: terms of a sum.
      left: how A lies in memory: its axes as letters, "0", "1", ... for batches, "f" for what is free, "k" for the terms.
        The last one is no batch.
      right: likewise B.
      element: the type of both, f32 or f64.
    """

    batch: tuple[int, ...]
    rows: int
    columns: int
    length: int
    left: str
    right: str
    element: str

    @property
    def left_shape(self) -> tuple[int, ...]:
        """The shape of A as it lies in memory."""
        return tuple(self.rows if a == "f" else self.length if a == "k" else self.batch[int(a)] for a in self.left)

    @property
    def right_shape(self) -> tuple[int, ...]:
        """The shape of B as it lies in memory."""
        return tuple(self.columns if a == "f" else self.length if a == "k" else self.batch[int(a)] for a in self.right)

    @property
    def result_shape(self) -> tuple[int, ...]:
        """The shape of C, its batches as one axis."""
        return math.prod(self.batch), self.rows, self.columns


@dataclass(frozen=True)
class Blocks:
    """What is done at a time.

    Args:
      terms: of the sums.
      rows: of the left factor.
      share: the rows and columns of the result that a workgroup makes.
      counts: workgroups along rows and columns.
    """

    terms: int
    rows: int
    share: tuple[int, int]
    counts: tuple[int, int]

    @staticmethod
    def of(product: Product, form: Form) -> Blocks:
        """For a product: even blocks of terms, and shares of whole tiles, as many as pay."""
        m, n, length = product.rows, product.columns, product.length
        of_all = -(-thresholds.PACKED_GROUPS // math.prod(product.batch))
        wanted = max(1, min(of_all, m * n * length // thresholds.PACKED_GROUP_WORK))

        def share(counts: tuple[int, int]) -> tuple[int, int]:  # whole tiles
            return _up(-(-m // counts[0]), form.rows), _up(-(-n // counts[1]), form.width)

        def cost(
            counts: tuple[int, int],
        ) -> float:  # packing, in multiplications, and what the largest share has too much
            rows, columns = share(counts)
            return 10 / rows + 10 / columns + rows * columns * math.prod(counts) / (m * n)

        counts = min(((p, -(-wanted // p)) for p in range(1, wanted + 1)), key=cost)
        rows, columns = share(counts)
        return Blocks(
            terms=_even(length, thresholds.PACKED_TERMS, form.lanes),
            rows=min(rows, max(1, thresholds.PACKED_ROWS // form.rows) * form.rows),
            share=(rows, columns),
            counts=(-(-m // rows), -(-n // columns)),
        )


@dataclass(frozen=True)
class ProductKernel:
    """A kernel and how it is called.

    Args:
      name: the same for the same text.
      text: of the executable.
      numbers: what it is given before the factors, as i32; behind them 1 if it adds to what the result holds, else 0.
      workload: workgroups in x and y.
      results: the shapes of what it makes: the product, then memory of its own.
    """

    name: str
    text: str
    numbers: tuple[int, ...]
    workload: tuple[int, int]
    results: tuple[tuple[int, ...], tuple[int, ...]]

    @staticmethod
    def of(product: Product, vector_bytes: int) -> ProductKernel:
        """For a product, with registers of that width."""
        form = form_of(product, vector_bytes)
        blocks, batch = Blocks.of(product, form), math.prod(product.batch)
        name, text = _name_and_text(form, len(product.batch), product.left, product.right)
        sizes = product.rows, product.columns, product.length, *product.batch
        memory = blocks.terms * (blocks.share[1] + blocks.rows) + form.lanes
        groups = math.prod(blocks.counts)
        return ProductKernel(
            name, text,
            (*sizes, blocks.terms, blocks.rows, *blocks.share, *blocks.counts), (groups, batch),
            (product.result_shape, (groups * batch, memory)),
        )  # fmt: skip


@functools.cache
def _name_and_text(form: Form, batches: int, left: str, right: str) -> tuple[str, str]:
    writer = _Writer(form, batches, left, right)
    return writer.name, writer.text()


def form_of(product: Product, vector_bytes: int) -> Form:
    """The tile of least waste: six rows by two vectors fill 16 registers, eight rows keep 32 of them busy."""
    form = Form.of(product.element, vector_bytes)
    tallest = 8 if vector_bytes >= 64 else 6
    return replace(form, rows=min((tallest, 4), key=lambda r: -(-product.rows // r) * (r + 1)))


def _even(length: int, most: int, least: int) -> int:
    """The size of even blocks of at most so many terms, of which the last one has not too few: it is read in vectors."""
    even = -(-length // -(-length // most))
    return next(n for n in range(even, 0, -1) if (length - 1) % n + 1 >= least)


def _up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple


class _Writer:
    def __init__(self, form: Form, batches: int, left: str, right: str):
        self.t, self.form, self.left, self.right = Text(form), form, left, right
        self.name = f"product_{left}_{right}_{form.element}_{form.rows}x{form.width}"
        number = self.t.number_argument
        self.rows, self.columns, self.length = number("rows"), number("columns"), number("length")
        self.sizes = [number(f"batch{n}") for n in range(batches)]
        self.terms, self.block_rows = number("terms"), number("block_rows")
        self.share, self.counts = (
            (number("share_rows"), number("share_columns")),
            (number("groups_m"), number("groups_n")),
        )
        self.adds = number("adds")  # 1: the product is added to what its memory holds, 0: it is stored there

    def text(self) -> str:
        """The executable."""
        t, form = self.t, self.form
        group, self.batch = (t.op(f"hal.interface.workgroup.id[{axis}] : index") for axis in (0, 1))
        of_batch, batches = t.mul(*self.counts), self._product(self.sizes)
        self.group = t.add(t.mul(self.batch, of_batch), group)
        self.left_at = t.mul(self.terms, self.share[1])
        memory = t.add(t.add(self.left_at, t.mul(self.terms, self.block_rows)), form.lanes)
        places = self._batch_places()
        a, b = self._factor("%a", self.left, self.rows), self._factor("%b", self.right, self.columns)
        self.c = self._of_sizes("%c", (batches, self.rows, self.columns))
        self.panels = self._of_sizes("%panels", (t.mul(batches, of_batch), memory))
        memories = [a, b, self.c, self.panels]
        for place, m in enumerate(memories):
            t.bind(m, place)
        self._blocks(a, b, places, group)
        return t.kernel_of_sizes(self.name, memories)

    def _blocks(self, a: Memory, b: Memory, batches: Sequence[Index], group: str) -> None:
        t, form = self.t, self.form
        start, end = self._share_of(t.of_indices("remui", group, self.counts[0]), 0, self.rows)
        first, last = self._share_of(t.of_indices("divui", group, self.counts[0]), 1, self.columns)
        with t.loop(0, self.length, self.terms) as term:
            terms = t.of_indices("minsi", t.of_indices("subi", self.length, term), self.terms)
            with t.loop(first, last, form.width) as j:
                part = _Part(b, _place(self.right, batches), j, form.width, self.columns)
                self._pack(part, term, terms, self._column_panel(j, first))
            with t.loop(start, end, self.block_rows) as row:
                below = t.of_indices("minsi", t.add(row, self.block_rows), end)
                with t.loop(row, below, form.rows) as i:
                    part = _Part(a, _place(self.left, batches), i, form.rows, self.rows)
                    self._pack(part, term, terms, self._row_panel(i, row))
                with t.loop(first, last, form.width) as j, t.loop(row, below, form.rows) as i:
                    for r in range(form.rows):  # what the tile is added to, or stored in, arrives while it is summed
                        t.prefetch(self.c, self.batch, t.add(i, r), j)
                    tile = self._tile(self._row_panel(i, row), self._column_panel(j, first), terms)
                    self._store(tile, i, j, term)

    # ---------------------------------------------------------------- places

    def _product(self, sizes: Sequence[Index]) -> Index:
        total: Index = 1
        for size in sizes:
            total = self.t.mul(total, size)
        return total

    def _factor(self, name: str, axes: str, free: str) -> Memory:
        sizes = [free if x == "f" else self.length if x == "k" else self.sizes[int(x)] for x in axes]
        return self._of_sizes(name, sizes, read_only=True)

    def _of_sizes(self, name: str, sizes: Sequence[Index], read_only: bool = False) -> Memory:
        given = tuple(map(self.t.index, sizes))
        return Memory(name, (-1,) * len(given), self.form.element, read_only, given)

    def _batch_places(self) -> Sequence[Index]:
        """The place along each batch axis."""
        rest, places = self.batch, list[Index]()
        for size in reversed(self.sizes):
            places.append(self.t.of_indices("remui", rest, size))
            rest = self.t.of_indices("divui", rest, size)
        return places[::-1]

    def _share_of(self, group: Index, axis: int, size: str) -> tuple[str, str]:
        start = self.t.of_indices("muli", group, self.share[axis])
        return start, self.t.of_indices("minsi", self.t.add(start, self.share[axis]), size)

    def _column_panel(self, j: str, first: str) -> Index:
        return self.t.mul(self.t.of_indices("subi", j, first), self.terms)

    def _row_panel(self, i: str, row: str) -> Index:
        return self.t.add(self.t.mul(self.t.of_indices("subi", i, row), self.terms), self.left_at)

    # ---------------------------------------------------------------- panels

    def _pack(self, part: _Part, term: str, terms: str, to: Index) -> None:
        """Writes a panel: for each term the elements of the part.

        Its vectors may reach beyond the panel: they are written from its beginning to its end, and the next panel after
        it. Rows beyond the last one are copies of it, which nothing reads in the end.
        """
        pack = self._pack_transposed if part.is_transposed else self._pack_rows
        pack(part, term, terms, to)

    def _pack_transposed(self, part: _Part, term: str, terms: str, to: Index) -> None:
        t, lanes = self.t, self.form.lanes
        rows = [t.of_indices("minsi", t.add(part.first, r), t.add(part.end, -1)) for r in range(part.width)]
        starts = range(0, part.width, lanes)
        with t.loop(0, terms, lanes) as step:
            k = t.of_indices("minsi", step, t.of_indices("subi", terms, lanes))  # the last vectors end with the terms
            base, groups = t.add(to, t.mul(k, part.width)), []
            for start in starts:
                read = [t.vector(part.memory, *part.place(row, t.add(term, k))) for row in rows[start : start + lanes]]
                groups.append(t.transposed([*read, *[t.zeros()] * (lanes - len(read))]))
            for n in range(lanes):
                for start, group in zip(starts, groups, strict=True):
                    t.put(group[n], self.panels, self.group, t.add(base, n * part.width + start))

    def _pack_rows(self, part: _Part, term: str, terms: str, to: Index) -> None:
        t, lanes = self.t, self.form.lanes
        starts = range(0, part.width, lanes)

        def copy(load: Callable[[int, Sequence[Index]], str]) -> None:
            with t.loop(0, terms) as k:
                base = t.add(to, t.mul(k, part.width))
                for start in starts:
                    x = load(start, part.place(t.add(part.first, start), t.add(term, k)))
                    t.put(x, self.panels, self.group, t.add(base, start))

        left = t.of_indices("subi", part.end, part.first)
        with t.branch(t.compare("sle", starts[-1] + lanes, left)) as otherwise:
            copy(lambda _, place: t.vector(part.memory, *place))
            otherwise()
            masks = {start: t.mask(t.add(left, -start)) for start in starts}
            copy(lambda start, place: t.masked_vector(masks[start], part.memory, *place))

    # ---------------------------------------------------------------- tiles

    def _tile(self, rows: Index, columns: Index, terms: Index) -> Tile:
        """The sums of the products of two panels."""
        t, form = self.t, self.form

        def at(k: str, panel: Index, width: int, n: int) -> Index:
            return t.add(t.add(panel, t.mul(k, width)), n)

        return t.plus_products(
            [[t.zeros()] * form.vectors for _ in range(form.rows)], (0, terms),
            lambda r, k: t.load(self.panels, self.group, at(k, rows, form.rows, r)),
            lambda k: t.row(self.panels, self.group, at(k, columns, form.width, 0)),
        )  # fmt: skip

    def _store(self, tile: Tile, i: str, j: str, term: str) -> None:
        """Writes a tile of the result, or adds it to what earlier terms have made."""
        t, form = self.t, self.form
        rows, columns = t.of_indices("subi", self.rows, i), t.of_indices("subi", self.columns, j)
        is_whole = t.op(f"arith.andi {t.compare('sle', form.rows, rows)}, {t.compare('sle', form.width, columns)} : i1")
        places = [(self.batch, t.add(i, r), j) for r in range(form.rows)]
        with t.branch(t.compare("eq", t.add(term, self.adds), 0)) as later:
            self._put_tile(tile, places, is_whole, rows, columns, adds=False)
            later()
            self._put_tile(tile, places, is_whole, rows, columns, adds=True)

    def _put_tile(
        self, tile: Tile, places: Sequence[Sequence[Index]], is_whole: str, rows: str, columns: str, adds: bool
    ) -> None:
        t, form = self.t, self.form
        with t.branch(is_whole) as otherwise:
            for row, place in zip(tile, places, strict=True):
                t.put_row(t.sums(row, t.row(self.c, *place)) if adds else row, self.c, *place)
            otherwise()
            masks = [t.mask(t.add(columns, -v * form.lanes)) for v in range(form.vectors)]
            for r, (row, (batch, i, j)) in enumerate(zip(tile, places, strict=True)):
                with t.branch(t.compare("slt", r, rows)):
                    for v, mask in enumerate(masks):
                        place = batch, i, t.add(j, v * form.lanes)
                        before = [t.masked_vector(mask, self.c, *place)] if adds else []
                        (x,) = t.sums(row[v : v + 1], before) if adds else row[v : v + 1]
                        t.masked_put(mask, x, self.c, *place)


@dataclass(frozen=True)
class _Part:
    """What a panel holds: `width` rows (or columns) of a factor from `first` on, of those before `end`."""

    memory: Memory
    place: Place
    first: str
    width: int
    end: str

    @property
    def is_transposed(self) -> bool:
        """Whether the terms of one row lie beside each other, and not the rows of one term."""
        before, after = self.place("row", "term")[-1], "term"
        return before == after


def _place(axes: str, batches: Sequence[Index]) -> Place:
    return lambda free, term: [free if a == "f" else term if a == "k" else batches[int(a)] for a in axes]
