"""The pattern of each record contains the derivative at random points, and is equal to it if that is possible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from xla import run_traced

from nabla_mlir.dialects.regions import functions_of
from nabla_mlir.dialects.types import is_differentiable
from nabla_mlir.passes.dependence.analysis import dependence_of, results_of
from nabla_mlir.staging.specs import Spec
from nabla_mlir.staging.stages import trace
from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.table.rules import Zero
from nabla_mlir.table.tensor import Tensor
from nabla_mlir.testing.cases import LawCase, active_operands, law_cases
from nabla_mlir.transforms import jvp, vmap

# Records whose pattern has more than the derivative at any point, and why.
WIDER = {
    "stablehlo.custom_call": "nothing is known of what is called",
    "stablehlo.cholesky": "one triangle is zero",
    "stablehlo.triangular_solve": "one triangle is zero",
    "stablehlo.sort": "the places are not known",
    "chlo.top_k": "the places are not known",
    "stablehlo.gather": "the places are not known",
    "stablehlo.scatter": "the places are not known",
    "stablehlo.dynamic_slice": "the places are not known",
    "stablehlo.dynamic_update_slice": "the places are not known",
    "stablehlo.torch_index_select": "the places are not known",
    "stablehlo.reduce": "an extremum has one element, or a few",
    "stablehlo.reduce_window": "an extremum has one element, or a few",
    "stablehlo.select_and_scatter": "the places are not known",
    "stablehlo.select": "one side is taken",
    "chlo.broadcast_select": "one side is taken",
    "stablehlo.clamp": "one of three is taken",
    "stablehlo.maximum": "one side is taken",
    "chlo.broadcast_maximum": "one side is taken",
    "stablehlo.minimum": "one side is taken",
    "chlo.broadcast_minimum": "one side is taken",
    "stablehlo.remainder": "the quotient may be zero",
    "chlo.broadcast_remainder": "the quotient may be zero",
    "chlo.ragged_dot": "the groups are not known",
    "stablehlo.convolution": "the kernel meets the padding",
    "stablehlo.imag": "that of a real number is zero",
}


def is_smooth(law: LawCase) -> bool:
    """True if a case has a differentiable operand with elements."""
    xs = law.draw()
    active = active_operands(law, xs)
    return any(xs[i].size for i in active) and not isinstance(law.record.jvp, Zero)


CASES = [law for law in law_cases() if is_smooth(law)]


def pattern_of(f: Any, specs: Sequence[Spec], arguments: Sequence[int]) -> np.ndarray:
    """The patterns that are found for the results of a function, concatenated, as a boolean matrix."""
    lowered = trace(f, *specs, name="f").lower()
    function = functions_of(lowered.module.operation)["f"]
    found = dependence_of(function, arguments)
    pattern = np.zeros((0, found.columns), bool)
    for rows in (r.rows for r in results_of(function, found)):
        block = np.zeros((rows.count, found.columns), bool)
        block[rows.row_of_entry(), rows.indices] = True
        pattern = np.concatenate([pattern, block])
    return pattern


class Sampled:
    """A case, its derivative as a function, and where that is not zero at some points."""

    def __init__(self, law: LawCase):
        self.law, self.xs = law, law.draw()
        self.active = active_operands(law, self.xs)
        self.sizes = [self.xs[i].size for i in self.active]

    def value(self, *given: Tensor) -> list[Tensor]:
        return [y for y in self.law.apply(given) if is_differentiable(y.dtype)]

    def push(self, *tensors: Tensor) -> list[Tensor]:
        """The tangents of the results; the tangents of the operands are the last arguments."""
        given, ts = tensors[: len(self.xs)], tensors[len(self.xs) :]

        def f(*inner: Tensor) -> list[Tensor]:
            full = list(given)
            for i, x in zip(self.active, inner, strict=True):
                full[i] = x
            return self.value(*full)

        return jvp(f, [given[i] for i in self.active], list(ts))[1]

    def specs(self) -> list[Spec]:
        return [Spec(x.shape, x.dtype) for x in [*self.xs, *(self.xs[i] for i in self.active)]]

    def truth(self, points: int = 3) -> np.ndarray:
        count = sum(self.sizes)
        parts = np.split(np.eye(count), np.cumsum(self.sizes)[:-1], axis=1)
        units = {"f": 1.0, "c": 1 + 1j}  # a complex direction moves both parts
        seeds = [
            units[self.xs[i].dtype.kind] * p.reshape(count, *self.xs[i].shape) for p, i in zip(parts, self.active, strict=True)
        ]

        def columns(*tensors: Tensor) -> Any:
            given, ts = tensors[: len(self.xs)], tensors[len(self.xs) :]
            return vmap(lambda *t: self.push(*given, *t))(*ts)

        found: Any = False
        for seed in range(points):
            outs = run_traced(columns, [*self.law.draw(seed), *seeds])
            flat = [np.asarray(y).reshape(count, y.size // count) for y in outs]
            found = found | (np.concatenate([*flat, np.zeros((count, 0))], axis=1).T != 0)
        return found


def is_slow(law: LawCase) -> bool:
    """Two samples of each record are in the first stage."""
    return law.number > 1


@pytest.mark.parametrize("law", [pytest.param(law, marks=[pytest.mark.slow] * is_slow(law), id=law.name) for law in CASES])
def test_the_pattern_contains_the_derivative(law: LawCase) -> None:
    sampled = Sampled(law)
    truth, n = sampled.truth(), len(sampled.xs)
    pattern = pattern_of(sampled.push, sampled.specs(), range(n, n + len(sampled.active)))
    assert not (truth & ~pattern).any()
    if law.record.name not in WIDER:
        assert (pattern == truth).all()
    # What the record itself says, of the operation as it stands in a program that is no derivative.
    assert not (truth & ~pattern_of(sampled.value, sampled.specs()[:n], sampled.active)).any()


def test_what_is_wider_exists() -> None:
    assert set(WIDER) <= set(REGISTRY)
