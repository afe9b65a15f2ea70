"""Saddle-free Newton (Dauphin et al., 2014): |H|⁻¹ gradient on a Krylov space, so that saddle points repel."""

from __future__ import annotations

import numpy as np
from problems import network_data, network_loss
from scipy.sparse.linalg import LinearOperator

import nabla_mlir as nm


def krylov(A: LinearOperator, start: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """An orthonormal basis Q of the Krylov space and QᵀAQ (Lanczos with full orthogonalisation)."""
    Q = [start / np.linalg.norm(start)]
    images = []
    for _ in range(steps):
        images.append(A @ Q[-1])
        rest = images[-1] - np.array(Q).T @ (np.array(Q) @ images[-1])
        rest -= np.array(Q).T @ (np.array(Q) @ rest)
        size = np.linalg.norm(rest)
        if size < 1e-10 * np.linalg.norm(images[-1]) or len(Q) == steps:
            break
        Q.append(rest / size)
    basis = np.array(Q).T
    return basis, basis.T @ np.array(images).T


def step(H: nm.HessianOperator, steps: int = 12, damping: float = 1e-2) -> np.ndarray:
    """The step -|H|⁻¹ g, with damping, on the Krylov space of the gradient."""
    assert H.gradient is not None
    Q, T = krylov(H, H.gradient, steps)
    values, vectors = np.linalg.eigh((T + T.T) / 2)
    return -Q @ (vectors @ ((vectors.T @ (Q.T @ H.gradient)) / (np.abs(values) + damping)))


def minimise(iterations: int = 40) -> list[float]:
    """The losses on the way from a random start, with a step that is halved while it does not help."""
    H = nm.HessianOperator(network_loss, *network_data())
    losses = [H.value]
    for _ in range(iterations):
        x, direction = H.x, step(H)
        while H.update(x + direction)[0] > losses[-1] and np.linalg.norm(direction) > 1e-8:
            direction = direction / 2
        losses.append(H.value)
    return losses


if __name__ == "__main__":
    losses = minimise()
    print(" ".join(f"{loss:.2e}" for loss in losses[::8]))
