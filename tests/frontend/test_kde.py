"""Densities estimated from samples beside JAX's in f64: values, derivatives, maps, draws, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.stats
import numpy as np
import pytest

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.base.errors import DtypeError, NablaError, ShapeError

rng = np.random.default_rng(0)
LINE, PLANE = rng.normal(size=12), rng.normal(size=(2, 9))
WEIGHTS = rng.uniform(0.5, 2.0, 9)
POINTS = rng.normal(size=(2, 4))
OURS, THEIRS = nm.jax.scipy.stats.gaussian_kde, jax.scipy.stats.gaussian_kde


pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("interpreted_in_f64")]


def same(got: Any, wanted: Any) -> None:
    np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("method", [None, "scott", "silverman", 0.3, lambda kde: kde.neff**-0.5])
def test_densities_are_those_of_jax(method: Any) -> None:
    for data, weights, points in ((LINE, None, LINE[:3] + 0.1), (PLANE, WEIGHTS, POINTS), (PLANE, None, POINTS[:, 0])):
        ours, theirs = (make(data, method, weights) for make in (OURS, THEIRS))
        for name in ("neff", "covariance", "inv_cov", "weights", "d", "n"):
            same(getattr(ours, name), getattr(theirs, name))
        for name in ("evaluate", "pdf", "logpdf"):
            same(getattr(ours, name)(points), getattr(theirs, name)(points))


def test_integrals() -> None:
    ours, theirs = OURS(LINE), THEIRS(LINE)
    same(ours.integrate_box_1d(-0.5, 1.2), theirs.integrate_box_1d(-0.5, 1.2))
    ours, theirs = OURS(PLANE, weights=WEIGHTS), THEIRS(PLANE, weights=WEIGHTS)
    cov = np.array([[2.0, 0.3], [0.3, 1.0]])
    same(ours.integrate_gaussian(POINTS[:, 0], cov), theirs.integrate_gaussian(POINTS[:, 0], cov))
    same(ours.integrate_kde(OURS(POINTS)), theirs.integrate_kde(THEIRS(POINTS)))


@pytest.mark.slow
def test_derivatives() -> None:
    f = lambda xp, make: lambda data, weights, points: xp.sum(xp.sin(make(data, weights=weights)(points)))  # noqa: E731
    ours, theirs, args = f(nnp, OURS), f(jnp, THEIRS), (PLANE, WEIGHTS, POINTS)
    for a, b in zip(nm.grad(ours, (0, 1, 2))(*args), jax.grad(theirs, (0, 1, 2))(*args), strict=True):
        same(a, b)
    same(
        nm.hvp(ours)(PLANE, PLANE[::-1], *args[1:]), jax.jvp(jax.grad(lambda x: theirs(x, *args[1:])), (PLANE,), (PLANE[::-1],))[1]
    )


def test_maps_and_trees() -> None:
    kde = OURS(LINE)
    same(nm.vmap(lambda x: kde(x)[0])(LINE), kde(LINE))
    same(nm.jit(lambda kde, x: kde(x))(kde, LINE), kde(LINE))


def test_draws_are_those_of_jax() -> None:
    ours, theirs = OURS(PLANE, weights=WEIGHTS), THEIRS(PLANE, weights=WEIGHTS)
    same(ours.resample(nm.random.key(3), (5,)), theirs.resample(jax.random.key(3), (5,)))


REFUSALS: dict[str, tuple[Callable[[], Any], type[NablaError], str]] = {
    "one sample": (lambda: OURS([1.0]), ShapeError, "gaussian_kde requires several samples"),
    "weights": (lambda: OURS(LINE, weights=WEIGHTS), ShapeError, r"a weight for each, got shapes \(1, 12\) and \(9,\)"),
    "complex": (lambda: OURS(LINE * 1j), DtypeError, "gaussian_kde requires real numbers"),
    "bandwidth": (lambda: OURS(LINE, "wide"), DtypeError, "bw_method scott, silverman, a number or a function, got 'wide'"),
    "points": (lambda: OURS(PLANE)(np.ones((3, 2))), ShapeError, r"points of 2 coordinates, got shape \(3, 2\)"),
    "normal": (lambda: OURS(PLANE).integrate_gaussian([1.0], [[1.0]]), ShapeError, "integrate_gaussian requires shapes"),
    "box": (lambda: OURS(PLANE).integrate_box_1d(0.0, 1.0), ShapeError, "integrate_box_1d requires samples of one coordinate"),
    "other": (lambda: OURS(PLANE).integrate_kde(OURS(LINE)), ShapeError, "integrate_kde requires samples of one length"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_is_refused(name: str) -> None:
    call, error, message = REFUSALS[name]
    with pytest.raises(error, match=message):
        call()
