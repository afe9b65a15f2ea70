"""The stages Traced -> Lowered -> Compiled. Each prints and saves its IR, and describes its inputs and outputs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np
from iree.compiler import ir

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import TargetError, TraceError, check_function, user_frame
from nabla_mlir.base.typing import PyTree
from nabla_mlir.compiling.checking import compile_checked
from nabla_mlir.compiling.lowering import clone_module, lower_module
from nabla_mlir.dialects.context import context, parse_module
from nabla_mlir.dialects.regions import functions_of, nested
from nabla_mlir.interpreter.target import Interpreter
from nabla_mlir.rules.copies import Copy, copies_of
from nabla_mlir.rules.cost import FunctionCost, cost_of_function
from nabla_mlir.runtime.manifest import Manifest
from nabla_mlir.staging import tuning
from nabla_mlir.staging.advice import users_call
from nabla_mlir.staging.artifact import entry_of
from nabla_mlir.staging.compiled import Bundle, Compiled, analysis_of
from nabla_mlir.staging.eager import staged
from nabla_mlir.staging.entry import Entry, Stage
from nabla_mlir.staging.interpreted import Interpreted
from nabla_mlir.staging.specs import Spec, as_spec
from nabla_mlir.staging.tracing import bake_captures, checked_output, trace_function
from nabla_mlir.table.promotion import as_tensor, is_scalar
from nabla_mlir.table.regions import emit_call
from nabla_mlir.targets import Target
from nabla_mlir.targets import target as as_target


class Traced(Stage):
    """A traced function: StableHLO with `ad` and `batch` regions, before any pass."""

    @property
    def jaxpr(self) -> Traced:
        """The stage itself, which prints as IR, under the name of JAX."""
        return self

    def lower(self, *, lowering_platforms: Sequence[str] | None = None) -> Lowered:
        """Expands all transforms, and returns the lowered stage. Raises RuleMissingError if an operation has no rule.

        `lowering_platforms` is accepted for programs of JAX: a lowered stage can be compiled for each target.
        """
        module = clone_module(self.module)
        lower_module(module)
        return Lowered(module, self.entries)

    def compile(self, target: Interpreter | None = None) -> Interpreted:
        """A callable that the interpreter runs, before any pass. For other targets, lower the stage first.

        Raises:
          TargetError: the target is not `nm.Interpreter()`.
        """
        if not isinstance(target, Interpreter):
            raise TargetError(
                f"a traced stage requires nm.Interpreter() as its target, got {target!r}.",
                where=user_frame(),
                help="lower it first: traced.lower().compile(target).",
            )
        return Interpreted(self.module, self.entries, b"", target)


class Lowered(Stage):
    """A lowered function: plain StableHLO, with derivatives and maps expanded."""

    @staticmethod
    def restore(stablehlo: bytes, manifest: Manifest) -> Lowered:
        """The stage from which an artifact was compiled. Custom nodes of trees are dicts."""
        return Lowered(parse_module(stablehlo), tuple(map(entry_of, manifest.entry_points)))

    def function(self, name: str | None = None) -> Callable[..., Any]:
        """An entry point as a function of pytrees, which every transform accepts. The name may be omitted if there is one.

        Derivatives follow this StableHLO: custom rules and `stop_gradient` are expanded already.

        Example:
          >>> import nabla_mlir as nm
          >>> lowered = nm.trace(lambda x: x * x, nm.spec(), name="square").lower()
          >>> float(nm.grad(lowered.function())(3.0))
          6.0
        """
        names = [e.name for e in self.entries]
        name = names[0] if name is None and len(names) == 1 else name
        if name not in names:
            raise TraceError(f"an entry point requires a name among {sorted(names)}, got {name!r}.", where=user_frame())
        entry = self.entries[names.index(name)]

        def call(*args: Any, **kwargs: Any) -> Any:
            """The results of the entry point, by a call of its StableHLO in the open trace."""
            tensors = [as_tensor(leaf) for leaf in entry.flatten(args, kwargs)]
            func = functions_of(self.module.operation)[name]  # this closure keeps the module alive
            return pytree.unflatten(entry.out_spec, emit_call(func, tensors))

        return staged(call)

    def has_state(self, name: str | None = None) -> bool:
        """True if an entry point (by default the first) reads or writes the state of a prepared product.

        Example:
          >>> import nabla_mlir as nm
          >>> nm.hvp_module(lambda x: (x * x).sum(), nm.spec(2), entry_points=("value", "update")).has_state("update")
          True
        """
        function = functions_of(self.module.operation)[name or self.entries[0].name]
        return any(op.name.startswith("util.global") for op in nested(function))

    def cost(self) -> dict[str, FunctionCost]:
        """The operations, moved bytes, bytes of state and peak memory of each entry point, before the compiler fuses.

        Example:
          >>> import nabla_mlir as nm
          >>> nm.trace(lambda a, b: a @ b, nm.spec((2, 3)), nm.spec((3, 5)), name="f").lower().cost()["f"].flops
          60
        """
        return {name: cost_of_function(f) for name, f in functions_of(self.module.operation).items()}

    def cost_analysis(self) -> dict[str, float]:
        """The cost of the first entry point under the names of JAX: "flops" and "bytes accessed"."""
        return analysis_of(self.cost()[self.entries[0].name])

    def copies(self) -> dict[str, list[Copy]]:
        """The copies of whole arguments that each entry point makes to write to parts of them; print one to read it.

        Example:
          >>> import nabla_mlir as nm
          >>> stage = nm.trace(lambda a: a.at[0].set(1.0), nm.spec(1000), name="f").lower()
          >>> [(copy.argument, copy.bytes, copy.written) for copy in stage.copies()["f"]]
          [(0, 4000, 4)]
        """
        return {name: list(copies_of(f)) for name, f in functions_of(self.module.operation).items()}

    @overload
    def compile(
        self, target: str | Target = ..., *, flags: Sequence[str] = ..., cache: bool = ..., tune: bool = ..., example: Any = ...
    ) -> Compiled: ...
    @overload
    def compile(
        self,
        target: list[Any] | tuple[Any, ...],
        *,
        flags: Sequence[str] = ...,
        cache: bool = ...,
        tune: bool = ...,
        example: Any = ...,
    ) -> Bundle: ...
    def compile(
        self, target: Any = "cpu", *, flags: Sequence[str] = (), cache: bool = True, tune: bool = False, example: Any = None
    ) -> Any:
        """Compiles for one target, or for several, each in a separate process.

        Args:
          target: "cpu", "vulkan", "cuda", or one of `nm.targets`. A list makes a `Bundle`, one artifact of which a machine uses
            the first target that it runs. With `nm.Interpreter()` nothing is compiled: NumPy runs the stage.
          flags: additional flags of iree-compile.
          cache: True reads the result from the cache on disk, or stores it there.
          tune: True compiles several forms (`nabla_mlir.staging.tuning.FORMS`) for the CPU of this machine, times them with both
            drivers, and returns the fastest that agrees with the default. The manifest lists the trials.
          example: arguments on which the code is compared with the interpreter, before random ones: a tuple as for a call,
            or a dict of tuples by entry point.

        Raises:
          CompileError: IREE refused the module or crashed; a reproducer is saved.
          MiscompileError: no strategy gives the interpreter's numbers.
          TargetError: the target does not exist, or `tune` is set for a target that is not a CPU.
          TraceError: an example names an entry point that does not exist.
          ShapeError, DtypeError, TreeError: an entry point does not accept its example.

        Example:
          >>> import nabla_mlir as nm, numpy as np
          >>> lowered = nm.trace(lambda x: x * x, nm.spec(2, "f64"), name="square").lower()
          >>> lowered.compile(example=(np.array([1e100, -3.0]),)).checks["square"].detail.split(", ")[:2]
          ['on the arguments of a call', 'on random arguments']
        """
        examples = None if example is None else self._examples(example)
        if isinstance(target, (list, tuple)):
            return Bundle(tuple(self.compile(t, flags=flags, cache=cache, tune=tune, example=example) for t in target))
        machine = as_target(target)
        if isinstance(machine, Interpreter):
            return Interpreted(self.module, self.entries, b"", machine)
        if tune:
            functions = {entry.name: entry.inputs for entry in self.entries}
            best = tuning.tune(self.module, functions, machine, flags, cache)
            driver, trials, machine, first = best.driver, best.trials, best.target, best.code
        else:
            driver, trials, first = "", (), None
        vmfb, checks = compile_checked(
            self.module, machine, flags=flags, cache=cache, examples=examples, anew=examples is not None, first=first
        )
        return Compiled(self.module, self.entries, vmfb, machine, driver, trials, checks)

    def _examples(self, example: Any) -> dict[str, list[np.ndarray]]:
        """The arguments of an example as arrays, by entry point; raises TraceError if an entry point does not exist."""
        entries = {entry.name: entry for entry in self.entries}
        if not isinstance(example, dict):
            if len(entries) != 1:
                raise TraceError(
                    f"an example requires the name of one of {', '.join(entries)}, got none.",
                    where=user_frame(),
                    help="give a dict: compile(example={name: arguments}).",
                )
            example = dict.fromkeys(entries, example)
        for name, arguments in example.items():
            if name not in entries or not isinstance(arguments, tuple):
                got = repr(name) if name not in entries else f"{type(arguments).__name__} for {name}"
                raise TraceError(
                    f"an example requires a tuple of arguments for one of {', '.join(entries)}, got {got}.", where=user_frame()
                )
        return {name: [*map(np.asarray, entries[name].flatten(arguments, {}))] for name, arguments in example.items()}


# ---------------------------------------------------------------- tracing


def trace(f: Callable[..., Any], *specs: PyTree, name: str | None = None, **kw_specs: PyTree) -> Traced:
    """Runs `f` once on tensors, and records its operations.

    Args:
      f: a function of pytrees of arrays.
      specs: for each positional argument, a pytree of `nm.spec(...)`, arrays (of which only shape and dtype count) or
        Python scalars.
      name: the name of the entry point; by default the name of the function.
      kw_specs: the same for keyword arguments.

    Raises:
      TraceError: the function uses an operation that cannot be recorded.

    Example:
      >>> import nabla_mlir as nm
      >>> traced = nm.trace(lambda x: x + 1.0, nm.spec(3), name="increment")
      >>> print(traced.describe())
      increment(
        x: float32[3]
      )
        -> result: float32[3]
    """
    check_function("trace", f)
    leaves, in_spec = pytree.flatten((*specs, *kw_specs.values()))
    arguments = _argument_names(f, len(specs), tuple(kw_specs))
    inputs = [as_spec(leaf) for leaf in leaves]
    box: dict[str, Any] = {}

    def flat(*tensors: Any) -> list[Any]:
        """The leaves of the results of `f` as tensors, for the leaves `tensors` of its arguments.

        Stores the structure of the results as `box["spec"]`, and their specs as `box["outputs"]`.
        """
        values = pytree.unflatten(in_spec, tensors)
        with users_call(specs):
            out = f(*values[: len(specs)], **dict(zip(kw_specs, values[len(specs) :], strict=True)))
        out_leaves, box["spec"] = pytree.flatten(out)
        outs = [_check_output(leaf, path) for leaf, path in zip(out_leaves, pytree.paths(box["spec"]), strict=True)]
        box["outputs"] = [Spec(out.shape, out.dtype) for out in outs]
        return outs

    entry_name = name or entry_name_of(f)
    module, captures = trace_function(flat, inputs, entry_name)
    bake_captures(module, len(inputs), captures)
    entry = Entry(entry_name, arguments, in_spec, tuple(inputs), box["spec"], tuple(box["outputs"]), _first_line(f))
    entry = replace(entry, by_name=len(kw_specs))
    return Traced(module, (entry,))


def _check_output(leaf: Any, path: str) -> Any:
    """The leaf `leaf` of a result as a tensor; raises TraceError, which names its path, if it is no array."""
    if not (pytree.is_array(leaf) or is_scalar(leaf)):
        raise TraceError(
            f"a traced function requires arrays as results, got {type(leaf).__name__} at result{path}.", where=user_frame()
        )
    return checked_output(leaf)


def entry_name_of(f: Callable[..., Any]) -> str:
    """The name of the entry point for `f`: its name with letters that MLIR allows in symbols; "main" for a lambda."""
    name = getattr(f, "__name__", type(f).__name__)
    letters = "".join(c if c.isalnum() or c == "_" else "_" for c in name).strip("_")
    return letters if letters and letters != "lambda" else "main"


def _argument_names(f: Callable[..., Any], positional: int, keywords: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the arguments of an entry point: `positional` is the number of the first ones, `keywords` names the others.

    A position that `f` does not name, as in `*args`, is called arg0, arg1, ...
    """
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        parameters = []  # type: ignore[assignment]
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names = names[:positional] + [f"arg{i}" for i in range(len(names), positional)]
    return (*names, *keywords)


