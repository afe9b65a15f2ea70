"""What this machine has: CPU features, Vulkan devices, CUDA devices. Only the standard library is imported.

Targets describe themselves with it at compile time, and the deployment runtime checks an artifact against it.
Vulkan matters most: code that assumes another subgroup size than the device has gives wrong numbers, not an error.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import importlib.util
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class VulkanDevice:
    """The properties of a Vulkan device that generated code depends on.

    Args:
      name: what the driver calls the device, or the name of a profile.
      subgroup_size: invocations in a subgroup. Code is right only for this one.
      spirv: the highest SPIR-V version the device reads.
      compute: scalar types of arithmetic, among fp64 fp32 fp16 int64 int32 int16 int8.
      storage: widths in storage buffers, among b64 b32 b16 b8.
      subgroup: subgroup operations, among shuffle and arithmetic.
      workgroup_size: largest workgroup in x, y, z.
      invocations: most invocations in a workgroup.
      shared_memory: bytes of workgroup memory.
      workgroup_count: largest dispatch in x, y, z.
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


@functools.cache
def cpu_features() -> dict[str, bool]:
    """Whether this CPU has each instruction set that IREE distinguishes, by LLVM's name; empty if not known."""
    spec = importlib.util.find_spec("iree._runtime_libs")
    if spec is None or not spec.submodule_search_locations:
        return {}
    suffix = ".exe" if sys.platform == "win32" else ""
    tool = Path(next(iter(spec.submodule_search_locations))) / f"iree-cpuinfo{suffix}"
    try:
        text = subprocess.run([tool], capture_output=True, text=True, check=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    return {name: value == "1" for name, value in (line.split() for line in text.splitlines() if line.strip())}


@functools.cache
def vulkan_devices() -> tuple[VulkanDevice, ...]:
    """The Vulkan devices of this machine, in the order of the loader.

    Raises:
      OSError: there is no Vulkan loader or no working driver; the message says which.
    """
    vk = _load("vulkan-1" if sys.platform == "win32" else "vulkan", "libvulkan.so.1")
    application = _ApplicationInfo(sType=0, apiVersion=(1 << 22) | (2 << 12))
    create = _InstanceCreateInfo(sType=1, pApplicationInfo=ctypes.pointer(application))
    instance = ctypes.c_void_p()
    if status := vk.vkCreateInstance(ctypes.byref(create), None, ctypes.byref(instance)):
        raise OSError(f"vkCreateInstance failed with VkResult {status}: no Vulkan driver works here")
    try:
        count = ctypes.c_uint32()
        vk.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), None)
        handles = (ctypes.c_void_p * count.value)()
        if not count.value or vk.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), handles) < 0:
            raise OSError("the Vulkan loader lists no device")
        return tuple(_describe(vk, ctypes.c_void_p(handle)) for handle in handles)
    finally:
        vk.vkDestroyInstance(instance, None)


@functools.cache
def cuda_devices() -> tuple[str, ...]:
    """The architectures (sm_XX) of the CUDA devices of this machine.

    Raises:
      OSError: there is no CUDA driver or no device.
    """
    cuda = _load("nvcuda" if sys.platform == "win32" else "cuda", "libcuda.so.1")
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


def _load(name: str, fallback: str) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(fallback if sys.platform.startswith("linux") else ctypes.util.find_library(name) or fallback)
    except OSError:
        raise OSError(f"the library {fallback} is not installed") from None


# The C structures of vulkan.h that are read, with padding for the fields that are not.

_u32, _ptr = ctypes.c_uint32, ctypes.c_void_p


class _ApplicationInfo(ctypes.Structure):
    _fields_ = [
        ("sType", _u32), ("pNext", _ptr), ("pApplicationName", ctypes.c_char_p), ("applicationVersion", _u32),
        ("pEngineName", ctypes.c_char_p), ("engineVersion", _u32), ("apiVersion", _u32),
    ]  # fmt: skip


class _InstanceCreateInfo(ctypes.Structure):
    _fields_ = [
        ("sType", _u32), ("pNext", _ptr), ("flags", _u32), ("pApplicationInfo", ctypes.POINTER(_ApplicationInfo)),
        ("layerCount", _u32), ("layers", _ptr), ("extensionCount", _u32), ("extensions", _ptr),
    ]  # fmt: skip


