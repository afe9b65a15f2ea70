"""Compiled modules. They are callable here, by the code that calls loaded artifacts, and can be saved for other machines."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from nabla_mlir.base.errors import TraceError, user_frame
from nabla_mlir.base.locks import cached_property
from nabla_mlir.compiling.internals.memory import allocated_at_once
from nabla_mlir.compiling.reference_check import Checks
from nabla_mlir.dialects.context import bytecode_of
from nabla_mlir.dialects.regions import functions_of
from nabla_mlir.rules.cost import FunctionCost, cost_of_function
from nabla_mlir.runtime import Executable, Module, pooled
from nabla_mlir.runtime.fitting import check_fit, choose
from nabla_mlir.runtime.manifest import Code, Manifest, Memory
from nabla_mlir.runtime.module import split_by_driver
from nabla_mlir.runtime.storage import artifact_bytes, save_artifact, store_artifact
from nabla_mlir.staging.artifact import manifest_of, with_references
from nabla_mlir.staging.entry import Entry, Stage
from nabla_mlir.targets import Target
from nabla_mlir.targets.toolchain import disassembled


def analysis_of(cost: FunctionCost) -> dict[str, float]:
    """A cost under the names of JAX.

    Example:
      >>> analysis_of(FunctionCost(flops=3, bytes=24, state_bytes=0, peak_bytes=24))
      {'flops': 3.0, 'bytes accessed': 24.0}
    """
    return {"flops": float(cost.flops), "bytes accessed": float(cost.bytes)}


class MemoryAnalysis(NamedTuple):
    """The bytes of a call, under the names of JAX."""

    argument_size_in_bytes: int
    output_size_in_bytes: int
    temp_size_in_bytes: int
    peak_memory_in_bytes: int


@dataclass(frozen=True, repr=False)
class Compiled(Stage):
    """A compiled module, which is callable here and can be saved. Entry points are attributes, as in a loaded module.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> compiled = nm.trace(lambda x: x * x, nm.spec(2, "f64"), name="square").lower().compile()
      >>> compiled.square(np.array([1.0, 2.0])).tolist(), compiled(np.array([1.0, 2.0])).tolist()
      ([1.0, 4.0], [1.0, 4.0])
    """

    vmfb: bytes
    target: Target
    tuned_driver: str = ""
    trials: tuple[Any, ...] = ()
    checks: Checks = field(default_factory=dict)  # the outcome of the check of each entry point

    def _rest(self) -> tuple[Any, ...]:
        """The other fields; the target "host" is replaced by the CPU for which the module was compiled."""
        return self.vmfb, self.target.resolve(), self.tuned_driver, self.trials

    def __reduce__(self) -> tuple[Any, ...]:
        maker, arguments = super().__reduce__()
        return maker, (*arguments, self.checks)

    def _title(self) -> str:
        return f"Compiled module for {self.code.label}, {len(self.vmfb):,} bytes"

    @property
    def code(self) -> Code:
        """The description of the code in the manifest."""
        return Code(self.target.to_json(), self.tuned_driver, trials=tuple(map(asdict, self.trials)), checks=self.checks)

    @cached_property
    def memory(self) -> dict[str, Memory]:
        """The bytes of a call of each entry point, as its program allocates and frees them.

        An entry point is missing if its program does not state its memory.

        Example:
          >>> import nabla_mlir as nm
          >>> compiled = nm.trace(lambda a, b: a @ b, nm.spec((64, 32)), nm.spec((32, 64)), name="f").lower().compile()
          >>> compiled.memory["f"].arguments, compiled.memory["f"].results, compiled.memory["f"].transients
          (16384, 16384, 0)
        """
        peaks = allocated_at_once(disassembled(self.vmfb))
        return {e.name: _memory(e, peaks[e.name]) for e in self.entries if e.name in peaks}

    def cost(self) -> dict[str, FunctionCost]:
        """The cost, as in `Lowered.cost`, but with the peak memory of the compiled code if its program states it."""
        costs = {name: cost_of_function(f) for name, f in functions_of(self.module.operation).items()}
        peaks = {name: memory.peak + costs[name].state_bytes for name, memory in self.memory.items()}
        return {name: replace(cost, peak_bytes=peaks.get(name, cost.peak_bytes)) for name, cost in costs.items()}

    def cost_analysis(self) -> dict[str, float]:
        """The cost of the first entry point under the names of JAX: "flops" and "bytes accessed"."""
        return analysis_of(self.cost()[self.entries[0].name])

    def memory_analysis(self) -> MemoryAnalysis | None:
        """The memory of a call of the first entry point under the names of JAX; None if its program does not state it."""
        memory = self.memory.get(self.entries[0].name)
        return None if memory is None else MemoryAnalysis(memory.arguments, memory.results, memory.transients, memory.peak)

    @cached_property
    def manifest(self) -> Manifest:
        """The manifest of the artifact."""
        return manifest_of(self.module, self.entries, [replace(self.code, memory=self.memory)])

    @cached_property
    def _checkable(self) -> Manifest:
        """The manifest of a file: with reference values, which the machine that loads the file compares with its results."""
        return with_references(self.manifest, self.module, self.target)

    @cached_property
    def loaded(self) -> Module:
        """The artifact as a loaded module in this process. Its trees know the types of their custom nodes.

        Raises:
          DeployError: it does not run on this machine.
        """
        code = self.code
        check_fit(code.target)
        manifest = manifest_of(self.module, self.entries, [code], live=True)
        executable = Executable.load(self.vmfb, pooled(manifest.best_driver(code), code.threads))
        others = split_by_driver(manifest, code, executable)
        return Module(executable, manifest, code, lambda: bytecode_of(self.module), others)

    @cached_property
    def driver(self) -> str:
        """The runtime driver that suits the module: the synchronous one for little work, threads for much.

        If entry points share no state, each runs on the driver that suits it; this is the driver of the longest.
        """
        return str(self.manifest.best_driver(self.manifest.code[0]))

    def entry(self, name: str) -> Callable[..., Any]:
        """An entry point as a Python function of pytrees."""
        names = sorted(e.name for e in self.entries)
        if name not in names:
            raise TraceError(f"an entry point requires a name among {names}, got {name!r}.", where=user_frame())
        return self.loaded[name]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """The loaded function of the entry point `name`; raises AttributeError if there is none."""
        entries = self.__dict__.get("entries", ())
        if any(e.name == name for e in entries):
            return self.loaded[name]
        names = ", ".join(e.name for e in entries)
        raise AttributeError(f"this module has the entry points {names or 'none'}, not {name!r}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(e.name for e in self.entries)]

    @cached_property
    def _only(self) -> Callable[..., Any]:
        """The function of the only entry point; raises an error if there are several."""
        if len(self.entries) != 1:
            names = ", ".join(e.name for e in self.entries)
            raise TraceError(
                f"a call requires one entry point, got {names}.",
                where=user_frame(),
                help=f"choose one: compiled.{self.entries[0].name}(...).",
            )
        return self.entry(self.entries[0].name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the only entry point."""
        return self._only(*args, **kwargs)

    def save(self, path: str | Path) -> Path:
        """Writes the artifact and its manifest as two files, in a folder, or in a .zip, depending on the path.

        `nm.load` reads them without the compiler.
        """
        return save_artifact(path, [self.vmfb], self._checkable, bytecode_of(self.module))

    def to_bytes(self) -> bytes:
        """The artifact as the content of a .zip, which `nm.load` accepts."""
        return artifact_bytes([self.vmfb], self._checkable, bytecode_of(self.module))

    def store(self, folder: str | Path) -> Path:
        """Writes the artifact into a folder that many machines share, under the name of its content; see `store_artifact`."""
        return store_artifact(folder, self.to_bytes())


