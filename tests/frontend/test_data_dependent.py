"""Functions whose result has a shape that depends on values, against NumPy, and with `size` in traces."""

import numpy as np
import pytest
from support import assert_same, default_dtypes

import nabla_mlir as nm
import nabla_mlir.numpy as xp
from nabla_mlir.base.errors import TraceError


@pytest.fixture(autouse=True)
def as_numpy(interpreted):
    with default_dtypes(np.float64, np.int64):
        yield


X = np.array([[3.0, 0.0, 1.0], [0.0, 3.0, 3.0]])
CASES = {
    "nonzero": (xp.nonzero, np.nonzero),
    "flatnonzero": (xp.flatnonzero, np.flatnonzero),
    "argwhere": (xp.argwhere, np.argwhere),
    "where": (xp.where, np.where),
    "unique": (xp.unique, np.unique),
    "unique_values": (xp.unique_values, np.unique_values),
    "unique_all": (xp.unique_all, np.unique_all),
    "unique_counts": (xp.unique_counts, np.unique_counts),
    "unique_inverse": (xp.unique_inverse, np.unique_inverse),
}


@pytest.mark.parametrize("name", CASES)
def test_on_arrays_they_are_those_of_numpy(name) -> None:
    ours, theirs = CASES[name]
    assert_same(ours(xp.asarray(X)), theirs(X))


@pytest.mark.parametrize("name", CASES)
def test_in_traces_a_size_is_needed(name) -> None:
    ours, theirs = CASES[name]
    with pytest.raises(TraceError, match="requires a result whose shape does not depend on values") as error:
        nm.jit(lambda x: ours(x))(X)
    assert "size" in error.value.help
    want = theirs(X)
    size = len(want[0] if isinstance(want, tuple) else want)
    assert_same(nm.jit(lambda x: ours(x, size=size))(X), want)
    assert_same(ours(X, size=size), want)


def test_what_stands_behind_the_last() -> None:
    x = np.array([2.0, 0.0, 1.0, 2.0])
    assert xp.flatnonzero(x, size=6, fill_value=-1).tolist() == [0, 2, 3, -1, -1, -1]
    assert xp.flatnonzero(x, size=2).tolist() == [0, 2]
    assert xp.unique(x, size=5).tolist() == [0.0, 1.0, 2.0, 0.0, 0.0]
    assert xp.unique(x, size=4, fill_value=9.0).tolist() == [0.0, 1.0, 2.0, 9.0]
    assert xp.unique_counts(x, size=4).counts.tolist() == [1, 1, 2, 0]
    assert xp.unique(np.zeros(0), size=0).shape == (0,)


def test_maps_and_derivatives_of_sized_results() -> None:
    rows = np.array([[2.0, 0.0, 2.0], [0.0, 0.0, 5.0]])
    assert nm.vmap(lambda x: xp.flatnonzero(x, size=2, fill_value=3))(rows).tolist() == [[0, 2], [2, 3]]
    total = lambda x: (xp.unique(x, size=2) ** 2).sum()  # noqa: E731
    assert nm.grad(total)(rows[0]).tolist() == [4.0, 0.0, 0.0]
    assert nm.hvp(total)(rows[0], np.ones(3)).tolist() == [2.0, 2.0, 0.0]


def test_nan() -> None:
    x = np.array([np.nan, 1.0, np.nan])
    for options in ({}, {"equal_nan": False}):
        want = np.unique(x, True, True, True, **options)
        assert_same(xp.unique(x, True, True, True, **options), want)
        assert_same(xp.unique(x, True, True, True, size=len(want[0]), **options), want)


def test_membership_and_places_in_an_order() -> None:
    x = np.array([[1, 5], [3, 7]])
    assert_same(xp.isin(x, [3, 1]), np.isin(x, [3, 1]))
    assert_same(nm.jit(lambda x: xp.isin(x, 7, invert=True))(x), np.isin(x, 7, invert=True))
    a, order = np.array([3.0, 1.0, 2.0]), np.array([1, 2, 0])
    assert_same(xp.searchsorted(a, np.array([1.5, 3.0]), sorter=order), np.searchsorted(a, [1.5, 3.0], sorter=order))
