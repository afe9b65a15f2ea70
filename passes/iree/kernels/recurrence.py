"""Linear recurrences of first order along an axis as a kernel; a line is a row of elements along the axis (see running.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nabla_mlir.passes.iree.kernels.running import Lines, write_lines
from nabla_mlir.passes.iree.kernels.text import Form, Index, Memory, Text


@dataclass(frozen=True)
class Recurrence(Lines):
    """The description of a recurrence.

    Args:
      is_late: True if element i uses the coefficient of the element before it, in the order of the lines.
    """

    is_late: bool


def recurrence_text(name: str, recurrence: Recurrence, form: Form) -> tuple[str, list[Memory]]:
    """A kernel for h[o, i, j] = a[o, i, j] h[o, i-1, j] + b[o, i, j], with zero before the first element.

    Args:
      name: the name of the kernel.
      recurrence: the recurrence.
      form: the form of vectors.

    Returns:
      The text, and the buffer of the result.
    """
    t, shape = Text(form), recurrence.shape
    a, b = (Memory(f"%{name}", shape, form.element, read_only=True) for name in "ab")
    h = Memory("%h", shape, form.element)

    def line(positions: Sequence[tuple[Index, Index]], is_vector: bool) -> None:
        """Writes the loop along the axis for some lines, at positions (o, j) across the axis; vectors of lines if `is_vector`."""
        kind = form.vector if is_vector else form.element
        load, store = (t.vector, t.put) if is_vector else (t.load, t.store)
        count = len(positions)
        zero = t.constant("dense<0.0>" if is_vector else "0.0", kind)

        def element(i: str, state: list[str]) -> list[str]:
            """Writes element i of all lines; the state is their last elements, and their last coefficients if they are late."""
            index, values = recurrence.position(t, i), state[:count]
            coefficients = [load(a, o, index, j) for o, j in positions]
            factors = state[count:] if recurrence.is_late else coefficients
            new = [
                plus(product(factor, value), load(b, o, index, j))
                for factor, value, (o, j) in zip(factors, values, positions, strict=True)
            ]
            for value, (o, j) in zip(new, positions, strict=True):
                store(value, h, o, index, j)
            return [*new, *coefficients] if recurrence.is_late else new

        def product(x: str, y: str) -> str:
            """The SSA value of x y."""
            return t.result(f"arith.mulf {x}, {y} fastmath<contract> : {kind}")

        def plus(x: str, y: str) -> str:
            """The SSA value of x + y; with `product`, LLVM may write one fused multiply-add."""
            return t.result(f"arith.addf {x}, {y} fastmath<contract> : {kind}")

        size = 2 * count if recurrence.is_late else count
        t.carried(0, recurrence.count, [zero] * size, [kind] * size, element)

    write_lines(t, recurrence, line)
    return t.kernel(name, [a, b, h], (recurrence.groups, 1, 1)), [h]
