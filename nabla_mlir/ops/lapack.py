"""Derivatives and batches of LAPACK's routines, under the names of JAX's custom calls.

Each formula follows from differentiating the factorisation and splitting the result into its triangles: Giles (2008)
has the general method, Murray (2016) Cholesky. All routines accept stacks of matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects import builder
from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.types import is_complex
from nabla_mlir.ops.blocks import as_dtype, block, diagonal_of, imaginary_part, in_columns, in_rows, padded, real_part, rotation
from nabla_mlir.ops.custom_call import batch_of_leading_axes, call, layouts_of, register_custom_call
from nabla_mlir.ops.gather import along_axis, rows_at
from nabla_mlir.ops.linalg import (
    adjoint,
    cholesky_tangent,
    identity_like,
    matmul,
    on_diagonal,
    symmetric_part,
    triangular_solve,
    tril,
)
from nabla_mlir.ops.logic import compare, select
from nabla_mlir.ops.shape import broadcast_in_dim, iota, reduce_sum
from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.table.rules import ZERO, Jvp, MaybeZero, MaybeZeros, Tensors, Zero, as_rule, sole
from nabla_mlir.table.tensor import Tensor, full_like, wrap
from nabla_mlir.table.vectorized import apply_per_entry

Spec = tuple[tuple[int, ...], np.dtype]

# ---------------------------------------------------------------- calls and their options


def routine(
    target: str, xs: Sequence[Tensor], results: Sequence[Spec], stack: int | None = None, **options: str | int
) -> list[Tensor]:
    """Emits a call of a routine of LAPACK, with column-major matrices; the matrices of a stack follow one another in memory.

    Args:
      target: the name of the custom call.
      xs: the operands.
      results: the shapes and dtypes of the results.
      stack: the number of leading stack axes; by default all axes of the first operand but the last two.
      options: options of the routine: letters or integers.
    """
    stack = xs[0].ndim - 2 if stack is None else stack
    order = lambda shape: (*range(stack, len(shape)), *reversed(range(stack)))  # noqa: E731
    return call(
        target,
        xs,
        results,
        operand_layouts=layouts_of([order(x.shape) for x in xs]),
        result_layouts=layouts_of([order(shape) for shape, _ in results]),
        **{"mhlo.backend_config": _config(**options)},
    )


def option(config: ir.Attribute, key: str) -> str:
    """A one-letter option of a call of LAPACK, such as uplo="L"."""
    return chr(config[key].value & 0xFF)


def _config(**options: str | int) -> ir.Attribute:
    """The attribute of the options of a routine; a letter is encoded as its code."""
    text = ", ".join(f"{k} = {v} : i32" if isinstance(v, int) else f"{k} = {ord(v)} : ui8" for k, v in options.items())
    return ir.Attribute.parse(f"{{{text}}}", context())


# ---------------------------------------------------------------- Cholesky, triangular systems


def _potrf(outs: Tensors, xs: Tensors, tangents: MaybeZeros, *, config: Any, **_: Any) -> list[MaybeZero]:
    """The forward rule of the Cholesky factorisation."""
    return [cholesky_tangent(outs[0], sole(tangents), option(config, "uplo") == "L"), ZERO]


def _triangular_params(config: Any) -> dict[str, Any]:
    """The parameters of a `stablehlo.triangular_solve`, from the options `config` of LAPACK's trsm."""
    transpose_a = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}[option(config, "trans_x")]
    return {
        "left_side": option(config, "side") == "L",
        "lower": option(config, "uplo") == "L",
        "unit_diagonal": option(config, "diag") == "U",
        "transpose_a": transpose_a,
    }


def _trsm(outs: Tensors, xs: Tensors, tangents: MaybeZeros, *, config: Any, **_: Any) -> Sequence[MaybeZero]:
    return as_rule(triangular_solve.jvp)(outs, xs, tangents, **_triangular_params(config))


def _trsm_batch(xs: Tensors, mapped: Sequence[bool], size: int, **params: Any) -> list[Tensor]:
    return list(as_rule(triangular_solve.batch)(xs, mapped, size, **_triangular_params(params["mhlo.backend_config"])))


