"""Routines of LAPACK, as JAX's custom calls name them, for stacks of matrices."""

from __future__ import annotations

import math
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
    """The Cholesky factor, and 1 for a matrix without one."""
    factor = cholesky(a, letter_of(parameters, "uplo") == "L")
    return [factor, np.isnan(np.diagonal(factor, axis1=-2, axis2=-1).real).any(-1).astype(np.int32)]


@routine("trsm")
def trsm(a: np.ndarray, b: np.ndarray, **parameters: Any) -> list[np.ndarray]:
    """The solution of a triangular system."""
    side, lower, diagonal, transpose = (letter_of(parameters, key) for key in ("side", "uplo", "diag", "trans_x"))
    return [triangular_solve(a, b, side == "L", lower == "L", diagonal == "U", _TRANSPOSES[transpose])]


@routine("getrf")
def getrf(a: np.ndarray, **_: Any) -> list[np.ndarray]:
    """The LU factorisation of matrices with row exchanges: L and U in one array, the exchanges, and zeros for success.

    Exchange i is the row, counted from 1, with which row i was exchanged.
    """
    stack = _stack_of(a)
    pivots = np.zeros((len(stack), min(a.shape[-2:])), np.int32)
    each = np.arange(len(stack))
    for j in range(pivots.shape[1]):
        size = _size_of(stack[:, j:, j])
        row = j + np.argmax(size, axis=1) if len(stack) else each
        pivots[:, j] = row + 1
        stack[each, j], stack[each, row] = stack[each, row], stack[each, j].copy()
        pivot = stack[:, j, j, None]
        stack[:, j + 1 :, j] = np.where(pivot == 0, stack[:, j + 1 :, j], stack[:, j + 1 :, j] / np.where(pivot == 0, 1, pivot))
        stack[:, j + 1 :, j + 1 :] -= stack[:, j + 1 :, j, None] * stack[:, j, None, j + 1 :]
    return [stack.reshape(a.shape), pivots.reshape(*a.shape[:-2], pivots.shape[1]), _success(a)]


@routine("geqrf")
def geqrf(a: np.ndarray, **_: Any) -> list[np.ndarray]:
    """The QR factorisation of matrices: R with the reflections below its diagonal, and the factors of the reflections.

    See Golub and Van Loan, 5.1.
    """
    stack, factors = _stack_of(a), _factors_of(a)
    for j in range(factors.shape[-1]):
        _reflect(stack, factors, j)
    return [stack.reshape(a.shape), factors.reshape(*a.shape[:-2], factors.shape[1])]


@routine("geqp3")
def geqp3(a: np.ndarray, first: np.ndarray, **_: Any) -> list[np.ndarray]:
    """The QR factorisation with column pivoting: R with the reflections, the permutation counted from 1, and the factors.

    The next column is the longest of the remaining ones.

    Columns whose entry of `first` is not zero come before the others, in their order.
    """
    n = a.shape[-1]
    stack, factors = _stack_of(a), _factors_of(a)
    order = np.argsort(first == 0, axis=-1, kind="stable").reshape(len(stack), n)
    stack = np.take_along_axis(stack, order[:, None, :], axis=2)
    fixed = (first != 0).sum(-1).reshape(-1)
    each = np.arange(len(stack))
    for j in range(factors.shape[-1]):
        lengths = np.linalg.norm(stack[:, j:, j:], axis=1)
        longest = np.where(j < fixed, j, j + np.argmax(lengths, axis=1)) if len(stack) else each
        for x in (stack.swapaxes(1, 2), order):
            x[each, j], x[each, longest] = x[each, longest], x[each, j].copy()
        _reflect(stack, factors, j)
    shapes = [a.shape, first.shape, (*a.shape[:-2], factors.shape[-1])]
    return [x.reshape(shape) for x, shape in zip((stack, order.astype(np.int32) + 1, factors), shapes, strict=True)]


