"""Objects that Python's garbage collector frees in any order: arrays, the functions that computed them, and their devices."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import nabla_mlir as nm
from nabla_mlir import numpy as nnp

# In cycles, as an exception makes them that is kept: of an artifact whose device nothing else holds, with a result of it.
PROGRAM = """
import gc, sys
import numpy as np
from nabla_mlir import runtime

class Node: pass

def leave(turn, driver):
    module = runtime.load(sys.argv[1], driver)
    result = module.f(np.ones((600, 600), np.float32))
    try:
        result.tobytes()
    except AttributeError as error:
        kept = error  # which knows the array, and this frame
    parts = [result, module] if turn % 2 else [module, result]
    parts.append(parts)
    first, second = Node(), Node()
    first.result, second.module = result, module
    first.own, second.other, first.other = first, first, second
    del result

gc.disable()
for turn in range(40):
    leave(turn, ("local-task", "local-sync")[turn // 2 % 2])
    if turn % 3:
        gc.collect()
gc.collect()
print("all is gone")
"""


@pytest.mark.parametrize("target", [nm.CPU(), nm.CPU(asynchronous=True)], ids=["synchronous", "asynchronous"])
def test_arrays_and_their_devices_go_in_any_order(tmp_path: Path, target: nm.CPU) -> None:
    """IREE's buffers do not hold their device: freed behind it, they ended the process. Nor may IREE's threads, which a device
    waits for, be the last to let go of an array of NumPy's (of a MiB or more, which is lent): they wait for Python's lock.
    """
    lowered = nm.trace(lambda x: nnp.tanh(x @ x) @ x, nm.spec((600, 600)), name="f").lower()
    path = lowered.compile(target).save(tmp_path / "f.vmfb")
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(path)], capture_output=True, text=True, timeout=100)
    assert done.stdout == "all is gone\n", (done.returncode, done.stderr[-2000:])