def _first_line(f: Callable[..., Any]) -> str:
    """The first line of a function's docstring, or ""."""
    doc = inspect.getdoc(f) if inspect.isfunction(f) else None
    return doc.splitlines()[0] if doc else ""


def module(**traced: Traced) -> Traced:
    """A module with several traced functions as its entry points. The keywords are their names.

    Example:
      >>> import nabla_mlir as nm
      >>> f = lambda x: (x * x).sum()
      >>> both = nm.module(value=nm.trace(f, nm.spec(3)), gradient=nm.trace(nm.grad(f), nm.spec(3)))
      >>> both
      Traced module
        value(x: float32[3]) -> float32[]
        gradient(x: float32[3]) -> float32[3]
    """
    with context(), ir.Location.unknown():
        combined = ir.Module.create()
        entries = []
        for name, stage in traced.items():
            if not isinstance(stage, Stage):
                raise TraceError(
                    f"module requires traced functions, got {type(stage).__name__} for {name}.",
                    where=user_frame(),
                    help=f"write {name}=nm.trace(f, *specs).",
                )
            if len(stage.entries) != 1:
                raise TraceError(f"module() requires functions with one entry point, got {stage!r}.", where=user_frame())
            with ir.InsertionPoint(combined.body):
                func = stage.module.body.operations[0].operation.clone()
            func.attributes["sym_name"] = ir.StringAttr.get(name)
            entries.append(replace(stage.entries[0], name=name))
    return Traced(combined, tuple(entries))
