"""Traces and spectra from random probes, against dense matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse.linalg import aslinearoperator

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import ShapeError

RNG = np.random.default_rng(8)
A = RNG.normal(size=(40, 40))
A = A @ A.T / 40 + np.eye(40)
A.setflags(write=False)
METHODS = (nm.hutchinson, nm.hutch_plus_plus)


def last(estimates: Any) -> Any:
    *_, estimate = estimates
    return estimate


def test_the_trace_is_within_its_error_and_ends_early() -> None:
    estimates = list(nm.hutchinson(aslinearoperator(A), 200, seed=1, block=10))
    assert [e.probes for e in estimates] == list(range(10, 210, 10))
    assert abs(estimates[-1].value - np.trace(A)) < 4 * estimates[-1].error
    early = list(nm.hutchinson(aslinearoperator(A), 200, seed=1, block=10, tolerance=0.03))
    assert early == estimates[: len(early)]
    assert 1 < len(early) < 20
    assert len(early) == next(i for i, e in enumerate(estimates, 1) if e.error <= 0.03 * e.value)
    assert early[-1].error <= 0.03 * early[-1].value


def test_probes_are_the_same_in_blocks_of_any_size() -> None:
    *_, one = nm.hutchinson(aslinearoperator(A), 12, seed=3, block=1)
    *_, many = nm.hutchinson(aslinearoperator(A), 12, seed=3, block=5)
    *_, other = nm.hutchinson(aslinearoperator(A), 12, seed=4, block=5)
    np.testing.assert_allclose([one.value, one.error], [many.value, many.error], rtol=1e-10)
    assert abs(one.value - other.value) > 1e-6


def test_what_few_vectors_span_is_taken_exactly() -> None:
    values = 1.0 / np.arange(1, 201) ** 2
    Q = np.linalg.qr(RNG.normal(size=(200, 200)))[0]
    B = (Q * values) @ Q.T
    errors = {f: [abs(last(f(aslinearoperator(B), 48, seed=i)).value - values.sum()) for i in range(20)] for f in METHODS}
    assert np.mean(errors[nm.hutch_plus_plus]) < 0.2 * np.mean(errors[nm.hutchinson])
    estimates = list(nm.hutch_plus_plus(aslinearoperator(B), 60, seed=1, block=7))
    assert [e.probes for e in estimates] == [47, 54, 60]
    assert abs(estimates[-1].value - values.sum()) < 4 * estimates[-1].error
    other = last(nm.hutch_plus_plus(aslinearoperator(B), 60, seed=1, block=16))
    np.testing.assert_allclose([other.value, other.error], [estimates[-1].value, estimates[-1].error], rtol=1e-9)
    assert list(nm.hutch_plus_plus(aslinearoperator(B), 60, seed=1, block=7, tolerance=0.1)) == estimates[:1]
    assert last(nm.hutch_plus_plus(aslinearoperator(B), 2)).value == pytest.approx(
        last(nm.hutchinson(aslinearoperator(B), 2)).value
    )
    whole = last(nm.hutch_plus_plus(aslinearoperator(A.astype(np.float32)), 150))
    assert (whole.value, whole.error, whole.probes) == (pytest.approx(np.trace(A), rel=1e-5), 0.0, 80)


def test_the_spectrum_of_a_sum_over_batches() -> None:
    rows = RNG.normal(size=(60, 12))
    f: Any = lambda x, rows: nnp.sum((rows @ x) ** 2) / 2  # noqa: E731
    H = nm.SumOperator(f, np.ones(12), [rows[:25], rows[25:50], rows[50:]], target=nm.Interpreter())
    values = np.linalg.eigvalsh(rows.T @ rows)
    *_, spectrum = nm.stochastic_lanczos(H, steps=12, probes=20, block=8)
    np.testing.assert_allclose(spectrum.nodes, np.tile(values, (20, 1)), rtol=1e-6)
    np.testing.assert_allclose(spectrum.weights.sum(axis=1), 1)
    estimate = spectrum.trace(np.log)
    assert abs(estimate.value - np.log(values).sum()) < 4 * estimate.error
    at = np.linspace(0, 1.5 * values[-1], 4000)
    density = spectrum.density(at, 2.0)
    assert abs(np.sum(density) * (at[1] - at[0]) - 1) < 0.1
    *_, few = nm.hutchinson(H, 64)
    assert abs(few.value - values.sum()) < 4 * few.error
    assert last(nm.hutch_plus_plus(H, 36)).value == pytest.approx(values.sum())


def test_a_space_that_is_exhausted_ends_the_steps() -> None:
    B = np.diag(np.repeat([1.0, 2.0, 3.0], 10))
    *_, spectrum = nm.stochastic_lanczos(aslinearoperator(B), steps=8, probes=4)
    assert spectrum.trace(lambda x: x**2).value == pytest.approx(140)
    assert np.count_nonzero(spectrum.weights > 1e-12, axis=1).tolist() == [3] * 4


def test_a_square_is_required() -> None:
    for estimates in (*METHODS, nm.stochastic_lanczos):
        with pytest.raises(ShapeError, match=r"requires a square operator, got one of shape \(2, 3\)"):
            next(estimates(aslinearoperator(np.ones((2, 3)))))
