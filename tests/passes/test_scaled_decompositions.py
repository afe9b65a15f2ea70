"""Singular and eigenvalues of matrices whose squares are no numbers of their dtype, compiled, against LAPACK in f64."""

from __future__ import annotations

import numpy as np

import nabla_mlir as nm
import nabla_mlir.numpy as nnp


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
        np.testing.assert_allclose(np.asarray(u, float) * np.asarray(s, float) / size @ np.asarray(vh, float), wide / size, atol=1e-5)
        whole = wide + wide.T
        np.testing.assert_allclose(np.asarray(values, float) / size, np.linalg.eigvalsh(whole) / size, atol=1e-5)
        np.testing.assert_allclose(whole / size @ np.asarray(vectors), np.asarray(vectors) * (np.asarray(values, float) / size), atol=2e-5)
        np.testing.assert_allclose(one, np.abs(m[:1, 0]), rtol=1e-6)
