"""Singular and eigenvalues of matrices whose squares are no numbers of their dtype, compiled, against LAPACK in f64."""

from __future__ import annotations

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.compiling.checking import Checking
from nabla_mlir.passes.iree.linalg import schur


def test_very_small_and_very_large_matrices() -> None:
    a = np.random.default_rng(0).normal(size=(3, 3))
    scales = (1e-30, 1e-25, 1.0, 1e25)
    matrices = [(a * s).astype(np.float32) for s in scales]

    def decomposed(matrices: list) -> list:
        return [(nnp.linalg.svd(m), nnp.linalg.eigh(m + m.T), nnp.linalg.svdvals(m[:1, :1])) for m in matrices]

    for m, ((u, s, vh), (values, vectors), one) in zip(matrices, nm.jit(decomposed)(matrices), strict=True):
        wide = m.astype(np.float64)
        size = np.abs(wide).max()
        np.testing.assert_allclose(np.asarray(s, float) / size, np.linalg.svd(wide)[1] / size, rtol=1e-5)
        np.testing.assert_allclose(
            np.asarray(u, float) * np.asarray(s, float) / size @ np.asarray(vh, float), wide / size, atol=1e-5
        )
        whole = wide + wide.T
        np.testing.assert_allclose(np.asarray(values, float) / size, np.linalg.eigvalsh(whole) / size, atol=1e-5)
        np.testing.assert_allclose(
            whole / size @ np.asarray(vectors), np.asarray(vectors) * (np.asarray(values, float) / size), atol=2e-5
        )
        np.testing.assert_allclose(one, np.abs(m[:1, 0]), rtol=1e-6)


def test_complex_matrices_and_general_ones() -> None:
    """Eigenvalues of general matrices, too: of 1e-150 they were wrong in the sixth digit, of 1e150 not a number."""
    rng = np.random.default_rng(1)
    a = rng.normal(size=(3, 4, 4)) + 1j * rng.normal(size=(3, 4, 4))
    a *= np.array([1e-150, 1.0, 1e150])[:, None, None]

    def decomposed(a: nnp.ndarray) -> tuple:
        return (
            nnp.linalg.svdvals(a),
            nnp.linalg.eigvalsh(a + nnp.conj(nnp.swapaxes(a, 1, 2))),
            *(map(nnp.linalg.eigvals, (a, nnp.real(a)))),
        )

    s, symmetric, general, real = map(np.asarray, nm.jit(decomposed)(a))
    for i, m in enumerate(a):
        size = np.abs(m).max()
        np.testing.assert_allclose(s[i] / size, np.linalg.svd(m)[1] / size, atol=1e-14)
        np.testing.assert_allclose(symmetric[i] / size, np.linalg.eigvalsh(m + m.conj().T) / size, atol=1e-14)
        for found, matrix in ((general[i], m), (real[i], m.real)):
            true = np.linalg.eigvals(matrix)
            order = [int(np.argmin(np.abs(found - v))) for v in true]
            assert sorted(order) == [0, 1, 2, 3]
            np.testing.assert_allclose(found[order] / size, true / size, atol=1e-13)


def test_eigenvalues_that_do_not_converge_are_no_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schur, "MOST_STEPS", 0)
    monkeypatch.setattr(Checking, "mode", "off")  # the interpreter's do converge
    found = nm.jit(nnp.linalg.eigvals)(np.stack([np.random.default_rng(2).normal(size=(3, 3)), np.ones((3, 3))]))
    assert np.isnan(np.asarray(found)).all()
