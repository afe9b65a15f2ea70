"""Linear recurrences and running products: values, derivatives of both modes and orders, and maps, against JAX in f64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.staging.eager import staged
from nabla_mlir.table.promotion import as_tensor
from nabla_mlir.transforms.recurrences import linear_recurrence

pytestmark = pytest.mark.slow

rng = np.random.default_rng(3)
SHAPES = [((0,), 0), ((1,), 0), ((2,), 0), ((9,), 0), ((2, 0), 0), ((0, 3), 1), ((2, 5, 3), 1)]


def draw(shape: tuple[int, ...], dtype: str = "f8") -> np.ndarray:
    x = rng.normal(size=shape)
    return x if dtype == "f8" else x + 1j * rng.normal(size=shape)


def ours(axis: int, step: int) -> Callable[..., Any]:
    return staged(lambda a, b: linear_recurrence(as_tensor(a), as_tensor(b), axis, step))


def theirs(axis: int, step: int) -> Callable[..., Any]:
    """One row after the other."""

    def f(a: Any, b: Any) -> Any:
        rows = jnp.moveaxis(a, axis, 0), jnp.moveaxis(b, axis, 0)
        body = lambda h, ab: (ab[0] * h + ab[1],) * 2  # noqa: E731
        found = jax.lax.scan(body, jnp.zeros_like(rows[1][0] if len(rows[1]) else rows[1].sum(0)), rows, reverse=step < 0)[1]
        return jnp.moveaxis(found, 0, axis)

    return f


def pair_scan(fw: Any, axis: int, step: int) -> Callable[..., Any]:
    """The recurrence as a scan of functions h -> a h + b."""
    composed = lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1])  # noqa: E731
    return lambda a, b: fw.associative_scan(composed, (a, b), reverse=step < 0, axis=axis)[1]


@pytest.fixture(autouse=True)
def wide() -> Any:
    with jax.enable_x64(True):
        yield


def agree(f: Callable[..., Any], g: Callable[..., Any], args: tuple[Any, ...], where: str) -> None:
    """Two functions of arrays, their derivatives, and the derivatives of these."""
    vectors = tuple(draw(x.shape) for x in args)
    y = np.asarray(g(*args))
    weights = draw(y.shape)
    smooth = lambda xp, f: lambda xs: (xp.sin(f(*xs)) * weights).sum()  # noqa: E731
    fn, fj = smooth(nnp, f), smooth(jnp, g)
    slope_n, slope_j = (
        lambda xs: sum((d * v).sum() for d, v in zip(nm.grad(fn)(xs), vectors, strict=True)),
        lambda xs: sum((d * v).sum() for d, v in zip(jax.grad(fj)(xs), vectors, strict=True)),
    )
    found = {
        "value": f(*args),
        "jvp": nm.jvp(f, args, vectors)[1],
        "gradient": nm.grad(fn)(args),
        "hvp": nm.jvp(nm.grad(fn), (args,), (vectors,))[1],
        "reverse twice": nm.grad(slope_n)(args),
    }
    wanted = {
        "value": y,
        "jvp": jax.jvp(g, args, vectors)[1],
        "gradient": jax.jit(jax.grad(fj))(args),
        "hvp": jax.jit(lambda xs: jax.jvp(jax.grad(fj), (xs,), (vectors,))[1])(args),
        "reverse twice": jax.jit(jax.grad(slope_j))(args),
    }
    for name in wanted:
        for x, z in zip(jax.tree.leaves(found[name]), jax.tree.leaves(wanted[name]), strict=True):
            np.testing.assert_allclose(np.asarray(x), z, rtol=1e-9, atol=1e-9, err_msg=f"{where}: {name}")


@pytest.mark.parametrize("step", [1, -1])
def test_recurrences_and_their_derivatives(step: int) -> None:
    for shape, axis in SHAPES:
        agree(ours(axis, step), theirs(axis, step), (draw(shape), draw(shape)), f"{shape}")


def test_running_products_and_their_derivatives() -> None:
    for shape, axis, reverse in (((0,), 0, False), ((1,), 0, True), ((9,), 0, False), ((3, 6), 1, True), ((2, 0), 0, False)):
        x = draw(shape)
        x.flat[: x.size // 3] = 0.0  # nothing may be divided by it
        f, g = (lambda x, fw=fw, axis=axis, reverse=reverse: fw.cumprod(x, axis, reverse=reverse) for fw in (nnp, jax.lax))
        agree(f, g, (x,), f"{shape}")


@pytest.mark.parametrize("step", [1, -1])
def test_maps(step: int) -> None:
    """Derivatives with respect to each operand and to both, of maps, and maps of derivatives."""
    a, b, rows = draw((4, 3)), draw((4, 3)), draw((5, 4, 3))
    f, g = ours(0, step), theirs(0, step)
    for in_axes, args in (((0, None), (rows, b)), ((None, 0), (a, rows)), ((2, 0), (np.moveaxis(rows, 0, 2), rows))):
        np.testing.assert_allclose(nm.vmap(f, in_axes)(*args), jax.vmap(g, in_axes)(*args), rtol=1e-12, atol=1e-12)
        of = lambda xp, f: lambda a, b: (xp.sin(f(a, b))).sum()  # noqa: E731
        found = nm.vmap(nm.grad(of(nnp, f), (0, 1)), in_axes)(*args)
        wanted = jax.vmap(jax.grad(of(jnp, g), (0, 1)), in_axes)(*args)
        for x, y in zip(found, wanted, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-10)


def test_complex_numbers() -> None:
    a, b = draw((7,), "c16"), draw((7,), "c16")
    da, db = draw((7,), "c16"), draw((7,), "c16")
    f, g = ours(0, 1), theirs(0, 1)
    for found, wanted in zip(nm.jvp(f, (a, b), (da, db)), jax.jvp(g, (a, b), (da, db)), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10)
    found, pull = nm.vjp(f, a, b)
    wanted, pull_jax = jax.vjp(g, a, b)
    np.testing.assert_allclose(found, wanted, rtol=1e-10)
    for x, y in zip(pull(da), pull_jax(jnp.asarray(da)), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10)


@pytest.mark.parametrize("step", [1, -1])
def test_scans_of_affine_functions_are_recurrences(step: int) -> None:
    shape, axis = (3, 6), 1
    args = draw(shape), draw(shape)
    agree(pair_scan(nm, axis, step), pair_scan(jax.lax, axis, step), args, "pairs")
    for f in (pair_scan(nm, axis, step), lambda a, b: nm.associative_scan(_summand_first, (b, a), axis=axis)[0]):
        assert "ad.linear_solve" in str(nm.trace(f, *args))
    swapped, both = nm.associative_scan(_summand_first, (args[1], args[0]), axis=axis), pair_scan(jax.lax, axis, 1)(*args)
    np.testing.assert_allclose(swapped[0], both, rtol=1e-12)
    np.testing.assert_allclose(swapped[1], np.cumprod(args[0], axis), rtol=1e-12)


def _summand_first(p: Any, q: Any) -> Any:
    return q[0] + p[0] * q[1], q[1] * p[1]


def test_scans_of_other_pairs_are_as_they_were() -> None:
    """The factor of the wrong one, another order, a difference, whole numbers."""
    others: dict[str, tuple[Callable[..., Any], str]] = {
        "first's factor": (lambda p, q: (p[0] * q[0], p[0] * q[1] + p[1]), "f8"),
        "squared": (lambda p, q: (p[0] * p[0], q[0] * p[1] + q[1]), "f8"),
        "difference": (lambda p, q: (p[0] * q[0], q[0] * p[1] - q[1]), "f8"),
        "sums": (lambda p, q: (p[0] + q[0], p[1] + q[1]), "f8"),
        "whole": (lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), "i4"),
    }
    for name, (fn, dtype) in others.items():
        args = tuple((3 * draw((4,))).astype(dtype) for _ in range(2))
        f = lambda a, b, fn=fn: nm.associative_scan(fn, (a, b))  # noqa: E731
        assert "ad.linear_solve" not in str(nm.trace(f, *args)), name
