"""Targets: the kinds of machines for which a module is compiled. A kind is a file of this room, and is in the list below.

A target knows its compiler flags, the drivers that run its artifacts, the devices of this machine, and whether code fits. It
does not import the compiler; `CPU("host")` asks the compiler for the name of the host in a separate process. So this room is
deployed with the runtime, which asks a target whether code fits.
"""

from nabla_mlir.targets.base import TARGETS, Availability, Codegen, Target, available, drivers_of, merge_flags, target, target_of
from nabla_mlir.targets.cpu import CPU
from nabla_mlir.targets.cuda import CUDA
from nabla_mlir.targets.gpu import VulkanDevice
from nabla_mlir.targets.vulkan import VULKAN_PROFILES, Vulkan

TARGETS.update((cls.name, cls) for cls in (CPU, Vulkan, CUDA))

__all__ = [
    "CPU",
    "CUDA",
    "TARGETS",
    "VULKAN_PROFILES",
    "Availability",
    "Codegen",
    "Target",
    "Vulkan",
    "VulkanDevice",
    "available",
    "drivers_of",
    "merge_flags",
    "target",
    "target_of",
]
