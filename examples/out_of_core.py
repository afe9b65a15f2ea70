"""Logistic regression from a memory-mapped file by Newton's method: no more of the data in memory than a few batches.

``python examples/out_of_core.py 10000000 100`` has so many rows and columns, of 4 bytes each: 4 GB on disk.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from problems import logistic_loss
from scipy.optimize import OptimizeResult, minimize

import nabla_mlir as nm

L2 = 1e-4
CHUNK = 1 << 16  # rows that are generated at once


def generate(folder: Path, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Files of rows and of signs, memory-mapped; the signs follow a random plane with noise."""
    data = np.memmap(folder / "rows", np.float32, "w+", shape=(rows, columns))
    signs = np.memmap(folder / "signs", np.float32, "w+", shape=rows)
    plane = np.random.default_rng(1).normal(size=columns) / columns**0.5
    for start in range(0, rows, CHUNK):
        rng = np.random.default_rng([2, start])
        part = rng.normal(size=(min(CHUNK, rows - start), columns)).astype(np.float32)
        data[start : start + CHUNK] = part
        signs[start : start + CHUNK] = np.where(part @ plane + 0.5 * rng.logistic(size=len(part)) > 0, 1, -1)
    data.flush()
    return np.memmap(folder / "rows", np.float32, "r", shape=(rows, columns)), signs


def batches(data: np.ndarray, signs: np.ndarray, size: int) -> list[Any]:
    """Views of the files: a batch is read when it is its turn. The last may be short."""
    l2 = np.float32(L2)
    return [(data[i : i + size], signs[i : i + size], l2) for i in range(0, len(data), size)]


def solve(data: np.ndarray, signs: np.ndarray, size: int = 1 << 14, **options: Any) -> tuple[OptimizeResult, nm.SumOperator]:
    """The minimum of the mean loss of all rows, and the operator, which says what it did.

    The regularisation is in each batch, and so once in the mean.
    """
    w = np.zeros(data.shape[1], np.float32)
    H = nm.SumOperator(logistic_loss, w, batches(data, signs, size), reduction="mean", **options)
    result = minimize(H.objective, np.zeros(data.shape[1]), jac=True, hessp=H.hessp, method="trust-ncg", options={"gtol": 2e-6})
    return result, H


if __name__ == "__main__":
    rows, columns = (int(text) for text in sys.argv[1:3] or ("200000", "50"))
    with tempfile.TemporaryDirectory() as folder:
        data, signs = generate(Path(folder), rows, columns)
        before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
        result, H = solve(data, signs, progress=True)
        seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        count, calls = -(-rows // (1 << 14)), H.updates + H.products
        print(f"{data.nbytes / 1e6:.0f} MB of data: loss {result.fun:.6f}, |gradient| {np.linalg.norm(result.jac):.1e}")
        print(f"{H.updates} points and {H.products} products in {seconds:.1f} s, {1e3 * H.seconds / calls:.0f} ms each")
        print(f"{H.kept} of {count} batches kept; the process grew by {(after - before) / 1e3:.0f} MB, with pages of files")
