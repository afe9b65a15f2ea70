"""Vulkan devices. The description of the device is part of the module.

The description must be right: code for another subgroup size gives wrong numbers, not an error.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from nabla_mlir.base.errors import DeployError, TargetError, user_frame
from nabla_mlir.targets.base import Codegen, Target, merge_flags, nearest
from nabla_mlir.targets.gpu import GPU, VulkanDevice, device_target, library, target_info

VULKAN_PROFILES = {
    "nvidia": replace(GPU, name="nvidia"),
    "amd": replace(GPU, name="amd", subgroup_size=64, shared_memory=65536),
    "lavapipe": replace(GPU, name="lavapipe", subgroup_size=8, shared_memory=32768),
}

_NO_REPLAY = "cached_bda_replay_instances=0"


@dataclass(frozen=True)
class Vulkan(Target):
    """A Vulkan device, described in the module itself: a wrong subgroup size would give wrong numbers silently.

    Args:
      device: "host" (the first device of this machine), a profile (see `VULKAN_PROFILES`) or a `VulkanDevice`.

    Raises:
      TargetError: the profile is unknown.
    """

    device: str | VulkanDevice = "host"

    name: ClassVar[str] = "vulkan"
    drivers: ClassVar[tuple[str, ...]] = ("vulkan",)
    labelled: ClassVar[tuple[str, ...]] = ("device",)
    plugins: ClassVar[tuple[str, ...] | None] = ("hal_target_vulkan_spirv",)
    codegen: ClassVar[Codegen] = Codegen(
        tanh=frozenset(["float32"]),
        longest_sort=256,
        sort_multiple=4,
        sums_of_products=True,
        long_sums=True,
        narrow_convolutions=True,
        unique_indices=True,
        sorted_operands=True,
        cheap_iterations=False,
    )
    maps_memory: ClassVar[bool] = True

    @classmethod
    def open_as(cls, driver: str) -> str:
        # IREE 3.13 replays the commands of an earlier call if the buffers of kernels are the same. It does not compare those of
        # copies, which then read and write the buffers of the earlier call.
        uri = driver if "://" in driver else f"{driver}://"
        return f"{uri}{'&' if '?' in uri else '?'}{_NO_REPLAY}"

    @classmethod
    def found(cls) -> Sequence[str]:
        return [f"{d.name} (subgroup size {d.subgroup_size})" for d in vulkan_devices()]

    @classmethod
    def check_fit(cls, data: Mapping[str, Any]) -> None:
        """Raises DeployError if the device of this machine differs in a property on which the code depends."""
        try:
            profile = VulkanDevice.from_json(data["device"])
        except (KeyError, TypeError, AttributeError) as error:
            raise DeployError(f"the manifest requires the description of a Vulkan device, got: {error}.") from None
        try:
            own_device = vulkan_devices()[0]
        except OSError as error:
            help = "install a Vulkan driver, or compile for the CPU."
            raise DeployError(f"the artifact requires a Vulkan device, got none: {error}.", help=help) from None
        help = "it would compute wrong numbers; compile it for this device: Vulkan() here."
        if profile.subgroup_size != own_device.subgroup_size:
            message = (
                f"a Vulkan device of subgroup size {profile.subgroup_size}, got {own_device.subgroup_size} ({own_device.name})."
            )
            raise DeployError(f"the artifact requires {message}", help=help)
        needs, has = ({*device.compute, *device.storage, *device.subgroup} for device in (profile, own_device))
        if lacking := sorted(needs - has):
            message = f"a Vulkan device with {', '.join(lacking)}, got {own_device.name} without."
            raise DeployError(f"the artifact requires {message}", help=help)
        for what in ("invocations", "shared_memory"):
            if getattr(profile, what) > getattr(own_device, what):
                message = (
                    f"a Vulkan device with {what} {getattr(profile, what)}, got {getattr(own_device, what)} ({own_device.name})."
                )
                raise DeployError(f"the artifact requires {message}", help=help)

    @classmethod
    def label(cls, data: Mapping[str, Any]) -> list[str]:
        return [str((data.get("device") or {}).get("name", ""))]

    @classmethod
    def measured(cls) -> dict[str, tuple[Target, Sequence[str] | None]]:
        return {"Vulkan": (cls(), ("f32", "i32"))}

    def resolve(self) -> Vulkan:
        """The same target, with the properties of the device written out.

        Raises:
          TargetError: this machine has no Vulkan device.
        """
        if isinstance(self.device, VulkanDevice):
            return self
        if self.device in VULKAN_PROFILES:
            return replace(self, device=VULKAN_PROFILES[self.device])
        try:
            return replace(self, device=vulkan_devices()[0])
        except OSError as error:
            raise TargetError(
                f"target vulkan requires a Vulkan device to describe, got none: {error}.",
                help="install a driver (Debian: mesa-vulkan-drivers), or name a profile, such as Vulkan('nvidia').",
            ) from None

    def device_targets(self) -> str:
        """The description of the device in the form that IREE's compiler reads."""
        device = self.resolve().device
        assert isinstance(device, VulkanDevice)
        info = target_info("", f"spirv:v{device.spirv},cap:Shader", device)
        return device_target("vulkan", "vulkan-spirv", "vulkan-spirv-fb", info)

    def flags(self) -> list[str]:
        # Commands with the buffers of each call: other hosts, which do not open the device by `open_as`, then replay nothing.
        return merge_flags(["--iree-hal-indirect-command-buffers=false"], super().flags())

    def __post_init__(self) -> None:
        """Raises TargetError for an unknown device."""
        if isinstance(self.device, dict):  # from JSON
            object.__setattr__(self, "device", VulkanDevice.from_json(self.device))
        names = ("host", *VULKAN_PROFILES)
        if not isinstance(self.device, VulkanDevice) and self.device not in names:
            raise TargetError(
                f"target vulkan requires a known device, got {self.device!r}.",
                where=user_frame(),
                help=f"{nearest(self.device, names)} A VulkanDevice(...) describes another.",
            )
        super().__post_init__()


