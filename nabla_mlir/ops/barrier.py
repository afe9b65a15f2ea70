"""The optimization barrier: it returns its operands, and no operation is moved or merged across it."""

from __future__ import annotations

from collections.abc import Sequence

from nabla_mlir.sparsity import operands as patterns
from nabla_mlir.table.batching import all_prefixed
from nabla_mlir.table.kinds import general
from nabla_mlir.table.registry import OpDef
from nabla_mlir.table.rules import ZERO, MaybeZero, MaybeZeros, Tensors, Zero
from nabla_mlir.table.samples import Case
from nabla_mlir.table.tensor import Tensor


def _barrier_jvp(outs: Tensors, xs: Tensors, tangents: MaybeZeros) -> list[MaybeZero]:
    """The tangents of the results: those of the operands behind one barrier; structural zeros stay.

    `tangents` are those of the operands.
    """
    varying = [t for t in tangents if not isinstance(t, Zero)]
    barriers = iter(optimization_barrier(*varying)) if varying else iter(())
    return [ZERO if isinstance(t, Zero) else next(barriers) for t in tangents]


def _barrier_batch(xs: Tensors, mapped: Sequence[bool], size: int) -> list[Tensor]:
    return all_prefixed(optimization_barrier(*xs), mapped, size)


optimization_barrier: OpDef = general(
    "stablehlo.optimization_barrier",
    pattern=patterns.identity,
    doc="The operands, unchanged; the compiler moves no operation across it.",
    multi=True,
    linear="all",
    result=lambda *xs: [(x.shape, x.dtype) for x in xs],
    jvp=_barrier_jvp,
    transpose=lambda cts, i, xs: cts[i],
    batch=_barrier_batch,
    sample=[Case(((3, 2), (2,)), numpy=lambda x, y: [x, y]), Case(((2,),), numpy=lambda x: x)],
    moves=True,
    instructions=1,
)
