"""Routines of LAPACK, as JAX's custom calls name them, for stacks of matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nabla_mlir.interpreter.evaluations import Evaluation, evaluation
from nabla_mlir.interpreter.linalg import cholesky, triangular_solve
from nabla_mlir.ops.lapack import option

_TRANSPOSES = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}


def routine(name: str) -> Callable[[Evaluation], Evaluation]:
    """Decorator: the function evaluates a routine, in every type, of arrays and its options by name."""
    return evaluation(*(f"stablehlo.custom_call @lapack_{letter}{name}_ffi" for letter in "sdcz"))


def letter_of(parameters: dict[str, Any], key: str) -> str:
    """A one-letter option of a call."""
    return option(parameters["mhlo.backend_config"], key)


def _success(a: np.ndarray) -> np.ndarray:
    return np.zeros(a.shape[:-2], np.int32)


@routine("potrf")
def potrf(a: np.ndarray, **parameters: Any) -> list[np.ndarray]:
    """The factor of Cholesky, and 1 where there is none."""
    factor = cholesky(a, letter_of(parameters, "uplo") == "L")
    return [factor, np.isnan(np.diagonal(factor, axis1=-2, axis2=-1).real).any(-1).astype(np.int32)]


@routine("trsm")
def trsm(a: np.ndarray, b: np.ndarray, **parameters: Any) -> list[np.ndarray]:
    """The solution of a triangular system."""
    side, lower, diagonal, transpose = (letter_of(parameters, key) for key in ("side", "uplo", "diag", "trans_x"))
    return [triangular_solve(a, b, side == "L", lower == "L", diagonal == "U", _TRANSPOSES[transpose])]


@routine("getrf")
def getrf(a: np.ndarray, **_: Any) -> list[np.ndarray]:
    """L and U in one array, and the row, counted from 1, that each row was exchanged with."""
    shape, (m, n) = a.shape, a.shape[-2:]
    stack = a.reshape(-1, m, n).copy()
    pivots = np.zeros((len(stack), min(m, n)), np.int32)
    each = np.arange(len(stack))
    for j in range(min(m, n)):
        size = np.abs(stack[:, j:, j].real) + np.abs(stack[:, j:, j].imag)
        row = j + np.argmax(size, axis=1) if len(stack) else each
        pivots[:, j] = row + 1
        stack[each, j], stack[each, row] = stack[each, row], stack[each, j].copy()
        pivot = stack[:, j, j, None]
        stack[:, j + 1 :, j] = np.where(pivot == 0, stack[:, j + 1 :, j], stack[:, j + 1 :, j] / np.where(pivot == 0, 1, pivot))
        stack[:, j + 1 :, j + 1 :] -= stack[:, j + 1 :, j, None] * stack[:, j, None, j + 1 :]
    return [stack.reshape(shape), pivots.reshape(*shape[:-2], -1), _success(a)]


@routine("geqrf")
def geqrf(a: np.ndarray, **_: Any) -> list[np.ndarray]:
    """R, with the reflections that lead to it below its diagonal, and their factors (Golub and Van Loan, 5.1)."""
    shape, (m, n) = a.shape, a.shape[-2:]
    stack = a.reshape(-1, m, n).copy()
    factors = np.zeros((len(stack), min(m, n)), a.dtype)
    for j in range(min(m, n)):
        column = stack[:, j:, j]
        first, norm = column[:, 0].copy(), np.linalg.norm(column, axis=1)
        beta = np.where(first.real < 0, norm, -norm).astype(a.dtype)
        is_done = (np.abs(column[:, 1:]).max(1, initial=0) == 0) & (first.imag == 0)
        beta = np.where(is_done, first, beta)
        tau = np.where(is_done, 0, (beta - first) / np.where(is_done, 1, beta))
        v = np.where(is_done[:, None], 0, column / np.where(is_done, 1, first - beta)[:, None])
        v[:, 0] = 1
        right = stack[:, j:, j:]
        right -= (np.conj(tau)[:, None, None] * v[:, :, None]) @ (np.conj(v)[:, None, :] @ right)
        stack[:, j, j], stack[:, j + 1 :, j], factors[:, j] = beta, v[:, 1:], tau
    return [stack.reshape(shape), factors.reshape(*shape[:-2], -1)]


@routine("orgqr")
@routine("ungqr")
def orgqr(a: np.ndarray, factors: np.ndarray, **_: Any) -> list[np.ndarray]:
    """The first columns of the product of reflections."""
    m, n = a.shape[-2:]
    q = np.broadcast_to(np.eye(m, n, dtype=a.dtype), a.shape).copy()
    for j in reversed(range(factors.shape[-1])):
        v = np.concatenate([np.ones_like(a[..., :1, j]), a[..., j + 1 :, j]], axis=-1)
        rows = q[..., j:, :]
        rows -= (factors[..., j, None, None] * v[..., :, None]) @ (np.conj(v)[..., None, :] @ rows)
    return [q]


@routine("syevd")
@routine("heevd")
def syevd(a: np.ndarray, **parameters: Any) -> list[np.ndarray]:
    """Eigenvectors and eigenvalues, in ascending order; NaN where they do not converge."""
    real = a.real.dtype

    def one(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, vectors = np.linalg.eigh(x, letter_of(parameters, "uplo"))  # type: ignore[arg-type]
        return vectors, values

    vectors, values = _each(one, a, [(a.shape[-2:], a.dtype), (a.shape[-1:], real)])
    return [vectors, values, _success(a)]


@routine("gesdd")
def gesdd(a: np.ndarray, results: Sequence[Any], **parameters: Any) -> list[np.ndarray]:
    """The operand, singular values, and vectors, if they are asked for; NaN where they do not converge."""
    mode, rank = letter_of(parameters, "mode"), a.ndim - 2
    types = [(tuple(shape[rank:]), dtype) for shape, dtype in results[1:4]]

    def one(x: np.ndarray) -> tuple[np.ndarray, ...]:
        if mode == "N":
            return np.linalg.svd(x, compute_uv=False), *(np.zeros(shape, dtype) for shape, dtype in types[1:])
        u, s, vt = np.linalg.svd(x, full_matrices=mode == "A")
        return s, u, vt

    return [a, *_each(one, a, types), _success(a)]


def _each(f: Callable[[np.ndarray], Sequence[np.ndarray]], a: np.ndarray, types: Sequence[Any]) -> list[np.ndarray]:
    """What a function makes of each matrix of a stack; NaN where it finds nothing."""
    outs = [np.full((*a.shape[:-2], *shape), np.nan, dtype) for shape, dtype in types]
    for place in np.ndindex(a.shape[:-2]):
        try:
            results = f(a[place])
        except np.linalg.LinAlgError:
            continue
        for out, result in zip(outs, results, strict=True):
            out[place] = result
    return outs
