"""Descriptions of GPUs for all GPU targets, and their form in a module."""

from __future__ import annotations

import ctypes
import ctypes.util
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class VulkanDevice:
    """The properties of a Vulkan device that generated code depends on.

    Args:
      name: the driver's name of the device, or the name of a profile.
      subgroup_size: the number of invocations in a subgroup. Code is right only for this size.
      spirv: the highest SPIR-V version that the device reads.
      compute: scalar types of arithmetic, among fp64 fp32 fp16 int64 int32 int16 int8.
      storage: widths in storage buffers, among b64 b32 b16 b8.
      subgroup: subgroup operations, among shuffle and arithmetic.
      workgroup_size: the largest workgroup in x, y, z.
      invocations: the largest number of invocations in a workgroup.
      shared_memory: bytes of workgroup memory.
      workgroup_count: the largest dispatch in x, y, z.
    """

    name: str
    subgroup_size: int
    spirv: str = "1.3"
    compute: tuple[str, ...] = ("fp32", "int32")
    storage: tuple[str, ...] = ("b32",)
    subgroup: tuple[str, ...] = ("shuffle", "arithmetic")
    workgroup_size: tuple[int, int, int] = (128, 128, 64)
    invocations: int = 128
    shared_memory: int = 16384
    workgroup_count: tuple[int, int, int] = (65535, 65535, 65535)

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> VulkanDevice:
        """The device that `to_json` wrote."""
        fields: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in data.items()}
        return VulkanDevice(**fields)


GPU = VulkanDevice(
    name="gpu",
    subgroup_size=32,
    spirv="1.6",
    compute=("fp64", "fp32", "fp16", "int64", "int32", "int16", "int8"),
    storage=("b64", "b32", "b16", "b8"),
    workgroup_size=(1024, 1024, 1024),
    invocations=1024,
    shared_memory=49152,
)


def target_info(arch: str, features: str, device: VulkanDevice, matrices: Sequence[str] = ()) -> str:
    """The description of a GPU, in the form that IREE's code generators read.

    Args:
      matrices: the names of the instructions of its tensor cores that IREE may use.
    """
    wgp = ", ".join(
        [
            f"compute = {'|'.join(device.compute)}",
            f"storage = {'|'.join(device.storage)}",
            f"subgroup = {'|'.join(device.subgroup) or 'none'}",
            *([f"mma = [{', '.join(f'<{name}>' for name in matrices)}]"] if matrices else []),
            f"subgroup_size_choices = [{device.subgroup_size}]",
            f"max_workgroup_sizes = {list(device.workgroup_size)}",
            f"max_thread_count_per_workgroup = {device.invocations}",
            f"max_workgroup_memory_bytes = {device.shared_memory}",
            f"max_workgroup_counts = {list(device.workgroup_count)}",
        ]
    )
    return f'#iree_gpu.target<arch = "{arch}", features = "{features}", wgp = <{wgp}>>'


def device_target(device: str, backend: str, format: str, info: str) -> str:
    """A device with one form of code, as text for the module attribute `hal.device.targets`."""
    executable = f'#hal.executable.target<"{backend}", "{format}", {{iree_codegen.target_info = {info}}}>'
    return f'#hal.device.target<"{device}", [{executable}]> : !hal.device'


def library(name: str, fallback: str) -> ctypes.CDLL:
    """The library of a driver: by its file name on Linux (`fallback`), and by its name elsewhere.

    Raises:
      OSError: it is not installed.
    """
    try:
        return ctypes.CDLL(fallback if sys.platform.startswith("linux") else ctypes.util.find_library(name) or fallback)
    except OSError:
        raise OSError(f"the library {fallback} is not installed") from None
