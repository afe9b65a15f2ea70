"""Kernels for NVIDIA GPUs: their axes and tiles, and what happens without Triton or where it refuses a kernel."""

from __future__ import annotations

import json
import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nabla_mlir as nm
from nabla_mlir.base.errors import CompileError
from nabla_mlir.compiling import lowering, triton_kernels, triton_worker
from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.regions import nested_in_functions
from nabla_mlir.passes.iree.gpu.contraction import Contraction
from nabla_mlir.passes.iree.gpu.product_kernel import product_kernel
from nabla_mlir.passes.iree.gpu.sources import contraction_of
from nabla_mlir.passes.iree.gpu.sums import FOLDS, Sums
from nabla_mlir.passes.iree.gpu.tiles import _F32, Tiling, microseconds, tiling_of
from nabla_mlir.targets import cuda
from nabla_mlir.targets.toolchain import Finished

lax = nm.jax.lax


def source(function: Any, *shapes: tuple[int, ...], dtype: Any = np.float32) -> Contraction | None:
    module = nm.trace(function, *(nm.spec(shape, dtype) for shape in shapes)).lower().module
    with context():
        names = ("stablehlo.dot_general", "stablehlo.convolution")
        (op,) = (op for op in nested_in_functions(module.operation) if op.name in names)
        return contraction_of(op)


def contraction(function: Any, *shapes: tuple[int, ...]) -> Contraction:
    found = source(function, *shapes)
    assert found is not None
    return found.canonical()


def test_axes_that_lie_like_one_are_one():
    heads = contraction(lambda x, w: nm.numpy.einsum("bsd,dhe->bshe", x, w), (4, 128, 512), (512, 8, 64))
    assert heads.shape == (1, 512, 512, 512)
    assert [len(axes) for axes in (heads.batch, heads.rows, heads.columns, heads.inner)] == [0, 1, 1, 1]
    scores = contraction(lambda q, k: nm.numpy.einsum("bshe,bthe->bhst", q, k), (4, 128, 8, 64), (4, 128, 8, 64))
    assert (scores.shape, len(scores.batch)) == ((32, 128, 128, 64), 2)


def test_columns_are_neighbours_in_the_result():
    """In NCHW, neighbouring positions are neighbours in memory and neighbouring features are not: positions are columns."""
    dims = ("NCHW", "OIHW", "NCHW")
    convolved = lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=dims)  # noqa: E731
    conv = contraction(convolved, (2, 16, 8, 8), (24, 16, 3, 3))
    assert conv.is_exchanged
    assert conv.shape == (1, 24, 128, 144)


def test_windows_that_stay_inside_are_plain_axes():
    dims = ("NHWC", "HWIO", "NHWC")
    convolved = lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=dims)  # noqa: E731
    product = contraction(convolved, (2, 8, 8, 16), (1, 1, 16, 24))
    assert product.shape == (1, 128, 24, 16)
    assert not product.a.windows
    assert [len(axes) for axes in (product.rows, product.columns, product.inner)] == [1, 1, 1]


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.complex64])
def test_other_types_have_no_kernel(dtype):
    assert source(lambda a, b: a @ b, (64, 64), (64, 64), dtype=dtype) is None


def test_tiles_of_the_cost_model():
    """Few tiles are divided along the inner indices; a product with a vector, and a small one, are IREE's."""
    square = contraction(lambda a, b: a @ b, (512, 512), (512, 512))
    long = contraction(lambda a, b: a.T @ b, (5000, 64), (5000, 64))
    large = contraction(lambda a, b: a @ b, (4096, 4096), (4096, 4096))
    longest = contraction(lambda a, b: a.T @ b, (10**6, 64), (10**6, 64))  # parts of at most 2^14 terms, for accuracy
    found = [tiling_of(c) for c in (square, long, large, longest)]
    assert all(found)
    assert [t.splits for t in found if t] == [2, 32, 1, 64]
    vector, small = contraction(lambda a, b: a @ b, (4096, 4096), (4096, 1)), contraction(lambda a, b: a @ b, (8, 8), (8, 8))
    assert tiling_of(vector) is None
    assert tiling_of(small) is None


def test_the_model_has_the_measured_times():
    """Microseconds on an H200: within a third."""
    for shape, tiling, measured in (
        ((512, 2048, 512), Tiling(128, 64, 32, 2), 20.4),
        ((4096, 4096, 4096), Tiling(64, 64, 32), 2087.0),
        ((64, 1024, 256), Tiling(16, 64, 64, 2), 4.9),
    ):
        rows, columns, inner = shape
        c = contraction(lambda a, b: a @ b, (rows, inner), (inner, columns))
        predicted = microseconds(c, tiling, _F32[Tiling(tiling.rows, tiling.columns, tiling.inner)])
        if tiling.splits > 1:
            predicted -= 3 + 8 * tiling.splits * rows * columns / 2.5e6  # the sum of the parts was not measured
        assert 2 / 3 < predicted / measured < 3 / 2


def test_sums_have_work_for_all_multiprocessors():
    """64 channels of 8,192 numbers: 528 blocks, each for 64 neighbours."""
    sums = Sums.of((8, 1024, 64), (0, 1), "f32", FOLDS["stablehlo.add", "f"])
    assert (sums.rows, sums.inner, sums.splits, sums.blocks) == (64, 32, 128, 128)
    whole = Sums.of((10**6,), (0,), "f32", FOLDS["stablehlo.add", "f"])
    assert (whole.rows, whole.inner, whole.splits) == (1, 2048, 244)


