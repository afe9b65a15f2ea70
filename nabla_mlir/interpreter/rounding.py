"""How far apart two right evaluations of a program may lie: Monte Carlo arithmetic on the interpreter.

A compiled program rounds in another order than the interpreter: it fuses, reassociates sums and has other approximations of
functions. A run in which each result is perturbed by some units in its last place stands for such an order. Where a value jumps
(a comparison of nearly equal numbers, a sort of ties, a conversion to integers) perturbed runs fall on both sides.

After D. S. Parker, Monte Carlo Arithmetic, UCLA CSD-970002 (1997): random rounding of results.
"""

from __future__ import annotations

import numpy as np
from iree.compiler import ir

from nabla_mlir.conversion import limits_of
from nabla_mlir.dialects.types import is_complex, is_float
from nabla_mlir.interpreter.frames import Arrays

# Units in the last place by which a result is perturbed: the approximations of functions in compiled code are off by as many.
AMPLITUDE = 4.0
# Their results are exact, or are made of values that have been perturbed already.
_EXACT = frozenset({
    "func.call", "stablehlo.abs", "stablehlo.bitcast_convert", "stablehlo.broadcast_in_dim", "stablehlo.case",
    "stablehlo.complex", "stablehlo.concatenate", "stablehlo.dynamic_slice", "stablehlo.dynamic_update_slice",
    "stablehlo.gather", "stablehlo.if", "stablehlo.imag", "stablehlo.iota", "stablehlo.maximum", "stablehlo.minimum",
    "stablehlo.negate", "stablehlo.optimization_barrier", "stablehlo.pad", "stablehlo.real", "stablehlo.reshape",
    "stablehlo.reverse", "stablehlo.select", "stablehlo.slice", "stablehlo.transpose", "stablehlo.while",
})  # fmt: skip
_PRODUCTS = ("stablehlo.dot_general", "stablehlo.convolution")
_SUMS = (*_PRODUCTS, "stablehlo.reduce", "stablehlo.reduce_window", "stablehlo.scatter", "stablehlo.select_and_scatter")


class Perturbation:
    """Perturbs the result of each operation; to be given to the interpreter as its watch.

    Args:
      seed: of the random numbers, so that a run can be repeated.
    """

    def __init__(self, seed: int):
        self._rng = np.random.default_rng(seed)

    def __call__(self, op: ir.Operation, operands: Arrays, results: Arrays) -> None:
        """Puts perturbed results into the list that it is given."""
        if op.name == "stablehlo.compare":
            a, b = operands
            results[0] = self._decided(a, b, results[0])
        elif op.name in _SUMS:
            results[:] = [self._moved(y, *_error_of_sum(op.name, operands, y)) for y in results]
        elif op.name not in _EXACT:
            results[:] = [self.perturbed(y) for y in results]

    def perturbed(self, x: np.ndarray) -> np.ndarray:
        """An array whose elements are off by some units in the last place. What is not of floating point stays as it is."""
        return self._moved(x, 1.0, 0.0)

    def _moved(self, x: np.ndarray, relative: float, absolute: float) -> np.ndarray:
        """An array whose elements are off by so many units of themselves, and of a number."""
        if is_complex(x.dtype):
            return (self._moved(x.real, relative, absolute) + 1j * self._moved(x.imag, relative, absolute)).astype(x.dtype)
        if not is_float(x.dtype):
            return x
        unit = AMPLITUDE * _unit(x.dtype)
        wide = np.asarray(x, np.float64)
        noise = self._rng.uniform(-1, 1, x.shape) * unit
        # Compiled code may make 0 of what is below the normal numbers.
        is_tiny = np.abs(wide) < float(limits_of(x.dtype).tiny)
        value = np.where(is_tiny, wide * self._rng.integers(0, 2, x.shape), wide * (1 + relative * noise))
        return (value + absolute * noise if absolute else value).astype(x.dtype)

    def _decided(self, a: np.ndarray, b: np.ndarray, result: np.ndarray) -> np.ndarray:
        """The truth values of a comparison; random ones of numbers that rounding can exchange.

        Equal numbers stay equal: most are one value (the maximum and the element that it is), which rounds in one way.
        """
        if not is_float(a.dtype):
            return result
        unit = 2 * AMPLITUDE * _unit(a.dtype)  # both are perturbed
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        is_near = (np.abs(a - b) <= unit * np.maximum(np.abs(a), np.abs(b))) & (a != b)
        return np.where(is_near, self._rng.integers(0, 2, result.shape).astype(bool), result) if is_near.any() else result


def _unit(dtype: np.dtype) -> float:
    return float(limits_of(dtype).eps)


def _error_of_sum(name: str, operands: Arrays, result: np.ndarray) -> tuple[float, float]:
    """The error of a sum in units of its result, and of a number: with terms that cancel it is one of their size."""
    terms = max(np.size(operands[0]) / max(result.size, 1), 1.0)
    factors = operands[:2] if name in _PRODUCTS else operands[:1]
    if not all(is_float(x.dtype) or is_complex(x.dtype) for x in factors):
        return 1.0, 0.0
    largest = 1.0
    for x in factors:
        size = np.abs(np.asarray(x, complex if is_complex(x.dtype) else np.float64))
        largest *= float(np.max(size, initial=0.0, where=np.isfinite(size)))
    return float(np.sqrt(terms)), largest
