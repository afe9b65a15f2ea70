"""The base class of targets, which are typed values that describe the machine for which a module is compiled, and their table.

Common to all targets: f64 stays f64 (IREE's default would convert it to f32); optimisation level 3, but without the
aggressive fusion that breaks some valid modules, without the fusion of values that several operations read, and without
two rewrites of matrix products and transposes; and no debug information, so artifacts do not depend on the machine that
built them.

The fusion of values with several readers makes dispatches with several results. If two of them are equal, IREE 3.13
replaces the later one by the first result of the dispatch (dropUnusedAndRedundantDispatchRegionResults,
iree-org/iree#20065): of ``z = x * y; a = where(c, z, 0); return z, a, where(c, a, 0)`` the third result was z. The two
rewrites gave wrong numbers for some Hessians (tests/frontend/test_compositions.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar

from nabla_mlir.base.errors import TargetError, user_frame

_COMMON_FLAGS = (
    "--iree-input-demote-f64-to-f32=false",
    "--iree-opt-level=O3",
    "--iree-dispatch-creation-enable-aggressive-fusion=false",
    "--iree-dispatch-creation-fuse-multi-use=false",
    "--iree-opt-generalize-matmul=false",
    "--iree-opt-aggressively-propagate-transposes=false",
    "--iree-vm-bytecode-module-strip-source-map",
)
# The plugins of IREE's compiler for devices and inputs that most modules do not need. Each pass collects its rewrites from all
# operations that a compiler knows: without these plugins a compilation of `sin(x) * x` takes 0.46 CPU seconds in place of 0.53.
_PLUGINS = (
    "hal_target_cuda",
    "hal_target_metal_spirv",
    "hal_target_rocm",
    "hal_target_vmvx",
    "hal_target_vulkan_spirv",
    "input_torch",
    "input_tosa",
)


@dataclass(frozen=True)
class Codegen:
    """The operations that IREE 3.13's code generator computes rightly for a kind of target. passes/iree rewrites all others.

    Args:
      exponentials: the floating-point types in which exp, log and logistic are exact and fast.
      tanh: the floating-point types in which tanh is.
      doubles: True if f64 takes at most twice the time of f32.
      remainders: the bytes of the widest floating-point type with right remainders.
      chlo_functions: True if the stock expansions of CHLO's functions in f32 are right.
      leading_zeros: True if they are counted in any integer, not only in those of 32 bits.
      order: True if operations stay in their order where rounding makes a difference.
      reversed_operands: True if an operation that reads a reversed array twice may be fused with the reversal.
      longest_sort, sort_multiple: the longest sort, and a number that must divide the length of sorts of more than two.
      parallel_sums: True if many threads compute a sum with few results, or if that is not needed.
      sums_of_products: True if a product with a vector may be summed over rows and columns at once.
      long_sums: True if long sums are computed in several parts, so that errors do not add up.
      narrow_convolutions, grouped_convolutions, reversed_windows: True if such convolutions are right.
      unique_indices: True if a scatter may state that its indices are unique.
      loop_results: True if the results of loops that may have no iteration are freed once.
      sorted_operands: True if a sort with unused results needs little of the stack.
      updates_in_loops: True if a loop may update its own arrays in place.
      memory_of_results: True if the memory of dropped results is reused.
      cheap_iterations: True if an iteration of a loop costs the host little: it need not wait for a device.
      cheap_dispatches: True if a dispatch costs less than to write what it computes to memory.
      short_divisions: True if 16-bit numbers may be divided by constants.
      most_arguments: the largest number of arguments of one kernel, besides results and intermediate values.
    """

    exponentials: frozenset[str] = frozenset()
    tanh: frozenset[str] = frozenset()
    doubles: bool = False
    remainders: int = 0
    chlo_functions: bool = False
    leading_zeros: bool = False
    order: bool = False
    reversed_operands: bool = False
    longest_sort: int = 0
    sort_multiple: int = 1
    parallel_sums: bool = True
    sums_of_products: bool = False
    long_sums: bool = False
    narrow_convolutions: bool = False
    grouped_convolutions: bool = False
    reversed_windows: bool = False
    unique_indices: bool = False
    loop_results: bool = False
    sorted_operands: bool = False
    updates_in_loops: bool = False
    memory_of_results: bool = True
    cheap_iterations: bool = True
    cheap_dispatches: bool = True
    short_divisions: bool = True
    most_arguments: int = 24


@dataclass(frozen=True)
class Target:
    """The base class of all targets.

    Args:
      options: additional flags of iree-compile, which override those of the target.
      asynchronous: True makes calls return before they end, with arrays whose values are waited for when they are read. Calls
        of one module stay in order where it matters; a call with a loop of unknown length waits for its values. A caller in
        C passes two fences to such a function, as iree-run-module does.
      checking: which programs that are compiled for this target are compared with the interpreter, as for `nm.set_checking`. None
        uses the setting of `nm.set_checking`. Neither the code nor its name in the cache depends on it.
    """

    options: tuple[str, ...] = field(default=(), kw_only=True)
    asynchronous: bool = field(default=False, kw_only=True)
    checking: str | None = field(default=None, kw_only=True, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Raises TargetError for fields that are not valid, as far as this is known without the compiler; `resolve` checks the
        others.
        """
        if isinstance(self.options, str) or not all(isinstance(flag, str) for flag in self.options):
            raise TargetError(
                f"target {self.name} requires a tuple of flags as options, got {self.options!r}.",
                where=user_frame(),
                help="write options=('--iree-opt-level=O2',).",
            )
        object.__setattr__(self, "options", tuple(self.options))

    name: ClassVar[str]
    drivers: ClassVar[tuple[str, ...]]
    labelled: ClassVar[tuple[str, ...]] = ()  # the fields that tell it from others of its kind
    codegen: ClassVar[Codegen] = Codegen()
    plugins: ClassVar[tuple[str, ...] | None] = None  # those of `_PLUGINS` that its code needs; None means all
    for_wide_convolutions: ClassVar[tuple[str, ...]] = ()  # flags for modules that contain wide convolutions
    maps_memory: ClassVar[bool] = False  # True if it shares its memory with the host, which may then map it

    @classmethod
    def found(cls) -> Sequence[str]:
        """The names of the devices of this machine that run code for this kind of target.

        Raises:
          OSError: there is no device; the message says what is missing.
        """
        raise NotImplementedError

    @classmethod
    def check_fit(cls, data: Mapping[str, Any]) -> None:
        """Raises DeployError unless this machine runs code for a target, which `data` describes as `to_json` does.

        It checks conditions whose violation would not be an error, but a crash or wrong numbers.

        Raises:
          DeployError: it does not; the message says what is missing.
        """
        raise NotImplementedError

    @classmethod
    def open_as(cls, driver: str) -> str:
        """The URI with which the runtime opens a device: the driver's name or URI, with the options that right numbers need."""
        return driver

    @classmethod
    def entrance(cls) -> Callable[[], None] | None:
        """The function that a thread must call before it uses a device that it has just opened; None means nothing."""
        return None

    @classmethod
    def label(cls, data: Mapping[str, Any]) -> list[str]:
        """The words that distinguish a target, in the form of `to_json`, from others of its kind."""
        return [str(data.get(key, "")) for key in cls.labelled]

    @classmethod
    def measured(cls) -> dict[str, tuple[Target, Sequence[str] | None]]:
        """The targets of this kind, by title, and the dtypes for which the reference lists the operations; None means all."""
        return {}

    @classmethod
    def here(cls) -> Target:
        """The target of this kind for this machine."""
        return cls()

    def resolve(self) -> Target:
        """The same target, with all properties of this machine written out."""
        return self

    def kernel_bytes(self) -> int:
        """The width of the vector registers for which kernels and schedules are written; 0 means that there are none."""
        return 0

    def triton_capability(self) -> int:
        """The compute capability of the NVIDIA GPU for which Triton compiles kernels; 0 means that there are none."""
        return 0

    def missing_compiler(self) -> str:
        """The name of a compiler that makes code for the target faster, and is not installed; "" if there is none."""
        return ""

    def allowed_bytes(self) -> int | None:
        """The bytes that a call may allocate at once; None sets no limit."""
        return None

    def device_targets(self) -> str | None:
        """The text of the module attribute `hal.device.targets`, or None if flags alone describe the device."""
        return None

    def flags(self) -> list[str]:
        """The flags of iree-compile, including the description in `device_targets`."""
        flags = [*self._device_flags(), *_COMMON_FLAGS]
        if self.asynchronous:
            flags.append("--iree-execution-model=async-external")
        if self.plugins is not None and not any(flag.startswith("--iree-hal-target") for flag in self.options):
            flags += [f"--iree-plugin=-{plugin}" for plugin in _PLUGINS if plugin not in self.plugins]
        return merge_flags(flags, self.options)

    def __dask_tokenize__(self) -> tuple[str, str]:
        """The key by which dask tells targets apart."""
        return f"nabla_mlir.{type(self).__name__}", repr(self)

    def to_json(self) -> dict[str, Any]:
        """The resolved target as JSON values, in the form of the manifest."""
        data = {"name": self.name} | asdict(self.resolve())
        del data["checking"]  # a setting of the user who compiles
        return data

    @staticmethod
    def from_json(data: dict[str, Any]) -> Target:
        """The target from the JSON values that `to_json` returned.

        Raises:
          TargetError: the name or a field is unknown.
        """
        data = dict(data)
        cls = type(target(data.pop("name", None)))
        if unknown := set(data) - {f.name for f in fields(cls)}:
            raise TargetError(f"target {cls.name} requires known fields, got {', '.join(sorted(unknown))}.")
        return cls(**{key: _untuple(value) for key, value in data.items()})

    def _device_flags(self) -> list[str]:
        """The flags of iree-compile that describe the device."""
        return [f"--iree-hal-target-device={self.device_targets()}"]


