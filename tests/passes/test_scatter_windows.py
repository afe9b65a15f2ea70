"""Scatters with window dimensions and wide indices, and their derivatives, compiled."""

import functools

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.jax import lax

WINDOWS = {
    "rows": ((4, 3), [[0], [2], [2], [9]], ((1,), (0,), (0,))),
    "partial windows": ((4, 2, 3), [[0], [2], [2], [3]], ((1, 2), (), (0,))),
    "windows at pairs": ((2, 2, 2), [[0, 1], [3, 0]], ((1, 2), (), (0, 1))),
    "columns": ((6, 2), [[0], [2]], ((0,), (1,), (1,))),
    "one row": ((3,), [2], ((0,), (0,), (0,))),
}
SCATTERS = ["scatter_add", "scatter_mul", "scatter_max", "scatter_min", "scatter"]


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("dtype", [np.int64, pytest.param(np.int32, marks=pytest.mark.slow)])
def test_they_compile_with_their_derivatives(window, dtype):
    """All five in one module; the check compares them with the interpreter."""
    shape, positions, dims = WINDOWS[window]
    x, u = (np.random.default_rng(seed).normal(size=n) for seed, n in enumerate([(6, 3), shape]))
    numbers = lax.ScatterDimensionNumbers(*dims)

    def total(f, i, x, u):
        return nnp.sum(f(x, i, u, numbers) ** 2)

    def all_of(x, u, i):
        out = []
        for name in SCATTERS:
            gradient = nm.grad(functools.partial(total, getattr(lax, name), i), (0, 1))
            out.append((gradient(x, u), nm.jvp(gradient, (x, u), (u.sum() * x, u))[1]))
        return out

    stage = nm.trace(all_of, x, u, np.array(positions, dtype), name="scatters").lower()
    compiled = stage.compile(nm.CPU("host"))
    assert compiled.checks["scatters"].status == "checked"
