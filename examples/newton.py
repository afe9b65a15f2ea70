"""SciPy's Newton-CG and trust-krylov: the operator gives value, gradient and products, each computed once."""

from __future__ import annotations

from typing import Any

import numpy as np
from problems import logistic_data, logistic_loss
from scipy.optimize import OptimizeResult, minimize

import nabla_mlir as nm


def solve(method: str) -> tuple[OptimizeResult, nm.HessianOperator]:
    """The minimum of a regularised logistic loss."""
    rows, signs = logistic_data()
    H = nm.HessianOperator(logistic_loss, np.zeros(rows.shape[1]), rows, signs, np.float64(1e-2))
    result: Any = minimize(H.objective, H.x, jac=True, hessp=H.hessp, method=method, tol=1e-6)
    return result, H


if __name__ == "__main__":
    for method in ("Newton-CG", "trust-krylov"):
        result, H = solve(method)
        print(
            f"{method}: loss {result.fun:.6f}, |gradient| {np.linalg.norm(H.gradient):.1e}, "
            f"{H.updates} updates and {H.products} products in {H.seconds * 1e3:.1f} ms"
        )