# ---------------------------------------------------------------- LU


def _getrf(outs: Tensors, xs: Tensors, tangents: MaybeZeros, **_: Any) -> list[MaybeZero]:
    """The tangents of L and U, which are stored in one array, and zeros for the pivots and the code of success.

    P A = L U gives inv(L) P A' inv(U) = inv(L) L' + U' inv(U), a lower and an upper triangle. `outs` are the results.
    """
    lu, pivots = outs[:2]
    m, n = lu.shape[-2:]
    k = min(m, n)
    # L and U are extended to square matrices by a unit matrix.
    low = padded(block(tril(lu, diagonal=0.0), (0, m), (0, k)), m, m)
    low = low + identity_like(low)
    up = padded(block(tril(lu, lower=False), (0, k), (0, n)), n, n)
    if n > k:
        up = up + padded(identity_like(block(up, (k, n), (k, n))), n, n, before=True)
    da = rows_at(sole(tangents), row_order(pivots, m))
    inner = triangular_solve(low, da, left_side=True, lower=True, unit_diagonal=True, transpose_a="NO_TRANSPOSE")
    inner = triangular_solve(up, inner, left_side=False, lower=False, unit_diagonal=False, transpose_a="NO_TRANSPOSE")
    below, above = tril(inner, diagonal=0.0), tril(inner, lower=False)
    return [matmul(low, below) + matmul(above, up), ZERO, ZERO]


def row_order(pivots: Tensor, m: int) -> Tensor:
    """The permutation of m rows by LAPACK's pivots: for each i in order, row i is exchanged with row pivots[i] (counted from 1)."""
    if pivots.axes:  # the loop below does not map over named axes
        return apply_per_entry(lambda entries: [row_order(entries[0], m)], [pivots])[0]
    axis = pivots.ndim - 1
    index = iota(shape=(*pivots.shape[:-1], m), dtype=pivots.dtype, iota_dimension=axis)

    def exchange(step: Any, order: Any) -> list[Any]:
        """The order of the rows, in a list, after step `step`: the row of the step is exchanged
        with the row that its pivot names.
        """
        pivot_row, order = wrap(step.value), wrap(order.value)
        zero = full_like(pivot_row, 0)
        start = [*(zero for _ in range(axis)), pivot_row]
        other = REGISTRY["stablehlo.dynamic_slice"](pivots, *start, slice_sizes=(*pivots.shape[:-1], 1))
        other = broadcast_in_dim(other - 1, shape=index.shape, broadcast_dimensions=tuple(range(index.ndim)))
        is_pivot_row = compare(
            index,
            broadcast_in_dim(as_dtype(pivot_row, index.dtype), shape=index.shape, broadcast_dimensions=()),
            comparison_direction="EQ",
        )
        is_other_row = compare(index, other, comparison_direction="EQ")
        row, column = (_spread_entry(order, at) for at in (is_pivot_row, is_other_row))
        return [builder.Val(select(is_pivot_row, column, select(is_other_row, row, order)).value)]

    (order,) = builder.for_loop(pivots.shape[-1], [builder.Val(index.value)], exchange)
    return wrap(order.value)


def inverse_order(order: Tensor) -> Tensor:
    """The inverse of permutations of shape (..., m), by m comparisons for each index and without a loop."""
    shape, axis = (*order.shape, order.shape[-1]), order.ndim
    index, position = (iota(shape=shape, dtype=order.dtype, iota_dimension=i) for i in (axis - 1, axis))
    spread = broadcast_in_dim(order, shape=shape, broadcast_dimensions=(*range(axis - 1), axis))
    stands = compare(spread, index, comparison_direction="EQ")
    return reduce_sum(select(stands, position, full_like(position, 0)), (axis,))


def _spread_entry(x: Tensor, at: Tensor) -> Tensor:
    """For each row of `x`, its one entry at which the mask `at` is True, repeated along the row."""
    entry = reduce_sum(select(at, x, full_like(x, 0)), (x.ndim - 1,))
    return broadcast_in_dim(entry, shape=x.shape, broadcast_dimensions=tuple(range(x.ndim - 1)))


