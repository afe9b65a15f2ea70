"""The CPU of this machine, or another one."""

from __future__ import annotations

import functools
import importlib.util
import platform
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from nabla_mlir.base.errors import CompileError, DeployError, TargetError, user_frame
from nabla_mlir.targets.base import Codegen, Target, nearest
from nabla_mlir.targets.toolchain import has_compiler, iree_compile, run_compiler

# The flags for CPU code.
LOCAL = ("--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu")
_known: set[tuple[str, str, str]] = set()  # CPUs, features and triples that the compiler has printed itself
# Features and ABI without which generic code of an architecture calls a C library, which the embedded format does not
# have.
_DEFAULTS = {"riscv64": ("+m,+a,+f,+d,+c", "lp64d"), "riscv32": ("+m,+a,+f,+c", "ilp32f")}


@dataclass(frozen=True)
class CPU(Target):
    """A CPU as the target of compilation.

    Args:
      cpu: "host", "generic" (any CPU of the architecture; slow) or an LLVM name such as "znver4".
      features: LLVM features to add or remove, such as "+avx512f,-avx512fp16".
      triple: LLVM target triple for another architecture, such as "aarch64-linux-gnu"; "" means this machine's.
      abi: LLVM's name of the calling convention, if an architecture has several; "" is the default.
      link_embedded: link into the platform-independent format of IREE. It has no C library: f64 sin, cos, tan, tanh
        and atan2 need `False`, the system's linker, and an artifact that runs only on this system.
      reassociate: True allows another order of sums, as vector units need it. False preserves the order, at up to 25 times the
        cost of a reduction.
      schedule: True rewrites for speed (the pass nabla-schedule); needs `reassociate`.
      threads: the number of threads of its calls; None uses the cores that the process may use where it is loaded.
      memory_limit: the bytes that a call may allocate at once, with results and without arguments. To meet the limit, values are
        recomputed. None sets no limit. Needs `schedule`.

    Raises:
      TargetError: LLVM does not know the CPU, a feature or the triple; "host" is combined with another architecture; or the number
        of threads or bytes is not valid.

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
    threads: int | None = None
    memory_limit: int | None = None

    name: ClassVar[str] = "cpu"
    drivers: ClassVar[tuple[str, ...]] = ("local-sync", "local-task")
    labelled: ClassVar[tuple[str, ...]] = ("cpu",)
    plugins: ClassVar[tuple[str, ...] | None] = ()
    codegen: ClassVar[Codegen] = Codegen(
        exponentials=frozenset(["float32"]),
        tanh=frozenset(["float32"]),
        doubles=True,
        remainders=4,
        chlo_functions=True,
        leading_zeros=True,
        order=True,
        reversed_operands=True,
        longest_sort=384,
        narrow_convolutions=True,
        grouped_convolutions=True,
        reversed_windows=True,
        loop_results=True,
        updates_in_loops=True,
        memory_of_results=False,
    )

    # IREE refuses wide convolutions with its default, smaller workgroups. These use as many cores, and are as fast on
    # others.
    for_wide_convolutions: ClassVar[tuple[str, ...]] = ("--iree-llvmcpu-distribution-size=256",)

    def __post_init__(self) -> None:
        """Raises TargetError for fields that are not valid."""
        if not isinstance(self.cpu, str) or not self.cpu:
            raise TargetError(
                f"target cpu requires the name of a CPU, got {self.cpu!r}.",
                where=user_frame(),
                help="use 'host', 'generic' or a name of LLVM, such as 'znver4'.",
            )
        if self.threads is not None and (type(self.threads) is not int or self.threads < 1):
            raise TargetError(f"target cpu requires a positive number of threads, got {self.threads!r}.", where=user_frame())
        if self.memory_limit is not None and (type(self.memory_limit) is not int or self.memory_limit < 1):
            raise TargetError(
                f"target cpu requires a positive number of bytes as memory_limit, got {self.memory_limit!r}.", where=user_frame()
            )
        if self.cpu == "host" and self.triple not in ("", _host_triple()):
            raise TargetError(
                f"target cpu requires a CPU name for another architecture, got cpu='host', {self.triple}.",
                where=user_frame(),
                help="use CPU('generic', triple=...) or a name of LLVM.",
            )
        if self.features and not re.fullmatch(r"[+-][^,\s+-][^,\s]*(,[+-][^,\s+-][^,\s]*)*", self.features):
            raise TargetError(
                f"target cpu requires features with their signs, got {self.features!r}.", where=user_frame(), help=_SIGNS
            )
        super().__post_init__()
        if has_compiler():
            self._check_names()

    def _check_names(self) -> None:
        """Raises TargetError if LLVM does not know the CPU, a feature or the triple."""
        if (self.cpu, self.features, self.triple) in _known:
            return
        if self.triple or self.features:
            _check_known(self.features, self.triple)
        if self.cpu not in ("host", "generic"):
            _named_cpu(self.cpu, self.triple)

    @classmethod
    def found(cls) -> Sequence[str]:
        """The name of this CPU in LLVM, or a sentence if it is not known, as the only text of a sequence."""
        try:
            return (_named_cpu("host", "")[0],)
        except CompileError:
            return ("its name is not known without the compiler",)

    @classmethod
    def check_fit(cls, data: Mapping[str, Any]) -> None:
        """Raises DeployError if this CPU has another architecture, or lacks an instruction set that the code needs."""
        architecture = _architecture(str(data.get("triple", "")).partition("-")[0])
        own_architecture = _architecture(platform.machine())
        if architecture and own_architecture and architecture != own_architecture:
            raise DeployError(
                f"the artifact requires a CPU of the architecture {architecture}, got {own_architecture}.",
                help="compile it for this machine: CPU('host') here.",
            )
        has = cpu_features()
        needs = [f[1:] for f in str(data.get("features", "")).split(",") if f.startswith("+")]
        if lacking := [feature for feature in needs if has.get(feature) is False]:
            raise DeployError(
                f"the artifact requires a CPU with {', '.join(lacking)}, got one without.",
                help="compile it for this CPU: CPU('host') here, or CPU('generic').",
            )

    @classmethod
    def label(cls, data: Mapping[str, Any]) -> list[str]:
        """The name of the CPU and the architecture."""
        return [*super().label(data), str(data.get("triple", "")).partition("-")[0]]

    @classmethod
    def measured(cls) -> dict[str, tuple[Target, Sequence[str] | None]]:
        return {"CPU": (cls(), None)}

    def resolve(self) -> CPU:
        """The same target with its triple, and the name and the features of the CPU, written out.

        Raises:
          TargetError: LLVM does not know the CPU, a feature or the triple.
        """
        self._check_names()  # a target that was made without the compiler is not checked yet
        triple = self.triple or _host_triple()
        defaults, abi = _DEFAULTS.get(triple.partition("-")[0], ("", ""))
        cpu, features = (self.cpu, defaults) if self.cpu == "generic" else _named_cpu(self.cpu, self.triple)
        features = _merged(features, self.features)
        _known.add((cpu, features, triple))
        return replace(self, cpu=cpu, features=features, triple=triple, abi=self.abi or abi)

    def vector_bytes(self) -> int:
        """The width of the vector registers that the compiler uses."""
        features = set(re.findall(r"\+([^,]+)", _described(self.cpu, self.triple)[1] + "," + self.features))
        features -= set(re.findall(r"-([^,]+)", self.features))
        return 64 if "avx512f" in features else 32 if "avx2" in features else 16

    def allowed_bytes(self) -> int | None:
        return self.memory_limit

    def kernel_bytes(self) -> int:
        return self.vector_bytes() if self.schedule and self.reassociate else 0

    def _device_flags(self) -> list[str]:
        """The flags of IREE's compiler for this CPU."""
        host = self.resolve()
        flags = [
            *LOCAL,
            f"--iree-llvmcpu-target-cpu={host.cpu}",
            "--iree-llvmcpu-debug-symbols=false",
            f"--iree-llvmcpu-reassociate-fp-reductions={str(self.reassociate).lower()}",
            "--iree-llvmcpu-link-ukernel-bitcode=false",  # no kernel calls one, but each executable would read all of them
        ]
        attributes = {"cpu-features": host.features, "triple": host.triple, "abi": host.abi}
        flags += [f"--iree-llvmcpu-target-{key}={value}" for key, value in attributes.items() if value]
        if not self.link_embedded:
            flags.append("--iree-llvmcpu-link-embedded=false")
        return flags


