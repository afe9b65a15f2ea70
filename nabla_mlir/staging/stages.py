"""Traced -> Lowered -> Compiled: each stage prints its IR, saves it, and says its inputs and outputs."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

import numpy as np
from iree.compiler import ir

from nabla_mlir import pytree
from nabla_mlir.compiling.lowering import clone_module, compile_lowered, lower_module
from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.regions import functions_of
from nabla_mlir.dialects.types import as_dtype
from nabla_mlir.errors import DtypeError, ShapeError, TraceError, TreeError, user_frame
from nabla_mlir.rules.cost import FunctionCost, cost_of_function
from nabla_mlir.staging.bundle import Bundle
from nabla_mlir.staging.tracing import Spec, bake_captures, checked_output, trace_function
from nabla_mlir.table.promotion import Defaults, as_tensor, is_scalar, scalar_array, scalar_dtype
from nabla_mlir.table.regions import emit_call
from nabla_mlir.targets import Target
from nabla_mlir.targets import target as as_target


def spec(shape: Sequence[int] | int = (), dtype: Any = None) -> Spec:
    """Describes an argument of a function that is traced.

    Args:
      shape: the lengths of its axes; an int stands for one axis.
      dtype: a dtype or its name: NumPy's, such as "i8" for int64, or MLIR's where NumPy has none, such as "bf16"; the
        default float dtype if not given.

    Example:
      >>> print(spec((2, 3), "f64"))
      float64[2,3]
    """
    try:
        lengths = tuple(map(operator.index, shape if isinstance(shape, (Sequence, np.ndarray)) else (shape,)))
    except TypeError:
        raise ShapeError(f"spec requires lengths that are integers, got {shape!r}.", where=user_frame()) from None
    if any(n < 0 for n in lengths):
        raise ShapeError(f"spec requires lengths that are not negative, got {lengths}.", where=user_frame())
    return Spec(lengths, Defaults.float if dtype is None else as_dtype(dtype))


@dataclass(frozen=True)
class Entry:
    """One entry point: the structure of its arguments and results, and the spec of each leaf.

    The last `storage` of the inputs are memory of the caller's that the results are written to.
    """

    name: str
    arguments: tuple[str, ...]
    in_spec: pytree.TreeSpec
    inputs: tuple[Spec, ...]
    out_spec: pytree.TreeSpec
    outputs: tuple[Spec, ...]
    doc: str = ""
    storage: int = 0

    @functools.cached_property
    def input_names(self) -> tuple[str, ...]:
        """The name of each input leaf as Python would write it, ``params['w']`` for instance."""
        return tuple(_named(self.arguments, path) for path in pytree.paths(self.in_spec))

    @functools.cached_property
    def output_names(self) -> tuple[str, ...]:
        """The name of each result leaf."""
        return tuple("result" + path for path in pytree.paths(self.out_spec))

    def describe(self) -> str:
        """The inputs and outputs, a line each."""
        lines = [f"{self.name}("]
        lines += [f"  {n}: {s}" for n, s in zip(self.input_names, self.inputs, strict=True)]
        lines += [")"] + [f"  -> {n}: {s}" for n, s in zip(self.output_names, self.outputs, strict=True)]
        return "\n".join(lines)

    def flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The leaves of a call, checked against the specs. Raises TreeError, ShapeError or DtypeError."""
        bound = _bind(self, args, kwargs)
        leaves = pytree.flatten_like(self.in_spec, bound, f"{self.name}()", "the arguments it was traced with")
        for leaf in leaves[len(leaves) - self.storage :]:
            if not hasattr(leaf, "__array__"):
                raise DtypeError(f"{self.name}() requires arrays to write to, got {type(leaf).__name__}.")
        for i, (leaf, wanted) in enumerate(zip(leaves, self.inputs, strict=True)):
            leaves[i] = _checked(leaf, wanted, self, i)
        return leaves


def _named(arguments: tuple[str, ...], path: str) -> str:
    # Paths start with the index of the argument.
    index, _, rest = path[1:].partition("]")
    return arguments[int(index)] + rest


