"""NVIDIA GPUs."""

from __future__ import annotations

import ctypes
import functools
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from nabla_mlir.base.errors import DeployError, TargetError, user_frame
from nabla_mlir.targets.base import Codegen, Target, nearest
from nabla_mlir.targets.gpu import GPU, device_target, library, target_info
from nabla_mlir.targets.toolchain import triton_version

# The architectures of which IREE has descriptions; and others, with the lowest version of PTX that supports them.
_DESCRIBED = ("sm_60", "sm_61", "sm_62", "sm_70", "sm_72", "sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_120", "sm_121")
_PTX_OF_ARCH = {"sm_90": "+ptx80", "sm_100": "+ptx86", "sm_101": "+ptx86", "sm_103": "+ptx88"}
_MATRICES = ("NV_MMA_SYNC_F32_16x8x16_F16", "NV_MMA_SYNC_F16_16x8x16_F16", "NV_MMA_SYNC_F32_16x8x16_BF16")
_FLAGS = (
    # LLVM creates 16-bit divisions of indices, for which its own backend has no instructions (`short_divisions`).
    "--opt-disable=correlated-propagation",
    # Constants would be computed by code for this CPU, from IR that is right only for GPUs.
    "--iree-opt-const-eval=false",
    # A kernel that writes many values binds their buffer once, so that the runtime's limit on bindings is not exceeded.
    "--iree-stream-resource-alias-mutable-bindings",
)


