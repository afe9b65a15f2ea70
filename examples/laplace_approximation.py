"""Laplace approximation: a Gaussian at the minimum whose precision is the Hessian; variances by conjugate gradients."""

from __future__ import annotations

import numpy as np
from newton import solve
from scipy.sparse.linalg import cg

import nabla_mlir as nm


def predictive_variance(H: nm.HessianOperator, rows: np.ndarray, samples: int) -> np.ndarray:
    """The variance of rows @ w for w ~ N(minimum, (samples * H)⁻¹): one linear system per row."""
    solutions = []
    for row in rows:
        solution, failed = cg(H, row, rtol=1e-10)
        assert not failed
        solutions.append(solution)
    return np.einsum("ij,ij->i", rows, np.array(solutions)) / samples


if __name__ == "__main__":
    _, H = solve("trust-krylov")
    rows = np.random.default_rng(1).normal(size=(4, H.shape[0]))
    print(f"standard deviations of the scores: {np.sqrt(predictive_variance(H, rows, 200))}")
