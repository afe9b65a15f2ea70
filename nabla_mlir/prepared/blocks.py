"""Linear functions of one vector for a block of them: how the products of a block are computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from iree.compiler import ir

from nabla_mlir import numpy as nnp
from nabla_mlir import pytree, thresholds
from nabla_mlir.ops.barrier import optimization_barrier
from nabla_mlir.rules.cost import written_by
from nabla_mlir.table.promotion import as_tensor
from nabla_mlir.transforms.scans import scan
from nabla_mlir.transforms.vectorize import vmap

Function = Callable[[Any], Any]
Form = Callable[[Function], Function]  # from a function of a vector to that of vectors along a leading axis



def form_of_block(operations: Sequence[ir.Operation], state: int, size: int) -> Form:
    """The fastest form of a function for `size` vectors: as one batch, in a row, or in a loop over short rows.

    A batch is faster where what the vectors share, the state, is more than what each of them writes: there matrices
    times vectors become products of two matrices. It is where the work is so small that the number of operations
    counts. Elsewhere it only makes intermediate results larger than the cache: with 16 vectors a recurrent network
    takes 380 µs for each as a batch, and 52 one after the other; a residual block 3000 and 2000.

    Args:
      operations: those of the function for one vector, its return among them.
      state: bytes that it reads besides the vector.
      size: how many vectors there are.
    """
    nbytes, count = written_by(operations)
    if state > nbytes or nbytes * size <= thresholds.SMALL_RESULT * count:
        return vmap
    most = max(1, thresholds.WRITTEN_OUT // len(operations))
    # Where the function is a loop itself all are written out: a loop in a loop is not compiled to a single dispatch.
    if most >= size or any(op.name == "stablehlo.while" for op in operations):
        return in_a_row
    return lambda function: _rows(function, max(k for k in range(1, most + 1) if size % k == 0))


def in_a_row(function: Function) -> Function:
    """The function of each vector along a leading axis, written out; each begins when the one before has ended.

    IREE runs at the same time what does not depend on each other: on a pool of threads a dense network took 1070 µs
    for each of 16 vectors, whose results did not stay in the cache, and 520 in a row. It also compiles sooner.
    """

    def each(vectors: Any) -> Any:
        leaves, spec = pytree.flatten(vectors)
        rows = [pytree.unflatten(spec, [x[i] for x in leaves]) for i in range(leaves[0].shape[0])]
        results = [pytree.flatten(result) for result in in_turn(function, rows)]
        parts = zip(*(found for found, _ in results), strict=True)
        return pytree.unflatten(results[0][1], [nnp.stack(part) for part in parts])

    return each


def in_turn(function: Function, vectors: Sequence[Any]) -> list[Any]:
    """The results for each vector, as `in_a_row` computes them."""
    results: list[Any] = []
    for vector in vectors:
        if results:  # who reads the vector waits for the last result
            vector, results[-1] = apart((vector, results[-1]))
        leaves, spec = pytree.flatten(function(vector))
        results.append(pytree.unflatten(spec, [as_tensor(x) for x in leaves]))
    return results


def apart(tree: Any) -> Any:
    """The same values; what makes them and what reads them are in no kernel together."""
    leaves, spec = pytree.flatten(tree)
    return pytree.unflatten(spec, optimization_barrier(*leaves))


def _rows(function: Function, length: int) -> Function:
    """A loop whose steps take `length` vectors in a row; their number is a multiple of that."""

    def each(vectors: Any) -> Any:
        leaves, spec = pytree.flatten(vectors)
        rows = [nnp.reshape(x, (x.shape[0] // length, length, *x.shape[1:])) for x in leaves]
        _, results = scan(lambda _, row: (None, in_a_row(function)(row)), None, pytree.unflatten(spec, rows))
        leaves, spec = pytree.flatten(results)
        return pytree.unflatten(spec, [nnp.reshape(x, (-1, *x.shape[2:])) for x in leaves])

    return each
