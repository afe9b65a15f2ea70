"""Sparse Jacobians and Hessians: patterns, numbers of colors and values of problems whose answers are known."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xla import run_traced

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import DtypeError, NablaError, PatternError, ShapeError, TraceError

sparse = nm.sparse


def point(n: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(0.5, 1.5, n)


def f64(n: int) -> Any:
    return nm.spec(n, "f64")


def rosenbrock(x: Any) -> Any:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def heat(u: Any) -> Any:
    left, right = nnp.pad(u[:-1], (1, 0)), nnp.pad(u[1:], (0, 1))
    return left - 2 * u + right + 0.1 * u**3


def windows(x: Any) -> Any:
    return nnp.sin(sum(x[k : x.shape[0] - 5 + k] for k in range(6))).sum()


def brusselator(size: int) -> Callable[[Any], Any]:
    def f(w: Any) -> Any:
        u, v = w.reshape(2, size, size)

        def laplacian(z: Any) -> Any:
            return sum(nnp.roll(z, s, a) for s in (1, -1) for a in (0, 1)) - 4 * z

        du = 1.0 + u * u * v - 4.4 * u + laplacian(u)
        dv = 3.4 * u - u * u * v + laplacian(v)
        return nnp.stack([du, dv]).reshape(-1)

    return f


def arrow(x: Any) -> Any:
    y = x * x + x[0]
    return nnp.concatenate([y[:1] + (x * x).sum(), y[1:]])


def bratu(size: int) -> Callable[[Any], Any]:
    def energy(x: Any) -> Any:
        u = nnp.pad(x.reshape(size, size), 1)
        return 0.5 * (((u[1:] - u[:-1]) ** 2).sum() + ((u[:, 1:] - u[:, :-1]) ** 2).sum()) - nnp.exp(u[1:-1, 1:-1]).sum()

    return energy


def luksan_constraints(x: Any) -> Any:
    a, b, c = x[:-2], x[1:-1], x[2:]
    return 3 * b**3 + 2 * c - 5 + nnp.sin(b - c) * nnp.sin(b + c) + 4 * b - a * nnp.exp(a - b) - 3


def luksan_lagrangian(x: Any, sigma: Any, weights: Any) -> Any:
    return sigma * (100 * (x[:-1] ** 2 - x[1:]) ** 2 + (x[:-1] - 1) ** 2).sum() + (weights * luksan_constraints(x)).sum()


def hs071(x: Any) -> Any:
    return x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2]


def hs071_constraints(x: Any) -> Any:
    return nnp.stack([x[0] * x[1] * x[2] * x[3], (x * x).sum()])


def convolutions(x: Any) -> Any:
    rng = np.random.default_rng(1)
    image = x.reshape(1, -1, 1)
    for width, channels in ((5, 8), (3, 4), (3, 2)):
        image = nnp.tanh(nm.nn.conv(image, rng.normal(size=(width, image.shape[-1], channels)), padding="SAME"))
    return image.reshape(-1)


EDGES = np.array([(1, 2), (1, 7), (2, 3), (2, 5), (3, 4), (3, 6), (4, 10), (5, 6), (5, 8), (6, 9), (7, 8), (8, 9), (9, 10)]) - 1


def edges(x: Any) -> Any:
    return ((x[EDGES[:, 0]] * x[EDGES[:, 1]]) ** 2).sum() + (x * x).sum()


@pytest.mark.parametrize(
    ("f", "n", "nnz", "colors"),
    [
        (lambda x: x * x, 10_000, 10_000, {"column": 1, "row": 1}),
        (heat, 200, 598, {"column": 3, "row": 3, "star": 3, "acyclic": 2}),
        (brusselator(32), 2048, 12_288, {"column": 8}),
        (brusselator(30), 1800, 10_800, {"column": 6}),
        (arrow, 1000, 2998, {"column": 1000, "row": 1000, "bidirectional": 3}),
        (luksan_constraints, 1000, 2994, {"column": 3, "row": 3}),
        (hs071_constraints, 4, 8, {"row": 2, "column": 4}),
        (convolutions, 200, 3560, {"column": 9, "row": 18}),
        (nm.nn.relu, 1000, 1000, {"column": 1}),
    ],
    ids=["square", "heat", "brusselator 32", "brusselator 30", "arrow", "luksan", "hs071", "convolutions", "relu"],
)
def test_jacobians_of_the_literature(f: Any, n: int, nnz: int, colors: dict[str, int]) -> None:
    pattern = sparse.jacobian_pattern(f, f64(n))
    assert pattern.nnz == nnz
    for kind, most in colors.items():
        coloring = sparse.color(pattern, kind)
        coloring.verify()
        assert sparse.lower_bound(pattern, kind) <= coloring.num_colors <= most


@pytest.mark.parametrize(
    ("f", "n", "nnz", "colors"),
    [
        (rosenbrock, 200, 598, {"star": 3, "acyclic": 2}),
        (rosenbrock, 10_000, 29_998, {"star": 3, "acyclic": 2}),
        (windows, 5000, 54_970, {"column": 11, "star": 11, "acyclic": 6}),
        (bratu(50), 2500, 12_300, {"column": 5, "star": 5, "acyclic": 3}),
        (hs071, 4, 11, {"star": 4}),
        (lambda x: hs071(x) + hs071_constraints(x).sum(), 4, 16, {"star": 4}),
        (edges, 10, 36, {"star": 5, "acyclic": 3}),
        (lambda x: x[0] + x[1] * x[2] + 1 / x[3], 4, 3, {"star": 3}),
        (lambda x: x[0] * x[1], 2, 2, {"star": 2}),
    ],
    ids=["rosenbrock", "long rosenbrock", "windows", "bratu", "hs071", "hs071 with constraints", "edges", "tracer", "product"],
)
def test_hessians_of_the_literature(f: Any, n: int, nnz: int, colors: dict[str, int]) -> None:
    pattern = sparse.hessian_pattern(f, f64(n))
    assert pattern.nnz == nnz
    for kind, most in colors.items():
        coloring = sparse.color(pattern, kind)
        coloring.verify()
        assert sparse.lower_bound(pattern, kind) <= coloring.num_colors <= most


def test_the_lagrangian_of_luksan_and_vlcek() -> None:
    pattern = sparse.hessian_pattern(luksan_lagrangian, f64(1000), f64(()), f64(998))
    assert pattern.nnz == 2998
    assert [sparse.color(pattern, kind).num_colors for kind in ("star", "acyclic")] == [3, 2]
    x, weights = point(20), point(18)
    found = sparse.hessian(luksan_lagrangian)(x, 2.0, weights)
    np.testing.assert_allclose(found.to_dense(), nm.hessian(luksan_lagrangian)(x, 2.0, weights), rtol=1e-10, atol=1e-10)


JACOBIANS = {
    "heat": (heat, 12),
    "brusselator": (brusselator(4), 32),
    "arrow": (arrow, 9),
    "luksan": (luksan_constraints, 9),
    "hs071": (hs071_constraints, 4),
    "convolutions": (convolutions, 12),
    "one row": (lambda x: x.sum(), 5),
    "nothing": (lambda x: 0 * x[:2] + 1.0, 5),
    "one column": (lambda x: x * np.ones(4), 1),
}


@pytest.mark.parametrize("kind", ["auto", "column", "row", "bidirectional"])
def test_jacobians_are_the_dense_ones(kind: str) -> None:
    def both(*points: Any) -> Any:
        return {
            name: (sparse.jacobian(f, kind=kind)(x), nm.jacfwd(f)(x))
            for x, (name, (f, _)) in zip(points, JACOBIANS.items(), strict=True)
        }

    for name, (matrix, dense) in run_traced(both, [point(n) for _, n in JACOBIANS.values()]).items():
        dense = np.asarray(dense).reshape(matrix.shape)
        ours = matrix.to_scipy().toarray()
        np.testing.assert_allclose(ours, dense, rtol=1e-12, atol=1e-12, err_msg=name)
        assert (matrix.pattern.to_dense() | (dense == 0)).all()


HESSIANS = {
    "rosenbrock": (rosenbrock, 15),
    "windows": (windows, 14),
    "bratu": (bratu(4), 16),
    "hs071": (hs071, 4),
    "edges": (edges, 10),
    "linear": (lambda x: x.sum(), 3),
    "tracer": (lambda x: x[0] + x[1] * x[2] + 1 / x[3], 4),
}


@pytest.mark.parametrize("kind", ["star", "acyclic", "column"])
def test_hessians_are_the_dense_ones(kind: str) -> None:
    def both(*points: Any) -> Any:
        return {
            name: (sparse.hessian(f, kind=kind)(x), nm.hessian(f)(x))
            for x, (name, (f, _)) in zip(points, HESSIANS.items(), strict=True)
        }

    for name, (matrix, dense) in run_traced(both, [point(n) for _, n in HESSIANS.values()]).items():
        np.testing.assert_allclose(matrix.to_scipy().toarray(), dense, rtol=1e-10, atol=1e-10, err_msg=name)


@pytest.mark.parametrize("f", [lambda x: 0 * x[:2] + 1.0, lambda x: x[:0]])
def test_matrices_without_entries(f: Any) -> None:
    matrix = sparse.jacobian(f)(point(3))
    assert matrix.pattern.nnz == 0
    assert np.asarray(matrix.to_dense()).tolist() == np.zeros(matrix.shape).tolist()
    assert np.asarray(matrix @ point(3)).tolist() == [0.0] * matrix.shape[0]


@pytest.mark.slow
def test_long_paths_of_substitution() -> None:
    """Two colors of 4000 columns: entries depend on 2000 products before them."""
    x = point(9000)  # what does not fit on a stack of 32 KiB

    @nm.jit
    def both(x: Any) -> Any:
        star, acyclic = (sparse.hessian(rosenbrock, kind=kind)(x) for kind in ("star", "acyclic"))
        return star.data, acyclic.data, star @ x

    direct, substituted, moved = map(np.asarray, both(x))
    np.testing.assert_allclose(substituted, direct, atol=1e-9 * np.abs(direct).max())
    np.testing.assert_allclose(moved, nm.hvp(rosenbrock)(x, x), rtol=1e-10)


def test_trees_of_several_arguments() -> None:
    def f(x: Any, scale: Any, y: Any) -> Any:
        return {"a": x["u"] * scale * y[:2], "b": [x["v"].sum(), y**2]}

    x, y = {"u": point(2), "v": point(6).reshape(2, 3)}, point(3)
    matrix = sparse.jacobian(f, argnums=(0, 2))(x, 2.0, y)
    dense = nm.jacfwd(f, argnums=(0, 2))(x, 2.0, y)
    rows = [dense["a"], *dense["b"]]
    blocks = [[np.asarray(j).reshape(k, -1) for j in (r[0]["u"], r[0]["v"], r[1])] for r, k in zip(rows, (2, 1, 3), strict=True)]
    np.testing.assert_allclose(matrix.to_dense(), np.block(blocks), rtol=1e-12)
    pattern = sparse.jacobian_pattern(f, {"u": f64(2), "v": f64((2, 3))}, 1.0, f64(3), argnums=(0, 2))
    assert pattern == matrix.pattern
    assert pattern.nnz == 2 + 2 + 6 + 3


def test_entries_are_traced_mapped_and_differentiated() -> None:
    points = np.stack([point(6), 2 * point(6)])
    batch = nm.jit(nm.vmap(sparse.hessian(rosenbrock)))(points)
    assert batch.data.shape == (2, 16)
    for k, x in enumerate(points):
        single = sparse.hessian(rosenbrock)(x)
        assert single.pattern == batch.pattern
        np.testing.assert_allclose(np.asarray(batch.data)[k], single.data, rtol=1e-12)
    trace = nm.grad(lambda x: sparse.jacobian(lambda x: x**3)(x).data.sum())(points[0])
    np.testing.assert_allclose(trace, 6 * points[0], rtol=1e-12)


def test_what_a_function_closes_over() -> None:
    positions = np.random.default_rng(3).permutation(40)

    def outer(x: Any, y: Any) -> Any:
        return sparse.jacobian(lambda x: x[positions] * y)(x)

    x, y = point(40), point(40)[::-1].copy()
    matrix = nm.jit(outer)(x, y)
    assert matrix.pattern.nnz == 40
    np.testing.assert_allclose(matrix.to_dense(), np.eye(40)[positions] * y[:, None], rtol=1e-12)


def test_matrices() -> None:
    f = luksan_constraints
    x, vector, block = point(9), point(9), point(18).reshape(9, 2)
    matrix, dense = sparse.jacobian(f)(x), np.asarray(nm.jacfwd(f)(x))
    np.testing.assert_allclose(matrix @ vector, dense @ vector, rtol=1e-12)
    np.testing.assert_allclose(matrix @ block, dense @ block, rtol=1e-12)
    np.testing.assert_allclose(matrix.T.to_dense(), dense.T, rtol=1e-12)
    for form in ("csr", "csc", "coo"):
        assert matrix.to_scipy(form).format == form
        np.testing.assert_allclose(matrix.to_scipy(form).toarray(), dense, rtol=1e-12)
    assert repr(matrix) == "SparseMatrix(7x9, nnz=21, float64)"
    assert matrix.dtype == np.float64


def test_patterns_and_colorings_of_ones_own() -> None:
    x = point(5)
    wide = np.tri(5, k=1) - np.tri(5, k=-2)
    matrix = sparse.jacobian(lambda x: x * x, pattern=wide)(x)
    assert matrix.pattern.nnz == 13
    np.testing.assert_allclose(matrix.to_dense(), np.diag(2 * x), rtol=1e-12)
    coloring = sparse.color(sparse.Pattern.of(wide), "row")
    np.testing.assert_allclose(sparse.jacobian(lambda x: x * x, coloring=coloring)(x).to_dense(), np.diag(2 * x), rtol=1e-12)


def test_the_cheapest_kind() -> None:
    assert sparse.cheapest(sparse.Pattern.of(np.ones((2, 50)))).kind == "row"
    assert sparse.cheapest(sparse.Pattern.of(np.ones((50, 2)))).kind == "column"
    assert sparse.cheapest(sparse.jacobian_pattern(arrow, f64(50))).kind == "bidirectional"


def test_a_dense_pattern_says_why() -> None:
    pattern = sparse.hessian_pattern(lambda x: x.sum() ** 2, f64(6))
    assert pattern.density == 1.0
    assert "made dense by stablehlo." in pattern.explain()
    assert __file__ in pattern.explain()
    assert "help: one such row or column: kind='bidirectional'; many: products" in pattern.explain()
    with pytest.raises(PatternError, match=r"entries, got one of \d+ for .* rows .*\. It is made dense by stablehlo\.") as caught:
        sparse.hessian_pattern(lambda x: x.sum() ** 2, f64(100_000))
    assert "products (nm.hvp, nm.jvp, nm.HessianOperator) need no entries" in str(caught.value)


def test_patterns_after_an_error() -> None:
    """The error holds what was traced, which is gone when it is caught: memory was overwritten by what was traced next."""

    def rooted(x: Any) -> Any:
        @nm.custom_jvp
        def solution(y: Any) -> Any:
            return (x * y) ** (1 / 3)

        solution.defjvp(lambda primals, tangents: (solution(*primals), *tangents))
        return solution(x)

    for _ in range(6):
        with pytest.raises(NablaError, match="the custom rule of solution requires"):
            sparse.jacobian_pattern(rooted, f64(3))
        assert sparse.jacobian_pattern(lambda x: x * nm.stop_gradient(x[::-1]), f64(4)).nnz == 4
        assert sparse.hessian_pattern(lambda x: (x**3).sum(), f64(3)).nnz == 3


def test_a_full_stencil_of_few_columns_is_not_called_dense() -> None:
    """Five boxes of five columns, of which each row has four."""
    pattern = sparse.jacobian_pattern(lambda x: sum(nnp.roll(x, k) for k in (-1, 0, 1, 2)) + x[::1], f64(5))
    assert (pattern.nnz, pattern.causes) == (20, ())


def test_a_wrong_pattern_is_found() -> None:
    x = point(6)
    f = lambda x: x * nnp.roll(x, 1)  # noqa: E731
    sparse.check_pattern(f, sparse.jacobian_pattern(f, f64(6)), x)
    with pytest.raises(PatternError, match=r"with every entry of the Jacobian, got none at \(0, 5\), which is"):
        sparse.check_pattern(f, np.eye(6), x)


def wrong_coloring(f: Any, n: int, columns: int | None = None) -> Any:
    pattern = sparse.jacobian_pattern(f, f64(n))
    return sparse.Coloring(pattern, "column", np.zeros(columns or n, int), np.full(n, -1), "given")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: sparse.jacobian(heat, kind="star"), PatternError, "jacobian requires a kind among auto, .*, got 'star'"),
        (lambda: sparse.hessian(rosenbrock, kind="row"), PatternError, "hessian requires a kind among star, .*, got 'row'"),
        (
            lambda: sparse.jacobian(heat, pattern=np.eye(3))(point(4)),
            PatternError,
            r"jacobian requires a pattern of shape \(4, 4\), got Pattern\(3x3, nnz=3\)",
        ),
        (lambda: sparse.jacobian(heat)(np.arange(4)), DtypeError, "jacobian requires arguments of floating point, got int64"),
        (lambda: sparse.jacobian(lambda x: x > 0)(point(4)), DtypeError, "jacobian requires real results, got bool"),
        (lambda: sparse.jacobian_pattern(heat, f64(4), argnums=1), TraceError, "argnums"),
        (lambda: sparse.hessian(rosenbrock, pattern=np.tri(4))(point(4)), PatternError, "requires a symmetric pattern"),
        (lambda: sparse.jacobian(heat, coloring=wrong_coloring(heat, 4))(point(4)), PatternError, "every entry can be read"),
        (
            lambda: sparse.hessian(rosenbrock, coloring=wrong_coloring(nm.grad(rosenbrock), 4))(point(4)),
            PatternError,
            "every entry",
        ),
        (lambda: sparse.jacobian(heat, coloring=wrong_coloring(heat, 4, 3))(point(4)), PatternError, "a color for each row"),
        (lambda: sparse.hessian(heat)(point(4)), ShapeError, r"hessian requires a scalar result, got shape \(4,\)"),
        (lambda: sparse.hessian_pattern(heat, f64(4)), ShapeError, "hessian_pattern requires a scalar result"),
        (lambda: sparse.jacobian(heat)(point(4)) @ point(3), ShapeError, r"requires an array of 4 rows, got shape \(3,\)"),
        (
            lambda: nm.vmap(sparse.jacobian(heat))(point(8).reshape(2, 4)).to_scipy(),
            ShapeError,
            r"to_scipy requires a single matrix, got entries of shape \(2, 10\)",
        ),
    ],
)
def test_errors(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_repeated_calls_give_the_containers_of_the_first() -> None:
    @nm.register_dataclass
    @dataclasses.dataclass
    class Both:
        first: Any
        second: Any

    Pair = collections.namedtuple("Pair", ["left", "right"])
    outs: list[Any] = [
        lambda x: nm.sparse.jacobian(lambda y: y[1:] * y[:-1])(x),
        lambda x: Both(x, 2.0 * x),
        lambda x: Pair(x, 2.0 * x),
        lambda x: {"b": x, "a": 2.0 * x},
        lambda x: Both(x, {"b": 2.0 * x}),
        lambda x: (None, Both(x, x + 1.0)),
    ]
    for f in outs:
        jitted, x = nm.jit(f), np.arange(3.0)
        first, *others = (jitted(x) for _ in range(3))
        for again in others:
            assert nm.jax.tree.structure(again) == nm.jax.tree.structure(first)
            assert all(np.array_equal(a, b) for a, b in zip(nm.jax.tree.leaves(again), nm.jax.tree.leaves(first), strict=True))
            if isinstance(first, dict):
                assert list(again) == list(first)


def test_lines_are_looked_for_where_they_are_named() -> None:
    calls = 0

    def f(x: Any) -> Any:
        nonlocal calls
        calls += 1
        return x * x[0] if calls < 2 else x * x.sum()

    assert not nm.sparse.jacobian_pattern(f, nm.spec(3, "f64")).causes
    assert calls == 1
    (cause,) = nm.sparse.jacobian_pattern(f, nm.spec(3, "f64")).causes
    assert cause.endswith(f"{__file__}:{f.__code__.co_firstlineno + 3}")
