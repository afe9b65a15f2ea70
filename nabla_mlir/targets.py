"""Targets: typed values that say for what machine a module is compiled.

A target knows its compiler flags, the runtime drivers that run its artifacts, and whether this machine can. The
compiler is not imported; `CPU("host")` asks it, in a process of its own, what the host is called.

Common to all targets: f64 stays f64 (IREE's default would turn it into f32), optimisation level 3 without the
aggressive fusion that breaks some valid modules, and without two rewrites of matrix products and transposes, each of
which gives wrong numbers for some Hessians (tests/frontend/test_compositions.py holds that), and no debug information
(artifacts are byte-identical wherever they were built).
"""

from __future__ import annotations

import functools
import platform
import re
import sys
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, ClassVar

from nabla_mlir.compiling.toolchain import iree_compile, run_compiler
from nabla_mlir.errors import CompileError, TargetError
from nabla_mlir.runtime.devices import VulkanDevice, cuda_devices, vulkan_devices

_COMMON_FLAGS = (
    "--iree-input-demote-f64-to-f32=false",
    "--iree-opt-level=O3",
    "--iree-dispatch-creation-enable-aggressive-fusion=false",
    "--iree-opt-generalize-matmul=false",
    "--iree-opt-aggressively-propagate-transposes=false",
    "--iree-vm-bytecode-module-strip-source-map",
)


@dataclass(frozen=True)
class Target:
    """What all targets share.

    Args:
      options: further flags of iree-compile; they win over the target's own.
      asynchronous: calls return before they are done, with arrays that are waited for when they are read. Those of one
        module keep their order where it matters; one with a loop whose length its values decide waits for those. Who
        calls such a function from C gives it two fences, as iree-run-module does.
    """

    options: tuple[str, ...] = field(default=(), kw_only=True)
    asynchronous: bool = field(default=False, kw_only=True)

    name: ClassVar[str]
    drivers: ClassVar[tuple[str, ...]]

    def resolve(self) -> Target:
        """The same target with everything that depends on this machine written out."""
        return self

    def device_targets(self) -> str | None:
        """The text of the module attribute `hal.device.targets`, or None where flags alone describe the device."""
        return None

    def flags(self) -> list[str]:
        """The flags of iree-compile. What `device_targets` describes is among them."""
        flags = [*self._device_flags(), *_COMMON_FLAGS]
        if self.asynchronous:
            flags.append("--iree-execution-model=async-external")
        return merge_flags(flags, self.options)

    def to_json(self) -> dict[str, Any]:
        """The target as JSON values, resolved, as the manifest keeps it."""
        return {"name": self.name} | asdict(self.resolve())

    @staticmethod
    def from_json(data: dict[str, Any]) -> Target:
        """The target that `to_json` wrote.

        Raises:
          TargetError: the name or a field is unknown.
        """
        data = dict(data)
        cls = type(target(data.pop("name", None)))
        if unknown := set(data) - {f.name for f in fields(cls)}:
            raise TargetError(f"target {cls.name} requires known fields, got {', '.join(sorted(unknown))}.")
        return cls(**{key: _untuple(value) for key, value in data.items()})

    def _device_flags(self) -> list[str]:
        return [f"--iree-hal-target-device={self.device_targets()}"]


# Features and ABI without which generic code of an architecture calls a C library, which the embedded format has not.
_DEFAULTS = {
    "riscv64": ("+m,+a,+f,+d,+c", "lp64d"),
    "riscv32": ("+m,+a,+f,+c", "ilp32f"),
}


