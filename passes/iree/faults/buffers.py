"""Buffers that IREE would write to although the caller, or the same operation, still reads them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from iree.compiler import ir

from nabla_mlir.dialects.builder import Val, held, signless
from nabla_mlir.dialects.regions import functions_of, last_of, made_by, nested
from nabla_mlir.dialects.stablehlo import OPTIMIZATION_BARRIER, I64Array, constant_splat
from nabla_mlir.dialects.types import is_static_tensor, shape_and_dtype
from nabla_mlir.passes.iree.faults.aliasing import is_constant
from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.table.traits import is_elementwise, runs_regions

DONATED, OUTPUT = "iree.abi.consume", "iree.abi.output"  # attributes of arguments: given away, or memory for a result
_STACK = 32768  # bytes that code of a CPU may have on the stack


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
        for i, argument in enumerate(blocks[0].arguments if len(blocks) else ()):
            if argument in reached and not _is_given_away(function, i):
                _use_at_the_end(Val(argument))


def separate_updates(module: ir.Operation) -> None:
    """Puts what is written into an array in memory of its own first, if it is computed from that array.

    IREE 3.13 lets the operation that computes an update write it where it belongs, also while it reads the same buffer:
    `x.at[:, 1].set(x[0])` reads elements that it has changed (a wrong number, silently), `x.at[1:].set(x[:-1])` is a copy
    onto itself that the runtime refuses, and a scatter of gathered rows is computed on the stack, which may be too small.
    A new value of each element from its old one is right in place.
    """
    for write in nested(module):
        if write.name == "stablehlo.dynamic_update_slice":
            sources = [1]
        elif write.name == "stablehlo.scatter":
            sources = list(range((len(write.operands) - 1) // 2, len(write.operands)))
        else:
            continue
        targets = one_buffer(write.operands[i] for i in range(max(1, len(sources) - 1)))
        with ir.InsertionPoint(write), write.location:
            for i in sources:
                if _reads(write.operands[i], targets, write):
                    write.operands[i] = held(Val(write.operands[i])).value


def is_shared_behind_barrier(value: ir.Value) -> bool:
    """True if something else reads a buffer that a value has come by through a barrier, on which IREE does not look back."""
    buffer = one_buffer([value])
    if not any((maker := made_by(v)) is not None and maker.name == OPTIMIZATION_BARRIER for v in buffer):
        return False
    return any(sum(1 for _ in v.uses) > 1 or _is_argument(v) for v in buffer)


def _is_argument(value: ir.Value) -> bool:
    return made_by(value) is None and value.owner.owner.operation.name == "func.func"


def keep_sorted(module: ir.Operation) -> None:
    """Uses each result of a sort that nothing else uses, where it is large.

    IREE sorts the operand of a result that is not used on the stack, 64 rows at once ("exceeded stack allocation limit").
    """
    for sort in nested(module):
        if sort.name != "stablehlo.sort" or not is_static_tensor(sort.results[0].type):
            continue
        length = sort.results[0].type.shape[ir.IntegerAttr(sort.attributes["dimension"]).value]
        for result in sort.results:
            if (
                not any(True for _ in result.uses)
                and min(64 * length * _width(result), _bytes(result.type) or 0) > _STACK
            ):
                _use_at_the_end(Val(result))


def _width(value: ir.Value) -> int:
    return shape_and_dtype(value.type)[1].itemsize


def _use_at_the_end(x: Val) -> None:
    """Something that is done with a value at the end of its block, and costs nothing."""
    maker = made_by(x.value)
    end = last_of(x.value.owner if maker is None else maker.block)
    with ir.InsertionPoint(end), end.location:
        value = signless(x).value
        ir.Operation.create("util.optimization_barrier", operands=[value], results=[value.type])


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
    if runs_regions(maker):
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
        yield last_of(region.blocks[0]).operands[i]


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
        if maker is None or maker.name in (OPTIMIZATION_BARRIER, "stablehlo.constant"):
            continue
        if in_place and _is_replaced_part(maker, write):
            continue
        in_place = in_place and _keeps_places(maker)
        work += [(v, in_place) for v in maker.operands]
        work += [(v, False) for inner in nested(maker) for v in inner.operands]
    return False


def _is_replaced_part(maker: ir.Operation, write: ir.Operation) -> bool:
    """True for the slice of the target itself that `write` replaces."""
    if maker.name not in ("stablehlo.slice", "stablehlo.dynamic_slice") or maker.operands[0] != write.operands[0]:
        return False
    shape, window = maker.results[0].type.shape, write.operands[1].type.shape
    starts = list(write.operands)[2:]
    if list(shape) != list(window):
        return False
    if maker.name == "stablehlo.dynamic_slice":
        return list(maker.operands)[1:] == starts
    if any(stride != 1 for stride in I64Array.decode(maker.attributes["strides"])):
        return False
    return [_known_integer(start) for start in starts] == list(I64Array.decode(maker.attributes["start_indices"]))


def _known_integer(scalar: ir.Value) -> int | None:
    maker = made_by(scalar)
    value = constant_splat(maker) if maker is not None and maker.name == "stablehlo.constant" else None
    return None if value is None else int(value.real)


def _keeps_places(op: ir.Operation) -> bool:
    """True where each element of the result is made of those at its place, up to dimensions of size 1."""
    if is_elementwise(op):
        return True
    if op.name != "stablehlo.reshape":
        return False
    first, second = ([n for n in v.type.shape if n != 1] for v in (op.operands[0], op.results[0]))
    return first == second


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
