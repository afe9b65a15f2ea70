"""The memory of the process over many calls: what one has dropped serves the next."""

import collections
import os
from pathlib import Path

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.runtime import Array

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc")]
LARGE = 36 << 20  # bytes, of which a slab of IREE's pool holds one


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def growth(call, rounds):
    """By how many bytes the process grows, once it has called a few times."""
    for _ in range(3):
        call()
    before = resident()
    for _ in range(rounds):
        call()
    return resident() - before


@pytest.fixture(params=["local-sync", "local-task"])
def load(request, tmp_path):
    return lambda traced: nm.load(traced.lower().compile().save(tmp_path / "f.vmfb"), request.param)


def test_results_that_were_held_are_found_again(load):
    f = load(nm.trace(lambda x: x + x, nm.spec(LARGE // 4), name="f"))
    x = Array.from_numpy(np.ones(LARGE // 4, np.float32), f.driver)
    assert growth(lambda: [f.f(x) for _ in range(4)], rounds=6) < 2 * LARGE


def test_small_results_of_a_large_program_that_are_held_leave_room(load):
    """Its values need several slabs, in each of which a small result would stand in the way."""
    nodes, edges, width = 5_000, 50_000, 64

    def f(tables, x, sources, targets):
        def loss(tables):
            y = x
            for table in tables:
                sent = nnp.maximum((y @ table["w"])[sources] + y[targets] + table["b"], 0)
                y = y + 0.01 * nnp.zeros(y.shape, y.dtype).at[targets].add(sent)
            return (y * y).mean()

        return nm.grad(loss)(tables)

    rng = np.random.default_rng(0)
    table = {"w": rng.normal(size=(width, width)).astype(np.float32), "b": np.ones(width, np.float32)}
    ends = [rng.integers(0, nodes, edges).astype(np.int32) for _ in range(2)]
    arguments = ([table] * 3, rng.normal(size=(nodes, width)).astype(np.float32), *ends)
    module = load(nm.trace(f, *arguments, name="f"))
    held = collections.deque(maxlen=3)
    assert growth(lambda: held.append(module.f(*arguments)), rounds=8) < 40 << 20
