"""Values that IREE must not compute together with what reads them."""

from __future__ import annotations

from iree.compiler import ir

from nabla_mlir.dialects.builder import Val, stored
from nabla_mlir.dialects.regions import made_by, nested
from nabla_mlir.dialects.stablehlo import I64Array
from nabla_mlir.table.traits import is_elementwise, is_reduction, is_view, moved, updated

Places = tuple[int, ...]


def separate_uses(module: ir.Operation) -> None:
    """Puts a barrier behind each sum that is broadcast along different dimensions: ``s[:, None] + s[None, :]``.

    IREE 3.13 computes such a sum inside the operation that reads it, for the rows of each workgroup, and reads the
    columns, which that workgroup has not computed, from memory that holds something else: wrong numbers, silently,
    from about 64 elements on (pairwise distances by ``|x|² + |y|² - 2 x·y``, for instance).
    """
    for op in list(nested(module)):
        if is_reduction(op):
            for result in op.results:
                if len(places_of_broadcasts(result)) > 1:
                    _hide(op, result)


def separate_parts(module: ir.Operation) -> None:
    """Puts a barrier between a part of an array and what IREE 3.13 cannot compute together with it.

    In the dispatch of a scatter or a sort it has slices, and what puts the result into a larger array, and what is
    between them on the stack: "exceeded stack allocation limit of 32768 bytes", or "write affecting operations on global
    resources are restricted to workgroup distributed contexts". A reverse, a gather or a running window of
    elements that do not lie side by side has no vector code: "builtin.unrealized_conversion_cast".
    """
    for op in list(nested(module)):
        for part in _parts(op):
            _hide(part, part.results[0])
        if op.name in _SORTS and any(use.owner.name in _JOINS for result in op.results for use in result.uses):
            for result in op.results:
                _hide(op, result)


_SORTS = ("stablehlo.scatter", "stablehlo.sort")
_JOINS = ("stablehlo.pad", "stablehlo.dynamic_update_slice")
_SLICES = ("stablehlo.slice", "stablehlo.dynamic_slice")


def _parts(op: ir.Operation) -> list[ir.Operation]:
    """The slices that must not be in the dispatch of an operation."""
    if op.name in _SORTS:
        return [part for i in updated(op) if (part := _cut(op.operands[i])) is not None]
    if op.name in ("stablehlo.reverse", "stablehlo.gather", "stablehlo.reduce_window"):
        part = _cut(op.operands[0])
        return [part] if part is not None and _is_strided(part) else []
    return []


def _cut(value: ir.Value) -> ir.Operation | None:
    """The slice that the value is a view of, if it is one."""
    maker = made_by(value)
    while maker is not None and (is_view(maker) or maker.name == "stablehlo.transpose"):
        maker = made_by(maker.operands[0])
    return maker if maker is not None and maker.name in _SLICES else None


def _is_strided(part: ir.Operation) -> bool:
    """Whether neighbours in the slice are none in the array."""
    whole, cut = part.operands[0].type.shape, part.results[0].type.shape
    strides = I64Array.decode(part.attributes["strides"]) if "strides" in part.attributes else (1,) * len(whole)
    last = [(n == 1 or stride > 1) for n, stride, size in zip(cut, strides, whole, strict=True) if size > 1][-1:]
    return any(last)


def _hide(op: ir.Operation, value: ir.Value) -> None:
    users = [(use.owner.operation, use.operand_number) for use in value.uses]
    with ir.InsertionPoint.after(op), op.location:
        hidden = stored(Val(value)).value
    for user, i in users:
        user.operands[i] = hidden


def places_of_broadcasts(value: ir.Value) -> set[Places]:
    """Where the dimensions of `value` lie in each of its broadcasts, also in those of what is fused with it."""
    found: set[Places] = set()
    seen, work = {value}, [value]
    while work:
        for use in work.pop().uses:
            user = use.owner.operation
            if len(user.results) != 1 or is_reduction(user):
                continue
            if user.name == "stablehlo.broadcast_in_dim":
                found.add(_of_broadcast(user))
            elif moved(user) and not is_view(user) and not is_elementwise(user):
                continue  # a copy
            elif user.results[0] not in seen and _is_aligned(value, user.results[0]):
                seen.add(user.results[0])
                work.append(user.results[0])
    return found


def _of_broadcast(op: ir.Operation) -> Places:
    dims = I64Array.decode(op.attributes["broadcast_dimensions"])
    rank = len(op.results[0].type.shape)
    # Counted from the end, so that further dimensions in front make no difference.
    return tuple(d - rank for d, n in zip(dims, op.operands[0].type.shape, strict=True) if n != 1)


def _is_aligned(value: ir.Value, other: ir.Value) -> bool:
    """True if the shapes are the same but for dimensions of size 1."""
    first, second = ([n for n in v.type.shape if n != 1] for v in (value, other))
    return first == second
