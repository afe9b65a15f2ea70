"""Modules of PyTorch as StableHLO: torch.export captures them, and torch-mlir and nabla_mlir lower their operations."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

from iree.compiler import ir

from nabla_mlir import random
from nabla_mlir.base.errors import ImportIRError, SourceRange, is_internal
from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.regions import functions_of
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.interop.portable import parse
from nabla_mlir.interop.torch_operations import COMPLEX, DRAWS, OPERATIONS
from nabla_mlir.interop.torch_replacements import replaced
from nabla_mlir.numpy.operands import convert
from nabla_mlir.staging.specs import Spec
from nabla_mlir.staging.tracing import bake_captures, trace_function

# The pipeline of torch-mlir, without the lowering of CHLO (nabla_mlir has its operations), and with calls allowed.
_PIPELINE = """builtin.module(
  torchdynamo-export-to-torch-backend-pipeline{extra-library=},
  func.func(convert-torch-to-stablehlo{allow-non-finites=true}, convert-torch-to-arith, canonicalize, cse),
  torch-func-backend-type-conversion-for-stablehlo,
  func.func(canonicalize, torch-finalizing-backend-type-conversion-for-stablehlo, canonicalize, cse)
)"""
_STOP = "nabla_mlir::stop_gradient"


def stablehlo_of(module: Any, inputs: Sequence[Any]) -> ir.Module:
    """The StableHLO module of a `torch.nn.Module`: the function `main` for tensors like `inputs`, and private functions that it
    calls.
    """
    import torch

    try:
        with replaced():
            program = torch.export.export(module, tuple(inputs))
    except Exception as error:  # torch.export raises several classes of errors, none of them public
        raise ImportIRError(
            f"from_torch requires a module that torch.export captures, got {_first_line(error)}.",
            help="replace a branch that depends on numbers by torch.where, and such a shape by a fixed one.",
        ) from error
    try:
        _mark_ends_of_differentiation(program.graph_module)
        _give_scalars_an_axis(program.graph_module)
        _compare_floats_with_floats(program.graph_module)
        raw = _imported(_decomposed(program))
    except Exception as error:
        raise _refused(_first_line(error)) from error
    calls = _as_calls(raw)
    _lower(raw)
    lowered = parse(str(raw))
    for name, function in functions_of(lowered.operation).items():
        if name in calls:
            _define(function, calls[name])
    return lowered


def _refused(what: str, where: SourceRange | None = None) -> ImportIRError:
    """The error for the operations `what`, which cannot be lowered, at the user's line `where`."""
    return ImportIRError(
        f"from_torch requires operations that torch-mlir lowers to StableHLO, got {what}.",
        where=where,
        help="write this part with other operations of PyTorch, or import what is before and after it as two modules and "
        "write it with nabla_mlir.numpy.",
    )


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".strip().partition("\n")[0].rstrip(".")


# ---------------------------------------------------------------- the graph of torch.export


@functools.cache
def _stop_gradient() -> Any:
    """A custom operation for `detach`, which decompositions would replace by the identity."""
    import torch

    stop = torch.library.custom_op(_STOP, lambda x: x.clone(), mutates_args=(), schema="(Tensor x) -> Tensor")
    stop.register_fake(torch.empty_like)
    return torch.ops.nabla_mlir.stop_gradient.default


def _mark_ends_of_differentiation(graph_module: Any) -> None:
    """Adds an operation without derivative where `detach` and `no_grad` end differentiation, because decompositions remove both.

    `graph_module` is the graph that torch.export captured.
    """
    import torch

    without_grad = torch.ops.higher_order.wrap_with_set_grad_enabled
    graph = graph_module.graph
    for node in list(graph.nodes):
        if node.target == torch.ops.aten.detach.default:
            node.target = _stop_gradient()
        elif node.target == without_grad and not node.args[0]:
            with graph.inserting_before(node):
                for i, arg in enumerate(node.args[2:], 2):
                    if arg.meta["val"].dtype.is_floating_point or arg.meta["val"].dtype.is_complex:
                        stop = graph.call_function(_stop_gradient(), (arg,))
                        stop.meta = dict(arg.meta)
                        node.update_arg(i, stop)
    graph_module.recompile()


