"""docs/explain/extremes.md: what it says is what the interpreter gives, compiled code gives the same, and values are NumPy's."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("extremes", ROOT / "bench" / "extremes.py")
assert SPEC is not None
assert SPEC.loader is not None
extremes: Any = sys.modules.setdefault("extremes", importlib.util.module_from_spec(SPEC))
SPEC.loader.exec_module(extremes)


@pytest.fixture(autouse=True)
def quiet() -> Any:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.slow
def test_the_page_says_what_the_interpreter_and_jax_give() -> None:
    page = (ROOT / "docs" / "explain" / "extremes.md").read_text()
    assert [extremes.row(case) for case in extremes.CASES] == page.splitlines()[-len(extremes.CASES) :]


def test_values_are_those_of_numpy() -> None:
    for case in extremes.CASES:
        ours, theirs = extremes.interpreted(case)[0], extremes.of_numpy(case)
        np.testing.assert_allclose(ours, theirs, rtol=1e-15, err_msg=case.text)


@pytest.mark.slow
def test_compiled_code_gives_the_same() -> None:
    traced = {
        f"f{i}": nm.trace(extremes.with_derivatives(case, nm.numpy, nm.grad), *case.operands)
        for i, case in enumerate(extremes.CASES)
    }
    module = nm.module(**traced).lower().compile(nm.CPU("host")).loaded
    different = []
    for i, case in enumerate(extremes.CASES):
        wanted, found = extremes.interpreted(case), module[f"f{i}"](*case.operands)
        for want, got in zip(wanted, map(extremes.flat, found), strict=True):
            if not np.allclose(got, want, rtol=1e-13, atol=1e-300, equal_nan=True):
                different.append((case.text, case.operands, want, got))
    assert not different


# Of each function what it and its derivative are at a number whose square is not one of f32.
WIDE = {
    "divide": (lambda x, y: x / y, lambda x, y: (1 / y, -x / (y * y))),
    "hypot": (nnp.hypot, lambda x, y: (x / mpmath.hypot(x, y), y / mpmath.hypot(x, y))),
    "constant": (
        lambda x, y: np.float32(1e-10) / x + np.float32(1e10) / y,
        lambda x, y: (-mpmath.mpf(1e-10) / x**2, -mpmath.mpf(1e10) / y**2),
    ),
}


@pytest.mark.parametrize("name", WIDE)
def test_derivatives_are_finite_where_the_true_ones_are(name: str) -> None:
    function, truth = WIDE[name]
    slopes = nm.grad(function, (0, 1))
    for x, y in ((1e-25, 1e-25), (1e25, -3e25), (1e-10, 1e-20), (1e10, 1e20), (-1e-22, 1e10), (3.0, -2.0)):
        found = slopes(np.float32(x), np.float32(y))
        for got, want in zip(found, truth(mpmath.mpf(float(np.float32(x))), mpmath.mpf(float(np.float32(y)))), strict=True):
            with np.errstate(over="ignore"):
                np.testing.assert_allclose(float(got), float(np.float32(float(want))), rtol=1e-6, atol=1e-38, err_msg=f"{x} {y}")


def test_the_largest_of_nothing_is_refused() -> None:
    for function in (nnp.max, nnp.min, nnp.argmax, nnp.argmin):
        with pytest.raises(ValueError, match=r"requires .*got"):
            function(np.zeros(0))
