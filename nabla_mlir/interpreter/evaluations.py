"""The functions of the operations on arrays: each takes the operands, and the parameters that the record reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects.stablehlo import String
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.ops.gamma import OVER_ROOTS, ROOTS
from nabla_mlir.table.registry import OpDef

Evaluation = Callable[..., Any]  # (*arrays, **parameters) -> an array or a list of arrays; a region is a function of arrays
F = TypeVar("F", bound=Evaluation)

EVALUATIONS: dict[str, Evaluation] = {}


def evaluation(*names: str) -> Callable[[F], F]:
    """A decorator: the function evaluates the operations with these names."""

    def add(f: F) -> F:
        """Adds the function to the table."""
        EVALUATIONS.update(dict.fromkeys(names, f))
        return f

    return add


def evaluation_of(record: OpDef, op: ir.Operation) -> Evaluation | None:
    """The function of NumPy arrays that evaluates an operation: one of the interpreter, or that of NumPy or SciPy in its record.

    None if there is neither, or if SciPy is needed and not installed. A custom call has the function of its target.
    """
    if record.name == "stablehlo.custom_call":
        return EVALUATIONS.get(f"{record.name} @{String.decode(op.attributes['call_target_name'])}")
    if record.name in EVALUATIONS:
        return EVALUATIONS[record.name]
    if isinstance(record.numpy, str):
        try:
            from scipy import special
        except ImportError:
            return None
        f = getattr(special, record.numpy.removeprefix("scipy.special:"))
        corrected = {special.gammaln: _lgamma, special.digamma: _digamma}.get(f)
        return _with_wide_operands(f if corrected is None else corrected(f), op)
    return None if record.numpy is None else _with_wide_operands(record.numpy, op)


def _with_wide_operands(f: Callable[..., Any], op: ir.Operation) -> Evaluation:
    """The function `f` of NumPy for the operands of `op`; it gets bfloat16 and float8 in float32, because NumPy has no version for
    them.
    """
    if all(shape_and_dtype(x.type)[1].kind != "V" for x in op.operands):
        return lambda *xs, **_: f(*xs)

    def evaluate(*xs: np.ndarray, **_: Any) -> Any:
        return f(*(x.astype(np.float32) if x.dtype.kind == "V" else x for x in xs))

    return evaluate


def _lgamma(f: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """SciPy's log|gamma| `f` with two corrections: inf at -inf, as in C99, and accurate values near the roots above -3."""
    from scipy import special

    def evaluate(x: np.ndarray) -> np.ndarray:
        """Returns log(abs(gamma(x))).

        SciPy's real function loses digits near its roots. Its complex one has a series near 1 and 2; the two roots below -2 have a
        polynomial in float64.
        """
        result = np.asarray(np.where(np.isinf(x), x.dtype.type(np.inf), f(x)))
        near = np.minimum(np.abs(x - 1), np.abs(x - 2)) < 0.2
        result[near] = special.loggamma(x[near].astype(np.complex128)).real
        near = (x > -2.8125) & (x < -2.3125)
        if x.dtype == np.float64 and near.any():
            some = x[near]
            factors = [(some - root) - low for root, low in ROOTS]  # a root is a sum of two floats, for its last digits
            result[near] = np.polynomial.polynomial.polyval(some * 4.0 + 10.25, OVER_ROOTS) * factors[0] * factors[1]
        return result

    return evaluate


def _digamma(f: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """SciPy's digamma `f`, and next to its negative poles the reflection formula of the distance from the pole.

    SciPy's own reflection rounds pi x, which has an error as large as the distance.
    """

    def evaluate(x: np.ndarray) -> np.ndarray:
        """Returns the digamma function of `x`; there is no correction between the poles, and none above -1/2."""
        result, distance = np.asarray(f(x)), x - np.rint(x)
        near = (x < -0.5) & (np.abs(distance) < 0.25) & (distance != 0)
        wide = x[near].astype(np.float64)
        result[near] = f(1 - wide) - np.pi / np.tan(np.pi * (wide - np.rint(wide)))
        return result

    return evaluate


def in_groups(f: Callable[[np.ndarray], np.ndarray], x: np.ndarray, axes: int) -> np.ndarray:
    """The results of `f`, a function of one array with `axes` axes, for each such array in the stack `x`.

    Example: the inverse of matrices, axes 2, for x of shape (5, 3, 3) is called five times; the result has shape (5, 3, 3).
    """
    if not x.size:
        return np.zeros_like(x)
    stack = x.shape[: x.ndim - axes]
    parts = x.reshape(-1, *x.shape[x.ndim - axes :])
    return np.stack([f(part) for part in parts]).reshape(stack + f(parts[0]).shape)
