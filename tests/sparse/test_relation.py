"""The algebra of patterns against boolean arrays: chains of moves at random, held in boxes and held in rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from nabla_mlir.base.errors import PatternError
from nabla_mlir.sparsity.boxes import Box
from nabla_mlir.sparsity.indexing import progressions
from nabla_mlir.sparsity.layouts import factors
from nabla_mlir.sparsity.powers import after
from nabla_mlir.sparsity.relation import Relation
from nabla_mlir.sparsity.rows import Rows, product
from nabla_mlir.sparsity.windows import windows


def dense(relation: Relation) -> np.ndarray:
    """The pattern as a boolean array: the shape, and the columns."""
    found = np.zeros((math.prod(relation.shape), relation.columns), bool)
    found[relation.rows.row_of_entry(), relation.rows.indices] = True
    return found.reshape(*relation.shape, relation.columns)


def in_rows(relation: Relation) -> Relation:
    return Relation.of_rows(relation.shape, relation.rows)


def random_move(rng: np.random.Generator, x: Relation, truth: np.ndarray) -> tuple[Relation, np.ndarray]:
    shape, rank = x.shape, len(x.shape)
    word = rng.choice(["slice", "pad", "transpose", "reverse", "broadcast", "reshape", "gather", "union", "spread", "repeat"])
    if word == "slice" and rank:
        starts = [int(rng.integers(0, n)) for n in shape]
        limits = [int(rng.integers(s + 1, n + 1)) for s, n in zip(starts, shape, strict=True)]
        strides = [int(rng.integers(1, 4)) for _ in shape]
        return x.sliced(starts, limits, strides), truth[tuple(map(slice, starts, limits, strides))]
    if word == "pad" and rank and math.prod(shape) < 200:
        low = [int(rng.integers(-1, 3)) if n > 2 else 1 for n in shape]
        high = [int(rng.integers(-1, 3)) if n > 2 else 0 for n in shape]
        interior = [int(rng.integers(0, 2)) for _ in shape]
        wide = np.zeros([n + (n - 1) * i for n, i in zip(shape, interior, strict=True)] + [x.columns], bool)
        wide[tuple(slice(None, None, i + 1) for i in interior)] = truth
        wide = np.pad(wide, [(max(0, a), max(0, b)) for a, b in zip(low, high, strict=True)] + [(0, 0)])
        cut = tuple(slice(max(0, -a), n - max(0, -b)) for a, b, n in zip(low, high, wide.shape, strict=False))
        return x.padded(low, high, interior), wide[cut]
    if word == "transpose":
        order = [int(a) for a in rng.permutation(rank)]
        return x.transposed(order), truth.transpose([*order, rank])
    if word == "reverse" and rank:
        axis = int(rng.integers(rank))
        return x.reversed([axis]), np.flip(truth, axis)
    if word == "broadcast" and rank < 4 and math.prod(shape) < 100:
        place = int(rng.integers(rank + 1))
        new = (*shape[:place], 2, *shape[place:])
        others = [a + (a >= place) for a in range(rank)]
        return x.broadcast(new, others), np.broadcast_to(np.expand_dims(truth, place), (*new, x.columns))
    if word == "repeat" and 1 in shape and math.prod(shape) < 100:
        new = tuple(3 if n == 1 else n for n in shape)
        return x.broadcast(new, range(rank)), np.broadcast_to(truth, (*new, x.columns))
    if word == "reshape":
        size = math.prod(shape)
        parts = [d for d in range(1, size + 1) if size % d == 0]
        first = int(rng.choice(parts))
        second = int(rng.choice([d for d in parts if (size // first) % d == 0]))
        new = tuple(int(n) for n in (first, second, size // first // second))
        return x.reshaped(new), truth.reshape(*new, x.columns)
    if word == "gather" and rank > 1:
        axis = int(rng.integers(rank))
        return x.gathered([axis]), truth.any(axis)
    if word == "spread" and rank and rng.integers(4) == 0:
        axis = int(rng.integers(rank))
        return x.spread([axis]), np.broadcast_to(truth.any(axis, keepdims=True), truth.shape)
    if word == "union" and rank:
        axis = int(rng.integers(rank))
        if shape[axis] > 1:
            low, high = [0] * rank, [0] * rank
            low[axis], high[axis] = 1, -1
            moved = np.zeros_like(truth)
            index = [slice(None)] * rank
            index[axis] = slice(1, None)
            back = list(index)
            back[axis] = slice(None, -1)
            moved[tuple(index)] = truth[tuple(back)]
            return x.union(x.padded(low, high)), truth | moved
    return x, truth


@pytest.mark.parametrize("seed", range(150))
@pytest.mark.parametrize("form", ["boxes", "rows"])
def test_chains_of_moves(seed: int, form: str) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 6, rng.integers(1, 4)))
    x = Relation.identity(shape, math.prod(shape) + 2, 1)
    truth = dense(x)
    assert (truth.reshape(-1, x.columns)[:, 1:-1] == np.eye(math.prod(shape), dtype=bool)).all()
    for _ in range(10):
        x, truth = random_move(rng, in_rows(x) if form == "rows" and not x.is_empty else x, truth)
        assert x.shape == truth.shape[:-1]
        assert (dense(x) == truth).all()
        assert x.widest >= truth.sum(-1).max(initial=0)


def test_a_stencil_is_boxes_whatever_its_size() -> None:
    x = Relation.identity((1000, 2000), 2_000_000)
    for axis in (0, 1):
        low, high = [0, 0], [0, 0]
        low[axis], high[axis] = 1, -1
        x = x.union(x.padded(low, high)).union(x.padded(high, low))
    assert x.boxes is not None
    assert len(x.boxes) == 9
    assert str(x) == "9 boxes, up to 9 of 2000000 columns"


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("dilation", [1, 2])
def test_windows(size: int, stride: int, dilation: int) -> None:
    n, low = 13, 2
    out = (n + 2 * low - (size - 1) * dilation - 1) // stride + 1
    found = windows(Relation.identity((n,), n), (out,), (size,), (stride,), ((low, low),), (1,), (dilation,))
    truth = np.zeros((out, n), bool)
    for i in range(out):
        for w in range(size):
            column = i * stride + w * dilation - low
            if 0 <= column < n:
                truth[i, column] = True
    assert (dense(found) == truth).all()


@pytest.mark.parametrize(
    ("numbers", "runs"),
    [
        ([4], [(4, 1, 1)]),
        ([0, 1, 2, 3], [(0, 4, 1)]),
        ([9, 7, 5, 0, 1], [(9, 3, -2), (0, 2, 1)]),
        ([2, 2, 2], [(2, 3, 0)]),
        ([], []),
        (list(np.random.default_rng(0).permutation(200)), None),
    ],
)
def test_progressions(numbers: Any, runs: Any) -> None:
    assert progressions(np.array(numbers, np.int64)) == runs


def test_factors() -> None:
    assert factors((6, 4), (2, 3, 4)) == [((0,), (0, 1)), ((1,), (2,))]
    assert factors((2, 1, 3), (2, 3)) == [((0,), (0,)), ((1,), ()), ((2,), (1,))]
    assert factors((), (1, 1)) == [((), (0,)), ((), (1,))]
    assert factors((6, 4), (4, 6)) == [((0, 1), (0, 1))]


def test_rows() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.random((7, 5)) < 0.4, rng.random((5, 6)) < 0.4

    def rows(m: np.ndarray) -> Rows:
        row, column = np.nonzero(m)
        return Rows.of(np.concatenate([row * m.shape[1] + column] * 2), *m.shape)

    def full(r: Rows) -> np.ndarray:
        out = np.zeros((r.count, r.columns), bool)
        out[r.row_of_entry(), r.indices] = True
        return out

    assert (full(product(rows(a), rows(b))) == (a.astype(int) @ b > 0)).all()
    assert (full(rows(a).transposed()) == a.T).all()
    source = np.array([3, -1, 0, 3])
    assert (full(rows(a).take(source)) == np.where(source[:, None] < 0, False, a[source])).all()
    assert (full(rows(a).union(rows(~a))) == True).all()  # noqa: E712


def test_what_does_not_fit_in_memory_is_refused() -> None:
    wide = Relation.identity((1 << 20,), 1 << 20).spread([0])
    with pytest.raises(PatternError, match=r"requires at most \d+ entries, got one of \d+ for 1048576 rows and 1048576"):
        _ = wide.rows


@pytest.mark.parametrize("terms", [1 << 22, 1])
@pytest.mark.parametrize("seed", range(6))
def test_powers_of_a_turn_are_its_turns(monkeypatch: pytest.MonkeyPatch, seed: int, terms: int) -> None:
    """Two carried arrays, which also read columns; lists of columns, and sets of bits."""
    monkeypatch.setattr("nabla_mlir.base.thresholds.PATTERN_TERMS", terms)
    rng = np.random.default_rng(seed)
    columns, sizes = 70, (5, 3)
    turn = rng.random((8, columns + 8)) < 0.12
    if seed % 2:
        turn[:, :columns] = False
    state = rng.random((8, columns)) < 0.1
    expected = state
    as_rows = lambda a: Rows.of(np.flatnonzero(a), *a.shape)  # noqa: E731
    parts = [slice(0, 5), slice(5, 8)]
    for count in range(12):
        found = after(
            [Relation.of_rows((n,), as_rows(turn[p])) for n, p in zip(sizes, parts, strict=True)],
            [Relation.of_rows((n,), as_rows(state[p])) for n, p in zip(sizes, parts, strict=True)],
            count,
        )
        np.testing.assert_array_equal(np.concatenate([dense(r) for r in found]), expected)
        expected = turn[:, :columns] | (turn[:, columns:].astype(int) @ expected.astype(int) > 0)


def test_joined_boxes_with_repetitions() -> None:
    """Boxes that a move made equal are no reason to leave others out."""
    twice = Relation((2,), 6, [Box((0,), (1,), (1,), (0,), 0, ((3, 1),))] * 2)
    other = Relation((2,), 6, [Box((1,), (1,), (1,), (0,), 3)])
    assert dense(twice.union(other)).tolist() == [[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 0, 0]]
