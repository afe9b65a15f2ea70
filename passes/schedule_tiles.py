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
    """Eight rows by two vectors of columns stay in registers, of which AVX-512 has 32; None where IREE is as good.

    `transposed` says that the columns are those of a transposed factor, which has no contiguous vectors of them.
    """
    width = 2 * lanes
    if rows < 8 or columns % width or (transposed and length > lanes):
        return None
    step = largest_divisor(length, lanes if transposed else 8)
    groups = _groups(rows * columns * length // 8)
    # Workgroups of one size have static shapes; those of another are peeled at run time.
    share = next((d for d in range(-(-rows // groups), min(rows, 4 * -(-rows // groups)) + 1) if rows % d == 0), rows)
    return Tiles((share, columns, 0), (8, width, 0), (0, 0, step))


def _groups(work: int) -> int:
    return max(1, min(_GROUPS, work // _WORK))
