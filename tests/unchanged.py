"""Calls must not change what they were given, nor what they gave: programs are called again, and all bits compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

import nabla_mlir as nm
from nabla_mlir.runtime import Array

CALLS = 3


def bits(arrays: Sequence[Any]) -> list[bytes]:
    return [np.asarray(x).tobytes() for x in arrays]


def call_again(what: str, f: Callable[..., Any], arguments: Sequence[Any], others: Sequence[Any] = ()) -> Any:
    """The result of `f`, after calls that must change nothing: no argument, no result, none of the `others`."""
    before, held, results = bits([*arguments, *others]), [], []
    for number in range(CALLS):
        held.append(f(*arguments))
        leaves = jax.tree.leaves(held[-1], is_leaf=lambda x: isinstance(x, Array))
        results.append((leaves, bits(leaves)))
        assert bits([*arguments, *others]) == before, f"{what} changes its arguments in call {number}"
        for earlier, values in results:
            assert bits(earlier) == values, f"{what} changes an earlier result in call {number}"
        assert results[0][1] == results[-1][1], f"{what} gives another result in call {number}"
    return held[0]


def specs(xs: Sequence[np.ndarray]) -> list[Any]:
    return [nm.spec(x.shape, x.dtype) for x in xs]


def compiled(programs: dict[str, tuple[Callable[..., Any], Sequence[np.ndarray]]]) -> Any:
    """All of them as entry points of one artifact."""
    traced = {name: nm.trace(f, *specs(xs)) for name, (f, xs) in programs.items()}
    return nm.module(**traced).lower().compile(nm.CPU("host"))