class _Limits(ctypes.Structure):
    _fields_ = [
        ("images", _u32 * 11), ("granularity", ctypes.c_uint64 * 2), ("graphics", _u32 * 38),
        ("maxComputeSharedMemorySize", _u32), ("maxComputeWorkGroupCount", _u32 * 3),
        ("maxComputeWorkGroupInvocations", _u32), ("maxComputeWorkGroupSize", _u32 * 3),
        ("rest", ctypes.c_ubyte * 1024),
    ]  # fmt: skip


class _Properties2(ctypes.Structure):
    _fields_ = [
        ("sType", _u32), ("pNext", _ptr), ("apiVersion", _u32), ("driverVersion", _u32), ("vendorID", _u32),
        ("deviceID", _u32), ("deviceType", _u32), ("deviceName", ctypes.c_char * 256), ("uuid", ctypes.c_ubyte * 16),
        ("limits", _Limits),
    ]  # fmt: skip


class _SubgroupProperties(ctypes.Structure):
    _fields_ = [
        ("sType", _u32), ("pNext", _ptr), ("subgroupSize", _u32), ("supportedStages", _u32),
        ("supportedOperations", _u32), ("quadOperationsInAllStages", _u32),
    ]  # fmt: skip


class _Features(ctypes.Structure):
    """Any structure of features: a type, a link and booleans."""

    _fields_ = [("sType", _u32), ("pNext", _ptr), ("bits", _u32 * 64)]


_SHADER_FLOAT64, _SHADER_INT64, _SHADER_INT16 = 39, 40, 41  # in VkPhysicalDeviceFeatures
_STORAGE_16 = 0  # in VkPhysicalDeviceVulkan11Features
_STORAGE_8, _SHADER_FLOAT16, _SHADER_INT8 = 2, 7, 8  # in VkPhysicalDeviceVulkan12Features
_SPIRV_OF_VULKAN = {(1, 0): "1.0", (1, 1): "1.3", (1, 2): "1.5", (1, 3): "1.6"}


def _describe(vk: ctypes.CDLL, device: ctypes.c_void_p) -> VulkanDevice:
    subgroup = _SubgroupProperties(sType=1000094000)
    properties = _Properties2(sType=1000059001, pNext=ctypes.addressof(subgroup))
    vk.vkGetPhysicalDeviceProperties2(device, ctypes.byref(properties))
    v12 = _Features(sType=51)
    v11 = _Features(sType=49, pNext=ctypes.addressof(v12))
    core = _Features(sType=1000059000, pNext=ctypes.addressof(v11))
    vk.vkGetPhysicalDeviceFeatures2(device, ctypes.byref(core))

    compute = [
        ("fp64", core.bits[_SHADER_FLOAT64]), ("fp32", 1), ("fp16", v12.bits[_SHADER_FLOAT16]),
        ("int64", core.bits[_SHADER_INT64]), ("int32", 1), ("int16", core.bits[_SHADER_INT16]),
        ("int8", v12.bits[_SHADER_INT8]),
    ]  # fmt: skip
    storage = [
        ("b64", core.bits[_SHADER_INT64] or core.bits[_SHADER_FLOAT64]), ("b32", 1),
        ("b16", v11.bits[_STORAGE_16]), ("b8", v12.bits[_STORAGE_8]),
    ]  # fmt: skip
    operations = [("shuffle", subgroup.supportedOperations & 0x10), ("arithmetic", subgroup.supportedOperations & 0x4)]
    version = (properties.apiVersion >> 22 & 0x7F, properties.apiVersion >> 12 & 0x3FF)
    limits = properties.limits
    return VulkanDevice(
        name=properties.deviceName.decode(errors="replace"),
        subgroup_size=subgroup.subgroupSize,
        spirv=_SPIRV_OF_VULKAN.get(version, "1.6"),
        compute=tuple(name for name, has in compute if has),
        storage=tuple(name for name, has in storage if has),
        subgroup=tuple(name for name, has in operations if has),
        workgroup_size=tuple(limits.maxComputeWorkGroupSize),
        invocations=limits.maxComputeWorkGroupInvocations,
        shared_memory=limits.maxComputeSharedMemorySize,
        workgroup_count=tuple(min(n, 2**31 - 1) for n in limits.maxComputeWorkGroupCount),
    )
