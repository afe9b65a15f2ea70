"""Buffers to which IREE would write although the caller, or the same operation, still reads them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from iree.compiler import ir

from nabla_mlir.dialects.builder import Val, signless
from nabla_mlir.dialects.regions import last_of, made_by
from nabla_mlir.dialects.stablehlo import OPTIMIZATION_BARRIER
from nabla_mlir.dialects.types import is_static_tensor, shape_and_dtype
from nabla_mlir.passes.iree.faults.aliasing import is_constant
from nabla_mlir.passes.iree.internals.barriers import behind_barrier
from nabla_mlir.passes.iree.internals.dispatches import DISPATCH
from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.table.traits import runs_regions

STACK = 32768  # the number of bytes that CPU code of IREE may have on the stack


def is_shared_behind_barrier(value: ir.Value) -> bool:
    """True if a value shares a buffer with an operand of a barrier, and another operation or the caller reads this buffer, too.

    IREE does not look through barriers, so it does not see the other reader.
    """
    buffer = one_buffer([value])
    if not any((maker := made_by(v)) is not None and maker.name == OPTIMIZATION_BARRIER for v in buffer):
        return False
    return any(sum(1 for _ in v.uses) > 1 or _is_argument(v) for v in buffer)


def _is_argument(value: ir.Value) -> bool:
    """True for an argument of a function."""
    return made_by(value) is None and value.owner.owner.operation.name == "func.func"


def use_at_the_end(x: Val) -> None:
    """Adds a use of a value at the end of its block, so that its buffer stays live until then; the use costs no time."""
    maker = made_by(x.value)
    end = last_of(x.value.owner if maker is None else maker.block)
    with ir.InsertionPoint(end), end.location:
        value = signless(x).value
        behind_barrier([value])


def one_buffer(values: Sequence[ir.Value] | Iterator[ir.Value]) -> set[ir.Value]:
    """The given values, and all values whose buffer one of them may share; possibly more values than really share it."""
    group: set[ir.Value] = set()
    work = [*values]
    while work:
        value = work.pop()
        if value not in group:
            group.add(value)
            work += _may_share(value)
    return group


def _may_share(value: ir.Value) -> Iterator[ir.Value]:
    """The values whose buffer a value may share: operands of its operation with the same size, or values that regions return."""
    maker = made_by(value)
    if maker is None:
        owner = value.owner.owner.operation
        if owner.name == "stablehlo.while":
            yield from _sources_of(owner, list(value.owner.arguments).index(value))
        return
    if runs_regions(maker):
        yield from _sources_of(maker, list(maker.results).index(value))
        return
    kind = REGISTRY[maker.name].kind if maker.name in REGISTRY else ""
    size = bytes_of(value.type)
    candidates = [v for v in maker.operands if size is None or bytes_of(v.type) in (size, None)]
    is_computed = kind == "elementwise" and len({v for v in candidates if not is_constant(v)}) > 1
    if kind != "contraction" and maker.name != DISPATCH and not is_computed:
        yield from candidates


def _sources_of(owner: ir.Operation, i: int) -> Iterator[ir.Value]:
    """The values that become argument or result `i` of an operation with regions."""
    is_loop = owner.name == "stablehlo.while"
    if is_loop:
        yield owner.operands[i]
    for region in list(owner.regions)[1 if is_loop else 0 :]:
        yield last_of(region.blocks[0]).operands[i]


def bytes_of(type: ir.Type) -> int | None:
    """The size of a value in bytes; None if it is not static."""
    if not is_static_tensor(type):
        return None
    shape, dtype = shape_and_dtype(type)
    return math.prod(shape) * dtype.itemsize
