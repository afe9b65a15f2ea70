"""Rows by index, read in all ways: IREE takes each as it is written, and the numbers are the interpreter's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
from nabla_mlir import nn
from nabla_mlir import numpy as nnp
from nabla_mlir.base import pytree
from nabla_mlir.compiling.lowering import legalize

READERS = {
    "given": lambda x, i, j, w: x[i],
    "scaled": lambda x, i, j, w: x[i] * 2 + 1,
    "twice": lambda x, i, j, w: (x[i] * 2, x[i].sum(-1)),
    "pairs": lambda x, i, j, w: (x[i] - x[j], x[i] * 3, (x[i] * x[j]).sum(-1)),
    "product": lambda x, i, j, w: x[i] @ w,
    "softmax": lambda x, i, j, w: nn.softmax(x[i], axis=-1),
    "columns": lambda x, i, j, w: (nnp.sin(x[i][:, 0] * x[i][:, -1]), x[i] * 2),
    "sines": lambda x, i, j, w: nnp.sin(x[i]) * nnp.cos(x[i]),
    "grid": lambda x, i, j, w: (x[i.reshape(-1, 2)] * 2, x[i.reshape(-1, 2)].sum()),
    "added": lambda x, i, j, w: nnp.zeros_like(x).at[j].add(x[i] * nnp.tanh(x[i])),
    "again": lambda x, i, j, w: x[i][j % i.shape[0]] * 2,
}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("row", [(3,), (64,), (4, 4)])
@pytest.mark.parametrize("count", [50, 4998])
def test_all_readers(count: int, row: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(777, *row)).astype(dtype)
    i, j = (rng.integers(low, 777, count).astype("i4") for low in (-777, 0))
    inputs = (x, i, j, rng.normal(size=(row[-1], 7)).astype(dtype))
    readers = {name: f for name, f in READERS.items() if len(row) == 1 or name != "columns"}
    lowered = nm.module(**{name: nm.trace(f, *inputs) for name, f in readers.items()}).lower()
    assert "iree_linalg_ext.gather" in str(legalize(lowered.module, nm.CPU("host")))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # that it was compiled without what is rewritten for speed
        compiled = lowered.compile(nm.CPU("host"))
    interpreted = lowered.compile(nm.Interpreter())
    for name in readers:
        found, expected = (pytree.flatten(getattr(m, name)(*inputs))[0] for m in (compiled, interpreted))
        for a, b in zip(found, expected, strict=True):
            scale: Any = max(1.0, float(abs(np.asarray(b)).max()))
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-5 * scale, err_msg=name)
