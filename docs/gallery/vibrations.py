"""The vibrations of a molecule from its energy

Write the energy of water as a function of positions: its frequencies are eigenvalues of the mass-weighted Hessian. Six of nine are
zero, because moving and rotating the molecule costs nothing. The derivative satisfies this up to rounding.
"""

import matplotlib.pyplot as plt
import numpy as np

import nabla_mlir as nm
import nabla_mlir.numpy as nnp

BOND, ANGLE = 0.9575, np.deg2rad(104.51)  # ångström
STRETCH, BEND, CROSS = 1219.6, 101.1, -15.0  # kcal/mol/Å², kcal/mol/rad², kcal/mol/Å²
masses = np.repeat([15.999, 1.008, 1.008], 3)


def energy(positions):
    oxygen, first, second = positions.reshape(3, 3)
    a, b = first - oxygen, second - oxygen
    ra, rb = nnp.sqrt(nnp.sum(a * a)), nnp.sqrt(nnp.sum(b * b))
    angle = nnp.arccos(nnp.sum(a * b) / (ra * rb))
    stretch = 0.5 * STRETCH * ((ra - BOND) ** 2 + (rb - BOND) ** 2)
    return stretch + CROSS * (ra - BOND) * (rb - BOND) + 0.5 * BEND * (angle - ANGLE) ** 2


half = ANGLE / 2
water = BOND * np.array([[0, 0, 0], [np.sin(half), np.cos(half), 0], [-np.sin(half), np.cos(half), 0]]).reshape(-1)
water = np.asarray(nm.minimize(energy, water + 0.02 * np.random.default_rng(4).normal(size=9), method="trust-exact").x)
hessian = np.asarray(nm.jit(nm.hessian(energy))(water))
weighted = hessian / np.sqrt(np.outer(masses, masses))
values, modes = np.linalg.eigh(weighted)
frequencies = np.sqrt(np.maximum(values, 0)) * 108.59  # to 1/cm

print("frequencies in 1/cm:", " ".join(f"{f:.1f}" for f in frequencies))
print("harmonic ones of water from experiments: 1648.5 3832.2 3942.5")
assert np.abs(values[:6]).max() < 1e-6 * values[-1], "moving and turning is free"
assert np.allclose(frequencies[6:], [1648.5, 3832.2, 3942.5], rtol=0.012)

figure, panels = plt.subplots(1, 3, figsize=(9, 3.2))
atoms = water.reshape(3, 3)
plane = np.linalg.svd(atoms - atoms.mean(0))[2][:2]  # the molecule lies in it
for axes, mode, frequency in zip(panels, modes.T[6:], frequencies[6:], strict=True):
    motion = (mode / np.sqrt(masses)).reshape(3, 3) @ plane.T
    flat = (atoms - atoms.mean(0)) @ plane.T
    axes.plot(*flat[[1, 0, 2]].T, color="grey", linewidth=3, zorder=0)
    axes.scatter(*flat.T, s=[420, 180, 180], c=["tab:red", "lightgrey", "lightgrey"], edgecolors="k")
    axes.quiver(*flat.T, *motion.T, color="tab:blue", angles="xy", scale_units="xy", scale=1.6, width=0.012)
    axes.spines[:].set_visible(False)
    axes.set(title=f"{frequency:.0f} cm⁻¹", xlim=(-1.5, 1.5), ylim=(-1.2, 1.2), aspect="equal", xticks=[], yticks=[])
figure.suptitle("Normal modes of water")
figure.tight_layout()
