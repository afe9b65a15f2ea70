"""Patterns of loops whose iterations differ in their indices: exact, in the time of their reads and writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xla import run_traced

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import PatternError
from nabla_mlir.sparsity.rows import Rows
from nabla_mlir.sparsity.runs import Union, rows_of, runs_of

N = 40
PLACES = np.random.default_rng(0).permutation(N).astype(np.int32)


def window(x: Any) -> Any:
    """The carry shifts: three neighbours."""
    return nm.scan(lambda c, a: ((c[1], a), c[0] * c[1] * a), (x[0] + 1.0, x[0] + 1.0), x)[1]


def backwards(x: Any) -> Any:
    return nm.scan(lambda c, a: (a, c * a), x[-1] + 1.0, x, reverse=True)[1]


def rotating(x: Any) -> Any:
    def turn(c: Any, u: Any) -> tuple[Any, Any]:
        c = nnp.stack([c[1], c[2], c[0] * u])
        return c, c

    return nm.scan(turn, 1.0 + 0.0 * x[:3], x)[1].reshape(-1)


def parameters(x: Any) -> Any:
    return nm.scan(lambda c, a: (c * x[0] + x[1] * a, c * x[2]), x[0] + 1.0, x[3:])[1]


def half(x: Any) -> Any:
    """A sum over one of two fields."""
    return nm.scan(lambda c, a: (c + a[0], None), 0.0 * x[0], x.reshape(-1, 2))[0].reshape(1)


def strided(x: Any) -> Any:
    return nm.fori_loop(0, N // 2, lambda i, u: u.at[2 * i].set(x[2 * i + 1] * x[N - 1 - 2 * i]), x)


def table(x: Any) -> Any:
    positions = nnp.asarray(PLACES)
    return nm.fori_loop(0, N, lambda i, u: u.at[positions[i]].add(x[i] * x[(i + 1) % N]), 0.0 * x)


def mixed(x: Any) -> Any:
    """Two windows of one array in a turn, the second behind the first."""

    def turn(i: Any, u: Any) -> Any:
        u = u.at[i].set(u[i] * u[i - 1])
        return u.at[i - 1].set(2.0 * u[i - 1])

    return nm.fori_loop(1, N, turn, x)


def swapped(x: Any) -> Any:
    """Arrays that change places are carried whole."""
    return nm.fori_loop(0, N, lambda i, s: (s[1], s[0].at[i].set(x[i])), (x[::-1], 0.0 * x))[0]


def lines(x: Any) -> Any:
    return nm.scan(lambda c, row: (0.5 * c + row, c * row), 1.0 + x[:4], x.reshape(-1, 4))[1].reshape(-1)


JACOBIANS = {f.__name__: f for f in (window, backwards, rotating, parameters, half, strided, table, mixed, swapped, lines)} | {
    "cumulative": lambda x: nm.scan(lambda c, a: (c + a, c + a), 0.0 * x[0], x)[1],
    "sum": lambda x: nm.scan(lambda c, a: (c + a * a, None), 0.0 * x[0], x)[0].reshape(1),
    "in place": lambda x: nm.fori_loop(1, N, lambda i, u: u.at[i].set(u[i] * x[i - 1]), x),
    "recurrence": lambda x: nm.fori_loop(1, N, lambda i, u: u.at[i].set(u[i] * u[i - 1]), x),
    "added": lambda x: nm.fori_loop(0, N - 1, lambda i, u: u + nnp.zeros(N).at[i].set(x[i] * x[i + 1]), 0.0 * x),
    "masked": lambda x: nm.fori_loop(0, N, lambda i, u: u.at[i].multiply(nnp.where(i < 9, x[(i + 1) % N], 1.0)), x),
}
HESSIANS: dict[str, Callable[[Any], Any]] = {
    "loss": lambda x: nm.scan(lambda c, a: ((a, c[1] + (a - c[0] ** 2) ** 2), None), (x[0] + 1.0, 0.0 * x[0]), x)[0][1],
    "windows": lambda x: window(x).sum(),
    "lines": lambda x: (lines(x) ** 2).sum(),
}


def truth(f: Callable[..., Any]) -> np.ndarray:
    points = np.random.default_rng(0).uniform(0.5, 1.5, (2, N))
    return sum(np.asarray(run_traced(nm.jacfwd(f), [x])).reshape(-1, N) != 0 for x in points) > 0


@pytest.mark.parametrize("name", JACOBIANS)
def test_jacobians_of_scans(name: str) -> None:
    pattern = nm.sparse.jacobian_pattern(JACOBIANS[name], nm.spec(N, "f64")).to_dense()
    assert (pattern == truth(JACOBIANS[name])).all()


@pytest.mark.parametrize("name", HESSIANS)
def test_hessians_of_scans(name: str) -> None:
    pattern = nm.sparse.hessian_pattern(HESSIANS[name], nm.spec(N, "f64")).to_dense()
    assert (pattern == truth(nm.grad(HESSIANS[name]))).all()


@pytest.mark.parametrize(
    ("f", "entries"), [(JACOBIANS["window"], 3), (JACOBIANS["sum"], 1), (HESSIANS["loss"], 3)], ids=["window", "sum", "loss"]
)
def test_long_scans_are_followed_by_their_elements(monkeypatch: pytest.MonkeyPatch, f: Any, entries: int) -> None:
    """Where the operations of the turns are too many by far."""
    monkeypatch.setattr("nabla_mlir.base.thresholds.PATTERN_STEPS", 1_000)
    n = 4_000
    find = nm.sparse.hessian_pattern if f is HESSIANS["loss"] else nm.sparse.jacobian_pattern
    assert 0 <= entries * n - find(f, nm.spec(n, "f64")).nnz <= 4


@pytest.mark.parametrize("name", ["window", "recurrence", "table", "masked"])
@pytest.mark.parametrize("moves", [10, 100, 1 << 24])
def test_loops_that_are_given_up_lack_nothing(monkeypatch: pytest.MonkeyPatch, name: str, moves: int) -> None:
    monkeypatch.setattr("nabla_mlir.base.thresholds.PATTERN_STEPS", 100)
    monkeypatch.setattr("nabla_mlir.base.thresholds.PATTERN_MOVES", moves)
    pattern = nm.sparse.jacobian_pattern(JACOBIANS[name], nm.spec(N, "f64")).to_dense()
    assert not (truth(JACOBIANS[name]) & ~pattern).any()


def test_a_triangle_that_is_too_large_says_what_made_it() -> None:
    with pytest.raises(PatternError, match=r"stablehlo\.while at .*test_scans\.py"):
        nm.sparse.jacobian_pattern(JACOBIANS["cumulative"], nm.spec(20_000, "f64"))


@pytest.mark.parametrize("seed", range(6))
def test_runs_are_the_sets_of_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, columns = int(rng.integers(1, 9)), int(rng.integers(1, 20))
    a = rng.random((rows, columns)) < rng.choice([0.0, 0.3, 0.8])
    order = rng.permutation(columns)
    compressed = Rows.of(np.flatnonzero(a), rows, columns)
    sets = runs_of(compressed, np.argsort(order))
    back = rows_of(sets, columns, order)
    assert np.array_equal(back.offsets, compressed.offsets)
    assert np.array_equal(back.indices, compressed.indices)
    joint = rows_of([Union()(sets)], columns, order)
    assert np.array_equal(joint.indices, np.flatnonzero(a.any(axis=0)))
