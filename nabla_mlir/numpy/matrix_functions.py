"""Functions of square matrices: powers and the exponential."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.numpy import extrema
from nabla_mlir.numpy import reductions as red
from nabla_mlir.numpy.factorizations import real_dtype, square
from nabla_mlir.numpy.operands import convert, tensor
from nabla_mlir.numpy.systems import inv, solve
from nabla_mlir.ops import elementwise as ew
from nabla_mlir.ops import linalg as la
from nabla_mlir.ops import logic as lg
from nabla_mlir.ops.autodiff import stop_gradient
from nabla_mlir.ops.shape import reshaped
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import broadcast_to, is_inexact
from nabla_mlir.table.tensor import Tensor, constant, full, full_like
from nabla_mlir.transforms.control import fori_loop


@library
def matrix_power(a: Any, n: Static[int]) -> Tensor:
    """``a @ a @ ... @ a`` with n factors, by repeated squaring; n < 0 uses the inverse, n >= 0 preserves integer dtypes.

    Args:
      a: matrices of shape (..., m, m).
      n: a static integer.

    Raises:
      ShapeError: the matrices are not square.

    Example:
      >>> import numpy as np
      >>> matrix_power(np.array([[1.0, 1.0], [0.0, 1.0]]), 5).tolist()
      [[1.0, 5.0], [0.0, 1.0]]
    """
    a, n = tensor(a), operator.index(n)
    floats = square("matrix_power", a)
    if n < 0:
        a, n = inv(floats), -n
    elif is_inexact(a.dtype):
        a = floats
    result, power = None, a
    while n:
        if n & 1:
            result = power if result is None else la.matmul(result, power)
        n >>= 1
        power = la.matmul(power, power) if n else power
    return la.identity_like(a) if result is None else result


# Coefficients of the diagonal Pade approximants of exp, and the 1-norm up to which they reach machine precision
# (Higham 2005, "The scaling and squaring method for the matrix exponential revisited").
_PADE = {4: (7, 3.925724783138660), 8: (13, 5.371920351148152)}
_SQUARINGS = 16


@library
def expm(a: ArrayLike) -> Tensor:
    """The matrix exponential, by scaling and squaring of a Pade approximant.

    Args:
      a: matrices of shape (..., n, n); the result is NaN if the 1-norm is above 3e5 (f64) or 2e5 (f32).

    Raises:
      ShapeError: the matrices are not square.

    Example:
      >>> import numpy as np
      >>> np.asarray(expm(np.array([[0.0, 1.0], [0.0, 0.0]]))).round(6).tolist()
      [[1.0, 1.0], [0.0, 1.0]]
    """
    a = square("expm", a)
    real = real_dtype(a.dtype)
    degree, reach = _PADE[real.itemsize]
    size = extrema.max(red.sum(ew.absolute(stop_gradient(a)), -2), -1) if a.size else full(a.shape[:-2], 0, real)
    # The exponent of the first power of two that is large enough is the number of powers that are too small.
    bounds = broadcast_to(constant(reach * 2.0 ** np.arange(_SQUARINGS, dtype=real)), (*size.shape, _SQUARINGS))
    spread = broadcast_to(reshaped(size, (*size.shape, 1)), bounds.shape)
    too_small = lg.compare(spread, bounds, comparison_direction="GT")
    factor = red.prod(lg.select(too_small, full_like(bounds, 0.5), full_like(bounds, 1)), -1)
    too_large = lg.compare(size, full_like(size, reach * 2.0**_SQUARINGS), comparison_direction="GT")
    factor = lg.select(too_large, full_like(size, math.nan), factor)
    wide = lambda v: broadcast_to(reshaped(v, (*v.shape, 1, 1)), a.shape)  # noqa: E731
    result = _pade(a * convert(wide(factor), a.dtype), degree)

    def square_once(i: Any, carry: Any) -> Any:
        """The squares of those matrices that need one more squaring, and their doubled scale factors."""
        result, factor = carry
        more = lg.compare(factor, full_like(factor, 1), comparison_direction="LT")
        square = lg.select(wide(more), la.matmul(result, result), result)
        return square, lg.select(more, factor + factor, factor)

    return fori_loop(0, _SQUARINGS, square_once, (result, factor))[0]


def _pade(a: Tensor, degree: int) -> Tensor:
    """The Pade approximant of exp(A), inv(V - U) (V + U), where U is the odd part and V the even part of the numerator.

    `degree` is that of the numerator and of the denominator.
    """
    f = math.factorial
    # The coefficients of the numerator; those of the denominator differ in the sign of the odd powers.
    numbers = [f(2 * degree - k) * f(degree) / (f(2 * degree) * f(k) * f(degree - k)) for k in range(degree + 1)]
    powers = [la.identity_like(a), la.matmul(a, a)]
    powers += [la.matmul(powers[1], powers[1])]
    powers += [la.matmul(powers[2], powers[1])]
    odd, even = (_combination(numbers[start::2], powers) for start in (1, 0))
    odd = la.matmul(a, odd)
    return solve(even - odd, even + odd)


def _combination(numbers: Sequence[float], powers: Sequence[Tensor]) -> Tensor:
    """The polynomial in A^2 with the coefficients `numbers`, from the powers I, A^2, A^4 and A^6 (Paterson and Stockmeyer 1973)."""
    low = _sum(numbers[: len(powers)], powers)
    high = numbers[len(powers) :]
    return low + la.matmul(powers[-1], _sum(high, powers[1:])) if high else low


def _sum(numbers: Sequence[float], powers: Sequence[Tensor]) -> Tensor:
    """The sum of the powers multiplied by the numbers; further powers are left out."""
    total = powers[0] * numbers[0]
    for number, power in zip(numbers[1:], powers[1:], strict=False):
        total = total + power * number
    return total
