"""The Cholesky factorisation of stacked matrices as a kernel."""

from __future__ import annotations

from nabla_mlir.base import thresholds
from nabla_mlir.passes.iree.internals.executables import workgroup
from nabla_mlir.passes.iree.kernels.text import Form, Index, Memory, Text, Tile


def cholesky_text(name: str, batch: int, n: int, form: Form, lower: bool) -> tuple[str, list[Memory]]:
    """A kernel for U with Uᵀ U = A, from the upper triangle of A; if `lower`, for L = Uᵀ, from the lower triangle of A.

    The rows of U are computed in panels. Within a panel, each tile of rows subtracts the products of the rows above it,
    and solves with their triangle. Then the panel's products are subtracted from all rows below (right-looking, as
    LAPACK's potrf). A panel is also stored in `%panel` tile by tile, because rows of U with a distance of a power of
    two share cache lines.

    Args:
      name: the name of the kernel.
      batch: the number of matrices; each has one workgroup.
      n: the number of rows, a multiple of `form.width`.
      form: the form of vectors and tiles.
      lower: True if the lower triangle is read, and the result is L.

    Returns:
      The text, and the buffers of the results: the factor first, then memory that the kernel needs.
    """
    t, size = Text(form), max(thresholds.CHOLESKY_PANEL, form.width)
    a = Memory("%a", (batch, n, n), form.element, read_only=True)
    u = Memory("%u", (batch, n, n), form.element)
    factor = Memory("%l", (batch, n, n), form.element)
    panel = Memory("%panel", (batch, n // form.width, size, form.width), form.element)
    b = t.result(workgroup())
    _read_triangle(t, a, u, b, n, lower)
    with t.loop(0, n, size) as first:
        end = t.of_indices("minsi", t.add(first, size), n)
        with t.loop(first, end, form.rows) as row, t.loop(t.multiple(row, form.width), n, form.width) as column:
            _factor_tile(t, u, panel, b, first, row, column)
        terms = t.of_indices("subi", end, first)
        with t.loop(end, n, form.rows) as row, t.loop(t.multiple(row, form.width), n, form.width) as column:
            tile = _minus_panel(t, u, panel, b, (row, column), terms)
            for i, x in enumerate(tile):
                t.put_row(x, u, b, t.add(row, i), column)
    if lower:
        _write_transposed(t, u, factor, b, n)
        return t.kernel(name, [a, factor, u, panel], (batch, 1, 1)), [factor, u, panel]
    _clear_below(t, u, b, n)
    return t.kernel(name, [a, u, panel], (batch, 1, 1)), [u, panel]


def _read_triangle(t: Text, a: Memory, u: Memory, b: str, n: int, lower: bool) -> None:
    """Writes a copy of the upper triangle of A, or of the transposed lower one, to U, for matrix `b` of the batch.

    Elements below the diagonal of U may be written, too.
    """
    lanes = t.form.lanes
    if not lower:
        with t.loop(0, n) as i, t.loop(t.multiple(i, lanes), n, lanes) as j:
            t.put(t.vector(a, b, i, j), u, b, i, j)
        return
    with t.loop(0, n, lanes) as i, t.loop(0, t.add(i, 1), lanes) as j:
        # A square block of A, at the rows i ... and the columns j ..., becomes rows j ... of U.
        for k, x in enumerate(t.transposed([t.vector(a, b, t.add(i, k), j) for k in range(lanes)])):
            t.put(x, u, b, t.add(j, k), i)


def _minus_panel(t: Text, u: Memory, panel: Memory, b: str, position: tuple[str, str], terms: Index) -> Tile:
    """A tile of U, at a row and a column of matrix `b`, minus the products of the first `terms` rows of the panel.

    Element (i, j) of the tile becomes U[row + i, column + j] - sum over p of panel[p, row + i] panel[p, column + j].
    """
    row, column = position
    width, lanes = t.form.width, t.form.lanes
    # The memory of the panel has one piece for each `width` columns of U: the pieces with the columns of the tile, and with its
    # rows.
    columns_piece, rows_piece = t.of_indices("divui", column, width), t.of_indices("divui", row, width)
    offset = t.of_indices("remui", row, width)
    return t.minus_products(
        [t.row(u, b, t.add(row, i), column) for i in range(t.form.rows)],
        (0, terms),
        lambda i, p: t.load(panel, b, rows_piece, p, t.add(offset, i)),
        lambda p: [t.vector(panel, b, columns_piece, p, v * lanes) for v in range(t.form.vectors)],
    )


def _factor_tile(t: Text, u: Memory, panel: Memory, b: str, first: str, row: str, column: str) -> None:
    """Computes the final values of a tile of a panel, and writes them to U and to the memory of the panel.

    Args:
      t: the kernel.
      u: the matrices U.
      panel: the memory of the panel.
      b: the index of the matrix in the batch.
      first: the first row of the panel.
      row, column: the first row and the first column of the tile.
    """
    above = t.of_indices("subi", row, first)
    tile = _minus_panel(t, u, panel, b, (row, column), above)
    # The pieces of the panel's memory with the columns of the tile, and with its diagonal.
    columns_piece, diagonal_piece = (t.of_indices("divui", x, t.form.width) for x in (column, row))
    rows = [t.add(row, i) for i in range(t.form.rows)]

    def finish(has_diagonal: bool) -> None:
        """Solves with the triangle of the tile, row by row; a diagonal tile is factored at the same time."""
        # Row i of U is (row i of the tile, minus the rows above) / U[i, i], with U[i, i] = sqrt(pivot).
        left = [list(x) for x in tile]
        for i, index in enumerate(rows):
            if has_diagonal:  # for the scalars that are read below
                t.put_row(left[i], u, b, index, column)
            pivot = t.load(u, b, index, index)
            if has_diagonal:
                pivot = t.scalar("math.sqrt", pivot)
            left[i] = t.scaled(left[i], t.scalar("arith.divf", t.number(1), pivot))
            t.put_row(left[i], u, b, index, column)
            t.put_row(left[i], panel, b, columns_piece, t.add(above, i), 0)
            for j in range(i + 1, len(rows)):
                left[j] = t.minus_product(left[j], t.load(u, b, index, rows[j]), left[i])

    with t.if_holds(t.result(f"arith.cmpi eq, {columns_piece}, {diagonal_piece} : index")) as otherwise:
        finish(has_diagonal=True)
        otherwise()
        finish(has_diagonal=False)


def _clear_below(t: Text, u: Memory, b: str, n: int) -> None:
    """Writes zeros below the diagonal of U, for matrix `b` of the batch, of n rows."""
    zeros = t.constant("dense<0.0>", t.form.vector)
    with t.loop(0, n) as i:
        whole = t.multiple(i, t.form.lanes)
        with t.loop(0, whole, t.form.lanes) as j:
            t.put(zeros, u, b, i, j)
        with t.loop(whole, i) as j:
            t.store(t.number(0), u, b, i, j)


def _write_transposed(t: Text, u: Memory, factor: Memory, b: str, n: int) -> None:
    """Writes the factor L = Uᵀ of matrix `b` of the batch, of n rows, with zeros above the diagonal."""
    lanes, zeros = t.form.lanes, t.constant("dense<0.0>", t.form.vector)
    with t.loop(0, n, lanes) as first:
        rows = [t.add(first, i) for i in range(lanes)]
        for i in range(1, lanes):
            for j in range(i):
                t.store(t.number(0), u, b, rows[i], rows[j])
        with t.loop(first, n, lanes) as row:
            for k, x in enumerate(t.transposed([t.vector(u, b, above, row) for above in rows])):
                t.put(x, factor, b, t.add(row, k), first)
        with t.loop(t.add(first, lanes), n, lanes) as column:
            for above in rows:
                t.put(zeros, factor, b, above, column)
