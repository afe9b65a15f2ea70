"""Sums of rows at places that indices name, as kernels, against NumPy's."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from legalize_support import Program, jax_text, legalized

rng = np.random.default_rng(8)


def case(positions: tuple[int, ...], row: tuple[int, ...], count: int, dtype: str, kind: str, onto: bool) -> Any:
    """A function, its arguments, and what it computes; some places are outside, many are named again and again."""
    where = np.stack([rng.integers(-2, n + 2, count) for n in positions], 1).astype(kind)
    updates, x = rng.normal(size=(count, *row)).astype(dtype), rng.normal(size=(*positions, *row)).astype(dtype)
    x = x if onto else np.zeros_like(x)
    expected = x.astype(np.float64)
    for index, update in zip(where, updates, strict=True):
        if all(0 <= i < n for i, n in zip(index, positions, strict=True)):
            expected[tuple(index)] += update
    dims = lax.ScatterDimensionNumbers(tuple(range(1, 1 + len(row))), tuple(range(len(positions))), tuple(range(len(positions))))

    def f(where: Any, updates: Any, x: Any) -> Any:
        return lax.scatter_add(x if onto else jnp.zeros_like(x), where, updates, dims, mode="drop")

    return f, (where, updates, x), expected


CASES = {
    "rows": ((50,), (64,), 300, "f4", "i4", False),
    "odd rows": ((50,), (70,), 300, "f4", "i8", False),
    "short rows": ((9,), (3,), 6000, "f4", "i4", False),
    "numbers": ((700,), (), 17000, "f8", "i4", False),
    "two places": ((12, 7), (5, 4), 900, "f8", "i4", False),
    "onto": ((30,), (33,), 600, "f4", "i4", True),
    "wide": ((5,), (1100,), 16, "f4", "i4", False),
    "small integers": ((50,), (64,), 300, "f4", "i1", False),
    "without a sign": ((50,), (64,), 300, "f4", "u4", False),
}


@pytest.mark.parametrize("vector_bytes", [64, pytest.param(16, marks=pytest.mark.slow)])
def test_sums_are_numpys(vector_bytes: int) -> None:
    """Rows of any length, several indexed dimensions, indices outside, arrays that are there; the operands stay as they are."""
    cases = {name.replace(" ", "_"): case(*c) for name, c in CASES.items()}
    text = legalized(jax_text({name: (f, arguments) for name, (f, arguments, _) in cases.items()}), vector_bytes=vector_bytes)
    assert text.count("flow.dispatch @") == len(cases)
    program = Program(text)
    for name, (_, arguments, expected) in cases.items():
        before = [a.copy() for a in arguments]
        for _ in range(2):
            np.testing.assert_allclose(program(name, *arguments), expected, rtol=1e-4, atol=1e-4, err_msg=name)
        for old, new in zip(before, arguments, strict=True):
            np.testing.assert_array_equal(old, new)


def test_what_stays_an_update() -> None:
    """Few rows onto an array that is there, other combinations than sums, other dtypes, code without a known width."""
    rows = np.zeros((300, 64), "f4")
    positions = np.zeros(300, "i4")
    texts = {
        "few": (lambda x: x.at[positions].add(rows), (np.zeros((500, 64), "f4"),)),
        "largest": (lambda x: x.at[positions].max(rows), (np.zeros((50, 64), "f4"),)),
        "whole": (lambda x: x.at[positions].add(rows.astype("i4")), (np.zeros((50, 64), "i4"),)),
    }
    assert "flow.dispatch" not in legalized(jax_text(texts), vector_bytes=64)
    zeros = {"zeros": (lambda i: jnp.zeros((50, 64), "f4").at[i].add(rows), (positions,))}
    assert "flow.dispatch" not in legalized(jax_text(zeros), vector_bytes=0)
    assert "flow.dispatch" in legalized(jax_text(zeros), vector_bytes=64)
