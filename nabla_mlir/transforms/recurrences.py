"""First-order recurrences along an axis: running combinations, and linear recurrences with coefficients.

A step of 1 goes towards the end of the axis, and a step of -1 towards its beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from iree.compiler import ir

from nabla_mlir.dialects.regions import made_by
from nabla_mlir.dialects.types import is_differentiable
from nabla_mlir.ops.elementwise import multiply
from nabla_mlir.ops.shape import pad
from nabla_mlir.table.tensor import Tensor, full
from nabla_mlir.transforms.custom import custom_jvp
from nabla_mlir.transforms.implicit import custom_linear_solve

Combination = Callable[[Tensor, int, int], Tensor]  # (x, axis, step) -> the combination of all elements up to each index


def doubled(record: Callable[..., Tensor], neutral: Any) -> Combination:
    """The running combination by an operation: element i of the result combines all elements up to i.

    Each round doubles the combined range: log2(n) operations on whole arrays.

    Args:
      record: the operation.
      neutral: its neutral element.
    """

    def combine(x: Tensor, axis: int, step: int) -> Tensor:  # the running combination of x along an axis
        while abs(step) < x.shape[axis] and x.size:
            x, step = record(x, shifted(x, axis, step, neutral)), 2 * step
        return x

    return combine


def running_product(x: Tensor, axis: int, step: int) -> Tensor:
    """The running product along an axis. Its derivatives are linear recurrences."""
    return _smooth_product(x, axis, step) if is_differentiable(x.dtype) and x.size else doubled(multiply, 1)(x, axis, step)


@partial(custom_jvp, nondiff_argnums=(1, 2))
def _smooth_product(x: Tensor, axis: int, step: int) -> Tensor:
    return doubled(multiply, 1)(x, axis, step)


@_smooth_product.defjvp
def _smooth_product_jvp(axis: int, step: int, primals: Any, tangents: Any) -> Any:
    """The running product y and its tangent: dy[i] = x[i] dy[i-1] + y[i-1] dx[i]. There is no division, so x may be zero.

    `step` is 1 for a product from the beginning of `axis`, -1 for one from its end.
    """
    (x,), (t,) = primals, tangents
    y = _smooth_product(x, axis, step)
    return y, linear_recurrence(x, t * shifted(y, axis, step, 1), axis, step)


def linear_recurrence(a: Tensor, b: Tensor, axis: int, step: int = 1) -> Tensor:
    """The solution h of h[i] = a[i] h[i-step] + b[i] along an axis; elements outside the array are zero.

    It solves a linear system with two diagonals, and so do its derivatives, in both modes. They store only h and the
    coefficients. The code has log2(n) additions and products of whole arrays, which are one kernel on a CPU.
    """

    def matvec(h: Tensor) -> Tensor:  # the left side of the system h[i] - a[i] h[i-step] = b[i]
        return h - a * shifted(h, axis, step)

    def solve(_: Any, b: Tensor) -> Tensor:  # the solution for the right side b
        return _solve_by_doubling(a, b, axis, step)

    def transpose_solve(_: Any, b: Tensor) -> Tensor:  # that of the transposed system, a recurrence in the other direction
        return _solve_by_doubling(shifted(a, axis, -step), b, axis, -step)

    found: Tensor = custom_linear_solve(matvec, b, solve, transpose_solve)
    return found


def affine_leaves(first: Sequence[Tensor], second: Sequence[Tensor], both: Sequence[Tensor]) -> tuple[int, int] | None:
    """The indices (factor, summand) if an operation composes functions h -> a h + b, the first one first; else None.

    Args:
      first: the leaves of the first function.
      second: the leaves of the second function.
      both: the leaves of the composition.
    """
    if len(both) != 2 or first[0].shape != first[1].shape or first[0].dtype != first[1].dtype:
        return None
    if not is_differentiable(first[0].dtype):
        return None
    for a, b in ((0, 1), (1, 0)):
        factors = _operands(both[a], "stablehlo.multiply")
        summands = _operands(both[b], "stablehlo.add")
        products = [v for v in summands if v != second[b].value]
        is_sum = len(products) == 1 and _operands(Tensor(products[0]), "stablehlo.multiply") in _orders(second[a], first[b])
        if is_sum and factors in _orders(second[a], first[a]):
            return a, b
    return None


def _operands(x: Tensor, name: str) -> list[ir.Value]:
    """The operands of the operation that makes a value, if it has this name; otherwise none."""
    maker = made_by(x.value)
    return list(maker.operands) if maker is not None and maker.name == name else []


def _orders(x: Tensor, y: Tensor) -> list[list[ir.Value]]:
    """The operands of a commutative operation, in both orders."""
    return [[x.value, y.value], [y.value, x.value]]


def _solve_by_doubling(a: Tensor, b: Tensor, axis: int, step: int) -> Tensor:
    """The solution of h[i] = a[i] h[i-step] + b[i], in rounds. Each round doubles the step of the remaining recurrence."""
    n = b.shape[axis]
    while abs(step) < n:
        b = b + a * shifted(b, axis, step)
        a, step = a * shifted(a, axis, step), 2 * step
    return b


def shifted(x: Tensor, axis: int, step: int, value: Any = 0) -> Tensor:
    """The array with x[i-step] at index i along an axis, and `value` where x has no such element."""
    low, high = ([n if d == axis else 0 for d in range(x.ndim)] for n in (step, -step))
    return pad(
        x,
        full((), value, x.dtype) if not isinstance(value, Tensor) else value,
        edge_padding_low=low,
        edge_padding_high=high,
        interior_padding=[0] * x.ndim,
    )
