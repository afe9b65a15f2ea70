"""The inputs of the law tests: domains for elementwise operations, cases for other operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Domain:
    """Real numbers of [low, high] with a distance of at least `gap` from each point of `avoid`; or integers of [low, high].

    Both parts of complex numbers lie in [low, high].
    """

    low: float
    high: float
    avoid: tuple[float, ...] = ()
    gap: float = 0.1
    kind: str = "real"

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """A random array of this shape and dtype with numbers of the domain; points to avoid have a distance of at least `gap`."""
        if self.kind == "bool":
            return rng.integers(0, 2, shape).astype(bool)
        if self.kind == "whole":
            return rng.integers(int(self.low), int(self.high) + 1, shape).astype(dtype)
        if self.kind == "integer":
            return rng.integers(int(self.low), int(self.high) + 1, shape).astype(dtype)
        x = rng.uniform(self.low, self.high, shape)
        for point in self.avoid:
            near = np.abs(x - point) < self.gap
            x = np.where(near, point + np.where(x >= point, 1, -1) * (self.gap + np.abs(x - point)), x)
        if dtype.kind == "c" or self.kind == "complex":
            dtype = np.result_type(dtype, np.complex64)
            x = x + 1j * rng.uniform(self.low, self.high, shape)
        return np.asarray(x).astype(dtype)


def reals(low: float = -2.0, high: float = 2.0, avoid: Sequence[float] = (), gap: float = 0.1) -> Domain:
    """Real numbers with a distance from the points where the operation is not smooth."""
    return Domain(low, high, tuple(avoid), gap)


def integers(low: int = -5, high: int = 5) -> Domain:
    """Integers of [low, high]."""
    return Domain(low, high, kind="integer")


def whole(low: int, high: int) -> Domain:
    """Integers of [low, high] as floating-point numbers; the operation is not differentiated by them."""
    return Domain(low, high, kind="whole")


def complex_numbers(low: float = -2.0, high: float = 2.0) -> Domain:
    """Complex numbers whose parts lie in [low, high]."""
    return Domain(low, high, kind="complex")


def booleans() -> Domain:
    """Truth values."""
    return Domain(0, 1, kind="bool")


@dataclass(frozen=True)
class Case:
    """One call of a record: the shape (and domain, if not real) of each operand, and the parameters.

    Attributes:
      values: fixed operands (for example indices); None for operands that are drawn.
    """

    shapes: tuple[tuple[int, ...], ...]
    params: dict[str, Any] = field(default_factory=dict)
    domains: tuple[Domain | None, ...] = ()
    values: tuple[Any, ...] = ()
    numpy: Any = None
    smooth: bool = True

    def draw(self, rng: np.random.Generator, dtype: np.dtype) -> list[np.ndarray]:
        """The operands of the case: the fixed values, and random arrays from the domains of the others."""
        arrays = []
        for i, shape in enumerate(self.shapes):
            value = self.values[i] if i < len(self.values) else None
            domain = (self.domains[i] if i < len(self.domains) else None) or reals()
            kind = np.dtype(np.int32) if domain.kind == "integer" else dtype
            arrays.append(np.asarray(value) if value is not None else domain.draw(rng, shape, kind))
        return arrays
