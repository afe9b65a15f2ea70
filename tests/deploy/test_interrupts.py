"""Ctrl-C ends calls that do not end by themselves; what they ran in is given up, and can be had anew."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
from nabla_mlir.base.errors import DeployError
from nabla_mlir.runtime.interrupts import Interrupts

SCRIPT = """
import os, pickle, signal, sys, threading
import numpy as np
import nabla_mlir as nm

signal.signal(signal.SIGINT, signal.default_int_handler)  # which a process in the background does not have

def interrupted(call):
    # Again and again, as a user would: Python ignores what is raised while it collects garbage.
    ended = threading.Event()

    def interrupt():
        while not ended.wait(0.7):
            os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        ended.set()

def count(x, step):
    return nm.while_loop(lambda c: c < 10, lambda c: c + step, x)

def swing(x):
    return nm.while_loop(lambda c: c < 10, lambda c: 9 - c, x)  # one that changes nothing would be taken away

f = nm.jit(count)
assert f(0, 1) == 10
if not os.fork():
    print(int(f(0, 1)), flush=True)                      # whose thread the child does not have
    os._exit(0)
os.wait()
print(interrupted(lambda: f(0, 0)))                      # compiled by jit
print(int(f(0, 1)))                                      # loaded anew
print(interrupted(lambda: swing(np.int32(0))))           # interpreted, or compiled by then
module = nm.module(
    count=nm.trace(count, np.int32(0), np.int32(1)), double=nm.trace(lambda x: x + x, np.int32(0))
).lower().compile().loaded
other = module.clone()
print(int(module.double(np.int32(4))), int(module.count(np.int32(0), np.int32(5))))
print(interrupted(lambda: module.count(np.int32(0), np.int32(0))))
for entry, arguments in (("double", [4]), ("count", [0, 1])):
    try:
        module[entry](*map(np.int32, arguments))
    except nm.errors.DeployError as error:
        print(error.message)
print(int(other.count(np.int32(0), np.int32(5))))
"""


POOL = (
    SCRIPT[: SCRIPT.index("def count")]
    + """
lowered = nm.trace(lambda x, n: nm.fori_loop(0, n, lambda i, x: nm.numpy.sin(x), x), nm.spec(200), nm.spec((), "i32"), name="f").lower()
content, x = lowered.compile(nm.CPU()).to_bytes(), np.ones(200, np.float32)
large, product = np.ones((600, 600), np.float32), nm.jit(lambda x: nm.numpy.sin(x) @ x)
assert product(large).device.driver == "local-task"
early = nm.load(content, "local-task")
result = early.f(x, np.int32(3))
for _ in range(2):
    print(interrupted(lambda: nm.load(content, "local-task").f(x, np.int32(2 * 10**9))))
    print(round(float(nm.load(content, "local-task").f(x, np.int32(3))[0]), 4))
    try:
        early.f(x, np.int32(3))
    except nm.errors.DeployError as error:
        print(error.message, file=sys.stderr)
    copies = [early.clone(), pickle.loads(pickle.dumps(early))]
    print(*(round(float(module.f(x, np.int32(3))[0]), 4) for module in [*copies, copies[0]]), round(float(result[0]), 4))
    early, product_of_ones = copies[0], product(large)
    print(round(float(product_of_ones[0, 0]), 4))
    del copies, product_of_ones
"""
)


def test_a_thread_of_a_pool_that_does_not_come_back() -> None:
    """A function that is loaded again has another pool: the loop may be one kernel, which its thread does not leave.

    What was loaded before is refused, and copies of it and functions of `jit` are loaded anew.
    """
    done = subprocess.run([sys.executable, "-c", POOL], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["True", *["0.6784"] * 5, "504.883"] * 2, done.stderr
    message = "f requires a pool of threads that is free, got one with a call that was interrupted and goes on."
    assert done.stderr.count(message) == 2


def test_calls_that_do_not_end() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "10",
        "True",
        "10",
        "True",
        "8 10",
        "True",
        "double requires code that is free, got a call of it that was interrupted and goes on.",
        "count requires code that is free, got a call of it that was interrupted and goes on.",
        "10",
    ]


def test_only_loops_of_unknown_length_are_called_so() -> None:
    def estimates(f: Any, *xs: Any) -> bool:
        compiled = nm.trace(f, *xs, name="f").lower().compile()
        return compiled.manifest.entry_points[0].estimate.is_bounded

    assert estimates(lambda x: nm.fori_loop(0, 5, lambda i, c: c * x, x), 2.0)
    assert not estimates(lambda x: nm.while_loop(lambda c: c < 9, lambda c: c * x, x), 2.0)

    def capped(most: int) -> Any:
        step = lambda c: (c[0] * c[0], c[1] + 1)  # noqa: E731
        return lambda x: nm.while_loop(lambda c: (c[0] < 9) & (most > c[1]), step, (x, 0))[0]

    assert estimates(capped(50), 2.0)
    assert not estimates(capped(2**31 - 1), 2.0), "a loop that may take long"
    either = lambda c: (c[0] < 9) | (c[1] < 5)  # noqa: E731
    assert not estimates(lambda x: nm.while_loop(either, lambda c: (c[0] * c[0], c[1] + 1), (x, 0))[0], 2.0)


def test_results_errors_and_calls_within_calls() -> None:
    calls = Interrupts("take another.")
    outer = threading.get_ident()

    def inner() -> tuple[int, bool]:
        return calls.call("inner", lambda: (7, threading.get_ident() != outer))

    assert calls.call("outer", inner) == (7, True)
    assert calls.call("outer", lambda x: x + 1, 2) == 3
    with pytest.raises(ZeroDivisionError):
        calls.call("outer", lambda: 1 / 0)
    assert calls.call("outer", np.add, 1, 2) == 3
    results: list[int] = []
    thread = threading.Thread(target=lambda: results.append(calls.call("other", os.getpid)))
    thread.start()
    thread.join()
    assert results == [os.getpid()]


def test_what_was_given_up_is_refused() -> None:
    calls = Interrupts("take another.")

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        calls.call("f", interrupt)
    with pytest.raises(DeployError, match=r"(?s)f requires code that is free.*take another"):
        calls.check("f")


@pytest.mark.parametrize("in_thread", [False, True])
def test_time_limit(in_thread: bool) -> None:
    calls, ends = Interrupts("take another."), threading.Event()
    problems: list[str] = []

    def run() -> None:
        with nm.time_limit(0.1):
            assert calls.call("f", lambda: 3) == 3
            try:
                calls.call("f", ends.wait, 20)
            except DeployError as error:
                problems.append(str(error))

    if in_thread:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    else:
        run()
    ends.set()
    assert calls.is_given_up
    assert "f requires at most 0.1 s, as time_limit says, got a call that goes on." in problems[0]
    assert "take another" in problems[0]


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan")])
def test_time_limits_are_positive(seconds: float) -> None:
    with pytest.raises(DeployError, match="time_limit requires seconds greater than 0"), nm.time_limit(seconds):
        pass
