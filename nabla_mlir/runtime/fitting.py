"""Whether the code of an artifact fits this machine: what would not fail by itself, but crash or compute wrong numbers."""

from __future__ import annotations

import platform
import re
from typing import Any

from nabla_mlir.errors import DeployError
from nabla_mlir.runtime.devices import VulkanDevice, cpu_features, cuda_devices, vulkan_devices
from nabla_mlir.runtime.manifest import Code, Manifest

# Other names of an architecture, as systems and LLVM give them.
_SAME = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64", "armv7l": "armv7", "armv7a": "armv7"}


def choose(manifest: Manifest, asked: str | None = None, driver: str | None = None) -> Code:
    """The first code that fits this machine among those that are asked for.

    Args:
      manifest: of the artifact.
      asked: the name or label of a target; None is any.
      driver: only code that this driver runs.

    Raises:
      DeployError: none fits; the message says why not for each.
    """
    wanted = [c for c in manifest.code if asked is None or c.is_for(asked)]
    wanted = [c for c in wanted if driver is None or _runs(driver, c)] or wanted
    if not wanted:
        labels = ", ".join(c.label for c in manifest.code)
        raise DeployError(f"load requires a target that the artifact has, got {asked!r}.", help=f"use one of {labels}.")
    refused = []
    for code in wanted:
        try:
            check_fit(code.target)
        except DeployError as error:
            refused.append((code, error))
        else:
            return code
    if len(refused) == 1:
        raise refused[0][1]
    lines = "".join(f"\n    {code.label}: {error.message}" for code, error in refused)
    raise DeployError(f"load requires code that fits this machine, got none among {len(refused)}:{lines}",
                      help="compile it for this machine too, or for CPU('generic').")  # fmt: skip


def check_fit(target: dict[str, Any]) -> None:
    """Returns if this machine runs code for a target, which is given as in a manifest.

    Raises:
      DeployError: it does not; the message says what is missing.
    """
    checks = {"cpu": _check_cpu, "vulkan": _check_vulkan, "cuda": _check_cuda}
    if target.get("name") not in checks:
        raise DeployError(f"the manifest requires a target among {', '.join(checks)}, got {target.get('name')!r}.")
    checks[target["name"]](target)


def _runs(driver: str, code: Code) -> bool:
    return code.target.get("name") == ("cpu" if driver.startswith("local") else driver)


def _check_cpu(target: dict[str, Any]) -> None:
    needed = _architecture(str(target.get("triple", "")).partition("-")[0])
    here = _architecture(platform.machine())
    if needed and here and needed != here:
        raise DeployError(f"the artifact requires a CPU of the architecture {needed}, got {here}.",
                          help="compile it for this machine: CPU('host') here.")  # fmt: skip
    has = cpu_features()
    needs = [f[1:] for f in str(target.get("features", "")).split(",") if f.startswith("+")]
    if lacking := [feature for feature in needs if has.get(feature) is False]:
        raise DeployError(
            f"the artifact requires a CPU with {', '.join(lacking)}, got one without.",
            help="compile it for this CPU: CPU('host') here, or CPU('generic').",
        )


def _architecture(name: str) -> str:
    return _SAME.get(name.lower(), name.lower())


def _check_vulkan(target: dict[str, Any]) -> None:
    try:
        needed = VulkanDevice.from_json(target["device"])
    except (KeyError, TypeError, AttributeError) as error:
        raise DeployError(f"the manifest requires the description of a Vulkan device, got: {error}.") from None
    try:
        found = vulkan_devices()[0]
    except OSError as error:
        help = "install a Vulkan driver, or compile for the CPU."
        raise DeployError(f"the artifact requires a Vulkan device, got none: {error}.", help=help) from None
    help = "it would compute wrong numbers; compile it for this device: Vulkan() here."
    if needed.subgroup_size != found.subgroup_size:
        message = f"a Vulkan device of subgroup size {needed.subgroup_size}, got {found.subgroup_size} ({found.name})."
        raise DeployError(f"the artifact requires {message}", help=help)
    needs, has = ({*device.compute, *device.storage, *device.subgroup} for device in (needed, found))
    if lacking := sorted(needs - has):
        message = f"a Vulkan device with {', '.join(lacking)}, got {found.name} without."
        raise DeployError(f"the artifact requires {message}", help=help)
    for what in ("invocations", "shared_memory"):
        if getattr(needed, what) > getattr(found, what):
            message = f"a Vulkan device with {what} {getattr(needed, what)}, got {getattr(found, what)} ({found.name})."
            raise DeployError(f"the artifact requires {message}", help=help)


def _check_cuda(target: dict[str, Any]) -> None:
    arch = str(target.get("arch"))
    try:
        found = cuda_devices()[0]
    except OSError as error:
        help = "install an NVIDIA driver, or compile for the CPU."
        raise DeployError(f"the artifact requires a CUDA device, got none: {error}.", help=help) from None
    exact = arch[-1:] in "af" and arch != found  # PTX for one architecture, or one family, alone
    if exact or _number(found) < _number(arch):
        raise DeployError(f"the artifact requires a CUDA device of {arch} or newer, got {found}.",
                          help=f"compile it for this device: CUDA({found!r}).")  # fmt: skip


def _number(arch: str) -> int:
    return int(re.sub(r"\D", "", arch) or 0)
