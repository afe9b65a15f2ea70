"""Decompositions as kernels, for every width of vectors: orthogonality, residuals and values against LAPACK's in f64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from legalize_support import Program, jax_text, legalized

pytestmark = pytest.mark.slow

SLOW = pytest.mark.slow
FORMS = [("f4", 64), pytest.param("f8", 64, marks=SLOW), pytest.param("f4", 32, marks=SLOW), pytest.param("f8", 16, marks=SLOW)]
SIZES = (2, 3, 17, 33, 70)
rng = np.random.default_rng(5)


def turn(n: int) -> np.ndarray:
    return np.linalg.qr(rng.normal(size=(n, n)))[0]


def matrices(n: int) -> dict[str, np.ndarray]:
    """What such iterations find hard: equal values, none, far apart, blocks, zeros on the diagonal."""
    q, p, ramp = turn(n), turn(n), np.arange(1.0, n + 1)
    return {
        "random": rng.normal(size=(n, n)),
        "graded": (q * 10.0 ** -np.linspace(0, 12, n)) @ p,
        "columns apart": rng.normal(size=(n, n)) * 10.0 ** -np.linspace(0, 8, n),
        "pairs": (q * (ramp // 2)) @ p,
        "rank one": np.outer(q[0], p[0]),
        "zero": np.zeros((n, n)),
        "identity": np.eye(n),
        "turn": q,
        "above": np.eye(n, k=1),
        "below": np.eye(n, k=-1),
        "triangle": np.triu(np.ones((n, n))),
        "gaps": np.diag(np.where(ramp % 5 == 3, 0.0, ramp)) + np.eye(n, k=1),
        "no columns": rng.normal(size=(n, n)) * (ramp % 3 > 0),
    }


def stack(n: int, dtype: str, symmetric: bool) -> np.ndarray:
    """All of them, and some of sizes whose squares overflow, or vanish."""
    found = [a + a.T if symmetric else a for a in matrices(n).values()]
    return np.stack([*found, found[0] * 1e25, found[0] * 1e-25]).astype(dtype)


def program(functions: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]], vector_bytes: int) -> Program:
    text = legalized(jax_text(functions), vector_bytes=vector_bytes)
    assert "flow.dispatch" in text
    return Program(text)


def errors(found: np.ndarray, true: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The largest ones relative to the size of each matrix."""
    difference = np.abs(found - true).reshape(len(found), -1).max(axis=1)
    return difference / np.where(sizes == 0, 1, sizes)


def is_orthogonal(v: np.ndarray, bound: float) -> bool:
    return bool(np.abs(np.swapaxes(v, -1, -2) @ v - np.eye(v.shape[-1])).max() < bound)


@pytest.mark.parametrize(("dtype", "vector_bytes"), FORMS)
def test_eigenvalues(dtype: str, vector_bytes: int) -> None:
    given = {n: stack(n, dtype, symmetric=True) for n in SIZES}
    eigh = lambda a: lax.linalg.eigh(a, symmetrize_input=False)  # noqa: E731
    run = program({f"f{n}": (eigh, (np.tril(a),)) for n, a in given.items()}, vector_bytes)
    for n, a in given.items():
        v, w = (x.astype(np.float64) for x in run(f"f{n}", np.tril(a)))
        a = a.astype(np.float64)
        sizes, bound = np.linalg.norm(a, 2, axis=(1, 2)), 10 * np.finfo(dtype).eps * n**0.5
        assert is_orthogonal(v, bound)
        assert (np.diff(w) >= 0).all()
        assert (errors(a @ v, v * w[:, None, :], sizes) < bound).all()
        assert (errors(w, np.linalg.eigvalsh(a), sizes) < bound).all()


@pytest.mark.parametrize(("dtype", "vector_bytes"), FORMS)
def test_singular_values(dtype: str, vector_bytes: int) -> None:
    given = {n: stack(n, dtype, symmetric=False) for n in SIZES}
    run = program({f"f{n}": (jnp.linalg.svd, (a,)) for n, a in given.items()}, vector_bytes)
    for n, a in given.items():
        u, s, v = (x.astype(np.float64) for x in run(f"f{n}", a))
        a = a.astype(np.float64)
        sizes, bound = np.linalg.norm(a, 2, axis=(1, 2)), 10 * np.finfo(dtype).eps * n**0.5
        assert is_orthogonal(u, bound)
        assert is_orthogonal(np.swapaxes(v, 1, 2), bound)
        assert (np.diff(s) <= 0).all()
        assert (s >= 0).all()
        assert (errors(u * s[:, None, :] @ v, a, sizes) < bound).all()
        assert (errors(s, np.linalg.svd(a)[1], sizes) < bound).all()


@pytest.mark.parametrize(("dtype", "vector_bytes"), FORMS)
def test_reflections(dtype: str, vector_bytes: int) -> None:
    """The packed factors are LAPACK's: their signs are settled, the first column's too where all else is zero."""
    shapes = [(17, 17), (40, 33), (33, 40), (65, 20)]
    given = {f"f{m}_{n}": stack(max(m, n), dtype, symmetric=False)[:, :m, :n] for m, n in shapes}
    both = lambda mode: lambda a: jnp.linalg.qr(a, mode=mode)  # noqa: E731
    whole = {f"{name}_whole": (both("complete"), (a,)) for name, a in given.items() if a.shape[1] > a.shape[2]}
    run = program({name: (both("reduced"), (a,)) for name, a in given.items()} | whole, vector_bytes)
    for name in [*given, *whole]:
        a = given[name.removesuffix("_whole")]
        q, r = (x.astype(np.float64) for x in run(name, a))
        sizes, bound = np.linalg.norm(a.astype(np.float64), 2, axis=(1, 2)), 10 * np.finfo(dtype).eps * max(a.shape[1:]) ** 0.5
        assert is_orthogonal(q, bound)
        assert (np.tril(r[:, :, : r.shape[1]], -1) == 0).all()
        assert (errors(q @ r, a, sizes) < bound).all()
        true = np.linalg.qr(a[0].astype(np.float64), mode="complete" if name in whole else "reduced")
        assert np.abs(q[0][:, :20] - true[0][:, :20]).max() < 100 * bound


def test_what_has_no_answer_is_no_number() -> None:
    """NaN or infinity anywhere reach all results; the other matrices of a stack have theirs."""
    a = np.stack([np.eye(20, dtype="f4")] * 3)
    a[1, 3, 5] = np.nan
    a[2, 0, 7] = a[2, 7, 0] = np.inf
    run = program({"svd": (jnp.linalg.svd, (a,)), "eigh": (lambda a: lax.linalg.eigh(a), (a,))}, 64)
    for name in ("svd", "eigh"):
        for result in run(name, a):
            assert np.isfinite(result[0]).all()
            assert np.isnan(result[1:]).all()


def test_the_text_does_not_grow_with_the_matrix() -> None:
    eigh = lambda a: lax.linalg.eigh(a)  # noqa: E731
    texts = [legalized(jax_text({"f": (eigh, (np.eye(n, dtype="f4"),))}), vector_bytes=64) for n in (64, 2048)]
    assert abs(texts[0].count("\n") - texts[1].count("\n")) < 40
