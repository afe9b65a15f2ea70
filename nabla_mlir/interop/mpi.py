"""Sums over the data of all MPI ranks: each rank sums its own batches, and `Allreduce` adds the sums of the ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from nabla_mlir.base.errors import BatchError, DeployError
from nabla_mlir.prepared.batches import LocalEngine
from nabla_mlir.prepared.pieces import Part
from nabla_mlir.prepared.sums import AtOnce

T = TypeVar("T")


class MPIEngine(AtOnce):
    """Computes a sum over the batches of all ranks; every rank calls it at the same time, with the same point and vectors.

    For the same number of ranks, with the same batches, the results are the same bits, on each rank.

    Args:
      local: the engine for the sum over the batches of this rank.
      comm: a communicator of mpi4py.
    """

    local: LocalEngine
    comm: Any

    def __init__(self, local: LocalEngine, comm: Any):
        self.local, self.comm = local, comm

    @property
    def stored_batches(self) -> int:
        """The number of batches of this rank with residuals in memory."""
        return self.local.stored_batches

    def update(self, x: np.ndarray, check: bool) -> Part:
        """Moves the batches of all ranks to the point `x`, and returns the sum of their values and gradients; `check` checks the
        data.
        """
        part = agreed(self.comm, lambda: self.local.update(x, check))
        rows = self.comm.allreduce(part.rows)
        return Part(self._summed(part.vector), rows)

    def product(self, matrix: np.ndarray) -> np.ndarray:
        """The sum of the batches' products with a matrix."""
        return self._summed(agreed(self.comm, lambda: self.local.product(matrix)))

    def _summed(self, array: np.ndarray) -> np.ndarray:
        """The sum of the arrays of all ranks, in the same form on each rank."""
        total = np.ascontiguousarray(array)
        self.comm.Allreduce(_in_place(), total)
        return total


def agreed(comm: Any, compute: Callable[[], T]) -> T:
    """The result of `compute` on this rank, after all ranks of `comm` have theirs.

    If one rank has failed, all ranks raise, so that none waits for the sum forever.

    Raises:
      BatchError: another rank failed; the message says which, and why.
    """
    error: Exception | None = None
    result: list[T] = []
    try:
        result.append(compute())
    except Exception as caught:
        error = caught
    if not comm.allreduce(int(error is not None)):
        return result[0]
    errors = comm.allgather(None if error is None else (getattr(error, "number", -1), f"{type(error).__name__}: {error}"))
    if error is not None:
        raise error
    rank, (number, text) = next((i, e) for i, e in enumerate(errors) if e is not None)
    raise BatchError(f"rank {rank} requires batches that can be computed, got {text}", number=number)


def world() -> Any:
    """The communicator of all ranks.

    Raises:
      DeployError: mpi4py is not installed.
    """
    return _mpi().COMM_WORLD


def _in_place() -> Any:
    return _mpi().IN_PLACE


def _mpi() -> Any:
    """The module `mpi4py.MPI`; raises DeployError if it is not installed."""
    try:
        from mpi4py import MPI
    except ImportError:
        raise DeployError("a sum over ranks requires mpi4py, got none.", help='pip install "nabla-mlir[mpi]"') from None
    return MPI