TARGETS: dict[str, type[Target]] = {}  # all kinds, by name; __init__.py fills it


def drivers_of(name: str) -> tuple[str, ...]:
    """The drivers of the runtime that run code for a kind of target, also for an unknown kind."""
    return TARGETS[name].drivers if name in TARGETS else (name,)


def target_of(driver: str) -> Target:
    """The target for a driver of this machine, such as "vulkan" or "cuda://1"."""
    return next(cls for cls in TARGETS.values() if driver.partition(":")[0] in cls.drivers).here()


def target(spec: str | Target | None = "cpu") -> Target:
    """The target that `spec` names, or `spec` itself.

    Raises:
      TargetError: the name does not exist; the message lists those that exist.

    Example:
      >>> target("cuda").arch
      'sm_80'
    """
    if isinstance(spec, Target):
        return spec
    if isinstance(spec, str) and spec.lower() in TARGETS:
        return TARGETS[spec.lower()]()
    names = ", ".join(f"{name!r} or {cls.__name__}(...)" for name, cls in TARGETS.items())
    raise TargetError(f"compile requires a known target, got {spec!r}.", where=user_frame(), help=f"use {names}.")


@dataclass(frozen=True)
class Availability:
    """The availability of a target on this machine: its devices, or the reason why it does not run."""

    name: str
    runs: bool
    detail: str

    def __str__(self) -> str:
        """A line of a table: the name, yes or no, and the devices or the reason."""
        return f"{self.name:8}{'yes' if self.runs else 'no':5}{self.detail}"


