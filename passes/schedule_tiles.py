"""Tile shapes of products on a CPU: a small model of vector units and cores, from measurements.

Measured with IREE 3.13 on an AVX-512 machine (2 cores, f32, µs; IREE's own choice, then this one): a 2000x500 matrix
times a vector 143 and 41, its transpose times a vector 490 and 42; 20000x512: 1048 and 831, 18400 and 956; a product
128x256x784: 266 and 185, 784x256x128 of a transposed factor 296 and 189, 1797x32x64: 90 and 32.
"""

from __future__ import annotations

from dataclasses import dataclass

from iree.compiler import ir

# A workgroup has at least so many multiplications, so that its fixed cost does not show, and a dispatch has at most so
# many workgroups.
_WORK = 1 << 16
_GROUPS = 64
# A product of fewer multiplications takes as long either way.
SMALL = 1 << 11
_CACHED = 1 << 18  # elements of a factor that stays in a core's own cache


@dataclass(frozen=True)
class Tiles:
    """For each loop of an operation: elements in a workgroup, in a parallel vector, in a vector of a reduction; 0: all."""

    distribution: tuple[int, ...]
    parallel: tuple[int, ...]
    reduction: tuple[int, ...]

    def attribute(self) -> ir.Attribute:
        """IREE's `compilation_info`."""
        tiles = (f"distribution = {list(self.distribution)}, vector_common_parallel = {list(self.parallel)}, "
                 f"vector_reduction = {list(self.reduction)}")  # fmt: skip
        return ir.Attribute.parse(
            f"#iree_codegen.compilation_info<lowering_config = #iree_cpu.lowering_config<{tiles}>, "
            "translation_info = #iree_codegen.translation_info<pipeline = #iree_cpu.pipeline<DoubleTilingExpert>>>"
        )


def largest_divisor(n: int, bound: int) -> int:
    """The largest divisor of `n` that is at most `bound`."""
    return max(d for d in range(1, min(n, bound) + 1) if n % d == 0)


def rows_times_vector(rows: int, length: int, lanes: int) -> Tiles | None:
    """Dot products of contiguous rows: one row at a time, up to four vectors of it at once.

    None if the length has no divisor that fills a vector (a tile that does not divide it is six times slower), or is
    so short that IREE's own choice is as good.
    """
    step = largest_divisor(length, 4 * lanes)
    if length < lanes or step < lanes:
        return None
    return Tiles((-(-rows // _groups(rows * length)), 0), (1, 0), (0, step))


def columns_times_vector(columns: int, length: int, lanes: int) -> Tiles:
    """Sums of scaled rows: up to four vectors of columns stay in registers while rows pass by."""
    width = min(columns, 4 * lanes)
    share = -(-columns // _groups(columns * length))
    return Tiles((-(-share // width) * width, 0), (width, 0), (0, largest_divisor(length, 4)))


def matrix_product(rows: int, columns: int, length: int, lanes: int, transposed: bool) -> Tiles | None:
    """Rows by vectors of columns stay in registers, of which AVX-512 has 32; None where IREE is as good.

    Eight rows by two vectors are fastest as long as the right factor stays in the cache; beyond that sixteen, which read
    it half as often (16x20000 times 20000x512: 11.6 ms and 1.6). Fewer rows take more vectors (4x20000: 2.8 and 1.1).

    `transposed` says that the columns are those of a transposed factor, which has no contiguous vectors of them.
    """
    high = next(d for d in (16, 8, rows) if rows >= d)
    if high == 16 and (rows % 16 or columns * length < _CACHED):
        high = 8
    width = max(2, 16 // high) * lanes
    if rows < 4 or columns % width or (transposed and length > lanes):
        return None
    step = largest_divisor(length, lanes if transposed else 8)
    groups = _groups(rows * columns * length // 8)
    # Workgroups of one size have static shapes; those of another are peeled at run time.
    least = max(high, -(-rows // groups))
    share = next((d for d in range(least, min(rows, 4 * least) + 1) if rows % d == 0), rows)
    least = -(-columns * rows // (groups * share))
    across = next(d for d in range(width, columns + 1, width) if columns % d == 0 and d >= min(least, columns))
    return Tiles((share, across, 0), (high, width, 0), (0, 0, step))


def is_better_swapped(columns: int, length: int, lanes: int) -> bool:
    """Whether IREE's product with a transposed right factor is faster as the transposed product of the swapped factors.

    It makes vectors along the columns, and finds none where their number has few factors of two: 16x500 times the
    transposed 2000x500 takes 475 µs, and 231 swapped; 128x256 times 784x256 418 and 254; 16x64 times 512x64 10 and 10.
    """
    return length > lanes and columns >= 8 * lanes and columns % (4 * lanes) != 0


def _groups(work: int) -> int:
    return max(1, min(_GROUPS, work // _WORK))
