"""Large sorts as kernels, against JAX's: the total order, ties, places, several operands, every dtype."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from legalize_support import Program, jax_text, legalized

pytestmark = pytest.mark.slow

rng = np.random.default_rng(9)
DTYPES = ["f4", "f8", "i4", "i8", "u4", "u8", "i2", "u1", "f2"]


def numbers(*shape: int, dtype: str) -> np.ndarray:
    """With ties; of floats, with both zeros, infinities and NaN."""
    x = rng.integers(0 if dtype[0] == "u" else -90, 90, shape).astype(dtype)
    if dtype[0] == "f":
        x.flat[:9] = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 0.0, -0.0, np.finfo(dtype).max]
    else:
        x.flat[:2] = np.iinfo(dtype).min, np.iinfo(dtype).max
    return rng.permuted(x)


def same_bits(found: np.ndarray, true: np.ndarray) -> None:
    """NaN and zeros have signs."""
    np.testing.assert_array_equal(found.view(f"u{found.itemsize}"), true.view(f"u{true.itemsize}"))


@pytest.mark.parametrize("dtype", DTYPES[:3] + [pytest.param(d, marks=pytest.mark.slow) for d in DTYPES[3:]])
def test_sorts_are_jaxs(dtype: str) -> None:
    line, table = numbers(5000, dtype=dtype), numbers(3, 300, 7, dtype=dtype)
    other = rng.normal(size=table.shape).astype("f4")
    total = lambda x: lax.sort(x, dimension=0)  # noqa: E731
    cases: dict[str, tuple[Any, tuple[np.ndarray, ...]]] = {
        "line": (total, (line,)),
        "middle": (lambda x: lax.sort(x, dimension=1), (table,)),
        "places": (lambda x: jnp.argsort(x, axis=1, stable=True), (table,)),
        "down": (lambda x: jnp.argsort(x, axis=1, stable=True, descending=True), (table,)),
        "operands": (lambda x, y: lax.sort((x, y, x), dimension=1, num_keys=1), (table, other)),
        "largest": (lambda x: lax.top_k(x, 30), (line,)),
    }
    text = legalized(jax_text(cases), vector_bytes=64)
    assert text.count("flow.dispatch @sort") == len(cases)
    program = Program(text)
    import jax

    for name, (f, arguments) in cases.items():
        before = [a.copy() for a in arguments]
        for _ in range(2):
            found, true = program(name, *arguments), jax.jit(f)(*arguments)
            for x, y in zip(*(v if isinstance(v, (tuple, list)) else [v] for v in (found, true)), strict=True):
                same_bits(np.asarray(x), np.asarray(y))
        for old, new in zip(before, arguments, strict=True):
            same_bits(old, new)


def test_what_stays_compared() -> None:
    """Several keys, floats compared as numbers, short rows, few elements, code without a known width."""
    x = numbers(70, 100, dtype="f4")
    keys = {"two": (lambda x: lax.sort((x, x + 1), dimension=1, num_keys=2), (x,))}
    short = {"short": (lambda x: lax.sort(x, dimension=1), (numbers(500, 20, dtype="f4"),))}
    few = {"few": (lambda x: lax.sort(x, dimension=0), (numbers(100, dtype="f4"),))}
    for case, width in ((keys, 64), (short, 64), (few, 64), ({"whole": (lambda x: lax.sort(x, dimension=1), (x,))}, 0)):
        assert "flow.dispatch" not in legalized(jax_text(case), vector_bytes=width)
    plain = """func.func @f(%x: tensor<70x100xf32>) -> tensor<70x100xf32> {
  %0 = "stablehlo.sort"(%x) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.compare LT, %a, %b{kind} : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }) : (tensor<70x100xf32>) -> tensor<70x100xf32>
  return %0 : tensor<70x100xf32>
}"""
    assert "flow.dispatch" not in legalized(plain.replace("{kind}", ", FLOAT"), vector_bytes=64)
    assert "flow.dispatch" in legalized(plain.replace("{kind}", ", TOTALORDER"), vector_bytes=64)
    assert "flow.dispatch" not in legalized(plain.replace("{kind}", ", TOTALORDER").replace("%a, %b,", "%a, %a,"), vector_bytes=64)
