"""Operations of imported modules that the table does not contain: rewritten to operations of the table, or refused."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from iree.compiler import ir

from nabla_mlir.base.errors import DtypeError, ImportedShapeError, ImportIRError, ShapeError
from nabla_mlir.dialects import stablehlo
from nabla_mlir.dialects.locations import source_of
from nabla_mlir.dialects.regions import functions_of, last_of, made_by, nested
from nabla_mlir.dialects.resources import inline_resources
from nabla_mlir.dialects.types import is_complex, shape_and_dtype, tensor_type
from nabla_mlir.ops.chlo import broadcast_shape
from nabla_mlir.ops.composites import einsum_of, map_, unary_einsum
from nabla_mlir.ops.elementwise import complex_sign
from nabla_mlir.ops.reduction import reduce, tree
from nabla_mlir.ops.shape import broadcast_in_dim
from nabla_mlir.ops.windows import folded, reduce_window
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.inline_calls import applied_functions
from nabla_mlir.passes.normalize.computed_shapes import COMPUTED_SHAPES, dynamic_bitcast, is_dynamic
from nabla_mlir.passes.normalize.custom_calls import custom_call
from nabla_mlir.table.regions import body_of, captures_of, decomposed
from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.table.tensor import constant, wrap
from nabla_mlir.table.traits import is_cheap, is_choice, is_free

_COLLECTIVE = "it speaks of several devices; there is one"
_CHANNEL = "it speaks to the outside while it runs"
# Operations that will have no record, with the reason for the user.
REFUSED: dict[str, str] = {
    **dict.fromkeys(
        [
            "stablehlo.all_gather",
            "stablehlo.all_reduce",
            "stablehlo.all_to_all",
            "stablehlo.collective_broadcast",
            "stablehlo.collective_permute",
            "stablehlo.collective_reduce",
            "stablehlo.partition_id",
            "stablehlo.reduce_scatter",
            "stablehlo.replica_id",
            "stablehlo.cross-replica-sum",
        ],
        _COLLECTIVE,
    ),
    **dict.fromkeys(
        [
            "stablehlo.after_all",
            "stablehlo.create_token",
            "stablehlo.infeed",
            "stablehlo.outfeed",
            "stablehlo.recv",
            "stablehlo.send",
        ],
        _CHANNEL,
    ),
    **dict.fromkeys(["stablehlo.async_start", "stablehlo.async_done"], "asynchronous calls have no derivative"),
    **dict.fromkeys(["stablehlo.uniform_quantize", "stablehlo.uniform_dequantize"], "quantised types have no NumPy counterpart"),
    "chlo._asin_acos_kernel": "it is a part of the expansion of complex asin and acos; import the module before it",
    "chlo.scan": "no exporter writes it; write a stablehlo.while",
}
# Operations that are rewritten when a module is imported.
REWRITTEN = (
    "stablehlo.tuple",
    "stablehlo.get_tuple_element",
    "stablehlo.composite",
    "chlo.constant",
    "chlo.broadcast_select",
    "stablehlo.unary_einsum",
    "stablehlo.dynamic_broadcast_in_dim",
    "stablehlo.dynamic_reshape",
    "stablehlo.dynamic_iota",
    "stablehlo.dynamic_pad",
    "stablehlo.dynamic_gather",
    "stablehlo.dynamic_conv",
    "stablehlo.real_dynamic_slice",
    "stablehlo.get_dimension_size",
    "stablehlo.set_dimension_size",
)


def refused(op: ir.Operation, function: str) -> ImportIRError:
    """The error for an operation that cannot be imported: its name, and the reason if there is one."""
    reason = REFUSED.get(op.name)
    return ImportIRError(
        f"importing requires operations of the table, got {op.name} in {function}" + (f": {reason}." if reason else "."),
        where=source_of(op.location),
    )


# ---------------------------------------------------------------- the pass
_ALLOWED = {"stablehlo.return", "func.return", "func.func", "stablehlo.constant", "builtin.module"}


@register
@dataclass(frozen=True)
class NormalizePass(Pass):
    """Rewrite operations that are not in the rule table, resolve shapes, and refuse the rest with its name.

    - Tuples become their elements.
    - Operations with computed shapes become operations with static shapes, if the shapes are constants.
    - Older names, and bodies without a name, become operations of the table.
    - Resources become elements of constants.
    - The checks in modules of StableHLO's test suites are removed.

    Calls must have been inlined.

    Example: tests/filecheck/passes/normalize.mlir
    """

    name: ClassVar[str] = "nabla-normalize"

    def run(self, module: ir.Operation) -> None:
        inline_resources(module)
        applied = applied_functions(module)
        for item in module.regions[0].blocks[0].operations:
            function = item.operation
            if function.name != "func.func":
                raise refused(function, "the module")
            block = function.regions[0].blocks[0]
            _normalize_block(block)
            _flatten_results(function)
            _check(function)
        for name, function in functions_of(module).items():
            if name in applied:
                function.erase()


def check_names(module: ir.Operation) -> None:
    """Refuses a module of dynamic shapes with an operation that is refused for all shapes."""
    for name, function in functions_of(module).items():
        for op in nested(function):
            if not _is_allowed(op) and op.name not in _REWRITES and op.name not in REWRITTEN:
                raise refused(op, name)


def _is_allowed(op: ir.Operation) -> bool:
    """True for operations with a record, of the project's dialects, and for those that hold functions and results together."""
    return op.name in REGISTRY or op.name in _ALLOWED or op.name.startswith(("ad.", "batch."))


