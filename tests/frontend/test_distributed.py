"""Sums over shards on a cluster of processes and on ranks: equal to one process, also when workers die. Needs dask or mpi4py."""

from __future__ import annotations

import importlib.util
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse.linalg import cg

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import (
    BatchError,
    DataChangedError,
    DeployError,
    NotFiniteBatchError,
    NotFiniteError,
    ShapeError,
    TraceError,
    TreeError,
)

pytestmark = pytest.mark.slow
RNG = np.random.default_rng(6)
ROWS, WIDTH, SHARD = 1010, 5, 100
X, Y = RNG.normal(size=(ROWS, WIDTH)), RNG.integers(0, 2, ROWS).astype(float)
W, V = RNG.normal(size=WIDTH), RNG.normal(size=(WIDTH, 20))
SHARDS = [(X[i : i + SHARD], Y[i : i + SHARD]) for i in range(0, ROWS, SHARD)]


def total(w: Any, rows: Any, labels: Any) -> Any:
    z = rows @ w
    return nnp.sum(nnp.log1p(nnp.exp(z)) - labels * z)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    import dask

    # A worker that has gone at this time after its death, since it was killed once more, is given up by the cluster.
    patient = dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"})
    with patient, distributed.LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=None) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: Any) -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    with distributed.Client(cluster) as client:
        client.wait_for_workers(3, timeout=60)
        yield client


@pytest.fixture(scope="module")
def compiled() -> Any:
    names = ("update", "apply", "apply_block")
    return nm.hvp_module(total, nm.spec(WIDTH, "f64"), *SHARDS[0], entry_points=names).compile()


@pytest.fixture(scope="module")
def local(compiled: Any) -> Any:
    return nm.SumOperator(compiled, W, SHARDS)


def check(H: Any, local: Any) -> None:
    for name in ("value", "gradient"):
        np.testing.assert_allclose(getattr(H, name), getattr(local, name), rtol=1e-12)
    np.testing.assert_allclose(H @ V, local @ V, rtol=1e-11, atol=1e-11)
    assert H.rows == ROWS


@pytest.mark.parametrize("bound", [None, 20000, 0])
def test_a_cluster_gives_what_one_process_gives(client: Any, compiled: Any, local: Any, bound: int | None) -> None:
    H = nm.distributed.HessianOperator(compiled, W, SHARDS, client=client, max_residual_bytes=bound)
    assert H.stored_batches == {None: 11, 20000: 2, 0: 0}[bound]
    assert [hasattr(source, "key") for source in H.engine._sources].count(True) == H.stored_batches
    check(H, local)
    first = H @ V
    H.update(2 * W)
    H.update(W)
    assert np.array_equal(H @ V, first), "in the same order each time"


