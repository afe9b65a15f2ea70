"""Functions under the names of jax.scipy beside JAX and SciPy in f64: values, derivatives to second order, maps, traces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy
import numpy as np
import pytest
import scipy.fft
import scipy.signal

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.base import errors

rng = np.random.default_rng(0)
A = rng.normal(size=(5, 5)) + 5 * np.eye(5)
SPD = A @ A.T
B = rng.normal(size=5)
IMAGE = rng.normal(size=(4, 5))
PLACES = np.array([[0.5, 1.2, 2.9, -0.4, 3.7], [0.1, 3.3, 2.0, 1.5, 4.4]])
SIGNAL = rng.normal(size=(2, 32))
GRID = (np.arange(4.0), np.arange(5.0) ** 1.2)
POINTS = np.array([[0.5, 0.3], [2.7, 3.1], [9.0, 1.1]])


pytestmark = pytest.mark.usefixtures("interpreted_in_f64")


def flat(value: Any) -> list[np.ndarray]:
    return [np.asarray(x) for x in jax.tree.leaves(value)]


def same(got: Any, wanted: Any, tolerance: float = 1e-9) -> None:
    for a, b in zip(flat(got), flat(wanted), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def total(xp: Any, value: Any) -> Any:
    """A scalar of all the numbers of a value."""
    return sum(xp.sum(xp.sin(xp.real(x)) + xp.imag(x) ** 2) for x in jax.tree.leaves(value))


SMOOTH: dict[str, tuple[Callable[[Any, Any], Any], np.ndarray]] = {
    "map_coordinates": (
        lambda s, x: [
            s.ndimage.map_coordinates(x, PLACES, order=o, mode=m, cval=0.7)
            for o, m in (
                (0, "constant"),
                (0, "mirror"),
                (1, "constant"),
                (1, "nearest"),
                (1, "wrap"),
                (1, "mirror"),
                (1, "reflect"),
            )
        ],
        IMAGE,
    ),
    "places": (lambda s, x: s.ndimage.map_coordinates(IMAGE, [x, x + 0.3], order=1), np.array([0.3, 1.6, 2.2])),
    "dct": (lambda s, x: [s.fft.dct(x), s.fft.dct(x, norm="ortho", axis=0, n=3), s.fft.dct(x, n=6)], IMAGE),
    "dctn": (lambda s, x: [s.fft.dctn(x, norm="ortho"), s.fft.idctn(x), s.fft.idct(x, axis=0), s.fft.idct(x, norm="ortho")], IMAGE),
    "interpolator": (lambda s, x: s.interpolate.RegularGridInterpolator(GRID, x, fill_value=-1.0)(POINTS), IMAGE),
    "nearest": (lambda s, x: s.interpolate.RegularGridInterpolator(GRID, x, method="nearest")(POINTS[:2]), IMAGE),
    "interpolated places": (lambda s, x: s.interpolate.RegularGridInterpolator(GRID, IMAGE, fill_value=None)(x), POINTS),
    "stft": (lambda s, x: s.signal.stft(x, fs=8.0, nperseg=16, noverlap=12)[2], SIGNAL),
    "istft": (lambda s, x: s.signal.istft(s.signal.stft(x, nperseg=16)[2])[1], SIGNAL),
    "welch": (lambda s, x: s.signal.welch(x, nperseg=16, detrend="linear", scaling="spectrum")[1], SIGNAL),
    "csd": (lambda s, x: s.signal.csd(x[0], x[1], fs=4.0, nperseg=16, noverlap=4, nfft=20, average="median"), SIGNAL),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMOOTH)
def test_values_and_derivatives_are_those_of_jax(name: str) -> None:
    f, x = SMOOTH[name]
    v, stack = rng.normal(size=x.shape), np.stack([x, 0.5 * x])

    @jax.jit  # one program of XLA: it compiles operations one by one otherwise
    def wanted(x: Any, v: Any, stack: Any) -> Any:
        slope = jax.grad(lambda y: total(jnp, f(jax.scipy, y)))
        return f(jax.scipy, x), jax.jvp(slope, (x,), (v,)), jax.vmap(lambda y: f(jax.scipy, y))(stack)

    value, (gradient, product), rows = wanted(x, v, stack)
    ours = lambda y: total(nnp, f(nm.jax.scipy, y))  # noqa: E731
    same(f(nm.jax.scipy, x), value)
    same(nm.grad(ours)(x), gradient)
    same(nm.hvp(ours)(x, v), product)
    same(nm.vmap(lambda y: f(nm.jax.scipy, y))(stack), rows)


def test_transforms_are_those_of_scipy() -> None:
    for norm in (None, "ortho"):
        same(nm.jax.scipy.fft.dct(SIGNAL, norm=norm), scipy.fft.dct(SIGNAL, norm=norm))
        same(nm.jax.scipy.fft.idctn(IMAGE, norm=norm), scipy.fft.idctn(IMAGE, norm=norm))
    for boundary in ("zeros", "even", "odd", "constant", None):
        same(
            nm.jax.scipy.signal.stft(SIGNAL, nperseg=16, boundary=boundary),
            scipy.signal.stft(SIGNAL, nperseg=16, boundary=boundary),
        )
    z = SIGNAL + 1j * SIGNAL[::-1]
    same(nm.jax.scipy.signal.welch(z, nperseg=16, axis=1), scipy.signal.welch(z, nperseg=16, axis=1, return_onesided=False))
    same(
        nm.jax.scipy.signal.welch(SIGNAL, window=np.kaiser(16, 3), nperseg=16), scipy.signal.welch(SIGNAL, window=np.kaiser(16, 3))
    )


SOLVERS = ("cg", "bicgstab", "gmres")


@pytest.mark.slow
@pytest.mark.parametrize("name", SOLVERS)
def test_solvers_of_linear_equations(name: str) -> None:
    matrix = SPD if name == "cg" else A
    solver = getattr(nm.jax.scipy.sparse.linalg, name)
    run = lambda m, b: solver(m, b, tol=1e-12)[0]  # noqa: E731
    same(run(matrix, B), np.linalg.solve(matrix, B), 1e-8)
    same(
        solver(lambda v: matrix @ v, B, x0=np.ones(5), tol=1e-12, M=lambda v: v / np.diag(matrix))[0],
        np.linalg.solve(matrix, B),
        1e-8,
    )
    ours = lambda d, b: nnp.sum(nnp.sin(run(lambda v: matrix @ v + d * v, b)))  # noqa: E731
    theirs = lambda d, b: jnp.sum(jnp.sin(jnp.linalg.solve(matrix + jnp.diag(d), b)))  # noqa: E731
    d = np.linspace(0, 1, 5)
    same(nm.grad(ours, (0, 1))(d, B), jax.jit(jax.grad(theirs, (0, 1)))(d, B), 1e-8)
    same(nm.hessian(ours)(d, B), jax.jit(jax.hessian(theirs))(d, B), 1e-7)
    same(nm.vmap(run, (None, 0))(matrix, np.stack([B, 2 * B])), np.linalg.solve(matrix, np.stack([B, 2 * B]).T).T, 1e-8)
    tree = solver(lambda t: {"a": 2 * t["a"], "b": matrix @ t["b"]}, {"a": np.ones(2), "b": B}, tol=1e-12)[0]
    same(tree, {"a": np.full(2, 0.5), "b": np.linalg.solve(matrix, B)}, 1e-8)
    z = matrix + 0.3j * (np.triu(np.ones((5, 5)), 1) - np.tril(np.ones((5, 5)), -1))
    same(run(z, B + 1j), np.linalg.solve(z, B + 1j), 1e-8)


def test_restarts_and_exact_spaces_of_gmres() -> None:
    same(nm.jax.scipy.sparse.linalg.gmres(A, B, tol=1e-12, restart=2)[0], np.linalg.solve(A, B), 1e-8)
    x, code = nm.jax.scipy.sparse.linalg.gmres(np.eye(5), B, tol=1e-12)
    same(x, B)
    assert int(code) == 0


def rosenbrock(x: Any) -> Any:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def test_bfgs() -> None:
    minimize = nm.jax.scipy.optimize.minimize
    found = minimize(rosenbrock, np.array([-1.2, 1.0, 0.5]), method="BFGS", tol=1e-8)
    np.testing.assert_allclose(found.x, 1, rtol=1e-6)
    assert bool(found.success)
    assert int(found.status) == 0
    np.testing.assert_allclose(found.hess_inv @ nm.hessian(rosenbrock)(found.x), np.eye(3), atol=0.2)
    many = nm.jit(nm.vmap(lambda x, a: minimize(lambda x, a: ((x - a) ** 4).sum() + (x**2).sum(), x, (a,), method="bfgs").x))
    starts, targets = rng.normal(size=(3, 2)), rng.normal(size=(3, 2))
    for x, a in zip(many(starts, targets), targets, strict=True):
        np.testing.assert_allclose(4 * (x - a) ** 3 + 2 * x, 0, atol=1e-4)
    assert int(minimize(rosenbrock, np.zeros(3), method="BFGS", options={"maxiter": 2}).status) == 1


ERRORS: dict[str, tuple[Callable[[], Any], str]] = {
    "minimize by name": (
        lambda: nm.jax.scipy.optimize.minimize(rosenbrock, B, method="CG"),
        r"minimize requires the method BFGS, got 'CG'",
    ),
    "options": (lambda: nm.jax.scipy.optimize.minimize(rosenbrock, B, method="BFGS", options={"x": 1}), r"options among .*got x"),
    "no vector": (
        lambda: nm.jax.scipy.optimize.minimize(rosenbrock, A, method="BFGS"),
        r"requires a vector x0, got shape \(5, 5\)",
    ),
    "gmres": (lambda: nm.jax.scipy.sparse.linalg.gmres(A, B, solve_method="x"), r"gmres requires solve_method .*got 'x'"),
    "order": (
        lambda: nm.jax.scipy.ndimage.map_coordinates(IMAGE, PLACES, order=3),
        r"map_coordinates requires order 0 or 1 .*got 3",
    ),
    "axes": (lambda: nm.jax.scipy.ndimage.map_coordinates(IMAGE, PLACES[:1], order=1), r"coordinates for each of 2 axes, got 1"),
    "type": (lambda: nm.jax.scipy.fft.dct(B, type=3), r"dct requires type 2 .*got 3"),
    "lengths": (lambda: nm.jax.scipy.fft.dctn(IMAGE, s=(1,), axes=(0, 1)), r"dctn requires a length for each axis"),
    "method": (
        lambda: nm.jax.scipy.interpolate.RegularGridInterpolator(GRID, IMAGE, "cubic"),
        r"the method linear or nearest, got 'cubic'",
    ),
    "bounds": (
        lambda: nm.jax.scipy.interpolate.RegularGridInterpolator(GRID, IMAGE, bounds_error=True),
        r"bounds_error=False, got True",
    ),
    "points": (lambda: nm.jax.scipy.interpolate.RegularGridInterpolator(GRID[::-1], IMAGE), r"as long as the axes of the values"),
    "coordinates": (
        lambda: nm.jax.scipy.interpolate.RegularGridInterpolator(GRID, IMAGE)(np.ones((2, 3))),
        r"requires 2 coordinates, got",
    ),
    "window": (lambda: nm.jax.scipy.signal.welch(SIGNAL, window="x"), r"csd requires a window among .*got 'x'"),
    "weights": (lambda: nm.jax.scipy.signal.stft(SIGNAL, window=B, nperseg=4), r"as many weights as nperseg=4, got shape \(5,\)"),
    "overlap": (
        lambda: nm.jax.scipy.signal.stft(SIGNAL, nperseg=4, noverlap=4),
        r"0 <= noverlap < nperseg <= nfft, got 4, 4 and 4",
    ),
    "boundary": (lambda: nm.jax.scipy.signal.stft(SIGNAL, boundary="x"), r"stft requires a boundary among .*got 'x'"),
    "scaling": (lambda: nm.jax.scipy.signal.csd(B, B, scaling="x"), r"csd requires scaling density or spectrum .*got 'x'"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    call, message = ERRORS[name]
    with pytest.raises(errors.NablaError, match=message):
        call()


def test_repeats_and_patches_are_those_of_jax() -> None:
    counts = np.array([2, 0, 1])
    for length in (2, 3, 5):
        for axis in (0, 1):
            ours = nm.jit(lambda x, c: nnp.repeat(x, c, axis, total_repeat_length=length))(SPD[:3, :3], counts)  # noqa: B023
            same(ours, jnp.repeat(SPD[:3, :3], counts, axis, total_repeat_length=length))
    same(nnp.repeat(SPD[:0], 3, 0, total_repeat_length=4), jnp.repeat(SPD[:0], 3, 0, total_repeat_length=4))
    image = rng.normal(size=(2, 5, 6, 3))
    for window, padding, words in (((2, 3), "SAME", ("NHWC", "HWIO", "NHWC")), ((2, 2), "VALID", ("NHWC", "OIHW", "NCHW"))):
        patches = lambda lib, w=window, p=padding, d=words: lib.conv_general_dilated_patches(  # noqa: E731
            image, w, (1, 2), p, dimension_numbers=d
        )
        same(patches(nm.jax.lax), patches(jax.lax))


def test_numbers_that_are_not_mapped_stay_numbers() -> None:
    rows = nm.vmap(lambda x, n: x.reshape(n, -1).sum(0), (0, None))(np.arange(12.0).reshape(2, 6), 2)
    same(rows, np.arange(12.0).reshape(2, 2, 3).sum(1))
