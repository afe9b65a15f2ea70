"""Jacobians, Hessians and their diagonals in blocks of unit vectors: the same numbers, in bounded memory."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base import progress, thresholds
from nabla_mlir.base.errors import ShapeError

X = np.linspace(0.1, 1.0, 7)
A = np.random.default_rng(0).standard_normal((5, 7))
SIZES = (1, 2, 3, 6, 7, 9)


@pytest.fixture(params=["interpret", pytest.param("compile", marks=pytest.mark.slow)])
def execution(request: pytest.FixtureRequest) -> Any:
    before = nm.set_execution(request.param)
    with nm.enable_x64():
        yield request.param
    nm.set_execution(before)


def residuals(x: Any) -> Any:
    return nnp.sin(A @ x) * nnp.exp(x[0])


def loss(x: Any) -> Any:
    return (residuals(x) ** 2).sum()


# By the closed forms: J = diag(cos) A exp(x0) + r e0ᵀ, and the Hessian of Σ r².
def _jacobian(x: np.ndarray) -> np.ndarray:
    return np.cos(A @ x)[:, None] * A * np.exp(x[0]) + np.outer(np.sin(A @ x) * np.exp(x[0]), np.eye(7)[0])


def _hessian(x: np.ndarray) -> np.ndarray:
    r, first = np.sin(A @ x) * np.exp(x[0]), np.eye(7)[0]
    slope = np.cos(A @ x)[:, None] * A * np.exp(x[0])
    second = -r[:, None, None] * A[:, :, None] * A[:, None, :] + slope[:, :, None] * first + slope[:, None, :] * first[:, None]
    second += r[:, None, None] * np.outer(first, first)
    return 2 * (np.einsum("i,ijk->jk", r, second) + _jacobian(x).T @ _jacobian(x))


def test_blocks_have_the_numbers_of_all_at_once(execution: str) -> None:
    for size in SIZES if execution == "interpret" else (3,):
        np.testing.assert_allclose(nm.jacfwd(residuals, batch_size=size)(X), _jacobian(X), rtol=1e-12)
        np.testing.assert_allclose(nm.jacrev(residuals, batch_size=size)(X), _jacobian(X), rtol=1e-12)
        np.testing.assert_allclose(nm.hessian_diagonal(loss, batch_size=size)(X), np.diag(_hessian(X)), rtol=1e-11)
        np.testing.assert_allclose(nm.laplacian(loss, batch_size=size)(X), np.trace(_hessian(X)), rtol=1e-11)
        for mode in ("fwd_rev", "rev_rev", "rev_fwd", "fwd_fwd") if execution == "interpret" or size == 3 else ():
            np.testing.assert_allclose(nm.hessian(loss, mode=mode, batch_size=size)(X), _hessian(X), rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("execution", ["interpret"], indirect=True)
def test_narrow_numbers(dtype: str, execution: str) -> None:
    f = lambda x: nnp.sin(nnp.asarray(A.astype(dtype)) @ x)  # noqa: E731
    x = X.astype(dtype)
    blocks, whole = nm.jacfwd(f, batch_size=2)(x), nm.jacfwd(f)(x)
    assert blocks.dtype == dtype
    np.testing.assert_allclose(blocks, whole, rtol=1e-2 if dtype == "float16" else 1e-6)


@pytest.mark.parametrize("execution", ["interpret"], indirect=True)
def test_derivatives_and_maps_of_blocks(execution: str) -> None:
    rows = np.stack([X, X + 0.1])
    for build in (nm.jacfwd, nm.jacrev):
        f = lambda x, size, build=build: (build(residuals, batch_size=size)(x) ** 2).sum()  # noqa: E731
        whole = lambda x, f=f: f(x, None)  # noqa: E731
        blocks = lambda x, f=f: f(x, 3)  # noqa: E731
        np.testing.assert_allclose(nm.grad(blocks)(X), nm.grad(whole)(X), rtol=1e-10)
        np.testing.assert_allclose(nm.jvp(blocks, (X,), (X,))[1], nm.jvp(whole, (X,), (X,))[1], rtol=1e-10)
        np.testing.assert_allclose(nm.hvp(blocks)(X, X), nm.hvp(whole)(X, X), rtol=1e-9)
        np.testing.assert_allclose(nm.grad(lambda x: nm.jvp(blocks, (x,), (X,))[1])(X), nm.hvp(whole)(X, X), rtol=1e-9)  # noqa: B023
        np.testing.assert_allclose(nm.vmap(nm.grad(blocks))(rows), nm.vmap(nm.grad(whole))(rows), rtol=1e-10)
        np.testing.assert_allclose(nm.vmap(build(residuals, batch_size=3))(rows), [_jacobian(x) for x in rows], rtol=1e-12)
    np.testing.assert_allclose(
        nm.vmap(nm.hessian_diagonal(loss, batch_size=2))(rows), [np.diag(_hessian(x)) for x in rows], rtol=1e-10
    )
    np.testing.assert_allclose(nm.grad(lambda x: nm.laplacian(loss, batch_size=2)(x))(X), nm.grad(nm.laplacian(loss))(X), rtol=1e-9)


@pytest.mark.parametrize("execution", ["interpret"], indirect=True)
def test_trees_aux_and_names(execution: str) -> None:
    f = lambda t: ({"a": t["x"] * t["s"], "b": nnp.outer(t["x"], t["x"])}, t["s"])  # noqa: E731
    tree = {"x": X[:3], "s": np.array(2.0)}
    for build in (nm.jacfwd, nm.jacrev):
        whole, blocks = (build(f, has_aux=True, batch_size=size)(tree) for size in (None, 2))
        assert nm.jax.tree.structure(whole) == nm.jax.tree.structure(blocks)
        for a, b in zip(nm.jax.tree.leaves(whole), nm.jax.tree.leaves(blocks), strict=True):
            np.testing.assert_array_equal(a, b)
    x = nm.vectorize(np.stack([X, X + 1]), "p")
    for build in (nm.jacfwd, nm.jacrev):
        found = build(residuals, batch_size=2)(x)
        assert found.vectorized_axes == {"p": 2}
        np.testing.assert_allclose(found.data, [_jacobian(X), _jacobian(X + 1)], rtol=1e-12)
    inside = lambda x: x * nm.vectorize(np.array([1.0, 3.0]), "q")  # noqa: E731
    np.testing.assert_allclose(
        nm.hessian_diagonal(lambda x: (inside(x) ** 3).sum(), batch_size=2)(X).data, 6 * X * np.array([[1.0], [27.0]])
    )
    z = X[:3] + 1j
    np.testing.assert_allclose(nm.jacfwd(lambda z: z * z, holomorphic=True, batch_size=2)(z), np.diag(2 * z))


@pytest.mark.parametrize("execution", ["interpret"], indirect=True)
def test_blocks_begin_where_memory_ends(execution: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = nm.spec(7, "f64")
    for derivative in (nm.jacfwd(residuals), nm.jacrev(residuals), nm.hessian(loss), nm.hessian_diagonal(loss)):
        assert "stablehlo.while" not in str(nm.trace(derivative, spec).lower())
    monkeypatch.setattr(thresholds, "UNIT_VECTOR_MEMORY", 1000)
    for derivative, expected in (
        (nm.jacfwd(residuals), _jacobian(X)),
        (nm.jacrev(residuals), _jacobian(X)),
        (nm.hessian(loss), _hessian(X)),
        (nm.hessian_diagonal(loss), np.diag(_hessian(X))),
    ):
        assert "stablehlo.while" in str(nm.trace(derivative, spec).lower())
        np.testing.assert_allclose(derivative(X), expected, rtol=1e-10)


@pytest.mark.parametrize("of", ["hessian_diagonal", "laplacian", "hessian"])
@pytest.mark.parametrize("execution", ["interpret"], indirect=True)
def test_memory_is_bounded(of: str, execution: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """600 numbers with 2,000 residuals: 10 MB for each value of all unit vectors, of which there are dozens."""
    monkeypatch.setattr(thresholds, "UNIT_VECTOR_MEMORY", 8 << 20)
    rng = np.random.default_rng(0)
    positions, weights = rng.integers(0, 600, (2000, 3)), rng.standard_normal((2000, 3))
    f = lambda x: (nnp.tanh((x[positions] * weights).sum(1)) ** 2).sum()  # noqa: E731
    x = rng.standard_normal(600)
    derivative = getattr(nm, of)(f)
    tracemalloc.start()
    out = np.asarray(derivative(x))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < (40 << 20) + 4 * out.nbytes
    v = np.eye(600)[5]
    slope = np.asarray(nm.hvp(f)(x, v))
    if of != "laplacian":
        np.testing.assert_allclose(out[5], slope[5] if of == "hessian_diagonal" else slope, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("build", [nm.jacfwd, nm.jacrev, nm.hessian, nm.hessian_diagonal, nm.laplacian])
def test_sizes_that_are_none(build: Callable[..., Any]) -> None:
    for size in (0, -2, 1.5, True):
        with pytest.raises(ShapeError, match=rf"{build.__name__} requires batch_size of at least 1, got {size!r}"):
            build(loss, batch_size=size)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("execution", ["interpret"], indirect=True)
def test_a_terminal_sees_how_far_it_is(execution: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = _Terminal()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))
    monkeypatch.setattr(progress, "_AFTER", 0.01)
    f = lambda x: nnp.sum(nm.fori_loop(0, 300, lambda i, y: nnp.sin(y), x * x))  # noqa: E731
    nm.hessian_diagonal(f, batch_size=2)(X)
    lines = stream.getvalue().split("\r")
    assert any(line.startswith("hessian_diagonal, iteration ") and " of 4 ... " in line for line in lines)
    assert lines[-1].startswith("hessian_diagonal: ")
    stream.truncate(0)
    nm.hessian(f)(X)
    assert stream.getvalue().split("\r")[-1].startswith("hessian: ")
