"""Patterns at a point: exactly where the derivatives are not zero there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xla import run_traced

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import PatternError, TraceError

POINT = np.random.default_rng(0).uniform(-1, 1, 12)
SOME_ZEROS = np.where(np.arange(12) % 3 == 0, 0.0, POINT)
MATRIX = np.random.default_rng(1).normal(size=(12, 12))

FUNCTIONS = {
    "where": lambda x: nnp.where(x > 0, nnp.roll(x, 1) * x, x[::-1]),
    "extrema": lambda x: nnp.minimum(x, nnp.roll(x, 1)) + nnp.maximum(x, x[::-1]),
    "largest": lambda x: x.max(),
    "absolute": lambda x: nnp.abs(x[1:] * x[:-1]),
    "clip": lambda x: nnp.clip(x, -0.3, 0.3),
    "network": nm.jit(lambda x: nm.nn.relu(MATRIX @ nm.nn.relu(x))),
    "order": lambda x: nnp.sort(x)[-3:] * x[nnp.argmin(x)],
    "choice": lambda x: nm.cond(x.sum() > 0, lambda x: x * x, lambda x: nnp.roll(x, 1), x),
    "loop": lambda x: nm.fori_loop(0, 3, lambda i, u: nm.nn.relu(u + 0.5 * nnp.roll(u, 1)), x),
    "scan": lambda x: nm.scan(lambda c, a: (nnp.where(a > 0, c * a, c), nnp.maximum(c, a)), x[0], x[1:])[1],
    "nothing": lambda x: 0 * x,
}


def everything(x: Any) -> Any:
    return {name: f(x) for name, f in FUNCTIONS.items()}


def energy(x: Any) -> Any:
    """Of a Hessian with blocks that are empty at some points."""
    a, b, c = x[:4], x[4:8], x[8:]
    return (nm.nn.relu(a) ** 3).sum() + (b[0] * b[1] * b[2] * b[3]) + nnp.where(c[0] > c[1], c[2] * c[3], c[1] ** 3) + x.sum()


@pytest.mark.slow
@pytest.mark.parametrize("x", [POINT, SOME_ZEROS], ids=["any", "zeros"])
def test_jacobians_at_a_point(x: np.ndarray) -> None:
    pattern = nm.sparse.jacobian_pattern(everything, x, local=True).to_dense()
    dense = run_traced(nm.jacfwd(everything), [x])
    start = 0
    for name, rows in sorted((name, np.asarray(rows).reshape(-1, 12)) for name, rows in dense.items()):
        found = pattern[start : start + len(rows)]
        np.testing.assert_array_equal(found, rows != 0, err_msg=name)
        start += len(rows)
    assert start == len(pattern)


@pytest.mark.parametrize("x", [POINT, SOME_ZEROS], ids=["any", "zeros"])
def test_hessians_at_a_point(x: np.ndarray) -> None:
    pattern = nm.sparse.hessian_pattern(energy, x, local=True).to_dense()
    np.testing.assert_array_equal(pattern, np.asarray(run_traced(nm.hessian(energy), [x])) != 0)
    assert pattern.sum() < nm.sparse.hessian_pattern(energy, x).nnz


def test_places_that_data_decide() -> None:
    positions = np.random.default_rng(2).permutation(40)
    f = lambda x, positions: x[positions] ** 2  # noqa: E731
    x = np.linspace(0.5, 1.5, 40)
    assert nm.sparse.jacobian_pattern(f, x, positions).nnz == 1600
    pattern = nm.sparse.jacobian_pattern(f, x, positions, local=True)
    np.testing.assert_array_equal(pattern.to_dense(), np.eye(40)[positions] != 0)


def test_repeated_numbers() -> None:
    """Numbers of x that are repeated along the last axis of a square, and of another shape: which axis they have is looked at."""
    x = np.array([0.0, 2.0, 3.0, 4.0])
    for f in (lambda x: (x[:3, None] * x[None, :3]).reshape(-1), lambda x: (x[:3, None] * x).reshape(-1)):
        truth = np.asarray(nm.jacfwd(f)(x)) != 0
        np.testing.assert_array_equal(nm.sparse.jacobian_pattern(f, x, local=True).to_dense(), truth)


@pytest.mark.slow
def test_a_local_pattern_holds_at_its_point_alone() -> None:
    f = lambda x: nnp.maximum(x, x[::-1])  # noqa: E731
    x = np.array([1.0, 2.0, 3.0, 4.0])
    pattern = nm.sparse.jacobian_pattern(f, x, local=True)
    nm.sparse.check_pattern(f, pattern, x)
    with pytest.raises(PatternError, match=r"with every entry of the Jacobian, got none at \(0, 0\), which is 1"):
        nm.sparse.check_pattern(f, pattern, x[::-1].copy())


def test_a_local_pattern_requires_a_point() -> None:
    with pytest.raises(TraceError, match=r"jacobian_pattern with local=True requires the arrays of a point, got nm\.spec"):
        nm.sparse.jacobian_pattern(nm.nn.relu, nm.spec(3), local=True)
