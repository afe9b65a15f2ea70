"""Means, variances, norms and pools of narrow floats: their sums are taken in float32, interpreted and compiled."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import scipy.special

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir import nn

pytestmark = pytest.mark.slow

DTYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
# Sums of these, and of their squares, are beyond the largest number of float16, and a bfloat16 no longer sees the next term.
X = np.random.default_rng(0).uniform(100, 300, (3, 2001))
WEIGHTS = np.random.default_rng(1).uniform(1, 2, X.shape)
MASK = X > 120


def _standardized(x: Any, axis: int = -1) -> Any:
    return (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + 1e-5)


# Each with what it is in float64.
CASES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "mean": (lambda x: nnp.mean(x), lambda x: x.mean()),
    "mean_axis": (lambda x: nnp.mean(x, 1, keepdims=True), lambda x: x.mean(1, keepdims=True)),
    "mean_where": (lambda x: nnp.mean(x, 1, where=MASK), lambda x: x.mean(1, where=MASK)),
    "nanmean": (lambda x: nnp.nanmean(x, 0), lambda x: x.mean(0)),
    "average": (lambda x: nnp.average(x), lambda x: x.mean()),
    "average_weights": (lambda x: nnp.average(x, 1, nnp.asarray(WEIGHTS).astype(x.dtype)), lambda x: np.average(x, 1, WEIGHTS)),
    "var": (lambda x: nnp.var(x, 1), lambda x: x.var(1)),
    "var_where": (lambda x: nnp.var(x, 1, ddof=1, where=MASK), lambda x: x.var(1, ddof=1, where=MASK)),
    "std": (lambda x: nnp.std(x * 4, 1), lambda x: (x * 4).std(1)),
    "nanstd": (lambda x: nnp.nanstd(x), lambda x: x.std()),
    "norm": (lambda x: nnp.linalg.norm(x), np.linalg.norm),
    "norm_3": (lambda x: nnp.linalg.norm(x, 3, 1), lambda x: np.linalg.norm(x, 3, 1)),
    "vector_norm": (lambda x: nnp.linalg.vector_norm(x, axis=(0, 1)), np.linalg.norm),
    "cov": (lambda x: nnp.cov(x), np.cov),
    "corrcoef": (lambda x: nnp.corrcoef(x), np.corrcoef),
    "standardize": (lambda x: nn.standardize(x), _standardized),
    "rms_norm": (lambda x: nn.rms_norm(x), lambda x: x / np.sqrt((x * x).mean(-1, keepdims=True))),
    "avg_pool": (lambda x: nn.avg_pool(x[:, :, None], 667), lambda x: x.reshape(3, 3, 667).mean(2)[..., None]),
    "mse": (lambda x: nn.mse(x, x * 0 - 300), lambda x: np.minimum(((x + 300) ** 2).mean(), np.inf)),
    "logsumexp": (lambda x: nnp.logsumexp(x / 1000), lambda x: scipy.special.logsumexp(x / 1000)),
    "softmax": (lambda x: nn.softmax(x / 100), lambda x: scipy.special.softmax(x / 100, -1)),
}


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_are_taken_in_float32(dtype: str) -> None:
    x = X.astype(DTYPES[dtype])
    eps, largest = float(ml_dtypes.finfo(x.dtype).eps), float(ml_dtypes.finfo(x.dtype).max)
    module = nm.module(**{name: nm.trace(f, x, name=name) for name, (f, _) in CASES.items()}).lower().compile(nm.CPU()).loaded
    for name, (f, truth) in CASES.items():
        want = np.asarray(truth(x.astype(np.float64)))
        want = np.where(want > largest, np.inf, want)
        for found in (f(x), module[name](x)):
            assert found.dtype == x.dtype, name
            # corrcoef and the tests of shifted numbers see the rounding of what goes in, not of sums.
            np.testing.assert_allclose(np.asarray(found, np.float64), want, rtol=4 * eps, atol=4 * eps, err_msg=name)


@pytest.mark.parametrize(("name", "dtype"), list(itertools.product(("mean", "var", "norm", "std", "avg_pool"), DTYPES)))
def test_derivatives_are_those_of_float64(name: str, dtype: str) -> None:
    f = CASES[name][0]
    x = X.astype(DTYPES[dtype])
    wide = x.astype(np.float64)
    loss = lambda x: (f(x).astype(np.float32) * 64).sum()  # noqa: E731
    wide_loss = lambda x: (f(x) * 64).sum()  # noqa: E731
    want = np.asarray(nm.grad(wide_loss)(wide))
    for found in (nm.grad(loss)(x), nm.jit(nm.grad(loss))(x)):
        assert found.dtype == x.dtype
        size = np.abs(want).max()
        np.testing.assert_allclose(np.asarray(found, np.float64) / size, want / size, rtol=2e-2, atol=2e-2)