@dataclass(frozen=True, repr=False)
class Bundle:
    """An artifact for several targets. A machine uses the first of `parts` that it runs. It is callable here, too.

    Example:
      >>> import nabla_mlir as nm
      >>> lowered = nm.trace(lambda x: x * x, nm.spec(), name="square").lower()
      >>> both = lowered.compile([nm.CUDA("sm_80"), nm.CPU("generic")])
      >>> both  # doctest: +ELLIPSIS
      <Bundle square for cuda-sm_80, cpu-generic-...>
      >>> float(both(3.0))
      9.0
    """

    parts: tuple[Compiled, ...]

    @cached_property
    def here(self) -> Compiled:
        """The part that this machine runs.

        Raises:
          DeployError: it runs none. The message gives the reason for each.
        """
        return self.parts[self.manifest.code.index(choose(self.manifest))]

    @cached_property
    def manifest(self) -> Manifest:
        """The manifest of the artifact."""
        first = self.parts[0]
        return manifest_of(first.module, first.entries, [part.manifest.code[0] for part in self.parts])

    @cached_property
    def _checkable(self) -> Manifest:
        """The manifest of a file: with reference values, which the machine that loads the file compares with its results."""
        return with_references(self.manifest, self.parts[0].module, self.parts[0].target)

    def entry(self, name: str) -> Callable[..., Any]:
        """An entry point as a Python function of pytrees."""
        return self.here.entry(name)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """The function of the entry point `name`, which every part of the bundle has; raises AttributeError if there is none."""
        entries = self.parts[0].entries if "parts" in self.__dict__ else ()
        if any(e.name == name for e in entries):
            return self.entry(name)
        names = ", ".join(e.name for e in entries)
        raise AttributeError(f"this module has the entry points {names or 'none'}, not {name!r}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the only entry point."""
        return self.here(*args, **kwargs)

    def describe(self) -> str:
        """The inputs and outputs of every entry point."""
        return self.parts[0].describe()

    def save(self, path: str | Path) -> Path:
        """Writes one file of code for each target, and one manifest, in a folder or in a .zip, depending on the path."""
        files = [part.vmfb for part in self.parts]
        return save_artifact(path, files, self._checkable, bytecode_of(self.parts[0].module))

    def to_bytes(self) -> bytes:
        """The artifact as the content of a .zip. `nm.load` accepts it, and uses the first target that fits."""
        return artifact_bytes([part.vmfb for part in self.parts], self._checkable, bytecode_of(self.parts[0].module))

    def store(self, folder: str | Path) -> Path:
        """Writes the artifact into a folder that many machines share, under the name of its content; see `store_artifact`."""
        return store_artifact(folder, self.to_bytes())

    @property
    def digest(self) -> str:
        """A SHA-256 of the parts."""
        return hashlib.sha256("\n".join(part.digest for part in self.parts).encode()).hexdigest()

    def __dask_tokenize__(self) -> tuple[str, str]:
        return "nabla_mlir.Bundle", self.digest

    def __repr__(self) -> str:
        names = ", ".join(e.name for e in self.parts[0].entries)
        return f"<Bundle {names} for {', '.join(code.label for code in self.manifest.code)}>"


def _memory(entry: Entry, peak: int) -> Memory:
    """The bytes of the arguments, of the results, and of all allocations together of one call of an entry point.

    `peak` is the number of bytes that the compiled code itself allocates at once. The last `entry.storage` inputs are memory that
    the caller passes for results, so they count as allocated and not as arguments.
    """
    sizes = [math.prod(spec.shape) * spec.dtype.itemsize for spec in entry.inputs]
    inputs = len(sizes) - entry.storage
    results = sum(math.prod(spec.shape) * spec.dtype.itemsize for spec in entry.outputs)
    return Memory(sum(sizes[:inputs]), results, peak + sum(sizes[inputs:]))