def available() -> list[Availability]:
    """The availability of all targets on this machine, each with its devices or a reason. It prints as a table."""
    return [_available(cls) for cls in TARGETS.values()]


def _available(cls: type[Target]) -> Availability:
    """The availability of a kind of target on this machine."""
    try:
        return Availability(cls.name, True, ", ".join(cls.found()))
    except OSError as error:
        return Availability(cls.name, False, str(error))


def merge_flags(flags: list[str], more: tuple[str, ...] | list[str]) -> list[str]:
    """The flags in `flags` and `more`; a flag of `more` replaces the same flag of `flags`.

    Example:
      >>> merge_flags(["--a=1", "--b"], ["--a=2"])
      ['--b', '--a=2']
    """
    names = {flag.split("=")[0] for flag in more}
    return [flag for flag in flags if flag.split("=")[0] not in names] + list(more)


def nearest(name: Any, known: Iterable[str]) -> str:
    """The help for an unknown name: the known names that are similar, and all known names if they are few.

    Example:
      >>> nearest("nvdia", ["host", "nvidia"])
      "did you mean 'nvidia'? Known are host, nvidia."
    """
    import difflib  # which a machine that only runs artifacts never needs

    known = list(known)
    alike = difflib.get_close_matches(str(name), known, n=3)
    question = f"did you mean {' or '.join(map(repr, alike))}?" if alike else ""
    if alike and len(known) > 20:
        return question
    return f"{question} Known are {', '.join(known)}.".lstrip()


def _untuple(value: Any) -> Any:
    """The value, with a list replaced by a tuple."""
    return tuple(value) if isinstance(value, list) else value
