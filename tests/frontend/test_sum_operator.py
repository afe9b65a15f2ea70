"""Sums over batches: equal to the whole, in bounded memory, and with the number of a batch in every error."""

from __future__ import annotations

import functools
import os
import pickle
import subprocess
import sys
import threading
import warnings
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse.linalg import LinearOperator, eigsh

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import (
    BatchError,
    DataChangedError,
    DeployError,
    DtypeError,
    NotFiniteBatchError,
    NotFiniteError,
    ShapeError,
    TraceError,
    TreeError,
)
from nabla_mlir.prepared.means import is_mean
from nabla_mlir.prepared.pieces import digest_of
from nabla_mlir.prepared.sums import PairwiseSum, tree_sum

RNG = np.random.default_rng(5)
ROWS, WIDTH, BATCH = 57, 4, 10
X, Y = RNG.normal(size=(ROWS, WIDTH)), RNG.integers(0, 2, ROWS).astype(float)
W, V = RNG.normal(size=WIDTH), RNG.normal(size=(WIDTH, 5))
BATCHES = [(X[i : i + BATCH], Y[i : i + BATCH]) for i in range(0, ROWS, BATCH)]
TINY = nm.Interpreter()


def losses(w: Any, rows: Any, labels: Any) -> Any:
    z = rows @ w
    return nnp.log1p(nnp.exp(z)) - labels * z


def total(w: Any, rows: Any, labels: Any) -> Any:
    return nnp.sum(losses(w, rows, labels))


def mean(w: Any, rows: Any, labels: Any) -> Any:
    return nnp.mean(losses(w, rows, labels)) + 0.05 * nnp.sum(w * w)


def weighted(w: Any, weights: Any, rows: Any, labels: Any) -> Any:
    return nnp.sum(weights * losses(w, rows, labels))


def expected(w: np.ndarray = W) -> tuple[float, np.ndarray, np.ndarray]:
    """Value, gradient and Hessian of the sum, by hand."""
    z = X @ w
    p = 1 / (1 + np.exp(-z))
    return float(np.sum(np.log1p(np.exp(z)) - Y * z)), X.T @ (p - Y), (X * (p * (1 - p))[:, None]).T @ X


