"""Import of StableHLO modules, as text or bytecode, as functions that transforms accept."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.base import pytree, thresholds
from nabla_mlir.base.errors import DtypeError, ImportIRError, NablaError, ShapeError, TraceError, user_frame
from nabla_mlir.compiling.lowering import clone_module, expand_module
from nabla_mlir.dialects.locations import lines_of_module
from nabla_mlir.dialects.regions import functions_of, is_private, last_of
from nabla_mlir.dialects.types import element_dtype, shape_and_dtype
from nabla_mlir.interop.portable import parse
from nabla_mlir.interop.trial import try_import
from nabla_mlir.passes.normalize.computed_shapes import is_dynamic, size_arguments
from nabla_mlir.passes.normalize.known_numbers import known
from nabla_mlir.passes.normalize.normalize import check_names
from nabla_mlir.passes.pipeline import Pipeline
from nabla_mlir.passes.specialize import SpecializePass
from nabla_mlir.staging.eager import staged
from nabla_mlir.table.promotion import adopted, is_scalar
from nabla_mlir.table.regions import emit_call
from nabla_mlir.table.tensor import Tensor, current_scope, set_scope
from nabla_mlir.transforms.vectorized import per_vectorized_entry


@dataclass(frozen=True, repr=False)
class ImportedFunction:
    """An entry point of an imported module as a function of its flat arguments.

    Call it on arrays, or inside a traced function. `nm.grad`, `nm.vmap` and all other transforms accept it.
    """

    module: ir.Module
    func: ir.Operation
    sizes: tuple[int, ...] = ()  # the arguments whose numbers are sizes

    def __repr__(self) -> str:
        types = (", ".join(f"{dtype}[{','.join(map(str, shape))}]" for shape, dtype in x) for x in (self.inputs, self.outputs))
        return f"<{self.__name__}({next(types)}) -> {next(types)}>".replace("None", "?")

    @property
    def __name__(self) -> str:
        return str(self.func.attributes["sym_name"].value)

    @property
    def __signature__(self) -> inspect.Signature:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Signature([inspect.Parameter(f"arg{i}", kind) for i in range(len(self.inputs))])

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The shape and dtype of each argument; None for a size that a call decides."""
        return tuple(_sizes_and_dtype(a.type) for a in self.func.regions[0].blocks[0].arguments)

    @property
    def outputs(self) -> tuple[Any, ...]:
        """The shape and dtype of each result; None for a size that a call decides."""
        return tuple(_sizes_and_dtype(v.type) for v in last_of(self.func.regions[0].blocks[0]).operands)

    def __call__(self, *args: Any) -> Any:
        """The results: a single one as it is, several as a tuple."""
        numbers = {i: n for i in self.sizes if i < len(args) and (n := _number(args[i])) is not None}
        emit = functools.update_wrapper(functools.partial(self._emit, numbers), self._emit)
        return staged(per_vectorized_entry(emit))(*args)

    def _emit(self, numbers: Mapping[int, int], *args: Any) -> Any:
        """The results of a call with `args` inside a traced function, after checks of shapes and dtypes.

        `numbers` has the values of known integers among the arguments, by position.
        """
        tensors = self._adopted(args)
        results = tuple(emit_call(self._static(tensors, numbers).func, tensors))
        return results[0] if len(results) == 1 else results

    def _static(self, tensors: Sequence[Tensor], numbers: Mapping[int, int]) -> ImportedFunction:
        """The function with static shapes for these arguments: here the function itself."""
        return self

    def _adopted(self, args: Sequence[Any]) -> list[Tensor]:
        """The arguments of a call as tensors of the dtypes and shapes of the function.

        Raises TraceError, ShapeError or DtypeError if they do not fit. `args` are the arguments as the caller gives them.
        """
        name = self.__name__
        if len(args) != len(self.inputs):
            raise TraceError(f"{name} requires {len(self.inputs)} arguments, got {len(args)}.", where=user_frame())
        tensors = []
        for i, ((shape, dtype), arg) in enumerate(zip(self.inputs, args, strict=True)):
            tensor = adopted(arg, dtype)
            if tensor.ndim != len(shape) or any(n not in (None, m) for n, m in zip(shape, tensor.shape, strict=True)):
                raise ShapeError(f"{name} requires shape {_text(shape)} for argument {i}, got {tensor.shape}.", where=user_frame())
            if tensor.dtype != dtype:
                raise DtypeError(f"{name} requires {dtype} for argument {i}, got {tensor.dtype}.", where=user_frame())
            tensors.append(tensor)
        return tensors


