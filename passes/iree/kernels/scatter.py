"""Sums of rows at given indices as a kernel: one update after another, in whole vectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from nabla_mlir.passes.iree.internals.executables import workgroup
from nabla_mlir.passes.iree.kernels.text import Form, Index, Memory, Text, round_up

LEAST_VECTORS, MOST_GROUPS = 4, 8  # vectors of a workgroup, and workgroups of a kernel


@dataclass(frozen=True)
class RowSums:
    """The description of sums of rows at given indices.

    Args:
      positions: the sizes of the indexed dimensions, which are the first ones of the result.
      width: the number of elements of a row, over all other dimensions.
      count: the number of updates.
      indices: the element type of the indices: i32, i64.
      is_onto_zeros: True if the updates are added to zeros.
      groups: the number of workgroups, each for some columns of all rows.
    """

    positions: tuple[int, ...]
    width: int
    count: int
    indices: str
    is_onto_zeros: bool
    groups: int


def scatter_text(name: str, sums: RowSums, form: Form) -> tuple[str, list[Memory]]:
    """A kernel that adds rows, the updates, to rows of a matrix at given indices; an update with an index out of range is dropped.

    Args:
      name: the name of the kernel.
      sums: the description of the sums.
      form: the form of vectors.

    Returns:
      The text, and the buffer of the result. The operands are the indices, the updates, and the initial matrix if it is
      not zero.
    """
    t, element, rows = Text(form), form.element, math.prod(sums.positions)
    indices = Memory("%indices", (sums.count, len(sums.positions)), sums.indices, read_only=True)
    updates = Memory("%updates", (sums.count, sums.width), element, read_only=True)
    start = Memory("%start", (rows, sums.width), element, read_only=True)
    result = Memory("%result", (rows, sums.width), element)
    # Each workgroup has a share of the columns.
    share = round_up(-(-sums.width // sums.groups), form.lanes)
    first = t.of_indices("muli", t.result(workgroup()), share)
    last = t.of_indices("minsi", t.add(first, share), sums.width)
    with t.loop(0, rows) as i:
        _over_columns(t, (first, last), lambda j, is_vector: _begin(t, sums, start, result, (i, j), is_vector))
    with t.loop(0, sums.count) as n:
        row, is_inside = _row(t, sums, indices, n)
        with t.if_holds(is_inside):
            _over_columns(t, (first, last), lambda j, is_vector: _add(t, updates, result, (n, row, j), is_vector))
    operands = [indices, updates] if sums.is_onto_zeros else [indices, updates, start]
    return t.kernel(name, [*operands, result], (sums.groups, 1, 1)), [result]


def _over_columns(t: Text, columns: tuple[str, str], body: Callable[[str, bool], None]) -> None:
    """Writes loops over the columns from `columns[0]` to `columns[1]`, first over vectors, then over the remaining elements.

    `body(j, is_vector)` writes the code for the vector of columns that begins at column j, or for column j.
    """
    first, last = columns
    whole = t.add(first, t.multiple(t.of_indices("subi", last, first), t.form.lanes))
    with t.loop(first, whole, t.form.lanes) as j:
        body(j, True)
    with t.loop(whole, last) as j:
        body(j, False)


def _begin(t: Text, sums: RowSums, start: Memory, result: Memory, position: tuple[Index, Index], is_vector: bool) -> None:
    """Stores the initial value of an element of the result, or of a vector that begins there: zero, or the value of `start`.

    `position` has its row and column.
    """
    if is_vector:
        t.put(t.zeros() if sums.is_onto_zeros else t.vector(start, *position), result, *position)
    else:
        t.store(t.number(0) if sums.is_onto_zeros else t.load(start, *position), result, *position)


def _add(t: Text, updates: Memory, result: Memory, position: tuple[Index, Index, Index], is_vector: bool) -> None:
    """Adds an element of an update, or a vector that begins there, to the result.

    `position` has the index of the update, the row of the result and the column.
    """
    n, row, j = position
    if is_vector:
        (x,) = t.sums([t.vector(result, row, j)], [t.vector(updates, n, j)])
        t.put(x, result, row, j)
    else:
        t.store(t.scalar("arith.addf", t.load(result, row, j), t.load(updates, n, j)), result, row, j)


def _row(t: Text, sums: RowSums, indices: Memory, n: Index) -> tuple[Index, str]:
    """The row of the result to which update n is added, and an i1 that is true if the row exists.

    A negative index is compared as a large unsigned number, so no row exists for it.
    """
    row: Index = 0
    is_inside = t.constant(1, "i1")
    for k, size in enumerate(sums.positions):
        index = t.result(f"arith.index_cast {t.load(indices, n, k)} : {sums.indices} to index")
        row = t.add(t.mul(row, size), index)
        is_inside = t.result(f"arith.andi {is_inside}, {t.compare('ult', index, size)} : i1")
    return row, is_inside


def groups_for(width: int, form: Form) -> int:
    """The number of workgroups for rows of `width` elements: each has some vectors at least, and there are only a few."""
    return max(1, min(MOST_GROUPS, width // (LEAST_VECTORS * form.lanes)))
