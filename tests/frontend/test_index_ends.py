"""Starts and indices outside of an array beside JAX: negative starts count from the end, `take` fills what is not there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.jax import lax

jax = pytest.importorskip("jax")
X = np.arange(20.0, dtype=np.float32).reshape(4, 5)
NEW = np.full((2, 2), -1.0, np.float32)
STARTS = [(-1, -2), (-3, 1), (0, 0), (9, 9), (-13, -20), (2, -5)]
INDICES = np.array([[0, -1, -5], [-6, 5, 12]], np.int32)

SLICES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "dynamic_slice": lambda lax, i, j: lax.dynamic_slice(X, (i, j), (2, 2)),
    "dynamic_update_slice": lambda lax, i, j: lax.dynamic_update_slice(X, NEW, (i, j)),
    "dynamic_slice_in_dim": lambda lax, i, j: lax.dynamic_slice_in_dim(X, j, 2, 1),
    "dynamic_index_in_dim": lambda lax, i, j: lax.dynamic_index_in_dim(X, i, 0, keepdims=False),
    "dynamic_update_slice_in_dim": lambda lax, i, j: lax.dynamic_update_slice_in_dim(X, NEW[:, :1].repeat(5, 1), i, 0),
    "dynamic_update_index_in_dim": lambda lax, i, j: lax.dynamic_update_index_in_dim(X, NEW[0, :1].repeat(4), j, 1),
}


@pytest.mark.parametrize("name", SLICES)
def test_negative_starts_count_from_the_end(name: str) -> None:
    f, mine = SLICES[name], nm.jit(lambda i, j: SLICES[name](lax, i, j))
    for i, j in STARTS:
        want = np.asarray(f(jax.lax, i, j))
        for found in (f(lax, i, j), f(lax, np.int32(i), np.array(j)), mine(np.int32(i), np.int32(j)), mine(np.int8(i), np.int8(j))):
            np.testing.assert_array_equal(np.asarray(found), want, err_msg=f"{i} {j}")


def test_derivatives_and_maps_of_slices_at_negative_starts() -> None:
    f = lambda x, i: (lax.dynamic_slice(x, (i, -2), (2, 2)) ** 2).sum()  # noqa: E731
    want = np.zeros_like(X)
    want[-3:-1, -2:] = 2 * X[-3:-1, -2:]
    for g in (nm.grad(f), nm.jit(nm.grad(f)), nm.grad(nm.jit(f))):
        np.testing.assert_array_equal(np.asarray(g(X, np.int32(-3))), want)
    starts = np.array([-4, -1, 2], np.int32)
    rows = np.asarray(nm.vmap(lambda i: lax.dynamic_slice(X, (i, 0), (1, 5))[0])(starts))
    np.testing.assert_array_equal(rows, X[starts])


@pytest.mark.parametrize(
    "dtype", [np.float32, *(pytest.param(dtype, marks=pytest.mark.slow) for dtype in (np.int32, np.uint8, bool))]
)
@pytest.mark.parametrize("mode", [None, "fill", "clip", "wrap"])
def test_take_outside_is_that_of_jax(mode: str | None, dtype: Any) -> None:
    x = X.astype(dtype)
    cases: list[Callable[[Any, Any, Any], Any]] = [
        lambda np_, x, i: np_.take(x, i, mode=mode),
        lambda np_, x, i: np_.take(x, i, axis=1, mode=mode),
        lambda np_, x, i: np_.take(x, i, axis=0, mode=mode),
        lambda np_, x, i: np_.take_along_axis(x, i, 1, mode=mode),
        lambda np_, x, i: np_.take(x, i[1, 2], axis=-1, mode=mode),
    ]
    for f in cases:
        is_along = "take_along_axis" in f.__code__.co_names
        if is_along and mode == "wrap":
            continue  # JAX has no such mode there
        i = np.resize(INDICES, (4, 3)) if is_along else INDICES
        want = np.asarray(f(jax.numpy, jax.numpy.asarray(x), jax.numpy.asarray(i)))
        mine = lambda x, i, f=f: f(nnp, x, i)  # noqa: E731
        for found in (mine(nnp.asarray(x), nnp.asarray(i)), nm.jit(mine)(x, i)):
            np.testing.assert_array_equal(np.asarray(found), want)


def test_known_indices_are_checked_and_promised_ones_are_plain() -> None:
    with pytest.raises(nm.errors.IndexingError, match="indices from -4 to 3"):
        nm.jit(lambda x: nnp.take(x, [0, 12], axis=0))(X)
    text = str(nm.trace(lambda x, i: nnp.take(x, i, 0, mode="promise_in_bounds"), X, INDICES[0]).lower())
    assert text.count("stablehlo.select") == str(nm.trace(lambda x, i: x[i], X, INDICES[0]).lower()).count("stablehlo.select")


def test_derivatives_of_take_leave_out_what_is_not_there() -> None:
    f = lambda x, i: nnp.where(nnp.isnan(nnp.take(x, i, 1)), 0, nnp.take(x, i, 1) ** 2).sum()  # noqa: E731
    ours = [np.asarray(g(X, INDICES[1])) for g in (nm.grad(f), nm.jit(nm.grad(f)))]
    want = np.asarray(jax.grad(lambda x: jax.numpy.nansum(jax.numpy.take(x, INDICES[1], 1) ** 2))(X))
    np.testing.assert_array_equal(ours[0], np.nan_to_num(want))
    np.testing.assert_array_equal(ours[1], ours[0])