@dataclass(frozen=True)
class CPU(Target):
    """A CPU.

    Args:
      cpu: "host", "generic" (any CPU of the architecture; slow) or an LLVM name such as "znver4".
      features: LLVM features to add or remove, such as "+avx512f,-avx512fp16".
      triple: LLVM target triple for another architecture, such as "aarch64-linux-gnu"; "" is this machine's.
      abi: LLVM's name of the calling convention, where an architecture has several; "" is the usual one.
      link_embedded: link into the platform-independent format of IREE. It has no C library: f64 sin, cos, tan, tanh
        and atan2 need `False`, the system's linker, and an artifact that runs only on this system.
      reassociate: let sums be taken in another order, as vector units need. False keeps the order, at up to 25 times
        the cost of a reduction.
      schedule: rewrite for speed (the pass nabla-schedule); needs `reassociate`.

    Example:
      >>> CPU("generic").flags()[2]
      '--iree-llvmcpu-target-cpu=generic'
    """

    cpu: str = "host"
    features: str = ""
    triple: str = ""
    abi: str = ""
    link_embedded: bool = True
    reassociate: bool = True
    schedule: bool = True

    name: ClassVar[str] = "cpu"
    drivers: ClassVar[tuple[str, ...]] = ("local-sync", "local-task")

    def resolve(self) -> CPU:
        """The same target with its triple, and the name and the features of the CPU, written out.

        Raises:
          TargetError: "host" together with another architecture, or LLVM does not know the CPU.
        """
        if self.cpu == "host" and self.triple not in ("", _host_triple()):
            raise TargetError(
                f"target cpu requires a CPU name for another architecture, got cpu='host', {self.triple}."
            )
        triple = self.triple or _host_triple()
        defaults, abi = _DEFAULTS.get(triple.partition("-")[0], ("", ""))
        cpu, features = (self.cpu, defaults) if self.cpu == "generic" else _named_cpu(self.cpu, self.triple)
        return replace(self, cpu=cpu, features=_merged(features, self.features), triple=triple, abi=self.abi or abi)

    def vector_bytes(self) -> int:
        """The width of the vector registers that the compiler uses."""
        named = set(re.findall(r"\+([^,]+)", _described(self.cpu, self.triple)[1] + "," + self.features))
        named -= set(re.findall(r"-([^,]+)", self.features))
        return 64 if "avx512f" in named else 32 if "avx2" in named else 16

    def _device_flags(self) -> list[str]:
        resolved = self.resolve()
        flags = [
            "--iree-hal-target-device=local",
            "--iree-hal-local-target-device-backends=llvm-cpu",
            f"--iree-llvmcpu-target-cpu={resolved.cpu}",
            "--iree-llvmcpu-debug-symbols=false",
            f"--iree-llvmcpu-reassociate-fp-reductions={str(self.reassociate).lower()}",
        ]
        described = {"cpu-features": resolved.features, "triple": resolved.triple, "abi": resolved.abi}
        flags += [f"--iree-llvmcpu-target-{key}={value}" for key, value in described.items() if value]
        if not self.link_embedded:
            flags.append("--iree-llvmcpu-link-embedded=false")
        return flags


_GPU = VulkanDevice(
    name="gpu",
    subgroup_size=32,
    spirv="1.6",
    compute=("fp64", "fp32", "fp16", "int64", "int32", "int16", "int8"),
    storage=("b64", "b32", "b16", "b8"),
    workgroup_size=(1024, 1024, 1024),
    invocations=1024,
    shared_memory=49152,
)
VULKAN_PROFILES = {
    "nvidia": replace(_GPU, name="nvidia"),
    "amd": replace(_GPU, name="amd", subgroup_size=64, shared_memory=65536),
    "lavapipe": replace(_GPU, name="lavapipe", subgroup_size=8, shared_memory=32768),
}


@dataclass(frozen=True)
class Vulkan(Target):
    """A Vulkan device, described in the module itself: a wrong subgroup size would give wrong numbers silently.

    Args:
      device: "host" (the first device of this machine), a profile (see `VULKAN_PROFILES`) or a `VulkanDevice`.
    """

    device: str | VulkanDevice = "host"

    name: ClassVar[str] = "vulkan"
    drivers: ClassVar[tuple[str, ...]] = ("vulkan",)

    def resolve(self) -> Vulkan:
        """The same target with the properties of the device written out.

        Raises:
          TargetError: the profile is unknown, or this machine has no Vulkan device.
        """
        if isinstance(self.device, VulkanDevice):
            return self
        if self.device in VULKAN_PROFILES:
            return replace(self, device=VULKAN_PROFILES[self.device])
        if self.device != "host":
            known = ", ".join(["host", *VULKAN_PROFILES])
            raise TargetError(
                f"target vulkan requires a known device, got {self.device!r}.", help=f"use one of {known}."
            )
        try:
            return replace(self, device=vulkan_devices()[0])
        except OSError as error:
            raise TargetError(
                f"target vulkan requires a Vulkan device to describe, got none: {error}.",
                help="install a driver (Debian: mesa-vulkan-drivers), or name a profile, such as Vulkan('nvidia').",
            ) from None

    def device_targets(self) -> str:
        device = self.resolve().device
        assert isinstance(device, VulkanDevice)
        info = _target_info("", f"spirv:v{device.spirv},cap:Shader", device)
        return _device_target("vulkan", "vulkan-spirv", "vulkan-spirv-fb", info)

    def __post_init__(self) -> None:
        if isinstance(self.device, dict):  # from JSON
            object.__setattr__(self, "device", VulkanDevice.from_json(self.device))


