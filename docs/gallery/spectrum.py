"""The spectrum of a network's Hessian

A network's loss has a few steep directions and many flat ones. Stochastic Lanczos quadrature finds the density of all eigenvalues
from Hessian-vector products, which one artifact computes. Here the matrix is small enough to compare with all its eigenvalues.
"""

import numpy as np

import nabla_mlir as nm
import nabla_mlir.numpy as nnp

rng = np.random.default_rng(0)
rows = rng.normal(size=(200, 5))
targets = np.sin(rows[:, 0]) * rows[:, 1]
params = {"w1": rng.normal(size=(5, 16)) / 2, "b1": np.zeros(16), "w2": rng.normal(size=(16, 8)) / 4, "w3": rng.normal(size=8) / 3}


def loss(params, rows, targets):
    hidden = nnp.tanh(rows @ params["w1"] + params["b1"])
    return nnp.mean((nnp.tanh(hidden @ params["w2"]) @ params["w3"] - targets) ** 2)


hessian = nm.HessianOperator(loss, params, rows, targets, block=16)
*_, spectrum = nm.stochastic_lanczos(hessian, steps=40, probes=48)

exact = np.linalg.eigvalsh(hessian.to_dense())
trace = spectrum.trace(lambda values: values)
print(f"{hessian.shape[0]} parameters, {hessian.products} products")
print(f"trace {trace.value:.4f} ± {trace.error:.4f}, exactly {exact.sum():.4f}; largest eigenvalue {exact[-1]:.4f}")
assert abs(trace.value - exact.sum()) < 4 * trace.error + 1e-3
assert abs(spectrum.nodes.max() - exact[-1]) < 1e-3 * exact[-1]

axes = spectrum.plot(width=0.02)
axes.plot(exact, np.full_like(exact, 2e-3), "|", color="tab:orange", markersize=14, label="all eigenvalues")
axes.lines[0].set_label("from 48 probes")
axes.set_ylim(1e-3, None)
axes.set_title("Spectrum of a network's Hessian")
axes.legend()
