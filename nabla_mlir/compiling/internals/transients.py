"""The sizes of the buffers that `nabla-place-transients` requests; IREE computes them in the middle of a compilation."""

from __future__ import annotations

from iree.compiler import ir

from nabla_mlir.compiling.internals.arena import place_in_arena
from nabla_mlir.dialects.regions import last_of, nested
from nabla_mlir.dialects.stablehlo import integer_constant
from nabla_mlir.passes.iree.internals.buffers import UNKNOWN, is_marked
from nabla_mlir.runtime.scratch import REFLECTED

_SUFFIX = "_transients_size"  # of the function that IREE adds to compute the size


def set_sizes(module: ir.Module) -> None:
    """Replaces `UNKNOWN` by the sizes of the buffers, in a module after IREE's stream phase.

    The functions that IREE adds to compute these sizes are erased. Each function with such a buffer reports its size to
    the runtime, under `REFLECTED`. Functions with loops get their buffers here.

    Raises:
      ValueError: a size is missing or depends on values; or a function runs in several parts, which cannot share
        memory.
    """
    functions = {
        op.operation.attributes["sym_name"].value: op.operation for op in module.body.operations if op.operation.name == "util.func"
    }
    queries = {name: query for name, query in functions.items() if name.endswith(_SUFFIX)}
    for name, function in functions.items():
        if (query := queries.get(name + _SUFFIX)) is not None:
            if sum(map(_computes, nested(function))) > 1:
                raise ValueError(f"several executions in {name}")
            _set_size(function, _size_in(query))
        elif is_marked(function):
            _set_size(function, place_in_arena(function))
    for name, query in queries.items():
        if name.removesuffix(_SUFFIX) in functions:
            query.erase()
    if any(_is_unknown(op) for op in nested(module.operation)):
        raise ValueError("a buffer whose size nothing says")


def _computes(op: ir.Operation) -> bool:
    """True if the operation is an execution that runs kernels."""
    return op.name == "stream.cmd.execute" and any(inner.name == "stream.cmd.dispatch" for inner in nested(op))


def _size_in(query: ir.Operation) -> int:
    """The size in bytes that the function `query`, which IREE added, returns; raises ValueError if it depends on values."""
    (size,) = last_of(query.regions[0].blocks[0]).operands
    if (number := integer_constant(size)) is None:
        raise ValueError("a size that depends on values")
    return number


def _set_size(function: ir.Operation, size: int) -> None:
    """Writes the size in bytes of the buffer for intermediate values into a function, and into its reflection.

    The runtime reads the reflection; a size of 0 is not written there.
    """
    for op in nested(function):
        if _is_unknown(op):
            op.attributes["value"] = ir.IntegerAttr.get(ir.IndexType.get(), size)
    reflection = ir.DictAttr(function.attributes["iree.reflection"])
    # Removes the attribute with the name of the added function, and the mark that the size replaces.
    entries = {e.name: e.attr for e in reflection if not e.name.startswith(("iree.abi.transients", REFLECTED))}
    if size:
        entries[REFLECTED] = ir.StringAttr.get(str(size))
    function.attributes["iree.reflection"] = ir.DictAttr.get(entries)


def _is_unknown(op: ir.Operation) -> bool:
    """True if the operation is the constant that stands for a size which is not known yet."""
    return op.name == "arith.constant" and integer_constant(op.results[0]) == UNKNOWN
