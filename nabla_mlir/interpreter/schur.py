"""Schur's form of matrices, and the reductions to Hessenberg's and to tridiagonal form, as LAPACK's calls have them.

Golub and Van Loan, Matrix Computations, sections 7.4 and 7.5: real matrices by Francis' double shifts, complex ones by
single shifts. Blocks of 2 x 2 are turned as LAPACK's lanv2 turns them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nabla_mlir.interpreter.lapack import letter_of, routine

MOST_STEPS = 30  # for each row; convergence takes two or three
EXCEPTIONAL = 10  # steps without progress, after which a shift of another kind breaks a cycle


@routine("gees")
def gees(a: np.ndarray, **_: Any) -> list[np.ndarray]:
    """The Schur form T and the unitary Z with A = Z T Zᴴ, the eigenvalues, and 1 for matrices that do not converge.

    Real matrices have two arrays of eigenvalues, the real and the imaginary parts. Without convergence, or for matrices with
    infinities or NaN, the results are NaN.
    """
    stack = a.reshape(math.prod(a.shape[:-2]), *a.shape[-2:])
    forms = [_schur(x) for x in stack]
    t, z = (np.array([form[k] for form in forms], a.dtype).reshape(a.shape) for k in (0, 1))
    info = np.isnan(t.real).any((-2, -1)).astype(np.int32)
    values = np.diagonal(t, axis1=-2, axis2=-1).copy()
    if a.dtype.kind == "c":
        return [t, z, values, np.zeros_like(info), info]
    below, above = (np.abs(np.diagonal(t, k, axis1=-2, axis2=-1)) for k in (-1, 1))
    # A block [[a, b], [c, a]] has the eigenvalues a ± i sqrt(|b c|).
    size, imaginary = np.sqrt(below) * np.sqrt(above), np.zeros_like(values)
    imaginary[..., :-1] += size
    imaginary[..., 1:] -= size
    return [t, z, values, imaginary, np.zeros_like(info), info]


@routine("gehrd")
def gehrd(a: np.ndarray, **_: Any) -> list[np.ndarray]:
    """The Hessenberg form of matrices with the reflections below it, the factors of the reflections, and zeros for success."""
    stack = a.reshape(math.prod(a.shape[:-2]), *a.shape[-2:]).copy()
    taus = [_hessenberg(x)[1] for x in stack]
    factors = np.array(taus, a.dtype).reshape(*a.shape[:-2], a.shape[-1] - 1)
    return [stack.reshape(a.shape), factors, np.zeros(a.shape[:-2], np.int32)]


@routine("sytrd")
@routine("hetrd")
def sytrd(a: np.ndarray, **parameters: Any) -> list[np.ndarray]:
    """The tridiagonal form of Hermitian matrices: the packed reflections, the diagonal, the off-diagonal, the factors, and zeros.

    `parameters` has the triangle that is read, "uplo". An upper triangle is reversed to a lower one first.
    """
    is_lower = letter_of(parameters, "uplo") == "L"
    x = a if is_lower else a[..., ::-1, ::-1]
    half = np.tril(x, -1)
    diagonal = x.real * np.eye(x.shape[-1], dtype=x.real.dtype)
    # The Hessenberg form of a Hermitian matrix is tridiagonal; `gehrd` reads both triangles.
    packed, taus, info = gehrd(half + np.conj(half.swapaxes(-1, -2)) + diagonal)
    main_diagonal, off_diagonal = (np.diagonal(packed, k, axis1=-2, axis2=-1).real.copy() for k in (0, -1))
    packed = np.tril(packed) + np.triu(x, 1)  # the other triangle stays as it was, as in LAPACK
    if is_lower:
        return [packed, main_diagonal, off_diagonal, taus, info]
    return [packed[..., ::-1, ::-1].copy(), *(v[..., ::-1].copy() for v in (main_diagonal, off_diagonal, taus)), info]


def _schur(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The Schur form T and the unitary Z of one matrix, by shifted QR steps.

    Both are NaN if the steps do not converge, or if the matrix has infinities or NaN.
    """
    if not np.isfinite(a).all():
        return np.full_like(a, np.nan), np.full_like(a, np.nan)
    n, is_real = len(a), a.dtype.kind == "f"
    largest = np.abs(a).max(initial=0)
    scale = largest if 0 < largest < np.inf else 1  # squares neither vanish nor overflow
    t, z = a / scale, np.eye(n, dtype=a.dtype)
    _reduce_to_hessenberg(t, z)
    age, before = 0, -1  # the steps since the last row of the active block changed, and that row
    for _ in range(MOST_STEPS * n):
        sizes, eps = np.abs(np.diagonal(t)), np.finfo(a.dtype).eps
        below = np.diagonal(t, -1)
        is_joined = np.abs(below) > eps * (sizes[1:] + sizes[:-1])
        t[range(1, n), range(n - 1)] = np.where(is_joined, below, 0)
        # The last rows of blocks that are not done: larger than 2 x 2 for real matrices, larger than 1 x 1 for complex ones.
        ends = np.flatnonzero(is_joined[1:] & is_joined[:-1]) + 2 if is_real else np.flatnonzero(is_joined) + 1
        if not len(ends):
            t, z = _standardised(t, z) if is_real else (t, z)
            return t * scale, z
        last = int(ends[-1])
        first = max((i for i in range(last) if i == 0 or not is_joined[i - 1]), default=0)
        age, before = (age + 1 if last == before else 0), last
        _shift(t, z, first, last, age == EXCEPTIONAL)
        age = 0 if age == EXCEPTIONAL else age
    return np.full_like(t, np.nan), np.full_like(z, np.nan)