@dataclass(frozen=True)
class CUDA(Target):
    """An NVIDIA GPU. The artifact holds PTX, which newer GPUs also run (unless the architecture ends in a or f).

    It does not hold machine code: IREE 3.13 accepts --iree-cuda-use-ptxas, but never calls ptxas.

    Args:
      arch: "host" (the first GPU of this machine) or an architecture, such as "sm_80" or "sm_90". Code for "sm_90a" runs on
        Hopper alone, and uses its tensor cores best.
      triton: True compiles products and convolutions with Triton, if it is installed (`pip install "nabla-mlir[cuda]"`).

    Raises:
      TargetError: the architecture is unknown.
    """

    arch: str = "sm_80"
    triton: bool = True

    name: ClassVar[str] = "cuda"
    drivers: ClassVar[tuple[str, ...]] = ("cuda",)
    labelled: ClassVar[tuple[str, ...]] = ("arch",)
    plugins: ClassVar[tuple[str, ...] | None] = ("hal_target_cuda",)
    codegen: ClassVar[Codegen] = Codegen(
        exponentials=frozenset(["float32", "float64"]),
        tanh=frozenset(["float32", "float64"]),
        remainders=8,
        chlo_functions=True,
        leading_zeros=True,
        order=True,
        reversed_operands=True,
        longest_sort=256,
        sums_of_products=True,
        long_sums=True,
        grouped_convolutions=True,
        unique_indices=True,
        sorted_operands=True,
        updates_in_loops=True,
        parallel_sums=False,
        short_divisions=False,
        cheap_iterations=False,
        cheap_dispatches=False,
        most_arguments=12,
    )

    def __post_init__(self) -> None:
        """Raises TargetError for an unknown architecture."""
        known = self.arch in ("host", *_DESCRIBED) or re.sub("[af]$", "", str(self.arch)) in _PTX_OF_ARCH
        if not known:
            names = ("host", *sorted((*_DESCRIBED, *_PTX_OF_ARCH, "sm_90a"), key=_number))
            raise TargetError(
                f"target cuda requires a known architecture, got {self.arch!r}.",
                where=user_frame(),
                help=f"{nearest(self.arch, names)} Newer GPUs run the code of older ones.",
            )
        super().__post_init__()

    @classmethod
    def found(cls) -> Sequence[str]:
        return cuda_devices()

    @classmethod
    def here(cls) -> CUDA:
        return cls("host")

    @classmethod
    def check_fit(cls, data: Mapping[str, Any]) -> None:
        """Raises DeployError if there is no GPU here, or if the GPU is older than the architecture of the code."""
        arch = str(data.get("arch"))
        try:
            device = cuda_devices()[0]
        except OSError as error:
            help = "install an NVIDIA driver, or compile for the CPU."
            raise DeployError(f"the artifact requires a CUDA device, got none: {error}.", help=help) from None
        other = arch[-1:] == "a" and arch[:-1] != device  # code for one architecture only
        other |= arch[-1:] == "f" and _number(arch) // 10 != _number(device) // 10  # for one family only
        if other or _number(device) < _number(arch):
            raise DeployError(
                f"the artifact requires a CUDA device of {arch} or newer, got {device}.",
                help=f"compile it for this device: CUDA({device!r}).",
            )

    @classmethod
    def entrance(cls) -> Callable[[], None]:
        """A function that makes the current CUDA context current in another thread, which calls it.

        IREE 3.13 does this when it computes, but not when it allocates.
        """
        cuda, context = _library(), ctypes.c_void_p()
        cuda.cuCtxGetCurrent(ctypes.byref(context))
        return functools.partial(cuda.cuCtxSetCurrent, context)

    @classmethod
    def measured(cls) -> dict[str, tuple[Target, Sequence[str] | None]]:
        return {"sm_80": (cls("sm_80"), ("f64", "f32", "f16", "i32", "c64")), "sm_90": (cls("sm_90"), ("f32",))}

    def resolve(self) -> CUDA:
        """The same target with the architecture instead of "host".

        Raises:
          TargetError: there is no CUDA device.
        """
        if self.arch == "host":
            try:
                return replace(self, arch=_exact(cuda_devices()[0]))
            except OSError as error:
                help = "name an architecture, such as CUDA('sm_80'): compiling needs no GPU."
                raise TargetError(f"target cuda requires a CUDA device, got none: {error}.", help=help) from None
        return self

    def missing_compiler(self) -> str:
        return "Triton" if self.triton and not triton_version() else ""

    def triton_capability(self) -> int:
        """The compute capability for which Triton makes kernels, such as 90; 0 without Triton."""
        if not self.triton or not triton_version():
            return 0
        arch = self.resolve().arch
        if arch == "sm_90a":
            return 90
        return min(_number(arch), 89)  # PTX for it runs on all newer GPUs

    def device_targets(self) -> str | None:
        """The description of the GPU in the form that IREE's compiler reads; None if nabla_mlir has none."""
        arch = self.resolve().arch
        if arch.rstrip("af") not in _PTX_OF_ARCH:
            return None
        gpu = replace(GPU, shared_memory=166912, workgroup_count=(2**31 - 1, 65535, 65535))
        info = target_info(arch, _PTX_OF_ARCH[arch.rstrip("af")], gpu, _MATRICES)
        return device_target("cuda", "cuda", "cuda-nvptx-fb", info)

    def _device_flags(self) -> list[str]:
        """The flags of iree-compile that describe the GPU."""
        if self.device_targets():
            return [*super()._device_flags(), *_FLAGS]
        return ["--iree-hal-target-device=cuda", f"--iree-cuda-target={self.resolve().arch}", *_FLAGS]


def _exact(device: str) -> str:
    """The architecture for code that runs only on this kind of device, if such code is faster; otherwise the device's own."""
    return "sm_90a" if device == "sm_90" else device


@functools.cache
def cuda_devices() -> tuple[str, ...]:
    """The architectures (sm_XX) of the CUDA devices of this machine.

    Raises:
      OSError: there is no CUDA driver or no device.
    """
    cuda = _library()
    count = ctypes.c_int()
    if (status := cuda.cuInit(0)) or (status := cuda.cuDeviceGetCount(ctypes.byref(count))):
        raise OSError(f"the CUDA driver reports error {status}")
    if not count.value:
        raise OSError("the CUDA driver lists no device")
    architectures = []
    for index in range(count.value):
        major, minor = ctypes.c_int(), ctypes.c_int()
        cuda.cuDeviceGetAttribute(ctypes.byref(major), 75, index)
        cuda.cuDeviceGetAttribute(ctypes.byref(minor), 76, index)
        architectures.append(f"sm_{major.value}{minor.value}")
    return tuple(architectures)


def _library() -> ctypes.CDLL:
    """The library of the CUDA driver."""
    return library("nvcuda" if sys.platform == "win32" else "cuda", "libcuda.so.1")


def _number(arch: str) -> int:
    """The number in the name of an architecture: 90 for sm_90a."""
    return int(re.sub(r"\D", "", arch) or 0)
