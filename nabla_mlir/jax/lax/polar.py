"""The polar decomposition by Halley's iteration with weights (Nakatsukasa, Bai and Gygi 2010), without singular values.

Derivatives follow from ``x = u h``, not from the iteration. With m = u^H dx, the skew matrix w solves the Sylvester equation
``h w + w h = m - m^H``; then dh = m - w h and du = u w + (dx - u m) h^-1.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.jax.scipy.schur_forms import solve_sylvester
from nabla_mlir.numpy.creation import eye
from nabla_mlir.numpy.factorizations import cholesky, matrices, qr
from nabla_mlir.numpy.joining import concatenate
from nabla_mlir.numpy.logic import where
from nabla_mlir.numpy.operands import convert
from nabla_mlir.numpy.products import matmul
from nabla_mlir.numpy.systems import solve, triangular_solve
from nabla_mlir.numpy.ufuncs import absolute, sqrt
from nabla_mlir.ops import linalg as la
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import Defaults
from nabla_mlir.table.tensor import Tensor, full
from nabla_mlir.transforms.control import while_loop
from nabla_mlir.transforms.custom import custom_jvp

_BY_QR = 100.0  # above this weight an inverse by Cholesky factors loses digits
_MOST = 10  # the largest number of iterations; six are enough in f64


def _weights(least: float, tolerance: float, most: int) -> list[tuple[float, float, float]]:
    """The weights (a, b, c) of each iteration, until all singular values from [least, 1] are 1 within the tolerance.

    An iteration maps a singular value s to s (a + b s²) / (1 + c s²), and `least` to its new lower bound.
    """
    weights: list[tuple[float, float, float]] = []
    while least + tolerance < 1 and len(weights) < most:
        square = least * least
        d = (4 * (1 / square - 1) / square) ** (1 / 3)
        root = (1 + d) ** 0.5
        a = root + (2 - d + 2 * (2 - square) / (square * root)) ** 0.5
        b = (a - 1) ** 2 / 4
        weights.append((a, b, a + b - 1))
        least *= (a + b * square) / (1 + (a + b - 1) * square)
    return weights


def _step(u: Tensor, a: float, b: float, c: float) -> Tensor:
    """One weighted iteration: ``u (a + b u^H u) (1 + c u^H u)^-1``.

    It is the sum of a multiple of u and a term from a factorisation: QR for large c, otherwise Cholesky.
    """
    n, first = u.shape[-1], b / c
    if c > _BY_QR:
        q, _ = qr(concatenate([u * c**0.5, eye(n, dtype=u.dtype)]))
        return u * first + matmul(q[:-n], la.adjoint(q[-n:])) * ((a - first) / c**0.5)
    factor = cholesky(matmul(la.adjoint(u), u) * c + eye(n, dtype=u.dtype))
    inner = triangular_solve(factor, la.adjoint(u), lower=True)
    outer = triangular_solve(factor, inner, lower=True, transpose_a=True, conjugate_a=True)
    return u * first + la.adjoint(outer) * (a - first)


def _norm(x: Tensor) -> Tensor:
    """The Frobenius norm of a matrix."""
    return sqrt((absolute(x) ** 2).sum())


def _iteration(x: Tensor, eps: float, most: int) -> tuple[Tensor, Tensor, Tensor]:
    """The unitary factor u of x, the number of iterations, and True if the last iteration changed nothing."""
    tolerance = 5.0 * eps
    size = sqrt(absolute(x).sum(0).max() * absolute(x).sum(1).max())
    u = x / convert(where(size == 0.0, 1.0, size), x.dtype)
    weights, moves = _weights(eps, tolerance, most), full((), 1, np.dtype(bool))
    for w in weights:
        before, u = u, _step(u, *w)
        if w[-1] <= _BY_QR:
            moves = _norm(u - before) > tolerance ** (1 / 3)

    def body(state: Any) -> Any:
        k, before, _ = state
        u = _step(before, 3.0, 1.0, 3.0)
        return k + 1, u, _norm(u - before) > tolerance ** (1 / 3)

    start = full((), len(weights), Defaults.int), u, moves
    count, u, moves = while_loop(lambda state: state[2] & (state[0] < most), body, start)
    return u * 1.5 - matmul(u, matmul(la.adjoint(u), u)) * 0.5, count, ~moves


@functools.partial(custom_jvp, nondiff_argnums=(1, 2))
def _polar(x: Tensor, eps: float, most: int) -> Any:
    """The factors u and h of ``x = u h``, the number of iterations, and True if the iterations converged."""
    u, count, ends = _iteration(x, eps, most)
    h = matmul(la.adjoint(u), x)
    return u, (h + la.adjoint(h)) * 0.5, count, ends


@_polar.defjvp
def _polar_jvp(eps: float, most: int, primals: Any, tangents: Any) -> Any:
    """The factors u and h of ``x = u h``, the number of iterations, and True if they converged; and the tangents of u and h.

    The formulas are in the docstring of the module.
    """
    u, h, count, ends = _polar(*primals, eps, most)
    (x_dot,) = tangents
    m = matmul(la.adjoint(u), x_dot)
    w = solve_sylvester(h, h, m - la.adjoint(m))
    h_dot, rest = m - matmul(w, h), x_dot - matmul(u, m)
    u_dot = matmul(u, w) + la.adjoint(solve(h, la.adjoint(rest)))
    return (u, h, count, ends), (u_dot, (h_dot + la.adjoint(h_dot)) * 0.5, None, None)


@library
def qdwh(
    x: Any, *, is_hermitian: Static[bool] = False, max_iterations: Static[int | None] = None, eps: Static[float | None] = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The polar decomposition ``x = u h``: u has orthonormal columns, and h is positive semidefinite.

    Args:
      x: a matrix of full rank with at least as many rows as columns.
      is_hermitian: not used, as in JAX.
      max_iterations: the largest number of iterations; None means 10.
      eps: the assumed smallest singular value relative to the largest, and a fifth of the tolerance of convergence; None
        means the machine epsilon.

    Returns:
      u, h, the number of iterations, and True if the last iteration changed nothing.

    Raises:
      ShapeError: x is not a matrix, or it has more columns than rows.

    Example:
      >>> u, h, *_ = qdwh(np.array([[3.0, 0.0], [0.0, -2.0]]))
      >>> abs(u).round(6).tolist(), abs(h).round(6).tolist()
      ([[1.0, 0.0], [0.0, 1.0]], [[3.0, 0.0], [0.0, 2.0]])
    """
    a = matrices("qdwh", x)
    if a.ndim != 2 or a.shape[0] < a.shape[1]:
        raise ShapeError(
            f"qdwh requires a matrix with at least as many rows as columns, got shape {a.shape}.",
            where=user_frame(),
            help="pass the transposed matrix; nm.vmap takes stacks.",
        )
    least = float(np.finfo(a.dtype).eps) if eps is None else eps
    return tuple(_polar(a, least, _MOST if max_iterations is None else max_iterations))