def solver(a: Tensor) -> Callable[[Tensor], Tensor]:
    """The function b -> x that solves a x = b; `a` is factorised once."""
    letter = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}[a.dtype.name]
    index = np.dtype(np.int32)
    shapes = [(a.shape, a.dtype), (a.shape[:-1], index), (a.shape[:-2], index)]
    lu, pivots, _ = routine(f"lapack_{letter}getrf_ffi", [a], shapes)
    order = row_order(pivots, a.shape[-1])

    def solve(b: Tensor) -> Tensor:
        left = {"left_side": True, "transpose_a": "NO_TRANSPOSE"}
        b = triangular_solve(lu, rows_at(b, order), lower=True, unit_diagonal=True, **left)
        return triangular_solve(lu, b, lower=False, unit_diagonal=False, **left)

    return solve


# ---------------------------------------------------------------- QR
# geqrf returns R and the reflectors of Q in one array, and orgqr computes Q from them. The tangent of Q is Q times a
# skew-Hermitian matrix, which is determined by its part below the diagonal. That part is stored in the tangent of the
# packed array, where the reflectors are in the primal; only orgqr reads it. (For complex matrices the imaginary
# diagonal is stored in the tangent of the factors tau.)


def orthogonal(target: str, packed: Tensor, taus: Tensor) -> Tensor:
    """The matrix Q with all its m columns."""
    m, k = packed.shape[-2], taus.shape[-1]
    reflectors = padded(block(packed, (0, m), (0, k)), m, m)
    name = target.replace("geqrf", "ungqr" if is_complex(packed.dtype) else "orgqr")
    return routine(name, [reflectors, taus], [(reflectors.shape, reflectors.dtype)])[0]


def _geqrf(outs: Tensors, xs: Tensors, tangents: MaybeZeros, *, target: str, **_: Any) -> list[MaybeZero]:
    """The tangents of R, and of the packed reflectors and factors, whose storage holds the rotation of Q (see above).

    `outs` are the results.
    """
    packed, taus = outs
    m, n = packed.shape[-2:]
    k = min(m, n)
    q = orthogonal(target, packed, taus)
    projection = matmul(adjoint(q), sole(tangents))
    r = tril(block(packed, (0, k), (0, k)), lower=False)
    inner = triangular_solve(
        r, block(projection, (0, m), (0, k)), left_side=False, lower=False, unit_diagonal=False, transpose_a="NO_TRANSPOSE"
    )
    below = tril(inner, diagonal=0.0)  # the part of the rotation below the diagonal, m x k
    rotation = _skew(below, m)
    diagonal: MaybeZero = ZERO
    if is_complex(packed.dtype):
        diagonal = imaginary_part(diagonal_of(block(inner, (0, k), (0, k))))
        rotation = rotation + padded(on_diagonal(in_rows(diagonal, k)), m, m)
    upper = padded(tril(block(packed, (0, k), (0, n)), lower=False), m, n)
    dr = tril(projection - matmul(rotation, upper), lower=False)
    return [dr + padded(below, m, n), diagonal]


def _geqp3(outs: Tensors, xs: Tensors, tangents: MaybeZeros, *, target: str, **_: Any) -> list[MaybeZero]:
    """The tangents by the rule of geqrf, for the columns in the order of the pivots (counted from 1); zero for the order.

    `xs` are the operands and `outs` the results.
    """
    packed, order, taus = outs
    positions = in_columns(order - 1, packed.shape[-2])
    da = along_axis(sole(tangents), positions, packed.ndim - 1)
    dr, dtaus = _geqrf([packed, taus], xs, [da], target=target.replace("geqp3", "geqrf"))
    return [dr, ZERO, dtaus]


def _skew(below: Tensor, m: int) -> Tensor:
    """The skew-Hermitian m x m matrix with this part below the diagonal."""
    square = padded(below, m, m)
    return square - adjoint(square)


