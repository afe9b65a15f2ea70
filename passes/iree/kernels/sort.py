"""Radix sorts of the rows of an integer matrix as a kernel: by digits of eight bits, from the last digit on.

Knuth, The Art of Computer Programming, volume 3, section 5.2.5. Equal keys keep their order, and the time is linear in
the length of a row.
"""

from __future__ import annotations

from nabla_mlir.passes.iree.internals.executables import workgroup
from nabla_mlir.passes.iree.kernels.scalars import BYTES
from nabla_mlir.passes.iree.kernels.text import Form, Index, Memory, Text

DIGITS = 256  # the number of values of an eight-bit digit
GROUPS = 64  # the largest number of workgroups; each sorts some of the rows


def sort_text(name: str, rows: int, n: int, element: str) -> tuple[str, list[Memory]]:
    """A kernel for the keys of each row in ascending order, and their original indices: a radix sort, one byte (digit) after
    another.

    Args:
      name: the name of the kernel.
      rows: the number of rows.
      n: the number of keys of a row.
      element: the type of the keys: i32 or i64.

    Returns:
      The text, and the buffers of the results: keys, indices (i32), and scratch memory.
    """
    t, digits, groups = Text(Form(element, 1, 1, 1)), BYTES[element], min(rows, GROUPS)
    operand = Memory("%operand", (rows, n), element, read_only=True)
    keys, positions = Memory("%keys", (rows, n), element), Memory("%positions", (rows, n), "i32")
    more_keys, more_positions = Memory("%more_keys", (groups, n), element), Memory("%more_places", (groups, n), "i32")
    counts = Memory("%counts", (groups, digits, DIGITS), "i32")
    group = t.result(workgroup())
    with t.loop(group, rows, groups) as row:
        _count(t, operand, counts, (row, group), n)
        final, between = ((keys, positions), row), ((more_keys, more_positions), group)
        for digit in range(digits):
            # Digits move the keys to scratch memory and back; the number of digits is even, so the last one writes the results.
            target, source = (between, final) if digit % 2 == 0 else (final, between)
            with t.loop(0, n) as i:
                if digit == 0:
                    key, position = t.load(operand, row, i), t.result(f"arith.index_cast {i} : index to i32")
                else:
                    (from_keys, from_positions), line = source
                    key, position = t.load(from_keys, line, i), t.load(from_positions, line, i)
                (to_keys, to_positions), line = target
                new_index = _next(t, counts, (group, digit, _digit(t, key, digit)))
                t.store(key, to_keys, line, new_index)
                t.store(position, to_positions, line, new_index)
    results = [keys, positions, more_keys, more_positions, counts]
    return t.kernel(name, [operand, *results], (groups, 1, 1)), results


def _count(t: Text, source: Memory, counts: Memory, lines: tuple[str, str], n: int) -> None:
    """Writes to `counts`, for each position of a digit and each value, the number of keys of a row with a smaller digit.

    `lines` has the index of the row and of the workgroup.
    """
    row, group = lines
    digits = range(BYTES[source.element])
    zero, one = t.constant(0, "i32"), t.constant(1, "i32")
    for digit in digits:
        with t.loop(0, DIGITS) as d:
            t.store(zero, counts, group, digit, d)
    with t.loop(0, n) as i:
        key = t.load(source, row, i)
        for digit in digits:
            position = group, digit, _digit(t, key, digit)
            t.store(t.result(f"arith.addi {t.load(counts, *position)}, {one} : i32"), counts, *position)
    for digit in digits:

        def add(d: str, sums: list[str], digit: int = digit) -> list[str]:
            """Replaces the count of digit d by the number of smaller digits (a running sum); returns the next sum."""
            count = t.load(counts, group, digit, d)
            t.store(sums[0], counts, group, digit, d)
            return [t.result(f"arith.addi {sums[0]}, {count} : i32")]

        t.carried(0, DIGITS, [zero], ["i32"], add)


def _digit(t: Text, key: str, digit: int) -> str:
    """Digit number `digit` of a key (0 is the lowest) as an index from 0 to 255.

    The sign bit of the key is flipped, so that negative keys come first.
    """
    element, bits = t.form.element, 8 * BYTES[t.form.element]
    unsigned = t.result(f"arith.xori {key}, {t.constant(-(1 << bits - 1), element)} : {element}")
    shift = t.result(f"arith.shrui {unsigned}, {t.constant(8 * digit, element)} : {element}")
    low = t.result(f"arith.andi {shift}, {t.constant(DIGITS - 1, element)} : {element}")
    return t.result(f"arith.index_cast {low} : {element} to index")


def _next(t: Text, counts: Memory, position: tuple[Index, ...]) -> str:
    """The index at which the next key with a digit is stored, from `counts` at `position`; the count there grows by one."""
    count = t.load(counts, *position)
    t.store(t.result(f"arith.addi {count}, {t.constant(1, 'i32')} : i32"), counts, *position)
    return t.result(f"arith.index_cast {count} : i32 to index")
