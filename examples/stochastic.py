"""Trace and diagonal from random products: Hutchinson's estimates, and Hutch++ (Meyer et al., 2021)."""

from __future__ import annotations

import numpy as np
from scipy.sparse.linalg import LinearOperator
from spectrum import operator


def hutchinson(A: LinearOperator, samples: int, rng: np.random.Generator) -> float:
    """The mean of zᵀAz over random signs z: its error falls like 1 / sqrt(samples)."""
    Z = rng.choice([-1.0, 1.0], size=(A.shape[1], samples))
    return float(np.sum(Z * (A @ Z)) / samples)


def hutch_plus_plus(A: LinearOperator, samples: int, rng: np.random.Generator) -> float:
    """Exact on the dominant subspace, Hutchinson's on the rest: the error falls like 1 / samples."""
    third = samples // 3
    S, G = (rng.choice([-1.0, 1.0], size=(A.shape[1], third)) for _ in range(2))
    Q = np.linalg.qr(A @ S)[0]
    G = G - Q @ (Q.T @ G)
    return float(np.trace(Q.T @ (A @ Q)) + np.sum(G * (A @ G)) / third)


def diagonal(A: LinearOperator, samples: int, rng: np.random.Generator) -> np.ndarray:
    """The mean of z * Az over random signs z (Bekas et al., 2007)."""
    Z = rng.choice([-1.0, 1.0], size=(A.shape[1], samples))
    return np.mean(Z * (A @ Z), axis=1)


if __name__ == "__main__":
    H = operator(16)
    exact, rng = H.to_dense(), np.random.default_rng(0)
    print(f"trace {np.trace(exact):.4f}, Hutchinson {hutchinson(H, 48, rng):.4f}, Hutch++ {hutch_plus_plus(H, 48, rng):.4f}")
    error = np.linalg.norm(diagonal(H, 480, rng) - np.diag(exact)) / np.linalg.norm(np.diag(exact))
    print(f"diagonal within {error:.1%} after 480 products")
