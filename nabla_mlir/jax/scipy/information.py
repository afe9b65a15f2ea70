"""Products with logarithms, of entropies and divergences. Their derivatives contain no squares, which overflow and underflow."""

from __future__ import annotations

from typing import Any

import numpy as np

from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.numpy.logic import where
from nabla_mlir.numpy.operands import inexact, inexacts
from nabla_mlir.numpy.special_values import nan_where, times_log, times_log1p
from nabla_mlir.numpy.ufuncs import log, log1p
from nabla_mlir.ops.guards import product
from nabla_mlir.staging.eager import library
from nabla_mlir.table.tensor import Tensor
from nabla_mlir.transforms.custom import custom_jvp


@library
def xlogy(x: ArrayLike, y: ArrayLike) -> Tensor:
    """x * log(y), and 0 where x is 0; NaN where x or y is NaN."""
    x, y = inexacts("xlogy", x, y)
    return _xlogy(nan_where(y, x), y)


@library
def xlog1py(x: ArrayLike, y: ArrayLike) -> Tensor:
    """x * log(1 + y), and 0 where x is 0; NaN where x or y is NaN."""
    x, y = inexacts("xlog1py", x, y)
    return _xlog1py(nan_where(y, x), y)


_xlogy, _xlog1py = custom_jvp(times_log), custom_jvp(times_log1p)


@_xlogy.defjvp
def _xlogy_jvp(primals: Any, tangents: Any) -> Any:
    """The value x log(y) and its tangent.

    The slope by y is x / y and not x times 1 / y, whose slope 1 / y**2 overflows and underflows.
    """
    (x, y), (dx, dy) = primals, tangents
    return _xlogy(x, y), product(dx, log(y)) + product(dy, _fraction(x, y))


@_xlog1py.defjvp
def _xlog1py_jvp(primals: Any, tangents: Any) -> Any:
    """The value x log(1 + y) and its tangent; the slope by y is x / (1 + y), as one quotient."""
    (x, y), (dx, dy) = primals, tangents
    return _xlog1py(x, y), product(dx, log1p(y)) + product(dy, _fraction(x, 1.0 + y))


@custom_jvp
def _fraction(x: Tensor, y: Tensor) -> Tensor:
    """x / y, and 0 where x is 0, even if y is 0."""
    return where(x == 0.0, 0.0, x / y)


@_fraction.defjvp
def _fraction_jvp(primals: Any, tangents: Any) -> Any:
    """The value and the tangent of the quotient; its slopes 1 / y and (x / y) / y contain no square, which could overflow."""
    (x, y), (dx, dy) = primals, tangents
    z = _fraction(x, y)
    return z, product(dx, 1.0 / y) - product(dy, _fraction(z, y))


@library
def entr(x: ArrayLike) -> Tensor:
    """-x log(x); 0 at 0, and -inf for negative numbers."""
    return _entr(inexact(x))


@custom_jvp
def _entr(x: Tensor) -> Tensor:
    return where(x < 0.0, -np.inf, -times_log(x, x))


@_entr.defjvp
def _entr_jvp(primals: Any, tangents: Any) -> Any:
    """The value and the tangent of the entropy -x log(x), whose slope is -1 - log(x).

    The second derivative is then -1 / x. The derivative by the factors of -x log(x) contains x * (1 / x**2), which overflows.
    """
    (x,), (t,) = primals, tangents
    outside = x < 0.0
    return _entr(x), t * where(outside, 0.0, -1.0 - log(where(outside, 1.0, x)))


@library
def rel_entr(p: ArrayLike, q: ArrayLike) -> Tensor:
    """p log(p / q); 0 where p is 0 and q >= 0, inf elsewhere outside the domain, and NaN where p or q is NaN."""
    p, q = inexacts("rel_entr", p, q)
    outside = ((p < 0.0) & (q == q)) | ((q < 0.0) & (p == p))
    return where(outside, np.inf, _rel_entr(nan_where(q, p), q))


@custom_jvp
def _rel_entr(p: Tensor, q: Tensor) -> Tensor:
    """p log(p / q); 0 where p is 0, even if q is 0."""
    return product(p, log(p) - log(q))


@_rel_entr.defjvp
def _rel_entr_jvp(primals: Any, tangents: Any) -> Any:
    """The value and the tangent; the slopes are log(p / q) + 1 and -p / q. Those of the factors contain p * (1 / p)."""
    (p, q), (dp, dq) = primals, tangents
    return _rel_entr(p, q), product(dp, log(p) - log(q) + 1.0) - product(dq, _fraction(p, q))


@library
def kl_div(p: ArrayLike, q: ArrayLike) -> Tensor:
    """p log(p / q) - p + q."""
    p, q = inexacts("kl_div", p, q)
    return rel_entr(p, q) - p + q
