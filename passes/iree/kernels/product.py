"""Products of matrices as a kernel: blocks of both factors are packed, and tiles of the result stay in registers.

The loops are those of Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008). For one block
of terms at a time, the right factor is packed as panels of columns. As many rows of the left factor as fit into a
core's own cache are packed as panels of rows. Then each panel is multiplied with each. Panels are read from beginning
to end, so the memory layout of the factors does not matter.

Names in the code: the product is C[b, i, j] = sum over k of A[b, i, k] B[b, k, j], a term is one k, and a share is the part of C
that one workgroup computes.

Sizes and strides are arguments of the kernel, so one kernel serves all products of one kind of layout. A factor may
consist of overlapping windows (layout.py): then the product is a convolution.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nabla_mlir.base import thresholds
from nabla_mlir.passes.iree.internals.executables import workgroup
from nabla_mlir.passes.iree.kernels.layout import AXES, Kind, Layout, View
from nabla_mlir.passes.iree.kernels.panels import Panel, Panels
from nabla_mlir.passes.iree.kernels.text import Form, Index, Memory, Text, Tile, round_up


@dataclass(frozen=True)
class Product:
    """C[b, i, j] = sum over k of A[b, i, k] B[b, k, j].

    Args:
      batch: the sizes of the batch axes.
      left: the layout of A.
      right: the layout of B; its free axes are the columns.
      element: the element type of both, f32 or f64.
    """

    batch: tuple[int, ...]
    left: Layout
    right: Layout
    element: str

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The number of rows, of columns, and of terms of a sum."""
        return self.left.rows, self.right.rows, self.left.length

    @property
    def numbers(self) -> tuple[int, ...]:
        """The sizes and strides of the product, as the integer arguments of the kernel."""
        return *self.sizes, *[1] * (AXES - len(self.batch)), *self.batch, *self.left.numbers, *self.right.numbers

    @property
    def batches(self) -> int:
        """The number of batch axes of the kernel."""
        return max(AXES, len(self.batch))

    @property
    def result_shape(self) -> tuple[int, ...]:
        """The shape of C, with its batch axes joined."""
        return math.prod(self.batch), self.left.rows, self.right.rows