def _stack_of(a: np.ndarray) -> np.ndarray:
    """A copy with one axis of matrices."""
    return a.reshape(math.prod(a.shape[:-2]), *a.shape[-2:]).copy()


def _factors_of(a: np.ndarray) -> np.ndarray:
    return np.zeros((math.prod(a.shape[:-2]), min(a.shape[-2:])), a.dtype)


def _reflect(stack: np.ndarray, factors: np.ndarray, j: int) -> None:
    """Applies step j of a QR factorisation to each matrix of `stack`, in place: a reflection makes column j zero below the
    diagonal.

    For the column x from the diagonal on: beta = -sign(x[0]) |x|, tau = (beta - x[0]) / beta, v = x / (x[0] - beta) with v[0] = 1,
    and the matrix is multiplied by 1 - conj(tau) v vᴴ. Its factor tau is stored in `factors`.
    """
    column = stack[:, j:, j]
    first, norm = column[:, 0].copy(), _norms(column)
    is_done = (np.abs(column[:, 1:]).max(1, initial=0) == 0) & (first.imag == 0)
    beta = np.where(is_done, first, np.where(first.real <= 0, norm, -norm)).astype(stack.dtype)
    tau = np.where(is_done, 0, (beta - first) / np.where(is_done, 1, beta))
    v = np.where(is_done[:, None], 0, column / np.where(is_done, 1, first - beta)[:, None])
    v[:, 0] = 1
    right = stack[:, j:, j:]
    right -= (np.conj(tau)[:, None, None] * v[:, :, None]) @ (np.conj(v)[:, None, :] @ right)
    stack[:, j, j], stack[:, j + 1 :, j], factors[:, j] = beta, v[:, 1:], tau


def _norms(rows: np.ndarray) -> np.ndarray:
    """The length of each row, computed without overflow or underflow of the squares."""
    size = np.abs(rows).max(1, initial=0)
    scale = np.where((size > 0) & np.isfinite(size), size, 1)
    return scale * np.linalg.norm(rows / scale[:, None], axis=1)


@routine("orgqr")
@routine("ungqr")
def orgqr(a: np.ndarray, factors: np.ndarray, **_: Any) -> list[np.ndarray]:
    """The first columns of the orthogonal Q of a QR factorisation, from the reflections and factors that `geqrf` returns."""
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
    """The eigenvectors and the eigenvalues, in ascending order, of Hermitian matrices, and zeros; NaN if they do not converge.

    `parameters` has the triangle that is read, "uplo".
    """
    triangle: Any = letter_of(parameters, "uplo")
    values, vectors = _each(lambda x: np.linalg.eigh(x, triangle), a, [(a.shape[-1:], a.real.dtype), (a.shape[-2:], a.dtype)])
    return [vectors, values, _success(a)]


@routine("gesdd")
def gesdd(a: np.ndarray, results: Sequence[Any], **parameters: Any) -> list[np.ndarray]:
    """The operand, the singular values, the singular vectors, and zeros; NaN if the iteration does not converge.

    `parameters` has "mode": "N" for no vectors, "A" for all, "S" for the first ones. `results` are pairs of shape and dtype.
    """
    mode, rank = letter_of(parameters, "mode"), a.ndim - 2
    types = [(tuple(shape[rank:]), dtype) for shape, dtype in results[1:4]]

    def one(x: np.ndarray) -> Sequence[np.ndarray]:
        """Decomposes one matrix; raises LinAlgError if it contains NaN or infinity."""
        if not np.isfinite(x).all():  # of which LAPACK says on the terminal that it is illegal
            raise np.linalg.LinAlgError
        if mode == "N":
            return np.linalg.svd(x, compute_uv=False), *(np.zeros(shape, dtype) for shape, dtype in types[1:])
        u, s, vt = np.linalg.svd(x, full_matrices=mode == "A")
        return s, u, vt

    return [a, *_each(one, a, types), _success(a)]


