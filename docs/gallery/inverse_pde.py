"""An inverse problem of a differential equation

Heat flows through a rod of unknown conductivity. The program finds the conductivity from temperatures measured at the end. The
simulation is a loop, and least squares differentiates through it.
"""

import matplotlib.pyplot as plt
import numpy as np

import nabla_mlir as nm
import nabla_mlir.numpy as nnp

CELLS, STEPS, DT = 40, 200, 0.1
place = np.linspace(0, 1, CELLS)
truth = 0.6 + 0.35 * np.sin(2 * np.pi * place) * (place > 0.3)
starts = np.stack([np.exp(-((place - c) ** 2) / 0.005) for c in (0.1, 0.3, 0.5, 0.7, 0.9)])


def heat(conductivity, start):
    between = 0.5 * (conductivity[1:] + conductivity[:-1])

    def step(_, u):
        flux = between * (u[1:] - u[:-1])
        return u + DT * (nnp.pad(flux, (0, 1)) - nnp.pad(flux, (1, 0)))

    return nm.fori_loop(0, STEPS, step, start)


def misfit(conductivity, measured):
    final = nm.vmap(heat, in_axes=(None, 0))(conductivity, starts)
    rough = nnp.sum((conductivity[1:] - conductivity[:-1]) ** 2)
    return nnp.sum((final - measured) ** 2) + 1e-5 * rough


rng = np.random.default_rng(3)
measured = np.asarray(nm.jit(lambda k: nm.vmap(heat, in_axes=(None, 0))(k, starts))(truth)) + 1e-4 * rng.normal(size=(5, CELLS))
found = nm.minimize(misfit, np.full(CELLS, 0.6), measured, method="trust-krylov", options={"gtol": 1e-8, "maxiter": 100})
error = np.abs(np.asarray(found.x) - truth)

print(f"{found.nit} iterations, misfit {found.fun:.1e}, conductivity wrong by {error.mean():.4f} on average")
assert error.mean() < 0.03
assert np.asarray(measured).sum() > 0.99 * starts.sum(), "heat is conserved"

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6))
left.plot(place, starts.T, alpha=0.3)
left.set_prop_cycle(None)
left.plot(place, measured.T)
left.set(title="heat at the start (pale) and as measured", xlabel="position", ylabel="temperature")
right.plot(place, truth, "k", label="truth")
right.plot(place, np.asarray(found.x), "o", markersize=3, color="tab:orange", label="recovered")
right.set_ylim(0, 1.1)
right.set(title="what the measurements say", xlabel="position", ylabel="conductivity")
right.legend()
figure.tight_layout()
