"""Sums over batches on one machine, as linear operators of SciPy, for data that need not fit in memory."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from nabla_mlir.base import thresholds
from nabla_mlir.base.errors import TraceError, check_function
from nabla_mlir.base.exchange import readable
from nabla_mlir.base.typing import PyTree
from nabla_mlir.prepared.batches import Batches, Limits, LocalEngine
from nabla_mlir.prepared.pieces import Work
from nabla_mlir.prepared.sources import is_mean_of_rows, prepared_module
from nabla_mlir.prepared.sums import SummedOperator
from nabla_mlir.targets import Target

_NEEDED = ("update", "apply", "apply_block")


class SumOperator(SummedOperator):
    """The Hessian of a sum over batches, ``Σ f(x, *batch)``, as a `scipy.sparse.linalg.LinearOperator`.

    One or a few batches are in memory at a time, and value, gradient and products are added up batch by batch. The residuals of a
    batch, which depend on the batch and x, are stored as far as they fit into `max_residual_bytes`. For the other batches, each
    product reads the data and recomputes the residuals. Products with several columns do this once.

    Args:
      source: the function; or a module from `hvp_module`, `ggnvp_module`, `fisher_module` or `empirical_fisher_module` for one
        batch, compiled or not; or an artifact of such a module, loaded or as a path, which runs without the compiler.
      x: the first point, a pytree.
      batches: a sequence of tuples of arrays, the data arguments of the function; or any other iterable that can be read again,
        such as a PyTorch DataLoader; or a function that returns an iterator. Views of memory-mapped arrays are read when needed.
      reduction: "sum"; or "mean" if f is the mean of its rows. The operator is then ``Σ nᵢ f(x, *batchᵢ) / Σ nᵢ``. A sum of means
        gets a warning.
      mask: the name of an argument of f with weights of rows, of shape (rows,). Batches are passed without it, and rows that fill
        up a short batch have weight zero.
      short: the treatment of a batch with fewer rows than the first. "pad" runs the same code on it (see `prepared/pieces.py`;
        without a mask, f must be a sum or a mean over rows, which is checked). "compile" compiles for its shape.
      max_residual_bytes: the largest size of all residuals. Those of an artifact that does not state their size are not stored.
      threads: the number of batches that are computed at the same time. None means the number of cores, one core for each batch,
        if there are that many batches. The result is the same for any number.
      block: the number of columns of a matrix that are multiplied at once.
      damping: a number that is added to the diagonal.
      target: where it runs; None compiles for this CPU.
      check_data: True refuses a pass over the data that differs from the first one.
      progress: True shows a bar on a terminal if rich is installed, otherwise a line.

    Attributes:
      stored_batches: the number of batches with residuals in memory.

    Raises:
      BatchError: a batch raises, or does not fit the function; `number` is its index. The operator stays at its point.
      DataChangedError: a pass reads other data than the first.
      NotFiniteBatchError: a batch has NaN or infinity at the first point.
      TraceError: the batches can be read only once.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> rows = np.arange(10.0).reshape(5, 2)
      >>> f = lambda x, rows: ((rows @ x) ** 2).sum() / 2
      >>> H = nm.SumOperator(f, np.ones(2), [(rows[i : i + 2],) for i in (0, 2, 4)], target=nm.Interpreter())
      >>> (H @ np.ones(2)).tolist() == (rows.T @ rows @ np.ones(2)).tolist(), H.rows, H.value
      (True, 5, 282.5)
    """

    engine: LocalEngine

    def __init__(
        self,
        source: Any,
        x: PyTree,
        batches: Iterable[Any] | Callable[[], Iterable[Any]],
        *,
        reduction: str = "sum",
        mask: str = "",
        short: str = "pad",
        max_residual_bytes: int = thresholds.RESIDUALS,
        threads: int | None = None,
        block: int = thresholds.BLOCK,
        damping: float = 0.0,
        target: str | Target | None = None,
        check_data: bool = True,
        progress: bool = False,
    ):
        """Compiles the products for one batch, and moves the operator to the point x; the class describes the arguments."""
        if short not in ("pad", "compile"):
            raise TraceError(f"short requires 'pad' or 'compile', got {short!r}.")
        readings = Batches(batches)
        make = lambda data: work_of(source, x, data, reduction, mask, block=block, target=target)  # noqa: E731
        work = make(readings.first())
        limits = Limits(threads, max_residual_bytes, progress, check_data)
        others = None
        if short == "compile":
            if not is_function(source):
                raise TraceError(f"short='compile' requires a function as the source, got a {type(source).__name__}.")
            others = _Works(make)
        super().__init__(work, LocalEngine(work, readings, limits, others), x, damping)
        if reduction == "sum" and self.rows > work.length and is_function(source):
            first = readings.first()
            if is_mean_of_rows(source, x, _with_mask(source, x, first, mask) if mask else first):
                warnings.warn(
                    "nm.SumOperator adds up the values of the batches, and the function is a mean over the rows of a batch: the "
                    "result grows with the number of batches. Write reduction='mean' for the mean over all rows, or sum the rows "
                    "in the function.",
                    RuntimeWarning,
                    stacklevel=2,
                )


class _Works:
    """A function that returns the computation for a batch, which is compiled at the first batch of its shapes."""

    def __init__(self, make: Callable[[tuple[Any, ...]], Work]):
        """An empty cache; `make` returns the computation for the arrays of a batch, and compiles it."""
        self._make = make
        self._works: dict[Any, Work] = {}

    def __call__(self, data: tuple[Any, ...]) -> Work:
        """The computation for the arrays of a batch; it is made once for each combination of their shapes."""
        shapes = tuple(getattr(readable(array), "shape", ()) for array in data)
        if shapes not in self._works:
            self._works[shapes] = self._make(data)
        return self._works[shapes]


def work_of(
    source: Any,
    x: PyTree,
    data: tuple[Any, ...],
    reduction: str,
    mask: str,
    *,
    block: int = thresholds.BLOCK,
    target: str | Target | None = None,
) -> Work:
    """The computation for each batch, a compiled module with the treatment of rows, from the arguments of a user.

    Args:
      source, x, reduction, mask, block, target: as in `SumOperator`.
      data: a full batch.

    Raises:
      TraceError: the reduction or the argument does not exist.
    """
    if reduction not in ("sum", "mean"):
        raise TraceError(f"reduction requires 'sum' or 'mean', got {reduction!r}.")
    point = (x, *_with_mask(source, x, data, mask)) if mask and is_function(source) else (x, *data)
    if is_function(source):
        names = [f"array {i}" for i in range(len(point) - 1)]
        check_function(
            "a sum over batches", source, "x", *names, help="each batch is a tuple of the other arguments: [(rows, labels), ...]."
        )
    module = prepared_module(source, "hvp_module", point, target, at_once=True, block=block, entry_points=_NEEDED)
    return Work(module, reduction == "mean", mask)


def is_function(source: Any) -> bool:
    """True if a source is a function, and not a stage or an artifact, which can be called, too."""
    return callable(source) and not hasattr(source, "entries") and not hasattr(source, "manifest")


def _with_mask(f: Callable[..., Any], x: Any, data: tuple[Any, ...], mask: str) -> tuple[Any, ...]:
    """The data arguments of f for a batch, with weights of one for its rows inserted at the argument named `mask`.

    `x` is the point, which gives the dtype of the weights, and `data` has the arrays of the batch. Raises TraceError if f has no
    such argument.
    """
    names = list(inspect.signature(f).parameters)[1:]
    if mask not in names:
        raise TraceError(f"mask requires the name of an argument with data, {', '.join(names)}, got {mask!r}.")
    first = next(array for array in map(readable, data) if getattr(array, "shape", ()))
    weights = np.ones(first.shape[0], pytree_dtype(x))
    return (*data[: names.index(mask)], weights, *data[names.index(mask) :])


def pytree_dtype(tree: Any) -> np.dtype:
    """The dtype of the first array of a pytree of dicts, lists and tuples."""
    while isinstance(tree, (dict, list, tuple)):
        tree = next(iter(tree.values() if isinstance(tree, dict) else tree))
    return np.asarray(readable(tree)).dtype
