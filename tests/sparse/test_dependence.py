"""Patterns of whole programs: exactly where their derivatives are not zero, and what made them dense."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xla import run_traced

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.dialects.regions import functions_of
from nabla_mlir.passes.dependence.analysis import Dependence, dependence_of, results_of


def analysed(f: Callable[..., Any], n: int) -> tuple[np.ndarray, Dependence]:
    """The pattern of the Jacobian of a function of one array, as a boolean matrix."""
    lowered = nm.trace(lambda x, v: nm.jvp(f, (x,), (v,))[1], *[nm.spec(n, "f64")] * 2, name="f").lower()
    function = functions_of(lowered.module.operation)["f"]
    found = dependence_of(function, [1], lowered.module.operation)
    (rows,) = (r.rows for r in results_of(function, found))
    pattern = np.zeros((rows.count, n), bool)
    pattern[rows.row_of_entry(), rows.indices] = True
    return pattern, found


def truth(f: Callable[..., Any], n: int) -> np.ndarray:
    """Where the Jacobian is not zero at any of a few points."""
    points = np.random.default_rng(0).uniform(0.5, 1.5, (3, n))
    return sum(np.asarray(run_traced(nm.jacfwd(f), [x])).reshape(-1, n) != 0 for x in points) > 0


PLACES = np.array([3, 3, 0, 7, 5, 1, 9, 2, 2, 8, 4, 6, 1, 0, 9, 3, 5, 5, 7, 2, 8, 0, 6, 4])
MATRIX = np.where(np.random.default_rng(2).random((10, 10)) < 0.3, 1.5, 0.0)

LOWER = np.tril(np.where(np.random.default_rng(1).random((5, 5)) < 0.4, 1.0, 0.0)) + 3.0 * np.eye(5)


def scanned(x: Any) -> Any:
    return nm.scan(lambda c, a: (c * a, c + a), x[0], x[1:])[1]


def diffused(x: Any) -> Any:
    return nm.fori_loop(0, 3, lambda i, u: u + 0.1 * (nnp.roll(u, 1) - u), x)


def chosen(x: Any) -> Any:
    return nm.cond(x.sum() > 3.0, lambda x: x * x, lambda x: nnp.roll(x, 1), x)


def convolved(x: Any) -> Any:
    return nm.nn.conv(x.reshape(1, 10, 1), np.ones((3, 1, 2)), padding="SAME").reshape(-1)


EXACT = {
    "elementwise": lambda x: nnp.sin(x) * x,
    "differences": lambda x: x[1:] - x[:-1] ** 2,
    "strided": lambda x: x[::2] * x[1::2],
    "roll": lambda x: x * nnp.roll(x, 3) + nnp.roll(x, -1),
    "reversed": lambda x: x * x[::-1],
    "grid": lambda x: (nnp.roll(x.reshape(2, 5), 1, 1) * x.reshape(2, 5)).reshape(-1),
    "transposed": lambda x: x.reshape(2, 5).T.reshape(-1) * 2.0,
    "columns": lambda x: x.reshape(2, 5).sum(axis=0),
    "outer": lambda x: (x[:3, None] * x[None, 3:6]).reshape(-1),
    "stacked": lambda x: nnp.stack([x[:5], x[5:] * x[:5]]).reshape(-1),
    "padded": lambda x: nnp.pad(x, 2) * 3.0,
    "gathered": lambda x: x[PLACES] * 2.0,
    "gathered in runs": lambda x: x[np.array([0, 1, 2, 3, 9, 8, 7, 7, 7, 7])] ** 2,
    "paired": lambda x: x[PLACES[:12]] * x[PLACES[12:]],
    "scattered": lambda x: nnp.zeros(10).at[PLACES[:10]].add(x),
    "written": lambda x: x.at[np.array([1, 4])].set(x[:2] * x[2:4]),
    "one element written": lambda x: nm.jax.lax.scatter(
        x, np.array([3]), x[0] * x[2], nm.jax.lax.ScatterDimensionNumbers((), (0,), (0,))
    ),
    "matrix": lambda x: MATRIX @ x,
    "from the left": lambda x: x @ MATRIX,
    "matrix of matrices": lambda x: (x.reshape(5, 2) @ MATRIX[:2, :3]).reshape(-1),
    "varying matrix": lambda x: x[:6].reshape(2, 3) @ x[6:9],
    "masked": lambda x: x * np.array([1.0, 0.0] * 5) + nnp.where(np.arange(10) < 3, nnp.roll(x, 1), 0.0),
    "rows scaled by a range": lambda x: (x[:9].reshape(3, 3) * nnp.arange(3.0)[:, None]).reshape(-1),
    "columns scaled by a range": lambda x: (x[:9].reshape(3, 3) * nnp.arange(3.0)).reshape(-1),
    "rows chosen by a range": lambda x: nnp.where((nnp.arange(3) < 2)[:, None], x[:9].reshape(3, 3), 0.0).reshape(-1),
    "cumulative": lambda x: nnp.cumsum(x),
    "convolution": convolved,
    "scan": scanned,
    "loop": diffused,
    "a loop as long as the turn around it": lambda x: nm.fori_loop(
        0, 4, lambda i, u: nm.fori_loop(0, i, lambda j, v: v.at[j].add(2.0 * x[i]), u), x
    ),
    "branches": chosen,
    "sum": lambda x: x - x.mean(),
    "solved": lambda x: nnp.linalg.solve(np.eye(10) * 3.0 + 1.0, x),
    "triangular": lambda x: nm.jax.lax.linalg.triangular_solve(LOWER, x.reshape(5, 2), left_side=True, lower=True).reshape(-1),
    "triangular from the right": lambda x: nm.jax.lax.linalg.triangular_solve(
        LOWER, x.reshape(2, 5), left_side=False, lower=True, transpose_a=True
    ).reshape(-1),
    "triangular, mapped": lambda x: nm.vmap(
        lambda a, b: nm.jax.lax.linalg.triangular_solve(a, b[:, None], left_side=True, lower=False)[:, 0]
    )(np.stack([LOWER.T, np.eye(5)]), x.reshape(2, 5)).reshape(-1),
    "a constant branch": lambda x: nm.jax.lax.switch(1, [lambda y: y, lambda y: y[::-1]], x),
    "mapped": lambda x: nm.vmap(lambda row: nnp.sin(row[0]) * row)(x.reshape(5, 2)).reshape(-1),
    "called": lambda x: nm.jit(lambda y: y * nnp.roll(y, 1))(x) + nm.jit(lambda y: y * nnp.roll(y, 1))(x),
}


@pytest.mark.parametrize("name", EXACT)
def test_the_pattern_is_the_truth(name: str) -> None:
    pattern, _ = analysed(EXACT[name], 10)
    expected = truth(EXACT[name], 10)
    if name == "branches":  # either may be taken; the points take one
        expected = truth(lambda x: x * x + nnp.roll(x, 1), 10)
    assert (pattern == expected).all()


def test_a_straight_through_rule_has_the_pattern_of_the_rule() -> None:
    @nm.custom_jvp
    def rounded(x: Any) -> Any:
        return nnp.round(x)

    rounded.defjvp(lambda primals, tangents: (rounded(*primals), tangents[0]))
    pattern, _ = analysed(lambda x: rounded(x), 5)
    assert (pattern == np.eye(5, dtype=bool)).all()


def test_a_loop_that_is_not_counted_is_a_fixed_point() -> None:
    def halved(x: Any) -> Any:
        return nm.while_loop(lambda u: nnp.max(u) > 1.0, lambda u: u.at[1:3].multiply(0.5), x)

    pattern, _ = analysed(halved, 6)
    assert (pattern == np.eye(6, dtype=bool)).all()

    def spreading(x: Any) -> Any:
        return nm.while_loop(lambda u: nnp.max(u) > 1.0, lambda u: 0.5 * nnp.roll(u, 1), x)

    pattern, _ = analysed(spreading, 40)
    assert pattern.all()  # any number of turns, so any place: never less than the truth


def test_places_that_are_not_known_take_whole_axes() -> None:
    f = lambda x: x.reshape(2, 5)[:, nnp.argmax(x[:5])]  # noqa: E731
    pattern, _ = analysed(f, 10)
    assert (pattern == np.kron(np.eye(2, dtype=bool), np.ones((1, 5), bool))).all()


def test_a_long_loop_has_a_pattern_that_contains_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nabla_mlir.base.thresholds.PATTERN_STEPS", 10)
    pattern, _ = analysed(scanned, 10)
    assert not (truth(scanned, 10) & ~pattern).any()


@pytest.mark.parametrize("name", EXACT)
def test_the_function_shows_what_its_derivative_does(name: str) -> None:
    expected, _ = analysed(EXACT[name], 10)
    assert (nm.sparse.jacobian_pattern(EXACT[name], nm.spec(10, "f64")).to_dense() == expected).all()


def turned(x: Any) -> Any:
    return nm.fori_loop(0, 100_000, lambda i, u: nnp.roll(u, 3) * 0.5, x)


def spread(x: Any) -> Any:
    return nm.fori_loop(0, 100_000, lambda i, u: nnp.roll(u, 2) + x, 0.0 * x + 1.0)


def scaled(x: Any) -> Any:
    return nm.fori_loop(0, 100_000, lambda i, u: u * (i + 1.0), x)


def handed(x: Any) -> Any:
    return nm.fori_loop(0, 100_001, lambda i, s: (s[1], nnp.roll(s[0], 1)), (x[:5], x[5:]))[0]


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (turned, np.roll(np.eye(10), 300_000 % 10, axis=0)),
        (spread, np.tile(np.eye(2), (5, 5))),
        (scaled, np.eye(10)),
        (handed, np.eye(5, 10, k=5)),
    ],
)
def test_long_loops_are_squared(monkeypatch: pytest.MonkeyPatch, f: Callable[..., Any], expected: np.ndarray) -> None:
    """A fixed point, which would be reached before their ends are followed, is dense."""
    monkeypatch.setattr("nabla_mlir.base.thresholds.PATTERN_STEPS", 1_000)
    assert (nm.sparse.jacobian_pattern(f, nm.spec(10, "f64")).to_dense() == (expected != 0)).all()


def test_a_loop_that_is_too_long_is_given_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nabla_mlir.base.thresholds.PATTERN_STEPS", 4_000)
    pattern, found = analysed(scanned, 1_500)
    assert found._steps < 3_500
    assert pattern[np.tril_indices(1_499, k=-1)].all()
    assert found.causes[-1].operation == "stablehlo.while"


def test_what_made_it_dense_is_named_with_its_line() -> None:
    def f(x: Any) -> Any:
        total = x.sum()
        return x * total

    _, found = analysed(f, 5)
    (cause,) = found.causes
    assert cause.operation in ("stablehlo.reduce", "stablehlo.dot_general")
    assert cause.where is not None
    assert cause.where.filename == __file__
    assert cause.where.line == f.__code__.co_firstlineno + 1


def test_the_cost_of_a_stencil_does_not_depend_on_its_size() -> None:
    """Nothing is written down for each element: the same boxes, and as many steps."""

    def boxes(n: int) -> int:
        gradient = nm.trace(nm.hvp(lambda x: ((x[1:] - x[:-1] ** 2) ** 2).sum()), *[nm.spec(n, "f64")] * 2, name="f").lower()
        function = functions_of(gradient.module.operation)["f"]
        (found,) = results_of(function, dependence_of(function, [1]))
        assert found.boxes is not None
        return len(found.boxes)

    assert boxes(100) == boxes(10**8) <= 4
