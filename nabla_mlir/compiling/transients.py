"""The sizes of the buffers that `nabla-place-transients` asks for, which IREE says in the middle of a compilation."""

from __future__ import annotations

from iree.compiler import ir

from nabla_mlir.dialects.regions import last_of, made_by, nested
from nabla_mlir.passes.iree.scheduling.place_transients import UNKNOWN
from nabla_mlir.runtime.scratch import REFLECTED

_SUFFIX = "_transients_size"  # of the function that IREE adds to say the size


def set_sizes(module: ir.Module) -> None:
    """Puts the sizes of the buffers of a module, as it is behind IREE's stream phase, in the place of `UNKNOWN`.

    The functions that IREE adds to say these sizes go; each function that has such a buffer says its size to the runtime,
    under `REFLECTED`.

    Raises:
      ValueError: a size is not said, or depends on values; or a function runs in several parts, of which none would compute
        in the memory of another.
    """
    functions = {op.operation.attributes["sym_name"].value: op.operation for op in module.body.operations
                 if op.operation.name == "util.func"}  # fmt: skip
    for name, function in functions.items():
        query = functions.get(name + _SUFFIX)
        if query is not None:
            if sum(map(_computes, nested(function))) > 1:
                raise ValueError(f"several executions in {name}")
            _set_size(function, _said(query))
            query.erase()
    if any(_is_unknown(op) for op in nested(module.operation)):
        raise ValueError("a buffer whose size nothing says")


def _computes(op: ir.Operation) -> bool:
    return op.name == "stream.cmd.execute" and any(inner.name == "stream.cmd.dispatch" for inner in nested(op))


def _said(query: ir.Operation) -> int:
    (size,) = last_of(query.regions[0].blocks[0]).operands
    maker = made_by(size)
    if maker is None or maker.name != "arith.constant":
        raise ValueError("a size that depends on values")
    return ir.IntegerAttr(maker.attributes["value"]).value


def _set_size(function: ir.Operation, size: int) -> None:
    for op in nested(function):
        if _is_unknown(op):
            op.attributes["value"] = ir.IntegerAttr.get(ir.IndexType.get(), size)
    reflection = ir.DictAttr(function.attributes["iree.reflection"])
    entries = {e.name: e.attr for e in reflection if not e.name.startswith("iree.abi.transients")}  # which name the function
    function.attributes["iree.reflection"] = ir.DictAttr.get({**entries, REFLECTED: ir.StringAttr.get(str(size))})


def _is_unknown(op: ir.Operation) -> bool:
    if op.name != "arith.constant" or not isinstance(op.results[0].type, ir.IndexType):
        return False
    return bool(ir.IntegerAttr(op.attributes["value"]).value == UNKNOWN)
