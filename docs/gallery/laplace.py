"""A Laplace approximation

Near the best parameters the loss is approximately quadratic, and its curvature says how certain each prediction is. Here the
Hessian is computed as a matrix. The error bars are wide where there are no data, as they should be.
"""

import matplotlib.pyplot as plt
import numpy as np

import nabla_mlir as nm
import nabla_mlir.numpy as nnp

rng = np.random.default_rng(1)
at = np.concatenate([rng.uniform(-3, -0.5, 25), rng.uniform(1.5, 3, 15)])
noise, prior = 0.15, 1.0
values = np.sin(1.5 * at) + noise * rng.normal(size=at.size)


def predict(p, at):
    return nnp.tanh(at[:, None] * p["w"] + p["b"]) @ p["v"]


def energy(p, at, values):
    misfit = nnp.sum((predict(p, at) - values) ** 2) / (2 * noise**2)
    return misfit + sum(nnp.sum(x**2) for x in p.values()) / (2 * prior**2)


start = {name: rng.normal(size=12) for name in ("w", "b", "v")}
best = nm.minimize(energy, start, at, values, method="trust-krylov", options={"gtol": 1e-5, "maxiter": 300})
hessian = nm.HessianOperator(energy, best.x, at, values)
covariance = np.linalg.inv(hessian.to_dense())

grid = np.linspace(-4, 4, 200)
slopes = nm.jit(nm.jacrev(predict))(best.x, grid)
J = np.concatenate([np.asarray(slopes[name]).reshape(200, -1) for name in sorted(slopes)], axis=1)
spread = np.sqrt(np.einsum("ij,jk,ik->i", J, covariance, J))
mean = np.asarray(nm.jit(predict)(best.x, grid))

print(f"|gradient| {np.linalg.norm(hessian.gradient):.1e}, smallest eigenvalue {np.linalg.eigvalsh(hessian.to_dense())[0]:.3f}")
print(f"spread at data {spread[np.abs(grid + 2) < 0.5].mean():.3f}, between {spread[np.abs(grid - 0.5) < 0.3].mean():.3f}")
assert np.linalg.eigvalsh(hessian.to_dense())[0] > 0, "a minimum"
assert spread[np.abs(grid - 0.5) < 0.3].mean() > 1.5 * spread[np.abs(grid + 2) < 0.5].mean()

plt.fill_between(grid, mean - 2 * spread, mean + 2 * spread, alpha=0.25, label="two standard deviations")
plt.plot(grid, mean, label="best parameters")
plt.plot(at, values, "k.", label="data")
plt.plot(grid, np.sin(1.5 * grid), "k:", label="truth")
plt.title("Laplace approximation of a network")
plt.legend()