@dataclass(frozen=True)
class Blocks:
    """The sizes of the blocks of a product.

    Args:
      terms: the number of terms of a block.
      rows: the number of rows of the left factor in a block.
      share: the number of rows and columns of the result for each workgroup.
      counts: the number of workgroups along rows and along columns.
    """

    terms: int
    rows: int
    share: tuple[int, int]
    counts: tuple[int, int]

    @staticmethod
    def of(product: Product, form: Form) -> Blocks:
        """The blocks of a product: terms in blocks of about equal size, and as many shares of whole tiles as there is work for."""
        m, n, length = product.sizes
        groups = -(-thresholds.PACKED_GROUPS // math.prod(product.batch))
        wanted = max(1, min(groups, m * n * length // thresholds.PACKED_GROUP_WORK))

        def share(counts: tuple[int, int]) -> tuple[int, int]:
            """The rows and columns of C for each workgroup, in whole tiles, if there are `counts` workgroups along both."""
            return round_up(-(-m // counts[0]), form.rows), round_up(-(-n // counts[1]), form.width)

        def cost(counts: tuple[int, int]) -> float:
            """The time per multiplication: packing counts as 10 multiplications an element; padding counts as work."""
            rows, columns = share(counts)
            return 10 / rows + 10 / columns + rows * columns * math.prod(counts) / (m * n)

        counts = min(((p, -(-wanted // p)) for p in range(1, wanted + 1)), key=cost)
        rows, columns = share(counts)
        return Blocks(
            # Terms are cut into blocks of equal size, at most PACKED_TERMS each.
            terms=min(length, round_up(-(-length // -(-length // thresholds.PACKED_TERMS)), form.lanes)),
            rows=min(rows, max(1, thresholds.PACKED_ROWS // form.rows) * form.rows),
            share=(rows, columns),
            counts=(-(-m // rows), -(-n // columns)),
        )


@dataclass(frozen=True)
class ProductKernel:
    """A kernel for a product, with the arguments of its call.

    Args:
      name: the name of the kernel; equal texts have equal names.
      text: the text of the executable.
      numbers: i32 arguments before the factors. The caller appends another one: 1 to add to the old result, 0 to replace it.
      workload: the number of workgroups in x and y.
      results: the shapes of the product and of the scratch memory.
    """

    name: str
    text: str
    numbers: tuple[int, ...]
    workload: tuple[int, int]
    results: tuple[tuple[int, ...], tuple[int, ...]]

    @staticmethod
    def of(product: Product, vector_bytes: int) -> ProductKernel:
        """The kernel of a product, for vector registers of that width."""
        form = form_of(product, vector_bytes)
        blocks, batch = Blocks.of(product, form), math.prod(product.batch)
        name, text = _name_and_text(form, product.batches, product.left.kind, product.right.kind)
        memory = blocks.terms * (blocks.share[1] + blocks.rows) + Panels.slack(form)
        groups = math.prod(blocks.counts)
        return ProductKernel(
            name,
            text,
            (*product.numbers, blocks.terms, blocks.rows, *blocks.share, *blocks.counts),
            (groups, batch),
            (product.result_shape, (groups * batch, memory)),
        )


@functools.cache
def _name_and_text(form: Form, batches: int, left: Kind, right: Kind) -> tuple[str, str]:
    """The name and the text of the kernel for factors of the layouts `left` and `right`, with this number of batch axes."""
    writer = _Writer(form, batches, left, right)
    return writer.name, writer.text()


def form_of(product: Product, vector_bytes: int) -> Form:
    """The form of tiles with the number of rows that wastes least: at most six with 16 registers, eight with 32."""
    form = Form.of(product.element, vector_bytes)
    tallest = 8 if vector_bytes >= 64 else 6
    return replace(form, rows=min((tallest, 4), key=lambda r: -(-product.left.rows // r) * (r + 1)))


class _Writer:
    """Writes the kernel for factors of two kinds; the constructor declares the arguments, in the order of the call."""

    def __init__(self, form: Form, batches: int, left: Kind, right: Kind):
        """Starts the text of a kernel for any sizes: the sizes, the strides and the blocks are its arguments."""
        self.t, self.form = Text(form), form
        self.name = f"product_{left}_{right}_{batches}_{form.element}_{form.rows}x{form.width}"
        number = self.t.number_argument
        self.rows, self.columns, self.length = number("rows"), number("columns"), number("length")
        self.sizes = [number(f"batch{n}") for n in range(batches)]
        self.a = View(self.t, "a", left, batches, self.rows)
        self.b = View(self.t, "b", right, batches, self.columns)
        self.terms, self.block_rows = number("terms"), number("block_rows")
        self.share = number("share_rows"), number("share_columns")
        self.counts = number("groups_m"), number("groups_n")
        self.adds = number("adds")  # 1: the product is added to the old result; 0: it replaces it

    def text(self) -> str:
        """The text of the executable.

        A workgroup has memory of its own: the panels of columns, the panels of rows from `left_at` on, and one tile from `slack_at`
        on.
        """
        t, form = self.t, self.form
        group, self.batch = (t.result(workgroup(axis)) for axis in (0, 1))
        of_batch, batches = t.mul(*self.counts), self._product(self.sizes)
        self.group = t.add(t.mul(self.batch, of_batch), group)
        self.left_at = t.mul(self.terms, self.share[1])
        self.slack_at = t.add(self.left_at, t.mul(self.terms, self.block_rows))
        memory = t.add(self.slack_at, Panels.slack(form))
        self.c = self._of_sizes("%c", (batches, self.rows, self.columns))
        self.panels = Panels(t, form, self._of_sizes("%panels", (t.mul(batches, of_batch), memory)), self.group)
        memories = [self.a.memory, self.b.memory, self.c, self.panels.memory]
        for position, m in enumerate(memories):
            t.bind(m, position)
        self._blocks(group)
        return t.kernel_of_sizes(self.name, memories)

    def _blocks(self, group: str) -> None:
        """Writes the loops over blocks and tiles for the workgroup with the index `group`."""
        t, form, write = self.t, self.form, self.panels.write
        a, b = (factor.of_batch(self._batch_positions()) for factor in (self.a, self.b))
        start, end = self._share_of(t.of_indices("remui", group, self.counts[0]), 0, self.rows)
        first, last = self._share_of(t.of_indices("divui", group, self.counts[0]), 1, self.columns)
        # For a block of terms: all column panels of the share are packed; then, for each block of rows, its row panels, and the
        # tiles.
        with t.loop(0, self.length, self.terms) as term:
            terms = t.of_indices("minsi", t.of_indices("subi", self.length, term), self.terms)
            with t.loop(first, last, form.width) as j:
                write(Panel(self.b, b, j, form.width), term, terms, self._column_panel(j, first))
            with t.loop(start, end, self.block_rows) as row:
                below = t.of_indices("minsi", t.add(row, self.block_rows), end)
                with t.loop(row, below, form.rows) as i:
                    write(Panel(self.a, a, i, form.rows), term, terms, self._row_panel(i, row))
                with t.loop(first, last, form.width) as j, t.loop(row, below, form.rows) as i:
                    for r in range(form.rows):  # prefetches the old result while the tile is computed
                        t.prefetch(self.c, self.batch, t.add(i, r), j)
                    tile = self._tile(self._row_panel(i, row), self._column_panel(j, first), terms)
                    self._store(tile, i, j, term)

    # ---------------------------------------------------------------- positions

    def _product(self, sizes: Sequence[Index]) -> Index:
        """The product of indices as an index."""
        total: Index = 1
        for size in sizes:
            total = self.t.mul(total, size)
        return total

    def _of_sizes(self, name: str, sizes: Sequence[Index]) -> Memory:
        """A buffer of the name `name` whose sizes are indices of the kernel."""
        names = tuple(map(self.t.index, sizes))
        return Memory(name, (-1,) * len(names), self.form.element, given=names)

    def _batch_positions(self) -> Sequence[Index]:
        """The index along each batch axis, from the flat index of the workgroup's product."""
        flat, positions = self.batch, list[Index]()
        for size in reversed(self.sizes):
            positions.append(self.t.of_indices("remui", flat, size))
            flat = self.t.of_indices("divui", flat, size)
        return positions[::-1]

    def _share_of(self, group: Index, axis: int, size: str) -> tuple[str, str]:
        """The first row (axis 0) or column (axis 1) of a workgroup, and its end; `size` is the number of rows or columns."""
        start = self.t.of_indices("muli", group, self.share[axis])
        return start, self.t.of_indices("minsi", self.t.add(start, self.share[axis]), size)

    def _column_panel(self, j: str, first: str) -> Index:
        """The offset of column j in the packed columns, which begin with the column `first`."""
        return self.t.mul(self.t.of_indices("subi", j, first), self.terms)

    def _row_panel(self, i: str, row: str) -> Index:
        """The offset of row i in the packed rows, which begin with the row `row` and come after the packed columns."""
        return self.t.add(self.t.mul(self.t.of_indices("subi", i, row), self.terms), self.left_at)

    # ---------------------------------------------------------------- tiles

    def _tile(self, rows: Index, columns: Index, terms: Index) -> Tile:
        """A tile of the product of two panels: the sums over `terms` terms. `rows` and `columns` are the offsets of the panels."""
        t, form = self.t, self.form

        def offset(k: str, panel: Index, width: int, n: int) -> Index:
            """The offset of element n of term k in a panel of this width."""
            return t.add(t.add(panel, t.mul(k, width)), n)

        return t.plus_products(
            [[t.zeros()] * form.vectors for _ in range(form.rows)],
            (0, terms),
            lambda r, k: t.load(self.panels.memory, self.group, offset(k, rows, form.rows, r)),
            lambda k: t.row(self.panels.memory, self.group, offset(k, columns, form.width, 0)),
        )

    def _store(self, tile: Tile, i: str, j: str, term: str) -> None:
        """Writes a tile of the result, whose first element is (i, j); it is added to the old result if `term` is not the first."""
        t, form = self.t, self.form
        rows, columns = t.of_indices("subi", self.rows, i), t.of_indices("subi", self.columns, j)
        is_whole = t.result(f"arith.andi {t.compare('sle', form.rows, rows)}, {t.compare('sle', form.width, columns)} : i1")
        # The first block of terms replaces the old result, unless the caller asks to add to it.
        is_first = t.compare("eq", t.add(term, self.adds), 0)
        with t.if_holds(is_whole) as otherwise:
            positions = [(self.batch, t.add(i, r), j) for r in range(form.rows)]
            with t.if_holds(is_first) as else_add:
                for row, position in zip(tile, positions, strict=True):
                    t.put_row(row, self.c, *position)
                else_add()
                for row, position in zip(tile, positions, strict=True):
                    t.put_row(t.sums(row, t.row(self.c, *position)), self.c, *position)
            otherwise()
            self._store_part(tile, (i, j), (rows, columns), is_first)

    def _store_part(self, tile: Tile, position: tuple[str, str], sizes: tuple[str, str], is_first: str) -> None:
        """Writes the part of a tile that is inside the result.

        The tile is copied to memory first, so that one loop handles all rows and vectors.

        Args:
          tile: the tile.
          position: the row and the column of its first element.
          sizes: the numbers of rows and columns of the result from there on.
          is_first: an i1: the tile replaces the old result.
        """
        t, form, (i, j), (rows, columns) = self.t, self.form, position, sizes
        for n, row in enumerate(tile):
            t.put_row(row, self.panels.memory, self.group, t.add(self.slack_at, n * form.width))
        with t.loop(0, t.of_indices("minsi", rows, form.rows)) as r, t.loop(0, form.width, form.lanes) as lane:
            mask = t.mask(t.of_indices("subi", columns, lane))
            x = t.vector(self.panels.memory, self.group, t.add(t.add(self.slack_at, t.mul(r, form.width)), lane))
            target = self.batch, t.add(i, r), t.add(j, lane)
            with t.if_holds(is_first) as later:
                t.masked_put(mask, x, self.c, *target)
                later()
                (total,) = t.sums([x], [t.masked_vector(mask, self.c, *target)])
                t.masked_put(mask, total, self.c, *target)
