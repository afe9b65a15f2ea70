"""Products over long axes are as exact as sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.compiling.lowering import legalize

RNG = np.random.default_rng(0)


def equal(*shape: int) -> np.ndarray:
    return np.full(shape, 0.1, np.float32)


def positive(*shape: int) -> np.ndarray:
    return RNG.random(shape).astype(np.float32)


CASES: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "vectors": (lambda x, y: x @ y, (equal(1_000_003), equal(1_000_003))),
    "transposed": (lambda a, u: u @ a, (positive(200_003, 7), positive(200_003))),
    "matrices": (lambda a, b: a.T @ b, (equal(1_000_000, 2), equal(1_000_000, 3))),
    "batches": (lambda a, b: nnp.einsum("bki,kbj->bij", a, b), (positive(2, 70_001, 3), positive(70_001, 2, 4))),
    "two axes": (lambda a, b: nnp.tensordot(a, b, 2), (positive(40_000, 3, 4), positive(3, 4, 5))),
    "two long axes": (lambda a, b: nnp.einsum("ikl,klj->ij", a, b), (positive(2, 33_001, 3), positive(33_001, 3, 2))),
    "half": (lambda a, b: nnp.dot(a, b, preferred_element_type=np.float32), (equal(100_000).astype(np.float16),) * 2),
}


@pytest.mark.parametrize("name", CASES)
def test_products_have_the_error_of_sums(name: str) -> None:
    function, arguments = CASES[name]
    found = np.asarray(nm.trace(function, *arguments).lower().compile()(*arguments))
    exact = np.asarray(function(*(nnp.asarray(x.astype(np.float64)) for x in arguments)))
    assert np.max(np.abs(found - exact) / np.abs(exact)) < 1e-5


def test_derivatives_of_long_products() -> None:
    """The gradient and a Hessian-vector product of a least-squares sum over 10⁵ rows."""
    a, y, w = positive(100_000, 3), positive(100_000), positive(3)
    loss = lambda w, a, y: nnp.sum((a @ w - y) ** 2)  # noqa: E731
    for derivative, extra in ((nm.grad(loss), ()), (nm.hvp(loss), (w,))):
        found = np.asarray(nm.jit(derivative)(w, *extra, a, y))
        wide = [x.astype(np.float64) for x in (w, *extra, a, y)]
        exact = np.asarray(derivative(*map(nnp.asarray, wide)))
        assert np.max(np.abs(found - exact) / np.abs(exact).max()) < 3e-6


def test_a_large_result_has_few_parts() -> None:
    """The parts take no more memory than the factors: 2 x 400 x 40,000 / (4 x 400 x 400) = 50 parts."""
    lowered = nm.trace(lambda a: a @ a.T, nm.spec((400, 40_000))).lower()
    assert "tensor<50x400x400xf32>" in str(legalize(lowered.module, nm.CPU(), schedule=False))