# From sm_90 on, IREE knows no description of its own; the PTX version is the lowest that knows the architecture.
_PTX_OF_ARCH = {"sm_90": "+ptx80", "sm_100": "+ptx86", "sm_101": "+ptx86", "sm_103": "+ptx88"}


@dataclass(frozen=True)
class CUDA(Target):
    """An NVIDIA GPU. The artifact holds PTX, which newer GPUs run too (unless the architecture ends in a or f).

    Not machine code: IREE 3.13 takes --iree-cuda-use-ptxas but never calls ptxas.

    Args:
      arch: "host" (the first GPU of this machine) or an architecture, such as "sm_80" or "sm_90".
    """

    arch: str = "sm_80"

    name: ClassVar[str] = "cuda"
    drivers: ClassVar[tuple[str, ...]] = ("cuda",)

    def resolve(self) -> CUDA:
        """The same target with the architecture instead of "host".

        Raises:
          TargetError: there is no CUDA device, or the architecture is not of the form sm_80.
        """
        if self.arch == "host":
            try:
                return replace(self, arch=cuda_devices()[0])
            except OSError as error:
                help = "name an architecture, such as CUDA('sm_80'): compiling needs no GPU."
                raise TargetError(f"target cuda requires a CUDA device, got none: {error}.", help=help) from None
        if not re.fullmatch(r"sm_\d+[af]?", self.arch):
            raise TargetError(f"target cuda requires an architecture such as sm_80, got {self.arch!r}.")
        return self

    def device_targets(self) -> str | None:
        arch = self.resolve().arch
        if arch.rstrip("af") not in _PTX_OF_ARCH:
            return None
        gpu = replace(_GPU, shared_memory=166912, workgroup_count=(2**31 - 1, 65535, 65535))
        info = _target_info(arch, _PTX_OF_ARCH[arch.rstrip("af")], gpu)
        return _device_target("cuda", "cuda", "cuda-nvptx-fb", info)

    def _device_flags(self) -> list[str]:
        if self.device_targets():
            return super()._device_flags()
        return ["--iree-hal-target-device=cuda", f"--iree-cuda-target={self.resolve().arch}"]


TARGETS: dict[str, type[Target]] = {cls.name: cls for cls in (CPU, Vulkan, CUDA)}


def target(spec: str | Target | None = "cpu") -> Target:
    """The target that `spec` names or is.

    Raises:
      TargetError: there is none of that name; the message lists those that exist.

    Example:
      >>> target("cuda")
      CUDA(options=(), asynchronous=False, arch='sm_80')
    """
    if isinstance(spec, Target):
        return spec
    if isinstance(spec, str) and spec.lower() in TARGETS:
        return TARGETS[spec.lower()]()
    known = ", ".join(f"{name!r} or {cls.__name__}(...)" for name, cls in TARGETS.items())
    raise TargetError(f"compile requires a known target, got {spec!r}.", help=f"use {known}.")


@dataclass(frozen=True)
class Availability:
    """Whether this machine runs a target, and what it found or why not."""

    name: str
    runs: bool
    detail: str

    def __str__(self) -> str:
        return f"{self.name:8}{'yes' if self.runs else 'no':5}{self.detail}"


