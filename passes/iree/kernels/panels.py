"""Panels of a factor: the part that a product reads for one tile, copied term by term to adjacent memory.

A product is a sum over terms, C[i, j] = sum over k of A[i, k] B[k, j]; a factor is A or B. A panel of A has a few rows, and first
all their elements of the first term, then those of the next one; a panel of B has columns.

A run is a sequence of consecutive terms (or rows) that have one stride in memory; they lie along the last of several axes. The
offset of a term is the offset of its run, plus the index of the term in the run times the stride (see layout.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from nabla_mlir.passes.iree.kernels.layout import View
from nabla_mlir.passes.iree.kernels.text import Form, Index, Memory, Text


@dataclass(frozen=True)
class Panel:
    """The content of a panel: `width` rows (or columns) of a factor, for each term of a block.

    Args:
      factor: the factor.
      base: the offset of its matrix.
      first: the first row; values for rows after the last one do not reach the result.
      width: the number of rows.
    """

    factor: View
    base: Index
    first: str
    width: int


@dataclass(frozen=True)
class Panels:
    """The memory of a workgroup for panels.

    Vectors may reach beyond a panel: panels are written in order, from beginning to end, and the last one is followed
    by slack.
    """

    t: Text
    form: Form
    memory: Memory
    group: Index

    @staticmethod
    def slack(form: Form) -> int:
        """The number of elements after the last panel; they also have room for a tile."""
        return max(form.lanes, form.rows) * max(form.width, form.rows)

    def write(self, panel: Panel, term: str, terms: str, target: Index) -> None:
        """Writes a copy of a panel to memory, from the offset `target` on: `terms` terms from the index `term` on."""
        match panel.factor.unit:
            case "k":
                self._transposed(panel, term, terms, target)
            case "f":
                self._rows(panel, term, terms, target)
            case _:
                self._elements(panel, term, terms, target)

    def _transposed(self, panel: Panel, term: str, terms: str, target: Index) -> None:
        """Writes a copy of a panel whose terms are adjacent in the factor: it loads vectors of terms and stores vectors of rows."""
        lanes, width = self.form.lanes, panel.width
        if width % lanes:  # the last vector also writes to the start of the next term, which is written correctly after it
            groups = [(start, min(lanes, width - start)) for start in range(0, width, lanes)]
            self._transposed_groups(panel, groups, (term, terms), target)
            return
        with self.t.loop(0, width, lanes) as start:
            self._transposed_groups(panel, [(start, lanes)], (term, terms), target)

    def _transposed_groups(self, panel: Panel, groups: Sequence[tuple[Index, int]], block: tuple[str, str], target: Index) -> None:
        """Writes a copy of groups of rows of a panel, whose terms are adjacent in the factor.

        Args:
          panel: the panel.
          groups: the first row and the number of rows of each group, at most the number of lanes.
          block: the first term, and the number of terms.
          target: the offset of the panel in memory.
        """
        t, lanes, factor = self.t, self.form.lanes, panel.factor
        positions = [factor.of_rows(panel.base, t.add(panel.first, start), count) for start, count in groups]
        with self._runs(panel, *block) as (run, first_of_run, low, high), t.loop(low, high, lanes) as k:
            mask = t.mask(t.of_indices("subi", high, k))
            offset = factor.of_term(run, t.of_indices("subi", k, first_of_run))
            base, columns = t.add(target, self._term_offset(k, block[0], panel.width)), []
            for rows in positions:
                # A vector has `lanes` terms of one row; after the transpose, a vector has one term of all rows of the group.
                vectors = [t.masked_vector(mask, factor.memory, t.add(row, offset)) for row in rows]
                columns.append(t.transposed([*vectors, *[t.zeros()] * (lanes - len(rows))]))
            for n in range(lanes):
                for (start, _), group in zip(groups, columns, strict=True):
                    t.put(group[n], self.memory, self.group, t.add(t.add(base, n * panel.width), start))

    def _rows(self, panel: Panel, term: str, terms: str, target: Index) -> None:
        """Writes a copy of a panel whose rows are adjacent in the factor: vectors of rows, or elements at the end of a run."""
        t, lanes, factor = self.t, self.form.lanes, panel.factor
        starts = range(0, panel.width, lanes)
        span = starts[-1] + lanes
        # Vectors that would read rows of the next run, which lie elsewhere, are not loaded.
        fits = t.compare("sle", t.add(factor.row_in_run(panel.first), span), factor.free_run)
        with t.if_holds(fits) as otherwise:
            row = factor.of_row(panel.base, panel.first)
            with self._runs(panel, term, terms) as (run, first_of_run, low, high), t.loop(low, high) as k:
                offset = t.add(row, factor.of_term(run, t.of_indices("subi", k, first_of_run)))
                base = t.add(target, self._term_offset(k, term, panel.width))
                for start in starts:
                    t.put(t.vector(factor.memory, t.add(offset, start)), self.memory, self.group, t.add(base, start))
            otherwise()
            self._elements(panel, term, terms, target)

    def _elements(self, panel: Panel, term: str, terms: str, target: Index) -> None:
        """Writes a copy of a panel one element after another; rows after the last one of the factor become zeros.

        Args:
          panel: the panel.
          term, terms: the index of the first term, and the number of terms, as names of values in the kernel.
          target: the offset of the panel in memory.
        """
        t, factor = self.t, panel.factor
        # All elements become zeros first, because the loop below copies only the rows that the factor has.
        with t.loop(0, t.mul(terms, panel.width), self.form.lanes) as n:
            t.put(t.zeros(), self.memory, self.group, t.add(target, n))
        with t.loop(0, t.of_indices("minsi", t.of_indices("subi", factor.rows, panel.first), panel.width)) as r:
            row = factor.of_row(panel.base, t.add(panel.first, r))
            with self._runs(panel, term, terms) as (run, first_of_run, low, high), t.loop(low, high) as k:
                offset = factor.of_term(run, t.of_indices("subi", k, first_of_run))
                base = t.add(t.add(target, r), self._term_offset(k, term, panel.width))
                t.store(t.load(factor.memory, t.add(row, offset)), self.memory, self.group, base)

    @contextmanager
    def _runs(self, panel: Panel, term: str, terms: str) -> Iterator[tuple[Index, Index, Index, Index]]:
        """A context for the loop over the runs (terms with one stride) that contain some of the `terms` terms from `term` on.

        It yields four values of one iteration: the offset of the run, the index of its first term, the index of its first term that
        is copied, and the end of its terms that are copied.
        """
        t, factor, end = self.t, panel.factor, self.t.add(term, terms)
        last = t.of_indices("divui", t.add(end, -1), factor.run)
        with t.loop(t.of_indices("divui", term, factor.run), t.add(last, 1)) as n:
            first = t.mul(n, factor.run)
            low, high = t.of_indices("maxsi", term, first), t.of_indices("minsi", end, t.add(first, factor.run))
            yield factor.of_run(0, n), first, low, high

    def _term_offset(self, k: Index, term: Index, width: int) -> Index:
        """The offset of term k from the beginning of its panel, whose first term is `term`."""
        return self.t.mul(self.t.of_indices("subi", k, term), width)
