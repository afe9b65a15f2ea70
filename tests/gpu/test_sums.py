"""Sums, and sums of rows at indices, as kernels on the mock driver against NumPy in f64."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from gpu.driver.running import MockDriver
from nabla_mlir.base import thresholds

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="requires Triton")]
RNG = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape, np.float32)


def special(*shape: int) -> Any:
    """Numbers of very different sizes, with infinities and NaN."""
    x = normal(*shape)
    x[: shape[0] // 3] *= 1e-20
    x[-5:] *= 1e30
    x[3, 0], x[7, 0], x[9, 1], x[11, 2], x[12, 3], x[13, 3] = np.inf, np.inf, -np.inf, np.nan, np.inf, -np.inf
    return x


def added(x: Any, rows: Any, *indices: Any) -> Any:
    return nnp.asarray(x).at[indices].add(rows, mode="drop")


INDEX = RNG.integers(0, 40, 500).astype(np.int32)
ONE_ROW = np.zeros(500, np.int32)
SUMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "channels": (lambda x: nnp.sum(x, (0, 1, 2)), (normal(3, 9, 7, 20),)),
    "inner": (lambda x: nnp.sum(x, (1, 2)), (normal(3, 9, 7, 20),)),
    "scattered": (lambda x: nnp.sum(x, (0, 2)), (normal(30, 7, 33),)),
    "all": (lambda x: nnp.sum(x), (normal(20_011),)),
    "largest": (lambda x: nnp.max(x, 0), (special(40, 6),)),
    "smallest": (lambda x: nnp.min(x, 0), (special(40, 6),)),
    "double": (lambda x: nnp.sum(x, 0), (RNG.standard_normal((2001, 5)),)),
    "integers": (lambda x: nnp.sum(x, 0), (RNG.integers(-99, 99, (901, 5)).astype(np.int32),)),
    "masks": (lambda x: nnp.any(x, 0) ^ nnp.all(x, 0), (RNG.random((901, 5)) < 0.001,)),
}


def numpy_added(x: np.ndarray, rows: np.ndarray, *indices: np.ndarray) -> np.ndarray:
    """The sums in f64, or in integers."""
    total = x.astype(np.float64 if x.dtype.kind not in "iu" else x.dtype)
    inside = np.all([(i >= 0) & (i < n) for i, n in zip(indices, x.shape, strict=False)], axis=0)
    np.add.at(total, tuple(i[inside] for i in indices), rows[inside].astype(total.dtype))
    return total


ROWS: dict[str, tuple[Any, ...]] = {
    "rows": (normal(40, 7), special(500, 7), INDEX),
    "vector": (np.zeros(40, np.float32), normal(500), INDEX),
    "one row": (np.zeros((40, 3), np.float32), normal(500, 3), ONE_ROW),
    "two indices": (np.zeros((8, 9, 3), np.float32), normal(500, 3), INDEX % 8, INDEX.astype(np.int64) % 9),
    "outside": (normal(40), normal(500), INDEX + 5),
    "half": (np.zeros(40, np.float16), normal(500).astype(np.float16), INDEX),
    "brain": (np.zeros(40, ml_dtypes.bfloat16), normal(500).astype(ml_dtypes.bfloat16), INDEX),
    "counts": (np.zeros(40, np.int32), np.ones(500, np.int32), INDEX),
    "long": (np.zeros(40, np.int64), RNG.integers(-(2**60), 2**60, 500), INDEX),
}


def run(driver: MockDriver, folder: Path, cases: dict[str, Any]) -> dict[str, np.ndarray]:
    """The result of each function, computed by one artifact in one call."""

    def together(arguments: Any) -> Any:
        return [function(*xs) for (function, _), xs in zip(cases.values(), arguments, strict=True)]

    arguments = [xs for _, xs in cases.values()]
    path = nm.trace(together, arguments, name="together").lower().compile(nm.CUDA("sm_80"), cache=False).save(folder / "sums.vmfb")
    return dict(zip(cases, driver.run(path, "together", (arguments,)).results, strict=True))


def error(found: np.ndarray, exact: np.ndarray) -> float:
    """The largest error over finite numbers, relative to the norm; NaN and infinities must be the same."""
    assert np.array_equal(np.isnan(found), np.isnan(exact))
    infinite = np.isinf(exact)
    assert np.array_equal(found[infinite].astype(np.float64), exact[infinite])
    is_finite = np.isfinite(exact)
    difference = found[is_finite].astype(np.float64) - exact[is_finite]
    return float(np.max(np.abs(difference) / np.maximum(np.abs(exact[is_finite]), 1e-30), initial=0))


def test_sums_of_rows(mock_driver: MockDriver, tmp_path: Path) -> None:
    """A sum of integers is exact to the last bit but one of its type, also where numbers cancel."""
    results = run(mock_driver, tmp_path, {key: (added, xs) for key, xs in ROWS.items()})
    for key, (x, rows, *indices) in ROWS.items():
        found = results[key]
        with np.errstate(invalid="ignore"):
            exact = numpy_added(x, rows, *indices)
        if x.dtype.kind in "iu":
            assert np.array_equal(found, exact), key
        else:
            bound = {"float32": 6.1e-8, "float16": 5e-4, "bfloat16": 4e-3}[x.dtype.name]
            assert error(found, exact) <= bound, key


@pytest.mark.parametrize("may_split", [True, False])
def test_sums(mock_driver: MockDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, may_split: bool) -> None:
    """Sums over any axes are those of NumPy, in parts and at once."""
    monkeypatch.setattr(thresholds, "GPU_SUM", 0)
    if not may_split:
        monkeypatch.setattr("nabla_mlir.passes.iree.gpu.sums._BLOCKS", 1)
    results = run(mock_driver, tmp_path, SUMS)
    for key, (function, (x,)) in SUMS.items():
        found = results[key]
        exact = np.asarray(function(x.astype(np.float64) if x.dtype == np.float32 else x)).astype(np.float64)
        if x.dtype.kind in "ib" or key in ("largest", "smallest"):
            assert np.array_equal(found.astype(np.float64), exact, equal_nan=True), key
        else:
            scale = np.max(np.sum(np.abs(x)) / max(1, exact.size))
            assert np.max(np.abs(found - exact)) <= (1e-14 if x.dtype == np.float64 else 2e-7) * scale, key


def test_the_same_bits(mock_driver: MockDriver, tmp_path: Path) -> None:
    """The order of the rows, in which threads add, does not change a bit of the sums."""
    x, rows, order = np.zeros((40, 3), np.float32), normal(500, 3), RNG.permutation(500)
    cases = {"first": (added, (x, rows, INDEX)), "second": (added, (x, rows[order], INDEX[order]))}
    results = run(mock_driver, tmp_path, cases)
    assert results["first"].tobytes() == results["second"].tobytes()
