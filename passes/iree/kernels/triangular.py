"""Triangular systems of stacked matrices as a kernel."""

from __future__ import annotations

from nabla_mlir.passes.iree.internals.executables import workgroup
from nabla_mlir.passes.iree.kernels.text import Form, Memory, Text


def triangular_text(
    name: str, batch: int, n: int, columns: int, form: Form, lower: bool, transposed: bool, unit: bool
) -> tuple[str, list[Memory]]:
    """A kernel for X with op(A) X = B; op(A) is A or its transpose, and one triangle of A is read.

    A workgroup computes the columns of one tile, a few rows at a time from the first or from the last row on: it
    subtracts the products of known rows, and solves with the triangle of the current rows. Columns that do not fill a
    tile are copied to padded memory; the padding does not affect them.

    Args:
      name: the name of the kernel.
      batch: the number of systems.
      n: the number of rows of A, a multiple of `form.rows`.
      columns: the number of columns of B.
      form: the form of vectors and tiles.
      lower: True if A is lower triangular, False if it is upper triangular.
      transposed: True if op is the transposition.
      unit: True if the diagonal is one; it is then not read.

    Returns:
      The text, and the buffers of the results: X first, then memory that the kernel may need.
    """
    t, tiles = Text(form), -(-columns // form.width)
    a = Memory("%a", (batch, n, n), form.element, read_only=True)
    right = Memory("%right", (batch, n, columns), form.element, read_only=True)
    x = Memory("%x", (batch, n, columns), form.element)
    whole = Memory("%whole", (batch, n, tiles * form.width), form.element)
    is_whole = columns == whole.shape[2]
    column = t.of_indices("muli", t.result(workgroup()), form.width)
    b = t.result(workgroup(1))
    end = t.of_indices("minsi", t.add(column, form.width), columns)
    if not is_whole:
        _copy(t, right, whole, b, column, end)
    source, target = (right, x) if is_whole else (whole, whole)
    _solve(t, a, source, target, (b, column), lower != transposed, transposed, unit)
    if is_whole:
        return t.kernel(name, [a, right, x], (tiles, batch, 1)), [x]
    _copy(t, whole, x, b, column, end)
    return t.kernel(name, [a, right, x, whole], (tiles, batch, 1)), [x, whole]


def _copy(t: Text, source: Memory, target: Memory, b: str, start: str, end: str) -> None:
    """Writes a copy of the columns from `start` to `end` of matrix `b` of the batch."""
    with t.loop(0, source.shape[1]) as row, t.loop(start, end) as column:
        t.store(t.load(source, b, row, column), target, b, row, column)


def _solve(
    t: Text, a: Memory, right: Memory, x: Memory, position: tuple[str, str], forward: bool, transposed: bool, unit: bool
) -> None:
    """Writes the substitution for one tile of columns: from the first row on if `forward`, else from the last one.

    Args:
      t: the kernel.
      a: the matrices A.
      right: the right sides.
      x: the results; it may be the same memory as `right`.
      position: the index in the batch, and the first column of the tile.
      forward: True if op(A) is lower triangular.
      transposed: True if op is the transposition.
      unit: True if the diagonal of A is one.
    """
    (b, column), form, n = position, t.form, a.shape[1]

    def entry(i: str, j: str) -> str:
        """Element (i, j) of op(A)."""
        return t.load(a, b, j, i) if transposed else t.load(a, b, i, j)

    with t.loop(0, n, form.rows) as step:
        start = step if forward else t.of_indices("subi", n - form.rows, step)
        rows = [t.index(t.add(start, i)) for i in range(form.rows)]
        # Row i of X is (right[i] - sum over solved rows p of op(A)[i, p] X[p]) / op(A)[i, i].
        tile = t.minus_products(
            [t.row(right, b, row, column) for row in rows],
            (0, start) if forward else (t.add(start, form.rows), n),
            lambda i, p: entry(rows[i], p),
            lambda p: t.row(x, b, p, column),
        )
        order = list(range(form.rows)) if forward else list(reversed(range(form.rows)))
        for at, i in enumerate(order):
            if not unit:
                tile[i] = t.scaled(tile[i], t.scalar("arith.divf", t.number(1), entry(rows[i], rows[i])))
            t.put_row(tile[i], x, b, rows[i], column)
            for j in order[at + 1 :]:
                tile[j] = t.minus_product(tile[j], entry(rows[j], rows[i]), tile[i])
