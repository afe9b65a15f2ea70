"""Rotations beside JAX's and SciPy's in f64: every representation, derivatives to second order also of no rotation, and maps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.scipy.spatial.transform as theirs
import numpy as np
import pytest
from function_laws import check_derivatives, check_maps

import nabla_mlir as nm
from nabla_mlir.base.errors import ShapeError
from nabla_mlir.jax.scipy.spatial import transform as ours

pytestmark = pytest.mark.usefixtures("interpreted_in_f64")

rng = np.random.default_rng(0)
QUATS = np.concatenate([rng.normal(size=(6, 4)), np.eye(4), -np.eye(4)[3:]])
VECTOR = np.array([0.3, -1.2, 0.7])
REPRESENTATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "matrix": lambda s, q: s.Rotation.from_quat(q).as_matrix(),
    "rotvec": lambda s, q: s.Rotation.from_quat(q).as_rotvec(),
    "degrees": lambda s, q: s.Rotation.from_rotvec(s.Rotation.from_quat(q).as_rotvec(degrees=True), degrees=True).as_quat(),
    "mrp": lambda s, q: s.Rotation.from_mrp(s.Rotation.from_quat(q).as_mrp()).as_mrp(),
    "quat": lambda s, q: s.Rotation.from_quat(q).as_quat(canonical=True, scalar_first=True),
    "magnitude": lambda s, q: s.Rotation.from_quat(q).magnitude(),
    "of matrix": lambda s, q: s.Rotation.from_matrix(s.Rotation.from_quat(q).as_matrix()).as_quat(canonical=True),
    "product": lambda s, q: (s.Rotation.from_quat(q) * s.Rotation.from_quat(q[::-1]).inv()).as_quat(),
    "apply": lambda s, q: [s.Rotation.from_quat(q).apply(VECTOR), s.Rotation.from_quat(q).apply(VECTOR, inverse=True)],
    "mean": lambda s, q: s.Rotation.from_quat(q).mean().as_matrix(),
    "weighted": lambda s, q: s.Rotation.from_quat(q).mean(np.arange(1.0, 1 + len(q))).as_matrix(),
    "joined": lambda s, q: s.Rotation.concatenate([s.Rotation.from_quat(q), s.Rotation.from_quat(q[:2])]).as_quat(),
    "slerp": lambda s, q: s.Slerp.init(np.arange(len(q)) ** 1.2, s.Rotation.from_quat(q))(np.array([0.0, 0.7, 5.1])).as_quat(),
    "slerp at one": lambda s, q: s.Slerp.init(np.arange(float(len(q))), s.Rotation.from_quat(q))(2.25).as_quat(),
    **{
        f"euler {e}": (lambda s, q, e=e: s.Rotation.from_euler(e, s.Rotation.from_quat(q).as_euler(e)).as_matrix())
        for e in ("xyz", "ZXZ", "yxy", "ZYX")
    },
    **{
        f"angles {e}": (lambda s, q, e=e: s.Rotation.from_quat(q[:6]).as_euler(e, degrees=True))
        for e in ("zxy", "ZXZ", "yxy", "XZY")
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REPRESENTATIONS)
def test_values_are_those_of_jax(name: str) -> None:
    f = REPRESENTATIONS[name]
    for got, wanted in zip(jax.tree.leaves(f(ours, QUATS)), jax.tree.leaves(f(theirs, QUATS)), strict=True):
        np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-9, atol=2e-8)  # JAX forgets a quarter of its digits at angle 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["matrix", "rotvec", "mrp", "magnitude", "of matrix", "apply", "euler ZXZ", "angles zxy"])
def test_derivatives_and_maps(name: str) -> None:
    f = lambda q: REPRESENTATIONS[name](ours, q)  # noqa: E731
    check_derivatives(f, (QUATS[:3],))
    check_maps(f, (QUATS[:3],))


def test_no_rotation_has_derivatives() -> None:
    there_and_back = lambda v: ours.Rotation.from_rotvec(v).as_rotvec()  # noqa: E731
    np.testing.assert_allclose(nm.jacfwd(there_and_back)(np.zeros(3)), np.eye(3), atol=1e-15)
    check_derivatives(lambda v: ours.Rotation.from_rotvec(v).as_matrix(), (np.zeros(3),))


def test_degenerate_angles_give_the_same_rotation() -> None:
    for sequence in ("xyz", "XYZ", "zxz", "ZXZ"):
        middle = np.pi / 2 if len(set(sequence)) == 3 else 0.0
        r = ours.Rotation.from_euler(sequence, np.array([0.4, middle, 0.3]))
        again = ours.Rotation.from_euler(sequence, r.as_euler(sequence))
        np.testing.assert_allclose(again.as_matrix(), r.as_matrix(), atol=1e-7)


def test_rotations_are_pytrees() -> None:
    f = nm.jit(lambda r, v: (r * r).apply(v))
    r = ours.Rotation.from_euler("z", 30.0, degrees=True)
    assert len(ours.Rotation.from_quat(QUATS)) == len(QUATS)
    assert r.single
    assert ours.Rotation.identity().single
    np.testing.assert_allclose(f(r, np.array([2.0, 0.0, 1.0])), [1.0, np.sqrt(3), 1.0], rtol=1e-12)


def test_what_does_not_fit_is_refused() -> None:
    for call in (
        lambda: ours.Rotation.from_euler("xxz", np.zeros(3)),
        lambda: ours.Rotation.from_euler("xYz", np.zeros(3)),
        lambda: ours.Rotation.from_euler("xy", np.zeros(3)),
        lambda: ours.Rotation.identity().as_euler("xy"),
        lambda: ours.Slerp.init(np.zeros(2), ours.Rotation.identity()),
        lambda: ours.Rotation.from_quat(QUATS).mean(np.ones(2)),
    ):
        with pytest.raises(ShapeError, match="requires"):
            call()
    for call in (lambda: ours.Rotation.identity()[0], lambda: len(ours.Rotation.identity())):
        with pytest.raises(TypeError, match="several rotations, got one"):
            call()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["matrix", "rotvec", "mrp", "product", "mean", "slerp", "slerp at one", "euler xyz", "angles ZXZ"])
def test_rotations_compiled(name: str) -> None:
    """Values and derivatives of the code for a CPU, beside those of the interpreter and JAX's."""
    quats, f = QUATS[:6], REPRESENTATIONS[name]
    value = lambda q: f(ours, q)  # noqa: E731
    slope = lambda q: nm.grad(lambda q: (value(q) ** 2).sum() + (value(q) * 0.3).sum())(q)  # noqa: E731
    both = lambda q: (value(q), slope(q))  # noqa: E731
    results = nm.trace(both, quats, name="f").lower().compile("cpu")(quats)
    np.testing.assert_allclose(results[0], f(theirs, quats), atol=1e-12)
    np.testing.assert_allclose(results[1], slope(quats), atol=1e-11)
    if name != "slerp":  # it begins at angle 0, where JAX's derivative is NaN
        wanted = jax.grad(lambda q: (f(theirs, q) ** 2).sum() + (f(theirs, q) * 0.3).sum())(quats)
        np.testing.assert_allclose(results[1], wanted, atol=1e-10)