def test_shards_of_every_kind(client: Any, compiled: Any, local: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sparse", None)  # a folder of tests, which dask.array would take for a package
    import dask
    import dask.array as da

    rows, labels = da.from_array(X, chunks=(SHARD, WIDTH)), da.from_array(Y, chunks=SHARD)
    load = dask.delayed(lambda i: SHARDS[i])
    kinds = {
        "arrays": (rows, labels),
        "delayed": [load(i) for i in range(len(SHARDS))],
        "delayed arrays": [tuple(map(dask.delayed, shard)) for shard in SHARDS],
        "futures": client.map(lambda i: SHARDS[i], range(len(SHARDS))),
        "empty ones": [(X[:0], Y[:0]), *SHARDS],
    }
    for shards in kinds.values():
        check(nm.distributed.HessianOperator(compiled, W, shards, client=client), local)
    with pytest.raises(ShapeError, match="require arrays with the same chunks along the first axis, and others whole, got"):
        nm.distributed.HessianOperator(compiled, W, (rows, labels.rechunk(50)), client=client)
    with pytest.raises(TreeError, match="requires at least one, got none"):
        nm.distributed.HessianOperator(compiled, W, [], client=client)
    with pytest.raises(NotFiniteError, match="requires rows, got batches that are all empty"):
        nm.distributed.HessianOperator(total, W, [(X[:0], Y[:0])] * 3, client=client, target=nm.Interpreter())
    with pytest.raises(TraceError, match="requires a client of Dask, got a str"):
        nm.distributed.HessianOperator(compiled, W, SHARDS, client="tcp://127.0.0.1:8786")


def test_a_function_a_mean_and_one_array(client: Any) -> None:
    mean = lambda w, rows: nnp.mean(nnp.tanh(rows @ w))  # noqa: E731
    shards = [X[:300], X[300:700], X[700:]]
    H = nm.distributed.HessianOperator(mean, W, shards, client=client, reduction="mean", target=nm.Interpreter(), damping=0.1)
    whole = nm.HessianOperator(mean, W, X, damping=0.1)
    np.testing.assert_allclose(H @ V, whole @ V, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(H.value, whole.value)


def test_an_artifact_for_several_machines_travels_whole(client: Any, local: Any, tmp_path: Path) -> None:
    lowered = nm.hvp_module(total, nm.spec(WIDTH, "f64"), *SHARDS[0], entry_points=("update", "apply", "apply_block"))
    bundle = lowered.compile([nm.CPU("cortex-a72", triple="aarch64-linux-gnu"), nm.CPU("generic")])
    for source in (bundle, bundle.save(tmp_path / "hvp.zip")):
        check(nm.distributed.HessianOperator(source, W, SHARDS, client=client), local)


def test_estimates_over_probes_and_shards(client: Any, compiled: Any, local: Any) -> None:
    H = nm.distributed.HessianOperator(compiled, W, SHARDS, client=client)
    *_, here = nm.hutchinson(local, 100, seed=2)
    *_, there = nm.hutchinson(H, 100, seed=2)
    np.testing.assert_allclose([there.value, there.error], [here.value, here.error], rtol=1e-10)
    assert abs(there.value - np.trace(local.to_dense())) < 4 * there.error
    before = H.products
    *_, early = nm.hutchinson(H, 1000, tolerance=0.05)
    assert early.error <= 0.05 * early.value
    assert H.products - before < 500
    *_, there = nm.hutch_plus_plus(H, 12, seed=2)
    *_, here = nm.hutch_plus_plus(local, 12, seed=2)
    np.testing.assert_allclose([there.value, there.error], [here.value, here.error], rtol=1e-9)
    *_, spectrum = nm.stochastic_lanczos(H, steps=WIDTH, probes=4)
    np.testing.assert_allclose(spectrum.nodes[0], np.linalg.eigvalsh(local.to_dense()), rtol=1e-8)


def kill_one(client: Any, H: Any) -> None:
    """The worker that has the first shard."""
    (holders,) = client.who_has(H.engine.shards[:1]).values()
    os.kill(client.run(os.getpid, workers=[holders[0]])[holders[0]], signal.SIGKILL)


def test_a_worker_dies_and_the_solve_has_the_same_answer(client: Any, compiled: Any) -> None:
    H = nm.distributed.HessianOperator(compiled, W, SHARDS, client=client)
    b = np.ones(WIDTH)
    expected, _ = cg(H, b, rtol=1e-12)
    before = H @ V
    killer = threading.Timer(0.02, kill_one, [client, H])
    killer.start()
    solutions = [cg(H, b, rtol=1e-12)[0] for _ in range(3)]
    killer.join()
    solutions.append(cg(H, b, rtol=1e-12)[0])
    for solution in solutions:
        np.testing.assert_array_equal(solution, expected)
    kill_one(client, H)
    assert np.array_equal(H @ V, before)
    H.update(2 * W)
    H.update(W)
    assert np.array_equal(H @ V, before)
    with pytest.raises(NotFiniteBatchError, match=r"batch \d+ requires finite numbers"):  # of the group that is first
        H.update(np.full(WIDTH, np.inf), check=True)
    assert np.array_equal(H @ V, before), "after an error products are those at the point before"


@pytest.mark.parametrize("is_loading", [False, True])
def test_all_workers_die_at_once(client: Any, compiled: Any, is_loading: bool) -> None:
    import dask

    def kill() -> None:
        for pid in client.run(os.getpid).values():
            os.kill(pid, signal.SIGKILL)

    def load(i: int) -> Any:
        time.sleep(0.3)
        return SHARDS[i]

    killer = threading.Timer(0.3, kill)
    if is_loading:
        killer.start()
    H = nm.distributed.HessianOperator(compiled, W, [dask.delayed(load)(i) for i in range(len(SHARDS))], client=client)
    before = H @ V
    if not is_loading:
        kill()
    assert np.array_equal(H @ V, before)
    H.update(2 * W)
    H.update(W)
    assert np.array_equal(H @ V, before)
    killer.cancel()


def test_workers_that_do_not_come_back(compiled: Any) -> None:
    distributed = pytest.importorskip("distributed")
    options: Any = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None, "processes": False}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        H = nm.distributed.HessianOperator(compiled, W, SHARDS[:3], client=client, patience=0.5)
        client.run_on_scheduler(
            lambda dask_scheduler: dask_scheduler.handle_worker_status_change("paused", *dask_scheduler.workers, "test")
        )
        with pytest.raises(
            DeployError, match=r"requires workers that run tasks, got none in 0.5 s: inproc://\S+ is paused with \d+ of"
        ) as error:
            H @ W
        assert "max_residual_bytes" in error.value.help
        cluster.scale(0)
        with pytest.raises(DeployError, match=r"got none in 0.5 s: there is no worker"):
            H @ W
        cluster.scale(1)
        np.testing.assert_allclose(H @ W, nm.SumOperator(compiled, W, SHARDS[:3]) @ W, rtol=1e-11)


def test_a_shard_that_raises_is_named_and_the_cluster_lives(client: Any, compiled: Any, local: Any) -> None:
    import dask

    def load(i: int) -> Any:
        if i == 3:
            raise OSError("no such file")
        return SHARDS[i]

    for sources in ([dask.delayed(load)(i) for i in range(5)], [(*SHARDS[0],)] * 3 + [dask.delayed(load)(3)]):
        with pytest.raises(BatchError, match="shard 3 requires tasks that end well, got OSError: no such file") as error:
            nm.distributed.HessianOperator(compiled, W, sources, client=client)
        assert error.value.number == 3
    with pytest.raises(BatchError, match=r"batch 2 .* ShapeError: a batch requires float64\[100,5\] for rows") as error:
        nm.distributed.HessianOperator(compiled, W, [*SHARDS[:2], (X[:9, :4], Y[:9])], client=client)
    assert error.value.number == 2
    bad = (np.where(X[0, 0] == X, np.nan, X)[:SHARD], Y[:SHARD])
    with pytest.raises(NotFiniteBatchError, match=r"batch 1 requires finite numbers, got NaN or infinity in its data \(rows\)"):
        nm.distributed.HessianOperator(compiled, W, [SHARDS[0], bad], client=client)
    check(nm.distributed.HessianOperator(compiled, W, SHARDS, client=client), local)


def test_data_that_are_made_again_otherwise_are_refused(client: Any, compiled: Any) -> None:
    import dask

    @dask.delayed(pure=False)
    def random() -> Any:
        return np.random.default_rng().normal(size=(SHARD, WIDTH)), Y[:SHARD]

    H = nm.distributed.HessianOperator(compiled, W, [random() for _ in range(6)], client=client)
    H @ W
    holders = client.who_has([H.engine.shards[0], H.engine._sources[0]]).values()
    for pid in client.run(os.getpid, workers=list({worker for workers in holders for worker in workers})).values():
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(DataChangedError, match=r"shard \d requires the data of the first pass, got other data"):
        H @ W


def test_code_for_another_machine_is_refused_by_the_workers(client: Any, compiled: Any) -> None:
    import copy
    from dataclasses import replace

    module = copy.copy(compiled.loaded)
    module.code = replace(module.code, target=module.code.target | {"triple": "riscv64-unknown-linux-gnu"})
    with pytest.raises((BatchError, DeployError), match="a CPU of the architecture riscv64, got"):
        nm.distributed.HessianOperator(module, W, SHARDS, client=client)
    module.code, module.manifest = compiled.loaded.code, replace(module.manifest, iree_range=("4.0", "4.1"))
    with pytest.raises((BatchError, DeployError), match=r"an IREE runtime from 4.0 to before 4.1"):
        nm.distributed.HessianOperator(module, W, SHARDS, client=client)


def test_a_scheduler_that_goes_away(compiled: Any) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None, processes=False) as cluster:
        client = distributed.Client(cluster)
        H = nm.distributed.HessianOperator(compiled, W, SHARDS[:3], client=client)
    with pytest.raises(DeployError, match="requires its scheduler, got a client that is"):
        H @ W
    client.close()


