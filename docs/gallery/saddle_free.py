"""Saddle-free Newton on a matrix factorisation

The origin is a saddle of ``|A - U Vᵀ|²``. Gradient descent stays near it for long, and Newton's method, which finds any point with
zero gradient, converges to it. With the absolute values of the Hessian's eigenvalues, the saddle repels (Dauphin et al., 2014). The
lowest loss is known from the singular values that an approximation of rank two omits (Eckart and Young).
"""

import matplotlib.pyplot as plt
import numpy as np

import nabla_mlir as nm
import nabla_mlir.numpy as nnp

rng = np.random.default_rng(4)
A = rng.normal(size=(8, 2)) @ rng.normal(size=(2, 6)) + 0.1 * rng.normal(size=(8, 6))
start = 1e-3 * rng.normal(size=28)


def loss(x, A):
    return 0.5 * nnp.sum((A - x[:16].reshape(8, 2) @ x[16:].reshape(6, 2).T) ** 2)


def step(hessian, method):
    if method == "gradient descent":
        return -0.02 * hessian.gradient
    values, vectors = np.linalg.eigh(hessian.to_dense())
    sizes = values if method == "Newton" else np.abs(values)
    return -vectors @ ((vectors.T @ hessian.gradient) / (sizes + 1e-3))


curves, ends = {}, {}
for method in ("gradient descent", "Newton", "saddle-free Newton"):
    hessian = nm.HessianOperator(loss, start, A)
    curves[method] = [hessian.value]
    for _ in range(120):
        x, direction = hessian.x, step(hessian, method)
        for _ in range(20):  # Newton may go uphill; the others go down
            if hessian.update(x + direction)[0] <= curves[method][-1] or method == "Newton":
                break
            direction = direction / 2
        curves[method].append(hessian.value)
    ends[method] = hessian.value, np.linalg.norm(hessian.gradient)

lowest = 0.5 * np.sum(np.linalg.svd(A, compute_uv=False)[2:] ** 2)
for method, (value, slope) in ends.items():
    print(f"{method}: loss {value:.6f}, |gradient| {slope:.1e}")
print(f"the lowest loss of rank two: {lowest:.6f}")
assert abs(ends["saddle-free Newton"][0] - lowest) < 1e-9
assert ends["Newton"][1] < 1e-6 < ends["Newton"][0] - lowest, "Newton stays at the saddle"

for method, values in curves.items():
    plt.semilogy(np.maximum(np.array(values) - lowest, 1e-15), label=method)
plt.axhline(curves["Newton"][-1] - lowest, color="gray", linewidth=0.8, linestyle=":")
plt.text(120, (curves["Newton"][-1] - lowest) * 1.3, "the saddle", ha="right", color="gray")
plt.xlabel("iteration")
plt.ylabel("loss above the lowest")
plt.title("Where the origin is a saddle")
plt.legend(loc="center right")
