"""Rotations of neighbouring rows of a matrix: an iteration stores each rotation, and many are applied at a time.

An iteration finds sweeps of rotations, each of a row and the next one, and does not need the rotated matrix. The matrix
is rotated by many sweeps at once, one strip of columns after another, so that a strip stays in a core's cache (Van Zee,
van de Geijn and Quintana-Orti, Restructuring the tridiagonal and bidiagonal QR algorithms, 2014).
"""

from __future__ import annotations

from dataclasses import dataclass

from nabla_mlir.passes.iree.kernels.numbers import Number, Numbers
from nabla_mlir.passes.iree.kernels.text import Form, Index, Memory, Text

STRIP = 4  # vectors of a strip, which stay in registers
STORED = 32  # the number of stored rotations for each row of the matrix


@dataclass(frozen=True)
class Rotations:
    """Sweeps of rotations, stored in memory.

    Args:
      t: the kernel.
      cosines: memory of shape batch x rotations; a row r and the next row q become c r - s q and s r + c q.
      sines: memory of the same shape.
      ends: i32 memory of shape batch x 2 x rotations: the first and the last row of each sweep.
      strip: memory of shape batch x rows x columns of a strip, for the strip that is being rotated.
      group: the index of the matrix in the batch.
      from_above: True if a sweep begins with its first row, False if with its last row.
    """

    t: Text
    cosines: Memory
    sines: Memory
    ends: Memory
    strip: Memory
    group: str
    from_above: bool

    @staticmethod
    def memories(name: str, batch: int, n: int, form: Form) -> tuple[Memory, Memory, Memory, Memory]:
        """The memories of cosines, sines, ends and a strip, for matrices of n rows."""
        element, size = form.element, STORED * n
        return (
            Memory(f"%{name}_cosines", (batch, size), element),
            Memory(f"%{name}_sines", (batch, size), element),
            Memory(f"%{name}_ends", (batch, 2, size), "i32"),
            Memory(f"%{name}_strip", (batch, n, STRIP * form.lanes), element),
        )

    def keep(self, at: Index, cosine: Number, sine: Number) -> None:
        """Stores a rotation by its cosine and sine at the index `at` of the rotations."""
        Numbers(self.t, self.cosines, (self.group,))[at] = cosine
        Numbers(self.t, self.sines, (self.group,))[at] = sine

    def end_sweep(self, sweep: str, first: str, last: str) -> None:
        """Stores the first and the last row of the sweep with this index."""
        for side, row in enumerate((first, last)):
            as_i32 = self.t.result(f"arith.index_cast {self.t.index(row)} : index to i32")
            self.t.store(as_i32, self.ends, self.group, side, sweep)

    def make_room(self, rows: Memory, end: str, sweeps: str, n: int) -> tuple[str, str]:
        """Applies all sweeps if there is no room for another one over n rows.

        Args:
          rows: the matrix.
          end: the number of stored rotations.
          sweeps: the number of stored sweeps.
          n: the number of rows.

        Returns:
          The new number of stored rotations and sweeps: zeros if the sweeps were applied.
        """
        t, zero = self.t, self.t.index(0)
        is_full = t.compare("sgt", t.add(end, n), self.cosines.shape[1])
        with t.if_holds(is_full):
            self.apply(rows, sweeps)
        end, sweeps = (t.result(f"arith.select {is_full}, {zero}, {x} : index") for x in (end, sweeps))
        return end, sweeps

    def apply(self, rows: Memory, sweeps: str) -> None:
        """Rotates the matrix `rows` by all stored sweeps; `sweeps` is their number."""
        t, lanes = self.t, self.t.form.lanes
        whole = rows.shape[2] // (STRIP * lanes) * (STRIP * lanes)
        # Whole strips, then the remaining vectors one by one.
        for start, stop, count in ((0, whole, STRIP), (whole, rows.shape[2], 1)):
            if start == stop:
                continue
            with t.loop(start, stop, count * lanes) as column:
                self._copy(rows, column, count, to_strip=True)
                self._sweeps(count, sweeps)
                self._copy(rows, column, count, to_strip=False)

    def _sweeps(self, count: int, sweeps: str) -> None:
        """Rotates a strip of `count` vectors by all stored sweeps."""
        t = self.t
        t.carried(0, sweeps, [t.index(0)], ["index"], lambda sweep, at: [self._sweep(count, sweep, at[0])])

    def _copy(self, rows: Memory, column: str, count: int, to_strip: bool) -> None:
        """Copies `count` vectors of each row, from `column` on, between a matrix and the strip that stays in the cache."""
        t, b = self.t, self.group
        with t.loop(0, self.strip.shape[1]) as i:
            for v in range(count):
                in_matrix, in_strip = (rows, t.add(column, v * t.form.lanes)), (self.strip, v * t.form.lanes)
                (source, j), (target, k) = (in_matrix, in_strip) if to_strip else (in_strip, in_matrix)
                t.put(t.vector(source, b, i, j), target, b, i, k)

    def _sweep(self, count: int, sweep: str, first_rotation: str) -> str:
        """The index of the first rotation of the next sweep, after a sweep has rotated a strip of `count` vectors.

        The first rotation of the sweep has index `first_rotation`.
        """
        t, b, rows = self.t, self.group, self.strip
        columns = [v * t.form.lanes for v in range(count)]
        first, last = (t.result(f"arith.index_cast {t.load(self.ends, b, side, sweep)} : i32 to index") for side in (0, 1))
        length = t.of_indices("subi", last, first)
        begin, end = (first, last) if self.from_above else (last, first)

        def rotate(step: str, line: list[str]) -> list[str]:
            """Rotates rows i and j, of which `line` is one; stores row i, which is final, and returns the other."""
            # (upper, lower) becomes (c upper - s lower, s upper + c lower).
            c, s = (t.splat(t.load(m, b, t.add(first_rotation, step))) for m in (self.cosines, self.sines))
            i = t.add(first, step) if self.from_above else t.of_indices("subi", last, step)
            j = t.add(i, 1 if self.from_above else -1)
            others = [t.vector(rows, b, j, column) for column in columns]
            upper, lower = (line, others) if self.from_above else (others, line)
            above = [t.minus(t.multiplied(c, x), t.multiplied(s, y)) for x, y in zip(upper, lower, strict=True)]
            below = [t.plus(t.multiplied(s, x), t.multiplied(c, y)) for x, y in zip(upper, lower, strict=True)]
            final, line = (above, below) if self.from_above else (below, above)
            for x, column in zip(final, columns, strict=True):
                t.put(x, rows, b, i, column)
            return line

        types = [t.form.vector] * len(columns)
        line = t.carried(0, length, [t.vector(rows, b, begin, j) for j in columns], types, rotate)
        for x, j in zip(line, columns, strict=True):
            t.put(x, rows, b, end, j)
        return str(t.add(first_rotation, length))
