"""Sums over data in the files of others, a batch at a time: zarr, Parquet, NumPy's, a DataLoader. Needs zarr and pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import DataChangedError

RNG = np.random.default_rng(8)
ROWS, SIZE = 470, 100
X, Y = RNG.normal(size=(ROWS, 4)), RNG.normal(size=ROWS)
W, V = RNG.normal(size=4), RNG.normal(size=(4, 3))


def loss(w: Any, rows: Any, targets: Any) -> Any:
    return nnp.mean((nnp.tanh(rows @ w) - targets) ** 2)


def check(batches: Any, **options: Any) -> Any:
    H = nm.SumOperator(loss, W, batches, reduction="mean", target=nm.Interpreter(), **options)
    whole = nm.HessianOperator(loss, W, X, Y)
    np.testing.assert_allclose(H.value, whole.value, rtol=1e-12)
    np.testing.assert_allclose(H.gradient, whole.gradient, rtol=1e-11)
    np.testing.assert_allclose(H @ V, whole @ V, rtol=1e-11, atol=1e-14)
    assert H.rows == ROWS
    return H


@pytest.mark.parametrize("options", [{}, {"max_residual_bytes": 0}])
def test_zarr(tmp_path: Path, options: Any) -> None:
    zarr = pytest.importorskip("zarr")
    rows = zarr.create_array(tmp_path / "rows.zarr", shape=X.shape, chunks=(SIZE, 4), dtype="f8")
    targets = zarr.create_array(tmp_path / "targets.zarr", shape=Y.shape, chunks=(SIZE,), dtype="f8")
    rows[:], targets[:] = X, Y
    H = check(lambda: ((rows[i : i + SIZE], targets[i : i + SIZE]) for i in range(0, ROWS, SIZE)), **options)
    rows[SIZE] = 0.0
    with pytest.raises(DataChangedError, match="batch 1 requires the data of the first pass"):
        H.update(2 * W)


@pytest.mark.parametrize("options", [{}, {"max_residual_bytes": 0}])
def test_parquet(tmp_path: Path, options: Any) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    names = [f"x{i}" for i in range(4)]
    parquet.write_table(pa.table({**dict(zip(names, X.T, strict=True)), "y": Y}), tmp_path / "data.parquet", row_group_size=70)

    def batches() -> Iterator[Any]:
        for batch in parquet.ParquetFile(tmp_path / "data.parquet").iter_batches(SIZE):
            columns = [column.to_numpy() for column in batch.columns]
            yield np.stack(columns[:-1], axis=1), columns[-1]

    check(batches, **options)


def test_memory_mapped(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", X)
    np.save(tmp_path / "targets.npy", Y)
    rows, targets = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("rows", "targets"))
    check([(rows[i : i + SIZE], targets[i : i + SIZE]) for i in range(0, ROWS, SIZE)])


def test_a_data_loader_of_torch() -> None:
    torch = pytest.importorskip("torch")
    from torch.utils.data import DataLoader, TensorDataset

    dataset = TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))
    check(DataLoader(dataset, batch_size=SIZE))
    H = check(DataLoader(dataset, batch_size=ROWS))
    assert H.stored_batches == 1
    with pytest.raises(DataChangedError):
        nm.SumOperator(
            loss, W, DataLoader(dataset, batch_size=SIZE, shuffle=True), reduction="mean", target=nm.Interpreter()
        ).update(W)
