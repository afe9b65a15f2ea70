"""Random numbers. A derivative treats the underlying standard draw as fixed, so numbers are differentiable by bounds and
moments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nabla_mlir.dialects import builder
from nabla_mlir.dialects.stablehlo import constant_array, enum
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.ops.elementwise import convert
from nabla_mlir.ops.shape import broadcast_in_dim
from nabla_mlir.table.kinds import general, nondifferentiable
from nabla_mlir.table.registry import OpDef, add_any
from nabla_mlir.table.rules import ZERO, MaybeZero, MaybeZeros, Tensors, Zero
from nabla_mlir.table.tensor import Tensor, constant, full, wrap
from nabla_mlir.table.traits import LONG

Shape = tuple[int, ...]


def _rng_jvp(outs: Tensors, xs: Tensors, tangents: MaybeZeros, *, rng_distribution: str) -> list[MaybeZero]:
    """The forward rule for a fixed draw u or z: a number is a + (b - a) u, or a + b z.

    a and b are the bounds, or the mean and the deviation. `xs` are the operands, `tangents` their tangents, and `outs` the results.
    """
    y, (a, b, _) = outs[0], xs
    spread = lambda v: broadcast_in_dim(v, shape=y.shape, broadcast_dimensions=())  # noqa: E731
    from_a = spread(a)
    share = (y - from_a) / (spread(b) - from_a if rng_distribution == "UNIFORM" else spread(b))
    total: MaybeZero = ZERO
    if not isinstance(tangents[0], Zero):
        t = spread(tangents[0])
        total = t * (1.0 - share) if rng_distribution == "UNIFORM" else t
    if not isinstance(tangents[1], Zero):
        total = add_any(total, spread(tangents[1]) * share)
    return [total]


def _rng_batch(xs: Tensors, mapped: Sequence[bool], size: int, *, rng_distribution: str) -> list[Tensor]:
    """Random numbers for all `size` entries of a map, each entry with its own.

    Standard numbers are drawn for all entries, then scaled to their parameters; `mapped` is True for parameters that vary.
    """
    a, b, shape = xs
    dims = constant_array(shape.value.owner)
    wide = constant(np.asarray([size, *dims], dims.dtype))
    kind = np.dtype(np.float64 if a.dtype == np.float64 else np.float32)
    samples = rng(full((), 0, kind), full((), 1, kind), wide, rng_distribution=rng_distribution)
    low, high = (
        convert(broadcast_in_dim(v, shape=samples.shape, broadcast_dimensions=(0,) if m else ()), dtype=kind)
        for v, m in zip((a, b), mapped[:2], strict=True)
    )
    result = low + samples * (high - low if rng_distribution == "UNIFORM" else high)
    return [convert(result, dtype=a.dtype) if a.dtype != kind else result]


def _rng_result(a: Tensor, b: Tensor, shape: Tensor, **_: Any) -> list[Any]:
    return [(tuple(int(n) for n in constant_array(shape.value.owner)), a.dtype)]


rng: OpDef = general(
    "stablehlo.rng",
    doc="Random numbers between bounds, or with a mean and a deviation. Derivatives treat the draw as constant.",
    attributes={"rng_distribution": enum("rng_distribution")},
    result=_rng_result,
    jvp=_rng_jvp,
    batch=_rng_batch,
    sample=[],  # random: the tests check properties of every draw
    pure=False,
)


def _bits_result(state: Tensor, *, shape: Shape, dtype: np.dtype, rng_algorithm: str) -> list[Any]:
    return [(state.shape, state.dtype), (tuple(shape), np.dtype(dtype))]


def _bits_batch(xs: Tensors, mapped: Sequence[bool], size: int, **params: Any) -> list[Tensor]:
    """The states and the random bits for all `size` entries, drawn in a loop, so that each entry gets the same bits as without a
    map.
    """
    (states,) = xs
    bits = full((size, *params["shape"]), 0, np.dtype(params["dtype"]))
    zero = builder.full(0, (), np.int32)

    def draw(i: Any, states: Any, bits: Any) -> list[Any]:
        """The states and the bits of all entries, in which those of entry `i` are replaced by its new state and its bits."""
        row = builder.reshape(builder.dynamic_slice(states, [i, zero], [1, *states.shape[1:]]), states.shape[1:])
        outs = [builder.Val(y.value) for y in rng_bit_generator.apply([wrap(row.value)], params)]
        return [
            builder.dynamic_update_slice(
                old, builder.reshape(new, (1, *new.shape)), [i, *(builder.full(0, (), np.int32) for _ in new.shape)]
            )
            for old, new in zip((states, bits), outs, strict=True)
        ]

    values = [builder.Val(states.value), builder.Val(bits.value)]
    return [wrap(v.value) for v in builder.for_loop(size, values, draw)]


rng_bit_generator: OpDef = nondifferentiable(
    "stablehlo.rng_bit_generator",
    doc="Random bits and the next state of the generator.",
    multi=True,
    attributes={"rng_algorithm": enum("rng_algorithm")},
    result=_bits_result,
    result_params=lambda op: dict(zip(("shape", "dtype"), shape_and_dtype(op.results[1].type), strict=True)),
    batch=_bits_batch,
    sample=[],
    instructions=LONG,
)
