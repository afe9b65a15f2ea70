"""Quotients and remainders at infinities, zeros and NaN, as NumPy has them, interpreted and compiled."""

from __future__ import annotations

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir import nn

pytestmark = pytest.mark.slow

NUMBERS = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0, -1.0, 7.5, -7.5, 0.1, 1e30])


def _assert_same(found: np.ndarray, want: np.ndarray) -> None:
    np.testing.assert_array_equal(found, want)
    is_number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(found)[is_number], np.signbit(want)[is_number])


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod", "divmod"])
def test_values_are_those_of_numpy(name: str, dtype: type) -> None:
    numbers = NUMBERS if dtype is not np.float16 else NUMBERS[:-1]
    x, y = (v.ravel().astype(dtype) for v in np.meshgrid(numbers, numbers))
    with np.errstate(all="ignore"):
        want = getattr(np, name)(x, y)
    f = getattr(nnp, name)
    for found in (f(x, y), nm.jit(f)(x, y)):
        for own, theirs in zip(found if name == "divmod" else [found], want if name == "divmod" else [want], strict=True):
            _assert_same(np.asarray(own), theirs)


def test_numbers_for_nan_and_infinities_have_any_dtype() -> None:
    v = np.array([np.nan, 1.0, np.inf, -np.inf], np.float32)
    options = {"nan": np.float64(3), "posinf": np.array(4), "neginf": np.float16(-5)}
    for found in (nnp.nan_to_num(v, **options), nm.jit(lambda v: nnp.nan_to_num(v, **options))(v)):
        assert found.dtype == np.float32
        assert found.tolist() == [3.0, 1.0, 4.0, -5.0]
    slope = nm.grad(lambda c: nnp.nan_to_num(v, nan=c).sum())(np.float32(2))
    assert float(slope) == 1.0


@pytest.mark.parametrize("name", ["elu", "celu", "leaky_relu"])
def test_a_wider_slope_widens_the_result(name: str) -> None:
    x = np.array([-1.0, 2.0], np.float16)
    f = getattr(nn, name)
    found = f(x, np.float32(0.5))
    assert found.dtype == np.float32
    np.testing.assert_allclose(np.asarray(found), np.asarray(f(x.astype(np.float32), 0.5)), rtol=1e-3)
    assert f(x, 0.5).dtype == np.float16
    assert nm.grad(lambda x: f(x, np.float32(0.5)).sum())(x).dtype == np.float16


def test_the_bend_of_huber_is_an_argument() -> None:
    x, y = np.array([0.0, 3.0]), np.array([0.1, 1.0])
    assert nn.huber(x, y, np.float32(1)).tolist() == nn.huber(x, y, 1.0).tolist()
    np.testing.assert_allclose(float(nm.grad(lambda d: nn.huber(x, y, d).sum())(1.0)), 1.0)


def test_huber_without_a_quadratic_part_is_zero() -> None:
    """With delta = 0; its second derivatives are 0, too, at equal numbers."""
    x, modes = np.array([0.0, 1.0, -1.0]), (nm.jacfwd, nm.jacrev)
    f = lambda x: nn.huber(x, np.zeros(3), 0.0).sum()  # noqa: E731
    every = lambda x: [f(x), *(d(f)(x) for d in modes), *(d(e(f))(x) for d in modes for e in modes)]  # noqa: E731
    for run in (every, nm.jit(every)):
        assert not any(np.asarray(found).any() for found in run(x))
    assert np.isnan(nn.huber(np.nan, 0.0, 0.0))