def available() -> list[Availability]:
    """What this machine can run, with a reason for what it cannot. Printable line by line."""
    return [_available("cpu", _cpu_name), _available("vulkan", _vulkan_names), _available("cuda", cuda_devices)]


def merge_flags(flags: list[str], more: tuple[str, ...] | list[str]) -> list[str]:
    """`flags` and `more`, where a flag of `more` takes the place of the same flag of `flags`.

    Example:
      >>> merge_flags(["--a=1", "--b"], ["--a=2"])
      ['--b', '--a=2']
    """
    replaced = {flag.split("=")[0] for flag in more}
    return [flag for flag in flags if flag.split("=")[0] not in replaced] + list(more)


def _available(name: str, probe: Any) -> Availability:
    try:
        return Availability(name, True, ", ".join(probe()))
    except OSError as error:
        return Availability(name, False, str(error))


def _cpu_name() -> tuple[str, ...]:
    try:
        return (_host_cpu()[0],)
    except CompileError:
        return ("its name is not known without the compiler",)


def _vulkan_names() -> list[str]:
    return [f"{d.name} (subgroup size {d.subgroup_size})" for d in vulkan_devices()]


def _host_cpu() -> tuple[str, str]:
    """LLVM's name of this CPU and its features."""
    return _named_cpu("host", "")


@functools.cache
def _named_cpu(name: str, triple: str) -> tuple[str, str]:
    """LLVM's name of a CPU, and its features, with those that this very machine lacks."""
    cpu, features = _described(name, triple)
    if cpu is None:
        raise TargetError(f"target cpu requires a CPU that LLVM knows, got {name!r}.",
                          help="use CPU('generic') or another name.")  # fmt: skip
    added = set(re.findall(r"\+([^,]+)", features))
    return cpu, ",".join(f for f in _merged(features).split(",") if f[1:] in added)


def _merged(*features: str) -> str:
    """Features by name, each with the sign that comes last."""
    signs = {feature[1:]: feature[0] for feature in ",".join(features).split(",") if feature}
    return ",".join(f"{signs[name]}{name}" for name in sorted(signs))


@functools.cache
def _host_triple() -> str:
    """LLVM's name of this kind of machine, for instance x86_64-unknown-linux-gnu."""
    machine = platform.machine().lower()
    arch = {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)
    system = {"darwin": "apple-darwin", "win32": "pc-windows-msvc"}.get(sys.platform, "unknown-linux-gnu")
    return f"{arch}-{system}"


@functools.cache
def _described(cpu: str, triple: str) -> tuple[str | None, str]:
    """What the compiler says of a CPU: its name, if it has one, and its features."""
    iree_compile()
    flags = ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu"]
    flags += [f"--iree-llvmcpu-target-cpu={cpu}", *([f"--iree-llvmcpu-target-triple={triple}"] if triple else [])]
    flags += ["--compile-to=preprocessing", "-", "-o", "-"]
    text = run_compiler(flags, b"module {}", timeout=60).stdout.decode(errors="replace")
    name, features = re.search(r'\bcpu = "([^"]*)"', text), re.search(r'cpu_features = "([^"]*)"', text)
    return name and name[1], features[1] if features else ""


def _target_info(arch: str, features: str, device: VulkanDevice) -> str:
    wgp = ", ".join(
        [
            f"compute = {'|'.join(device.compute)}",
            f"storage = {'|'.join(device.storage)}",
            f"subgroup = {'|'.join(device.subgroup) or 'none'}",
            f"subgroup_size_choices = [{device.subgroup_size}]",
            f"max_workgroup_sizes = {list(device.workgroup_size)}",
            f"max_thread_count_per_workgroup = {device.invocations}",
            f"max_workgroup_memory_bytes = {device.shared_memory}",
            f"max_workgroup_counts = {list(device.workgroup_count)}",
        ]
    )
    return f'#iree_gpu.target<arch = "{arch}", features = "{features}", wgp = <{wgp}>>'


def _device_target(device: str, backend: str, format: str, info: str) -> str:
    executable = f'#hal.executable.target<"{backend}", "{format}", {{iree_codegen.target_info = {info}}}>'
    return f'#hal.device.target<"{device}", [{executable}]> : !hal.device'


def _untuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
