"""The end of a process: it prints nothing, whatever still holds objects of IREE's, and its exit code is the program's."""

import importlib.util
import subprocess
import sys

import pytest

SETUP = """
import threading, time
import numpy as np
import nabla_mlir as nm, nabla_mlir.numpy as nnp

x = np.ones(3, np.float32)
double = nm.jit(lambda x: 2 * x)
until = nm.jit(lambda x: nm.while_loop(lambda c: nnp.sum(c) < 100, lambda c: 2 * c, x))

def hold(*values):
    thread = threading.Thread(target=lambda *_: time.sleep(1000), args=values, daemon=True)
    thread.start()
"""
PROGRAMS = {
    "a loop whose length its values decide": "until(x)",
    "an error": "until(x)\ntry:\n    double(np.ones(3, 'M8[s]'))\nexcept Exception as error:\n    kept = error",
    "a thread with a function, an array and its memory": "y = double(x)\nhold(double, y, np.asarray(y))",
    "a thread with IR": "hold(nm.trace(nnp.sin, nm.spec(3)), nm.trace(nnp.sin, nm.spec(3)).lower())",
    "a call that goes on": """
try:
    with nm.time_limit(0.2):
        nm.jit(lambda x: nm.while_loop(lambda c: c < 1, lambda c: c * x, x))(0.0)
except nm.errors.DeployError:
    pass
""",
    "a function that a fork would call": "import os\ny = double(x)\nos.register_at_fork(after_in_child=lambda: y)",
    "a thread that calls": "y = double(x)\nhold(y)\nthreading.Thread(target=lambda: [double(x) for _ in range(10**9)], daemon=True).start()\ntime.sleep(0.1)",
}


def ended(code):
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    return run.returncode, run.stdout, run.stderr


@pytest.mark.parametrize("program", PROGRAMS)
def test_nothing_is_printed(program):
    assert ended(SETUP + PROGRAMS[program]) == (0, "", "")


@pytest.mark.slow
@pytest.mark.parametrize("order", ["{other}\n{ours}", "{ours}\n{other}"])
@pytest.mark.parametrize("package", ["jax.numpy", "torch", "scipy.linalg", "sklearn.linear_model"])
def test_beside_other_packages(package, order):
    if importlib.util.find_spec(package.partition(".")[0]) is None:
        pytest.skip(f"no {package}")
    code = order.format(other=f"import {package}", ours=SETUP + "until(double(x))\n")
    assert ended(code) == (0, "", "")


def test_what_the_program_prints_is_there():
    """Also at exit, by Python and through the file descriptor; and its exit code stays."""
    code, out, err = ended(
        SETUP
        + """
import atexit, os, sys
until(x)
atexit.register(lambda: print("last word", file=sys.stderr))
atexit.register(lambda: os.write(2, b"raw\\n"))
print("result")
sys.exit(3)
"""
    )
    assert (code, out, err) == (3, "result\n", "raw\nlast word\n")
