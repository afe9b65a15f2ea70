"""What a user wrote keeps the signs of its zeros, lowered and compiled; what rules of derivatives emit is as short as ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp

ZEROS = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan])
X, Y = (v.ravel() for v in np.meshgrid(ZEROS, ZEROS))
# The same formulas by NumPy and by nabla_mlir.
FORMULAS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "x + 0": lambda xp, x, y: x + 0.0,
    "0 + x": lambda xp, x, y: 0.0 + x,
    "x + -0": lambda xp, x, y: x + -0.0,
    "x - 0": lambda xp, x, y: x - 0.0,
    "x - -0": lambda xp, x, y: x - -0.0,
    "0 - x": lambda xp, x, y: 0.0 - x,
    "-0 - x": lambda xp, x, y: -0.0 - x,
    "-x - y": lambda xp, x, y: -x - y,
    "x - -y": lambda xp, x, y: x - (-y),
    "x + -y": lambda xp, x, y: x + (-y),
    "-(-x)": lambda xp, x, y: -(-x),  # noqa: B002
    "x * 1": lambda xp, x, y: x * 1.0,
    "x * -1": lambda xp, x, y: x * -1.0,
    "x * 0": lambda xp, x, y: x * 0.0,
    "-x * -y": lambda xp, x, y: -x * -y,
    "-x * 3": lambda xp, x, y: -x * 3.0,
    "-(x * 3)": lambda xp, x, y: -(x * 3.0),
    "x * 2 * 3": lambda xp, x, y: x * 2.0 * 3.0,
    "x / 1": lambda xp, x, y: x / 1.0,
    "x / 2": lambda xp, x, y: x / 2.0,
    "x / -4": lambda xp, x, y: x / -4.0,
    "x ** 2": lambda xp, x, y: x**2,
    "x * 3 + x * 3": lambda xp, x, y: x * 3.0 + x * 3.0,
    "(x + x) * 3": lambda xp, x, y: (x + x) * 3.0,
    "x - x": lambda xp, x, y: x - x,
    "0 * x + 0": lambda xp, x, y: 0.0 * x + 0.0,
    "arctan2(0 - x, -1)": lambda xp, x, y: xp.arctan2(0.0 - x, -1.0),
    "arctan2(x + 0, y)": lambda xp, x, y: xp.arctan2(x + 0.0, y),
    "1 / (0 - x)": lambda xp, x, y: 1.0 / (0.0 - x),
    "sum of negatives": lambda xp, x, y: xp.sum(xp.stack([-x, -y]), 0),
    "pads": lambda xp, x, y: xp.pad(x, (0, 49)) + xp.pad(y, (49, 0)),
    "sqrt": lambda xp, x, y: xp.sqrt(xp.where(x == 0, x + 0.0, 1.0)),
}


def _same(found: Any, want: np.ndarray) -> bool:
    found = np.asarray(found)
    is_number = ~np.isnan(want)
    return bool(
        np.allclose(found, want, rtol=1e-15, atol=0, equal_nan=True) and (np.signbit(found) == np.signbit(want))[is_number].all()
    )


def test_formulas_keep_the_signs_of_zeros() -> None:
    traces = {f"f{i}": nm.trace(lambda x, y, f=f: f(nnp, x, y), X, Y, name=f"f{i}") for i, f in enumerate(FORMULAS.values())}
    lowered = nm.module(**traces).lower()
    compiled = lowered.compile(nm.CPU()).loaded
    for i, (name, f) in enumerate(FORMULAS.items()):
        with np.errstate(all="ignore"):
            want = f(np, X, Y)
        assert _same(compiled[f"f{i}"](X, Y), want), f"compiled {name}"
        assert _same(f(nnp, nnp.asarray(X), nnp.asarray(Y)), want), f"interpreted {name}"


def test_integers_are_simplified() -> None:
    text = str(nm.trace(lambda n: (n + 0) - 0, np.arange(3)).lower())
    assert "stablehlo.add" not in text
    assert "stablehlo.subtract" not in text


@pytest.mark.parametrize("derivative", [nm.grad, lambda f: nm.jacfwd(nm.grad(f)), lambda f: nm.hessian(f, mode="rev_rev")])
def test_zeros_of_rules_are_folded(derivative: Any) -> None:
    """A user's addition of zero is in the program; none of those of its derivative is."""
    f = lambda x: (nnp.sin(x) * (x + 0.0)).sum()  # noqa: E731
    plain = lambda x: (nnp.sin(x) * x).sum()  # noqa: E731
    count = [str(nm.trace(derivative(g), np.ones(3)).lower()).count("= stablehlo.add") for g in (f, plain)]
    assert count[0] <= count[1] + 1