def _give_scalars_an_axis(graph_module: Any) -> None:
    """Reshapes scalars to length one before operations along an axis, because torch-mlir does not terminate on scalars."""
    import torch

    aten, graph = torch.ops.aten, graph_module.graph
    along = {aten.log_softmax.int, aten.softmax.int, aten._log_softmax.default, aten._softmax.default, aten.logsumexp.default}
    for node in list(graph.nodes):
        if node.target not in along or node.args[0].meta["val"].ndim:
            continue
        with graph.inserting_before(node):
            row = graph.call_function(aten.reshape.default, (node.args[0], [1]))
            result = graph.call_function(node.target, (row, *node.args[1:]), node.kwargs)
        row.meta = {**node.args[0].meta, "val": node.args[0].meta["val"].reshape(1)}
        result.meta = {**node.meta, "val": node.meta["val"].reshape(1)}
        node.target, node.args, node.kwargs = aten.reshape.default, (result, []), {}  # the name may be that of a result
    graph_module.recompile()


def _compare_floats_with_floats(graph_module: Any) -> None:
    """Converts integers in comparisons with floats to floats, because torch-mlir crashes when it folds such a comparison."""
    import torch

    aten = torch.ops.aten
    comparisons = {aten.lt.Scalar, aten.le.Scalar, aten.gt.Scalar, aten.ge.Scalar, aten.eq.Scalar, aten.ne.Scalar}
    for node in graph_module.graph.nodes:
        if node.target in comparisons and type(node.args[1]) is int and node.args[0].meta["val"].is_floating_point():
            node.update_arg(1, float(node.args[1]))
    graph_module.recompile()


def _decomposed(program: Any) -> Any:
    """The program decomposed for torch-mlir, without the operations that nabla_mlir lowers."""
    from torch_mlir.extras.fx_decomp_util import get_decomposition_table

    decompositions = {
        op: f
        for op, f in get_decomposition_table().items()
        if _name_in_mlir(op) not in OPERATIONS and _name_in_mlir(op) not in DRAWS
    }
    program = program.run_decompositions(decompositions)
    (output,) = (node for node in program.graph.nodes if node.op == "output")
    outputs = set(program.graph_signature.user_outputs)  # updates of buffers are not results
    output.args = (tuple(node for node in output.args[0] if getattr(node, "name", node) in outputs),)
    return program


def _name_in_mlir(op: Any) -> str:
    return f"torch.{op}".removesuffix(".default")


def _imported(program: Any) -> Any:
    """The graph of an exported program as a module in the dialect `torch`."""
    from torch_mlir import fx
    from torch_mlir import ir as torch_ir
    from torch_mlir.dialects import torch as dialect

    context = torch_ir.Context()
    dialect.register_dialect(context)
    importer = fx.FxImporter(context=context)
    importer.import_frozen_program(program, func_name="main")
    return importer.module


# ---------------------------------------------------------------- the dialect torch


def _as_calls(module: Any) -> dict[str, Callable[..., Any]]:
    """Replaces the operations that nabla_mlir lowers by calls of new functions; returns our function of tensors for each new name.

    `module` is the module of torch-mlir.
    """
    from torch_mlir import ir as torch_ir

    calls: dict[str, Callable[..., Any]] = {}
    *_, main = module.body.operations  # bodies of control flow come first
    for item in list(main.regions[0].blocks[0].operations):
        op = item.operation
        function = _function_for(op)
        if function is None:
            continue
        if _name_of(op) in DRAWS:
            function = functools.partial(_draw, function, len(calls))
        name, arguments = f"torch_operation_{len(calls)}", [_constant_value(v) for v in op.operands]
        calls[name] = functools.partial(_with_constants, function, arguments)
        operands = [v for v, kind in zip(op.operands, arguments, strict=True) if kind is _TENSOR]
        with module.context, op.location:
            types = torch_ir.FunctionType.get([v.type for v in operands], [r.type for r in op.results])
            attributes = {
                "sym_name": torch_ir.StringAttr.get(name),
                "function_type": torch_ir.TypeAttr.get(types),
                "sym_visibility": torch_ir.StringAttr.get("private"),
            }
            torch_ir.Operation.create(
                "func.func", attributes=attributes, regions=1, ip=torch_ir.InsertionPoint.at_block_begin(module.body)
            )
            call = torch_ir.Operation.create(
                "func.call",
                [r.type for r in op.results],
                operands,
                {"callee": torch_ir.FlatSymbolRefAttr.get(name)},
                ip=torch_ir.InsertionPoint(op),
            )
        for old, new in zip(op.results, call.results, strict=True):
            old.replace_all_uses_with(new)
        op.erase()
    return calls


