"""Starts and indices outside of an array beside JAX: negative starts count from the end, `take` fills what is not there."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.jax import jit, lax

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


@functools.cache
def _compiled_slices() -> Callable[[Any, Any], dict[str, Any]]:
    """All of them as one program, which is compiled once for each dtype."""
    return nm.jit(lambda i, j: {name: f(lax, i, j) for name, f in SLICES.items()})


@pytest.mark.parametrize("name", SLICES)
def test_negative_starts_count_from_the_end(name: str) -> None:
    f, mine = SLICES[name], _compiled_slices()
    for i, j in STARTS:
        want = np.asarray(f(jax.lax, i, j))
        compiled = [mine(dtype(i), dtype(j))[name] for dtype in (np.int32, np.int8)]
        for found in (f(lax, i, j), f(lax, np.int32(i), np.array(j)), *compiled):
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


MODES = (None, "fill", "clip", "wrap")
TAKES: list[Callable[[Any, Any, Any, Any], Any]] = [
    lambda np_, x, i, mode: np_.take(x, i, mode=mode),
    lambda np_, x, i, mode: np_.take(x, i, axis=1, mode=mode),
    lambda np_, x, i, mode: np_.take(x, i, axis=0, mode=mode),
    lambda np_, x, i, mode: np_.take_along_axis(x, np_.resize(i, (4, 3)), 1, mode=mode),
    lambda np_, x, i, mode: np_.take(x, i[1, 2], axis=-1, mode=mode),
]


def _takes(np_: Any, x: Any, i: Any, mode: str | None) -> list[Any]:
    # JAX has no mode "wrap" along an axis.
    return [f(np_, x, i, mode) for f in TAKES if mode != "wrap" or "take_along_axis" not in f.__code__.co_names]


@functools.cache
def _compiled_takes(dtype: Any) -> dict[str, list[Any]]:
    """The results for all modes, compiled as one program."""
    return nm.jit(lambda x, i: {str(mode): _takes(nnp, x, i, mode) for mode in MODES})(X.astype(dtype), INDICES)


@pytest.mark.parametrize(
    "dtype", [np.float32, *(pytest.param(dtype, marks=pytest.mark.slow) for dtype in (np.int32, np.uint8, bool))]
)
@pytest.mark.parametrize("mode", MODES)
def test_take_outside_is_that_of_jax(mode: str | None, dtype: Any) -> None:
    x = X.astype(dtype)
    wanted = _takes(jax.numpy, jax.numpy.asarray(x), jax.numpy.asarray(INDICES), mode)
    assert len(wanted) == (4 if mode == "wrap" else 5)
    for ours in (_takes(nnp, nnp.asarray(x), nnp.asarray(INDICES), mode), _compiled_takes(dtype)[str(mode)]):
        for found, want in zip(ours, wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(found), np.asarray(want))


def test_known_indices_are_checked_and_promised_ones_are_plain() -> None:
    with pytest.raises(nm.errors.IndexingError, match="indices from -4 to 3"):
        nm.jit(lambda x: nnp.take(x, [0, 12], axis=0))(X)
    text = str(nm.trace(lambda x, i: nnp.take(x, i, 0, mode="promise_in_bounds"), X, INDICES[0]).lower())
    assert text.count("stablehlo.select") == str(nm.trace(lambda x, i: x[i], X, INDICES[0]).lower()).count("stablehlo.select")


@pytest.mark.parametrize(
    "index", [9, -6, [0, 9], np.array([0, 9]), nnp.asarray([0, 9]), (slice(None), 9), (..., None, np.array([-6]))]
)
def test_known_indices_of_arrays_are_checked(index: Any) -> None:
    for f in (lambda x: x[index], lambda x: x.at[index].get(), lambda x: x.at[index].add(1.0)):
        for run in (f, nm.jit(f), nm.grad(lambda x, f=f: f(x).sum())):
            with pytest.raises(nm.errors.IndexingError, match=r"(?s)along axis \d, got .*take\(x, i, axis, mode='clip'\)"):
                run(nnp.asarray(X[:, :4]))


@pytest.mark.parametrize("index", [9, -6, [0, 9], (slice(None), np.array([-6, 1]))])
def test_functions_of_jax_clamp_known_indices_and_drop_writes(index: Any) -> None:
    index = np.array(index) if isinstance(index, list) else index  # JAX refuses lists
    f = lambda x: (x[index], x.at[index].set(-1.0))  # noqa: E731
    for found, want in zip(jit(f)(X), jax.jit(f)(X), strict=True):
        np.testing.assert_array_equal(np.asarray(found), np.asarray(want))


def test_derivatives_of_take_leave_out_what_is_not_there() -> None:
    f = lambda x, i: nnp.where(nnp.isnan(nnp.take(x, i, 1)), 0, nnp.take(x, i, 1) ** 2).sum()  # noqa: E731
    ours = [np.asarray(g(X, INDICES[1])) for g in (nm.grad(f), nm.jit(nm.grad(f)))]
    want = np.asarray(jax.grad(lambda x: jax.numpy.nansum(jax.numpy.take(x, INDICES[1], 1) ** 2))(X))
    np.testing.assert_array_equal(ours[0], np.nan_to_num(want))
    np.testing.assert_array_equal(ours[1], ours[0])
