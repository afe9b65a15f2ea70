"""Simplification patterns: their type, their table, and helpers to match operations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from iree.compiler import ir

from nabla_mlir.dialects.locations import is_derived
from nabla_mlir.dialects.regions import made_by
from nabla_mlir.ops.shape import broadcast_in_dim
from nabla_mlir.passes.patterns import Patterns
from nabla_mlir.table.registry import REGISTRY, Params
from nabla_mlir.table.tensor import Tensor, wrap

# (operands, params) -> the value that replaces the only result, or None. Its operations are emitted before the replaced one.
Pattern = Callable[..., Tensor | None]
PATTERNS = Patterns[Pattern]()
pattern = PATTERNS.of


def defining(x: Tensor, name: str) -> tuple[list[Tensor], Params] | None:
    """The operands and the parameters of the operation that made `x`, if it has the name `name`; else None."""
    op = owner(x)
    if op is None or op.name != name:
        return None
    return [wrap(v) for v in op.operands], REGISTRY[name].read(op)


def owner(x: Tensor) -> ir.Operation | None:
    """The operation that made `x`, or None for an argument."""
    return made_by(x.value)


def has_one_use(x: Tensor) -> bool:
    """True if exactly one operand reads `x`."""
    uses = iter(x.value.uses)
    return next(uses, None) is not None and next(uses, None) is None


def uncopied(x: Tensor, axes: Collection[int]) -> Tensor:
    """The operand of the broadcast `x`, without the axes `axes` of `x`, along which it only copies."""
    inner = defining(x, broadcast_in_dim.name)
    assert inner is not None
    (source,), params = inner
    remaining = [d for d in range(x.ndim) if d not in axes]
    positions = tuple(remaining.index(d) for d in params["broadcast_dimensions"])
    return broadcast_in_dim(source, shape=tuple(x.shape[d] for d in remaining), broadcast_dimensions=positions)


def has_free_zeros(x: Tensor) -> bool:
    """True if the rewritten operation may return zeros of the other sign: for integers, and if a derivative rule emitted it.

    The operations of the user preserve the signs of zeros, which decide `arctan2` and the sides of branch cuts. The
    location of an operation says which transform emitted it.
    """
    return x.dtype.kind in "biu" or is_derived(ir.Location.current)


def is_identity(permutation: Sequence[int]) -> bool:
    """True for the permutation 0, 1, 2, ..."""
    return list(permutation) == list(range(len(permutation)))