def _draw(function: Callable[..., Any], number: int, *arguments: Any) -> Any:
    """The result of a function that draws random numbers with the key `number`."""
    return function(random.key(number), *arguments)


def _name_of(op: Any) -> str:
    return str(op.attributes["name"].value if op.name == "torch.operator" else op.name)


def _function_for(op: Any) -> Callable[..., Any] | None:
    """Our function for an operation of torch-mlir; None if torch-mlir lowers it well."""
    name = _name_of(op)
    is_complex = any("complex" in str(v.type) for v in [*op.operands, *op.results])
    return OPERATIONS.get(name) or DRAWS.get(name) or (COMPLEX.get(name) if is_complex else None)


_TENSOR = object()  # stands for an operand that is a tensor


def _constant_value(value: Any) -> Any:
    """The constant value of an operand: a number, a string, None or a tuple of them; _TENSOR for a tensor."""
    if str(value.type).startswith("!torch.vtensor"):
        return _TENSOR
    owner = value.owner.operation
    if owner.name == "torch.constant.none":
        return None
    if owner.name == "torch.prim.ListConstruct":
        return tuple(_constant_value(v) for v in owner.operands)
    if not owner.name.startswith("torch.constant."):
        raise _refused(f"{owner.name}, a computed number, as an argument that is not a tensor")
    return owner.attributes["value"].value


def _with_constants(function: Callable[..., Any], arguments: Sequence[Any], *tensors: Any) -> Any:
    """The result of `function` for `arguments`, in which each `_TENSOR` is replaced by the next of `tensors`."""
    remaining = iter(tensors)
    return function(*(next(remaining) if a is _TENSOR else a for a in arguments))


def _lower(module: Any) -> None:
    """Lowers the module from the dialect `torch` to StableHLO, in place."""
    from torch_mlir import ir as torch_ir
    from torch_mlir.passmanager import PassManager

    try:
        with module.context:
            PassManager.parse(_PIPELINE).run(module.operation)
    except torch_ir.MLIRError as error:
        raise _refused(*_culprits(str(error), module)) from error


def _culprits(message: str, module: Any) -> tuple[str, SourceRange | None]:
    """The names of the operations at which a pipeline failed, and the line of the user's program for the first one, or None.

    `message` is the pipeline's error, and `module` is the module of torch-mlir after it.
    """
    where = next(
        (
            SourceRange(file, int(line), int(column))
            for file, line, column in re.findall(r'"([^"]+\.py)":(\d+):(\d+)', message)
            if not is_internal(file)
        ),
        None,
    )
    first = re.sub(r"(?s).*?error: (?:callsite\(.*?\)|\"[^\"]*\":\d+:\d+|unknown): ([^\n]*).*", r"\1", message)
    match = re.search(r"'torch\.operator'.*name = \"([\w.]+)\"", first) or re.search(r"'(torch\.[\w.]+)'", first)
    if match is None:
        return first, where
    if not match[1].startswith("torch.constant."):
        return match[1], where
    # The pipeline names a constant, which remains only because the operations that use it could not be lowered.
    names = sorted(set(re.findall(r"\btorch\.(?:aten|prims?)\.[\w.]+", str(module))))
    return ", ".join(names) or first, where


# ---------------------------------------------------------------- the context of nabla_mlir


def _define(declaration: ir.Operation, function: Callable[..., Any]) -> None:
    """Replaces the declaration of a function by its definition: the traced StableHLO of `function`."""
    type = ir.FunctionType(ir.TypeAttr(declaration.attributes["function_type"]).value)
    specs = [Spec(*shape_and_dtype(t)) for t in type.inputs]
    dtypes = [shape_and_dtype(t)[1] for t in type.results]

    def flat(*tensors: Any) -> list[Any]:
        """The results of the function as a list of tensors, in the dtypes that the declaration has."""
        results = function(*tensors)
        results = results if isinstance(results, tuple) else (results,)
        return [convert(y, dtype) for y, dtype in zip(results, dtypes, strict=True)]

    name = declaration.attributes["sym_name"].value
    traced, captures = trace_function(flat, specs, name)
    bake_captures(traced, len(specs), captures)
    with context(), ir.Location.unknown():
        clone = functions_of(traced.operation)[name].clone(ip=ir.InsertionPoint(declaration)).operation
        clone.attributes["sym_visibility"] = ir.StringAttr.get("private")
    declaration.erase()