@routine("geev")
def geev(a: np.ndarray, **_: Any) -> list[np.ndarray]:
    """The eigenvalues of general matrices (two arrays for real matrices), and the left and right eigenvectors.

    A vector has length one and a largest entry that is real, as in NumPy.
    """
    wide = a.astype(np.result_type(a.dtype, np.complex64))
    types = [(a.shape[-1:], wide.dtype), (a.shape[-2:], wide.dtype), (a.shape[-2:], wide.dtype)]

    def one(x: np.ndarray) -> Sequence[np.ndarray]:
        """The eigenvalues, the left and the right eigenvectors of one matrix; the left ones are those of the adjoint, in the same
        order.
        """
        values, right = np.linalg.eig(x)
        others, left = np.linalg.eig(x.conj().T)  # the conjugate values, in an order of their own
        order = []
        distances = np.abs(values[:, None] - others.conj())
        for row in distances:
            order.append(int(np.argmin(row)))
            distances[:, order[-1]] = np.inf  # so that no other value selects the same vector
        left = left[:, order]
        if x.dtype.kind != "c":  # LAPACK has both from one triangular form, where the product of a pair is 1
            left = left * np.where(np.sum(left.conj() * right, axis=0).real < 0, -1, 1)
        return values, left, right

    values, left, right = _each(one, a, types)
    parts = [values] if a.dtype.kind == "c" else [values.real, values.imag]
    return [*parts, left, right, _success(a)]


@routine("gtsv")
def gtsv(lower: np.ndarray, diagonal: np.ndarray, upper: np.ndarray, b: np.ndarray, **_: Any) -> list[np.ndarray]:
    """The three diagonals unchanged, the solutions of the tridiagonal systems with right-hand sides `b`, and zeros for success.

    The method is elimination with exchanges of neighbouring rows. The first entry of the lower diagonal and the last of the upper
    one are not read.
    """
    stack, n = diagonal.shape[:-1], diagonal.shape[-1]
    rows = np.stack([diagonal, upper, np.zeros_like(diagonal)], axis=-1)  # the entries i, i + 1 and i + 2 of row i
    rows[..., n - 1 :, 1] = 0
    x = b.copy()
    for i in range(n - 1):
        # Row i and row i + 1, from column i on, each with its right-hand side.
        row = np.concatenate([rows[..., i, :], x[..., i, :]], axis=-1)
        next_row = np.concatenate([lower[..., i + 1, None], rows[..., i + 1, :2], x[..., i + 1, :]], axis=-1)
        is_swapped = (_size_of(next_row[..., :1])) > _size_of(row[..., :1])
        top, bottom = np.where(is_swapped, next_row, row), np.where(is_swapped, row, next_row)
        bottom = bottom - bottom[..., :1] / top[..., :1] * top
        rows[..., i, :], x[..., i, :] = top[..., :3], top[..., 3:]
        rows[..., i + 1, :2], x[..., i + 1, :] = bottom[..., 1:3], bottom[..., 3:]
    for i in reversed(range(n)):
        for k in range(1, min(3, n - i)):
            x[..., i, :] -= rows[..., i, k, None] * x[..., i + k, :]
        x[..., i, :] /= rows[..., i, 0, None]
    return [lower, diagonal, upper, x, np.zeros(stack, np.int32)]


def _size_of(x: np.ndarray) -> np.ndarray:
    """The size |real part| + |imaginary part| by which LAPACK compares pivots."""
    return np.abs(x.real) + np.abs(x.imag)


def _each(f: Callable[[np.ndarray], Sequence[np.ndarray]], a: np.ndarray, types: Sequence[Any]) -> list[np.ndarray]:
    """The results of `f` for each matrix of the stack `a`, with the pairs of shape and dtype `types`; NaN where `f` raises
    LinAlgError.
    """
    outs = [np.full((*a.shape[:-2], *shape), np.nan, dtype) for shape, dtype in types]
    for position in np.ndindex(a.shape[:-2]):
        try:
            results = f(a[position])
        except np.linalg.LinAlgError:
            continue
        for out, result in zip(outs, results, strict=True):
            out[position] = result
    return outs
