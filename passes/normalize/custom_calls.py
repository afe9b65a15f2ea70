"""Custom calls of imported modules become operations of the table; other calls remain for the rules of their targets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iree.compiler import ir

from nabla_mlir.base.errors import ImportedShapeError, ImportIRError
from nabla_mlir.dialects import stablehlo
from nabla_mlir.dialects.locations import source_of
from nabla_mlir.dialects.regions import function_around, functions_of, nested, scratch
from nabla_mlir.dialects.stablehlo import Bool, String
from nabla_mlir.dialects.types import element_dtype, shape_and_dtype, tensor_type
from nabla_mlir.ops.lapack_defined import defined
from nabla_mlir.ops.shape import slice_
from nabla_mlir.ops.windows import folded, reduce_window
from nabla_mlir.passes.normalize.computed_shapes import SHAPES, numbers_of, result_type, shape_indices, sizes_of, target_of
from nabla_mlir.table.regions import emit_call, fill, replace
from nabla_mlir.table.registry import REGISTRY, Region
from nabla_mlir.table.tensor import Tensor, wrap


def custom_call(op: ir.Operation) -> list[ir.Value] | None:
    """The values that replace the results of a custom call; None leaves the call to the rules of its target."""
    target = target_of(op)
    if SHAPES in op.attributes:
        return _with_known_shapes(op)
    if target in _CALLING:
        return _CALLING[target](op)
    if "called_computations" in op.attributes and len(op.attributes["called_computations"]):
        raise ImportIRError(
            f"importing requires calls without computations of their own, got {op.name} of {target!r} with "
            f"{op.attributes['called_computations']}.",
            where=source_of(op.location),
        )
    if target in _PLAIN:
        return _PLAIN[target](op)
    if target.startswith("check.") and not len(op.results):
        return []  # these calls of StableHLO's test suites compare results with expected values
    define = defined(target)
    if define is not None:
        return [y.value for y in define(target, [wrap(v) for v in op.operands], op.attributes["mhlo.backend_config"])]
    name = f"chlo.{target.removeprefix('mhlo.')}"
    if not target.startswith("mhlo.") or name not in REGISTRY:
        return None
    record = REGISTRY[name]
    params: dict[str, Any] = dict(record.defaults)
    if "mhlo.attributes" in op.attributes:
        attributes = op.attributes["mhlo.attributes"]
        params |= {k: record.attributes[k].decode(attributes[k]) for k in record.attributes if k in attributes}
    return [y.value for y in record.apply([wrap(v) for v in op.operands], params)]


def apply_functions(module: ir.Operation) -> None:
    """Rewrites the calls that apply functions of a module of static shapes, so that its code may move to another module."""
    for op in nested(module):
        if op.name == "stablehlo.custom_call" and target_of(op) in _CALLING:
            with op.location, ir.InsertionPoint(op):
                replace(op, [wrap(v) for v in _CALLING[target_of(op)](op)])


def _with_known_shapes(op: ir.Operation) -> list[ir.Value]:
    """The custom call without the operands that are shapes, with result types from the numbers of these operands."""
    indices = shape_indices(op)
    types = [result_type(op, i, index) for i, index in enumerate(indices)]
    operands = [v for i, v in enumerate(op.operands) if i not in indices]
    attributes = {name: op.attributes[name] for name in op.attributes if name != SHAPES}
    if "operand_layouts" in attributes:
        attributes["operand_layouts"] = ir.ArrayAttr.get(list(attributes["operand_layouts"])[: len(operands)])
    new = stablehlo.emit(op.name, operands, results=types, attributes=attributes)
    values = custom_call(new)
    if values is None:
        return list(new.results)
    new.erase()
    return values


def _called(op: ir.Operation) -> ir.Operation:
    """The function that a custom call applies to scalars, such as the comparator of a sort or the body of a reduction."""
    (name,) = op.attributes["called_computations"]
    return functions_of(function_around(op).parent.operation)[name.value]


def _assertion(op: ir.Operation) -> list[ir.Value]:
    """No values for a shape assertion, which has no results. Raises an error if its condition is known and false."""
    if not all(numbers_of(op, 0)):
        text = String.decode(op.attributes["error_message"])
        for i in range(1, len(op.operands)):
            text = text.replace(f"{{{i - 1}}}", str(numbers_of(op, i)[0]))
        raise ImportedShapeError(f"{op.name} of 'shape_assertion' fails: {text}", where=source_of(op.location))
    return []


def _top_k(op: ir.Operation) -> list[ir.Value]:
    """The results of `chlo.top_k` with the known number of elements in the operand."""
    (k,) = sizes_of(op, 1)
    return [y.value for y in REGISTRY["chlo.top_k"].apply([wrap(op.operands[0])], {"k": k})]


def _random_bits(op: ir.Operation) -> list[ir.Value]:
    """The results of `rng_bit_generator` with the known shape in the operand."""
    record = REGISTRY["stablehlo.rng_bit_generator"]
    params = {"shape": tuple(result_type(op, 1, 1).shape), "dtype": element_dtype(op.results[1].type)}
    params |= {name: codec.decode(op.attributes[name]) for name, codec in record.attributes.items()}
    return [y.value for y in record.apply([wrap(op.operands[0])], params)]


def _sort(op: ir.Operation) -> list[ir.Value]:
    """The results of a sort in place of ``ApproxTopK``, so that the answer is exact.

    The operands are the arrays to sort together, and a scalar for each array that only the approximation reads.
    """
    xs = list(op.operands)[: len(op.results)]
    attributes = {"dimension": op.attributes["mhlo.backend_config"]["reduction_dim"], "is_stable": Bool.encode(True)}
    sort = stablehlo.emit("stablehlo.sort", xs, results=[x.type for x in xs], attributes=attributes, regions=1)
    types = [tensor_type((), shape_and_dtype(x.type)[1]) for x in xs for _ in range(2)]
    function = _called(op)
    fill(sort.regions[0], types, lambda scalars: emit_call(function, scalars))
    values = []
    for old, new in zip(op.results, sort.results, strict=True):
        shape, _ = shape_and_dtype(old.type)
        # Only the first elements of the sorted arrays are results.
        starts, strides = (0,) * len(shape), (1,) * len(shape)
        values.append(slice_(wrap(new), start_indices=starts, limit_indices=shape, strides=strides).value)
    return values


def _window(op: ir.Operation) -> list[ir.Value]:
    """The results of a windowed reduction whose sizes, strides, dilations and padding are known operands."""
    count = 2 * len(op.results)
    windows, strides, base, dilations, padding = (numbers_of(op, i) for i in range(count, count + 5))
    params: dict[str, Any] = {
        "window_dimensions": windows,
        "window_strides": strides,
        "base_dilations": base,
        "window_dilations": dilations,
        "padding": tuple(zip(padding[::2], padding[1::2], strict=True)),
    }
    xs: list[Tensor] = [wrap(v) for v in list(op.operands)[:count]]
    types = [tensor_type((), x.dtype) for x in (*xs[count // 2 :], *xs[count // 2 :])]
    function = _called(op)
    with scratch() as holder:
        fill(holder.regions[0], types, lambda scalars: emit_call(function, scalars))
        assert reduce_window.read_region is not None
        body = reduce_window.read_region(holder.regions[0])
        if body is not None:
            return [y.value for y in reduce_window.apply(xs, params | {"body": body})]
        return [y.value for y in folded(xs, body=Region(holder.regions[0]), **params)]


_PLAIN: dict[str, Callable[[ir.Operation], list[ir.Value]]] = {
    "shape_assertion": _assertion,
    "stablehlo.shape_refinement_operand_wrapper": lambda op: [op.operands[0]],
    "stablehlo.dynamic_top_k": _top_k,
    "stablehlo.dynamic_rng_bit_generator": _random_bits,
}
# Calls that apply a function of the module to scalars.
_CALLING: dict[str, Callable[[ir.Operation], list[ir.Value]]] = {
    "ApproxTopK": _sort,
    "stablehlo.dynamic_approx_top_k": _sort,
    "stablehlo.dynamic_reduce_window": _window,
}