# ---------------------------------------------------------------- what this machine has


@functools.cache
def vulkan_devices() -> tuple[VulkanDevice, ...]:
    """The Vulkan devices of this machine, in the order of the loader.

    Raises:
      OSError: there is no Vulkan loader or no working driver; the message says which.
    """
    vk = library("vulkan-1" if sys.platform == "win32" else "vulkan", "libvulkan.so.1")
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


# The C structures of vulkan.h that are read; fields that are not read are padding.

_u32, _ptr = ctypes.c_uint32, ctypes.c_void_p


class _ApplicationInfo(ctypes.Structure):
    _fields_ = [
        ("sType", _u32),
        ("pNext", _ptr),
        ("pApplicationName", ctypes.c_char_p),
        ("applicationVersion", _u32),
        ("pEngineName", ctypes.c_char_p),
        ("engineVersion", _u32),
        ("apiVersion", _u32),
    ]


class _InstanceCreateInfo(ctypes.Structure):
    _fields_ = [
        ("sType", _u32),
        ("pNext", _ptr),
        ("flags", _u32),
        ("pApplicationInfo", ctypes.POINTER(_ApplicationInfo)),
        ("layerCount", _u32),
        ("layers", _ptr),
        ("extensionCount", _u32),
        ("extensions", _ptr),
    ]


class _Limits(ctypes.Structure):
    _fields_ = [
        ("images", _u32 * 11),
        ("granularity", ctypes.c_uint64 * 2),
        ("graphics", _u32 * 38),
        ("maxComputeSharedMemorySize", _u32),
        ("maxComputeWorkGroupCount", _u32 * 3),
        ("maxComputeWorkGroupInvocations", _u32),
        ("maxComputeWorkGroupSize", _u32 * 3),
        ("rest", ctypes.c_ubyte * 1024),
    ]


class _Properties2(ctypes.Structure):
    _fields_ = [
        ("sType", _u32),
        ("pNext", _ptr),
        ("apiVersion", _u32),
        ("driverVersion", _u32),
        ("vendorID", _u32),
        ("deviceID", _u32),
        ("deviceType", _u32),
        ("deviceName", ctypes.c_char * 256),
        ("uuid", ctypes.c_ubyte * 16),
        ("limits", _Limits),
    ]


class _SubgroupProperties(ctypes.Structure):
    _fields_ = [
        ("sType", _u32),
        ("pNext", _ptr),
        ("subgroupSize", _u32),
        ("supportedStages", _u32),
        ("supportedOperations", _u32),
        ("quadOperationsInAllStages", _u32),
    ]


class _Features(ctypes.Structure):
    """Any structure of features: a type, a link and booleans."""

    _fields_ = [("sType", _u32), ("pNext", _ptr), ("bits", _u32 * 64)]


_SHADER_FLOAT64, _SHADER_INT64, _SHADER_INT16 = 39, 40, 41  # in VkPhysicalDeviceFeatures
_STORAGE_16 = 0  # in VkPhysicalDeviceVulkan11Features
_STORAGE_8, _SHADER_FLOAT16, _SHADER_INT8 = 2, 7, 8  # in VkPhysicalDeviceVulkan12Features
_SPIRV_OF_VULKAN = {(1, 0): "1.0", (1, 1): "1.3", (1, 2): "1.5", (1, 3): "1.6"}


def _describe(vk: ctypes.CDLL, device: ctypes.c_void_p) -> VulkanDevice:
    """The properties of one device, from the functions of the Vulkan loader `vk`."""
    subgroup = _SubgroupProperties(sType=1000094000)
    properties = _Properties2(sType=1000059001, pNext=ctypes.addressof(subgroup))
    vk.vkGetPhysicalDeviceProperties2(device, ctypes.byref(properties))
    v12 = _Features(sType=51)
    v11 = _Features(sType=49, pNext=ctypes.addressof(v12))
    core = _Features(sType=1000059000, pNext=ctypes.addressof(v11))
    vk.vkGetPhysicalDeviceFeatures2(device, ctypes.byref(core))

    compute = [
        ("fp64", core.bits[_SHADER_FLOAT64]),
        ("fp32", 1),
        ("fp16", v12.bits[_SHADER_FLOAT16]),
        ("int64", core.bits[_SHADER_INT64]),
        ("int32", 1),
        ("int16", core.bits[_SHADER_INT16]),
        ("int8", v12.bits[_SHADER_INT8]),
    ]
    storage = [
        ("b64", core.bits[_SHADER_INT64] or core.bits[_SHADER_FLOAT64]),
        ("b32", 1),
        ("b16", v11.bits[_STORAGE_16]),
        ("b8", v12.bits[_STORAGE_8]),
    ]
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
