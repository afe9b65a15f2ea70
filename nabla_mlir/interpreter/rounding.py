"""The largest difference between two correct evaluations of a program: Monte Carlo arithmetic on the interpreter.

A compiled program rounds in another order than the interpreter: it fuses, reassociates sums and has other
approximations of functions. A run in which each result is perturbed by some units in its last place represents such an
order. If a value jumps (a comparison of nearly equal numbers, a sort of ties, a conversion to integers), perturbed runs
take both sides. They draw the free choices of factorisations, such as signs of eigenvectors, at random
(`nabla_mlir.interpreter.choices`).

After D. S. Parker, Monte Carlo Arithmetic, UCLA CSD-970002 (1997): random rounding of results.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from iree.compiler import ir

from nabla_mlir.base.conversion import limits_of
from nabla_mlir.dialects.types import is_complex, is_float
from nabla_mlir.interpreter.choices import factored_anew, routine_of
from nabla_mlir.interpreter.frames import Arrays

# Units in the last place by which a result is perturbed: the approximations of functions in compiled code are off by as many.
AMPLITUDE = 4.0
# The results are exact, or consist of perturbed values.
_EXACT = frozenset(
    {
        "func.call",
        "stablehlo.abs",
        "stablehlo.bitcast_convert",
        "stablehlo.broadcast_in_dim",
        "stablehlo.case",
        "stablehlo.complex",
        "stablehlo.concatenate",
        "stablehlo.dynamic_slice",
        "stablehlo.dynamic_update_slice",
        "stablehlo.gather",
        "stablehlo.if",
        "stablehlo.imag",
        "stablehlo.iota",
        "stablehlo.maximum",
        "stablehlo.minimum",
        "stablehlo.negate",
        "stablehlo.optimization_barrier",
        "stablehlo.pad",
        "stablehlo.real",
        "stablehlo.reshape",
        "stablehlo.reverse",
        "stablehlo.select",
        "stablehlo.slice",
        "stablehlo.transpose",
        "stablehlo.while",
    }
)
_DECIDED = ("stablehlo.compare", "stablehlo.return")
SUM, PRODUCT = "sum", "product"  # kinds of operations: their error has the size of their terms
_PRODUCTS = ("stablehlo.dot_general", "stablehlo.convolution")
_SUMS = ("stablehlo.reduce", "stablehlo.reduce_window", "stablehlo.scatter", "stablehlo.select_and_scatter")


# Random numbers are a piece of this pool, which is drawn once: new numbers would take most of the time of a perturbed
# run.
_POOL = 1 << 17
_PART = 1 << 15  # the number of elements that are perturbed at once, because they fit a cache


class Perturbation:
    """Perturbs the result of each operation, as a watch of the interpreter. It does nothing before it is seeded.

    Args:
      seed: the seed of the random numbers, so that a run can be repeated.
    """

    def __init__(self, seed: int | Sequence[int] | None = None):
        self._rng: np.random.Generator | None = None
        self._kinds: dict[int, tuple[str, ir.Operation]] = {}  # by identity, which the operations keep as long as they are here
        self.seed(seed)

    def seed(self, seed: int | Sequence[int] | None) -> None:
        """Starts another run; None ends the perturbation."""
        self._rng = None if seed is None else np.random.default_rng(seed)

    @property
    def is_on(self) -> bool:
        """True between a seed and the next None."""
        return self._rng is not None

    def draw_seed(self) -> int:
        """A seed for another source of noise in this run; 0 in a run that is not perturbed."""
        return 0 if self._rng is None else int(self._rng.integers(1, 1 << 31))

    def __call__(self, op: ir.Operation, operands: Arrays, results: Arrays) -> None:
        """Replaces the entries of the list `results`, which `op` has computed from `operands`, by results with random rounding
        errors.
        """
        if self._rng is None:
            return
        kind = self._kinds.get(id(op))
        if kind is None:
            kind = self._kinds[id(op)] = kind_of(op), op
        match kind[0]:
            case "compare":
                results[0] = self._with_random_decisions(operands[0], operands[1], results[0])
            case "sum" | "product":
                factors = operands[:2] if kind[0] == PRODUCT else operands[:1]
                results[:] = [self._with_errors(y, *_error_of_sum(factors, y)) for y in results]
            case "factors":
                results[:] = factored_anew(op, operands, AMPLITUDE * _unit(operands[0].dtype), self._rng)
            case "other":
                results[:] = [self.perturbed(y) for y in results]

    def perturbed(self, x: np.ndarray) -> np.ndarray:
        """An array whose elements are off by some units in the last place. Other dtypes than floating point do not change."""
        return self._with_errors(x, 1.0, 0.0)

    def _with_errors(self, x: np.ndarray, relative: float, absolute: float) -> np.ndarray:
        """The array with random errors: `relative` times the unit of each element, plus `absolute` times the unit of 1."""
        if is_complex(x.dtype):
            return (self._with_errors(x.real, relative, absolute) + 1j * self._with_errors(x.imag, relative, absolute)).astype(
                x.dtype
            )
        if not is_float(x.dtype) or not x.size:
            return x
        assert self._rng is not None
        wide = _wide(x).reshape(-1)
        value, start, noise = (
            np.empty_like(wide),
            int(self._rng.integers(_POOL)),
            _noise(wide.dtype.name, AMPLITUDE * _unit(x.dtype)),
        )
        for i in range(0, wide.size, _PART):
            part, offset = wide[i : i + _PART], (start + i) % _POOL
            errors = slice(offset, offset + part.size)
            if relative == 1:  # the usual case, in which the factors are known
                np.multiply(part, noise.factors[errors], out=value[i : i + _PART])
            else:
                np.multiply(part, 1 + relative * noise.errors[errors], out=value[i : i + _PART])  # of infinities the same
            if absolute:
                value[i : i + _PART] += absolute * noise.errors[errors]
            self._flush(part, value[i : i + _PART], float(limits_of(x.dtype).tiny))
        return value.reshape(x.shape).astype(x.dtype, copy=False)

    def _flush(self, x: np.ndarray, value: np.ndarray, tiny: float) -> None:
        """Makes random elements of `value` 0 where `x` is below the normal numbers, as compiled code may.

        `tiny` is the smallest normal number.
        """
        assert self._rng is not None
        size = np.abs(x)
        if size.min() >= tiny:  # there are no zeros either; the second test takes longer
            return
        is_tiny = (size < tiny) & (size > 0)
        if is_tiny.any():
            value[...] = np.where(is_tiny, x * self._rng.integers(0, 2, x.shape), value)

    def _with_random_decisions(self, a: np.ndarray, b: np.ndarray, result: np.ndarray) -> np.ndarray:
        """The results of a comparison of a and b, with random ones for numbers that rounding can exchange.

        Equal numbers stay equal: most are one value (the maximum and the element that it is), which rounds once.
        """
        if not is_float(a.dtype):
            return result
        assert self._rng is not None
        unit = 2 * AMPLITUDE * _unit(a.dtype)  # both are perturbed
        a, b = _wide(a), _wide(b)
        difference = np.abs(a - b)  # from an infinity it is infinite: no rounding decides that comparison
        is_near = (difference <= unit * np.maximum(np.abs(a), np.abs(b))) & (a != b) & (difference < np.inf)
        return np.where(is_near, self._rng.integers(0, 2, result.shape).astype(bool), result) if is_near.any() else result


def kind_of(op: ir.Operation) -> str:
    """The kind of error of an operation: "exact", "compare", "sum", "product", "factors" or "other"."""
    name = op.name
    if name in _EXACT:
        return "exact"
    if name in _PRODUCTS:
        return PRODUCT
    if name in _SUMS:  # with a region that combines elements: the largest of them is exact
        inner = [o.operation.name for region in op.regions for o in region.blocks[0].operations]
        return SUM if any(name not in (*_EXACT, *_DECIDED) for name in inner) else "exact"
    return "compare" if name == "stablehlo.compare" else "factors" if routine_of(op) else "other"


@dataclass(frozen=True)
class _Noise:
    """Random numbers, twice in sequence, so that a part may begin at any position.

    Args:
      errors: relative errors.
      factors: one plus these errors.
    """

    errors: np.ndarray
    factors: np.ndarray


@functools.cache
def _noise(dtype: str, unit: float) -> _Noise:
    """Random errors of a dtype, between `-unit` and `unit`, and the factors 1 + error; both are stored twice in sequence."""
    numbers = np.random.default_rng(0).uniform(-1, 1, _POOL).astype(dtype)
    errors = np.concatenate([numbers, numbers]) * unit
    return _Noise(errors, 1 + errors)


def _wide(x: np.ndarray) -> np.ndarray:
    """Narrow floats in f32."""
    return x if x.dtype.kind == "f" and x.dtype.itemsize >= 4 else x.astype(np.float32)


def _unit(dtype: np.dtype) -> float:
    return float(limits_of(dtype).eps)


def _error_of_sum(factors: Arrays, result: np.ndarray) -> tuple[float, float]:
    """The relative and the absolute error of a sum of products, in units of rounding.

    `factors` are the operands whose elements are multiplied and summed. If terms cancel, the absolute error has the size of the
    terms.
    """
    terms = max(np.size(factors[0]) / max(result.size, 1), 1.0)
    if not all(is_float(x.dtype) or is_complex(x.dtype) for x in factors):
        return 1.0, 0.0
    largest = 1.0
    for x in factors:
        size = np.abs(x if is_complex(x.dtype) else _wide(x))
        maximum = float(size.max(initial=0.0))
        largest *= maximum if np.isfinite(maximum) else float(size.max(initial=0.0, where=np.isfinite(size)))
    return float(np.sqrt(terms)), largest  # errors of independent terms add up like a random walk