def _shift(t: np.ndarray, z: np.ndarray, first: int, last: int, is_stuck: bool) -> None:
    """Applies one shifted QR step to the rows `first` to `last` of T, in place, and multiplies Z by the transformation.

    x is the first column of T - shift for complex matrices (the shift is the eigenvalue of the last 2 x 2 block that is nearer to
    s), and of T² - total T + product for real ones (trace and determinant of that block). A reflection of x is applied, then T is
    reduced to Hessenberg form again. `is_stuck` selects an exceptional shift, after many steps without convergence.
    """
    inner = t[first : last + 1, first : last + 1]
    (p, q), (r, s) = t[last - 1 : last + 1, last - 1 : last + 1]
    unit = np.eye(1, len(inner), dtype=t.dtype)[0]
    if t.dtype.kind == "c":
        half = (p - s) / 2
        root = np.sqrt(half * half + q * r)
        larger = half + root if abs(half + root) >= abs(half - root) else half - root
        x = inner[:, 0] - (s + abs(r) if is_stuck else s - (q * r / larger if larger else 0)) * unit
    else:
        far = abs(r) + abs(t[last - 1, last - 2])
        centre = s + 0.75 * far
        total, product = (2 * centre, centre**2 + 0.4375 * far**2) if is_stuck else (p + s, p * s - q * r)
        x = inner @ inner[:, 0] - total * inner[:, 0] + product * unit
    v, tau, _ = _reflection(x)
    _apply_reflection(t, z, v, tau, first)
    _reduce_to_hessenberg(t, z)


def _reduce_to_hessenberg(t: np.ndarray, z: np.ndarray) -> None:
    """Reduces T to Hessenberg form, in place, and multiplies Z by the transformation."""
    for j in range(len(t) - 2):
        if t[j + 2 :, j].any():
            v, tau, beta = _reflection(t[j + 1 :, j])
            _apply_reflection(t, z, v, tau, j + 1)
            t[j + 1, j], t[j + 2 :, j] = beta, 0


def _hessenberg(a: np.ndarray) -> tuple[np.ndarray, list[Any]]:
    """The matrix `a`, reduced in place to Hessenberg form, and the factors tau of the reflections.

    As in LAPACK, the vector of reflection j is stored in column j below the Hessenberg form, without its first element, 1.
    """
    taus = []
    for j in range(len(a) - 1):
        v, tau, beta = _reflection(a[j + 1 :, j])
        a[:, j + 1 :] -= np.outer(a[:, j + 1 :] @ v, tau * np.conj(v))
        a[j + 1 :, j + 1 :] -= np.outer(np.conj(tau) * v, np.conj(v) @ a[j + 1 :, j + 1 :])
        a[j + 1, j], a[j + 2 :, j] = beta, v[1:]
        taus.append(tau)
    return a, taus


def _apply_reflection(t: np.ndarray, z: np.ndarray, v: np.ndarray, tau: Any, first: int) -> None:
    """Replaces t by Hᴴ t H and z by z H, in place, where H = 1 - tau v vᴴ acts on the rows from `first` on."""
    rows = slice(first, first + len(v))
    for x in (t, z):
        x[:, rows] -= np.outer(x[:, rows] @ v, tau * np.conj(v))
    t[rows] -= np.outer(np.conj(tau) * v, np.conj(v) @ t[rows])


def _reflection(x: np.ndarray) -> tuple[np.ndarray, Any, Any]:
    """The reflection 1 - tau v vᴴ whose adjoint maps x to beta times the first unit vector, as (v, tau, beta); v[0] is 1."""
    unit = np.eye(1, len(x), dtype=x.dtype)[0]
    if not x[1:].any() and np.imag(x[0]) == 0:
        return unit, x.dtype.type(0), x[0]
    size = np.abs(x).max()
    norm = size * np.linalg.norm(x / size)
    beta = x.dtype.type(-norm if np.real(x[0]) > 0 else norm)
    v = x / (x[0] - beta)
    v[0] = 1
    return v, (beta - x[0]) / beta, beta


def _standardised(t: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The Schur factors T and Z in LAPACK's standard form.

    Blocks of 2 x 2 with real eigenvalues become triangular; the others get two equal elements on the diagonal. A block is [[a, b],
    [c, d]] with p = (a - d) / 2; its eigenvalues are real if p² + b c >= 0, and then (x, y) is an eigenvector, the first column of
    the rotation.
    """
    for i in np.flatnonzero(np.diagonal(t, -1)):
        pair = slice(i, i + 2)
        (a, b), (c, d) = t[pair, pair]
        p = (a - d) / 2
        product = p * p + b * c
        if product >= 0:
            x, y = p + math.copysign(math.sqrt(product), p), c
        else:
            total = b + c
            length = math.hypot(total, 2 * p)
            x = math.sqrt(0.5 + 0.5 * (abs(total) / length)) if length else 1.0
            y = -math.copysign(p / (length * x), p * total) if length else 0.0
        cosine, sine = x / math.hypot(x, y), y / math.hypot(x, y)
        rotation = np.array([[cosine, -sine], [sine, cosine]], t.dtype)
        t[:, pair], z[:, pair] = t[:, pair] @ rotation, z[:, pair] @ rotation
        t[pair] = rotation.T @ t[pair]
        t[i + 1, : i + (product >= 0)] = 0
        t[i, :i] = 0
        if product >= 0:
            t[i + 1, i] = 0
        else:
            t[i, i] = t[i + 1, i + 1] = (t[i, i] + t[i + 1, i + 1]) / 2
    return t, z