def _orgqr(outs: Tensors, xs: Tensors, tangents: MaybeZeros, *, target: str, **_: Any) -> list[MaybeZero]:
    """The tangent of Q: Q times the skew-Hermitian matrix that is stored in the tangents of the packed array and of tau.

    `xs` are the operands and `outs` the results.
    """
    packed, taus = xs
    m, columns, k = packed.shape[-2], packed.shape[-1], taus.shape[-1]
    if isinstance(tangents[0], Zero):
        return [ZERO]
    q = outs[0] if columns == m else orthogonal(target.replace("orgqr", "geqrf").replace("ungqr", "geqrf"), packed, taus)
    rotation = _skew(tril(block(tangents[0], (0, m), (0, k)), diagonal=0.0), m)
    if not isinstance(tangents[1], Zero):
        rotation = rotation + padded(on_diagonal(in_rows(tangents[1], k)), m, m)
    first = block(matmul(q, rotation), (0, m), (0, min(k, columns)))
    if columns <= k:
        return [first]
    others = _other_columns(block(outs[0], (0, m), (0, k)), first, columns)
    return [REGISTRY["stablehlo.concatenate"](first, others, dimension=packed.ndim - 1)]


def _other_columns(q: Tensor, dq: Tensor, columns: int) -> Tensor:
    """The tangent of columns k, ... of Q, a product of k reflections, from the tangent of its first k columns.

    Q = 1 - V T V^H. Cut V and 1 - Q after their first k rows (and columns): (1 - Q)_11 = V_1 T V_1^H and (1 - Q)_21 = V_2 T V_1^H.
    So the other columns are those of 1 - M G^H, where M is the first k columns of 1 - Q and G M_1 = M_2.

    Args:
      q: the first k columns.
      dq: their tangent.
      columns: the number of columns of Q.
    """
    k = q.shape[-1]
    top, rest = (0, k), (k, columns)
    move, dmove = identity_like(q) - q, -dq
    solve = solver(adjoint(block(move, top, top)))
    g = solve(adjoint(block(move, rest, top)))
    dg = solve(adjoint(block(dmove, rest, top)) - matmul(adjoint(block(dmove, top, top)), g))
    return -(matmul(dmove, g) + matmul(move, dg))


# ---------------------------------------------------------------- eigenvalues, singular values


def _syevd(outs: Tensors, xs: Tensors, tangents: MaybeZeros, *, config: Any, **_: Any) -> list[MaybeZero]:
    """The tangents of eigenvectors V and eigenvalues w, and zero for the code of success.

    With P = V^H A' V, the tangent of w is the diagonal of P, and that of V is V (P_ij / (w_j - w_i)). `outs` are the results.
    """
    v, w = outs[:2]
    n = w.shape[-1]
    inner = matmul(matmul(adjoint(v), symmetric_part(sole(tangents), option(config, "uplo") == "L")), v)
    gaps = as_dtype(in_columns(w, n) - in_rows(w, n), v.dtype)
    return [matmul(v, rotation(inner, gaps)), real_part(diagonal_of(inner)), ZERO]


