"""Compares single operations on large arrays with `jax.jit`, because a slow operation makes a slow program.

usage: python bench/operations.py [--only WORD ...] [--quick] [--out FOLDER]
Writes operations.json and operations.png. The times are those of calls on f32 arrays of the device; `taskset -c 1 python ...`
measures one core.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from beside_jax import Result, measure, report
from measuring import console, parse_words

import nabla_mlir as nm
import nabla_mlir.numpy as nnp

rng = np.random.default_rng(0)


@dataclass(frozen=True)
class Case:
    """An operation in a namespace, and the shapes of its arguments."""

    title: str
    operation: Callable[..., Any]
    shapes: Sequence[tuple[int, ...]]
    prepare: Callable[[np.ndarray], np.ndarray] | None = None  # converts the first argument


def _symmetric(a: np.ndarray) -> np.ndarray:
    return a + np.swapaxes(a, -1, -2)


def _definite(a: np.ndarray) -> np.ndarray:
    return a @ np.swapaxes(a, -1, -2) + a.shape[-1] * np.eye(a.shape[-1], dtype=a.dtype)


POSITIONS, ROWS = rng.integers(0, 10**6, 10**6).astype(np.int32), rng.integers(0, 10_000, 100_000).astype(np.int32)
CASES = (
    Case("eigenvalues 200", lambda xp, a: xp.linalg.eigvalsh(a), [(200, 200)], _symmetric),
    Case("eigenvalues 500", lambda xp, a: xp.linalg.eigvalsh(a), [(500, 500)], _symmetric),
    Case("eigenvalues 200x30", lambda xp, a: xp.linalg.eigvalsh(a), [(200, 30, 30)], _symmetric),
    Case("singular values 200", lambda xp, a: xp.linalg.svd(a, compute_uv=False), [(200, 200)]),
    Case("R of 500", lambda xp, a: xp.abs(xp.linalg.qr(a)[1]), [(500, 500)]),
    Case("inverse 500", lambda xp, a: xp.linalg.inv(a), [(500, 500)], _definite),
    Case("Cholesky 64x100", lambda xp, a: xp.linalg.cholesky(a), [(64, 100, 100)], _definite),
    Case("real FFT 8x512x512", lambda xp, a: xp.abs(xp.fft.rfftn(a)), [(8, 512, 512)]),
    Case("FFT 1000x1000", lambda xp, a: xp.abs(xp.fft.fft(a)), [(1000, 1000)]),
    Case("FFT 1,048,576", lambda xp, a: xp.abs(xp.fft.fft(a)), [(1 << 20,)]),
    Case("FFT 64x64x64", lambda xp, a: xp.abs(xp.fft.fftn(a)), [(64, 64, 64)]),
    Case("running sum 10^6", lambda xp, a: xp.cumsum(a), [(10**6,)]),
    Case("running sums of rows", lambda xp, a: xp.cumsum(a, axis=1), [(1000, 1000)]),
    Case("sort 10^6", lambda xp, a: xp.sort(a), [(10**6,)]),
    Case("order of rows", lambda xp, a: xp.argsort(a, axis=-1), [(1000, 1000)]),
    Case("median of rows", lambda xp, a: xp.median(a, axis=-1), [(1000, 1001)]),
    Case("gather 10^6", lambda xp, a: a[POSITIONS], [(10**6,)]),
    Case("gather of rows", lambda xp, a: a[ROWS], [(10_000, 64)]),
    Case("sums at indices", lambda xp, a: xp.zeros((10**6,), np.float32).at[POSITIONS].add(a), [(10**6,)]),
    Case("sums of rows at indices", lambda xp, a: xp.zeros((10_000, 64), np.float32).at[ROWS].add(a), [(100_000, 64)]),
    Case("squares over columns", lambda xp, a: (a * a).sum(0), [(10_000, 1000)]),
    Case("squares over rows", lambda xp, a: (a * a).sum(1), [(10_000, 1000)]),
    Case("largest of columns", lambda xp, a: a.max(0), [(10_000, 1000)]),
    Case("norm of 10^7", lambda xp, a: xp.linalg.norm(a), [(10**7,)]),
    Case("layer norm", lambda xp, a: (a - a.mean(-1, keepdims=True)) / a.std(-1, keepdims=True), [(10_000, 1000)]),
    Case("softmax", lambda xp, a: xp.exp(a - a.max(-1, keepdims=True)), [(2000, 2000)]),
    Case("roll", lambda xp, a: xp.roll(a, 17, axis=1), [(2000, 2000)]),
    Case("lower triangle", lambda xp, a: xp.tril(a), [(2000, 2000)]),
    Case("transpose", lambda xp, a: a.T + 1, [(2000, 2000)]),
    Case("vector times matrix", lambda xp, v, a: v @ a, [(3000,), (3000, 3000)]),
    Case("matrix times vector", lambda xp, v, a: a @ v, [(3000,), (3000, 3000)]),
    Case("matrix times matrix", lambda xp, a, b: a @ b, [(1000, 1000), (1000, 1000)]),
)


def _largest_difference(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


def measured(case: Case, quick: bool) -> Result:
    """Measures one operation on both sides."""
    arguments = [rng.normal(size=shape).astype(np.float32) for shape in case.shapes]
    if case.prepare is not None:
        arguments[0] = case.prepare(arguments[0])
    ours, theirs = nm.jit(lambda *xs: case.operation(nnp, *xs)), jax.jit(lambda *xs: case.operation(jnp, *xs))
    put, there = [nnp.asarray(x) for x in arguments], [jnp.asarray(x) for x in arguments]
    calls = {"ours": lambda: ours(*put), "jax": lambda: jax.block_until_ready(theirs(*there))}
    return measure(case.title, calls, lambda out: np.asarray(out, np.float64), _largest_difference, quick)


def main() -> int:
    """Measures the operations; returns 1 if values differ from those of JAX."""
    options, chosen = parse_words(__doc__.partition("\n")[0], "operations", "fewer repetitions", CASES)
    results = []
    for case in chosen:
        with console.status(f"{case.title} ..."):
            results.append(measured(case, options.quick))
    return report("operations", results, 1e-3, "ms", options.out)


if __name__ == "__main__":
    sys.exit(main())
