"""Methods of ufuncs, and functions that put elements in: as NumPy's, in traces too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base import errors

X = np.random.default_rng(0).normal(size=(3, 4))
N = np.array([[5, 3, 6], [1, 7, 4]])
WORDS = ["add", "multiply", "maximum", "minimum", "logaddexp", "logaddexp2", "logical_and", "logical_or", "logical_xor"]
BITS = ["bitwise_and", "bitwise_or", "bitwise_xor"]


@pytest.fixture(autouse=True)
def _interpreted() -> Any:
    before = nm.set_execution("interpret")
    yield
    nm.set_execution(before)


@pytest.mark.parametrize("name", WORDS + BITS)
def test_reduce_and_accumulate(name: str) -> None:
    mine, theirs, x = getattr(nnp, name), getattr(np, name), N if name in BITS else X
    for axis in (0, 1, -1):
        np.testing.assert_allclose(mine.reduce(x, axis), theirs.reduce(x, axis))
        np.testing.assert_allclose(mine.accumulate(x, axis), theirs.accumulate(x, axis))
    whole = mine.reduce(x, axis=None, keepdims=True)
    np.testing.assert_allclose(whole, theirs.reduce(x.ravel(), keepdims=True).reshape(1, 1))
    np.testing.assert_allclose(nm.jit(mine.reduce)(x), theirs.reduce(x))


@pytest.mark.parametrize("name", [*WORDS, *BITS, "subtract", "divide", "power", "arctan2", "hypot"])
def test_outer(name: str) -> None:
    x, y = (N, np.array([1, 2])) if name in BITS else (np.abs(X), np.array([0.5, 2.0]))
    np.testing.assert_allclose(getattr(nnp, name).outer(x, y), getattr(np, name).outer(x, y))


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "maximum", "minimum"])
def test_at(name: str) -> None:
    index, values, expected = np.array([0, 2, 0]), np.arange(1.0, 4.0)[:, None], X.copy()
    getattr(np, name).at(expected, index, values)
    mine = nnp.asarray(X, copy=True)
    np.testing.assert_allclose(getattr(nnp, name).at(X, index, values, inplace=False), expected)
    assert getattr(nnp, name).at(mine, index, values) is None
    np.testing.assert_allclose(mine, expected)


def test_initial_and_masks() -> None:
    np.testing.assert_allclose(nnp.add.reduce(X, initial=2.0, where=X > 0), np.add.reduce(X, initial=2.0, where=X > 0))
    np.testing.assert_allclose(nnp.logaddexp.reduce(X, initial=2.0), np.logaddexp(2.0, np.logaddexp.reduce(X)))
    with pytest.raises(errors.ShapeError, match="where=None"):
        nnp.logaddexp.reduce(X, where=X > 0)
    with pytest.raises(errors.ShapeError, match="requires an element"):
        nnp.logaddexp.reduce(np.ones((0, 2)))


def test_derivatives() -> None:
    f = lambda x: (nnp.subtract.outer(x, x) ** 2).sum() + nnp.multiply.reduce(x)  # noqa: E731
    nm.jax.test_util.check_grads(f, (np.array([1.0, 2.0, 3.0]),), order=2)


@pytest.mark.parametrize(
    "put",
    [
        lambda m, x: m.put(x, [1, 5], [7.0, 8.0]),
        lambda m, x: m.place(x, np.arange(12).reshape(3, 4) % 2 == 0, [1.0, 2.0]),
        lambda m, x: m.put_along_axis(x, np.array([[1], [0], [3]]), 9.0, 1),
        lambda m, x: m.put_along_axis(x, np.array([3, 4]), 9.0, None),
        lambda m, x: m.fill_diagonal(x, 2.0),
    ],
)
def test_in_place(put: Callable[[Any, Any], Any]) -> None:
    expected, mine = X.copy(), nnp.asarray(X, copy=True)
    shared = mine.numpy()
    put(np, expected)
    assert put(nnp, mine) is None
    np.testing.assert_array_equal(mine, expected)
    np.testing.assert_array_equal(shared, X)  # other names of the memory see nothing

    def in_a_trace(x: Any) -> Any:
        y = x + 0.0
        put(nnp, y)
        return y

    np.testing.assert_array_equal(nm.jit(in_a_trace)(X), expected)
    with pytest.raises(errors.CopyError):
        put(nnp, X)
