"""The implicit hypergradient: how the validation loss at the minimum changes with the regularisation.

At the minimum w(l2) of the training loss f, dw/dl2 = -H⁻¹ d²f/dw dl2. So the derivative of a validation loss is
-(H⁻¹ dv/dw)ᵀ d²f/dw dl2: one linear system with products of the Hessian.
"""

from __future__ import annotations

import numpy as np
from problems import logistic_data, logistic_loss
from scipy.optimize import minimize
from scipy.sparse.linalg import cg

import nabla_mlir as nm


def train(H: nm.HessianOperator, l2: float) -> np.ndarray:
    """The minimum for a regularisation; the operator stays there."""
    rows, signs, _ = H.data
    H.update(H.x, rows, signs, np.float64(l2))
    result = minimize(H.objective, H.x, jac=True, hessp=H.hessp, method="Newton-CG", tol=1e-12)
    H.update(result.x)
    return H.x


def hypergradient(l2: float = 1e-2) -> tuple[float, float]:
    """The validation loss and its derivative with respect to the regularisation."""
    rows, signs = logistic_data(seed=0)
    H = nm.HessianOperator(logistic_loss, np.zeros(rows.shape[1]), rows, signs, np.float64(l2))
    w = train(H, l2)
    held_out = logistic_data(seed=1)
    value, slope = nm.value_and_grad(logistic_loss)(w, *held_out, np.float64(0.0))
    solution, failed = cg(H, np.asarray(slope), rtol=1e-12)
    assert not failed
    mixed = nm.jvp(lambda t: nm.grad(logistic_loss)(w, rows, signs, t), (np.float64(l2),), (1.0,))[1]
    return float(value), -float(solution @ np.asarray(mixed))


if __name__ == "__main__":
    value, slope = hypergradient()
    print(f"validation loss {value:.6f}, derivative with respect to l2 {slope:.6f}")
