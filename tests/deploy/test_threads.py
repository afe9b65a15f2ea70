"""Threads: how many there are to use, and pools of as many as a user asks for."""

import math
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import DeployError, TargetError
from nabla_mlir.interop.threadpools import register
from nabla_mlir.runtime.threads import cores, granted, limit

X = np.linspace(-1, 1, 400 * 400, dtype=np.float32).reshape(400, 400)
linux = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="no /proc")


def workers():
    """The threads of all pools of this process, once they have names: each takes its own after it was started."""
    counts = [-1]
    while len(counts) < 5 or len(set(counts[-4:])) > 1:
        time.sleep(0.05)
        counts.append(sum(name_of(task).startswith("iree-worker") for task in Path("/proc/self/task").iterdir()))
    return counts[-1]


def name_of(task):
    try:
        return (task / "comm").read_text()
    except OSError:  # it has ended
        return ""


@pytest.fixture(scope="module")
def artifact(tmp_path_factory):
    traced = nm.trace(lambda x: nnp.tanh(x @ x) @ x, X, name="f")
    return traced.lower().compile(nm.CPU(threads=3)).save(tmp_path_factory.mktemp("threads") / "f.vmfb")


@linux
def test_as_many_as_the_target_states_or_the_user_asks_for(artifact):
    """Several pools live in one process; modules of so many threads share theirs, and one goes when nothing uses it."""
    first, before = nm.load(artifact, "local-task"), workers()
    assert (first.threads, first.driver) == (3, "local-task")
    second = nm.load(artifact, "local-task")
    assert workers() == before
    third = nm.load(artifact, "local-task", threads=5)
    assert (third.threads, workers()) == (5, before + 5)
    wanted = np.tanh(X @ X) @ X
    for module in (first, second, third, third.clone()):
        np.testing.assert_allclose(np.asarray(module.f(X)), wanted, rtol=1e-3, atol=1e-3)


def test_one_thread_is_the_caller_s(artifact):
    module = nm.load(artifact, threads=1)
    assert (module.threads, module.driver) == (1, "local-sync")


def test_what_is_no_number_of_threads(artifact):
    for threads in (0, -1, 1.5, True):
        with pytest.raises(DeployError, match="load requires a positive number of threads, got"):
            nm.load(artifact, "local-task", threads=threads)
        with pytest.raises(TargetError, match="target cpu requires a positive number of threads, got"):
            nm.CPU(threads=threads).resolve()


@linux
def test_the_affinity_of_the_process_counts(artifact):
    code = (
        "import os, sys; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); import nabla_mlir as nm; from "
        "nabla_mlir.runtime.threads import cores; print(cores(), nm.load(sys.argv[1], 'local-task', threads=None).threads)"
    )
    done = subprocess.run([sys.executable, "-c", code, artifact], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "3"]


def test_no_more_than_the_control_groups_grant(tmp_path, monkeypatch):
    group = tmp_path / "group"
    group.write_text("0::/a/b\n")
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert granted(tmp_path, group) == math.inf
    (tmp_path / "a" / "b" / "cpu.max").write_text("max 100000\n")
    (tmp_path / "a" / "cpu.max").write_text("150000 100000\n")
    granted.cache_clear()
    assert granted(tmp_path, group) == 1.5
    monkeypatch.setattr("nabla_mlir.runtime.threads.granted", lambda: 1.5)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8))
    assert cores() == 2


def test_control_groups_of_the_first_version(tmp_path):
    group = tmp_path / "group"
    group.write_text("5:cpu,cpuacct:/a\n4:memory:/b\n")
    (tmp_path / "cpu" / "a").mkdir(parents=True)
    (tmp_path / "cpu" / "a" / "cpu.cfs_quota_us").write_text("400000\n")
    (tmp_path / "cpu" / "a" / "cpu.cfs_period_us").write_text("100000\n")
    assert granted(tmp_path, group) == 4
    (tmp_path / "cpu" / "a" / "cpu.cfs_quota_us").write_text("-1\n")
    granted.cache_clear()
    assert granted(tmp_path, group) == math.inf


def test_two_modules_in_two_threads(artifact):
    modules, found = [nm.load(artifact, "local-task") for _ in range(2)], {}

    def work(i):
        found[i] = [np.asarray(modules[i].f((1 + i) * X)) for _ in range(20)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(2):
        x = (1 + i) * X
        for y in found[i]:
            np.testing.assert_allclose(y, np.tanh(x @ x) @ x, rtol=1e-3, atol=1e-3)


@linux
def test_threadpoolctl_limits_what_is_loaded(artifact, tmp_path):
    threadpoolctl = pytest.importorskip("threadpoolctl")
    register()
    register()
    path = nm.trace(lambda x: x @ x, X, name="f").lower().compile().save(tmp_path / "f.vmfb")
    before = workers()
    with threadpoolctl.threadpool_limits(1, user_api="iree"):
        assert cores() == 1
        assert nm.load(path).driver == "local-sync"
        limited = nm.load(path, "local-task")
        assert (limited.threads, workers()) == (1, before + 1)
        assert nm.load(artifact).threads == 3
    (found,) = [pool for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "iree"]
    assert found["num_threads"] == cores() == len(os.sched_getaffinity(0))


def test_a_limit_is_a_number(monkeypatch):
    with pytest.raises(DeployError, match="load requires a positive number of threads, got 0"):
        limit(0)
    limit(None)
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    with pytest.raises(DeployError, match="register requires threadpoolctl, got none"):
        register.__wrapped__()


FORK = """
import os, sys
import numpy as np
import nabla_mlir as nm

x, alone, pool = np.ones((400, 400), np.float32), *(nm.load(sys.argv[1], driver) for driver in ("local-sync", "local-task"))
square = nm.jit(lambda x: x @ x)
print(float(alone.f(x).sum() - pool.f(x).sum()), float(square(x)[0, 0]), flush=True)
if not os.fork():
    print(float(alone.f(x)[0, 0]) > 0)
    try:
        pool.f(x)
    except nm.errors.DeployError as error:
        print(error.message)
    anew = nm.load(sys.argv[1], "local-task")
    print(float(alone.f(x).sum() - anew.f(x).sum()), float(nm.jit(lambda x: x @ x)(x)[0, 0]), flush=True)
    os._exit(0)
os.wait()
print(float(alone.f(x).sum() - pool.f(x).sum()), float(square(x)[0, 0]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_of_the_process_has_no_threads(artifact):
    """A call that waited for them would not end; what is loaded in the fork, and the process that was forked, go on."""
    done = subprocess.run([sys.executable, "-c", FORK, str(artifact)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    refusal = "f requires the process that loaded it, got a fork of it, which has none of its threads."
    assert done.stdout.splitlines() == ["0.0 400.0", "True", refusal, "0.0 400.0", "0.0 400.0"]
