"""Buffers that IREE would write to although the caller, or the same operation, still reads them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects.builder import Val, held, op
from nabla_mlir.dialects.regions import functions_of, made_by, nested
from nabla_mlir.dialects.stablehlo import I64Array, constant_attribute
from nabla_mlir.dialects.types import is_static_tensor, shape_and_dtype, tensor_type
from nabla_mlir.ops.registry import REGISTRY
from nabla_mlir.passes.legalize.aliasing import is_constant

DONATED, OUTPUT = "iree.abi.consume", "iree.abi.output"  # attributes of arguments: given away, or memory for a result
_HELD = "stablehlo.optimization_barrier"


def keep_arguments(module: ir.Operation, written: Sequence[ir.Value]) -> None:
    """Uses each argument that may share its buffer with a value in `written` once more, at the end of its function.

    IREE copies a buffer before it writes to it if something reads the buffer later. That the caller does is not
    counted: IREE 3.13 writes to the caller's memory where a function has no further use of an argument, through any
    operation that it folds away (`x * 1`, a transpose of a row, a conversion to the signed type of the same width). It
    means to keep what is imported without `consume`, but loses sight of that where the import changes its lifetime to an
    unknown one (ElideAsyncCopies.cpp, after https://github.com/iree-org/iree/pull/22844).
    """
    reached = one_buffer(written)
    for function in functions_of(module).values():
        blocks = function.regions[0].blocks
        if not len(blocks):
            continue
        kept = [a for i, a in enumerate(blocks[0].arguments) if a in reached and not _is_given_away(function, i)]
        end = list(blocks[len(blocks) - 1].operations)[-1].operation
        with ir.InsertionPoint(end), end.location:
            for argument in kept:
                value = _signless(Val(argument)).value
                ir.Operation.create("util.optimization_barrier", operands=[value], results=[value.type])


def separate_updates(module: ir.Operation) -> None:
    """Puts what is written into an array in memory of its own first, if it is computed from that array.

    IREE 3.13 lets the operation that computes an update write it where it belongs, also while it reads the same buffer:
    `x.at[:, 1].set(x[0])` reads elements that it has changed (a wrong number, silently), `x.at[1:].set(x[:-1])` is a copy
    onto itself that the runtime refuses, and a scatter of gathered rows is computed on the stack, which may be too small.
    A new value of each element from its old one is right in place. What a scatter writes to, if it is cut out of an
    array, is made first too, not on the stack.
    """
    for write in nested(module):
        if write.name == "stablehlo.dynamic_update_slice":
            sources = [1]
        elif write.name == "stablehlo.scatter":
            sources = list(range((len(write.operands) - 1) // 2, len(write.operands)))
        else:
            continue
        targets = one_buffer(write.operands[i] for i in range(max(1, len(sources) - 1)))
        apart = [i for i in sources if _reads(write.operands[i], targets, write)]
        apart += [i for i in range(sources[0]) if len(sources) > 1 and _is_cut_out(write.operands[i])]
        with ir.InsertionPoint(write), write.location:
            for i in apart:
                write.operands[i] = held(Val(write.operands[i])).value


def one_buffer(written: Sequence[ir.Value] | Iterator[ir.Value]) -> set[ir.Value]:
    """The values that may lie in the buffer of one of these, by what they are made from; rather too many."""
    found: set[ir.Value] = set()
    work = [*written]
    while work:
        value = work.pop()
        if value not in found:
            found.add(value)
            work += _may_share(value)
    return found


def _may_share(value: ir.Value) -> Iterator[ir.Value]:
    """What a value may be a view of: operands as large as itself, and what regions hand over to become it."""
    maker = made_by(value)
    if maker is None:
        owner = value.owner.owner.operation
        if owner.name == "stablehlo.while":
            yield from _handed_over(owner, list(value.owner.arguments).index(value))
        return
    if maker.name in ("stablehlo.while", "stablehlo.if", "stablehlo.case"):
        yield from _handed_over(maker, list(maker.results).index(value))
        return
    kind = REGISTRY[maker.name].kind if maker.name in REGISTRY else ""
    size = _bytes(value.type)
    same = [v for v in maker.operands if size is None or _bytes(v.type) in (size, None)]
    is_computed = kind == "elementwise" and len({v for v in same if not is_constant(v)}) > 1
    if kind != "contraction" and maker.name != "flow.dispatch" and not is_computed:
        yield from same


def _handed_over(owner: ir.Operation, i: int) -> Iterator[ir.Value]:
    """What becomes argument or result `i` of an operation with regions."""
    is_loop = owner.name == "stablehlo.while"
    if is_loop:
        yield owner.operands[i]
    for region in list(owner.regions)[1 if is_loop else 0 :]:
        operations = region.blocks[0].operations
        yield operations[len(operations) - 1].operation.operands[i]


def _reads(update: ir.Value, targets: set[ir.Value], write: ir.Operation) -> bool:
    """Whether an update is computed from one of the targets, other than each element from the one it replaces."""
    seen: set[tuple[ir.Value, bool]] = set()
    work = [(update, write.name == "stablehlo.dynamic_update_slice")]  # whether elements are where they will be written
    while work:
        value, in_place = work.pop()
        if (value, in_place) in seen:
            continue
        seen.add((value, in_place))
        if value in targets:
            return True
        maker = made_by(value)
        if maker is None or maker.name in (_HELD, "stablehlo.constant"):
            continue
        if in_place and _is_replaced_part(maker, write):
            continue
        in_place = in_place and _keeps_places(maker)
        work += [(v, in_place) for v in maker.operands]
        work += [(v, False) for inner in nested(maker) for v in inner.operands]
    return False


def _is_replaced_part(maker: ir.Operation, write: ir.Operation) -> bool:
    """True for the slice of the target itself that `write` replaces."""
    if len(maker.results) != 1 or maker.operands[0] != write.operands[0]:
        return False
    shape, window = maker.results[0].type.shape, write.operands[1].type.shape
    starts = list(write.operands)[2:]
    if list(shape) != list(window):
        return False
    if maker.name == "stablehlo.dynamic_slice":
        return list(maker.operands)[1:] == starts
    if maker.name != "stablehlo.slice" or set(I64Array.decode(maker.attributes["strides"])) > {1}:
        return False
    known = [constant_attribute(made_by(s)) if is_constant(s) and made_by(s).name == "stablehlo.constant" else None
             for s in starts]  # fmt: skip
    first = I64Array.decode(maker.attributes["start_indices"])
    return all(k is not None and _integer(k) == n for k, n in zip(known, first, strict=True))


def _integer(attribute: ir.Attribute) -> int:
    return int(ir.DenseElementsAttr(attribute).get_splat_value().value)


def _keeps_places(op: ir.Operation) -> bool:
    """True where each element of the result is made of those at its place, up to dimensions of size 1."""
    name = op.name
    if name in REGISTRY and REGISTRY[name].kind == "elementwise" or name in ("stablehlo.convert", "stablehlo.select"):
        return True
    if name != "stablehlo.reshape":
        return False
    first, second = ([n for n in v.type.shape if n != 1] for v in (op.operands[0], op.results[0]))
    return first == second


def _is_cut_out(value: ir.Value) -> bool:
    maker = made_by(value)
    while maker is not None and maker.name == "stablehlo.reshape":
        maker = made_by(maker.operands[0])
    return maker is not None and maker.name in ("stablehlo.slice", "stablehlo.dynamic_slice")


def _signless(x: Val) -> Val:
    """IREE's own operations have no unsigned integers."""
    if x.dtype.kind != "u":
        return x
    return op("stablehlo.bitcast_convert", x, type=tensor_type(x.shape, np.dtype(f"i{x.dtype.itemsize}")))


def _is_given_away(function: ir.Operation, i: int) -> bool:
    if "arg_attrs" not in function.attributes:
        return False
    attributes = function.attributes["arg_attrs"][i]
    return DONATED in attributes or OUTPUT in attributes


def _bytes(type: ir.Type) -> int | None:
    """The size of a value; None if it is not known."""
    if not is_static_tensor(type):
        return None
    shape, dtype = shape_and_dtype(type)
    return math.prod(shape) * dtype.itemsize
