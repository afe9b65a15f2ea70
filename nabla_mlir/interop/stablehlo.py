"""Import of StableHLO modules, as text or bytecode, as functions that transforms accept."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from nabla_mlir.base.errors import DtypeError, ImportIRError, ShapeError, TraceError, user_frame
from nabla_mlir.compiling.lowering import expand_module
from nabla_mlir.dialects.regions import functions_of
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.interop.portable import parse
from nabla_mlir.interop.trial import try_import
from nabla_mlir.passes.pipeline import Pipeline
from nabla_mlir.staging.eager import staged
from nabla_mlir.table.promotion import adopted
from nabla_mlir.table.regions import emit_call
from nabla_mlir.transforms.vectorized import per_entry


@dataclass(frozen=True)
class ImportedFunction:
    """An entry point of an imported module as a function of its flat arguments.

    Call it on arrays, or inside a traced function. `nm.grad`, `nm.vmap` and all other transforms accept it.
    """

    module: ir.Module
    func: ir.Operation

    @property
    def __name__(self) -> str:
        return str(self.func.attributes["sym_name"].value)

    @property
    def __signature__(self) -> inspect.Signature:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Signature([inspect.Parameter(f"arg{i}", kind) for i in range(len(self.inputs))])

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The shape and dtype of each argument."""
        return tuple(shape_and_dtype(a.type) for a in self.func.regions[0].blocks[0].arguments)

    @property
    def outputs(self) -> tuple[Any, ...]:
        """The shape and dtype of each result."""
        *_, last = self.func.regions[0].blocks[0].operations
        return tuple(shape_and_dtype(v.type) for v in last.operation.operands)

    def __call__(self, *args: Any) -> Any:
        """The results: a single one as it is, several as a tuple."""
        return staged(per_entry(self._emit))(*args)

    def _emit(self, *args: Any) -> Any:
        """The results of a call inside a traced function, after checks of shapes and dtypes."""
        block = self.func.regions[0].blocks[0]
        name = self.__name__
        if len(args) != len(block.arguments):
            raise TraceError(f"{name} requires {len(block.arguments)} arguments, got {len(args)}.", where=user_frame())
        tensors = []
        for i, (parameter, arg) in enumerate(zip(block.arguments, args, strict=True)):
            shape, dtype = shape_and_dtype(parameter.type)
            tensor = adopted(arg, dtype)
            if tensor.shape != shape:
                raise ShapeError(f"{name} requires shape {shape} for argument {i}, got {tensor.shape}.", where=user_frame())
            if tensor.dtype != dtype:
                raise DtypeError(f"{name} requires {dtype} for argument {i}, got {tensor.dtype}.", where=user_frame())
            tensors.append(tensor)
        results = tuple(emit_call(self.func, tensors))
        return results[0] if len(results) == 1 else results


def from_stablehlo(
    source: str | bytes, entry: str | None = None, *, max_bytes: int | None = None, time_limit: float | None = None
) -> Callable[..., Any]:
    """A function from a StableHLO module.

    Args:
      source: MLIR text, bytecode, or a portable artifact of `jax.export`. It may contain `ad` and `batch` regions, calls to
        private functions, tuples and composites.
      entry: the name of the function; needed if several are public.
      max_bytes: the largest size of the source; None accepts any.
      time_limit: the seconds for the import, for modules from unknown sources. The module is then first imported in a separate
        process, which costs about a second; a crash affects only that process.

    Raises:
      ImportIRError: the source is too large, or takes too long; the module does not parse, or lacks the function; or it uses an
        operation, a type or a dynamic shape that is not supported, which the message names.

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
        if other != func:
            other.erase()
    Pipeline.parse("nabla-normalize").run(module)
    expand_module(module)
    return ImportedFunction(module, _entry(module, str(func.attributes["sym_name"].value)))


def _entry(module: ir.Module, name: str | None) -> ir.Operation:
    """The function with this name; without a name, the only public function."""
    functions = functions_of(module.operation)
    if name is not None:
        if name not in functions:
            raise ImportIRError(f"importing requires a function of the module, got {name!r} among {sorted(functions)}.")
        return functions[name]
    if len(functions) != 1:
        raise ImportIRError(f"importing requires one public function, got {sorted(functions)}.", help="give entry=name.")
    return next(iter(functions.values()))
