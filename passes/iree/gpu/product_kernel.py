"""The text of a kernel that computes a contraction: each block of threads computes one tile of the result."""

from __future__ import annotations

from nabla_mlir.passes.iree.gpu.addresses import Indices, offset_of, positions, split_index
from nabla_mlir.passes.iree.gpu.contraction import Access, Contraction
from nabla_mlir.passes.iree.gpu.tiles import Tiling
from nabla_mlir.passes.iree.gpu.writer import Code, Writer, type_of

_GROUP = 8  # rows of tiles that run together, so that the tiles of b that they share stay in the cache


def product_kernel(name: str, c: Contraction, t: Tiling) -> str:
    """The text of a module with the kernel `name` of a canonical contraction, in Triton's dialect.

    Its arguments are a, b and the result of shape [splits, batch, rows, columns]; result s is the sum of part s of the inner
    indices. There is one block of threads for each tile, the tiles of one part and one batch index first.
    """
    return _Kernel(c, t).text(name)


class _Kernel:
    """Writes the kernel of a contraction with a tiling."""

    def __init__(self, c: Contraction, t: Tiling):
        self.c, self.t, self.w = c, t, Writer()
        self.batch, self.rows, self.columns, self.inner = c.shape

    def text(self, name: str) -> str:
        """The text of the module with the kernel."""
        # c: the contraction; t: the sizes of its tiles; w: the writer of the text.
        c, t, w = self.c, self.t, self.w
        arguments = [Code(f"%{x}", f"{kind}*", ()) for x, kind in (("a", c.element), ("b", c.element), ("c", self.stored))]
        part, batch, row, column = self._tile()
        rows = positions(w, row, t.rows, self.rows)
        columns = positions(w, column, t.columns, self.columns)
        known = split_index(w, c.sizes, c.batch, batch) if batch is not None else {}
        at_rows = known | {axis: w.expand(x, 1) for axis, x in split_index(w, c.sizes, c.rows, rows).items()}
        at_columns = known | {axis: w.expand(x, 0) for axis, x in split_index(w, c.sizes, c.columns, columns).items()}
        row_mask = w.expand(w.less(rows, self.rows), 1) if self.rows % t.rows else None
        column_mask = w.expand(w.less(columns, self.columns), 0) if self.columns % t.columns else None
        total = self._sum(arguments, at_rows, at_columns, row_mask, column_mask, part)
        shape = (t.rows, t.columns)
        if self.stored != "f32":
            text = f"arith.truncf {total.name} : {total.type} to {type_of(self.stored, shape)}"
            total = w.op(text, self.stored, shape)
        offset, _ = offset_of(w, c.c, at_rows | at_columns)
        if part is not None:
            step = w.times(part, self.batch * self.rows * self.columns)
            offset = step if offset is None else w.add(offset, step)
        w.store(w.pointers(arguments[2], offset, shape), total, w.all([m for m in (row_mask, column_mask) if m]))
        return w.module(name, {x.name: x.element[:-1] for x in arguments})

    @property
    def stored(self) -> str:
        """The type of the elements that the kernel writes: partial sums are f32."""
        return self.c.result if self.t.splits == 1 else "f32"

    def _tile(self) -> tuple[Code | None, Code | None, Code, Code]:
        """The part of the inner indices and the batch index of a block of threads (None if there is only one), and its tile.

        The tile is given by its row and its column among the tiles.
        """
        w, t = self.w, self.t
        tile_rows, tile_columns = -(-self.rows // t.rows), -(-self.columns // t.columns)
        block = w.op("tt.get_program_id x : i32", "i32")
        tile, outer = w.rest(block, tile_rows * tile_columns), w.over(block, tile_rows * tile_columns)
        batch = w.rest(outer, self.batch) if self.batch > 1 else None
        part = w.over(outer, self.batch) if t.splits > 1 else None
        if tile_rows <= 1 or tile_columns <= 1:
            zero = w.number(0)
            return part, batch, *((tile, zero) if tile_columns <= 1 else (zero, tile))
        # Blocks run over groups of _GROUP rows of tiles, column by column: blocks that run together read the same tiles.
        first = w.times(w.over(tile, _GROUP * tile_columns), _GROUP)
        inside = w.rest(tile, _GROUP * tile_columns)
        if tile_rows % _GROUP == 0:
            return part, batch, w.add(first, w.rest(inside, _GROUP)), w.over(inside, _GROUP)
        rows_left = w.add(w.number(tile_rows), w.times(first, -1))
        count = w.least(rows_left, w.number(_GROUP))
        row = w.op(f"arith.remsi {inside.name}, {count.name} : i32", "i32")
        column = w.op(f"arith.divsi {inside.name}, {count.name} : i32", "i32")
        return part, batch, w.add(first, row), column

    def _sum(
        self,
        arguments: list[Code],
        at_rows: Indices,
        at_columns: Indices,
        row_mask: Code | None,
        column_mask: Code | None,
        part: Code | None,
    ) -> Code:
        """A tile of the result: the sum over the inner indices of `part` (None: all), as a loop over tiles of inner indices.

        The other arguments are the pointers a, b and c, and the indices and masks of the rows and columns of the tile.
        """
        c, t, w = self.c, self.t, self.w
        shape = (t.rows, t.columns)
        start, end, step = w.number(0), w.number(self.inner), w.number(t.inner)
        if part is not None:
            start = w.times(part, t.part(self.inner))
            end = w.least(w.add(start, w.number(t.part(self.inner))), end)

        def tile(k: Code, sum: Code) -> Code:
            """Adds the product of the tiles of a and b that begin at the inner index k."""
            inner, mask = self._inner(k)
            x = self._load(
                arguments[0],
                c.a,
                at_rows,
                {axis: _expanded(w, x, 0) for axis, x in inner.items()},
                [row_mask, w.expand(mask, 0) if mask else None],
                (t.rows, t.inner),
            )
            y = self._load(
                arguments[1],
                c.b,
                at_columns,
                {axis: _expanded(w, x, 1) for axis, x in inner.items()},
                [column_mask, w.expand(mask, 1) if mask else None],
                (t.inner, t.columns),
            )
            precision = f", inputPrecision = {t.precision}" if c.element == "f32" else ""
            text = f"tt.dot {x.name}, {y.name}, {sum.name}{precision} : {x.type} * {y.type} -> {sum.type}"
            return Code(w.result(text), "f32", shape)

        return w.sum_loop(start, end, step, w.zeros("f32", shape), tile)

    def _inner(self, k: Code) -> tuple[dict[int, Code], Code | None]:
        """The indices along the inner axes in the tile that begins at inner index k, and a mask: true for those that exist.

        The mask is None if all exist.
        """
        c, t, w = self.c, self.t, self.w
        *slow, fast = c.inner
        size = c.sizes[fast]
        if slow and size % t.inner == 0:  # the slow axes have one index in the whole tile
            outer = split_index(w, c.sizes, slow, w.over(k, size))
            return outer | {fast: w.add(w.rest(k, size), w.range(t.inner))}, None
        index = w.add(k, w.range(t.inner))
        is_whole = self.inner % t.inner == 0
        return split_index(w, c.sizes, c.inner, index), None if is_whole else w.less(index, self.inner)

    def _load(
        self, base: Code, access: Access, outer: Indices, inner: Indices, masks: list[Code | None], shape: tuple[int, int]
    ) -> Code:
        """A tile of a or b, with zeros outside the array.

        Args:
          base: the pointer to the array.
          access: the addresses of its elements.
          outer, inner: the indices along the axes.
          masks: true for the elements that exist.
          shape: the shape of the tile.
        """
        offset, inside = offset_of(self.w, access, {**outer, **inner})
        mask = self.w.all([m for m in (*masks, *inside) if m is not None])
        return self.w.load(self.w.pointers(base, offset, shape), mask)


def _expanded(w: Writer, x: Code, axis: int) -> Code:
    """The indices `x` with an additional axis of size 1; a scalar is unchanged."""
    return w.expand(x, axis) if x.shape else x
