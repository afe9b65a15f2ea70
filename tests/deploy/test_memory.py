"""The memory of the process over many calls: what one has dropped serves the next."""

import os
from pathlib import Path

import numpy as np
import pytest

import nabla_mlir as nm
from nabla_mlir.runtime import Array

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc")
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