# ---------------------------------------------------------------- what this machine has

# Other names of an architecture in systems and in LLVM.
_SAME = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64", "armv7l": "armv7", "armv7a": "armv7"}


def _architecture(name: str) -> str:
    """LLVM's name of an architecture, from any of its names."""
    return _SAME.get(name.lower(), name.lower())


@functools.cache
def cpu_features() -> dict[str, bool]:
    """For each instruction set by LLVM's name, True if this CPU has it; an empty dict if this is not known."""
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


# ---------------------------------------------------------------- what the compiler knows

_NOT_LOADED = 127  # the exit code of a program whose libraries do not fit in memory
_ENDED = tuple(-getattr(signal, name) for name in ("SIGKILL", "SIGTERM") if hasattr(signal, name))  # Windows has no SIGKILL
_SIGNS = "write them as LLVM does, with a sign: '+avx512f,-avx512fp16'."
_OTHERS = ("x86_64-linux-gnu", "aarch64-linux-gnu", "armv7a-linux-gnueabihf", "riscv64-linux-gnu")  # triples, for advice
_DESCRIBE = ("--compile-to=preprocessing", "-", "-o", "-")  # prints the description of a target, for an empty module


@functools.cache
def _named_cpu(name: str, triple: str) -> tuple[str, str]:
    """LLVM's name of a CPU, and those of its features that the runtime can check; raises TargetError for unknown CPUs."""
    cpu, features, known = _described(name, triple)
    if cpu is None:
        raise TargetError(
            f"target cpu requires a CPU that LLVM knows, got {name!r}.", where=user_frame(), help=_advice(name, triple, known)
        )
    extra = set(re.findall(r"\+([^,]+)", features))
    return cpu, ",".join(f for f in _merged(features).split(",") if f[1:] in extra)


