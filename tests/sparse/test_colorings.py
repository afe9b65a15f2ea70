"""Colorings against their definitions on random matrices, against counts of others, and against the lower bounds."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from xla import run_traced

import nabla_mlir as nm
from nabla_mlir.base.errors import PatternError
from nabla_mlir.sparse.orders import ORDERS
from nabla_mlir.sparse.pattern import Pattern
from nabla_mlir.sparse.trees import is_acyclic
from nabla_mlir.sparsity.rows import Rows

color, lower_bound = nm.sparse.color, nm.sparse.lower_bound


def sparse_hessian(values: np.ndarray, coloring: Any) -> Any:
    hessian = nm.sparse.hessian(lambda x: 0.5 * x @ (values @ x), coloring=coloring)
    return lambda x: hessian(x).to_dense()


def random_matrix(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    m, n = rng.integers(1, 14, 2)
    return rng.random((m, n)) < rng.choice([0.1, 0.3, 0.6])


def random_symmetric(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 14))
    half = rng.random((n, n)) < rng.choice([0.1, 0.2, 0.4])
    return half | half.T | np.eye(n, dtype=bool)


def is_column_coloring(a: np.ndarray, colors: np.ndarray) -> bool:
    return all(len({colors[j] for j in np.nonzero(row)[0]}) == row.sum() and colors[row].min(initial=0) >= 0 for row in a)


def proper(a: np.ndarray, colors: np.ndarray) -> bool:
    i, j = np.nonzero(np.triu(a, 1))
    return bool((colors[i] != colors[j]).all())


def star_by_definition(a: np.ndarray, colors: np.ndarray) -> bool:
    """No path of four vertices in two colors."""
    n = len(a)
    near = [set(np.nonzero(a[v])[0]) - {v} for v in range(n)]
    for b, c in itertools.permutations(range(n), 2):
        if c in near[b]:
            for x in near[b] - {c}:
                for y in near[c] - {b, x}:
                    if colors[x] == colors[c] and colors[y] == colors[b]:
                        return False
    return proper(a, colors)


def acyclic_by_definition(a: np.ndarray, colors: np.ndarray) -> bool:
    """The entries between any two colors are a forest: the rank of their incidence matrix is their number."""
    for p, q in itertools.combinations(set(colors.tolist()), 2):
        edges = [(i, j) for i, j in zip(*np.nonzero(np.triu(a, 1)), strict=True) if {colors[i], colors[j]} == {p, q}]
        incidence = np.zeros((len(edges), len(a)))
        for k, (i, j) in enumerate(edges):
            incidence[k, i], incidence[k, j] = 1, -1
        if len(edges) and np.linalg.matrix_rank(incidence) < len(edges):
            return False
    return proper(a, colors)


@pytest.mark.parametrize("order", [*ORDERS, "best"])
@pytest.mark.parametrize("seed", range(12))
def test_columns_and_rows(seed: int, order: str) -> None:
    a = random_matrix(seed)
    by_column, by_row = (color(Pattern.of(a), kind, order) for kind in ("column", "row"))
    assert is_column_coloring(a, by_column.columns)
    assert is_column_coloring(a.T, by_row.rows)
    for found, kind in ((by_column, "column"), (by_row, "row")):
        found.verify()
        assert lower_bound(Pattern.of(a), kind) <= found.num_colors


@pytest.mark.parametrize("order", [*ORDERS, "best"])
@pytest.mark.parametrize("seed", range(25))
def test_star_and_acyclic(seed: int, order: str) -> None:
    a = random_symmetric(seed)
    pattern = Pattern.of(a)
    star, acyclic = color(pattern, "star", order), color(pattern, "acyclic", order)
    assert star_by_definition(a, star.columns)
    assert acyclic_by_definition(a, acyclic.columns)
    assert is_acyclic(pattern, acyclic.columns)
    star.verify()
    acyclic.verify()
    assert lower_bound(pattern, "acyclic") <= acyclic.num_colors


@pytest.mark.parametrize("seed", range(25))
def test_both_at_once(seed: int) -> None:
    a = random_matrix(seed)
    pattern = Pattern.of(a)
    found = color(pattern, "bidirectional")
    found.verify()
    alone = [color(pattern, kind).num_colors for kind in ("column", "row")]
    assert lower_bound(pattern, "bidirectional") <= found.num_colors <= min(alone)


@pytest.mark.parametrize("seed", range(10))
def test_is_acyclic_is_the_definition(seed: int) -> None:
    rng, a = np.random.default_rng(seed), random_symmetric(seed)
    for k in (2, 3, 5):
        colors = rng.integers(0, k, len(a))
        assert is_acyclic(Pattern.of(a), colors) == acyclic_by_definition(a, colors)


def band(n: int, half: int) -> Pattern:
    i = np.arange(n)
    row = np.concatenate([i[max(0, -k) : n - max(0, k)] for k in range(-half, half + 1)])
    column = np.concatenate([i[max(0, -k) : n - max(0, k)] + k for k in range(-half, half + 1)])
    return Pattern.of((row, column, (n, n)))


def grid(*shape: int, periodic: bool = False) -> Pattern:
    """A five-point, seven-point, ... stencil."""
    numbers = np.arange(int(np.prod(shape))).reshape(shape)
    row, column = [numbers.ravel()], [numbers.ravel()]
    for axis, size in enumerate(shape):
        for step in (1, -1):
            other = np.roll(numbers, -step, axis)
            stored = np.ones(shape, bool)
            if not periodic:
                stored[(slice(None),) * axis + (size - 1 if step == 1 else 0,)] = False
            row.append(numbers[stored])
            column.append(other[stored])
    pattern = Pattern.of((np.concatenate(row), np.concatenate(column), (numbers.size,) * 2))
    return Pattern(pattern.rows, (shape,))


@pytest.mark.parametrize("half", [1, 2, 5])
def test_bands(half: int) -> None:
    """2k + 1 columns, 2k + 1 for stars, k + 1 without cycles, which is optimal among all methods."""
    pattern = band(300, half)
    assert [color(pattern, kind).num_colors for kind in ("column", "star", "acyclic")] == [2 * half + 1, 2 * half + 1, half + 1]
    assert lower_bound(pattern, "column") == 2 * half + 1
    assert lower_bound(pattern, "acyclic") == half + 1


def test_grids() -> None:
    plane = grid(50, 50)
    assert plane.nnz == 12_300
    assert [color(plane, kind).num_colors for kind in ("column", "star", "acyclic")] == [5, 5, 3]
    assert lower_bound(plane, "column") == 5
    assert lower_bound(plane, "acyclic") == 3
    space = grid(12, 12, 12)
    assert color(space).num_colors == 7
    assert color(space, "acyclic").num_colors == 4


@pytest.mark.parametrize(("size", "colors"), [(30, 5), (32, 8)])
def test_periodic_grids(size: int, colors: int) -> None:
    found = color(grid(size, size, periodic=True))
    assert found.num_colors <= colors
    assert found.order == "lattice"
    found.verify()


@pytest.mark.parametrize(("pattern", "colors"), [(band(400, 1), (3, 3, 2)), (band(200, 3), (7, 5, 4)), (grid(20, 20), (5, 5, 3))])
def test_depths_of_substitution(pattern: Pattern, colors: tuple[int, ...]) -> None:
    """Fewer entries that follow from each other take more colors, up to those of a star coloring."""
    for depth, most in zip((1, 8, None), colors, strict=True):
        found = color(pattern, "acyclic", depth=depth)
        found.verify()
        assert found.num_colors <= most
        assert depth is None or found.depth <= depth
    assert found.depth > 8
    assert color(pattern, "star").depth == 1


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("depth", [1, 2, 4])
def test_every_order_keeps_the_depth(seed: int, depth: int) -> None:
    a = random_symmetric(seed)
    for order in ("natural", "smallest_last", "random"):
        found = color(Pattern.of(a), "acyclic", order, depth=depth)
        assert acyclic_by_definition(a, found.columns)
        assert found.depth <= depth
        assert depth > 1 or star_by_definition(a, found.columns)


def test_dense_rows_beside_dense_columns() -> None:
    arrow = np.eye(1000, dtype=bool)
    arrow[0] = arrow[:, 0] = True
    pattern = Pattern.of(arrow)
    assert pattern.nnz == 2998
    assert [color(pattern, kind).num_colors for kind in ("column", "row")] == [1000, 1000]
    assert color(pattern, "bidirectional").num_colors == lower_bound(pattern, "bidirectional") == 3
    frame = np.zeros((10, 20), bool)
    frame[[0, 9]] = frame[:, [0, 19]] = True
    pattern = Pattern.of(frame)
    assert [color(pattern, kind).num_colors for kind in ("column", "row", "bidirectional")] == [20, 10, 4]
    wide = np.zeros((100, 200), bool)
    wide[[0, 99]] = wide[:, [0, 199]] = True
    assert color(Pattern.of(wide), "bidirectional", "natural").num_colors == 4


def test_rows_and_columns_in_one_part_of_the_matrix() -> None:
    """Blocks of long rows with a dense column across, and of long columns with a dense row: rows alone take as many as there are."""
    block = np.kron(np.eye(10, dtype=bool), np.ones((1, 20), bool))
    m, n = block.shape
    crossed = np.zeros((m + n + 1, n + m + 1), bool)
    crossed[:m, :n], crossed[m : m + n, n : n + m] = block, block.T
    crossed[:m, -1] = crossed[-1, n : n + m] = True
    found = color(Pattern.of(crossed), "bidirectional")
    assert found.num_colors == 4
    found.verify()
    crossed[:, -1] = crossed[-1] = True
    assert color(Pattern.of(crossed), "bidirectional").num_colors <= 5


def test_small_patterns_are_colored_in_all_orders() -> None:
    """A lattice of rows of ten columns took 7 colors, greedy orders 5."""
    rows = ([0, 1], [1, 2, 3, 6, 7], [2, 4, 5], [2, 3, 6, 7], [4, 8, 9])
    a = np.zeros((5, 10), bool)
    for i, columns in enumerate(rows):
        a[i, columns] = True
    pattern = Pattern(Pattern.of(a).rows, ((2, 5),))
    assert color(pattern).num_colors == lower_bound(pattern) == lower_bound(a) == 5


def test_a_figure_of_the_literature() -> None:
    """The graph of ten vertices of Gebremedhin, Tarafdar, Pothen and Walther, 2009."""
    a = np.eye(10, dtype=bool)
    for edge in ((1, 2), (1, 7), (2, 3), (2, 5), (3, 4), (3, 6), (4, 10), (5, 6), (5, 8), (6, 9), (7, 8), (8, 9), (9, 10)):
        i, j = edge[0] - 1, edge[1] - 1
        a[i, j] = a[j, i] = True
    pattern = Pattern.of(a)
    assert pattern.nnz == 36
    assert color(pattern, "star").num_colors <= 5
    assert color(pattern, "acyclic").num_colors == lower_bound(pattern, "acyclic") == 3


def test_idle_columns_have_no_color() -> None:
    found = color(Pattern.of(np.array([[1, 0, 1], [1, 0, 0]])))
    assert found.columns.tolist() == [0, -1, 1]
    assert color(Pattern.of(np.zeros((3, 2)))).num_colors == 0
    assert color(Pattern.of(np.zeros((3, 2))), "bidirectional").num_colors == 0
    assert color(Pattern.of(np.zeros((0, 0))), "star").num_colors == 0


def test_an_order_of_ones_own() -> None:
    a = random_matrix(3)
    assert is_column_coloring(a, color(Pattern.of(a), order=list(range(a.shape[1]))[::-1]).columns)
    with pytest.raises(PatternError, match=r"requires an order with each of \d+ columns once, got 2 numbers"):
        color(Pattern.of(np.eye(3)), order=[0, 1])


def test_a_wrong_coloring_is_refused_with_an_entry() -> None:
    pattern = Pattern.of(np.ones((2, 2)))
    wrong = nm.sparse.Coloring(pattern, "column", np.zeros(2, int), np.full(2, -1), "given")
    with pytest.raises(PatternError, match=r"a column coloring requires that every entry can be read, got none for \(0, 0\)"):
        wrong.verify()
    for kind in ("star", "acyclic"):
        with pytest.raises(PatternError, match=f"a {kind} coloring requires that every entry can be read"):
            nm.sparse.Coloring(band(9, 1), kind, np.zeros(9, int), np.full(9, -1), "given").verify()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: color(Pattern.of(np.eye(3)), "edge"), r"color requires a kind among column, .*, got 'edge'"),
        (lambda: color(Pattern.of(np.eye(3)), order="best?"), r"color requires an order among natural, .*, got 'best\?'"),
        (lambda: color(Pattern.of(np.tri(3)), "star"), r"color requires a symmetric pattern for kind 'star', got Pattern\(3x3"),
        (lambda: color(Pattern.of(np.eye(3)), "star", depth=2), r"color requires a depth .*, got depth=2 of 'star'"),
        (lambda: color(Pattern.of(np.eye(3)), "acyclic", depth=0), r"color requires a depth of 1 or more, .* got depth=0 of"),
        (lambda: lower_bound(Pattern.of(np.ones((2, 3))), "acyclic"), "lower_bound requires a symmetric pattern"),
        (lambda: color(Pattern.of(np.ones((2, 3))), order="lattice"), r"color requires a stencil for order 'lattice'"),
        (lambda: Pattern.of(np.zeros(3)), r"a pattern requires a matrix, got an array of shape \(3,\)"),
        (lambda: Pattern.of(([0, 3], [0, 0], (3, 3))), r"a pattern requires rows from 0 to 2, got 3"),
        (lambda: Pattern.of(([0, 1], [0], (3, 3))), r"a pattern requires as many rows as columns"),
        (lambda: Pattern.of(([0.5], [0], (3, 3))), r"whole numbers, .* of float64"),
        (lambda: Pattern.of(([0], [0], (3,))), r"and a shape of two"),
        (lambda: Pattern.of(([0, 1], [0, -1], (3, 3))), r"a pattern requires columns from 0 to 2, got -1"),
    ],
)
def test_errors(call: Any, message: str) -> None:
    with pytest.raises(PatternError, match=message):
        call()


def test_patterns() -> None:
    a = random_matrix(5)
    pattern = Pattern.of(a)
    assert (pattern.to_dense() == a).all()
    assert (pattern.T.to_dense() == a.T).all()
    assert (pattern.to_scipy().toarray() == a).all()
    assert (Pattern.of(pattern.to_scipy()).to_dense() == a).all()
    assert pattern.density == pytest.approx(a.mean())
    square = a[: min(a.shape), : min(a.shape)]
    assert (Pattern.of(square).symmetric_part().to_dense() == (square & square.T)).all()
    assert isinstance(pattern.rows, Rows)
    assert str(pattern).count("\n") == -(-a.shape[0] // 4)


@pytest.mark.parametrize("steps", [50, 51, 1000])
@pytest.mark.parametrize("fields", [2, 3])
def test_fields_behind_each_other(steps: int, fields: int) -> None:
    """Each row meets two neighbours of every field: twice as many colors as fields are enough, and needed."""
    positions = np.arange(steps - 1)
    dense = np.zeros((steps - 1, fields * steps), bool)
    for field in range(fields):
        dense[positions, field * steps + positions] = dense[positions, field * steps + positions + 1] = True
    coloring = nm.sparse.color(nm.sparse.Pattern.of(dense))
    coloring.verify()
    assert coloring.num_colors == 2 * fields


def test_a_lattice_on_a_line_is_not_taken_for_enough() -> None:
    """Fields of unequal lengths are no grid: a form of the whole line may take more colors than a greedy coloring."""
    steps = 300
    positions = np.arange(steps)
    dense = np.zeros((steps, 2 * steps + 1), bool)
    dense[positions, positions] = dense[positions, positions + 1] = dense[positions, steps + 1 + positions] = True
    natural = nm.sparse.color(nm.sparse.Pattern.of(dense), order="natural").num_colors
    assert nm.sparse.color(nm.sparse.Pattern.of(dense)).num_colors <= natural == 3


@pytest.mark.parametrize("depth", [1, 2, None])
@pytest.mark.parametrize("seed", range(12))
def test_matrices_without_a_diagonal(seed: int, depth: int | None) -> None:
    """Columns of one color may be neighbours in a star coloring then, which no substitution takes."""
    a = random_symmetric(seed) & ~np.eye(len(random_symmetric(seed)), dtype=bool)
    path = np.eye(9, k=1, dtype=bool) | np.eye(9, k=-1, dtype=bool)
    for matrix in (a, path):
        pattern = Pattern.of(matrix)
        acyclic, star = color(pattern, "acyclic", depth=depth), color(pattern, "star")
        acyclic.verify()
        assert lower_bound(pattern, "acyclic") <= acyclic.num_colors <= star.num_colors <= color(pattern, "column").num_colors
        values = np.random.default_rng(seed).uniform(1.0, 2.0, matrix.shape) * matrix
        values += values.T
        assert np.allclose(values, run_traced(lambda x, c=acyclic, v=values: sparse_hessian(v, c)(x), [np.ones(len(values))]))
