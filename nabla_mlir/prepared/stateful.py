"""Functions that share state on the device: one writes it, others read it.

The state consists of global variables of the module, in `util.global` of IREE's own dialect. A version counts the
writes: every function that reads or writes the state returns the version after its results. A read before the first
write fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from iree.compiler import ir

from nabla_mlir.base import pytree
from nabla_mlir.compiling.lowering import lower_module
from nabla_mlir.dialects.arguments import OUTPUT
from nabla_mlir.dialects.context import context, parse_module
from nabla_mlir.dialects.types import tensor_type
from nabla_mlir.runtime.device import BEFORE_UPDATE
from nabla_mlir.runtime.manifest import Sparsity
from nabla_mlir.staging.entry import Entry
from nabla_mlir.staging.specs import Spec, as_spec
from nabla_mlir.staging.tracing import bake_captures, checked_output, trace_function
from nabla_mlir.table.tensor import Tensor

VERSION = "version"
State = Mapping[str, Spec]


@dataclass(frozen=True)
class Method:
    """A function of the state and of arguments.

    Attributes:
      function: ``(state, *args) -> results``; a function that writes returns ``(results, new state)``. The state is a
        dict of tensors by name.
      args: for each argument its name and its pytree of specs.
      doc: a sentence for the user.
      into: True if the results are written to memory of the caller, in an additional argument `out`.
      sparsity: the positions of the entries, if it returns a sparse matrix.
    """

    name: str
    function: Callable[..., Any]
    args: Mapping[str, Any]
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    doc: str = ""
    into: bool = False
    sparsity: Sparsity | None = None


def assemble(state: State, methods: Sequence[Method]) -> tuple[ir.Module, tuple[Entry, ...]]:
    """One module in plain StableHLO, with the state as global variables and a function for each method; and their descriptions.

    `state` has the spec of each variable by name; variables that no method reads are left out.
    """
    names = {name for method in methods for name in method.reads}
    state = {name: spec for name, spec in state.items() if name in names}
    is_stateful = any(method.reads or method.writes for method in methods)
    lines = [f"util.global private mutable @{VERSION} = 0 : i64"] if is_stateful else []
    for name, spec in state.items():
        type = tensor_type(spec.shape, spec.dtype)
        lines.append(f"util.global private mutable @{name} = #util.uninitialized : {type}")
    module = parse_module("\n".join(lines))
    entries = []
    known: dict[Callable[..., Any], tuple[ir.Module, Entry]] = {}  # both forms of a method have one function
    for method in methods:
        if method.function not in known:
            known[method.function] = traced_method(method, state)
        traced, entry = known[method.function]
        entry = replace(entry, sparsity=method.sparsity)
        entries.append(_with_storage(replace(entry, name=method.name, doc=method.doc)) if method.into else entry)
        with context(), ir.Location.unknown(), ir.InsertionPoint(module.body):
            func = traced.body.operations[0].operation.clone().operation
            func.attributes["sym_name"] = ir.StringAttr.get(method.name)
            _connect(func, method, state)
            if method.into:
                _add_storage(func, entry)
    with context():
        module.operation.verify()
    return module, tuple(entries)


def traced_method(method: Method, state: State) -> tuple[ir.Module, Entry]:
    """The module with the lowered function of a method, and the description of its arguments and results.

    The first arguments of the function are the variables that it reads, and its last results those that it writes; `state` has the
    spec of each variable by name.
    """
    leaves, in_spec = pytree.flatten(tuple(method.args.values()))
    inputs = [as_spec(leaf) for leaf in leaves]
    count = len(method.reads)
    box: dict[str, Any] = {}

    def flat(*tensors: Tensor) -> list[Tensor]:
        """The results of the method and the new state as one list, from the variables that it reads and its arguments."""
        known = dict(zip(method.reads, tensors[:count], strict=True))
        result = method.function(known, *pytree.unflatten(in_spec, tensors[count:]))
        result, new_state = result if method.writes else (result, {})
        outputs, box["spec"] = pytree.flatten(result)
        outputs = [checked_output(out) for out in outputs]
        box["outputs"] = tuple(Spec(out.shape, out.dtype) for out in outputs)
        return [*outputs, *(new_state[name] for name in method.writes if name in state)]

    specs = [*(state[name] for name in method.reads), *inputs]
    module, captures = trace_function(flat, specs, method.name)
    bake_captures(module, len(specs), captures)
    lower_module(module)
    entry = Entry(method.name, tuple(method.args), in_spec, tuple(inputs), box["spec"], box["outputs"], method.doc)
    return module, entry


def _connect(func: ir.Operation, method: Method, state: State) -> None:
    """Replaces the arguments that are state by loads of globals, and the results that are state by stores to globals.

    The function then also returns the version of the state. Example, for a method that reads `@x`: ``func @f(%x, %v) -> r`` becomes
    ``func @f(%v) -> (r, i64)`` with ``%x = util.global.load @x``. `state` has the spec of each variable by name.
    """
    block = func.regions[0].blocks[0]
    with ir.InsertionPoint.at_block_begin(block):
        versions = _checked_version(method) if method.reads else []
        for argument, name in zip(list(block.arguments), method.reads, strict=False):
            argument.replace_all_uses_with(_load(name, argument.type))
    for i in reversed(range(len(method.reads))):  # from the last one on, because erasing moves the later arguments
        block.erase_argument(i)
    terminator = list(block.operations)[-1].operation
    outs = list(terminator.operands)
    writes = [name for name in method.writes if name in state]
    count = len(outs) - len(writes)
    with ir.InsertionPoint(terminator):
        for name, value in zip(writes, outs[count:], strict=True):
            _store(name, value)
        if method.writes:
            versions = [_next_version()]
        ir.Operation.create("func.return", operands=[*outs[:count], *versions])
    terminator.erase()
    types = [a.type for a in block.arguments], [v.type for v in [*outs[:count], *versions]]
    func.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*types))


def _with_storage(entry: Entry) -> Entry:
    """The description of an entry point with a last argument `out` in addition: a pytree to which the results are written."""
    trees = pytree.unflatten(entry.in_spec, entry.inputs), pytree.unflatten(entry.out_spec, entry.outputs)
    inputs, in_spec = pytree.flatten((*trees[0], trees[1]))
    arguments = (*entry.arguments, "out")
    return replace(entry, arguments=arguments, in_spec=in_spec, inputs=tuple(inputs), storage=len(entry.outputs))


def _add_storage(func: ir.Operation, entry: Entry) -> None:
    """Adds one argument to the function for each result of the entry point; IREE writes the result to its memory.

    The attribute `OUTPUT` of the argument says which result this is.
    """
    type = ir.FunctionType(ir.TypeAttr(func.attributes["function_type"]).value)
    types = type.results[: len(entry.outputs)]
    for result_type in types:
        func.regions[0].blocks[0].add_argument(result_type, ir.Location.unknown())
    plain = [ir.DictAttr.get({})] * len(type.inputs)
    index = ir.IndexType.get()
    outputs = [ir.DictAttr.get({OUTPUT: ir.IntegerAttr.get(index, i)}) for i in range(len(types))]
    func.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([*type.inputs, *types], type.results))
    func.attributes["arg_attrs"] = ir.ArrayAttr.get([*plain, *outputs])


def _load(name: str, type: ir.Type) -> ir.Value:
    """The value of the global variable `name`; emits its load at the insertion point."""
    attributes = {"global": ir.FlatSymbolRefAttr.get(name)}
    return ir.Operation.create("util.global.load", results=[type], attributes=attributes).results[0]


def _store(name: str, value: ir.Value) -> None:
    """Emits a store of `value` to the global variable `name`."""
    ir.Operation.create("util.global.store", operands=[value], attributes={"global": ir.FlatSymbolRefAttr.get(name)})


def _integer(value: int) -> ir.Value:
    """The i64 constant `value` in the program; emits it at the insertion point."""
    i64 = ir.IntegerType.get_signless(64)
    attributes = {"value": ir.IntegerAttr.get(i64, value)}
    return ir.Operation.create("arith.constant", results=[i64], attributes=attributes).results[0]


def _checked_version(method: Method) -> list[ir.Value]:
    """The version of the state, in a list of one element.

    Emits an assertion that fails if the version is 0, which means that nothing has been written yet. For the user the first write
    is the call of `update`, at a point.
    """
    version = _load(VERSION, ir.IntegerType.get_signless(64))
    attributes: dict[str, ir.Attribute] = {"predicate": ir.IntegerAttr.get(version.type, 1)}  # ne
    is_set = ir.Operation.create(
        "arith.cmpi", operands=[version, _integer(0)], results=[ir.IntegerType.get_signless(1)], attributes=attributes
    )
    message = f"{method.name} requires a point, got {BEFORE_UPDATE}"
    ir.Operation.create("cf.assert", operands=list(is_set.results), attributes={"msg": ir.StringAttr.get(message)})
    return [version]


def _next_version() -> ir.Value:
    """The version of the state after one more write, which is stored; emits the increment."""
    version = _load(VERSION, ir.IntegerType.get_signless(64))
    new = ir.Operation.create("arith.addi", operands=[version, _integer(1)], results=[version.type]).results[0]
    _store(VERSION, new)
    return new