def test_shards_of_one_task_fit_into_the_memory_of_a_worker(
    client: Any, compiled: Any, local: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = min(client.run(lambda dask_worker: dask_worker.memory_manager.memory_limit).values())
    size = 8 * (SHARD * WIDTH + SHARD) + local.engine.work.state_bytes
    for shards, groups in ((1000, 3), (2.5, 5), (0.5, 11)):  # of a worker's share; eleven shards on three workers
        monkeypatch.setattr("nabla_mlir.interop.dask._SHARE", shards * size / room)
        H = nm.distributed.HessianOperator(compiled, W, SHARDS, client=client)
        assert len(H.engine._groups) == groups
        check(H, local)
    total, state = room * 3, local.engine.work.state_bytes
    for full, share, stored in ((0.6, 0.2, 11), (0.0, 2 * 3.5 * state / total, 3), ((11 * size + 3.5 * state) / total, 0.0, 7)):
        monkeypatch.setattr("nabla_mlir.interop.dask._FULL", full)
        monkeypatch.setattr("nabla_mlir.interop.dask._SHARE", share or 1e-6)
        H = nm.distributed.HessianOperator(compiled, W, SHARDS, client=client)
        assert H.stored_batches == stored, "residuals that have room beside the data"
        check(H, local)


def test_an_engine_is_required(compiled: Any) -> None:
    with pytest.raises(TraceError, match="requires client= or comm=, got none"):
        nm.distributed.HessianOperator(compiled, W, SHARDS)


RANKS = """
import sys
import numpy as np
from mpi4py import MPI
import nabla_mlir as nm
sys.path.insert(0, sys.argv[1])
from test_distributed import SHARDS, V, W, total
from nabla_mlir.base.errors import BatchError
comm = MPI.COMM_WORLD
H = nm.distributed.HessianOperator(total, W, SHARDS[comm.rank :: comm.size], comm=comm, target=nm.Interpreter())
local = nm.SumOperator(total, W, SHARDS, target=nm.Interpreter())
np.testing.assert_allclose(H.gradient, local.gradient, rtol=1e-12)
np.testing.assert_allclose(H @ V, local @ V, rtol=1e-11, atol=1e-11)
assert H.rows == local.rows
first = (H @ V).tobytes()
assert set(comm.allgather(first)) == {first}
H.update(2 * W)
H.update(W)
assert (H @ V).tobytes() == first
*_, estimate = nm.hutchinson(H, 10)
shards = SHARDS if comm.rank == 0 else []
alone = nm.distributed.HessianOperator(total, W, shards, comm=comm, target=nm.Interpreter())
np.testing.assert_allclose(alone @ V, local @ V, rtol=1e-11, atol=1e-11)
try:
    shards = [(rows * np.nan, labels) for rows, labels in SHARDS] if comm.rank == 1 else SHARDS
    nm.distributed.HessianOperator(total, W, shards, comm=comm, target=nm.Interpreter())
except BatchError as error:
    assert ("rank 1 requires" in str(error)) == (comm.rank != 1), error
    assert "batch 0 requires finite numbers" in str(error)
lines = comm.gather(f"{estimate.value.hex()} {first[:8].hex()}")
if comm.rank == 0:
    for line in lines:
        print(line)
"""


def test_ranks_give_the_same_bits_each_time(tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    if shutil.which("mpiexec") is None:
        pytest.skip("needs mpiexec")
    (tmp_path / "ranks.py").write_text(RANKS)
    command = [
        "mpiexec",
        "-n",
        "4",
        "--oversubscribe",
        "--allow-run-as-root",
        sys.executable,
        "-m",
        "mpi4py",
        str(tmp_path / "ranks.py"),
    ]
    outputs = []
    for _ in range(2):
        done = subprocess.run([*command, str(Path(__file__).parent)], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        outputs += done.stdout.splitlines()
    assert len(outputs) == 8
    assert len(set(outputs)) == 1, "the same on all ranks and in both runs"


def test_products_under_way_at_the_same_time(client: Any, compiled: Any, local: Any) -> None:
    H = nm.distributed.HessianOperator(compiled, W, SHARDS, client=client)
    matrices = [V[:, i : i + 1].copy() for i in range(9)]
    products = [H.start(matrix) for matrix in matrices]
    while products:
        i = H.first(products)
        np.testing.assert_allclose(H.finish(products.pop(i)), local @ matrices.pop(i), rtol=1e-11, atol=1e-11)


def test_blocks_are_taken_as_they_are_done(client: Any, compiled: Any, local: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    H = nm.distributed.HessianOperator(compiled, W, SHARDS, client=client, block=4)
    for method, probes in ((nm.hutchinson, 30), (nm.hutch_plus_plus, 12)):
        (*_, there), (*_, here) = (method(operator, probes, seed=3, block=4, as_completed=True) for operator in (H, local))
        np.testing.assert_allclose([there.value, there.error], [here.value, here.error], rtol=1e-9)
        assert there.probes == here.probes == probes
    spectra = [list(nm.stochastic_lanczos(H, steps=WIDTH, probes=22, block=4, as_completed=value)) for value in (True, False)]
    assert [len(spectrum.nodes) for spectrum in spectra[1]] == [4, 8, 12, 16, 20, 22]
    np.testing.assert_allclose(*(np.sort(run[-1].weights[:, 0]) for run in spectra), rtol=1e-6)
    *_, here = nm.stochastic_lanczos(local, steps=WIDTH, probes=22, block=4)
    np.testing.assert_allclose(spectra[1][-1].weights, here.weights, rtol=1e-6, err_msg="those of one process, in their order")
    before = H.products
    *_, early = nm.stochastic_lanczos(H, steps=WIDTH, probes=1000, block=4, as_completed=True, tolerance=0.3, function=np.log)
    assert early.trace(np.log).error <= 0.3 * abs(early.trace(np.log).value)
    assert H.products - before < 1000
    monkeypatch.setattr(H.engine, "first", lambda products: len(products) - 1)  # the last of them is done first
    *_, other = nm.hutchinson(H, 30, seed=3, block=4, as_completed=True)
    *_, ordered = nm.hutchinson(H, 30, seed=3, block=4)
    np.testing.assert_allclose([other.value, other.error], [ordered.value, ordered.error], rtol=1e-12)


def test_quick_products_are_messages(client: Any, compiled: Any, local: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their bits are those of tasks, which do what messages cannot: where a worker died, holds too little, or does not answer."""
    monkeypatch.setattr("nabla_mlir.interop.dask._QUICK", math.inf)
    H = nm.distributed.HessianOperator(compiled, W, SHARDS, client=client)
    tasks: list[Any] = []
    start = H.engine.start
    monkeypatch.setattr(H.engine, "start", lambda matrix: (tasks.append(matrix), start(matrix))[1])
    before = H @ V

    def used_tasks() -> bool:
        count = len(tasks)
        np.testing.assert_array_equal(H @ V, before)
        return len(tasks) > count

    # Pieces of one group may be made on several workers, which Dask does not promise to mend: some product is a message, not each.
    assert len(tasks) == 1, "the first product, which says how long one takes"
    assert not all(used_tasks() for _ in range(100))
    column = V[:, :1]
    np.testing.assert_array_equal(H @ column, H.finish((column, start(column))))
    kill_one(client, H)
    assert used_tasks(), "its pieces are made again"
    for _ in range(100):
        used_tasks()
    monkeypatch.setattr(H.engine, "_digests", ("other",) * len(SHARDS))
    with pytest.raises(DataChangedError, match=r"shard \d+ requires the data of the first pass"):
        H @ V
    monkeypatch.undo()
    H.update(2 * W)
    np.testing.assert_allclose(H @ V, nm.SumOperator(compiled, 2 * W, SHARDS) @ V, rtol=1e-11)
    monkeypatch.setattr("nabla_mlir.interop.dask._QUICK", 0.0)
    client.wait_for_workers(3, timeout=60)  # as many groups as before, or the order of the sum is another
    H = nm.distributed.HessianOperator(compiled, W, SHARDS, client=client)
    monkeypatch.setattr("nabla_mlir.interop.dask.answers", None)  # products that take long are never messages
    np.testing.assert_array_equal([H @ V, H @ V], [before, before])


def test_a_worker_that_does_not_answer_a_message(client: Any, compiled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    H = nm.distributed.HessianOperator(compiled, W, SHARDS, client=client, patience=2.0)
    before = H @ V
    np.testing.assert_array_equal(H @ V, before)
    (pid, *_) = client.run(os.getpid).values()
    os.kill(pid, signal.SIGSTOP)
    timer = threading.Timer(3.0, os.kill, [pid, signal.SIGCONT])
    timer.start()
    np.testing.assert_array_equal(H @ V, before)
    timer.join()


def test_large_vectors_travel_once(client: Any, compiled: Any, local: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nabla_mlir.interop.dask._SMALL", 0)
    H = nm.distributed.HessianOperator(compiled, W, SHARDS, client=client)
    assert hasattr(H.engine._as_argument(V), "key")
    check(H, local)


@pytest.mark.parametrize("kind", ["ggnvp_module", "fisher_module"])
def test_other_matrices_on_a_cluster(client: Any, kind: str) -> None:
    model = lambda w, rows, labels: rows @ w  # noqa: E731
    logistic = lambda z, rows, labels: nnp.sum(nnp.log1p(nnp.exp(z)) - labels * z)  # noqa: E731
    specs = nm.spec(WIDTH, "f64"), nm.spec((SHARD, WIDTH), "f64"), nm.spec(SHARD, "f64")
    losses = {"ggnvp_module": (logistic,), "fisher_module": ("bernoulli",)}[kind]
    module = getattr(nm, kind)(model, *losses, *specs, entry_points=("update", "apply", "apply_block"))
    H = nm.distributed.HessianOperator(module, W, SHARDS, client=client, target=nm.Interpreter())
    p = 1 / (1 + np.exp(-(X @ W)))
    np.testing.assert_allclose(H @ V, X.T @ ((p * (1 - p))[:, None] * (X @ V)), rtol=1e-9)


def test_workers_with_several_threads(compiled: Any, local: Any) -> None:
    distributed = pytest.importorskip("distributed")
    options: Any = {"n_workers": 1, "threads_per_worker": 3, "dashboard_address": None, "processes": False}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        H = nm.distributed.HessianOperator(compiled, W, SHARDS, client=client)
        assert len(H.engine._groups) == 3
        check(H, local)


def test_progress_shows_tasks_on_a_terminal(
    client: Any, compiled: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    H = nm.distributed.HessianOperator(compiled, W, SHARDS, client=client, progress=True)
    assert "update" in capsys.readouterr().err
    H @ W
    assert "product" in capsys.readouterr().err


@pytest.mark.parametrize("command", [("out_of_core", "40000", "5"), ("distributed_spectrum", "--rows", "50")])
def test_recipes_on_processes(command: tuple[str, ...], tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    name, *numbers = command
    plot = ["--plot", str(tmp_path / "plot.png")] if importlib.util.find_spec("matplotlib") else []
    script = Path(__file__).parents[2] / "examples" / f"{name}.py"
    done = subprocess.run(
        [sys.executable, str(script), *numbers, "--processes", "1", "2", *plot], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^(?:threads of this process|\d of Dask): .* s, [\d, ]+ MB held", done.stdout, re.MULTILINE)) == 3
    assert re.findall(r"efficiency on (\d) of 1: \d+%", done.stdout) == ["1", "2"]
    answers = re.findall(r"loss (\d\.\d{5})|largest eigenvalue (\d\.\d{4})", done.stdout)
    assert len(answers) == 3
    assert len(set(answers)) == 1, "the same on each"
    assert not plot or (tmp_path / "plot.png").stat().st_size > 1000