PTX = """.visible .entry kernel(
	.param .u64 .ptr .global .align 1 kernel_param_0,
	.param .u64 .ptr .global .align 1 kernel_param_1,
	.param .u64 .ptr .global .align 1 kernel_param_2
)
{
	ld.param.b64 	%rd1, [kernel_param_0];
"""


def test_scratch_parameters_are_dropped():
    text = triton_worker.without_scratch(PTX)
    assert "kernel_param_0\n)" in text
    assert "kernel_param_1" not in text
    with pytest.raises(ValueError, match="reads scratch memory"):
        triton_worker.without_scratch(PTX + "ld.param.b64 %rd2, [kernel_param_1];")
    with pytest.raises(ValueError, match="no kernel"):
        triton_worker.without_scratch("")


@pytest.fixture
def product() -> Any:
    return nm.trace(lambda a, b: a @ b, nm.spec((64, 128)), nm.spec((128, 96))).lower()


def test_without_triton_a_warning_says_what_is_lost(product, monkeypatch):
    monkeypatch.setattr(cuda, "triton_version", lambda: "")
    advice = r"Triton is not installed: products .* Install nabla-mlir\[cuda\], or write CUDA\(triton=False\)"
    with pytest.warns(RuntimeWarning, match=advice):
        assert product.compile(nm.CUDA("sm_80"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lowering, "warn", lambda *_, **__: pytest.fail("a warning"))
        assert product.compile(nm.CUDA("sm_80", triton=False))


def test_a_kernel_that_triton_refuses_is_left_to_iree(product, monkeypatch):
    monkeypatch.setattr(cuda, "triton_version", lambda: "3.9.0")
    monkeypatch.setattr(triton_kernels, "_compile", lambda requests: [{"error": "RuntimeError: no"} for _ in requests])
    with pytest.warns(RuntimeWarning, match="compiled without kernels for tensor cores, slower: .* got RuntimeError: no"):
        assert product.compile(nm.CUDA("sm_80"), cache=False)


@pytest.mark.parametrize(("code", "message"), [(3, "got the last line"), (-9, "got a crash")])
def test_a_worker_that_fails(monkeypatch, code, message):
    output = "first\nthe last line\n" if code > 0 else ""
    monkeypatch.setattr(triton_kernels, "run_process", lambda *_, **__: Finished(code, b"", output))
    with pytest.raises(CompileError, match=message) as error:
        triton_kernels._compile([{}])
    assert "CUDA(triton=False)" in str(error.value)


def test_a_kernel_is_compiled_once(product, monkeypatch, tmp_path):
    """The same kernel of another program comes from the cache."""
    monkeypatch.setenv("NABLA_MLIR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cuda, "triton_version", lambda: "3.9.0")
    requests: list[Any] = []

    def compile(kernels: list[Any]) -> list[Any]:
        requests.extend(json.loads(json.dumps(kernels)))
        return [{"code": "QUJD", "shared": 4096} for _ in kernels]

    monkeypatch.setattr(triton_kernels, "_compile", compile)
    target = nm.CUDA("sm_90a")
    modules = [lowering._with_kernels(product.module, target, True, True) for _ in range(2)]
    assert [(r["capability"], r["format"], r["warps"]) for r in requests] == [(90, "cubin", 4)]
    for module in modules:
        assert re.search(r"\[65, 66, 67\]|0x414243", str(module))
        assert "workgroup_local_memory = 4096" in str(module)
        assert "nabla.triton" not in str(module)


def test_shared_memory_has_a_limit(product, monkeypatch, tmp_path):
    monkeypatch.setenv("NABLA_MLIR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cuda, "triton_version", lambda: "3.9.0")
    monkeypatch.setattr(triton_kernels, "_compile", lambda kernels: [{"code": "QUJD", "shared": 10**6} for _ in kernels])
    with pytest.warns(RuntimeWarning, match="1000000 bytes of shared memory"):
        lowering._with_kernels(product.module, nm.CUDA("sm_86"), True, True)


def test_hopper_alone_has_its_instructions(monkeypatch):
    """Code for sm_90 runs on newer GPUs too, so its kernels are those of sm_89."""
    monkeypatch.setattr(cuda, "triton_version", lambda: "3.9.0")
    found = {arch: nm.CUDA(arch).triton_capability() for arch in ("sm_80", "sm_86", "sm_90", "sm_90a", "sm_100", "sm_120")}
    assert found == {"sm_80": 80, "sm_86": 86, "sm_90": 89, "sm_90a": 90, "sm_100": 89, "sm_120": 89}
    monkeypatch.setattr(cuda, "cuda_devices", lambda: ("sm_90",))
    assert nm.CUDA("host").resolve().arch == "sm_90a"


def test_bf16_products_use_tensor_cores_without_triton():
    """IREE's description of sm_90 lists the instructions."""
    spec = nm.spec((128, 128), ml_dtypes.bfloat16)
    artifact = nm.trace(lambda a, b: a @ b, spec, spec).lower().compile(nm.CUDA("sm_90", triton=False), cache=False)
    assert b"mma.sync" in artifact.vmfb


def test_the_text_of_a_kernel_is_that_of_its_axes():
    c = contraction(lambda a, b: a @ b, (64, 128), (128, 96))
    text = product_kernel("product", c, Tiling(32, 32, 32, splits=2))
    assert "tt.dot" in text
    assert "inputPrecision = bf16x6" in text
    assert "tt.load" in text
    assert "i1" not in text.split("tt.load")[0]  # whole tiles need no masks
