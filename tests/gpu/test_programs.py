"""Programs for CUDA on the mock driver: their numbers are those of the interpreter, and launches and waits do not grow."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from gpu.driver.running import MockDriver
from gpu.programs import PROGRAMS
from nabla_mlir.base import pytree
from nabla_mlir.passes.iree.gpu import tiles

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="requires Triton")]


@pytest.fixture(autouse=True)
def _every_product_is_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "_LEAST_FLOPS", 0)


def leaves(tree: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in pytree.flatten(tree)[0]]


def differences(found: list[np.ndarray], exact: list[np.ndarray]) -> list[float]:
    """Relative differences, which are NaN where a number is."""
    assert [x.shape for x in found] == [x.shape for x in exact]
    return [float(np.linalg.norm((x - y).ravel()) / np.linalg.norm(y.ravel())) for x, y in zip(found, exact, strict=True)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_value_gradient_and_hessian_vector_product(name: str, mock_driver: MockDriver, tmp_path: Path) -> None:
    program = PROGRAMS[name]
    x, *rest = program.arguments
    flat, tree = pytree.flatten(x)
    rng = np.random.default_rng(1)
    v = tree.unflatten([rng.standard_normal(leaf.shape).astype(leaf.dtype) for leaf in flat])
    nm.trace(program.all, x, v, *rest, name="all").lower().compile(nm.CUDA("sm_80"), cache=False).save(tmp_path / "cuda.vmfb")
    run = mock_driver.run(tmp_path / "cuda.vmfb", "all", (x, v, *rest))
    assert max(differences(run.results, leaves(program.all(x, v, *rest)))) <= program.bound
    for counter, most in zip(("launches", "copies", "allocations", "waits"), program.most, strict=True):
        assert run.counters[counter] <= most, counter


def test_sorts_of_one_row(mock_driver: MockDriver, tmp_path: Path) -> None:
    """IREE does not compile one with an unused result: numbers or their places alone."""

    def sorts(x: Any) -> Any:
        y = nnp.sort(x)
        loop = nm.scan(lambda c, z: (nnp.sort(c) * z, z), x, x[:3])[0]
        return (
            y * x,
            nnp.sum(nnp.sort(-x)),
            nnp.argsort(x) * x,
            nnp.median(x),
            nm.jax.lax.top_k(x, 5)[0],
            nnp.sort(x.reshape(1, 20), axis=1),
            loop,
        )

    x = np.random.default_rng(0).standard_normal(20).astype(np.float32)
    nm.trace(sorts, x).lower().compile(nm.CUDA("sm_80"), cache=False).save(tmp_path / "sorts.vmfb")
    run = mock_driver.run(tmp_path / "sorts.vmfb", "sorts", (x,))
    assert max(differences(run.results, leaves(sorts(x)))) <= 2e-7


def test_a_run_that_fails_says_why(mock_driver: MockDriver, tmp_path: Path) -> None:
    """The text of the failure is what the processes wrote: here of an entry point that is not there, and of a run that takes too long."""
    nm.trace(lambda x: x + 1, np.zeros(4, np.float32), name="plus").lower().compile(nm.CUDA("sm_80"), cache=False).save(
        tmp_path / "plus.vmfb"
    )
    assert mock_driver.run(tmp_path / "plus.vmfb", "plus", (np.arange(4, dtype=np.float32),)).results[0].tolist() == [1, 2, 3, 4]
    with pytest.raises(AssertionError, match=r"plus.vmfb @minus on the mock driver: 1\n"):
        mock_driver.run(tmp_path / "plus.vmfb", "minus", (np.zeros(4, np.float32),))
    with pytest.raises(AssertionError, match=r"no end after 0\.01 s"):
        mock_driver.run(tmp_path / "plus.vmfb", "plus", (np.zeros(4, np.float32),), seconds=0.01)


def test_machine_code_is_refused(mock_driver: MockDriver, tmp_path: Path) -> None:
    """The kernels of products for sm_90a are machine code, which the interpreter of PTX cannot read."""
    x = np.ones((64, 64), np.float32)
    nm.trace(lambda x: x @ x, x, name="square").lower().compile(nm.CUDA("sm_90a"), cache=False).save(tmp_path / "square.vmfb")
    with pytest.raises(AssertionError, match="the mock driver requires PTX, got machine code"):
        mock_driver.run(tmp_path / "square.vmfb", "square", (x,))
