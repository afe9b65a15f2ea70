"""Products of a block of vectors: three forms to apply a linear function of one vector to several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from iree.compiler import ir

from nabla_mlir import numpy as nnp
from nabla_mlir.base import pytree, thresholds
from nabla_mlir.ops.barrier import optimization_barrier
from nabla_mlir.rules.cost import written_by
from nabla_mlir.table.promotion import as_tensor
from nabla_mlir.transforms.scans import scan
from nabla_mlir.transforms.vectorize import vmap

Function = Callable[[Any], Any]
Form = Callable[[Function], Function]  # a transform of a function of one vector to a function of vectors along a leading axis


def form_of_block(operations: Sequence[ir.Operation], state: int, size: int) -> Form:
    """The fastest transform of a function of one vector to a function of `size` vectors along a leading axis.

    It is a batch, a list of calls, or a loop over short groups. A batch is faster if the vectors share a state that is larger than
    the values that each of them writes: products of a matrix with vectors become products of two matrices. It is also faster if
    the work is so small that the number of operations counts. Otherwise a batch only makes intermediate results larger than the
    cache. Example, 16 vectors: a recurrent network takes 380 µs for each vector as a batch, and 52 µs one after another; a
    residual block 3000 and 2000 µs.

    Args:
      operations: the operations of the function for one vector, including its return.
      state: the bytes that it reads in addition to the vector.
      size: the number of vectors.
    """
    nbytes, count = written_by(operations)
    if state > nbytes or nbytes * size <= thresholds.SMALL_RESULT * count:
        return vmap
    most = max(1, thresholds.WRITTEN_OUT // len(operations))
    # If the function has a loop, all calls are written out: IREE does not compile nested loops to a single dispatch.
    if most >= size or any(op.name == "stablehlo.while" for op in operations):
        return in_a_row
    return lambda function: _loop_over_groups(function, max(k for k in range(1, most + 1) if size % k == 0))


def in_a_row(function: Function) -> Function:
    """A function of several vectors along a leading axis, which calls `function` for one vector after the other, without a loop.

    IREE runs independent operations at the same time. On a thread pool, a dense network took 1070 µs for each of 16
    vectors, because the results did not stay in the cache, and 520 µs one after another. This form also compiles
    faster.
    """

    def each(vectors: Any) -> Any:
        """The result for each vector (pytrees with a leading axis, as in `vectors`), stacked along a leading axis."""
        leaves, spec = pytree.flatten(vectors)
        rows = [pytree.unflatten(spec, [x[i] for x in leaves]) for i in range(leaves[0].shape[0])]
        results = [pytree.flatten(result) for result in one_by_one(function, rows)]
        parts = zip(*(leaves_of_result for leaves_of_result, _ in results), strict=True)
        return pytree.unflatten(results[0][1], [nnp.stack(part) for part in parts])

    return each


def one_by_one(function: Function, vectors: Sequence[Any]) -> list[Any]:
    """The list of results, one for each vector; a call reads its vector only after the call before it has its result."""
    results: list[Any] = []
    for vector in vectors:
        if results:  # the readers of the vector wait for the last result
            vector, results[-1] = columns((vector, results[-1]))
        leaves, spec = pytree.flatten(function(vector))
        results.append(pytree.unflatten(spec, [as_tensor(x) for x in leaves]))
    return results


def columns(tree: Any) -> Any:
    """The pytree with the same values behind a barrier: no kernel contains operations from both sides of it."""
    leaves, spec = pytree.flatten(tree)
    return pytree.unflatten(spec, optimization_barrier(*leaves))


def _loop_over_groups(function: Function, length: int) -> Function:
    """A function of several vectors along a leading axis: a loop whose iterations apply `in_a_row` to `length` vectors each.

    The number of vectors must be a multiple of `length`.
    """

    def each(vectors: Any) -> Any:
        """The result for each vector, stacked along a leading axis, by a loop over groups of `length` vectors."""
        leaves, spec = pytree.flatten(vectors)
        rows = [nnp.reshape(x, (x.shape[0] // length, length, *x.shape[1:])) for x in leaves]
        _, results = scan(lambda _, row: (None, in_a_row(function)(row)), None, pytree.unflatten(spec, rows))
        leaves, spec = pytree.flatten(results)
        return pytree.unflatten(spec, [nnp.reshape(x, (-1, *x.shape[2:])) for x in leaves])

    return each
