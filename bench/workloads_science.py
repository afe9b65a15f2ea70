"""Workloads of statistics, vision and optimisation that are not networks."""

from __future__ import annotations

from typing import Any

import numpy as np
from workload import Function, Workload, normal


def bundle(fw: Any) -> Function:
    """Reprojection error of points seen by cameras with radial distortion (the bundle adjustment of ADBench)."""

    def rotated(rotations: Any, x: Any) -> Any:
        square = fw.np.sum(rotations * rotations, axis=-1, keepdims=True) + 1e-12
        angle = fw.np.sqrt(square)
        axis, c = rotations / angle, fw.np.cos(angle)
        along = fw.np.sum(axis * x, axis=-1, keepdims=True) * axis
        return x * c + fw.np.cross(axis, x) * fw.np.sin(angle) + along * (1 - c)

    def loss(params: Any, cameras: Any, points: Any, seen: Any) -> Any:
        camera, point = params["cameras"][cameras], params["points"][points]
        local = rotated(camera[:, :3], point - camera[:, 3:6])
        flat = local[:, :2] / local[:, 2:]
        radius = fw.np.sum(flat * flat, axis=1, keepdims=True)
        bent = flat * (1 + camera[:, 9:10] * radius + camera[:, 10:] * radius * radius)
        error = (camera[:, 7:9] + camera[:, 6:7] * bent - seen) * params["weights"][:, None]
        return fw.np.sum(error * error) + fw.np.sum((1 - params["weights"] ** 2) ** 2)

    return loss


def _bundle_inputs() -> tuple[Any, ...]:
    rng, observations = np.random.default_rng(0), 3000
    cameras = normal(20, 11, scale=0.1)
    cameras[:, 6] += 1  # focal length
    points = normal(500, 3) + np.array([0, 0, 5], np.float32)
    params = {"cameras": cameras, "points": points, "weights": 1 + normal(observations, scale=0.1)}
    who = rng.integers(0, 20, observations).astype(np.int32)
    return params, who, rng.integers(0, 500, observations).astype(np.int32), normal(observations, 2)


def gaussian_process(fw: Any) -> Function:
    """Negative log-likelihood of a Gaussian process with a squared-exponential kernel, as a function of its length scales."""

    def loss(params: Any, x: Any, y: Any) -> Any:
        z = x * fw.np.exp(-params["scales"])
        squares = fw.np.sum(z * z, axis=1)
        distances = fw.np.maximum(squares[:, None] + squares[None, :] - 2 * (z @ z.T), 0.0)
        noise = fw.np.exp(2 * params["noise"]) * fw.np.eye(x.shape[0], dtype=x.dtype)
        root = fw.np.linalg.cholesky(fw.np.exp(2 * params["height"] - 0.5 * distances) + noise)
        white = fw.solve_lower(root, y)
        return 0.5 * fw.np.sum(white * white) + fw.np.sum(fw.np.log(fw.np.diagonal(root)))

    return loss


def _process_inputs() -> tuple[Any, ...]:
    params = {"scales": normal(6, scale=0.1) + np.float32(0.5), "noise": np.float32(-1), "height": np.float32(0.1)}
    return params, normal(256, 6), normal(256, seed=1)


def small(fw: Any) -> Function:
    """A quartic of few variables, whose Hessian is full."""

    def energy(x: Any, data: Any) -> Any:
        inner = fw.np.tanh(data @ x)
        return fw.np.sum(inner**2) * fw.np.sum(x**2) + fw.np.sum(x**4)

    return energy


SCIENCE = (
    Workload("bundle", "bundle adjustment 20/500/3000", bundle, _bundle_inputs),
    Workload("process", "Gaussian process, n=256", gaussian_process, _process_inputs),
    Workload("small", "1000 Hessians, n=8", small, lambda: (normal(1000, 8), normal(8, 8)), mapped=True),
)
