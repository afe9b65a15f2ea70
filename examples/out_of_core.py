"""Logistic regression from a memory-mapped file by Newton's method: no more of the data in memory than a few batches.

``python examples/out_of_core.py 10000000 100`` has so many rows and columns, of 4 bytes each: 4 GB on disk. With `--processes 1 2`
it is solved again on one process of Dask, and on two; with `--plot newton.png` it draws how the gradient falls.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from problems import logistic_loss
from processes import compared, report
from scipy.optimize import OptimizeResult, minimize

import nabla_mlir as nm

L2 = 1e-4
CHUNK = 1 << 16  # rows that are generated at once
SIZE = 1 << 14  # rows of a batch


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
    signs.flush()
    return opened(folder, rows, columns)


def opened(folder: Path, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """The files, to be read."""
    data = np.memmap(folder / "rows", np.float32, "r", shape=(rows, columns))
    return data, np.memmap(folder / "signs", np.float32, "r", shape=rows)


def batches(data: np.ndarray, signs: np.ndarray, size: int) -> list[Any]:
    """Views of the files: a batch is read when it is its turn. The last may be short."""
    l2 = np.float32(L2)
    return [(data[i : i + size], signs[i : i + size], l2) for i in range(0, len(data), size)]


def solve(data: np.ndarray, signs: np.ndarray, size: int = SIZE, **options: Any) -> tuple[OptimizeResult, nm.SumOperator]:
    """The minimum of the mean loss of all rows, and the operator, which says what it did.

    The regularisation is in each batch, and so once in the mean.
    """
    w = np.zeros(data.shape[1], np.float32)
    H = nm.SumOperator(logistic_loss, w, batches(data, signs, size), reduction="mean", **options)
    return minimum(H), H


def solve_on(client: Any, folder: Path, rows: int, columns: int, size: int = SIZE) -> tuple[OptimizeResult, Any]:
    """The same on workers, each of which reads its shards from the files."""
    import dask

    def load(start: int) -> Any:
        data, signs = opened(folder, rows, columns)
        return data[start : start + size], signs[start : start + size], np.float32(L2)

    shards = [dask.delayed(load)(start) for start in range(0, rows, size)]
    w = np.zeros(columns, np.float32)
    H = nm.distributed.HessianOperator(logistic_loss, w, shards, client=client, reduction="mean", max_residual_bytes=1 << 30)
    return minimum(H), H


def minimum(H: Any) -> OptimizeResult:
    """Minimizes the loss by SciPy's trust region; `path` gets the seconds and the norm of the gradient of each iteration."""
    start, path = time.perf_counter(), [(0.0, float(np.linalg.norm(H.gradient)))]
    note = lambda x: path.append((time.perf_counter() - start, float(np.linalg.norm(H.jac(x)))))  # noqa: E731
    x = np.zeros(H.shape[0])
    result = minimize(H.objective, x, jac=True, hessp=H.hessp, method="trust-ncg", options={"gtol": 2e-6}, callback=note)
    return OptimizeResult(result, path=path)


def plot(results: dict[str, OptimizeResult], path: str) -> None:
    """The gradient over time, as a picture."""
    import matplotlib.pyplot as plt

    for title, result in results.items():
        plt.semilogy(*zip(*result.path, strict=True), "o-", label=title)
    plt.xlabel("seconds")
    plt.ylabel("|gradient|")
    plt.legend()
    plt.savefig(path)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rows", type=int, nargs="?", default=200_000)
    parser.add_argument("columns", type=int, nargs="?", default=50)
    parser.add_argument("--processes", type=int, nargs="*", default=[], help="of Dask, such as 1 2")
    parser.add_argument("--plot", help="a file for the picture, such as newton.png")
    parser.add_argument("--folder", help="for the files, which stay there; else they are made in a temporary one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder, shape = Path(options.folder or temporary), (options.rows, options.columns)
        is_there = (folder / "rows").exists() and (folder / "rows").stat().st_size == 4 * shape[0] * shape[1]
        data, signs = (opened if is_there else generate)(folder, *shape)
        print(f"{data.nbytes / 1e6:.0f} MB of data")
        results = {"threads": timed_solution("threads of this process", lambda: solve(data, signs, progress=True))[0]}
        run = lambda client, count: timed_solution(f"{count} of Dask", lambda: solve_on(client, folder, *shape), client)  # noqa: E731
        others = compared(options.processes, run)
        results |= {f"{count} of Dask": result for count, result in zip(options.processes, others, strict=True)}
        if options.plot:
            plot(results, options.plot)


def timed_solution(title: str, run: Any, client: Any = None) -> tuple[OptimizeResult, float]:
    """A solution and its time; prints that, the memory held, and what was computed."""
    (result, H), seconds = report(title, run, client)
    each = 1e3 * H.seconds / (H.updates + H.products)
    print(
        f"  loss {result.fun:.6f}, |gradient| {np.linalg.norm(result.jac):.1e}; {H.updates} points and {H.products} products, "
        f"{each:.0f} ms each; residuals of {H.stored_batches} batches kept"
    )
    return result, seconds


if __name__ == "__main__":
    main()
