"""Products of matrices and vectors as loop nests with nabla_mlir's own tile shapes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from iree.compiler import ir

from nabla_mlir.base import thresholds
from nabla_mlir.dialects.builder import Val, cut, dot, full, reshape, stored, swap
from nabla_mlir.dialects.regions import made_by, nested_in_functions
from nabla_mlir.dialects.stablehlo import DotDims
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.iree.faults.separate_uses import positions_of_broadcasts
from nabla_mlir.passes.iree.internals.dispatches import Constants
from nabla_mlir.passes.iree.scheduling.batches import BatchedProduct, SharedProduct
from nabla_mlir.passes.iree.scheduling.nests import Transposes, in_memory, loop_nest, replace_product, transposed_once
from nabla_mlir.passes.iree.scheduling.packed_calls import PackedCall, add_in_place
from nabla_mlir.passes.iree.scheduling.packed_factors import packed_product
from nabla_mlir.passes.iree.scheduling.tiles import Tiles, columns_times_vector, matrix_product, rows_times_vector
from nabla_mlir.passes.iree.scheduling.views import Pads
from nabla_mlir.table.traits import record_or_none, size_of

# The number of vectors whose accumulators fit into registers.
_VECTORS = 4


@register
@dataclass(frozen=True)
class ScheduleProductsPass(Pass):
    """Write products of matrices and vectors as `linalg.generic` with tiles, where IREE's own choice is slower.

    `passes/iree/scheduling/tiles.py` has the cost model. Products of one matrix with several vectors become one operation that
    reads the matrix once. Large products and convolutions are calls of a kernel that packs its factors.

    Example: tests/filecheck/passes/schedule_products.mlir
    """

    name: ClassVar[str] = "nabla-schedule-products"
    vector_bytes: int = 64  # width of the CPU's vector registers

    def run(self, module: ir.Operation) -> None:
        """Replaces products and convolutions by loop nests and calls of kernels, in place."""
        ops = [op for op in nested_in_functions(module) if op.name in ("stablehlo.dot_general", "stablehlo.convolution")]
        constants: Constants = {}
        add_in_place(module, _schedule(ops, self.vector_bytes, constants), constants)


def _schedule(ops: Sequence[ir.Operation], vector_bytes: int, constants: Constants) -> list[PackedCall]:
    """The calls of the kernel for large products, which replace some of `ops`; other products become loop nests with tiles.

    `vector_bytes` is the size of a vector register, and `constants` is a cache.
    """
    transposes: Transposes = {}
    pads: Pads = {}
    products, calls = [], []
    for op in ops:
        if shared := SharedProduct.of(op, vector_bytes):
            shared.build(transposes)
        elif large := packed_product(op, vector_bytes):
            calls.append(large.build(vector_bytes, transposes, pads, constants))
        elif product := _product(op):
            products.append(product)
    for group in _groups([p for p in products if isinstance(p, MatrixVector)]):
        group[0].build(group, vector_bytes)
    for product in products:
        # With narrower vectors, the same tiles were measured to be no faster than IREE's, and often slower.
        if not isinstance(product, MatrixVector) and vector_bytes >= 64:
            product.build(vector_bytes, transposes)
    return calls


@dataclass(frozen=True)
class MatrixVector:
    """The product of a matrix and a vector, over one axis of the matrix."""

    op: ir.Operation
    position: int  # the index of the matrix among the operands
    axis: int

    @property
    def matrix(self) -> ir.Value:
        """The matrix."""
        return self.op.operands[self.position]

    @property
    def vector(self) -> ir.Value:
        """The vector."""
        return self.op.operands[1 - self.position]

    def build(self, group: Sequence[MatrixVector], vector_bytes: int) -> None:
        """Replaces the products of `group`, which share the matrix and the axis, by one loop nest if there are tiles for them.

        `vector_bytes` is the size of a vector register.
        """
        shape, dtype = shape_and_dtype(self.matrix.type)
        length, others = shape[self.axis], shape[1 - self.axis]
        lanes = vector_bytes // dtype.itemsize
        if others * length < thresholds.TILED_PRODUCT:
            return
        pieces = [(0, length)]
        if self.axis == 1 and rows_times_vector(others, length, lanes) is None:
            if length <= 4 * lanes:
                return
            whole = length // (4 * lanes) * (4 * lanes)  # groups of four vectors; the remaining elements are a second piece
            pieces = [(0, whole), (whole, length)]
        with ir.InsertionPoint(self.op), self.op.location:
            matrix, vectors = Val(self.matrix), [reshape(Val(p.vector), (length,)) for p in group]
            results = [full(0, (others,), dtype)] * len(group)
            for low, high in pieces:
                part = matrix if len(pieces) == 1 else cut(matrix, self.axis, low, high)
                tails = vectors if len(pieces) == 1 else [cut(v, 0, low, high) for v in vectors]
                tiles = self._tiles(others, high - low, lanes)
                results = loop_nest(part, tails, results, "ki" if self.axis == 0 else "ik", "k", "i", tiles)
            separate = [bool(positions_of_broadcasts(p.op.results[0])) or self._has_separate_readers(p, others) for p in group]
            results = [stored(r) if a else r for r, a in zip(results, separate, strict=True)]
            results = [_like_result(p.op, result) for p, result in zip(group, results, strict=True)]
        for product, result in zip(group, results, strict=True):
            replace_product(product.op, result)

    def _has_separate_readers(self, product: MatrixVector, rows: int) -> bool:
        """True if the readers of a product are faster in a separate dispatch than fused with the product, row by row."""
        return self.axis == 1 and rows * _reader_instructions(product.op.results[0]) > thresholds.OWN_DISPATCH

    def _tiles(self, others: int, length: int, lanes: int) -> Tiles:
        """The tiles of a product with `others` rows or columns and sums of `length` terms."""
        if self.axis == 0:
            return columns_times_vector(others, length, lanes)
        # Sums of fewer than four vectors of terms are one step.
        return rows_times_vector(others, length, lanes) or Tiles((others, 0), (1, 0), (0, length))


@dataclass(frozen=True)
class MatrixMatrix:
    """The product of two matrices over one axis of each."""

    op: ir.Operation
    axes: tuple[int, int]

    def build(self, vector_bytes: int, transposes: Transposes) -> None:
        """Replaces the product by a loop nest, if there are tiles for it; `transposes` caches transposed factors."""
        lhs, rhs = map(Val, self.op.operands)
        (left, dtype), (right, _) = shape_and_dtype(lhs.type), shape_and_dtype(rhs.type)
        (lc, rc) = self.axes
        rows, columns, length = left[1 - lc], right[1 - rc], left[lc]
        tiles = matrix_product(rows, columns, length, vector_bytes // dtype.itemsize)
        if tiles is None or rows * columns * length < thresholds.TILED_PRODUCT:
            return
        if self.axes == (1, 1) and columns >= thresholds.SWAPPED_FACTORS * rows:
            # As a transposed product of the exchanged factors: then the smaller factor is the one that is transposed.
            with ir.InsertionPoint(self.op), self.op.location:
                product = dot(rhs, swap(lhs), ([1], [0]))
                by_tiles = rows > thresholds.SWAPPED_ROWS  # a fused transpose would get the tiles
                replace_product(self.op, swap(stored(product) if by_tiles else product))
            if by_tiles:
                MatrixMatrix(made_by(product.value), (1, 0)).build(vector_bytes, transposes)
            return
        with ir.InsertionPoint(self.op), self.op.location:
            separate = bool(positions_of_broadcasts(self.op.results[0]))
            first, lhs = "ki" if lc == 0 else "ik", in_memory(lhs.value)
            rhs = in_memory((transposed_once(rhs, (1, 0), self.op.operation.block, transposes) if rc == 1 else rhs).value)
            (result,) = loop_nest(lhs, [rhs], [full(0, (rows, columns), dtype)], first, "kj", "ij", tiles)
            result = stored(result) if separate else result
        replace_product(self.op, result)


def _product(op: ir.Operation) -> MatrixVector | MatrixMatrix | BatchedProduct | None:
    """The description of a product of two matrices, a matrix and a vector, or a batch of matrices, in f32 or f64.

    The result is None for other operations, for dynamic shapes, and for products over several axes.
    """
    types = [v.type for v in (*op.operands, *op.results)]
    if op.name != "stablehlo.dot_general" or not all(t.has_static_shape for t in types):
        return None
    if any(t.element_type != types[0].element_type for t in types):
        return None
    shapes = [tuple(t.shape) for t in types[:2]]
    numbers = DotDims.decode(op.attributes["dot_dimension_numbers"])
    contraction = [numbers[f"{side}_contracting_dimensions"] for side in ("lhs", "rhs")]
    if any(len(c) != 1 for c in contraction) or 0 in (*shapes[0], *shapes[1]):
        return None
    if shape_and_dtype(types[0])[1] not in (np.float32, np.float64):
        return None
    if numbers["lhs_batching_dimensions"]:
        return BatchedProduct.of(op)
    (lc,), (rc,) = contraction
    vectors = [len(s) == 1 or (len(s) == 2 and s[1 - c] == 1) for s, c in zip(shapes, (lc, rc), strict=True)]
    if len(shapes[0]) > 2 or len(shapes[1]) > 2 or all(vectors):
        return None
    if vectors[1]:
        return MatrixVector(op, 0, lc)
    if vectors[0]:
        return MatrixVector(op, 1, rc)
    return MatrixMatrix(op, (lc, rc))


def _groups(products: Iterable[MatrixVector]) -> list[list[MatrixVector]]:
    """The products in groups that one loop nest can compute: they share the matrix and the axis.

    The vectors of a group are computed before its first product.
    """
    groups: list[list[MatrixVector]] = []
    last_group: dict[tuple[ir.Value, int, ir.Block], list[MatrixVector]] = {}
    for product in products:
        key = product.matrix, product.axis, product.op.operation.block
        group = last_group.get(key)
        if group and len(group) < _VECTORS and _is_before(product.vector, group[0].op):
            group.append(product)
            continue
        last_group[key] = [product]
        groups.append(last_group[key])
    return groups


def _is_before(value: ir.Value, op: ir.Operation) -> bool:
    """True if a value is computed before the operation `op`."""
    owner = made_by(value)
    return owner is None or owner.block != op.block or owner.is_before_in_block(op)


def _reader_instructions(value: ir.Value) -> int:
    """The instructions per element of the elementwise readers that IREE fuses with a value, also through each other."""
    total, seen, work = 0, {value}, [value]
    while work:
        for use in work.pop().uses:
            user = use.owner.operation
            record = record_or_none(user)
            is_fused = record is not None and record.elementwise and user.results[0] not in seen
            if record is None or not is_fused or size_of(user.results[0]) != size_of(value):
                continue
            total += record.instructions
            seen.add(user.results[0])
            work.append(user.results[0])
    return total


def _like_result(op: ir.Operation, value: Val) -> Val:
    """The value reshaped to the shape of the result of `op`, which may have an axis of size 1."""
    return reshape(value, shape_and_dtype(op.results[0].type)[0])
