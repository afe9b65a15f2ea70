"""The LU factorisation with row exchanges of stacked matrices as a kernel."""

from __future__ import annotations

from nabla_mlir.base import thresholds
from nabla_mlir.passes.iree.internals.executables import workgroup
from nabla_mlir.passes.iree.kernels.text import Form, Index, Memory, Text, Tile


def lu_text(name: str, batch: int, shape: tuple[int, int], true: tuple[int, int], form: Form) -> tuple[str, list[Memory]]:
    """A kernel for P A = L U as LAPACK's getrf: L and U are in one matrix, and P is the row that each row is exchanged with.

    The columns of a panel are factored one after another: the largest remaining entry is the pivot, its row moves up,
    and multiples of it are subtracted from the rows below. Then the panel's triangle is solved for the rows to its
    right, and products with these are subtracted from the rows below (right-looking). The rows are also stored in
    `%panel` tile by tile, because rows of the matrix with a distance of a power of two share cache lines.

    Args:
      name: the name of the kernel.
      batch: the number of matrices; each has one workgroup.
      shape: the number of rows, a multiple of `form.rows`, and of columns, a multiple of LU_PANEL.
      true: the number of rows and columns without padding; the padding is zero and never a pivot.
      form: the form of vectors and tiles.

    Returns:
      The text, and the buffers of the results: the factors, the pivots (i32, from 0), and memory that the kernel needs.
    """
    m, n = shape
    t, last = Text(form), min(true)
    a = Memory("%a", (batch, m, n), form.element, read_only=True)
    u = Memory("%u", (batch, m, n), form.element)
    pivots = Memory("%pivots", (batch, last), "i32")
    panel = Memory("%panel", (batch, n // form.width, thresholds.LU_PANEL, form.width), form.element)
    b = t.result(workgroup())
    with t.loop(0, m) as i, t.loop(0, n, form.lanes) as j:
        t.put(t.vector(a, b, i, j), u, b, i, j)
    with t.loop(0, last, thresholds.LU_PANEL) as first:
        end = t.of_indices("minsi", t.add(first, thresholds.LU_PANEL), last)
        _factor_panel(t, u, pivots, b, (first, end), true[0])
        _solve_right(t, u, panel, b, (first, end))
        terms, after = t.of_indices("subi", end, first), t.add(first, thresholds.LU_PANEL)
        with t.loop(after, m, form.rows) as row, t.loop(after, n, form.width) as column:
            for k, x in enumerate(_minus_panel(t, u, panel, b, (first, row, column), terms)):
                t.put_row(x, u, b, t.add(row, k), column)
    return t.kernel(name, [a, u, pivots, panel], (batch, 1, 1)), [u, pivots, panel]


def _factor_panel(t: Text, u: Memory, pivots: Memory, b: str, columns: tuple[str, str], rows: int) -> None:
    """Factors the columns of a panel in place, and writes the pivot rows.

    For each column c: row c is exchanged with the row of the largest |U[i, c]|, then for each row i below, factor = U[i, c] / U[c,
    c], U[i, j] -= factor U[c, j] for the columns j > c of the panel, and U[i, c] = factor.

    Args:
      t: the kernel.
      u: the matrices.
      pivots: the row with which each row is exchanged.
      b: the index of the matrix in the batch.
      columns: the first column of the panel, and its end.
      rows: the number of rows of the matrix without padding.
    """
    first, end = columns
    candidate = [t.form.element, "index"]  # an absolute value, at first -1, which is smaller than any, and its row
    best = t.carried(first, rows, [t.number(-1), first], candidate, lambda i, best: _larger(t, u, b, i, first, best))

    def step(c: str, best: list[str]) -> list[str]:
        """Exchanges the pivot row of column c, subtracts its products from the rows below, and finds the next pivot."""
        t.store(t.result(f"arith.index_cast {best[1]} : index to i32"), pivots, b, c)
        _exchange(t, u, b, c, best[1])
        inverse = _inverse(t, t.load(u, b, c, c))
        # Masks of the columns after c: a lane of vector v is column first + v * lanes + lane.
        later, lanes = t.of_indices("subi", c, first), t.form.lanes
        kind = f"vector<{lanes}xindex>"
        lane = t.result(f"vector.step : {kind}")
        parts = [t.add(first, v * lanes) for v in range(thresholds.LU_PANEL // lanes)]
        pivot_row = [t.vector(u, b, c, part) for part in parts]
        bounds = [
            t.result(f"vector.broadcast {t.of_indices('subi', later, v * lanes)} : index to {kind}") for v in range(len(parts))
        ]
        is_later = [t.result(f"arith.cmpi sgt, {lane}, {bound} : {kind}") for bound in bounds]
        # After the last column, any column that exists may be read: nothing uses its pivot.
        following = t.of_indices("minsi", t.add(c, 1), u.shape[2] - 1)

        def reduce_row(i: str, best: list[str]) -> list[str]:
            """Subtracts a multiple of the pivot row from row i; returns the best pivot of the next column so far."""
            factor = t.scalar("arith.mulf", t.load(u, b, i, c), inverse)
            old = [t.vector(u, b, i, part) for part in parts]
            new = t.minus_product(old, factor, pivot_row)
            for part, keep, x, y in zip(parts, is_later, new, old, strict=True):
                value = t.result(f"arith.select {keep}, {x}, {y} : vector<{lanes}xi1>, {t.form.vector}")
                t.put(value, u, b, i, part)
            t.store(factor, u, b, i, c)
            return _larger(t, u, b, i, following, best)

        return t.carried(t.add(c, 1), rows, [t.number(-1), t.index(following)], candidate, reduce_row)

    t.carried(first, end, best, candidate, step)


def _larger(t: Text, u: Memory, b: str, row: str, column: str, best: list[str]) -> list[str]:
    """The entry of matrix `b` or `best`, whichever has the larger absolute value: a pair of this value and the row."""
    size = t.scalar("math.absf", t.load(u, b, row, column))
    more = t.result(f"arith.cmpf ogt, {size}, {best[0]} : {t.form.element}")
    return [
        t.result(f"arith.select {more}, {size}, {best[0]} : {t.form.element}"),
        t.result(f"arith.select {more}, {row}, {best[1]} : index"),
    ]


def _exchange(t: Text, u: Memory, b: str, i: str, j: str) -> None:
    """Writes the exchange of rows i and j of matrix `b` of the batch."""
    with t.loop(0, u.shape[2], t.form.lanes) as column:
        x, y = (t.vector(u, b, row, column) for row in (i, j))
        t.put(y, u, b, i, column)
        t.put(x, u, b, j, column)


def _inverse(t: Text, pivot: str) -> str:
    """The inverse of the pivot; 1 for a zero pivot, below which all entries are zero. IREE treats subnormal numbers as zero."""
    element, one = t.form.element, t.number(1)
    smallest = t.number(2.0**-126 if element == "f32" else 2.0**-1022)
    is_zero = t.result(f"arith.cmpf olt, {t.scalar('math.absf', pivot)}, {smallest} : {element}")
    return t.result(f"arith.select {is_zero}, {one}, {t.scalar('arith.divf', one, pivot)} : {element}")


def _minus_panel(t: Text, u: Memory, panel: Memory, b: str, position: tuple[str, str, str], terms: Index) -> Tile:
    """A tile of matrix `b` minus the product of L (its rows, `terms` columns of the panel) and U (`terms` rows, its columns).

    `position` has the first column of the panel, and the first row and column of the tile.
    """
    first, row, column = position
    piece, lanes = t.of_indices("divui", column, t.form.width), t.form.lanes
    rows = [t.add(row, i) for i in range(t.form.rows)]
    return t.minus_products(
        [t.row(u, b, index, column) for index in rows],
        (0, terms),
        lambda i, p: t.load(u, b, rows[i], t.add(first, p)),
        lambda p: [t.vector(panel, b, piece, p, v * lanes) for v in range(t.form.vectors)],
    )


def _solve_right(t: Text, u: Memory, panel: Memory, b: str, columns: tuple[str, str]) -> None:
    """Writes the rows of U to the right of a panel: X in L X = B, for the panel's triangle L with ones on the diagonal.

    Row j of X is B[j] - sum over i < j of L[j, i] X[i]. `columns` are the first column of the panel and its end, which are also the
    rows of X; `b` is the index of the matrix.
    """
    first, end = columns
    count = t.of_indices("subi", end, first)
    right = t.add(first, thresholds.LU_PANEL)
    with t.loop(right, u.shape[2], t.form.width) as column, t.loop(0, count, t.form.rows) as above:
        row = t.index(t.add(first, above))
        tile = _minus_panel(t, u, panel, b, (first, row, column), above)
        # The piece of the panel's memory that has the columns of the tile.
        piece, rows = t.of_indices("divui", column, t.form.width), [t.add(row, i) for i in range(t.form.rows)]
        for i, at in enumerate(rows):
            t.put_row(tile[i], u, b, at, column)
            t.put_row(tile[i], panel, b, piece, t.add(above, i), 0)
            for j in range(i + 1, len(rows)):
                tile[j] = t.minus_product(tile[j], t.load(u, b, rows[j], at), tile[i])
