"""Updates of an array that are computed from that array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.dialects.builder import Val, held
from nabla_mlir.dialects.regions import made_by, nested, nested_in_functions
from nabla_mlir.dialects.stablehlo import OPTIMIZATION_BARRIER, SLICES, I64Array, constant_splat
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.iree.faults.aliasing import computed, copy_numbers
from nabla_mlir.passes.iree.faults.buffers import one_buffer
from nabla_mlir.table.traits import is_elementwise


@register
@dataclass(frozen=True)
class SeparateUpdatesPass(Pass):
    """Compute an update in separate memory first, if it is computed from the array that it updates.

    IREE 3.13 lets the operation that computes an update write it to its destination, even while it reads the same buffer.
    `x.at[:, 1].set(x[0])` reads elements that it has changed (a wrong number, silently). `x.at[1:].set(x[:-1])` is a copy onto
    itself, which the runtime refuses. A scatter of gathered rows is computed on the stack, which may be too small.

    A new value of each element from its old one is right in place, unless something else also reads the old values, possibly
    after they are overwritten (`y = x.at[1].multiply(x[1])` together with `2 * x[1]`). An update that is the array itself, or a
    view of it, is copied (`x.at[i].add(x)`).

    Example: tests/filecheck/passes/separate_updates.mlir
    """

    name: ClassVar[str] = "nabla-separate-updates"

    def run(self, module: ir.Operation) -> None:
        """Computes updates that read their target in separate memory, in place."""
        numbers = copy_numbers(module)
        for write in nested_in_functions(module):
            if write.name == "stablehlo.dynamic_update_slice":
                sources = [1]
            elif write.name == "stablehlo.scatter":
                # The indices, and the updates of each array.
                sources = list(range((len(write.operands) - 1) // 2, len(write.operands)))
            else:
                continue
            # The updated arrays, one for each update.
            targets = one_buffer(write.operands[i] for i in range(max(1, len(sources) - 1)))
            with ir.InsertionPoint(write), write.location:
                for i in sources:
                    if write.operands[i] in targets:  # a barrier would return the same buffer
                        write.operands[i] = computed(write.operands[i], next(numbers))
                    elif _reads(write.operands[i], targets, write):
                        write.operands[i] = held(Val(write.operands[i])).value


def _reads(update: ir.Value, targets: set[ir.Value], write: ir.Operation) -> bool:
    """True if an update is computed from one of the targets, unless each element depends only on the element that it replaces."""
    seen: set[tuple[ir.Value, bool]] = set()
    parts: list[ir.Operation] = []  # slices of the target at the index that is written
    work = [(update, write.name == "stablehlo.dynamic_update_slice")]  # True while elements keep their index
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
        if maker.name == "stablehlo.while" and maker.block != write.block:  # that loop has ended when this loop begins
            continue
        if in_place and _is_replaced_part(maker, write):
            parts.append(maker)
            continue
        in_place = in_place and _keeps_positions(maker)
        work += [(v, in_place) for v in maker.operands]
        work += [(v, False) for inner in nested(maker) for v in inner.operands]
    return any(not _serves_only(part, write, {v for v, _ in seen}) for part in parts)


def _serves_only(part: ir.Operation, write: ir.Operation, sources: set[ir.Value]) -> bool:
    """True if only `write` reads a replaced part and the values `sources` computed from it; other readers may run too late."""
    work = [part]
    while work:
        for use in work.pop().results[0].uses:
            user = use.owner.operation
            if user == write:
                continue
            if len(user.results) != 1 or user.results[0] not in sources:
                return False
            work.append(user)
    return True


def _is_replaced_part(maker: ir.Operation, write: ir.Operation) -> bool:
    """True for the slice of the target that `write` replaces."""
    if maker.name not in SLICES or maker.operands[0] != write.operands[0]:
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
    """The value of a constant integer; None for other values."""
    maker = made_by(scalar)
    value = constant_splat(maker) if maker is not None and maker.name == "stablehlo.constant" else None
    return None if value is None else int(value.real)


def _keeps_positions(op: ir.Operation) -> bool:
    """True if each element of the result depends only on the element at the same index, apart from dimensions of size 1."""
    if is_elementwise(op):
        return True
    if op.name != "stablehlo.reshape":
        return False
    first, second = ([n for n in v.type.shape if n != 1] for v in (op.operands[0], op.results[0]))
    return first == second
