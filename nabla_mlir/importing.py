"""Functions from modules that others wrote: StableHLO text or bytecode in, a function that transforms accept out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.regions import nested
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.eager import staged
from nabla_mlir.errors import DtypeError, ImportIRError, ShapeError, TraceError, user_frame
from nabla_mlir.lowering import lower_module
from nabla_mlir.normalizing import normalize, parse, prepare_calls, refused
from nabla_mlir.ops.promotion import as_tensor
from nabla_mlir.ops.registry import REGISTRY, clone_op
from nabla_mlir.ops.tensor import wrap
from nabla_mlir.vectorized import per_entry

_ALLOWED = {"stablehlo.return", "func.return", "func.func", "stablehlo.constant", "builtin.module"}


@dataclass(frozen=True)
class ImportedFunction:
    """An entry point of an imported module as a function of its flat arguments.

    Call it on arrays, or inside a traced function; `nm.grad`, `nm.vmap` and all other transforms take it.
    """

    module: ir.Module
    func: ir.Operation

    @property
    def __name__(self) -> str:
        return str(self.func.attributes["sym_name"].value)

    @property
    def inputs(self) -> tuple[Any, ...]:
        """Shape and dtype of each argument."""
        return tuple(shape_and_dtype(a.type) for a in self.func.regions[0].blocks[0].arguments)

    def __call__(self, *args: Any) -> Any:
        """The results: one bare, several as a tuple."""
        return staged(per_entry(self._emit))(*args)

    def _emit(self, *args: Any) -> Any:
        block = self.func.regions[0].blocks[0]
        name = self.__name__
        if len(args) != len(block.arguments):
            raise TraceError(f"{name} requires {len(block.arguments)} arguments, got {len(args)}.", where=user_frame())
        mapping: dict[ir.Value, ir.Value] = {}
        for i, (parameter, arg) in enumerate(zip(block.arguments, args, strict=True)):
            shape, dtype = shape_and_dtype(parameter.type)
            tensor = as_tensor(arg, dtype if isinstance(arg, (bool, int, float, complex)) else None)
            if tensor.shape != shape:
                raise ShapeError(
                    f"{name} requires shape {shape} for argument {i}, got {tensor.shape}.", where=user_frame()
                )
            if tensor.dtype != dtype:
                raise DtypeError(f"{name} requires {dtype} for argument {i}, got {tensor.dtype}.", where=user_frame())
            mapping[parameter] = tensor.value
        operations = [op.operation for op in block.operations]
        for op in operations[:-1]:
            clone_op(op, mapping)
        results = tuple(wrap(mapping[v]) for v in operations[-1].operands)
        return results[0] if len(results) == 1 else results


def from_stablehlo(source: str | bytes, entry: str | None = None) -> Callable[..., Any]:
    """A function from a StableHLO module.

    Args:
      source: MLIR text, bytecode, or a portable artifact as `jax.export` writes it; it may hold `ad` and `batch`
        regions, calls to private functions, tuples and composites.
      entry: the name of the function; may be left out if only one is public.

    Raises:
      ImportIRError: the module does not parse, has no such function, or uses an operation, a type or a dynamic shape
        that is not supported; it is named.

    Example:
      >>> import nabla_mlir as nm
      >>> f = nm.from_stablehlo("func.func @f(%x: tensor<f32>) -> tensor<f32> {"
      ...     "%y = stablehlo.sine %x : tensor<f32> return %y : tensor<f32> }")
      >>> float(nm.grad(f)(0.0))
      1.0
    """
    module = parse(source)
    prepare_calls(module)
    inline_calls(module)
    func = _entry(module, entry)
    normalize(func)
    _check(func)
    lower_module(module)
    return ImportedFunction(module, _entry(module, str(func.attributes["sym_name"].value)))


def inline_calls(module: ir.Module) -> None:
    """Puts the body of each called function in place of the call, and drops private functions."""
    from nabla_mlir.passes.pipeline import Pipeline

    Pipeline.parse("builtin.module(inline{default-pipeline=},symbol-dce)").run(module)


def _entry(module: ir.Module, name: str | None) -> ir.Operation:
    functions = {}
    for op in module.body.operations:
        if op.operation.name == "func.func":
            functions[op.operation.attributes["sym_name"].value] = op.operation
    if name is not None:
        if name not in functions:
            raise ImportIRError(f"importing requires a function of the module, got {name!r} among {sorted(functions)}.")
        return functions[name]
    public = [f for f in functions.values() if "sym_visibility" not in f.attributes
              or f.attributes["sym_visibility"].value == "public"]  # fmt: skip
    if len(public) != 1:
        raise ImportIRError(
            f"importing requires one public function, got {sorted(functions)}.", help="give entry=name."
        )
    return public[0]


def _check(func: ir.Operation) -> None:
    from nabla_mlir.dialects.locations import source_of

    name = func.attributes["sym_name"].value
    for op in nested(func):
        if op.name not in REGISTRY and op.name not in _ALLOWED and not op.name.startswith(("ad.", "batch.")):
            raise refused(op, name)
        for value in [*op.operands, *op.results]:
            try:
                shape_and_dtype(value.type)
            except DtypeError as error:
                raise ImportIRError(f"importing requires static shapes, got {value.type} at {op.name}: {error.message}",
                                    where=source_of(op.location)) from None  # fmt: skip
    with context():
        func.verify()