def _gesdd(outs: Tensors, xs: Tensors, tangents: MaybeZeros, *, config: Any, target: str, **_: Any) -> list[MaybeZero]:
    """The tangents of the singular values and vectors, and zeros for the other results.

    With P = U^H A' V, the tangent of the singular values is the real diagonal of P; U and V are rotated. `xs` are the operands and
    `outs` the results.
    """
    a, da = xs[0], sole(tangents)
    m, n = a.shape[-2:]
    k = min(m, n)
    s, u, vt = outs[1:4]
    if option(config, "mode") == "N":  # the vectors were not computed
        stack = a.shape[:-2]
        shapes = [
            (a.shape, a.dtype),
            (s.shape, s.dtype),
            ((*stack, m, k), a.dtype),
            ((*stack, k, n), a.dtype),
            (stack, np.dtype(np.int32)),
        ]
        second = routine(target, [a], shapes, mode="S")
        u, vt = second[2:4]
        inner = matmul(matmul(adjoint(u), da), adjoint(vt))
        return [ZERO, real_part(diagonal_of(inner)), ZERO, ZERO, ZERO]
    thin_u, v = block(u, (0, m), (0, k)), adjoint(block(vt, (0, k), (0, n)))
    projection = matmul(adjoint(thin_u), da)
    inner = matmul(projection, v)
    columns, rows = in_columns(s, k), in_rows(s, k)
    gaps, sums = as_dtype(columns - rows, a.dtype), columns + rows  # the squares of the singular values may overflow
    left = inner * as_dtype(columns / sums, a.dtype)
    right = inner * as_dtype(rows / sums, a.dtype)
    rotate_u, rotate_v = rotation(left + adjoint(left), gaps), rotation(right + adjoint(right), gaps)
    inverse = as_dtype(1.0 / s, a.dtype)
    if is_complex(a.dtype):
        phase = imaginary_part(diagonal_of(inner)) * inverse
        rotate_u = rotate_u + on_diagonal(in_rows(phase, k))
    du, dv = matmul(thin_u, rotate_u), matmul(v, rotate_v)
    if m > k:
        outside = matmul(da, v)
        du = du + (outside - matmul(thin_u, inner)) * in_columns(inverse, m)
    if n > k:
        outside = matmul(adjoint(da), thin_u)
        dv = dv + (outside - matmul(v, adjoint(inner))) * in_columns(inverse, n)
    du, dv = _complete_tangent(u, du, k), _complete_tangent(adjoint(vt), dv, k)
    return [ZERO, real_part(diagonal_of(inner)), du, adjoint(dv), ZERO]


def _complete_tangent(u: Tensor, du: Tensor, k: int) -> Tensor:
    """The tangent of all columns of `u` from the tangent `du` of the first k; the other columns stay orthogonal to the first k."""
    rows, columns = u.shape[-2:]
    if columns == k:
        return du
    first, others = block(u, (0, rows), (0, k)), block(u, (0, rows), (k, columns))
    rest = -matmul(first, matmul(adjoint(du), others))
    return REGISTRY["stablehlo.concatenate"](du, rest, dimension=u.ndim - 1)


# ---------------------------------------------------------------- registration


def cubic(work: float) -> Callable[..., int]:
    """The flops of a routine: `work` for each element of its matrix and each row (or column)."""
    return lambda outs, xs, **_: round(work * max(x.size for x in xs) * min(xs[0].shape[-2:]))


def register_routine(routine: str, rule: Jvp | None, flops: Any, batch: Any = batch_of_leading_axes) -> None:
    """Registers the rules of the LAPACK routine `routine` for all dtypes; without a jvp if `rule` is None.

    `flops` is a function that counts its floating-point operations, and `batch` is its batch rule.
    """
    for letter in "sdcz":
        target = f"lapack_{letter}{routine}_ffi"

        def jvp(outs: Tensors, xs: Tensors, tangents: MaybeZeros, _of: str = target, **params: Any) -> list[MaybeZero]:
            if 0 in xs[0].shape:  # an empty stack, or matrices without elements
                return [ZERO] * len(outs)
            return list(as_rule(rule)(outs, xs, tangents, config=params["mhlo.backend_config"], target=_of))

        register_custom_call(target, jvp=None if rule is None else jvp, batch=batch, flops=flops)


for _routine, _jvp, _work in (  # the work as in Golub and Van Loan, Matrix Computations
    ("potrf", _potrf, 1 / 3),
    ("getrf", _getrf, 2 / 3),
    ("geqrf", _geqrf, 4 / 3),
    ("geqp3", _geqp3, 4 / 3),
    ("orgqr", _orgqr, 4 / 3),
    ("ungqr", _orgqr, 4 / 3),
    ("syevd", _syevd, 9),
    ("heevd", _syevd, 9),
    ("gesdd", _gesdd, 22),
):
    register_routine(_routine, _jvp, cubic(_work))
register_routine("trsm", _trsm, cubic(1), _trsm_batch)