@dataclass(frozen=True, repr=False)
class PolymorphicFunction(ImportedFunction):
    """An entry point of a module with dynamic shapes: each call, or each trace, decides the sizes.

    The module becomes static for the shapes of a call; the result is stored for the next call with these shapes. An argument
    whose number is a size (`sizes` has their indices) must be a known number, which is not traced.
    """

    specialized: dict[str, ImportedFunction] = field(default_factory=dict)

    def _static(self, tensors: Sequence[Tensor], numbers: Mapping[int, int]) -> ImportedFunction:
        """The function with static shapes for the arguments `tensors`, and with known numbers by position; stored for the next
        call.
        """
        types = [str(x.value.type).removeprefix("tensor<").removesuffix(">") for x in tensors]
        inputs = ",".join(f"{type}={numbers[i]}" if i in numbers else type for i, type in enumerate(types))
        if inputs not in self.specialized:
            if len(self.specialized) == thresholds.CACHED_FUNCTIONS:
                del self.specialized[next(iter(self.specialized))]  # the oldest one
            self.specialized[inputs] = self._specialized(inputs)
        return self.specialized[inputs]

    def _specialized(self, inputs: str) -> ImportedFunction:
        """The function for arguments of static types."""
        module = clone_module(self.module)
        scope = current_scope()
        set_scope(None)  # the module is none of the trace of the call
        try:
            with lines_of_module():
                Pipeline((SpecializePass(inputs=inputs),)).run(module)
                return _normalized(module, self.__name__)
        except NablaError as error:
            types = ", ".join(f"argument {i} is {type}" for i, type in enumerate(inputs.split(",")))
            advice = f"{error.help} " if error.help else ""
            raise type(error)(error.message, where=error.where, help=f"{advice}In this call of {self.__name__}, {types}.") from None
        finally:
            set_scope(scope)


def _sizes_and_dtype(type: ir.Type) -> tuple[tuple[int | None, ...], np.dtype]:
    """The shape and dtype of a tensor type, with None for unknown sizes."""
    if not is_dynamic(type):
        return shape_and_dtype(type)
    return tuple(None if type.is_dynamic_dim(i) else type.get_dim_size(i) for i in range(type.rank)), element_dtype(type)


def _text(shape: tuple[int | None, ...]) -> str:
    """A shape with a question mark for each unknown size."""
    return str(shape).replace("None", "?")


def _number(x: Any) -> int | None:
    """The number of the argument `x` if that is a known integer; None for traced tensors, specs and arrays with axes."""
    if isinstance(x, Tensor):
        number = known(x.value) if x.dtype.kind in "iu" and not x.axes else None
    else:
        number = np.asarray(x) if is_scalar(x) or pytree.is_array(x) else None
    return None if number is None or number.ndim or number.dtype.kind not in "iu" else int(number)


def from_stablehlo(
    source: str | bytes, entry: str | None = None, *, max_bytes: int | None = None, time_limit: float | None = None
) -> Callable[..., Any]:
    """A function from a StableHLO module.

    A module may have dynamic shapes, such as ``tensor<?x4xf32>``. The function then takes the sizes from the arguments of each
    call, or from the specs of a trace. An integer argument that is itself a size must be a Python integer.

    Args:
      source: MLIR text, bytecode, or a portable artifact of `jax.export`. It may contain `ad` and `batch` regions, calls to
        private functions, tuples and composites.
      entry: the name of the function; needed if several are public.
      max_bytes: the largest size of the source; None accepts any.
      time_limit: the seconds for the import, for modules from unknown sources. The module is then first imported in a separate
        process, which costs about a second; a crash affects only that process.

    Raises:
      ImportIRError: the source is too large, or takes too long; the module does not parse, or lacks the function; or it uses an
        operation or a type that is not supported, which the message names. At a call: a size depends on elements of an array.
      ShapeError: at a call: the sizes do not fit together, or an assertion of the module on them does not hold.

    Example:
      >>> import nabla_mlir as nm
      >>> f = nm.from_stablehlo("func.func @f(%x: tensor<f32>) -> tensor<f32> {"
      ...     "%y = stablehlo.sine %x : tensor<f32> return %y : tensor<f32> }")
      >>> float(nm.grad(f)(0.0))
      1.0
    """
    if max_bytes is not None and len(source) > max_bytes:
        raise ImportIRError(f"importing requires at most {max_bytes} bytes, as max_bytes says, got {len(source)}.")
    if time_limit is not None:
        try_import(source, entry, time_limit)
    return imported(parse(source), entry)


def imported(module: ir.Module, entry: str | None) -> ImportedFunction:
    """The imported function of a module in the context of nabla_mlir; the module is changed."""
    Pipeline.parse("nabla-inline-calls").run(module)
    func = _entry(module, entry)
    for other in functions_of(module.operation).values():
        if other != func and not is_private(other):
            other.erase()
    if size_arguments(func) or any(is_dynamic(a.type) for a in func.regions[0].blocks[0].arguments):
        check_names(module.operation)
        Pipeline.parse("cse").run(module)  # so that the two ends of a slice are computed from one start
        return PolymorphicFunction(module, func, size_arguments(func))
    return _normalized(module, str(func.attributes["sym_name"].value))


def _normalized(module: ir.Module, name: str) -> ImportedFunction:
    """The imported function with this name, from a module in which its arguments have static shapes."""
    Pipeline.parse("nabla-normalize").run(module)
    expand_module(module)
    return ImportedFunction(module, _entry(module, name))


def _entry(module: ir.Module, name: str | None) -> ir.Operation:
    """The function with this name; without a name, the only public function. Raises ImportIRError if there is no such function, or
    several public ones.
    """
    functions = {name: f for name, f in functions_of(module.operation).items() if not is_private(f)}
    if name is not None:
        if name not in functions:
            raise ImportIRError(f"importing requires a function of the module, got {name!r} among {sorted(functions)}.")
        return functions[name]
    if len(functions) != 1:
        raise ImportIRError(f"importing requires one public function, got {sorted(functions)}.", help="give entry=name.")
    return next(iter(functions.values()))