def _bind(entry: Entry, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    rest = entry.arguments[len(args) :]
    unknown, missing = set(kwargs) - set(rest), [n for n in rest if n not in kwargs]
    if len(args) > len(entry.arguments) or unknown or missing:
        raise TreeError(
            f"{entry.name}() requires the arguments ({', '.join(entry.arguments)}), got {len(args)} by position"
            f"{' and ' + ', '.join(sorted(kwargs)) if kwargs else ''}.", where=user_frame(),
        )  # fmt: skip
    return (*args, *(kwargs[n] for n in rest))


def _checked(leaf: Any, wanted: Spec, entry: Entry, i: int) -> Any:
    if is_scalar(leaf):
        leaf = scalar_array(leaf, wanted.dtype, f"{entry.name}() requires {wanted} for {entry.input_names[i]}")
    if not hasattr(leaf, "dtype") or not hasattr(leaf, "shape"):
        leaf = np.asarray(leaf)
    if tuple(leaf.shape) != wanted.shape:
        raise ShapeError(f"{entry.name}() requires {wanted} for {entry.input_names[i]}, got shape {tuple(leaf.shape)}.",
                         where=user_frame(), help="trace it anew for other shapes.")  # fmt: skip
    if leaf.dtype != wanted.dtype:
        raise DtypeError(f"{entry.name}() requires {wanted} for {entry.input_names[i]}, got {leaf.dtype}.",
                         where=user_frame(), help="convert it with astype.")  # fmt: skip
    return leaf


@dataclass(frozen=True)
class _Stage:
    """What the stages share."""

    module: ir.Module
    entries: tuple[Entry, ...]

    def mlir(self) -> str:
        """The IR as text."""
        return str(self.module)

    def save_mlir(self, path: str | Path) -> Path:
        """Writes the IR; a name that ends in .mlirbc gets bytecode, any other one text."""
        path = Path(path)
        if path.suffix == ".mlirbc":
            with path.open("wb") as file:
                self.module.operation.write_bytecode(file)
        else:
            path.write_text(self.mlir())
        return path

    def describe(self) -> str:
        """The inputs and outputs of every entry point."""
        return "\n".join(entry.describe() for entry in self.entries)

    def __str__(self) -> str:
        return self.mlir()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {', '.join(e.name for e in self.entries)}>"


class Traced(_Stage):
    """A function as StableHLO with `ad` and `batch` regions: what it says, before any pass has run."""

    def lower(self) -> Lowered:
        """Expands all transforms. Raises RuleMissingError where an operation has no rule."""
        module = clone_module(self.module)
        lower_module(module)
        return Lowered(module, self.entries)


class Lowered(_Stage):
    """Plain StableHLO, derivatives and batches included."""

    def function(self, name: str | None = None) -> Callable[..., Any]:
        """An entry point as a function of pytrees that every transform accepts; the only one if not named.

        It is differentiated as the StableHLO stands here: custom rules and `stop_gradient` have been expanded.

        Example:
          >>> import nabla_mlir as nm
          >>> lowered = nm.trace(lambda x: x * x, nm.spec(), name="square").lower()
          >>> float(nm.grad(lowered.function())(3.0))
          6.0
        """
        from nabla_mlir.staging.eager import staged

        names = [e.name for e in self.entries]
        name = names[0] if name is None and len(names) == 1 else name
        if name not in names:
            raise TraceError(f"an entry point requires a name among {sorted(names)}, got {name!r}.", where=user_frame())
        entry = self.entries[names.index(name)]

        def call(*args: Any, **kwargs: Any) -> Any:
            tensors = [as_tensor(leaf) for leaf in entry.flatten(args, kwargs)]
            func = functions_of(self.module.operation)[name]  # of a module that this closure keeps alive
            return pytree.unflatten(entry.out_spec, emit_call(func, tensors))

        return staged(call)

    def cost(self) -> dict[str, FunctionCost]:
        """Operations, bytes moved, bytes of state and peak memory of each entry point, before the compiler fuses.

        Example:
          >>> import nabla_mlir as nm
          >>> nm.trace(lambda a, b: a @ b, nm.spec((2, 3)), nm.spec((3, 5)), name="f").lower().cost()["f"].flops
          60
        """
        return {name: cost_of_function(f) for name, f in functions_of(self.module.operation).items()}

    @overload
    def compile(
        self, target: str | Target = ..., *, flags: Sequence[str] = ..., cache: bool = ..., tune: bool = ...
    ) -> Compiled: ...
    @overload
    def compile(
        self, target: list[Any] | tuple[Any, ...], *, flags: Sequence[str] = ..., cache: bool = ..., tune: bool = ...
    ) -> Bundle: ...
    def compile(self, target: Any = "cpu", *, flags: Sequence[str] = (), cache: bool = True, tune: bool = False) -> Any:
        """Compiles for a target, or for several, each in a process of its own.

        Args:
          target: "cpu", "vulkan", "cuda", or one of `nm.targets`; a list of them makes a `Bundle`, one artifact from
            which a machine takes the first that it runs.
          flags: further flags of iree-compile.
          cache: look for the result in the cache on disk, and put it there.
          tune: compile several forms (`nabla_mlir.staging.tuning.FORMS`) for the CPU of this machine, time them with both
            drivers, and keep the fastest that agrees with the default; the manifest says what was tried.

        Raises:
          CompileError: IREE refused the module or crashed; a reproducer is saved.
          TargetError: the target does not exist, or is to be tuned and no CPU.
        """
        if isinstance(target, (list, tuple)):
            return Bundle(tuple(self.compile(t, flags=flags, cache=cache, tune=tune) for t in target))
        chosen = as_target(target)
        if tune:
            from nabla_mlir.staging import tuning

            functions = {entry.name: entry.inputs for entry in self.entries}
            best = tuning.tune(self.module, functions, chosen, flags, cache)
            return Compiled(self.module, self.entries, best.vmfb, best.target, best.driver, best.trials)
        vmfb = compile_lowered(self.module, chosen, flags=flags, cache=cache)
        return Compiled(self.module, self.entries, vmfb, chosen)


@dataclass(frozen=True, repr=False)
class Compiled(_Stage):
    """An artifact: callable here, and a file for elsewhere."""

    vmfb: bytes
    target: Target
    tuned_driver: str = ""
    trials: tuple[Any, ...] = ()

    @functools.cached_property
    def _executables(self) -> dict[str, Any]:
        """By the name of the entry point that it runs."""
        from nabla_mlir.runtime import Executable, pooled
        from nabla_mlir.runtime.fitting import check_fit
        from nabla_mlir.runtime.module import split_by_driver

        check_fit(self.target.to_json())
        executable = Executable.load(self.vmfb, pooled(self.driver))
        others = split_by_driver(self._manifest, self._manifest.code[0], executable)
        return dict.fromkeys((e.name for e in self.entries), executable) | others

    @functools.cached_property
    def _manifest(self) -> Any:
        from nabla_mlir.staging.artifact import manifest_of

        return manifest_of(self)

    @functools.cached_property
    def driver(self) -> str:
        """The runtime driver that suits the module: the synchronous one for little work, threads for much.

        Where entry points share no state, each runs on the one that suits it; this is that of the longest.
        """
        return str(self._manifest.best_driver(self._manifest.code[0]))

    def entry(self, name: str) -> Callable[..., Any]:
        """An entry point as a Python function of pytrees."""
        known = {e.name: e for e in self.entries}
        if name not in known:
            raise TraceError(f"an entry point requires a name among {sorted(known)}, got {name!r}.", where=user_frame())
        entry, function = known[name], self._executables[name].function(name)
        types = [(out.shape, out.dtype) for out in entry.outputs]

        def call(*args: Any, **kwargs: Any) -> Any:
            return pytree.unflatten(entry.out_spec, function(entry.flatten(args, kwargs), entry.storage, types))

        return call

    @functools.cached_property
    def _only(self) -> Callable[..., Any]:
        if len(self.entries) != 1:
            names = ", ".join(e.name for e in self.entries)
            raise TraceError(f"a call requires one entry point, got {names}.", where=user_frame(),
                             help="choose one: compiled.entry(name)(...).")  # fmt: skip
        return self.entry(self.entries[0].name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the only entry point."""
        return self._only(*args, **kwargs)

    def save(self, path: str | Path) -> Path:
        """Writes the artifact and its manifest: beside each other, in a folder or in a .zip, as the path says.

        `nm.load` reads them without the compiler.
        """
        from nabla_mlir.staging.artifact import save_compiled

        return save_compiled([self], path)


# ---------------------------------------------------------------- tracing


def trace(f: Callable[..., Any], *specs: Any, name: str | None = None, **kw_specs: Any) -> Traced:
    """Runs `f` once on tensors and records what it does.

    Args:
      f: a function of pytrees of arrays.
      specs: for each positional argument a pytree of `nm.spec(...)`, arrays (which stand for their shape and
        dtype) or Python scalars.
      name: the name of the entry point; that of the function if not given.
      kw_specs: the same for keyword arguments.

    Raises:
      TraceError: the function does something that cannot be recorded.

    Example:
      >>> import nabla_mlir as nm
      >>> traced = nm.trace(lambda x: x + 1.0, nm.spec(3), name="increment")
      >>> print(traced.describe())
      increment(
        x: float32[3]
      )
        -> result: float32[3]
    """
    leaves, in_spec = pytree.flatten((*specs, *kw_specs.values()))
    arguments = _argument_names(f, len(specs), tuple(kw_specs))
    inputs = [as_spec(leaf) for leaf in leaves]
    box: dict[str, Any] = {}

    def flat(*tensors: Any) -> list[Any]:
        values = pytree.unflatten(in_spec, tensors)
        out = f(*values[: len(specs)], **dict(zip(kw_specs, values[len(specs) :], strict=True)))
        out_leaves, box["spec"] = pytree.flatten(out)
        outs = [_output(leaf, path) for leaf, path in zip(out_leaves, pytree.paths(box["spec"]), strict=True)]
        box["outputs"] = [Spec(out.shape, out.dtype) for out in outs]
        return outs

    entry_name = name or entry_name_of(f)
    module, captured = trace_function(flat, inputs, entry_name)
    bake_captures(module, len(inputs), captured)
    entry = Entry(entry_name, arguments, in_spec, tuple(inputs), box["spec"], tuple(box["outputs"]), _first_line(f))
    return Traced(module, (entry,))


def _output(leaf: Any, path: str) -> Any:
    if not (pytree.is_array(leaf) or is_scalar(leaf)):
        raise TraceError(f"a traced function requires arrays as results, got {type(leaf).__name__} at result{path}.",
                         where=user_frame())  # fmt: skip
    return checked_output(leaf)


def as_spec(leaf: Any) -> Spec:
    """The spec of an argument leaf: itself, or that of an array or a Python scalar (which stays weak)."""
    if isinstance(leaf, Spec):
        return leaf
    if is_scalar(leaf):
        return Spec((), scalar_dtype(leaf), weak=True)
    if pytree.is_array(leaf):
        return Spec(tuple(leaf.shape), np.dtype(leaf.dtype))
    raise TraceError(
        f"an argument requires arrays, scalars or nm.spec, got {type(leaf).__name__}.", where=user_frame(),
        help="pass other values as static arguments (functools.partial, or jit(static_argnums=...)).",
    )  # fmt: skip


def entry_name_of(f: Callable[..., Any]) -> str:
    """The name of a function as a symbol."""
    name = getattr(f, "__name__", type(f).__name__)
    cleaned = "".join(c if c.isalnum() or c == "_" else "_" for c in name).strip("_")
    return cleaned if cleaned and cleaned != "lambda" else "main"


def _argument_names(f: Callable[..., Any], positional: int, keywords: tuple[str, ...]) -> tuple[str, ...]:
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        parameters = []  # type: ignore[assignment]
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names = names[:positional] + [f"arg{i}" for i in range(len(names), positional)]
    return (*names, *keywords)


def _first_line(f: Callable[..., Any]) -> str:
    doc = inspect.getdoc(f) if inspect.isfunction(f) else None
    return doc.splitlines()[0] if doc else ""


def module(**traced: Traced) -> Traced:
    """Several traced functions as entry points of one artifact, called by the names given here.

    Example:
      >>> import nabla_mlir as nm
      >>> f = lambda x: (x * x).sum()
      >>> both = nm.module(value=nm.trace(f, nm.spec(3)), gradient=nm.trace(nm.grad(f), nm.spec(3)))
      >>> both
      <Traced value, gradient>
    """
    with context(), ir.Location.unknown():
        merged = ir.Module.create()
        entries = []
        for name, stage in traced.items():
            if len(stage.entries) != 1:
                raise TraceError(
                    f"module() requires functions with one entry point, got {stage!r}.", where=user_frame()
                )
            with ir.InsertionPoint(merged.body):
                func = stage.module.body.operations[0].operation.clone()
            func.attributes["sym_name"] = ir.StringAttr.get(name)
            entries.append(replace(stage.entries[0], name=name))
    return Traced(merged, tuple(entries))
