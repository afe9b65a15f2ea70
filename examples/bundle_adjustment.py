"""Bundle adjustment: cameras and points from what the cameras see, by SciPy's least squares and our sparse Jacobian."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult, least_squares

import nabla_mlir as nm
import nabla_mlir.numpy as nnp


@dataclass(frozen=True)
class Scene:
    """The observations: `seen` has a row of two numbers for each, with the index of its point and of its camera.

    A camera is nine numbers: a rotation (axis times angle), a translation, a focal length, and two numbers that distort
    what is far from the middle of its picture (Snavely's model, as in the data sets "Bundle Adjustment in the Large").
    """

    cameras: np.ndarray
    points: np.ndarray
    camera: np.ndarray
    point: np.ndarray
    seen: np.ndarray

    def residuals(self, x: Any) -> Any:
        """The observed minus the predicted positions, for a vector of all cameras and then all points."""
        count = self.cameras.size
        return (projected(x[:count].reshape(-1, 9)[self.camera], x[count:].reshape(-1, 3)[self.point]) - self.seen).reshape(-1)

    def start(self, noise: float = 0.01, seed: int = 1) -> np.ndarray:
        """The truth with noise: where a solver starts."""
        rng = np.random.default_rng(seed)
        cameras = self.cameras * (1 + noise * rng.normal(size=self.cameras.shape))
        return np.concatenate([cameras.reshape(-1), (self.points + noise * rng.normal(size=self.points.shape)).reshape(-1)])


def projected(camera: Any, point: Any) -> Any:
    """The positions at which cameras see points, one pair in each row; the rotation uses Rodrigues' formula."""
    axis, place, focal, bend = camera[:, :3], camera[:, 3:6], camera[:, 6:7], camera[:, 7:]
    angle = nnp.sqrt(nnp.sum(axis * axis, axis=1, keepdims=True))
    unit = axis / angle
    along = nnp.sum(unit * point, axis=1, keepdims=True)
    turned = point * nnp.cos(angle) + nnp.cross(unit, point) * nnp.sin(angle) + unit * along * (1 - nnp.cos(angle))
    moved = turned + place
    plane = -moved[:, :2] / moved[:, 2:]
    square = nnp.sum(plane * plane, axis=1, keepdims=True)
    return focal * (1 + bend[:, :1] * square + bend[:, 1:] * square**2) * plane


def scene(cameras: int, points: int, seed: int = 0) -> Scene:
    """Cameras around a cloud of points; each point is seen by four of them."""
    rng = np.random.default_rng(seed)
    axes = rng.normal(size=(cameras, 3)) * 0.3 + 0.1
    positions = np.column_stack([rng.normal(size=(cameras, 2)), -10 + rng.normal(size=cameras)])
    lenses = np.column_stack([rng.uniform(400, 600, cameras), rng.normal(size=(cameras, 2)) * 0.01])
    truth, cloud = np.column_stack([axes, positions, lenses]), rng.normal(size=(points, 3))
    camera, point = rng.integers(0, cameras, 4 * points), np.repeat(np.arange(points), 4)
    seen = np.asarray(projected(truth[camera], cloud[point])) + 0.1 * rng.normal(size=(4 * points, 2))
    return Scene(truth, cloud, camera, point, seen)


def solve(data: Scene, ours: bool = True) -> tuple[OptimizeResult, int, float]:
    """The least squares, with our Jacobian or with finite differences of its pattern; calls of the residuals, and seconds."""
    residuals, start = nm.jit(data.residuals), data.start()
    if ours:
        derivative = nm.jit(nm.sparse.jacobian(data.residuals))
        derivative(start)  # compiles
        jacobian: dict[str, Any] = {"jac": lambda x: derivative(x).to_scipy()}
    else:
        pattern = nm.sparse.jacobian_pattern(data.residuals, start)
        jacobian = {"jac": "2-point", "jac_sparsity": pattern.to_scipy()}
    calls = 0

    def counted(x: np.ndarray) -> np.ndarray:
        nonlocal calls
        calls += 1
        return np.asarray(residuals(x))

    residuals(start)
    begin = time.perf_counter()
    found = least_squares(counted, start, x_scale="jac", tr_solver="lsmr", ftol=1e-6, max_nfev=30, **jacobian)
    return found, calls, time.perf_counter() - begin


if __name__ == "__main__":
    data = scene(cameras=50, points=5000)
    print(f"{data.seen.size} residuals, {data.start().size} unknowns")
    for ours, title in ((True, "our Jacobian"), (False, "finite differences")):
        found, calls, seconds = solve(data, ours)
        pixels = np.sqrt(np.mean(found.fun**2))
        print(f"{title}: {pixels:.4f} pixels, {found.nfev} steps, {calls} evaluations, {seconds:.1f} s")
