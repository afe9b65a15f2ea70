"""Bundle adjustment

Twelve cameras around a knot see its 200 points, with an error of half a pixel. Least squares finds the positions of the cameras and
of the points from a bad guess. One entry of the Jacobian in ninety is not zero: the pattern is found on the IR, and a few products
compute all entries.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import least_squares

import nabla_mlir as nm
import nabla_mlir.numpy as nnp

rng = np.random.default_rng(6)
t = np.linspace(0, 2 * np.pi, 200, endpoint=False)
knot = np.stack([np.sin(t) + 2 * np.sin(2 * t), np.cos(t) - 2 * np.cos(2 * t), -np.sin(3 * t)], axis=1)
angles = np.linspace(0, 2 * np.pi, 12, endpoint=False)
truth = np.stack([0.3 * np.sin(angles), angles / 3, 0.1 * np.cos(angles), 0 * angles, 0 * angles, 12 + 0 * angles], axis=1)
camera, point = (index.reshape(-1) for index in np.meshgrid(np.arange(12), np.arange(200), indexing="ij"))


def projected(cameras, points):
    """Where cameras (a rotation as axis times angle, a translation) see points, in pixels: Rodrigues' formula, and perspective."""
    axis = cameras[:, :3]
    angle = nnp.sqrt(nnp.sum(axis * axis, axis=1, keepdims=True) + 1e-12)
    unit = axis / angle
    along = nnp.sum(unit * points, axis=1, keepdims=True)
    turned = points * nnp.cos(angle) + nnp.cross(unit, points) * nnp.sin(angle) + unit * along * (1 - nnp.cos(angle))
    moved = turned + cameras[:, 3:]
    return 800 * moved[:, :2] / moved[:, 2:]


seen = np.asarray(projected(truth[camera], knot[point])) + 0.5 * rng.normal(size=(camera.size, 2))


def residuals(x):
    """The first two cameras are known: they say where the world is, and how large."""
    cameras = nnp.concatenate([truth[:2], x[:60].reshape(10, 6)])
    return (projected(cameras[camera], x[60:].reshape(200, 3)[point]) - seen).reshape(-1)


guesses = truth[2:] + 0.1 * rng.normal(size=(10, 6)), knot + 0.7 * rng.normal(size=knot.shape)
start = np.concatenate([guess.reshape(-1) for guess in guesses])
jacobian, fun = nm.jit(nm.sparse.jacobian(residuals)), nm.jit(residuals)
matrix = jacobian(start).to_scipy()
found = least_squares(lambda x: np.asarray(fun(x)), start, jac=lambda x: jacobian(x).to_scipy(), x_scale="jac", tr_solver="lsmr")
points = found.x[60:].reshape(200, 3)
pixels = [np.sqrt(np.mean(np.asarray(fun(x)) ** 2)) for x in (start, found.x)]
distance = np.sqrt(np.mean(np.sum((points - knot) ** 2, axis=1)))
print(f"{matrix.shape[0]} residuals, {matrix.shape[1]} unknowns, {matrix.nnz / np.prod(matrix.shape):.1%} of the Jacobian")
print(f"error of a picture {pixels[0]:.1f} -> {pixels[1]:.3f} pixels in {found.nfev} steps; points are {distance:.4f} off")
assert 0.4 < pixels[1] < 0.5, "the noise, less what the unknowns take of it"
assert distance < 0.02

figure = plt.figure(figsize=(8, 4))
for place, cloud, title in ((1, start[60:].reshape(200, 3), "where it starts"), (2, points, "what the pictures say")):
    axes = figure.add_subplot(1, 2, place, projection="3d")
    axes.plot(*np.vstack([knot, knot[:1]]).T, color="lightgray")
    axes.scatter(*cloud.T, s=6, c=t, cmap="twilight")
    axes.set_title(f"{title}: {pixels[place - 1]:.1f} pixels")
    axes.set_axis_off()
