"""Pseudo-inverses of matrices, and the singular values that count; matrices are the last two axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.numpy import extrema
from nabla_mlir.numpy.factorizations import hermitian as hermitian_part
from nabla_mlir.numpy.factorizations import matrices, square, svd
from nabla_mlir.numpy.operands import convert, tensor
from nabla_mlir.numpy.systems import scaled
from nabla_mlir.ops import linalg as la
from nabla_mlir.ops import logic as lg
from nabla_mlir.ops.autodiff import stop_gradient
from nabla_mlir.ops.shape import reshaped
from nabla_mlir.staging.eager import library
from nabla_mlir.table.promotion import broadcast_to
from nabla_mlir.table.tensor import Tensor, full_like
from nabla_mlir.transforms.custom import custom_jvp


@library
def pinv(a: ArrayLike, rtol: Any = None, hermitian: bool = False, *, rcond: Any = None) -> Tensor:
    """The pseudo-inverse; singular values below ``rtol * largest`` count as zero.

    The derivatives assume a constant rank (Golub and Pereyra 1973); the value uses the singular value decomposition.

    Args:
      a: matrices of shape (..., m, n).
      rtol: a number, or one for each matrix; None means 10 max(m, n) times the machine epsilon.
      hermitian: True uses the Hermitian part of `a`, which must be square.
      rcond: the older name of `rtol` in NumPy.

    Raises:
      ShapeError: `a` has fewer than two axes, or both `rtol` and `rcond` are given.

    Example:
      >>> import numpy as np
      >>> np.asarray(pinv(np.array([[2.0], [0.0]]))).round(6).tolist()
      [[0.5, 0.0]]
    """
    if rtol is not None and rcond is not None:
        raise ShapeError(f"pinv requires either rtol or rcond, got {rtol} and {rcond}.", where=user_frame())
    a = hermitian_part(square("pinv", a)) if hermitian else matrices("pinv", a)
    if not a.size:
        return la.adjoint(a)
    rcond = rtol if rcond is None else rcond
    rcond = 10 * max(a.shape[-2:]) * float(np.finfo(a.dtype).eps) if rcond is None else rcond
    u, s, vh = svd(stop_gradient(a), full_matrices=False)
    return pseudo_inverse(a, u, s, vh, rcond)


def pseudo_inverse(a: Tensor, u: Tensor, s: Tensor, vh: Tensor, rtol: Any) -> Tensor:
    """The pseudo-inverse of `a` from its singular value decomposition u s vh; only `a` is differentiated.

    Singular values up to `rtol` times the largest count as 0.
    """
    counts = significant(s, rtol)
    one = full_like(s, 1)
    inverse = lg.select(counts, 1.0 / lg.select(counts, s, one), full_like(s, 0))
    if a.shape[-2] >= a.shape[-1]:
        return _of_tall(a, *map(stop_gradient, (u, inverse, vh)))
    return la.adjoint(_of_tall(la.adjoint(a), *map(stop_gradient, (la.adjoint(vh), inverse, la.adjoint(u)))))


@custom_jvp
def _of_tall(a: Tensor, u: Tensor, inverse: Tensor, vh: Tensor) -> Tensor:
    """V S^+ U^H: the pseudo-inverse of a matrix with at least as many rows as columns."""
    return la.matmul(scaled(la.adjoint(vh), inverse), la.adjoint(u))


@_of_tall.defjvp
def _of_tall_jvp(primals: Any, tangents: Any) -> tuple[Tensor, Tensor]:
    """The pseudo-inverse P of a tall matrix, and its tangent, by products that are not larger than P.

    ``P' = -P A' P + P P^H A'^H (I - A P) + (I - P A) A'^H P^H P``.
    """
    a, da = primals[0], tangents[0]
    p = _of_tall(*primals)
    inner = la.matmul(p, da)
    outer = la.matmul(la.matmul(p, la.adjoint(p)), la.adjoint(da))
    swap = la.adjoint(inner)
    middle = swap - inner - la.matmul(outer, a) - la.matmul(la.matmul(p, a), swap)
    return p, outer + la.matmul(middle, p)


def significant(s: Tensor, rtol: Any) -> Tensor:
    """The mask of the singular values `s` above ``rtol * largest``; `rtol` is a number, or one for each matrix."""
    rtol = convert(tensor(rtol), s.dtype)
    if rtol.ndim:
        rtol = reshaped(rtol, (*rtol.shape, 1))
    return lg.compare(s, broadcast_to(extrema.max(s, -1, keepdims=True) * rtol, s.shape), comparison_direction="GT")