def _check(function: ir.Operation) -> None:
    """Raises at the first operation of a function that nabla_mlir does not know, or whose types are not static."""
    name = function.attributes["sym_name"].value
    for op in nested(function):
        if not _is_allowed(op):
            raise refused(op, name)
        for value in [*op.operands, *op.results]:
            try:
                shape_and_dtype(value.type)
            except DtypeError as error:
                raise ImportIRError(
                    f"importing requires static shapes, got {value.type} at {op.name}: {error.message}",
                    where=source_of(op.location),
                ) from None
        _check_result(op)
    _verify(function)


def _verify(function: ir.Operation) -> None:
    """Refuses a function that MLIR's verifier refuses, with the name of the first wrong operation."""
    with contextlib.suppress(ir.MLIRError):
        function.verify()
        return
    for op in (*nested(function), function):
        try:
            op.verify()
        except ir.MLIRError as error:
            message = f"importing requires valid operations, got {op.name}: {error.error_diagnostics[0].message}"
            raise ImportIRError(message, where=source_of(op.location)) from None


def _check_result(op: ir.Operation) -> None:
    """Refuses result types that the record of an operation does not confirm; MLIR's verifier does not check them."""
    record = REGISTRY.get(op.name)
    if record is None or record.result is None:
        return
    with _refusing(op):
        results: Sequence[Any] = record.result(*map(wrap, op.operands), **record.read(op))
    types = [tensor_type(tuple(shape), np.dtype(dtype)) for shape, dtype in results]
    for i, (type, result) in enumerate(zip(types, op.results, strict=True)):
        if shape_and_dtype(type) != shape_and_dtype(result.type):
            raise ImportIRError(
                f"importing requires {type} as result {i} of {op.name}, got {result.type}.", where=source_of(op.location)
            )


@contextlib.contextmanager
def _refusing(op: ir.Operation) -> Iterator[None]:
    """A context in which errors of the table become errors of the module, at the line of the operation."""
    try:
        yield
    except ImportIRError:
        raise
    except (ShapeError, DtypeError) as error:
        kind = ImportedShapeError if isinstance(error, ShapeError) else ImportIRError
        raise kind(
            f"importing requires operands that fit together, got {op.name}: {error.message}", where=source_of(op.location)
        ) from None


def _normalize_block(block: ir.Block) -> None:
    """Writes the operations of a block as supported ones with static types; raises ImportIRError for the others."""
    for item in list(block.operations):
        op = item.operation
        if op.name == "stablehlo.while":
            for values in (op.results, *(region.blocks[0].arguments for region in op.regions)):
                _set_types(values, op.operands)
        for region in op.regions:
            for inner in region.blocks:
                _normalize_block(inner)
        if is_choice(op):
            _set_types(op.results, last_of(op.regions[0].blocks[0]).operands)
        if is_choice(op) or op.name == "stablehlo.while":
            _check_branches(op)
        if op.name not in _SHAPED and any(is_dynamic(r.type) for r in op.results):
            op = _apply_rewrite(op, _with_static_operands)
        _apply_rewrite(op, custom_call if op.name == "stablehlo.custom_call" else _REWRITES.get(op.name))


