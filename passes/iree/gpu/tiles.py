"""The cost model of contractions on a GPU, and its choice of tiles.

A tile of the result costs `latency` microseconds per iteration over the inner indices. A multiprocessor computes `resident` tiles
at once, and all of them together at most `rate` TFLOP/s. So T tiles of n iterations take, in microseconds,

    start + max(flops / rate, ceil(T / (multiprocessors * resident)) * n * latency)

A part is a share of the inner indices; with several parts, partial results are summed by another operation.
The constants for f32 were fitted to 380 kernels on an H200, with a root mean square error of 12 %; those for bf16 to 12 kernels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from nabla_mlir.passes.iree.gpu.contraction import Contraction


@dataclass(frozen=True)
class Tiling:
    """The tiles of a contraction.

    Args:
      rows, columns, inner: the sizes of a tile of the result, and of the inner indices of one iteration.
      splits: the number of parts of the inner indices, whose sums are added afterwards.
      warps: the number of warps of 32 threads that compute a tile.
      stages: the number of iterations whose loads are under way.
      precision: the form of products of f32, a name of Triton. bf16x6 adds six products of bf16 parts: the error is that of sums in
        f32 (8e-8 against 2e-7 to 4e-7 of cuBLAS), at 65 TFLOP/s against 50.
    """

    rows: int
    columns: int
    inner: int
    splits: int = 1
    warps: int = 4
    stages: int = 3
    precision: str = "bf16x6"

    def part(self, inner: int) -> int:
        """The number of inner indices in a part, a multiple of the size of a tile; `inner` is the number of all inner indices."""
        return -(-inner // (self.splits * self.inner)) * self.inner


@dataclass(frozen=True)
class Cost:
    """The speed of tiles: TFLOP/s, microseconds for one iteration, and tiles on a multiprocessor."""

    rate: float
    latency: float
    resident: int


_F32 = {
    Tiling(16, 64, 64): Cost(20, 1.47, 2),
    Tiling(64, 32, 32, stages=4): Cost(44, 0.83, 2),
    Tiling(64, 64, 32): Cost(52, 1.11, 2),
    Tiling(64, 64, 64): Cost(52, 1.96, 2),
    Tiling(64, 128, 32): Cost(56, 1.96, 2),
    Tiling(128, 64, 32): Cost(60, 1.70, 2),
}
_HALF = {
    Tiling(16, 64, 64): Cost(80, 0.25, 4),
    Tiling(64, 64, 32): Cost(250, 0.2, 4),
    Tiling(64, 128, 32): Cost(445, 0.2, 3),
    Tiling(128, 128, 32): Cost(618, 0.25, 2),
}
_START = 3.0  # microseconds until a kernel has begun
_MULTIPROCESSORS = 132
_BANDWIDTH = 2.5e6  # bytes in a microsecond, of partial sums that are written and read
_SPLITS = tuple(2**k for k in range(15))
_MOST_SPLITS = 32  # the largest number of parts that is chosen for speed; accuracy may need more
_LEAST_PART = 128  # inner indices
_LONGEST_PART = 2**14  # inner indices, for accuracy: more equal terms, one tile after another, are 3e-5 off
_LEAST_FLOPS = 2**17  # below it IREE's code is as fast
_MOST_OFFSET = 2**31  # offsets are i32


def tiling_of(c: Contraction) -> Tiling | None:
    """The tiles for which the cost model predicts the least time of a contraction; None if IREE's own code is as fast."""
    batch, rows, columns, inner = c.shape
    if min(rows, columns) == 1 and not c.a.windows + c.b.windows:  # a product with a vector reads more than it computes
        return None
    # For very short sums, or little work, IREE's code is as fast. An element has two operations, a product and a sum.
    if inner < 4 or 2 * batch * rows * columns * inner < _LEAST_FLOPS:
        return None
    if max(batch * rows * inner, batch * inner * columns, batch * rows * columns) >= _MOST_OFFSET:
        return None
    return min(_candidates(c), key=lambda pair: pair[1])[0]


def _candidates(c: Contraction) -> Iterator[tuple[Tiling, float]]:
    """The tilings with which the sums of a contraction are accurate, each with its predicted time in microseconds."""
    inner = c.shape[3]
    # The fewest parts that are short enough for accurate sums.
    least = next(splits for splits in _SPLITS if splits * _LONGEST_PART >= inner or splits == _SPLITS[-1])
    for tiling, cost in (_F32 if c.element == "f32" else _HALF).items():
        for splits in _SPLITS:
            is_fast = splits <= _MOST_SPLITS and inner >= splits * max(_LEAST_PART, tiling.inner)
            if splits == least or (splits > least and is_fast):
                split = replace(tiling, splits=splits)
                yield split, microseconds(c, split, cost)


def microseconds(c: Contraction, t: Tiling, cost: Cost) -> float:
    """The time that the model predicts for a contraction with the tiles `t`, including the sum of the parts.

    `cost` has the measured speed of these tiles.
    """
    batch, rows, columns, inner = c.shape
    tiles = batch * math.ceil(rows / t.rows) * math.ceil(columns / t.columns) * t.splits
    iterations = math.ceil(t.part(inner) / t.inner)
    flops = 2 * t.rows * t.columns * t.inner * iterations * tiles
    # Tiles run in waves, as many at once as all multiprocessors hold; a wave lasts its iterations.
    waves = math.ceil(tiles / (_MULTIPROCESSORS * cost.resident))
    time = _START + max(flops / (cost.rate * 1e6), waves * iterations * cost.latency)
    if t.splits > 1:
        time += _START + 8 * t.splits * batch * rows * columns / _BANDWIDTH
    return time
