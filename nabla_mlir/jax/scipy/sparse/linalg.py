"""Iterative solvers of linear equations under the names of `scipy.sparse.linalg`, differentiated implicitly."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.dialects.types import is_complex
from nabla_mlir.jax.flatten_util import ravel_pytree
from nabla_mlir.jax.scipy.linalg import solve_triangular
from nabla_mlir.staging.eager import staged
from nabla_mlir.transforms.control import fori_loop, while_loop
from nabla_mlir.transforms.implicit import custom_linear_solve

Linear = Callable[[Any], Any]


def cg(A: Any, b: Any, x0: Any = None, *, tol: float = 1e-5, atol: float = 0.0, maxiter: int | None = None, M: Any = None) -> Any:
    """Solves ``A x = b`` for a symmetric (Hermitian) positive definite A by conjugate gradients.

    Args:
      A: a matrix, or a linear function of pytrees like `b`.
      b: the right-hand side, a pytree of arrays.
      x0: the start, a pytree like `b`; the default is zeros. The derivative by it is zero.
      tol, atol: the iteration ends if ``|b - A x| <= max(tol |b|, atol)``.
      maxiter: the largest number of iterations; the default is 10 for each unknown.
      M: an approximate inverse of A, a matrix or a function.

    Returns:
      x, and None instead of the exit code of SciPy. Derivatives are implicit: ``dx = A^-1 (db - dA x)`` needs one more solve.

    Example:
      >>> import numpy as np
      >>> cg(np.diag([2.0, 4.0]), np.array([2.0, 2.0]))[0].tolist()
      [1.0, 0.5]
    """
    return _solved(_cg, A, b, x0, tol, atol, maxiter, M, symmetric=True), None


def bicgstab(
    A: Any, b: Any, x0: Any = None, *, tol: float = 1e-5, atol: float = 0.0, maxiter: int | None = None, M: Any = None
) -> Any:
    """Solves ``A x = b`` for any A by stabilised biconjugate gradients; arguments and results are those of `cg`.

    Example:
      >>> import numpy as np
      >>> bicgstab(np.array([[2.0, 1.0], [0.0, 4.0]]), np.array([3.0, 4.0]))[0].round(5).tolist()
      [1.0, 1.0]
    """
    return _solved(_bicgstab, A, b, x0, tol, atol, maxiter, M), None


def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
    M: Any = None,
    solve_method: str = "batched",
) -> Any:
    """Solves ``A x = b`` for any A by generalised minimal residuals; the other arguments are those of `cg`.

    Args:
      restart: the dimension of the Krylov space at which the iteration restarts; `maxiter` counts restarts.
      solve_method: "batched" or "incremental"; both give the same algorithm.

    Returns:
      x, and 0; or -1 if x is not finite.

    Raises:
      ShapeError: the method is unknown.

    Example:
      >>> import numpy as np
      >>> gmres(np.array([[2.0, 1.0], [0.0, 4.0]]), np.array([3.0, 4.0]))[0].round(5).tolist()
      [1.0, 1.0]
    """
    if solve_method not in ("batched", "incremental"):
        raise ShapeError(f"gmres requires solve_method batched or incremental, got {solve_method!r}.", where=user_frame())
    x = _solved(functools.partial(_gmres, restart), A, b, x0, tol, atol, maxiter, M)
    flat = ravel_pytree(x)[0]
    return x, nnp.where(nnp.isfinite(flat).all(), 0, -1)


def _solved(
    method: Callable[..., Any],
    A: Any,
    b: Any,
    x0: Any,
    tol: float,
    atol: float,
    maxiter: int | None,
    M: Any,
    symmetric: bool = False,
) -> Any:
    """The solution of A x = b, for pytrees, by `method`, a function of vectors; a pytree like `b`.

    The other parameters are those of `cg`; `symmetric` says that A is.
    """

    def run(b: Any, x0: Any) -> Any:
        """Solves the equation of vectors, and converts the solution to a pytree."""
        vector, unravel = ravel_pytree(b)
        start = nnp.zeros_like(vector) if x0 is None else ravel_pytree(x0)[0].astype(vector.dtype)
        steps = 10 * vector.size if maxiter is None else maxiter
        inverse = None if M is None else _linear(M, unravel)

        def solve(matvec: Linear, b: Any) -> Any:
            """The solution of a system of vectors by the method, from the start on."""
            limit = nnp.maximum(tol * nnp.linalg.norm(b), atol)
            return method(matvec, b, start, limit, steps, (lambda v: v) if inverse is None else inverse)

        is_symmetric = symmetric and not is_complex(vector.dtype)
        return unravel(custom_linear_solve(_linear(A, unravel), vector, solve, None if is_symmetric else solve, is_symmetric))

    return staged(run)(b, x0)


def _linear(a: Any, unravel: Callable[[Any], Any]) -> Linear:
    """A function from vectors to vectors, for the matrix or linear function of pytrees `a`; `unravel` makes a pytree from
    a vector.
    """
    apply = a if callable(a) else functools.partial(nnp.matmul, nnp.asarray(a))
    return lambda v: ravel_pytree(apply(unravel(v)))[0].astype(v.dtype)


def _cg(matvec: Linear, b: Any, x: Any, limit: Any, maxiter: int, inverse: Linear) -> Any:
    """The solution that conjugate gradients reach from x; ends at a residual of at most `limit` or after `maxiter` iterations.

    `matvec` multiplies by the matrix, and `inverse` by the preconditioner.
    """

    def step(state: Any) -> Any:
        """One iteration of conjugate gradients: updates the solution x, the residual r, and the direction p."""
        x, r, z, p, k = state
        q, rz = matvec(p), nnp.vdot(r, z)
        alpha = rz / nnp.vdot(p, q)
        x, r = x + alpha * p, r - alpha * q
        z = inverse(r)
        return x, r, z, z + (nnp.vdot(r, z) / rz) * p, k + 1

    r = b - matvec(x)
    z = inverse(r)
    return while_loop(lambda s: (nnp.linalg.norm(s[1]) > limit) & (s[4] < maxiter), step, (x, r, z, z, 0))[0]


def _bicgstab(matvec: Linear, b: Any, x: Any, limit: Any, maxiter: int, inverse: Linear) -> Any:
    """The solution that the stabilised biconjugate gradient method reaches from x, in at most `maxiter` steps.

    It ends when the norm of the residual is at most `limit`. `matvec` multiplies by the matrix, and `inverse` by the
    preconditioner.
    """

    def step(state: Any) -> Any:
        """One iteration: a step along the direction p, then a step that minimises the residual.

        With the names of the literature: x is the solution, r the residual, rho = shadow · r, alpha and omega the lengths of the
        two steps, and beta the share of the old direction in the new one. y and z are the preconditioned p and s.
        """
        x, r, p, rho, k = state
        y = inverse(p)
        v = matvec(y)
        alpha = rho / nnp.vdot(shadow, v)
        s = r - alpha * v
        z = inverse(s)
        t = matvec(z)
        tt = nnp.vdot(t, t)
        omega = nnp.where(tt == 0, 0, nnp.vdot(t, s) / nnp.where(tt == 0, 1, tt))
        x, r = x + alpha * y + omega * z, s - omega * t
        following = nnp.vdot(shadow, r)
        beta = nnp.where(omega == 0, 0, following / rho * (alpha / nnp.where(omega == 0, 1, omega)))
        return x, r, r + beta * (p - omega * v), following, k + 1

    shadow = b - matvec(x)
    start = (x, shadow, shadow, nnp.vdot(shadow, shadow), 0)
    return while_loop(lambda s: (nnp.linalg.norm(s[1]) > limit) & (s[4] < maxiter), step, start)[0]


def _gmres(restart: int, matvec: Linear, b: Any, x: Any, limit: Any, maxiter: int, inverse: Linear) -> Any:
    """The solution that GMRES reaches from x; ends at a residual of at most `limit` or after `maxiter` cycles of `restart` basis
    vectors.

    `matvec` multiplies by the matrix, and `inverse` by the preconditioner.
    """
    count = min(restart, b.size)
    eps = nnp.finfo(b.dtype).eps

    def direction(j: Any, state: Any) -> Any:
        """The basis of the Krylov space with vector j + 1, orthogonal to the earlier ones, and the Hessenberg matrix with
        column j.
        """
        basis, hessenberg = state
        w = matvec(inverse(basis[j]))
        size = nnp.linalg.norm(w)
        column = nnp.zeros(count + 1, b.dtype)
        for _ in range(2):  # twice is enough to be orthogonal
            part = basis.conj() @ w
            column, w = column + part, w - part @ basis
        length = nnp.linalg.norm(w)
        is_new = length > eps * size
        basis = basis.at[j + 1].set(nnp.where(is_new, w / nnp.where(is_new, length, 1), 0))
        return basis, hessenberg.at[:, j].set(column.at[j + 1].set(nnp.where(is_new, length, 0)))

    def cycle(state: Any) -> Any:
        """One cycle of GMRES: a basis of the Krylov space, then the least-squares solution in it."""
        x, r, k = state
        length = nnp.linalg.norm(r)
        basis = nnp.zeros((count + 1, b.size), b.dtype).at[0].set(r / length)
        basis, hessenberg = fori_loop(0, count, direction, (basis, nnp.zeros((count + 1, count), b.dtype)))
        q, upper = nnp.linalg.qr(hessenberg)
        diagonal = nnp.diagonal(upper)
        is_full = nnp.abs(diagonal) > eps * nnp.abs(upper).max()  # columns after the dimension of the Krylov space are zero
        right = nnp.where(is_full, length * q[0].conj(), 0)
        upper = upper + nnp.diag(nnp.where(is_full, 0, 1 - diagonal))
        weights = solve_triangular(upper, right)
        x = x + inverse(weights @ basis[:-1])
        return x, b - matvec(x), k + 1

    start = (x, b - matvec(x), 0)
    return while_loop(lambda s: (nnp.linalg.norm(s[1]) > limit) & (s[2] < maxiter), cycle, start)[0]
