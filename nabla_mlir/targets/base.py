"""What a target is: a typed value that says for what machine a module is compiled, and the table of all kinds.

Common to all targets: f64 stays f64 (IREE's default would turn it into f32), optimisation level 3 without the
aggressive fusion that breaks some valid modules, without the fusion of values that several operations read, without two
rewrites of matrix products and transposes, and no debug information (artifacts are byte-identical wherever they were built).

The fusion of values with several readers makes dispatches with several results. Where two of them turn out equal, IREE 3.13
takes the first result of the dispatch for the later one (dropUnusedAndRedundantDispatchRegionResults, iree-org/iree#20065):
of ``z = x * y; a = where(c, z, 0); return z, a, where(c, a, 0)`` the third result was z. The two rewrites gave wrong numbers
for some Hessians (tests/frontend/test_compositions.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar

from nabla_mlir.errors import TargetError

_COMMON_FLAGS = (
    "--iree-input-demote-f64-to-f32=false",
    "--iree-opt-level=O3",
    "--iree-dispatch-creation-enable-aggressive-fusion=false",
    "--iree-dispatch-creation-fuse-multi-use=false",
    "--iree-opt-generalize-matmul=false",
    "--iree-opt-aggressively-propagate-transposes=false",
    "--iree-vm-bytecode-module-strip-source-map",
)


@dataclass(frozen=True)
class Codegen:
    """What IREE 3.13's code generator for a kind of target does right; passes/iree does the rest. Unless it is said, nothing.

    Args:
      exponentials: floating-point types in which exp, log and logistic are exact and fast.
      tanh: floating-point types in which tanh is.
      remainders: bytes of the widest floating-point type in which remainders are right.
      chlo_functions: whether the stock expansions of CHLO's functions in f32 are right.
      leading_zeros: whether they are counted in any integer, not in those of 32 bits alone.
      order: whether operations stay in the order that they are written in, where rounding makes a difference.
      reversed_operands: whether what reads a reversed array twice may be fused with it.
      longest_sort, sort_multiple: what it sorts: so many elements at most, and of more than two a multiple of that.
      parallel_sums: whether a sum with few results is taken by many threads, or need not be.
      sums_of_products: whether a product with a vector may be summed over its rows and columns at once.
      long_sums: whether they are taken in several parts, so that errors do not add up.
      narrow_convolutions, grouped_convolutions, reversed_windows: whether convolutions may have such operands.
      unique_indices: whether a scatter may say that its indices are.
      loop_results: whether results of loops that may take no step are freed once.
      sorted_operands: whether a sort whose results are not all used needs little of the stack.
      updates_in_loops: whether a loop may update its own arrays where they are.
      memory_of_results: whether results that are dropped leave memory that is found again.
      short_divisions: whether numbers of 16 bits may be divided by constants.
      most_arguments: how many of them one kernel may read; there are results and intermediate values besides.
    """

    exponentials: frozenset[str] = frozenset()
    tanh: frozenset[str] = frozenset()
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
    short_divisions: bool = True
    most_arguments: int = 24


@dataclass(frozen=True)
class Target:
    """What all targets share.

    Args:
      options: further flags of iree-compile; they win over the target's own.
      asynchronous: calls return before they are done, with arrays that are waited for when they are read. Those of one
        module keep their order where it matters; one with a loop whose length its values decide waits for those. Who
        calls such a function from C gives it two fences, as iree-run-module does.
      checking: which programs that are compiled for it are compared with the interpreter, as for `nm.set_checking`; None does
        as that says. The code does not depend on it, and neither does its name in the cache.
    """

    options: tuple[str, ...] = field(default=(), kw_only=True)
    asynchronous: bool = field(default=False, kw_only=True)
    checking: str | None = field(default=None, kw_only=True, compare=False, repr=False)

    name: ClassVar[str]
    drivers: ClassVar[tuple[str, ...]]
    labelled: ClassVar[tuple[str, ...]] = ()  # the fields that tell it from others of its kind
    codegen: ClassVar[Codegen] = Codegen()
    for_wide_convolutions: ClassVar[tuple[str, ...]] = ()  # flags for modules that have some
    maps_memory: ClassVar[bool] = False  # where it shares its memory with the host, that may be mapped if it is asked for

    @classmethod
    def found(cls) -> Sequence[str]:
        """What this machine has to run it.

        Raises:
          OSError: nothing; the message says what is missing.
        """
        raise NotImplementedError

    @classmethod
    def check_fit(cls, data: Mapping[str, Any]) -> None:
        """Returns if this machine runs code for a target that `to_json` wrote: what would not fail by itself, but crash
        or compute wrong numbers.

        Raises:
          DeployError: it does not; the message says what is missing.
        """
        raise NotImplementedError

    @classmethod
    def entrance(cls) -> Callable[[], None] | None:
        """What a thread has to call before it uses a device that this thread has just opened; None: nothing."""
        return None

    @classmethod
    def label(cls, data: Mapping[str, Any]) -> list[str]:
        """The words that tell a target that `to_json` wrote from others of its kind."""
        return [str(data.get(key, "")) for key in cls.labelled]

    @classmethod
    def measured(cls) -> dict[str, tuple[Target, Sequence[str] | None]]:
        """For which targets of the kind, by title, and which dtypes the reference lists the operations; None: all."""
        return {}

    @classmethod
    def here(cls) -> Target:
        """The target of the kind for what this machine has."""
        return cls()

    def resolve(self) -> Target:
        """The same target with everything that depends on this machine written out."""
        return self

    def kernel_bytes(self) -> int:
        """The width of the vector registers that kernels and schedules are written for; 0: none are."""
        return 0

    def allowed_bytes(self) -> int | None:
        """What a call may allocate at once; None: anything."""
        return None

    def device_targets(self) -> str | None:
        """The text of the module attribute `hal.device.targets`, or None where flags alone describe the device."""
        return None

    def flags(self) -> list[str]:
        """The flags of iree-compile. What `device_targets` describes is among them."""
        flags = [*self._device_flags(), *_COMMON_FLAGS]
        if self.asynchronous:
            flags.append("--iree-execution-model=async-external")
        return merge_flags(flags, self.options)

    def __dask_tokenize__(self) -> tuple[str, str]:
        return f"nabla_mlir.{type(self).__name__}", repr(self)

    def to_json(self) -> dict[str, Any]:
        """The target as JSON values, resolved, as the manifest keeps it."""
        data = {"name": self.name} | asdict(self.resolve())
        del data["checking"]  # of the one who compiles
        return data

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


TARGETS: dict[str, type[Target]] = {}  # all kinds by name; filled in __init__.py


def drivers_of(name: str) -> tuple[str, ...]:
    """The drivers of the runtime that run code for a kind of target, also for one that is not known here."""
    return TARGETS[name].drivers if name in TARGETS else (name,)


def target_of(driver: str) -> Target:
    """What runs on a driver of this machine, such as "vulkan" or "cuda://1"."""
    return next(cls for cls in TARGETS.values() if driver.partition(":")[0] in cls.drivers).here()


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
    names = ", ".join(f"{name!r} or {cls.__name__}(...)" for name, cls in TARGETS.items())
    raise TargetError(f"compile requires a known target, got {spec!r}.", help=f"use {names}.")


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
    return [_available(cls) for cls in TARGETS.values()]


def _available(cls: type[Target]) -> Availability:
    try:
        return Availability(cls.name, True, ", ".join(cls.found()))
    except OSError as error:
        return Availability(cls.name, False, str(error))


def merge_flags(flags: list[str], more: tuple[str, ...] | list[str]) -> list[str]:
    """`flags` and `more`, where a flag of `more` takes the place of the same flag of `flags`.

    Example:
      >>> merge_flags(["--a=1", "--b"], ["--a=2"])
      ['--b', '--a=2']
    """
    names = {flag.split("=")[0] for flag in more}
    return [flag for flag in flags if flag.split("=")[0] not in names] + list(more)


def _untuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
