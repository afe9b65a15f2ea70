"""The kernels of products and convolutions, for the tensor cores of sm_89 (mma.sync) and sm_90a (wgmma), in the interpreter of PTX."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from gpu.kernels import Compiled, compiled
from gpu.product_cases import CASES, dot

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="requires Triton")]

CAPABILITIES = (89, 90)
# Relative errors (Frobenius norm), by the types of factors and result; bf16 and f16 results are rounded to 8 and 11 bits.
BOUNDS = {("f32", "f32"): 2e-7, ("bf16", "f32"): 2e-7, ("bf16", "bf16"): 3e-3, ("f16", "f16"): 4e-4}
# Wavefronts of shared memory, as multiples of the least number; and of the kernels that have more today.
MOST_WAVEFRONTS = 2.0
MORE_WAVEFRONTS = {("channels first", 89): 2.8, ("channels first", 90): 9.9, ("several inner axes", 90): 8.8}
# Bytes of registers that do not fit, and are stored and loaded: few, in large tiles of odd sizes on sm_89 alone.
SPILLS = {("large tiles", 89): 40, ("wide tiles", 89): 4}


@pytest.fixture(scope="module")
def kernels() -> dict[tuple[str, int], Compiled]:
    """All kernels, by their case and the compute capability."""
    return {
        (name, capability): kernel
        for capability in CAPABILITIES
        for name, kernel in zip(CASES, compiled(list(CASES.values()), capability), strict=True)
    }


@pytest.fixture(scope="module")
def ptxas() -> Path:
    """NVIDIA's assembler, which is part of Triton."""
    spec = importlib.util.find_spec("triton")
    assert spec
    assert spec.origin
    return Path(spec.origin).parent / "backends/nvidia/bin/ptxas"


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("name", CASES)
def test_numbers_and_wavefronts(name: str, capability: int, kernels: dict[tuple[str, int], Compiled]) -> None:
    kernel = kernels[name, capability]
    left, right = kernel.case.arrays()
    found, counts = kernel.run(left, right)
    exact = kernel.case.numbers(left.astype(np.float64), right.astype(np.float64))
    error = np.linalg.norm(found.astype(np.float64) - exact) / np.linalg.norm(exact)
    assert error < BOUNDS[kernel.case.element, kernel.case.result]
    assert counts["wgmma" if capability == 90 and kernel.case.tiling.rows >= 64 else "mma"] > 0
    most = MORE_WAVEFRONTS.get((name, capability), MOST_WAVEFRONTS)
    for access in ("ld", "st", "ldmatrix", "stmatrix"):
        if ideal := counts[f"shared.{access}.ideal"]:
            assert counts[f"shared.{access}.wavefronts"] <= most * ideal, access


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_registers_suffice(capability: int, kernels: dict[tuple[str, int], Compiled], ptxas: Path, tmp_path: Path) -> None:
    """The largest tiles need the most registers; convolutions need more for addresses."""
    for name in ("plain", "large tiles", "long inner tiles", "wide tiles", "both dilated", "gradient of a strided kernel"):
        stored, loaded = kernels[name, capability].spills(ptxas, tmp_path)
        assert max(stored, loaded) <= SPILLS.get((name, capability), 0), name


@pytest.fixture(scope="module")
def product() -> Compiled:
    """A product of 64 x 32 and 32 x 32 on wgmma."""
    return compiled([dot((64, 32), (32, 32), ([1], [0]), "ij,jk->ik")], 90)[0]


def test_nan_and_infinity_are_those_of_numpy(product: Compiled) -> None:
    left, right = product.case.arrays()
    left[0, 3] = np.nan
    left[1, 4], left[2, 5], left[3, 1], left[3, 2] = np.inf, -np.inf, np.inf, -np.inf
    left[5] = left[6, 7] = 0
    right[7, 9], right[8, 10] = np.inf, np.nan
    with np.errstate(invalid="ignore"):
        expected = left @ right
    found = product.run(left, right)[0]
    assert np.isnan(expected).sum() > 100
    assert np.isinf(expected).sum() > 100
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))
    np.testing.assert_array_equal(np.where(np.isfinite(found), 0, found), np.where(np.isfinite(expected), 0, expected))


@pytest.mark.parametrize(
    "size",
    [
        3.38e38,
        2.0**126,
        1e-20,
        1e-33,
        *(
            pytest.param(x, marks=pytest.mark.xfail(strict=True, reason=reason))
            for x, reason in (
                (3.4028234e38, "bf16 rounds factors above 3.396e38 to infinity"),
                (1e-36, "the last parts of a factor are below 9e-41, the least number of bf16"),
                (1e-42, "so are all parts of a subnormal factor"),
            )
        ),
    ],
)
def test_large_and_small_factors(size: float, product: Compiled) -> None:
    """One factor is that large, the other about 1/2: no sum leaves the range of f32."""
    left, right = np.zeros((64, 32), np.float32), np.zeros((32, 32), np.float32)
    left[:, 0] = np.float32(size) * (1 - np.arange(64, dtype=np.float32) / 256)
    right[0] = np.linspace(0.4, 0.6, 32)
    exact = left.astype(np.float64) @ right.astype(np.float64)
    found = product.run(left, right)[0].astype(np.float64)
    assert np.abs(found - exact).max() <= 2e-7 * exact.max() + 2.0**-149
