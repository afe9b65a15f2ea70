"""Images in other sizes beside JAX in f64: values, derivatives, maps, dtypes, errors."""

from __future__ import annotations

from typing import Any

import jax
import jax.image
import jax.numpy as jnp
import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import ShapeError

RNG = np.random.default_rng(0)
IMAGE = RNG.normal(size=(2, 5, 7, 1))
METHODS = ("nearest", "bilinear", "bicubic", "lanczos3", "lanczos5")


pytestmark = pytest.mark.usefixtures("interpreted_in_f64")


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_sizes(method: str) -> None:
    for shape in ((2, 10, 14, 1), (2, 3, 4, 1), (2, 5, 9, 1), (2, 1, 20, 1), (2, 5, 7, 1), (2, 0, 7, 1)):
        for antialias in (True, False):
            got, wanted = (lib.image.resize(IMAGE, shape, method, antialias) for lib in (nm.jax, jax))
            assert got.shape == wanted.shape
            assert got.dtype == wanted.dtype
            np.testing.assert_allclose(got, wanted, rtol=1e-11, atol=1e-12)
    for dtype in (np.float32, np.int32, np.uint8):
        image = (100 * IMAGE + 300).astype(dtype)
        got, wanted = (lib.image.resize(image, (2, 4, 9, 1), method) for lib in (nm.jax, jax))
        assert (got.dtype == wanted.dtype) or dtype != np.float32, "integers become floats of the default dtype, or stay"
        np.testing.assert_allclose(got, wanted, rtol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS[1:])
def test_scales_and_translations(method: str) -> None:
    scale, shift = (
        np.array([1.7, 0.6]),
        np.array([-0.8, 1.25]),
    )  # at a sample the second derivatives of JAX are others, since it takes absolute values

    def value(lib: Any, image: Any, scale: Any, shift: Any) -> Any:
        return lib.image.scale_and_translate(image, (2, 6, 8, 1), (1, 2), scale, shift, method)

    @jax.jit
    def wanted(*args: Any) -> Any:
        loss = lambda *a: jnp.sum(jnp.sin(value(jax, *a)))  # noqa: E731
        gradient = jax.grad(loss, (0, 1, 2))
        return value(jax, *args), gradient(*args), jax.jvp(gradient, args, args)[1]

    values, gradient, product = wanted(IMAGE, scale, shift)
    loss = lambda *a: nnp.sum(nnp.sin(value(nm.jax, *a)))  # noqa: E731
    np.testing.assert_allclose(value(nm.jax, IMAGE, scale, shift), values, rtol=1e-10, atol=1e-12)
    for ours, theirs in zip(nm.grad(loss, (0, 1, 2))(IMAGE, scale, shift), gradient, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10)
    ours_twice = nm.jvp(nm.grad(loss, (0, 1, 2)), (IMAGE, scale, shift), (IMAGE, scale, shift))[1]
    for ours, theirs in zip(ours_twice, product, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9)
    rows = nm.vmap(lambda s: value(nm.jax, IMAGE, scale * s, shift))(np.array([1.0, 0.8]))
    np.testing.assert_allclose(rows[1], value(nm.jax, IMAGE, 0.8 * scale, shift), rtol=1e-12, atol=1e-14)


def test_a_derivative_is_the_transpose() -> None:
    f = lambda x: nm.jax.image.resize(x, (2, 3, 9, 1), nm.jax.image.ResizeMethod.CUBIC)  # noqa: E731
    y, pull = nm.vjp(f, IMAGE)
    (back,) = pull(2 * y)
    np.testing.assert_allclose(np.sum(np.asarray(back) * IMAGE), 2 * np.sum(np.asarray(y) ** 2), rtol=1e-12)


def test_the_second_derivative_at_a_sample() -> None:
    """Where the kernel is smooth it is the difference of the slopes around; JAX gives 0 for the part of the sample itself."""
    moved = lambda t: nm.jax.image.scale_and_translate(IMAGE[0, 0], (7, 1), (0,), np.ones(1), t, "lanczos5")[3, 0]  # noqa: E731
    slope, step = nm.grad(moved), np.array([1e-4])
    difference = (np.asarray(slope(step)) - np.asarray(slope(-step))) / 2e-4
    np.testing.assert_allclose(nm.hessian(moved)(np.zeros(1))[0], difference, rtol=1e-5)


def test_errors() -> None:
    with pytest.raises(ShapeError, match=r"resize requires a method among nearest, .*got 'area'"):
        nm.jax.image.resize(IMAGE, IMAGE.shape, "area")
    with pytest.raises(ShapeError, match=r"resize requires a length for each of 4 axes, got \(3,\)"):
        nm.jax.image.resize(IMAGE, (3,), "linear")
    one = np.ones(1)
    with pytest.raises(ShapeError, match="requires a method with weights, got 'nearest'"):
        nm.jax.image.scale_and_translate(IMAGE, IMAGE.shape, (1,), one, one, "nearest")
    with pytest.raises(ShapeError, match="axes which are not spatial keep their length"):
        nm.jax.image.scale_and_translate(IMAGE, (2, 6, 8, 1), (1,), one, one, "linear")
    with pytest.raises(ShapeError, match="for each of 2 axes, got shapes"):
        nm.jax.image.scale_and_translate(IMAGE, (2, 6, 8, 1), (1, 2), one, one, "linear")
