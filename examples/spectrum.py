"""The ends of the spectrum of a network's Hessian: Lanczos one vector at a time, LOBPCG a block at a time."""

from __future__ import annotations

import numpy as np
from problems import network_data, network_loss
from scipy.sparse.linalg import eigsh, lobpcg

import nabla_mlir as nm


def operator(block: int = 4) -> nm.HessianOperator:
    """The Hessian of the network's loss."""
    return nm.HessianOperator(network_loss, *network_data(), block=block)


def lanczos(H: nm.HessianOperator, count: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """The largest and the smallest eigenvalues."""
    largest = eigsh(H, count, which="LA", return_eigenvectors=False)
    return np.sort(largest)[::-1], np.sort(eigsh(H, count, which="SA", return_eigenvectors=False))


def blocked(H: nm.HessianOperator, count: int = 3) -> np.ndarray:
    """The largest eigenvalues by LOBPCG: a block of products per step."""
    start = np.random.default_rng(0).normal(size=(H.shape[0], count))
    return np.sort(lobpcg(H, start, tol=1e-9, maxiter=400)[0])[::-1]


if __name__ == "__main__":
    H = operator()
    largest, smallest = lanczos(H)
    print(f"largest  {largest}\nsmallest {smallest}\nLOBPCG   {blocked(H)}\n{H.products} products")