def check(H: Any, scale: float = 1.0, ridge: float = 0.0, w: np.ndarray = W) -> None:
    value, gradient, hessian = expected(w)
    np.testing.assert_allclose(H.value, scale * value + ridge / 2 * w @ w, rtol=1e-12)
    np.testing.assert_allclose(H.gradient, scale * gradient + ridge * w, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(H @ V, scale * hessian @ V + ridge * V, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(H @ V[:, 0], scale * hessian @ V[:, 0] + ridge * V[:, 0], rtol=1e-11, atol=1e-12)


@functools.cache
def stage() -> Any:
    return nm.hvp_module(total, nm.spec(WIDTH, "f64"), *BATCHES[0], block=4, entry_points=("update", "apply", "apply_block"))


class Readings:
    """Batches that can be iterated again, one after the other."""

    def __init__(self) -> None:
        self.passes = 0

    def __iter__(self) -> Iterator[Any]:
        self.passes += 1
        return iter(BATCHES)


@pytest.mark.parametrize("bound", [0, 2000, 1 << 20])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_sum_is_the_whole(bound: int, threads: int) -> None:
    H = nm.SumOperator(stage(), W, BATCHES, target=TINY, max_residual_bytes=bound, threads=threads)
    assert isinstance(H, LinearOperator)
    assert (H.rows, H.shape, H.dtype) == (ROWS, (WIDTH, WIDTH), np.float64)
    check(H)
    assert H.products == 6
    H.update(2 * W)
    check(H, w=2 * W)
    assert (H.stored_batches == len(BATCHES)) == (bound == 1 << 20)
    assert bound or not H.stored_batches


def test_compiled_in_threads_as_in_one_to_the_bit() -> None:
    compiled = stage().compile()
    operators = [
        nm.SumOperator(compiled, W, BATCHES, threads=threads, max_residual_bytes=bound)
        for threads, bound in ((1, 1 << 20), (2, 1 << 20), (2, 0), (1, 1000))
    ]
    for H in operators:
        check(H)
        assert H.value == operators[0].value
        assert np.array_equal(H.gradient, operators[0].gradient)
        assert np.array_equal(H @ V, operators[0] @ V)
    state = operators[0].engine.work.state_bytes
    assert nm.SumOperator(compiled, W, BATCHES, threads=1, max_residual_bytes=3 * state).stored_batches == 2


def test_a_mean_weighs_rows() -> None:
    check(nm.SumOperator(mean, W, BATCHES, reduction="mean", target=TINY), 1 / ROWS, 0.1)
    check(nm.SumOperator(mean, W, BATCHES, reduction="mean", short="compile", target=TINY), 1 / ROWS, 0.1)


@pytest.mark.parametrize("mask", ["", "weights"])
def test_a_sum_of_means_is_noticed(mask: str) -> None:
    def weighted_mean(w: Any, weights: Any, rows: Any, labels: Any) -> Any:
        return (weights * losses(w, rows, labels)).sum() / weights.sum()

    f = weighted_mean if mask else mean
    batches = BATCHES[:2]
    with pytest.warns(RuntimeWarning, match="Write reduction='mean'"):
        nm.SumOperator(f, W, batches, mask=mask, target=nm.Interpreter())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nm.SumOperator(f, W, batches[:1], mask=mask, target=nm.Interpreter())  # of one batch both are the same
        nm.SumOperator(f, W, batches, mask=mask, reduction="mean", target=nm.Interpreter())
        nm.SumOperator(weighted if mask else total, W, batches, mask=mask, target=nm.Interpreter())


def test_a_function_of_whole_batches_is_no_mean() -> None:
    def of_sixteen(w: Any, rows: Any) -> Any:
        assert rows.shape[0] == 16
        return (rows @ w).mean()

    assert not is_mean(of_sixteen, W, (X[:16],))
    assert is_mean(lambda w, rows: (rows @ w).mean(), W, (X[:16],))


def test_the_short_batch_runs_the_same_code() -> None:
    H = nm.SumOperator(stage(), W, BATCHES, target=TINY, threads=1)
    assert {p.work.module.digest for p in H.engine._pieces.values()} == {H.engine.work.module.digest}
    alone = nm.SumOperator(total, W, BATCHES, short="compile", target=TINY, threads=1)
    assert len({id(p.work) for p in alone.engine._pieces.values()}) == 2
    check(alone)


def test_a_mask_weighs_rows_of_any_function() -> None:
    check(nm.SumOperator(weighted, W, BATCHES, mask="weights", target=TINY))
    centred = lambda w, rows, labels: nnp.sum((rows @ w - nnp.mean(rows @ w)) ** 2)  # noqa: E731
    with pytest.raises(
        BatchError, match=r"batch 5 .* requires a function that is a sum over rows or a mean .* got one with"
    ) as error:
        nm.SumOperator(centred, W, BATCHES, target=TINY)
    assert error.value.number == 5
    assert 'mask="weights"' in error.value.help
    nm.SumOperator(centred, W, BATCHES, short="compile", target=TINY)
    with pytest.raises(TraceError, match="mask requires the name of an argument with data, rows, labels, got 'weights'"):
        nm.SumOperator(total, W, BATCHES, mask="weights", target=TINY)
    with pytest.raises(TraceError, match="mask requires the name of an argument with data, rows, labels, got 'weights'"):
        nm.SumOperator(stage(), W, BATCHES, mask="weights", target=TINY)


def test_one_row_is_short_enough() -> None:
    batches = [(X[i : i + 8], Y[i : i + 8]) for i in range(0, ROWS, 8)]
    assert len(batches[-1][0]) == 1
    check(nm.SumOperator(total, W, batches, target=TINY))


def test_gauss_newton_and_fisher() -> None:
    specs = nm.spec(WIDTH, "f64"), *BATCHES[0]
    model = lambda w, rows, labels: rows @ w  # noqa: E731
    loss = lambda z, rows, labels: nnp.sum(nnp.log1p(nnp.exp(z)) - labels * z)  # noqa: E731
    names = {"block": 4, "entry_points": ("update", "apply", "apply_block")}
    check(nm.SumOperator(nm.ggnvp_module(model, loss, *specs, **names), W, BATCHES, target=TINY))
    fisher = nm.SumOperator(nm.fisher_module(model, "bernoulli", *specs, **names), W, BATCHES, target=TINY)
    np.testing.assert_allclose(fisher @ V, expected()[2] @ V, rtol=1e-11)
    assert (fisher.value, fisher.gradient) == (None, None)
    empirical = nm.empirical_fisher_module(losses, *specs, **names)
    F = nm.SumOperator(empirical, W, BATCHES, reduction="mean", target=TINY)
    slopes = X * (1 / (1 + np.exp(-X @ W)) - Y)[:, None]
    np.testing.assert_allclose(F @ V, slopes.T @ slopes @ V / ROWS, rtol=1e-11)


def test_any_iterable_that_can_be_read_again(tmp_path: Path) -> None:
    readings = Readings()
    check(nm.SumOperator(stage(), W, readings, target=TINY, max_residual_bytes=0))
    assert readings.passes == 4, "one look, one update, two products; five columns are one pass"
    check(nm.SumOperator(stage(), W, lambda: (list(batch) for batch in BATCHES), target=TINY))
    X.tofile(tmp_path / "rows")
    rows = np.memmap(tmp_path / "rows", float, "r", shape=X.shape)
    check(nm.SumOperator(stage(), W, [(rows[i : i + BATCH], Y[i : i + BATCH]) for i in range(0, ROWS, BATCH)], target=TINY))
    with pytest.raises(TraceError, match="requires an iterable that can be read again, got a generator"):
        nm.SumOperator(stage(), W, (batch for batch in BATCHES), target=TINY)
    with pytest.raises(TreeError, match="requires at least one, got an iterable that is empty"):
        nm.SumOperator(stage(), W, [], target=TINY)


def test_trees_and_one_array() -> None:
    f = lambda p, rows: nnp.sum(nnp.tanh(rows["a"] @ p["w"] + p["b"]) ** 2)  # noqa: E731
    p = {"b": np.ones(2), "w": RNG.normal(size=(WIDTH, 2))}
    H = nm.SumOperator(f, p, [{"a": X[:30]}, {"a": X[30:]}], target=TINY)
    whole = nm.HessianOperator(f, p, {"a": X}, target=TINY)
    np.testing.assert_allclose(H.to_dense(), whole.to_dense(), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(H.gradient, whole.gradient, rtol=1e-12)
    g = lambda w, rows: nnp.sum((rows @ w) ** 2)  # noqa: E731
    np.testing.assert_allclose(nm.SumOperator(g, W, [X[:30], X[30:]], target=TINY) @ W, 2 * X.T @ (X @ W), rtol=1e-12)


def test_data_that_change_are_named() -> None:
    passes: list[list[Any]] = []

    def changing() -> Iterator[Any]:
        passes.append([])
        batches = list(BATCHES)
        if len(passes) > 2:
            batches[2], batches[3] = batches[3], batches[2]
        return iter(batches[: 4 if len(passes) > 3 else None])

    H = nm.SumOperator(stage(), W, changing, target=TINY, max_residual_bytes=0)
    with pytest.raises(DataChangedError, match="batch 2 requires the data of the first pass, got other data") as error:
        H @ W
    assert error.value.number == 2
    assert "without shuffling" in error.value.help
    free = nm.SumOperator(stage(), W, changing, target=TINY, check_data=False)
    assert free.rows == 40
    passes.clear()
    fewer = nm.SumOperator(stage(), W, lambda: iter(BATCHES[: 2 if passes else None]), target=TINY)
    passes.append([])
    with pytest.raises(DataChangedError, match="requires the 6 batches of the first, got 2"):
        fewer.update(W)
    np.testing.assert_array_equal(fewer.x, W)
    with pytest.raises(DataChangedError, match="requires the 6 batches of the first, got 2"):
        fewer @ W


def test_a_batch_that_raises_is_named_and_the_operator_goes_on() -> None:
    broken: list[int] = []

    class Files(list):
        def __getitem__(self, i: Any) -> Any:
            if i in broken:
                raise OSError("the disk is gone")
            return super().__getitem__(i)

    H = nm.SumOperator(stage(), W, Files(BATCHES), target=TINY, threads=2)
    broken.append(3)
    with pytest.raises(BatchError, match="batch 3 requires data that the function takes, got OSError: the disk is gone") as error:
        H.update(2 * W)
    assert error.value.number == 3
    assert isinstance(error.value.__cause__, OSError)
    assert pickle.loads(pickle.dumps(error.value)).number == 3
    broken.clear()
    check(H)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ((X[:, :3], Y), "a batch requires float64[10,4] for rows, or fewer rows of them, got float64[57,3]"),
        ((X[:11], Y[:11]), "requires float64[10,4] for rows, or fewer rows of them, got float64[11,4]"),
        ((X[:4], Y[:5]), "requires arrays with the same number of rows, got 4, 5"),
        ((X[:4],), "requires its 2 arguments (rows, labels), got 1"),
        ((X[:10].astype(np.float32), Y[:10]), "DtypeError: update requires the arrays it was compiled for"),
    ],
)
def test_a_batch_of_another_shape_is_named(batch: Any, message: str) -> None:
    with pytest.raises(BatchError) as error:
        nm.SumOperator(stage(), W, [*BATCHES[:3], batch], target=TINY)
    assert error.value.number == 3
    assert message.replace("DtypeError", "DeployDtypeError") in error.value.message


def test_nan_is_named_and_where_it_stands() -> None:
    batches = list(BATCHES)
    batches[4] = (np.where(np.arange(WIDTH) == 2, np.nan, batches[4][0]), batches[4][1])
    with pytest.raises(
        NotFiniteBatchError, match=r"batch 4 requires finite numbers, got NaN or infinity in its data \(rows\)"
    ) as error:
        nm.SumOperator(stage(), W, batches, target=TINY)
    assert error.value.number == 4
    H = nm.SumOperator(stage(), W, BATCHES, target=TINY)
    with pytest.raises(NotFiniteBatchError, match=r"batch 0 .* in its value or gradient, of data that are finite"):
        H.update(np.full(WIDTH, np.inf), check=True)
    assert not np.isfinite(H.update(np.full(WIDTH, np.inf))[0])


def test_empty_batches_count_nothing() -> None:
    empty = (X[:0], Y[:0])
    check(nm.SumOperator(stage(), W, [BATCHES[0], empty, *BATCHES[1:], empty], target=TINY))
    check(nm.SumOperator(total, W, [empty, *BATCHES], target=TINY))
    for source, batches in ((stage(), [empty]), (total, [empty, empty])):
        with pytest.raises(NotFiniteError, match="requires rows, got batches that are all empty"):
            nm.SumOperator(source, W, batches, target=TINY)


@pytest.mark.parametrize("lengths", [(BATCH - 1, BATCH), (BATCH, BATCH - 1), (2, 3)])
def test_arrays_of_a_batch_have_as_many_rows_as_each_other(lengths: tuple[int, int]) -> None:
    batch = (X[: lengths[0]], Y[: lengths[1]])
    with pytest.raises(
        BatchError, match=r"batch 1 .* ShapeError: a batch requires arrays with the same number of rows, got \d+, \d+"
    ):
        nm.SumOperator(stage(), W, [BATCHES[0], batch], target=TINY)


def test_a_point_of_another_shape_is_refused() -> None:
    H = nm.SumOperator(stage(), W, BATCHES, target=TINY)
    with pytest.raises(ShapeError, match=rf"update requires a point of {WIDTH} numbers, got an array of shape \({WIDTH + 1},\)"):
        H.update(np.ones(WIDTH + 1))
    check(H)


def test_vectors_as_solvers_give_them() -> None:
    H = nm.SumOperator(stage(), W, BATCHES, target=TINY, damping=0.5)
    hessian = expected()[2] + 0.5 * np.eye(WIDTH)
    np.testing.assert_allclose(H.T @ V, hessian @ V)
    np.testing.assert_allclose(H @ (V + 2j * V), hessian @ V * (1 + 2j))
    np.testing.assert_allclose(H @ np.ones(WIDTH, int), hessian.sum(axis=1))
    np.testing.assert_allclose(eigsh(H, 2)[0], np.linalg.eigvalsh(hessian)[-2:])
    small = nm.SumOperator(lambda w, rows: nnp.sum((rows @ w) ** 2), W.astype(np.float32), [X.astype(np.float32)], target=TINY)
    assert (small.dtype, (small @ V).dtype) == (np.float32, np.float32)
    with pytest.raises(DtypeError):
        small @ np.full(WIDTH, 2**40)
    for method in ("trust-ncg", "trust-krylov", "Newton-CG"):
        result = minimize(H.objective, np.zeros(WIDTH), jac=True, hessp=H.hessp, method=method)
        assert np.linalg.norm(result.jac) < 1e-4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reduction": "max"}, "reduction requires 'sum' or 'mean', got 'max'"),
        ({"short": "drop"}, "short requires 'pad' or 'compile', got 'drop'"),
    ],
)
def test_options_that_there_are_not(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        nm.SumOperator(total, W, BATCHES, target=TINY, **options)


def test_other_uses_are_refused() -> None:
    with pytest.raises(TraceError, match="short='compile' requires a function as the source, got a Prepared"):
        nm.SumOperator(stage(), W, BATCHES, short="compile", target=TINY)
    H = nm.SumOperator(stage(), W, BATCHES, target=TINY)
    with pytest.raises(TraceError, match="update requires only a point, got 1 more"):
        H.update(W, X)
    with pytest.raises(DeployError, match="pickle and copy require an operator without threads or cluster, got a SumOperator"):
        pickle.dumps(H)


def test_threads_end_before_an_error_is_raised() -> None:
    running: set[int] = set()
    started = threading.Event()

    class Slow(list):
        def __getitem__(self, i: Any) -> Any:
            if i == 0 and started.is_set():
                raise OSError("the disk is gone")
            running.add(i)
            batch = super().__getitem__(i)
            running.discard(i)
            return batch

    H = nm.SumOperator(stage(), W, Slow(BATCHES), target=TINY, threads=3)
    started.set()
    with pytest.raises(BatchError, match="batch 0"):
        H.update(W)
    assert not running


def test_progress_is_silent_when_piped(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    nm.SumOperator(stage(), W, BATCHES, target=TINY, progress=True)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    nm.SumOperator(stage(), W, BATCHES, target=TINY, progress=True)
    assert "update" in capsys.readouterr().err
    monkeypatch.setattr("nabla_mlir.prepared.progress.find_spec", lambda name: None)  # without rich there is no bar
    nm.SumOperator(stage(), W, BATCHES, target=TINY, progress=True)
    assert "━" not in capsys.readouterr().err


def test_sums_are_a_tree_of_pairs() -> None:
    total = PairwiseSum()
    assert total.result() is None
    for name in "abcdefg":
        total.add(Word(name))
    assert str(total.result()) == "(((a+b)+(c+d))+((e+f)+g))"
    numbers = np.float32(RNG.normal(size=1000))
    assert abs(float(tree_sum(numbers)) - numbers.astype(float).sum()) < 1e-5


class Word(str):
    def __add__(self, other: str) -> Word:
        return Word(f"({self!s}+{other!s})")


def test_digests_see_every_word() -> None:
    a = RNG.normal(size=(64, 100))
    for change in ((0, 0), (63, 99), (20, 50)):
        b = a.copy()
        b[change] += 1e-9
        assert digest_of([a]) != digest_of([b])
    assert digest_of([a]) != digest_of([a.reshape(100, 64)])
    assert digest_of([a[::2]]) == digest_of([a[::2].copy()])


@pytest.mark.parametrize("where", ["local-sync", "local-task", "interpreted"])
def test_residuals_that_are_arguments_count_and_data_are_let_go(where: str) -> None:
    module = stage().compile(TINY).loaded if where == "interpreted" else stage().compile().loaded.on(where)
    size = 8 * (BATCH * WIDTH + BATCH)  # the rows, as they are given, and a weight for each
    seen: list[weakref.ref[Any]] = []

    def read() -> Iterator[Any]:
        for rows, labels in BATCHES[:5]:
            batch = rows.copy(), labels.copy()
            seen.extend(map(weakref.ref, batch))
            yield batch

    for bound, stored in ((10**9, 5), (2 * size, 1), (2 * size - 1, 0)):
        H = nm.SumOperator(module, W, read, max_residual_bytes=bound, threads=1)
        assert (H.engine.work.state_bytes, H.stored_batches) == (size, stored)
        H @ W
        assert not any(reference() is not None for reference in seen)
        seen.clear()


LIMITED = """
import resource, sys
import numpy as np
import nabla_mlir as nm
resource.setrlimit(resource.RLIMIT_DATA, (250 << 20, 250 << 20))
rows = np.memmap(sys.argv[1], np.float32, "r").reshape(-1, 100)
batches = [rows[i : i + 20000] for i in range(0, len(rows), 20000)]
H = nm.SumOperator(lambda x, rows: ((rows @ x) ** 2).sum() / 2, np.ones(100, np.float32), batches, target=nm.Interpreter(),
                   max_residual_bytes=30 << 20, threads=1)
np.save(sys.argv[2], H @ np.arange(100, dtype=np.float32))
print(rows.nbytes, H.stored_batches, len(batches))
"""


def test_data_larger_than_what_a_process_may_allocate(tmp_path: Path) -> None:
    block = RNG.integers(-2, 3, (1000, 100)).astype(np.float32)
    with open(tmp_path / "rows", "wb") as file:
        for _ in range(800):
            file.write(block.data)
    command = [sys.executable, "-c", LIMITED, str(tmp_path / "rows"), str(tmp_path / "product.npy")]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OPENBLAS_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["320000000", "2", "40"]
    gram = block.astype(float).T @ block.astype(float)
    np.testing.assert_allclose(np.load(tmp_path / "product.npy"), 800 * gram @ np.arange(100), rtol=1e-5)
