"""The process that runs an artifact on a mock driver: python -m gpu.driver.client ARTIFACT ENTRY ARGUMENTS RESULTS (files)."""

from __future__ import annotations

import ctypes
import pickle
import sys
from pathlib import Path

import numpy as np

from gpu.driver.running import COUNTERS
from nabla_mlir import runtime
from nabla_mlir.base import pytree


def main(artifact: str, entry: str, arguments: str, results: str) -> None:
    """Calls the entry point once, and writes its results and what the call counted."""
    driver = ctypes.CDLL("libcuda.so.1")
    driver.mock_counter.restype = ctypes.c_uint64
    call = runtime.load(artifact, "cuda")[entry]
    given = pickle.loads(Path(arguments).read_bytes())
    driver.mock_reset()
    leaves = [np.asarray(leaf) for leaf in pytree.flatten(call(*given))[0]]
    counters = {name: driver.mock_counter(number) for number, name in enumerate(COUNTERS)}
    Path(results).write_bytes(pickle.dumps((leaves, counters)))


if __name__ == "__main__":
    main(*sys.argv[1:])