def _check_branches(op: ir.Operation) -> None:
    """Refuses branches, and bodies of loops, whose results have other shapes than those of the operation."""
    for region in op.regions[1:] if op.name == "stablehlo.while" else op.regions:
        for i, (result, value) in enumerate(zip(op.results, last_of(region.blocks[0]).operands, strict=True)):
            if result.type != value.type:
                raise ImportIRError(
                    f"importing requires regions whose results have fixed shapes, got {value.type} for result {i} of {op.name}, "
                    f"which is {result.type}.",
                    where=source_of(op.location),
                )


def _set_types(values: Iterable[ir.Value], likes: Iterable[ir.Value]) -> None:
    """Sets the dynamic types of results of control flow to those of `likes`, its operands or the results of a branch."""
    for value, like in zip(values, likes, strict=True):
        if is_dynamic(value.type):
            value.set_type(like.type)


def _apply_rewrite(op: ir.Operation, rewrite: Callable[[ir.Operation], list[ir.Value] | None] | None) -> ir.Operation:
    """The operation that computes the last result after a rewrite, or `op` itself if `rewrite` is None or returns None."""
    if rewrite is None:
        return op
    with op.location, ir.InsertionPoint(op), _refusing(op):
        values = rewrite(op)
    if values is None:
        return op
    _replace(op, values)
    return (made_by(values[-1]) if values else None) or op


def _replace(op: ir.Operation, values: list[ir.Value]) -> None:  # replaces the results, and erases the operation
    for old, new in zip(op.results, values, strict=True):
        old.replace_all_uses_with(new)
    op.erase()


def _with_static_operands(op: ir.Operation) -> list[ir.Value] | None:
    """The results of the operation, whose types are inferred from static operands; None if an operand is dynamic."""
    record = REGISTRY.get(op.name)
    if record is None or any(is_dynamic(v.type) for v in op.operands):
        return None
    try:
        params = record.read(op)
    except DtypeError:
        return None  # only its result type has a shape
    return [y.value for y in record.apply([wrap(v) for v in op.operands], params)]


def _flatten_results(function: ir.Operation) -> None:
    """Sets the type of the function from its body; a returned tuple becomes several results."""
    block = function.regions[0].blocks[0]
    *_, last = block.operations
    values: list[ir.Value] = []
    for value in last.operation.operands:
        values += _elements(value) if isinstance(value.type, ir.TupleType) else [value]
    if values != list(last.operation.operands):
        with ir.InsertionPoint(last):
            ir.Operation.create(last.operation.name, operands=values)
        last.operation.erase()
        if "res_attrs" in function.attributes:
            del function.attributes["res_attrs"]
    for item in reversed(list(block.operations)):
        if item.operation.name == "stablehlo.tuple" and not any(True for _ in item.operation.results[0].uses):
            item.operation.erase()
    type = ir.FunctionType.get([a.type for a in block.arguments], [v.type for v in values])
    function.attributes["function_type"] = ir.TypeAttr.get(type)


# ---------------------------------------------------------------- tuples, constants, older names


def _elements(value: ir.Value) -> list[ir.Value]:
    """The elements of a tuple that the module makes, with nested tuples flattened."""
    owner = made_by(value)
    if owner is None or owner.name != "stablehlo.tuple":
        raise ImportIRError(f"importing requires tuples that are made in the module, got an argument {value.type}.")
    return [e for v in owner.operands for e in (_elements(v) if isinstance(v.type, ir.TupleType) else [v])]


def _element(op: ir.Operation) -> list[ir.Value]:
    """The element that `get_tuple_element` reads."""
    owner = made_by(op.operands[0])
    if owner is None or owner.name != "stablehlo.tuple":
        raise ImportIRError(
            f"importing requires tuples that are made in the module, got {op.operands[0].type}.", where=source_of(op.location)
        )
    return [owner.operands[op.attributes["index"].value]]


