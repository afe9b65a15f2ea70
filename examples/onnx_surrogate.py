"""A Gaussian process of scikit-learn, out of an ONNX file: its minimum, by derivatives that the file does not have."""

from __future__ import annotations

from typing import Any

import numpy as np

import nabla_mlir as nm

LOW, HIGH = np.array([-5.0, 0.0]), np.array([10.0, 15.0])


def branin(x: np.ndarray) -> np.ndarray:
    """A test function of optimisation, with three minima."""
    u, v = x[:, 0], x[:, 1]
    return (v - 5.1 / (4 * np.pi**2) * u**2 + 5 / np.pi * u - 6) ** 2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(u) + 10


def surrogate() -> tuple[Any, bytes]:
    """The process at 120 points, and the same as a file."""
    from skl2onnx import to_onnx
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    points = np.random.default_rng(0).uniform(LOW, HIGH, (120, 2))
    kernel = ConstantKernel(3e4) * RBF([4.0, 12.0])
    process = GaussianProcessRegressor(kernel, alpha=1e-4, optimizer=None).fit(points, branin(points))
    return process, to_onnx(process, points[:1], target_opset=18).SerializeToString()


def minimum(file: bytes, x0: np.ndarray) -> Any:
    """The point where the model in the file is least, by gradients and products with its Hessian."""
    f = nm.from_onnx(file)
    return nm.minimize(lambda x: f(x[None])[0, 0], x0, method="trust-krylov", tol=1e-8)


if __name__ == "__main__":
    process, file = surrogate()
    found = minimum(file, np.array([3.0, 3.0]))
    print(f"minimum of the process at {found.x.round(4)}: {found.fun:.5f}, with {found.nhev} Hessians")
    print("minimum of the function  at [3.1416 2.275 ]: 0.39789")
