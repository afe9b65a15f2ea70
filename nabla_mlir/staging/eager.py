"""Calls of functions on concrete arrays: they are traced, lowered, and run."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import numpy as np
from iree.compiler import ir

from nabla_mlir.base import pytree, thresholds
from nabla_mlir.base.locks import cached_property
from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.regions import functions_of, last_of
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.passes.split.split import Split, split_function
from nabla_mlir.runtime.array import Array
from nabla_mlir.runtime.transfer import Kind
from nabla_mlir.staging.advice import counted_traces, refuse_keywords, users_call
from nabla_mlir.staging.donation import Donating
from nabla_mlir.staging.execution import Code, Execution, OnDevice
from nabla_mlir.staging.repetition import Call, never, repetition
from nabla_mlir.staging.specs import FLOAT0, Spec, as_spec
from nabla_mlir.staging.tracing import is_suspended, is_tracing, resumed, trace_function
from nabla_mlir.table.narrowing import all_narrowed, follows_jax, is_narrowing, narrowing
from nabla_mlir.table.promotion import as_tensor, default_dtypes, is_light, is_scalar, is_weak, scalar_array, scalar_dtype
from nabla_mlir.table.regions import emit_call
from nabla_mlir.table.tensor import Tensor
from nabla_mlir.table.vectorized import separate


class Program:
    """A function for arguments of fixed structure, shapes and dtypes. `execution` decides how it runs.

    Args:
      f: the function.
      in_spec: the structure of the arguments.
      specs: the types of their leaves.
      is_jitted: True if the function is compiled at its first call.
      is_ours: True for a function of nabla_mlir that is called for its value only; its rules for derivatives are not traced.
      donation: the leaves of the arguments whose memory a call may write to.
      title: the name of the program in messages; by default the name of the function.
      constants: arguments of the calls by position and by name that are part of the code.
      memory_limit: bytes that a compiled call may allocate at once.
      arrays: the leaves, for a program that runs only on them: Python may read numbers that they determine.
    """

    def __init__(
        self,
        f: Callable[..., Any],
        in_spec: pytree.TreeSpec,
        specs: Sequence[Spec],
        is_jitted: bool = False,
        is_ours: bool = False,
        donation: Sequence[int] = (),
        title: str = "",
        arrays: Sequence[Any] | None = None,
        constants: Mapping[int | str, Any] | None = None,
        memory_limit: int | None = None,
    ):
        """Traces `f`; the class describes the arguments."""
        # Zeros of values without derivative have no elements: they are no arguments and results of the code.
        empty = {i: np.zeros(s.shape, s.dtype) for i, s in enumerate(specs) if s.dtype == FLOAT0}
        self._inputs = [i for i in range(len(specs)) if i not in empty] if empty else None
        if empty:
            specs, donation = [s for s in specs if s.dtype != FLOAT0], ()
            arrays = None if arrays is None else [x for i, x in enumerate(arrays) if i not in empty]

        def flat(*tensors: Any) -> list[Any]:
            """The leaves of the results of `f`, which takes the tensors as leaves of its arguments; results of dtype float0 are
            left out.
            """
            args, kwargs = pytree.unflatten(in_spec, _merge(tensors, empty))
            leaves, self.out_spec = pytree.flatten(f(*args, **kwargs))
            self._zeros = {i: x for i, x in enumerate(leaves) if getattr(x, "dtype", None) == FLOAT0}
            leaves = [x for i, x in enumerate(leaves) if i not in self._zeros]
            self._weak = [i for i, leaf in enumerate(leaves) if _stays_weak(leaf)] if follows_jax() else []
            return leaves

        if arrays is not None:
            arrays = as_inputs(arrays, [s.dtype for s in specs])
        module, captures = trace_function(flat, specs, "main", is_ours, arrays)
        # An array that jit captures has the values of the trace, even if it changes later, and is on the device of the code.
        self.captured: list[Any] = [Array.from_numpy(x) for x in captures] if is_jitted else captures
        block = functions_of(module.operation)["main"].regions[0].blocks[0]
        self._types = [shape_and_dtype(v.type) for v in last_of(block).operands]
        code = Code(module, "main", title=title or getattr(f, "__name__", ""), memory_limit=memory_limit)
        self.run: OnDevice | Donating = Donating(code, donation) if donation else OnDevice(code, is_jitted)
        self.dtypes: list[np.dtype] = [s.dtype for s in specs]
        self._has_scalars = any(s.weak for s in specs)
        self._is_single = self.out_spec.is_leaf()
        self._in_spec, self._kinds = in_spec, [_kind(s) for s in specs]
        self._constants = constants or {}
        self.repeat: Call = never  # repeats the first call of a jitted function, if this call runs only compiled code
        self._is_jitted = is_jitted

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """The result of the program for the leaves of its arguments, in the structure that the function returned."""
        leaves = leaves if self._inputs is None else [leaves[i] for i in self._inputs]
        inputs = as_inputs(leaves, self.dtypes) if self._has_scalars else leaves
        results = self.run([*inputs, *self.captured], 0, self._types)
        for i in self._weak:
            results[i].weak = True
        results = _merge(results, self._zeros) if self._zeros else results
        out = results[0] if self._is_single else pytree.unflatten(self.out_spec, results)
        is_plain = not self._weak and not self._zeros and self._inputs is None
        if self._is_jitted and is_plain and self.repeat is never and (function := self.run.function) is not None:
            self.repeat = repetition(function, self._in_spec, self._kinds, self._constants, self.captured, out, self._types)
        return out


def _stays_weak(x: Any) -> bool:
    """True if a result is marked as weak; 64-bit numbers of NumPy and truth values are not."""
    return is_weak(x) and not is_light(x) and scalar_dtype(x).kind != "b"


def _merge(values: Sequence[Any], others: Mapping[int, Any]) -> list[Any]:
    """A list with the values of `others` at their positions, and `values` at the other positions."""
    rest = iter(values)
    return [others[i] if i in others else next(rest) for i in range(len(values) + len(others))]


def _kind(spec: Spec) -> Kind:
    """The description of arguments with this spec (Python scalars or arrays), by which a later call recognises its arguments."""
    scalars = {"b": bool, "i": int, "f": float, "c": complex}
    if spec.weak and not spec.shape and spec.dtype.kind in scalars:
        return Kind.of_scalar(scalars[spec.dtype.kind], spec.dtype)
    return Kind.of_array(spec.shape, spec.dtype)


def as_inputs(leaves: Sequence[Any], dtypes: Sequence[np.dtype]) -> list[Any]:
    """The leaves of a call as arrays; a Python scalar gets the dtype at its position in `dtypes`, with which it was traced."""
    return [
        scalar_array(x, d, f"a Python scalar requires the range of {d}") if is_scalar(x) else x
        for x, d in zip(leaves, dtypes, strict=True)
    ]


class Halves:
    """A lowered function in two halves: the first computes what its known arguments determine, and the second the rest.

    Args:
      module: a module that contains only the function; it is divided in place.
      known: the indices of the known arguments.
    """

    def __init__(self, module: ir.Module, known: Sequence[int]):
        """Divides the function of `module` into the half that depends only on the arguments at the positions `known`, and
        the rest.
        """
        with context(), ir.Location.unknown():
            self.split: Split = split_function(module.body.operations[0].operation, known)
        self._module = module  # owns the functions of the split
        self._first = OnDevice(Code(_separate_module(self.split.known), "main", is_lowered=True))

    @cached_property
    def second(self) -> OnDevice:
        """The second half, a function of the residuals and the other arguments."""
        return OnDevice(Code(_separate_module(self.split.rest), "main", is_lowered=True))

    def at(self, known: list[Any]) -> SecondHalf:
        """The second half at the values `known` of the known arguments, after the first half has run on them."""
        results = self._first(known)
        count = len(self.split.early)
        return SecondHalf(self, dict(zip(self.split.early, results[:count], strict=True)), results[count:])


@dataclass(frozen=True)
class SecondHalf:
    """The second half at values of the known arguments.

    Attributes:
      halves: the divided function.
      early: the results of the first half, by index.
      residuals: the residuals that the first half returns.
    """

    halves: Halves
    early: dict[int, Array]
    residuals: list[Array]

    def __call__(self, others: list[Any]) -> dict[int, Any]:
        """All results by index, for the values `others` of the other arguments. Inside a trace, these are tensors, and the half
        becomes part of it.
        """
        split = self.halves.split
        early = {i: x.copy() for i, x in self.early.items()}  # the caller may write to them
        if not split.late:
            return early
        if is_tracing():
            late: list[Any] = emit_call(split.rest, [*(as_tensor(r) for r in self.residuals), *others])
        else:
            late = self.halves.second([*self.residuals, *others])
        return {**early, **dict(zip(split.late, late, strict=True))}


def _separate_module(func: ir.Operation) -> ir.Module:
    """A copy of a function, named `main`, in a new module."""
    with context(), ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            copy = func.clone()
        copy.attributes["sym_name"] = ir.StringAttr.get("main")
    return module


def signature_of(leaves: Sequence[Any]) -> tuple[Spec, ...]:
    """The shapes and dtypes of leaves."""
    return tuple(as_spec(leaf) for leaf in leaves)


def kinds_of(leaves: Sequence[Any]) -> tuple[Any, ...]:
    """A hashable key of the types of the leaves: it distinguishes the same leaves as `signature_of`, and is computed faster."""
    return tuple(
        [
            (leaf.shape, leaf.dtype) if type(leaf) is np.ndarray or (type(leaf) is Array and not leaf.weak) else as_spec(leaf)
            for leaf in leaves
        ]
    )


def staged(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is `f` inside a trace. Outside, each call is traced again, and `execution` decides how it runs.

    So it is safe for functions that use changing values from outside, or whose control flow depends on values. An argument
    that is no number, such as a function or a string, is part of the code.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        """The results of `f`, which is traced and run if there are concrete arrays, and simply called inside a trace."""
        if is_tracing():
            return f(*args, **kwargs)
        leaves, in_spec = pytree.flatten((args, kwargs))
        if is_suspended(leaves):
            with resumed():
                return f(*args, **kwargs)
        if is_narrowing():
            leaves = all_narrowed(leaves)
        others = {i: x for i, x in enumerate(leaves) if not (is_scalar(x) or pytree.is_array(x) or isinstance(x, Spec))}
        if others:
            return _with_constants(f, in_spec, leaves, others)
        with counted_traces(), users_call(args):
            program = Program(f, in_spec, signature_of(leaves), arrays=leaves, title=title)
        return program(leaves)

    title = getattr(f, "__qualname__", "")
    if ".<locals>." in title and f.__module__.startswith("nabla_mlir."):
        title = title.partition(".")[0].lstrip("_")  # the name of the enclosing function, such as grad
    return call


def _with_constants(f: Callable[..., Any], spec: pytree.TreeSpec, leaves: Sequence[Any], others: dict[int, Any]) -> Any:
    """The result of `f`, which is staged as a function of its arrays only.

    Args:
      f: the function.
      spec: the structure of ``(args, kwargs)``.
      leaves: all leaves of the arguments.
      others: maps the position of each leaf that is not an array to the leaf, which becomes a constant of the code.
    """

    def inner(*arrays: Any) -> Any:
        """The result of `f` for the leaves that are arrays."""
        remaining = iter(arrays)
        args, kwargs = pytree.unflatten(spec, [others[i] if i in others else next(remaining) for i in range(len(leaves))])
        return f(*args, **kwargs)

    return staged(functools.wraps(f)(inner))(*(x for i, x in enumerate(leaves) if i not in others))


T = TypeVar("T")
# A parameter that decides shapes. NumPy integers and arrays of one element count as numbers, concrete arrays of integers as
# tuples of numbers.
Static = Annotated[T, "static"]

LIBRARY: list[dict[Any, Program]] = []  # the cached programs of each function


def library(f: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of the functions of nabla_mlir's namespaces: on concrete arrays they are traced once, and run by `execution`.

    Arrays among the arguments are inputs. Everything else is part of the code: Python scalars, dtypes, strings, and
    parameters that are annotated as `Static`, such as shapes and axes.
    """
    programs: dict[Any, Program] = {}
    LIBRARY.append(programs)
    parameters = inspect.signature(f).parameters.values()
    static_names = {p.name for p in parameters if str(p.annotation).startswith("Static[")}
    accepted = None if any(p.kind is p.VAR_KEYWORD for p in parameters) else [p.name for p in parameters]
    names = set(accepted or ())
    static_at = [i for i, p in enumerate(parameters) if p.name in static_names]

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        """The result of `f`: a tensor inside a trace, otherwise an array that a cached program computes."""
        if static_at and len(args) > static_at[0]:
            args = tuple(_to_python(x) if i in static_at else x for i, x in enumerate(args))
        if kwargs:
            if accepted is not None and not kwargs.keys() <= names:
                refuse_keywords(f.__name__, kwargs, accepted)
            kwargs = {name: _to_python(x) if name in static_names else x for name, x in kwargs.items()}
        if is_tracing():
            return _separate_result(f(*args, **kwargs), args)
        leaves, in_spec = pytree.flatten((args, kwargs))
        if is_suspended(leaves):
            with resumed():
                return _separate_result(f(*args, **kwargs), args)
        if is_narrowing():
            leaves = all_narrowed(leaves)
        dynamic = [i for i, x in enumerate(leaves) if pytree.is_array(x)]
        static = {i: x for i, x in enumerate(leaves) if i not in set(dynamic)}
        arrays = [leaves[i] for i in dynamic]
        light = [i for i in dynamic if is_light(leaves[i])]
        key = (in_spec, tuple(dynamic), tuple(light), signature_of(arrays), repr(static), default_dtypes(), Execution.mode)
        if any(spec.weak for spec in key[3]) and not follows_jax():
            with narrowing():  # a weak array comes from a function of JAX
                return call(*args, **kwargs)
        program = programs.get(key)
        if program is None:

            def flat(*tensors: Any) -> Any:
                """The result of `f` for tensors at the positions `dynamic` of its leaves, and for the constants `static` at the
                other positions.
                """
                values = [static.get(i) for i in range(len(leaves))]
                for i, tensor in zip(dynamic, tensors, strict=True):
                    values[i] = tensor
                    tensor.weak = tensor.weak or i in light
                inner_args, inner_kwargs = pytree.unflatten(in_spec, values)
                return f(*inner_args, **inner_kwargs)

            _, flat_spec = pytree.flatten((tuple(arrays), {}))
            if len(programs) == thresholds.CACHED_FUNCTIONS:  # a loop over a number makes a program for each value
                del programs[next(iter(programs))]
            program = programs[key] = Program(flat, flat_spec, key[3], is_ours=True, title=f.__name__)
        return program(arrays)

    return call


def _separate_result(out: Any, args: Sequence[Any]) -> Any:
    """The result `out` of a function; a copy if it is one of the arguments, because the program may assign to either.

    `args` are the arguments of the call.
    """
    if not isinstance(out, Tensor) or all(out is not x for x in args):
        return out
    return separate(out)


def _to_python(x: Any) -> Any:
    """A scalar, or a small array of integers, as a number or tuple of Python, also in tuples and lists; other values unchanged."""
    if isinstance(x, (tuple, list)):
        parts = map(_to_python, x)
        return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)
    if isinstance(x, np.generic):
        return x.item()
    if pytree.is_array(x) and not isinstance(x, Tensor) and (not x.shape or (len(x.shape) < 3 and x.dtype.kind in "iu")):
        return tuple(map(_to_python, np.asarray(x))) if x.shape else np.asarray(x).item()
    return x
