"""What the operations do with arrays: a function for each, of its operands and the parameters that its record reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects.stablehlo import String
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.ops.gamma import OVER_ROOTS, ROOTS
from nabla_mlir.table.registry import OpDef

Evaluation = Callable[..., Any]  # (*arrays, **parameters) -> an array, or a list of them; a region is a function of arrays
F = TypeVar("F", bound=Evaluation)

EVALUATIONS: dict[str, Evaluation] = {}


def evaluation(*names: str) -> Callable[[F], F]:
    """Decorator: the function evaluates the operations of these names."""

    def add(f: F) -> F:
        EVALUATIONS.update(dict.fromkeys(names, f))
        return f

    return add


def evaluation_of(record: OpDef, op: ir.Operation) -> Evaluation | None:
    """What evaluates an operation: its own function here, or that of NumPy or SciPy in its record.

    None if there is neither, or SciPy is needed and not installed. A custom call has that of its target.
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
        return _of_operands(_lgamma(f) if f is special.gammaln else f, op)
    return None if record.numpy is None else _of_operands(record.numpy, op)


def _of_operands(f: Callable[..., Any], op: ir.Operation) -> Evaluation:
    """A function of NumPy's, of narrow floats in f32: it has none of its own for them."""
    if all(shape_and_dtype(x.type)[1].kind != "V" for x in op.operands):
        return lambda *xs, **_: f(*xs)

    def evaluate(*xs: np.ndarray, **_: Any) -> Any:
        return f(*(x.astype(np.float32) if x.dtype.kind == "V" else x for x in xs))

    return evaluate


def _lgamma(f: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """SciPy's, but inf at -inf, as by C99, MLIR and JAX, and in f64 with all digits near its first negative roots."""

    def evaluate(x: np.ndarray) -> np.ndarray:
        result = np.where(np.isinf(x), x.dtype.type(np.inf), f(x))
        near = (x > -2.8125) & (x < -2.3125)
        if x.dtype == np.float64 and near.any():
            some = x[near]
            factors = [(some - root) - low for root, low in ROOTS]
            result[near] = np.polynomial.polynomial.polyval(some * 4.0 + 10.25, OVER_ROOTS) * factors[0] * factors[1]
        return result

    return evaluate


def in_groups(f: Callable[[np.ndarray], np.ndarray], x: np.ndarray, axes: int) -> np.ndarray:
    """Applies a function of arrays with so many axes to each in a stack of them."""
    if not x.size:
        return np.zeros_like(x)
    stack = x.shape[: x.ndim - axes]
    parts = x.reshape(-1, *x.shape[x.ndim - axes :])
    return np.stack([f(part) for part in parts]).reshape(stack + f(parts[0]).shape)
