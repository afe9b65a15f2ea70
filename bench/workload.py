"""The class of a workload, and helpers for its inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Function = Callable[..., Any]


@dataclass(frozen=True)
class Workload:
    """A workload: its name for the command line, its title, the factory of the function, and the maker of its arguments.

    With `mapped`, the function is mapped over the first axis of its first argument, and "hvp" means the whole Hessian of each
    entry. `quick` is True for a workload of the quick run.
    """

    name: str
    title: str
    function: Callable[[Any], Function]
    inputs: Callable[[], tuple[Any, ...]]
    mapped: bool = False
    quick: bool = True

    def is_wide(self) -> bool:
        """True if an argument is f64; JAX then needs 64-bit mode."""
        import jax

        return any(leaf.dtype == np.float64 for leaf in jax.tree.leaves(self.inputs()))

    def wide(self) -> Workload:
        """The same workload in f64."""

        def inputs() -> tuple[Any, ...]:
            return tuple(map(_widened, self.inputs()))

        return replace(self, name=f"{self.name}-f64", title=f"{self.title}, f64", inputs=inputs, quick=False)


def _widened(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _widened(value) for key, value in tree.items()}
    return tree.astype(np.float64) if tree.dtype == np.float32 else tree


def normal(*shape: int, scale: float = 1.0, seed: int = 0) -> np.ndarray:
    """Normal numbers in f32, the same in every run."""
    return (np.random.default_rng([seed, *shape]).normal(size=shape) * scale).astype(np.float32)


def dense(n: int, m: int) -> dict[str, np.ndarray]:
    """The weights and biases of a layer."""
    return {"w": normal(n, m, scale=n**-0.5), "b": normal(m, scale=0.1)}


def integers(below: int, *shape: int) -> np.ndarray:
    """Integers from 0 up to `below`, the same in every run."""
    return np.random.default_rng(0).integers(0, below, shape).astype(np.int32)
