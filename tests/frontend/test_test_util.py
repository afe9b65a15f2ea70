"""`nm.jax.test_util`: right derivatives pass, wrong ones do not; and small names of JAX's programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp


@pytest.fixture(autouse=True)
def _interpreted() -> Any:
    before = nm.set_execution("interpret")
    yield
    nm.set_execution(before)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_right_derivatives(dtype: str) -> None:
    x = np.linspace(0.5, 1.5, 3).astype(dtype)
    nm.jax.test_util.check_grads(lambda tree, y: (nnp.sin(tree["a"]) * y, y**3), ({"a": x}, x), order=2)
    nm.jax.test_util.check_grads(lambda x: x**3, (2.0,), order=3)


@pytest.mark.parametrize("mode", ["fwd", "rev"])
def test_wrong_derivatives(mode: str) -> None:
    @nm.custom_jvp
    def square(x: Any) -> Any:
        return x**2

    square.defjvp(lambda primals, tangents: (square(*primals), 3 * primals[0] * tangents[0]))
    with pytest.raises(AssertionError, match="tangent" if mode == "fwd" else "cotangent projection"):
        nm.jax.test_util.check_grads(square, (2.0,), order=1, modes=[mode])
    with pytest.raises(nm.errors.ShapeError, match="check_grads requires modes"):
        nm.jax.test_util.check_grads(square, (2.0,), order=1, modes=["forward"])


def test_wrong_second_derivatives() -> None:
    @nm.custom_jvp
    def slope(x: Any) -> Any:
        return 2 * x

    slope.defjvp(lambda primals, tangents: (slope(*primals), 3 * tangents[0]))

    @nm.custom_jvp
    def square(x: Any) -> Any:
        return x**2

    square.defjvp(lambda primals, tangents: (square(*primals), slope(primals[0]) * tangents[0]))
    nm.jax.test_util.check_grads(square, (2.0,), order=1)
    with pytest.raises(AssertionError):
        nm.jax.test_util.check_grads(square, (2.0,), order=2)


def test_small_names() -> None:
    assert str(nm.typeof(nm.random.key(0))) == "key<fry>[]"
    assert nm.ShapeDtypeStruct.like(np.ones(2)) == nm.ShapeDtypeStruct((2,), "float64")
    assert isinstance(nm.eval_shape(nnp.sin, np.ones(2)), nm.ShapeDtypeStruct)
    assert nnp.ones(2).devices() == {nnp.ones(2).device}
    assert "stablehlo.sine" in str(nm.jit(nnp.sin).trace(1.0).jaxpr)
    assert nm.jax.ad_checkpoint.checkpoint_name is nm.checkpoint_name


def test_nan_is_not_looked_for_within_the_inner_context() -> None:
    with nm.debug_nans():
        with nm.debug_nans(False):
            assert np.isnan(nm.jit(nnp.log)(-1.0))
        with pytest.raises(nm.errors.NotFiniteError):
            nm.jit(nnp.log)(-1.0)
