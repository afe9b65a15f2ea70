"""Newton's method compared with first-order methods

Logistic regression on badly scaled data: methods that use curvature, by Hessian-vector products, need a handful of steps. Gradient
descent and Adam make slow progress. The measure is the number of passes over the data.
"""

import matplotlib.pyplot as plt
import numpy as np

import nabla_mlir as nm
import nabla_mlir.numpy as nnp

rng = np.random.default_rng(2)
rows = rng.normal(size=(500, 30)) * np.logspace(0, -2, 30)
labels = np.sign(rows @ (rng.normal(size=30) * np.logspace(0, 1.5, 30)) + 0.3 * rng.normal(size=500))


def loss(w, rows, labels):
    return nnp.mean(nnp.logaddexp(0.0, -labels * (rows @ w))) + 0.5e-4 * nnp.sum(w**2)


gradient = nm.jit(nm.value_and_grad(loss))
curves = {}

w, passes, values = np.zeros(30), 0, []
m, v = np.zeros(30), np.zeros(30)
for step in range(1, 301):  # Adam
    value, slope = gradient(w, rows, labels)
    values.append(float(value))
    m, v = 0.9 * m + 0.1 * np.asarray(slope), 0.999 * v + 0.001 * np.asarray(slope) ** 2
    w = w - 0.3 * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
curves["Adam"] = (np.arange(300) + 1, values)

w, values = np.zeros(30), []
for _ in range(300):  # gradient descent
    value, slope = gradient(w, rows, labels)
    values.append(float(value))
    w = w - 2.0 * np.asarray(slope)
curves["gradient descent"] = (np.arange(300) + 1, values)

hessian = nm.HessianOperator(loss, np.zeros(30), rows, labels)
costs, values = [], []
w = np.zeros(30)
for _ in range(10):  # Newton, each step solved by conjugate gradients
    value, slope = hessian.update(w)
    costs.append(hessian.products + hessian.updates)
    values.append(float(value))
    direction, residual = np.zeros(30), -slope
    p = residual.copy()
    for _ in range(30):
        product = hessian @ p
        rate = residual @ residual / (p @ product)
        direction, new = direction + rate * p, residual - rate * product
        if np.linalg.norm(new) < 1e-3 * np.linalg.norm(slope):
            break
        p, residual = new + (new @ new) / (residual @ residual) * p, new
    w = w + direction
curves["Newton, products alone"] = (costs, values)

lowest = min(min(values) for _, values in curves.values())
print(f"Newton: |gradient| {np.linalg.norm(hessian.gradient):.1e} after {costs[-1]} passes")
print(f"Adam ends {curves['Adam'][1][-1] - lowest:.1e} above")
assert np.linalg.norm(hessian.gradient) < 1e-8
assert lowest == values[-1], "Newton is the lowest"
assert costs[-1] < 300, "with fewer passes than the others had"

for name, (at, values) in curves.items():
    plt.semilogy(at, np.maximum(np.array(values) - lowest, 1e-16), marker="." if "Newton" in name else "", label=name)
plt.xlabel("passes over the data")
plt.ylabel("loss above the lowest")
plt.title("Newton beside first-order methods")
plt.legend()
