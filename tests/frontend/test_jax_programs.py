"""Programs of JAX are ported by `import nabla_mlir.jax as jax`: the same source gives the same numbers in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax_programs
import jax_programs_idioms
import jax_programs_methods
import jax_programs_models
import jax_programs_parameters
import numpy as np
import pytest

import nabla_mlir as nm

jax = pytest.importorskip("jax")
for _name in (
    "dtypes",
    "typing",
    "flatten_util",
    "ad_checkpoint",
    "scipy.spatial.transform",
    "scipy.linalg",
    "scipy.special",
    "scipy.stats",
):
    pytest.importorskip(f"jax.{_name}")


@pytest.fixture(autouse=True)
def _in_double_precision() -> Iterator[None]:
    before, mode = jax.config.jax_enable_x64, nm.set_execution("interpret")
    jax.config.update("jax_enable_x64", True)
    with nm.enable_x64():
        yield
    nm.set_execution(mode)
    jax.config.update("jax_enable_x64", before)


FILES = (jax_programs, jax_programs_models, jax_programs_methods, jax_programs_idioms, jax_programs_parameters)
SLOW = ("transformer_lm", "quantum_circuit")
PROGRAMS = [
    pytest.param(program, id=program.__name__, marks=[pytest.mark.slow] if program.__name__ in SLOW else [])
    for file in FILES
    for program in file.PROGRAMS
]
# They ask for numbers and dtypes, or hand arrays of NumPy to rules, which JAX takes outside of a trace alone.
AT_ONCE = ("deep_equilibrium", "numpy_zoo", "at_methods", "debug_and_effects", "mixed_precision")


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_same_numbers(program: Callable[[Any], Any]) -> None:
    is_staged = program.__name__ not in AT_ONCE  # compiled as one: faster than operation by operation
    theirs = jax.tree.leaves(jax.jit(lambda: program(jax))() if is_staged else program(jax))
    mine = nm.jax.tree.leaves(program(nm.jax))
    assert len(mine) == len(theirs)
    for a, b in zip(mine, theirs, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)
