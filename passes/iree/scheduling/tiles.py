"""Tile shapes of products on a CPU: a small model of vector units and cores, from measurements.

Measured with IREE 3.13 on an AVX-512 machine (2 cores, f32, µs; first IREE's own tiles, then these): a 2000x500 matrix times
a vector 143 and 41, its transpose times a vector 490 and 42; 20000x512: 1048 and 831, 18400 and 956. On one of
the cores: a product 256x512 (sum over 512) 906 and 489, 200x100 (100) 65 and 22, 1797x10 (32) 77 and 18, 512x24 (80) 45 and
15; with the second factor transposed 256x512 (512) 646 and 550, 200x100 (100) 70 and 26, 1797x64 (32) 96 and 36.
"""

from __future__ import annotations

from dataclasses import dataclass

from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.passes.iree.internals.codegen import tiling

TILES = "compilation_info"  # the attribute of a product whose tiles nabla_mlir has chosen


@dataclass(frozen=True)
class Tiles:
    """The tile sizes of each loop of an operation: of a workgroup, of a parallel vector, and of a reduction vector; 0 means all."""

    distribution: tuple[int, ...]
    parallel: tuple[int, ...]
    reduction: tuple[int, ...]

    def attribute(self) -> ir.Attribute:
        """The tiles as IREE's attribute `compilation_info`."""
        return tiling(self.distribution, self.parallel, self.reduction)


def largest_divisor(n: int, bound: int) -> int:
    """The largest divisor of `n` that is at most `bound`."""
    return max(d for d in range(1, min(n, bound) + 1) if n % d == 0)


def rows_times_vector(rows: int, length: int, lanes: int) -> Tiles | None:
    """Tiles for the product of `rows` contiguous rows of `length` elements with a vector; `lanes` is the length of a CPU vector.

    One row is computed at a time, up to four vectors of it at once. None if no divisor of the length fills a vector (a tile that
    does not divide it is six times slower), or if it is so short that IREE's own tiles are as fast.
    """
    step = largest_divisor(length, 4 * lanes)
    if length < lanes or step < lanes:
        return None
    return Tiles((-(-rows // _groups(rows * length)), 0), (1, 0), (0, step))


def columns_times_vector(columns: int, length: int, lanes: int) -> Tiles:
    """Tiles for sums of `length` scaled rows of `columns` elements: up to four vectors stay in registers over all rows."""
    width = min(columns, 4 * lanes)
    share = -(-columns // _groups(columns * length))
    return Tiles((-(-share // width) * width, 0), (width, 0), (0, largest_divisor(length, 4)))


def matrix_product(rows: int, columns: int, length: int, lanes: int) -> Tiles | None:
    """Tiles of eight rows by two vectors of columns in registers (AVX-512 has 32 registers), or of sixteen by one.

    A workgroup has a strip of columns, which stays in the cache over all rows. `length` is the number of terms of a sum, and
    `lanes` the length of a vector. None if IREE's own tiles are as fast.
    """
    if rows < thresholds.TILED_ROWS or columns < thresholds.TILED_ROWS:
        return None
    width = min(columns, 2 * lanes if columns >= 2 * lanes else lanes)
    tall = largest_divisor(rows, 8 if width > lanes else 16)
    if tall < thresholds.TILED_ROWS:
        tall = 8
    groups, strips = _groups(rows * columns * length // 8), -(-columns // width)
    share = rows if strips >= groups else -(-rows * strips // groups)
    share = _even_share(rows, max(tall, min(share, thresholds.CACHED_FACTOR // length)), tall)
    # Remaining rows are faster with several steps at once, full tiles with one.
    step = 1
    if share % tall:
        step = next((n for n in (4, 3, 2, *range(5, 33)) if length % n == 0), 1)
    return Tiles((share, width * max(1, strips // groups), 0), (tall, width, 0), (0, 0, step))


def batched_product(batch: int, rows: int, columns: int, length: int, lanes: int) -> Tiles | None:
    """The tiles of a batch of products; a workgroup has as many whole products as make it large enough.

    `length` is the number of terms of a sum, and `lanes` the length of a vector. None if IREE's own tiles are as fast, which holds
    if both sizes fill vectors. Measured (50 products on one core, µs; IREE's own tiles, then these): 20x500 (sum over 20) 670 and
    142, 500x20 (20) 625 and 228, 20x20 (500) 348 and 186; 32x32 (16) 17 and 19.
    """
    one = matrix_product(rows, columns, length, lanes)
    if one is None or rows % 8 == columns % 8 == 0 or rows * columns * length < thresholds.TILED_PRODUCT:
        return None
    share = largest_divisor(batch, -(-batch // _groups(batch * rows * columns * length)))
    within = one.distribution if share == 1 else (0, 0, 0)
    return Tiles((share, *within), (1, *one.parallel), (0, *one.reduction))


def shared_product(rows: int, columns: int, length: int, lanes: int) -> Tiles | None:
    """The tiles of the products of one matrix with several others, each product by itself; None if IREE's own tiles are as fast.

    The sizes are those of one product, and `lanes` is the length of a vector.
    """
    one = matrix_product(rows, columns, length, lanes)
    return None if one is None else Tiles((1, *one.distribution), (1, *one.parallel), (0, *one.reduction))


def _even_share(rows: int, wanted: int, tall: int) -> int:
    """The number of rows of a workgroup: a divisor of `rows`, so that all workgroups are equal.

    It is near `wanted`: more than half of it, and at most three times it; all rows if there is no such divisor. Multiples of
    `tall`, the rows of a tile, are preferred.
    """
    divisors = [n for n in range(max(tall, wanted // 2 + 1), min(rows, 3 * wanted) + 1) if rows % n == 0]
    return min(divisors, key=lambda n: (n % tall != 0, abs(n - wanted)), default=rows)


def _groups(work: int) -> int:
    """The number of workgroups for `work` multiplications."""
    return max(1, min(thresholds.WORKGROUPS, work // thresholds.WORKGROUP_WORK))
