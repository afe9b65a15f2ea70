"""Derivatives and batches of LAPACK's geev (eigenvalues and eigenvectors of general matrices); batches of LAPACK's reductions.

With A V = V W and P = inv(V) A' V, the derivative of the eigenvalues is the diagonal of P, and the derivative of the vectors
is V (P_ij / (w_j - w_i)), up to one factor for each vector. The normalisation fixes that factor: length one, and the largest
entry real (Giles 2008, section 3.1).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nabla_mlir.dialects.types import is_complex
from nabla_mlir.ops.blocks import diagonal_of, in_columns, in_rows, rotation
from nabla_mlir.ops.elementwise import absolute, conj, convert, imag, make_complex, real
from nabla_mlir.ops.lapack import cubic, option, register_routine, routine, solver
from nabla_mlir.ops.linalg import adjoint, identity_like, mask_like, matmul
from nabla_mlir.ops.logic import compare, logical_and, select
from nabla_mlir.ops.reduction import reduce
from nabla_mlir.ops.shape import iota, reduce_sum
from nabla_mlir.table.rules import ZERO, MaybeZero, MaybeZeros, Tensors, sole
from nabla_mlir.table.tensor import Tensor, full, full_like


def _geev(outs: Tensors, xs: Tensors, tangents: MaybeZeros, *, config: Any, target: str, **_: Any) -> list[MaybeZero]:
    """The tangents of the eigenvalues and of the left and right vectors that were computed, of matrices xs[0] with tangents.

    `config` holds the options of the call, and `target` is the name of the routine. `outs` are the results.
    """
    a = xs[0]
    split = not is_complex(a.dtype)  # the eigenvalues come in two parts
    *values, left, right, _info = outs
    wants = {side: option(config, f"compute_{side}") == "V" for side in ("left", "right")}
    if not wants["right"]:
        results = [(y.shape, y.dtype) for y in outs]
        *values, _left, right, _info = routine(target, xs, results, compute_left="N", compute_right="V")
    w = make_complex(*values) if split else values[0]
    da = convert(sole(tangents), dtype=w.dtype) if split else sole(tangents)
    inner = _in_basis(w, right, da)
    dw = diagonal_of(inner)
    out_tangents: list[MaybeZero] = [real(dw), imag(dw)] if split else [dw]
    dleft: MaybeZero = ZERO
    if wants["left"]:  # left vectors are right vectors of the adjoint, whose eigenvalues are conjugate
        dleft = _vectors(conj(w), left, _in_basis(conj(w), left, adjoint(da)))
    return [*out_tangents, dleft, _vectors(w, right, inner) if wants["right"] else ZERO, ZERO]


def _in_basis(w: Tensor, v: Tensor, da: Tensor) -> Tensor:
    """inv(v) A' v for the tangent A' = `da` of a matrix with eigenvalues `w` and vectors `v`.

    A column is NaN if its eigenvalue has no derivative.
    """
    inverse = solver(v)(identity_like(v))
    return matmul(inverse, matmul(da, v)) * in_columns(_nan_if_defective(w, inverse), w.shape[-1])


def _nan_if_defective(w: Tensor, inverse: Tensor) -> Tensor:
    """NaN for eigenvalues `w` that have no derivative, or one without digits, and 1 for others.

    The rows of `inverse`, the inverse of the eigenvectors, give the condition numbers of the eigenvalues. If the vectors of equal
    eigenvalues are dependent, rounding splits both: the gap of the eigenvalues is their rounding error times the condition number.
    Of 400 random defective matrices of 2 to 5 rows, 2 % are not recognised with the bound 100, and no random matrix is refused.
    """
    n = w.shape[-1]
    distance = absolute(in_columns(w, n) - in_rows(w, n))
    distance = select(mask_like(distance, "NE"), distance, full_like(distance, np.inf))
    gap = reduce(distance, full((), np.inf, distance.dtype), dimensions=(w.ndim,), body="min")
    condition, size = (
        reduce(x, full((), 0, x.dtype), dimensions=(w.ndim,), body="max") for x in (absolute(inverse), in_columns(absolute(w), n))
    )
    eps = float(np.finfo(gap.dtype).eps)
    is_ill = compare(condition, full_like(condition, 0.01 * eps**-0.5), comparison_direction="GT")
    is_near = compare(condition * size * (100 * eps), gap, comparison_direction="GE")
    return select(logical_and(is_ill, is_near), full_like(w, np.nan), full_like(w, 1))


def _vectors(w: Tensor, v: Tensor, inner: Tensor) -> Tensor:
    """The tangents of eigenvectors of length one whose largest entries are real.

    Args:
      w: the eigenvalues.
      v: the eigenvectors, in columns.
      inner: inv(v) A' v, for the tangent A' of the matrix.
    """
    n, rows = w.shape[-1], v.ndim - 2
    motion = matmul(v, rotation(inner, in_columns(w, n) - in_rows(w, n)))
    # The row of the largest entry in each column, the first one of equal entries; n stands for all rows that are not.
    size = absolute(v)
    longest = in_columns(reduce(size, full((), 0, size.dtype), dimensions=(rows,), body="max"), n)
    row = iota(shape=v.shape, dtype=np.dtype(np.int32), iota_dimension=rows)
    last = full(v.shape, n, row.dtype)
    candidates = select(compare(size, longest, comparison_direction="EQ"), row, last)
    first = in_columns(reduce(candidates, full((), n, row.dtype), dimensions=(rows,), body="min"), n)
    is_first = compare(row, first, comparison_direction="EQ")

    def entry(x: Tensor) -> Tensor:
        """The elements of `x` at the largest entries of the eigenvectors, one for each column."""
        return reduce_sum(select(is_first, x, full(x.shape, 0, x.dtype)), (rows,))

    # `motion` is a tangent of vectors of any length and phase. The multiple `factor` of v is added to it: the real part keeps the
    # length one, and the imaginary part keeps the largest entry real.
    along = reduce_sum(real(conj(v) * motion), (rows,))
    factor = make_complex(-along, -entry(imag(motion)) / entry(real(v)))
    return motion + v * in_columns(factor, n)


register_routine("geev", _geev, cubic(25))
# These reductions are not unique, and no convention makes them so; therefore they have no derivative.
for _routine, _work in (("gees", 25), ("gehrd", 10 / 3), ("sytrd", 4 / 3), ("hetrd", 4 / 3)):
    register_routine(_routine, None, cubic(_work))
