"""Products as loop nests: their factors in memory, and the nest with its tiles."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir
from iree.compiler.dialects import arith

from nabla_mlir.dialects.builder import Val, stored, transpose
from nabla_mlir.dialects.regions import made_by
from nabla_mlir.dialects.stablehlo import BARRIERS
from nabla_mlir.passes.iree.scheduling.tiles import TILES, Tiles
from nabla_mlir.table.traits import CONSTANT

# Transposes by value, block and order of the axes.
Transposes = dict[tuple[ir.Value, ir.Block, tuple[int, ...]], Val]


def loop_nest(
    matrix: Val, others: Sequence[Val], starts: Sequence[Val], first: str, second: str, third: str, tiles: Tiles
) -> list[Val]:
    """The arrays starts[n] + sum over k of matrix * others[n], for each n, by one loop nest.

    Args:
      matrix: the factor that all products share.
      others: the other factors.
      starts: the initial values of the results.
      first, second, third: a letter for each axis of the matrix, of the other factors, and of the results: b, i, j or k. Axes with
        one letter have one loop; k is summed over. So "ik", "kj" and "ij" are a product of matrices.
      tiles: the tiles of the loop nest.
    """
    from iree.compiler.dialects import linalg  # rarely needed, and an eighth of nabla-opt's start time

    loops = "".join(a for a in "bijk" if a in first + second)
    indexing_map = lambda letters: ir.AffineMap.get(len(loops), 0, [ir.AffineDimExpr.get(loops.index(a)) for a in letters])  # noqa: E731
    maps = [indexing_map(first), *[indexing_map(second)] * len(others), *[indexing_map(third)] * len(starts)]
    kinds = [ir.Attribute.parse(f"#linalg.iterator_type<{'reduction' if a == 'k' else 'parallel'}>") for a in loops]
    op = linalg.GenericOp(
        [s.type for s in starts],
        [matrix.value, *(o.value for o in others)],
        [s.value for s in starts],
        ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in maps]),
        ir.ArrayAttr.get(kinds),
    )
    op.operation.attributes[TILES] = tiles.attribute()
    element = matrix.type.element_type
    block = op.regions[0].blocks.append(*[element] * len(maps))
    with ir.InsertionPoint(block):
        # One element of the shared matrix, of each other factor, and of each sum so far.
        factor, *elements = block.arguments
        sums = [
            arith.AddFOp(total, arith.MulFOp(factor, other).result).result
            for other, total in zip(elements[: len(others)], elements[len(others) :], strict=True)
        ]
        linalg.YieldOp(sums)
    return [Val(result) for result in op.results]


def transposed_in_memory(x: Val, order: Sequence[int]) -> Val:
    """The transpose of x, stored in memory: axis i is axis order[i] of x. It is x itself if the order does not change.

    Both its operand and its result are materialised. Otherwise a fused operation would read or write along the wrong
    axis, and a product would lose its tiles (128x64 over 128: 215 µs, then 7).
    """
    if list(order) == list(range(x.rank)):
        return x
    return stored(transpose(x if made_by(x.value) is None else stored(x), order))


def transposed_once(x: Val, order: Sequence[int], block: ir.Block, transposes: Transposes) -> Val:
    """The transpose of x by `order`, made at the insertion point unless the cache `transposes` has it for the block."""
    key = x.value, block, tuple(order)  # a value that is made in the body of a loop cannot be read outside it
    if key not in transposes:
        transposes[key] = transposed_in_memory(x, order)
    return transposes[key]


def in_memory(value: ir.Value) -> Val:
    """The factor of a product, stored in memory; if it were fused with its producers, the product would lose its tiles."""
    made_in = made_by(value)
    is_in_memory = made_in is None or made_in.name in (CONSTANT, *BARRIERS) or TILES in made_in.attributes
    return Val(value) if is_in_memory else stored(Val(value))


def replace_product(op: ir.Operation, result: Val) -> None:
    """Replaces the only result of `op` by `result`, and erases `op`."""
    op.results[0].replace_all_uses_with(result.value)
    op.erase()
