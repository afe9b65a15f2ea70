"""Sparse Jacobians and Hessians: products with groups of unit vectors, and the position of each entry in them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nabla_mlir.base import thresholds
from nabla_mlir.base.errors import PatternError, check_function, user_frame
from nabla_mlir.numpy import concatenate
from nabla_mlir.sparse.coloring import Coloring, color
from nabla_mlir.sparse.detection import FlatCall, pattern_at
from nabla_mlir.sparse.matrix import SparseMatrix, added, read
from nabla_mlir.sparse.pattern import Pattern
from nabla_mlir.sparse.trees import Substitution, mirror, substitution
from nabla_mlir.staging.eager import staged
from nabla_mlir.staging.positions import Argnums, positions
from nabla_mlir.table.promotion import as_tensor
from nabla_mlir.table.tensor import Tensor, constant
from nabla_mlir.transforms.linear import linearized, pullback
from nabla_mlir.transforms.vectorize import vmap
from nabla_mlir.transforms.vectorized import per_vectorized_entry

_SYMMETRIC = ("star", "acyclic", "column")


def jacobian(
    f: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    kind: str = "auto",
    order: str | Sequence[int] = "best",
    pattern: Any = None,
    coloring: Coloring | None = None,
) -> Callable[..., Any]:
    """The Jacobian of `f` as a `SparseMatrix`, from as many derivatives as its coloring has colors.

    J[i, j] = ∂f_i/∂x_j, for the elements of the results and of the arguments at `argnums`, one leaf after the other. Columns that
    share no row are pushed forward together, and rows that share no column are pulled back together, in one map over all colors.
    The values of `f` are computed once.

    Args:
      f: a function of pytrees of arrays.
      argnums: the positional argument(s) to differentiate.
      kind: column, row, bidirectional, or "auto": the cheapest of them, if a row costs as much as two columns.
      order: as in `color`.
      pattern: the positions of the entries, in any form that `Pattern.of` accepts; by default it is found on the IR. It is not
        checked: see `check_pattern`.
      coloring: a coloring of the pattern; it replaces the three arguments above.

    Returns:
      A function with the arguments of `f`; the pattern and the coloring are found when it is traced, so once inside `jit`.

    Raises:
      PatternError: the pattern is too large, or has another shape than the Jacobian; or the coloring is of another pattern.
      DtypeError: an argument or a result is not floating-point.

    Example:
      >>> import nabla_mlir as nm
      >>> nm.sparse.jacobian(lambda x: x[1:] * x[:-1])(np.array([1.0, 2.0, 3.0])).to_dense().tolist()
      [[2.0, 1.0, 0.0], [0.0, 3.0, 2.0]]
    """
    if kind not in ("auto", "column", "row", "bidirectional"):
        raise PatternError(f"jacobian requires a kind among auto, column, row, bidirectional, got {kind!r}.", where=user_frame())

    def run(call: FlatCall) -> SparseMatrix:
        """The sparse Jacobian of the flattened function `call`, from products with the groups of columns of a coloring."""
        colors = _check_coloring(coloring)
        if colors is None:
            where = pattern_at(call, call.tensors) if pattern is None else Pattern.of(pattern)
            colors = cheapest(where, order) if kind == "auto" else _cached_color(where, kind, order)
        return _compress(call, call, colors, "jacobian")

    return _transform("jacobian", f, argnums, run)


def hessian(
    f: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    kind: str = "star",
    order: str | Sequence[int] = "best",
    pattern: Any = None,
    coloring: Coloring | None = None,
) -> Callable[..., Any]:
    """The Hessian of a scalar function as a `SparseMatrix`, from as many Hessian-vector products as its coloring has colors.

    H[i, j] = ∂²f/∂x_i∂x_j. The products share one gradient.

    Args:
      f: a scalar function of pytrees of arrays.
      argnums, order, pattern, coloring: as in `jacobian`.
      kind: with "star", each entry is read from a product. "acyclic" needs about half as many products, from which the entries
        follow by substitution along trees; rounding errors add up along the paths. "column" does not use symmetry.

    Raises:
      PatternError: the pattern is too large, has another shape than the Hessian, or is not symmetric; or the coloring is of
        another pattern.
      DtypeError: an argument or a result is not floating-point.

    Example:
      >>> import nabla_mlir as nm
      >>> nm.sparse.hessian(lambda x: (x[1:] * x[:-1] ** 2).sum())(np.array([1.0, 2.0, 3.0])).to_dense().tolist()
      [[4.0, 2.0, 0.0], [2.0, 6.0, 4.0], [0.0, 4.0, 0.0]]
    """
    if kind not in _SYMMETRIC:
        raise PatternError(f"hessian requires a kind among {', '.join(_SYMMETRIC)}, got {kind!r}.", where=user_frame())

    def run(call: FlatCall) -> SparseMatrix:
        """The sparse Hessian of the flattened function `call`, from products with the groups of columns of a coloring."""
        colors = _check_coloring(coloring)
        if colors is None:
            where = pattern_at(call.gradient, call.tensors, symmetric=True) if pattern is None else Pattern.of(pattern)
            colors = _cached_color(where, kind, order)
        return _compress(call, call.gradient, colors, "hessian")

    return _transform("hessian", f, argnums, run)


def _check_coloring(coloring: Coloring | None) -> Coloring | None:
    """The coloring of the user, or None, after a check: a wrong coloring would give a wrong matrix silently."""
    if coloring is not None:
        coloring.verify()
    return coloring


def _transform(what: str, f: Callable[..., Any], argnums: Argnums, run: Callable[[FlatCall], Any]) -> Callable[..., Any]:
    """A function that gives each call of `f`, flattened to vectors, to `run`; it is compiled like other transforms.

    `what` is the name of the transform, and `argnums` are the differentiated arguments.
    """
    check_function(what, f)
    positions(what, argnums, None)

    def call(*args: Any, **kwargs: Any) -> Any:
        return run(FlatCall(what, f, argnums, args, kwargs))

    transform = staged(per_vectorized_entry(call))
    return functools.wraps(f)(lambda *args, **kwargs: transform(*args, **kwargs))


def cheapest(pattern: Pattern, order: str | Sequence[int] = "best") -> Coloring:
    """The coloring with the cheapest products; a row costs as much as `thresholds.PULLBACK_COST` columns.

    Args:
      pattern: the pattern of the matrix.
      order: as in `color`.

    Example:
      >>> import nabla_mlir as nm
      >>> nm.sparse.cheapest(nm.sparse.Pattern.of(np.ones((1, 100)))).kind
      'row'
    """
    trials = [_cached_color(pattern, kind, order) for kind in ("column", "row")]
    if min(c.num_colors for c in trials) > 1:
        trials.append(_cached_color(pattern, "bidirectional", order))
    return min(trials, key=lambda c: c.num_column_colors + thresholds.PULLBACK_COST * c.num_row_colors)


@functools.lru_cache(maxsize=64)
def _cached_color(pattern: Pattern, kind: str, order: Any) -> Coloring:
    """The coloring of a pattern; it is cached, because a repeated trace has equal patterns."""
    return color(pattern, kind, order)


def _one_hot(colors: np.ndarray, count: int, dtype: np.dtype) -> Tensor:
    """For each of `count` colors, the sum of the unit vectors of this color, as a comparison that is computed by its readers."""
    numbers = constant(np.arange(count, dtype=np.int32)[:, None])
    return (constant(colors.astype(np.int32)) == numbers).astype(dtype)


def _compress(call: FlatCall, function: Callable[..., Tensor], coloring: Coloring, what: str) -> SparseMatrix:
    """The sparse matrix, from products with the groups of a coloring: columns by forward mode, rows by reverse mode.

    Args:
      call: the call, for its shapes.
      function: the function that is differentiated: the call, or its gradient.
      coloring: the coloring.
      what: the name of the transform, for errors.
    """
    pattern = coloring.pattern
    tensors = tuple(call.tensors)
    columns = sum(call.sizes)
    if coloring.num_row_colors:
        out, pull = pullback(function, tensors, False)
    else:
        out, push = linearized(function, tensors, False)
    if pattern.shape != (out.size, columns):
        raise PatternError(
            f"{what} requires a pattern of shape {(out.size, columns)}, got {pattern!r}.",
            where=user_frame(),
            help="its rows are the elements of the results, its columns those of the arguments at argnums.",
        )
    if coloring.num_row_colors and coloring.num_column_colors:
        push = linearized(function, tensors, False)[1]
    data = decompressed(coloring, tensors[0].dtype, lambda v: push(*call.parts(v)), out.dtype, lambda v: call.flat(list(pull(v))))
    return SparseMatrix(data, pattern)


def decompressed(
    coloring: Coloring, x_dtype: np.dtype, push: Callable[[Tensor], Tensor], out_dtype: np.dtype, pull: Callable[[Tensor], Tensor]
) -> Tensor:
    """The entries of the matrix J, in the order of its pattern, from products with the groups of a coloring.

    `push` computes J v for a vector of dtype `x_dtype`, and `pull` computes Jᵀ u for one of dtype `out_dtype`.
    """
    products = []
    if coloring.num_column_colors:
        seeds = _one_hot(coloring.columns, coloring.num_column_colors, x_dtype)
        products.append(vmap(push)(seeds).reshape(-1))
    if coloring.num_row_colors:
        seeds = _one_hot(coloring.rows, coloring.num_row_colors, out_dtype)
        products.append(vmap(pull)(seeds).reshape(-1))
    if not products:
        return as_tensor(np.zeros(0, x_dtype))
    numbers = products[0] if len(products) == 1 else concatenate(products)
    if coloring.kind == "acyclic":
        return _substitute(numbers, substitution(coloring.pattern, coloring.columns))
    return read(numbers, sources(coloring))


def sources(coloring: Coloring) -> np.ndarray:
    """The index of each entry of the matrix in the products, which are concatenated, those of column colors before those of row
    colors.

    `coloring` has the color of each column or row.

    Example: entry (row, column) of a matrix of m rows is at color * m + row, where color is that of the column.
    """
    pattern = coloring.pattern
    m, n = pattern.shape
    row, column = pattern.row_of_entry, pattern.indices
    offsets = coloring.columns[column] * m + row
    if coloring.kind == "star":
        return np.where(coloring.by_column, offsets, offsets[mirror(pattern)]).astype(np.int32)
    return np.where(coloring.by_column, offsets, coloring.num_column_colors * m + coloring.rows[row] * n + column).astype(np.int32)


def _substitute(numbers: Tensor, plan: Substitution) -> Tensor:
    """The entries of a matrix from its products `numbers` by an acyclic coloring: sums over subtrees of the trees of two colors.

    `plan` says which numbers to add (see `Substitution`). Each round doubles the distance over which it sums.
    """
    values = read(numbers, plan.source)
    for k, (below, above) in enumerate(plan.rounds):
        terms = read(values, below)
        values = values + added(-terms if k == 0 else terms, above, values.shape)
    return read(values, plan.entry)


def check_pattern(f: Callable[..., Any], pattern: Any, *args: Any, argnums: Argnums = 0, seed: int = 0) -> None:
    """Checks a pattern of the Jacobian of `f` at a point: it compares the compressed Jacobian with a product by a random vector.

    A wrong pattern gives a wrong matrix silently. This check finds it with probability one, up to rounding, if a missing entry is
    not zero at the point.

    Args:
      f: the function.
      pattern: a pattern in any form that `Pattern.of` accepts.
      args: concrete arguments of `f`.
      argnums: as in `jacobian`.
      seed: the seed of the random vector.

    Raises:
      PatternError: an entry of the Jacobian is not in the pattern; the message names it.

    Example:
      >>> import nabla_mlir as nm
      >>> nm.sparse.check_pattern(lambda x: x * x, np.eye(2), np.array([1.0, 2.0]))
    """
    where = Pattern.of(pattern)

    def both(*args: Any) -> Any:
        """The product of a random vector with the sparse Jacobian, and with the true Jacobian by forward mode."""
        call = FlatCall("check_pattern", f, argnums, args, {})
        matrix = _compress(call, call, _cached_color(where, "column", "natural"), "check_pattern")
        rng = np.random.default_rng(seed)
        vector = as_tensor(rng.uniform(1.0, 2.0, where.shape[1]).astype(call.tensors[0].dtype))
        _, push = linearized(call, tuple(call.tensors), False)
        return matrix @ vector, push(*call.parts(vector))

    ours, truth = (np.asarray(x) for x in staged(both)(*args))
    scale = np.abs(truth).max(initial=0.0) + np.abs(ours).max(initial=0.0)
    wrong = np.nonzero(np.abs(ours - truth) > 1e3 * np.finfo(truth.dtype).eps * scale)[0]
    if wrong.size:
        _raise_missing_entry(f, where, args, argnums, int(wrong[0]))


def _raise_missing_entry(f: Callable[..., Any], pattern: Pattern, args: Sequence[Any], argnums: Argnums, row: int) -> None:
    """Raises PatternError with an entry in row `row` of the Jacobian of `f` that the pattern lacks; its first entry if it lacks
    none.

    `args` are the arguments of `f`, and `argnums` the positions of the differentiated ones.
    """

    def row_of(*args: Any) -> Tensor:
        call = FlatCall("check_pattern", f, argnums, args, {})
        out, pull = pullback(call, tuple(call.tensors), False)
        return call.flat(list(pull(_one_hot(np.arange(out.size) - row, 1, out.dtype)[0])))

    derivative = np.asarray(staged(row_of)(*args))
    columns = pattern.indices[pattern.indptr[row] : pattern.indptr[row + 1]]
    lacking = np.setdiff1d(np.nonzero(derivative)[0], columns)
    entry = (row, int(lacking[0])) if lacking.size else (row, int(columns[0]) if columns.size else 0)
    raise PatternError(
        f"check_pattern requires a pattern with every entry of the Jacobian, got none at {entry}, which is "
        f"{derivative[entry[1]]:.6g}.",
        where=user_frame(),
        help="nm.sparse.jacobian_pattern(f, ...) finds the pattern of the function.",
    )