def _plain_constant(op: ir.Operation) -> list[ir.Value]:
    """The constant of StableHLO for a constant of CHLO or of `arith`; one of type `index` becomes int64."""
    type = op.results[0].type
    if isinstance(type, ir.RankedTensorType) and isinstance(type.element_type, ir.IndexType):  # a shape
        numbers = np.fromiter(op.attributes["value"], np.int64).reshape(type.shape)
        return [constant(numbers).value]
    return [stablehlo.emit("stablehlo.constant", [], attributes={"value": op.attributes["value"]}).results[0]]


def _broadcast_select(op: ir.Operation) -> list[ir.Value]:
    """The result of `select` on operands that are broadcast to one shape."""
    xs = [wrap(v) for v in op.operands]
    shape = broadcast_shape([x.shape for x in xs], None) if len(xs) == 2 else np.broadcast_shapes(*(x.shape for x in xs))
    operands = [
        x
        if x.shape == shape
        else broadcast_in_dim(x, shape=shape, broadcast_dimensions=tuple(range(len(shape) - x.ndim, len(shape))))
        for x in xs
    ]
    return [REGISTRY["stablehlo.select"](*operands).value]


def _unary_einsum(op: ir.Operation) -> list[ir.Value]:
    _check_result(op)
    return [y.value for y in einsum_of([wrap(op.operands[0])], **unary_einsum.read(op))]


def _sign(op: ir.Operation) -> list[ir.Value] | None:
    """The sign of a complex number by operations that have a derivative; None for a real number."""
    z = wrap(op.operands[0])
    return [complex_sign(z).value] if is_complex(z.dtype) else None


def _convert(op: ir.Operation) -> list[ir.Value] | None:
    """The operand of a conversion to the same type; None for other conversions."""
    return [op.operands[0]] if op.operands[0].type == op.results[0].type else None


def _bitcast(op: ir.Operation) -> list[ir.Value] | None:
    """The operand of a bitcast to the same type, or the bits as elements of a dynamic type; None for other bitcasts."""
    return dynamic_bitcast(op) if is_dynamic(op.results[0].type) else _convert(op)


def _folded_window(op: ir.Operation) -> list[ir.Value] | None:
    """A windowed reduction with an unnamed body as operations on slices, because IREE accepts one operation; None for others."""
    params = reduce_window.read(op)
    if isinstance(params["body"], str) or any(is_dynamic(r.type) for r in op.results):
        return None
    return [y.value for y in folded([wrap(v) for v in op.operands], **params)]


def _reduction_tree(op: ir.Operation) -> list[ir.Value] | None:
    """A reduction whose body has an expensive operation as operations on halves of arrays, for IREE; None for other reductions."""
    _, body, _ = body_of(op.regions[0])
    if all(is_cheap(o) or is_free(o) for o in body) or any(is_dynamic(r.type) for r in op.results):
        return None
    return [y.value for y in tree([wrap(v) for v in op.operands], **reduce.read(op))]


def _decomposed_map(op: ir.Operation) -> list[ir.Value] | None:
    """A map that captures values as operations on whole arrays, because IREE refuses it; None for other maps."""
    if not captures_of(op) or any(is_dynamic(r.type) for r in op.results):
        return None
    return [y.value for y in decomposed(op, map_, "importing")]


# Rewrites that find the shapes of results, if they are unknown.
_SHAPED: dict[str, Callable[[ir.Operation], list[ir.Value] | None]] = {
    "stablehlo.get_tuple_element": _element,
    "chlo.constant": _plain_constant,
    "arith.constant": _plain_constant,
    "chlo.broadcast_select": _broadcast_select,
    "stablehlo.unary_einsum": _unary_einsum,
    **COMPUTED_SHAPES,
}
_REWRITES: dict[str, Callable[[ir.Operation], list[ir.Value] | None]] = _SHAPED | {
    "stablehlo.bitcast_convert": _bitcast,
    "stablehlo.convert": _convert,
    "stablehlo.reduce": _reduction_tree,
    "stablehlo.reduce_window": _folded_window,
    "stablehlo.map": _decomposed_map,
    "stablehlo.sign": _sign,
}
