"""Compiles small modules with IREE and runs them: what the tests of legalisation have in common."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

import iree.compiler
import iree.runtime
import numpy as np

from nabla_mlir.compiling import strategies
from nabla_mlir.compiling.compiler import compile_module
from nabla_mlir.compiling.internals.references import lost_buffers
from nabla_mlir.compiling.lowering import compile_program
from nabla_mlir.dialects.context import parse_module
from nabla_mlir.passes.iree.pipeline import LegalizeForIreePipeline, OwnBuffersPipeline
from nabla_mlir.passes.iree.scheduling.place_results import PlaceResultsPass
from nabla_mlir.passes.pipeline import Pipeline
from nabla_mlir.targets import CPU, Vulkan
from nabla_mlir.targets.toolchain import disassembled

CPU_FLAGS = [
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
    "--iree-input-demote-f64-to-f32=false",
    "--iree-opt-level=O3",
    "--iree-dispatch-creation-enable-aggressive-fusion=false",
    "--iree-global-opt-enable-warn-on-uninitialized-values=false",
]


def legalized(text: str, target: str = "cpu", vector_bytes: int = 0) -> str:
    """The module as IREE gets it, but for what is there for speed, as text; the result is verified."""
    module = parse_module(text)
    passes = [*LegalizeForIreePipeline(target, vector_bytes).passes(), *OwnBuffersPipeline(target).passes()]
    Pipeline(tuple(p for p in passes if not isinstance(p, PlaceResultsPass))).run(module.operation)
    assert module.operation.verify()
    return str(module)


class Program:
    """The functions of a compiled module, on NumPy arrays."""

    def __init__(self, text: str, target: str = "cpu"):
        config = iree.runtime.Config("local-sync" if target == "cpu" else target)
        self._device = None if target == "cpu" else config.device
        binary = _compiled(text) if target == "cpu" else compile_module(text, Vulkan(), cache=False)
        self._module = iree.runtime.load_vm_module(iree.runtime.VmModule.copy_buffer(config.vm_instance, binary), config)

    def __call__(self, name: str, *arguments: Any) -> Any:
        place = np.asarray if self._device is None else functools.partial(_on_device, device=self._device)
        result = self._module[name](*map(place, arguments))
        host = (lambda r: np.array(r.to_host())) if self._device is None else self._to_host
        return tuple(map(host, result)) if isinstance(result, (tuple, list)) else host(result)

    def _to_host(self, result: iree.runtime.DeviceArray) -> np.ndarray:
        """By way of memory that the host can map, for the same reason as `_on_device`."""
        source, device = result._buffer_view.get_buffer(), self._device
        memory, usage = iree.runtime.MemoryType, iree.runtime.BufferUsage
        copy = device.allocator.allocate_buffer(
            memory_type=memory.HOST_LOCAL | memory.DEVICE_VISIBLE,
            allowed_usage=usage.TRANSFER_TARGET | usage.MAPPING_SCOPED,
            allocation_size=source.byte_length(),
        )
        done = device.create_semaphore(0)
        fences = (iree.runtime.HalFence.create_at(done, i) for i in (0, 1))
        device.queue_copy(source, copy, *fences)
        done.wait(1)
        return copy.map().asarray(result.shape, result.dtype).copy()


def _compiled(text: str) -> bytes:
    """With plain flags, but where IREE's code for a loop loses a buffer, which is chance and no matter of legalisation."""
    binary = iree.compiler.compile_str(text, extra_args=CPU_FLAGS)
    if "stablehlo.while" not in text or not lost_buffers(disassembled(binary)):
        return binary
    return compile_program(strategies.Program(text), CPU(reassociate=False, schedule=False), cache=False)


def _on_device(argument: Any, device: iree.runtime.HalDevice) -> iree.runtime.DeviceArray:
    """A copy of an array on the device; the runtime's own way asks Vulkan for memory that starts on a page."""
    array = np.asarray(argument, order="C")
    usage = iree.runtime.BufferUsage.DEFAULT | iree.runtime.BufferUsage.MAPPING
    element = iree.runtime.array_interop.map_dtype_to_element_type(array.dtype)
    view = device.allocator.allocate_buffer_copy(iree.runtime.MemoryType.DEVICE_LOCAL, usage, device, array, element)
    return iree.runtime.DeviceArray(device, view, implicit_host_transfer=True)


def jax_text(functions: Mapping[str, tuple[Callable[..., Any], tuple[Any, ...]]]) -> str:
    """One module with each function as JAX lowers it for the given arguments."""
    import jax

    jax.config.update("jax_enable_x64", True)
    parts = []
    for name, (function, arguments) in functions.items():
        text = jax.jit(function, keep_unused=True).lower(*arguments).as_text()
        body = text[text.index("func.func") : text.rindex("}")].replace("public @main", f"@{name}")
        body = re.sub(r"func\.func private @(\w+)", rf"func.func private @{name}_\1", body)
        parts.append(re.sub(r"(?<!custom_)call @(\w+)", rf"call @{name}_\1", body))
    return "module {\n" + "\n".join(parts) + "}\n"


def check_against_jax(
    functions: Mapping[str, tuple[Callable[..., Any], tuple[Any, ...]]],
    tolerance: float,
    target: str = "cpu",
    vector_bytes: int = 0,
) -> None:
    """Legalises, compiles and runs all functions, and compares with JAX on the same arguments.

    The tolerance is relative to the largest magnitude of each result, and times 1e-9 in double precision.
    """
    import jax

    program = Program(legalized(jax_text(functions), target, vector_bytes), target)
    wrong = []
    for name, (function, arguments) in functions.items():
        wants = jax.tree.leaves(jax.jit(function)(*arguments))
        gots = program(name, *jax.tree.leaves(arguments))
        for got, want in zip(gots if isinstance(gots, tuple) else (gots,), wants, strict=True):
            want = np.asarray(want)
            assert (got.shape, got.dtype) == (want.shape, want.dtype), name
            if want.dtype.kind not in "fc" and want.dtype.name != "bfloat16":
                good = np.array_equal(got, want)
            else:
                wide = np.complex128 if want.dtype.kind == "c" else np.float64
                finite = np.abs(want[np.isfinite(want)].astype(wide))
                scale = tolerance * (1e-9 if want.dtype in (np.float64, np.complex128) else 1.0)
                atol = scale * float(finite.max(initial=0.0))
                good = np.allclose(got.astype(wide), want.astype(wide), rtol=0, atol=atol, equal_nan=True)
            if not good:
                wrong.append(name)
    assert not wrong, wrong


def ulps(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """The error in units in the last place; 0 for equal values, both NaN, or what is flushed to zero; else inf."""
    rounded = want.astype(got.dtype)
    with np.errstate(all="ignore"):
        error = np.abs(got.astype(np.longdouble) - want) / np.spacing(np.abs(rounded)).astype(np.longdouble)
    tiny = np.finfo(got.dtype).tiny
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded)) | ((np.abs(rounded) < tiny) & (np.abs(got) <= tiny))
    return np.where(same, 0.0, np.where(np.isfinite(got) & np.isfinite(rounded), error, np.inf))
