"""Programs of JAX are ported by `import nabla_mlir as jax`: the same source gives the same numbers in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax_programs
import numpy as np
import pytest

import nabla_mlir as nm

jax = pytest.importorskip("jax")
for _name in ("flatten_util", "scipy.linalg", "scipy.special", "scipy.stats"):
    pytest.importorskip(f"jax.{_name}")


@pytest.fixture(autouse=True)
def _in_double_precision() -> Iterator[None]:
    before, mode = jax.config.jax_enable_x64, nm.set_execution("interpret")
    jax.config.update("jax_enable_x64", True)
    with nm.enable_x64():
        yield
    nm.set_execution(mode)
    jax.config.update("jax_enable_x64", before)


@pytest.mark.parametrize("program", jax_programs.PROGRAMS, ids=lambda f: f.__name__)
def test_same_numbers(program: Callable[[Any], Any]) -> None:
    theirs = jax.tree.leaves(jax.jit(lambda: program(jax))())  # compiled as one: faster than operation by operation
    mine = nm.tree.leaves(program(nm))
    assert len(mine) == len(theirs)
    for a, b in zip(mine, theirs, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)
