"""Choosing a regularisation by hypergradients

At the minimum w of a training loss f with a regularisation t, ``dw/dt = -H⁻¹ ∂²f/∂w∂t``. One linear system with Hessian-vector
products gives the slope of the validation loss. So a quasi-Newton method finds the best regularisation without a grid search.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize
from scipy.sparse.linalg import cg

import nabla_mlir as nm
import nabla_mlir.numpy as nnp

rng = np.random.default_rng(5)
plane = rng.normal(size=40) * (rng.uniform(size=40) < 0.3)


def data(count):
    rows = rng.normal(size=(count, 40))
    return rows, np.sign(rows @ plane + 1.5 * rng.logistic(size=count))


train, held_out = data(120), data(2000)


def loss(w, rows, labels, t):
    return nnp.mean(nnp.logaddexp(0.0, -labels * (rows @ w))) + 0.5 * nnp.exp(t) * nnp.sum(w**2)


validation = nm.jit(nm.value_and_grad(lambda w: nnp.mean(nnp.logaddexp(0.0, -held_out[1] * (held_out[0] @ w)))))
mixed = nm.jit(lambda w, t: nm.jvp(lambda t: nm.grad(loss)(w, *train, t), (t,), (1.0,))[1])
hessian = nm.HessianOperator(loss, np.zeros(40), *train, np.float64(0.0))


def at(t):
    """The validation loss at the minimum for a regularisation, and its slope."""
    hessian.update(hessian.x, *train, np.float64(t))
    found = minimize(hessian.objective, hessian.x, jac=True, hessp=hessian.hessp, method="trust-ncg", options={"gtol": 1e-10})
    hessian.update(found.x)
    value, slope = validation(found.x)
    solution, _ = cg(hessian, np.asarray(slope), rtol=1e-12)
    return float(value), -float(solution @ np.asarray(mixed(found.x, np.float64(t))))


path = []


def noted(t):
    path.append((float(t[0]), *at(float(t[0]))))
    return path[-1][1], np.array([path[-1][2]])


best = minimize(noted, [-8.0], jac=True, method="L-BFGS-B", bounds=[(-9, 3)], tol=1e-10)
grid = np.linspace(-8, 2, 41)
curve = [at(t)[0] for t in grid]
numbers = (at(-3 + 1e-4)[0] - at(-3 - 1e-4)[0]) / 2e-4
print(f"best regularisation {np.exp(best.x[0]):.4f} after {len(path)} hypergradients: validation loss {best.fun:.5f}")
print(f"slope at exp(-3): {at(-3.0)[1]:.8f}, by differences {numbers:.8f}")
assert abs(at(-3.0)[1] - numbers) < 1e-6
assert best.fun <= min(curve) + 1e-9, "no point of the grid is better"

plt.semilogx(np.exp(grid), curve, color="gray", label="a grid of 41")
at_path = np.array(path)
plt.semilogx(np.exp(at_path[:, 0]), at_path[:, 1], "o", label=f"{len(path)} hypergradients")
plt.semilogx(np.exp(best.x), best.fun, "*", markersize=14, color="tab:red", label="where they end")
plt.xlabel("regularisation")
plt.ylabel("validation loss")
plt.title("A regularisation found by its derivative")
plt.legend()
