"""Elements by several indices as elements by one: the same numbers, also out of range, interpreted and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.compiling.lowering import clone_module
from nabla_mlir.jax import lax
from nabla_mlir.passes.iree.scheduling.flatten_indices import FlattenIndicesPass
from nabla_mlir.passes.pipeline import Pipeline
from nabla_mlir.tools.values import results_of

COUNT = 31
NAMES = ("read", "added", "largest", "gradient")
SHAPES = ((5, 7), (3, 5, 4), (1, 9), (5, 1), (2, 3, 4))


def _columns(dtype: str, low: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    return tuple(rng.integers(low, 9, COUNT).astype(dtype) for _ in range(3))


def _functions(mode: str | None, positions: int) -> dict[str, Any]:
    """What reads, adds and writes elements or rows of an array by index vectors, with gradients."""

    def read(x: Any, u: Any, *indices: Any) -> Any:
        return x.at[indices[:positions]].get(mode=mode) * u

    def added(x: Any, u: Any, *indices: Any) -> Any:
        return x.at[indices[:positions]].add(u, mode=mode)

    def largest(x: Any, u: Any, *indices: Any) -> Any:
        return x.at[indices[:positions]].max(u, mode=mode)

    gradient = nm.grad(lambda x, u, *indices: (read(x, u, *indices) ** 3).sum())
    return dict(zip(NAMES, (read, added, largest, gradient), strict=True))


def _traced(shape: tuple[int, ...], dtype: str, mode: str, low: int) -> tuple[nm.Lowered, tuple[np.ndarray, ...]]:
    positions = 3 if shape == SHAPES[-1] else 2
    rng = np.random.default_rng(1)
    x = rng.normal(size=shape).astype(np.float32)
    u = rng.normal(size=(COUNT, *shape[positions:])).astype(np.float32)
    inputs = (x, u, *_columns(dtype, low))
    return nm.module(**{name: nm.trace(f, *inputs) for name, f in _functions(mode, positions).items()}).lower(), inputs


@pytest.mark.parametrize("mode", ["drop", "clip", "fill"])
@pytest.mark.parametrize(("dtype", "low"), [("int32", -9), ("int8", -9), ("uint8", 0), ("int64", -9)])
@pytest.mark.parametrize("shape", SHAPES)
def test_numbers_stay(shape: tuple[int, ...], dtype: str, low: int, mode: str) -> None:
    lowered, inputs = _traced(shape, dtype, mode, low)
    flat = clone_module(lowered.module)
    Pipeline((FlattenIndicesPass(),)).run(flat.operation)
    for name in NAMES:
        before, after = (results_of(module, name, inputs) for module in (lowered.module, flat))
        assert str(flat) != str(lowered.module)
        for a, b in zip(before, after, strict=True):
            np.testing.assert_array_equal(a, b, err_msg=name)


def test_compiled_numbers_and_memory() -> None:
    """Beside the interpreter's, and nothing is in memory between the points and what is made of the elements there."""
    lowered, inputs = _traced((3, 5, 4), "int32", "drop", -9)
    interpreted, compiled = (lowered.compile(t) for t in (nm.Interpreter(), nm.CPU("host")))
    for name in NAMES:
        np.testing.assert_allclose(getattr(compiled, name)(*inputs), getattr(interpreted, name)(*inputs), rtol=1e-6)

    def interpolated(image: Any, rows: Any, columns: Any) -> Any:
        i, j = (lax.convert_element_type(nnp.floor(p), np.int32) for p in (rows, columns))
        a, b = rows - nnp.floor(rows), columns - nnp.floor(columns)
        return (1 - a) * ((1 - b) * image[i, j] + b * image[i, j + 1]) + a * ((1 - b) * image[i + 1, j] + b * image[i + 1, j + 1])

    rng = np.random.default_rng(2)
    image, *points = (rng.uniform(0, 62, (64, 64)).astype(np.float32) for _ in range(3))
    f = nm.trace(interpolated, image, *points, name="f").lower()
    made = f.compile(nm.CPU("host"))
    np.testing.assert_allclose(made(image, *points), f.compile(nm.Interpreter())(image, *points), rtol=1e-5)
    assert made.memory["f"].allocated == made.memory["f"].results