def _advice(name: str, triple: str, known: Sequence[str]) -> str:
    """The help for a CPU that an architecture does not have: the triple of one that has it, or similar names."""
    architecture = _architecture((triple or _host_triple()).partition("-")[0])
    for other in _OTHERS:
        if not other.startswith(architecture) and _described(name, other)[0] is not None:
            return f"it is a CPU of another architecture: CPU({name!r}, triple={other!r})."
    if not known:
        return "use CPU('generic', triple=...) or another name of LLVM."
    return nearest(name, [*([] if triple else ["host"]), "generic", *known])


@functools.cache
def _check_known(features: str, triple: str) -> None:
    """Raises TargetError for features or a triple that LLVM does not know, with which the compiler would crash."""
    flags = [
        *LOCAL,
        "--iree-llvmcpu-target-cpu=generic",
        *([f"--iree-llvmcpu-target-triple={triple}"] if triple else []),
        *([f"--iree-llvmcpu-target-cpu-features={features}"] if features else []),
    ]
    process = run_compiler([*flags, *_DESCRIBE], b"module {}", timeout=60)
    if "createTargetMachine" in process.stderr:
        raise TargetError(
            f"target cpu requires a triple that LLVM knows, got {triple!r}.",
            where=user_frame(),
            help="name one such as 'aarch64-linux-gnu'; '' is this machine's.",
        )
    if unknown := sorted(set(re.findall(r"'(\S+)' is not a recognized feature", process.stderr))):
        raise TargetError(
            f"target cpu requires features that LLVM knows, got {', '.join(unknown)}.", where=user_frame(), help=_SIGNS
        )


def _merged(*features: str) -> str:
    """The features of all texts as one text, sorted by name, each with its last sign: +a,-b and +b give +a,+b."""
    signs = {feature[1:]: feature[0] for feature in ",".join(features).split(",") if feature}
    return ",".join(f"{signs[name]}{name}" for name in sorted(signs))


@functools.cache
def _host_triple() -> str:
    """LLVM's name of this kind of machine, for example x86_64-unknown-linux-gnu."""
    machine = platform.machine().lower()
    arch = {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)
    system = {"darwin": "apple-darwin", "win32": "pc-windows-msvc"}.get(sys.platform, "unknown-linux-gnu")
    return f"{arch}-{system}"


@functools.cache
def _described(cpu: str, triple: str) -> tuple[str | None, str, list[str]]:
    """The compiler's description of a CPU: its name (None if unknown), its features, and for an unknown CPU the known names. Raises
    TargetError if the compiler fails.
    """
    iree_compile()
    flags = [*LOCAL, f"--iree-llvmcpu-target-cpu={cpu}", *([f"--iree-llvmcpu-target-triple={triple}"] if triple else [])]
    process = run_compiler([*flags, *_DESCRIBE], b"module {}", timeout=60)
    if process.timed_out or process.returncode in (*_ENDED, _NOT_LOADED):
        reason = "".join(process.stderr.splitlines()[:1]) or f"an end of the compiler ({process.returncode})"
        raise TargetError(
            f"target cpu requires a compiler that describes it, got {reason}.",
            where=user_frame(),
            help="free memory, or raise the limits of the process (ulimit -v, ulimit -u).",
        )
    text = process.stdout.decode(errors="replace")
    name, features = re.search(r'\bcpu = "([^"]*)"', text), re.search(r'cpu_features = "([^"]*)"', text)
    known = re.search(r"^List of accepted CPUs: (.*)$", process.stderr, re.M)
    if "is not a recognized processor" in process.stderr:  # for some architectures the description repeats the name
        name = None
    return name and name[1], features[1] if features else "", known[1].split(", ") if known else []
