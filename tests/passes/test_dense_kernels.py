"""Factorisations and triangular systems as kernels, for every width of vectors, against LAPACK by way of JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jax import lax
from legalize_support import Program, check_against_jax, jax_text, legalized

Case = tuple[Callable[..., Any], tuple[Any, ...]]
rng = np.random.default_rng(3)
SLOW = pytest.mark.slow
FORMS = [("f4", 64), pytest.param("f8", 64, marks=SLOW), pytest.param("f4", 32, marks=SLOW), pytest.param("f8", 16, marks=SLOW)]


def normal(*shape: int, dtype: str) -> np.ndarray:
    return rng.normal(size=shape).astype(dtype)


def definite(*shape: int, dtype: str) -> np.ndarray:
    a = normal(*shape, dtype=dtype)
    return a @ np.swapaxes(a, -1, -2) / shape[-1] + 0.1 * np.eye(shape[-1], dtype=dtype)


def half(a: np.ndarray, lower: bool) -> np.ndarray:
    """What is not read is NaN."""
    keep = np.tril(np.ones(a.shape[-2:], bool)) if lower else np.triu(np.ones(a.shape[-2:], bool))
    return np.where(keep, a, np.nan).astype(a.dtype)


def triangle(*shape: int, lower: bool, unit: bool, dtype: str) -> np.ndarray:
    """Well conditioned, whatever is read of its diagonal."""
    n = shape[-1]
    diagonal = np.full(n, np.nan) if unit else 1.0 + np.arange(n) % 3
    a = np.where(np.eye(n, dtype=bool), diagonal, normal(*shape, dtype=dtype) / n)
    return half(a.astype(dtype), lower)


def cholesky_cases(dtype: str) -> dict[str, Case]:
    lower = lambda a: lax.linalg.cholesky(a, symmetrize_input=False)  # noqa: E731
    cases: dict[str, Case] = {}
    for shape in ((33, 33), (64, 64), (97, 97), (3, 70, 70)):
        cases[f"cholesky_{len(shape)}_{shape[-1]}"] = lower, (half(definite(*shape, dtype=dtype), True),)
    bad = definite(2, 40, 40, dtype=dtype)
    bad[1, 35, 35] = -1
    return cases | {"indefinite": (lower, (bad,))}


def solve_cases(dtype: str) -> dict[str, Case]:
    cases: dict[str, Case] = {}
    shapes = [((33, 33), 1), ((64, 64), 40), ((2, 45, 45), 17)]
    for code in range(16):
        left, below, turned, unit = (bool(code >> i & 1) for i in range(4))
        shape, columns = shapes[code % 3]
        b = normal(*shape[:-1], columns, dtype=dtype)
        solve = lambda a, b, left=left, below=below, turned=turned, unit=unit: lax.linalg.triangular_solve(  # noqa: E731
            a, b, left_side=left, lower=below, transpose_a=turned, unit_diagonal=unit
        )
        a = triangle(*shape, lower=below, unit=unit, dtype=dtype)
        cases[f"solve_{code}"] = solve, (a, b if left else np.ascontiguousarray(np.swapaxes(b, -1, -2)))
    return cases


def lu_cases(dtype: str) -> dict[str, Case]:
    factors = lambda a: lax.linalg.lu(a)[:2]  # noqa: E731
    singular = normal(40, 40, dtype=dtype)
    singular[:, 7] = 0
    singular[:, 20] = singular[:, 3]
    shapes = [(33, 33), (64, 64), (90, 41), (41, 90), (3, 50, 50)]
    cases: dict[str, Case] = {f"lu_{'x'.join(map(str, s))}": (factors, (normal(*s, dtype=dtype),)) for s in shapes}
    ties = np.sign(normal(40, 40, dtype=dtype))
    return cases | {
        "ties": (lambda a: lax.linalg.lu(a)[1][:1], (ties,)),
        "small": (factors, (normal(40, 40, dtype=dtype) * np.asarray(1e-30, dtype),)),
        "zeros": (factors, (np.zeros((34, 34), dtype),)),
        "column": (lambda a: lax.linalg.lu(a)[1][:7], (singular,)),
    }


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "vector_bytes"), FORMS)
def test_kernels_are_lapack(dtype: str, vector_bytes: int) -> None:
    """Real dtypes, sizes that tiles do not divide, one and several matrices, every flag; what is not read is NaN."""
    cases = cholesky_cases(dtype) | solve_cases(dtype) | lu_cases(dtype)
    check_against_jax(cases, 3e-5 if dtype == "f4" else 1e-3, vector_bytes=vector_bytes)


def test_what_stays_as_it_was() -> None:
    """Small and complex matrices, and code without a known width of vectors, are products as before."""
    of = lambda n, dtype: {"f": (lambda a: lax.linalg.cholesky(a), (np.eye(n, dtype=dtype),))}  # noqa: E731
    for n, dtype, width in ((32, "f4", 64), (64, "c8", 64), (64, "f4", 0)):
        assert "flow.dispatch" not in legalized(jax_text(of(n, dtype)), vector_bytes=width)
    assert "flow.dispatch" in legalized(jax_text(of(33, "f4")), vector_bytes=64)


def test_a_kernel_is_written_once() -> None:
    """However often it is called, and its text does not grow with the matrix."""

    def twice(a: Any) -> Any:
        return lax.linalg.cholesky(a) + lax.linalg.cholesky(a + a)

    texts = {n: legalized(jax_text({"f": (twice, (np.eye(n, dtype="f4"),))}), vector_bytes=64) for n in (64, 2048)}
    assert [t.count("hal.executable.source") for t in texts.values()] == [1, 1]
    assert [t.count("flow.dispatch @") for t in texts.values()] == [2, 2]
    assert abs(texts[64].count("\n") - texts[2048].count("\n")) < 5


def test_not_numbers_stay_visible() -> None:
    """A NaN reaches all that depends on it, as in LAPACK."""
    a = definite(64, 64, dtype="f4")
    a[50, 50] = np.nan
    program = Program(legalized(jax_text({"f": (lambda a: lax.linalg.cholesky(a), (a,))}), vector_bytes=64))
    found = program("f", a)
    assert np.isnan(found[50:, 50:][np.tril_indices(14)]).all()
