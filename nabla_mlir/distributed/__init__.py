"""Sums over data on many machines: the same operators on the workers of a Dask cluster, or on the ranks of MPI."""

from __future__ import annotations

import itertools
from typing import Any

from nabla_mlir.base import thresholds
from nabla_mlir.base.errors import TraceError
from nabla_mlir.base.typing import PyTree
from nabla_mlir.interop.dask import DaskEngine, placed, shapes
from nabla_mlir.interop.mpi import MPIEngine, agreed
from nabla_mlir.prepared.batches import Batches, Limits, LocalEngine
from nabla_mlir.prepared.shapes import longest, shapes_of
from nabla_mlir.prepared.sum_operator import work_of
from nabla_mlir.prepared.sums import Engine, SummedOperator
from nabla_mlir.targets import Target


class HessianOperator(SummedOperator):
    """The Hessian of a sum over shards, ``Σ f(x, *shard)``, as a `scipy.sparse.linalg.LinearOperator`.

    With a Dask client, each shard and its residuals stay on one worker. The point and vectors are sent there, and sums come
    back through a tree. If a worker dies, its data are computed again. With an MPI communicator, every rank makes the operator
    of its own shards, all ranks call it at the same time, and all get the same results.

    Args:
      source: as in `nm.SumOperator`. A `Bundle`, or a .zip with code for several targets, is sent whole, and each worker uses the
        code that fits it.
      x: the first point, a pytree.
      shards: with a client, a list of tuples of arrays, of dask's delayed objects, or of futures; or one dask array or a tuple of
        them, whose chunks along the first axis are the shards. With a communicator, the batches of this rank, as in
        `nm.SumOperator`; a rank may have none. Shards with fewer rows than the longest are filled up like short batches.
      client: a `dask.distributed.Client`.
      comm: a communicator of mpi4py, such as ``MPI.COMM_WORLD``.
      reduction, mask, block, damping, target: as in `nm.SumOperator`.
      max_residual_bytes: the largest size of the residuals of all shards, or of those of this rank. Other residuals are recomputed
        in each product. None means as much as fits into the workers' memory next to the data (Dask), or all (MPI).
      patience: the largest number of seconds without a running task on a Dask cluster, so that dead workers can
        return.
      progress: True shows a bar on a terminal, of tasks on Dask, and of the batches of the first rank on MPI; needs rich.

    Raises:
      BatchError: a shard raises, or does not fit the function; `number` is its index. The cluster and the operator remain usable.
      DataChangedError: a shard has other data when it is read again.
      DeployError: dask or mpi4py is not installed, the cluster is closed, or no worker runs a task, because all have died or are
        paused for their memory.
      TraceError: neither a client nor a communicator is passed, or both are.

    Example:
      >>> from dask.distributed import Client, LocalCluster  # doctest: +SKIP
      >>> client = Client(LocalCluster(n_workers=3, threads_per_worker=1))  # doctest: +SKIP
      >>> shards = [(rows[i : i + 1000], labels[i : i + 1000]) for i in range(0, len(rows), 1000)]  # doctest: +SKIP
      >>> H = nm.distributed.HessianOperator(loss, x, shards, client=client)  # doctest: +SKIP
      >>> H @ v, H.value, H.update(x + v)  # doctest: +SKIP
    """

    def __init__(
        self,
        source: Any,
        x: PyTree,
        shards: Any,
        *,
        client: Any = None,
        comm: Any = None,
        reduction: str = "sum",
        mask: str = "",
        max_residual_bytes: int | None = None,
        block: int = thresholds.BLOCK,
        damping: float = 0.0,
        target: str | Target | None = None,
        patience: float = 60.0,
        progress: bool = False,
    ):
        """The operator at the point x; the class describes the arguments."""
        if (client is None) == (comm is None):
            raise TraceError(
                f"a distributed operator requires client= or comm=, got {'none' if client is None else 'both'}.",
                help="Client(LocalCluster()) of dask.distributed, or MPI.COMM_WORLD of mpi4py; or nm.SumOperator.",
            )
        make = lambda data: work_of(source, x, data, reduction, mask, block=block, target=target)  # noqa: E731
        if client is not None:
            futures = placed(shards, client)
            work = make(longest(shapes(futures, client, patience)))
            engine: Engine = DaskEngine(work, source, futures, client, max_residual_bytes, patience, progress)
        else:
            batches = Batches(shards)
            firsts = comm.allgather(agreed(comm, lambda: [shapes_of(reading()) for reading in itertools.islice(batches, 1)]))
            work = agreed(comm, lambda: make(longest([shape for rank in firsts for shape in rank])))
            residual_bytes = 2**62 if max_residual_bytes is None else max_residual_bytes
            limits = Limits(residual_bytes=residual_bytes, progress=progress and comm.rank == 0)
            engine = MPIEngine(LocalEngine(work, batches, limits), comm)
        super().__init__(work, engine, x, damping)
