"""Progress of long work: one line on a terminal."""

import io
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

import nabla_mlir as nm
from nabla_mlir.base import progress
from nabla_mlir.base.progress import own_line, running, shown, watch


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))  # pytest has its own between setup and call
    monkeypatch.delenv(progress.VARIABLE, raising=False)
    monkeypatch.setattr(progress, "_AFTER", 0.01)
    yield stream
    while progress._monitor._has_thread:  # a thread that lives on would sleep a quarter of a second before it looks again
        time.sleep(0.005)


def test_the_line_counts_and_ends_with_the_time(terminal):
    with watch("compiling f"):
        time.sleep(0.1)
    first, *_, last = terminal.getvalue().split("\r")[1:]
    assert first == "compiling f ... 0 s"
    assert last == "compiling f: 0.1 s\n"


def test_what_is_short_says_nothing(terminal, monkeypatch):
    monkeypatch.setattr(progress, "_AFTER", 5.0)
    with watch("compiling f"):
        pass
    assert terminal.getvalue() == ""


def test_nothing_is_said_when_piped(terminal, monkeypatch):
    pipe = io.StringIO()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=pipe))
    with watch("compiling f"):
        time.sleep(0.05)
    assert pipe.getvalue() == ""


def test_a_notebook_is_watched(terminal, monkeypatch):
    notebook = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=notebook))
    with watch("compiling f"):
        time.sleep(0.05)
    assert notebook.getvalue().endswith(" s\n")


def test_there_is_one_line(terminal):
    """One line is shown: that of the outer of two nested calls, and that of one of two threads. Inside another display none is."""
    with watch("outside"), watch("inside"):
        time.sleep(0.05)
    with own_line(), own_line(), watch("hidden"):
        time.sleep(0.05)
    with watch("mine"):
        other = threading.Thread(target=lambda: watch("its").__enter__())
        other.start()
        other.join()
        time.sleep(0.05)
    said = terminal.getvalue()
    assert said.count("\n") == 2
    assert all(word not in said for word in ("inside", "hidden", "its"))


def test_the_line_ends_when_there_is_an_error(terminal):
    def fail():
        time.sleep(0.05)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), watch("compiling f"):
        fail()
    assert terminal.getvalue().endswith("\n")
    assert not progress._line.locked()


def test_jit_says_what_it_compiles(terminal):
    def damped(x):
        return (x * 0.123).sum()

    nm.trace(damped, np.ones(3), name="damped").lower().compile(cache=False)
    assert "compiling damped for cpu: " in terminal.getvalue()


def test_a_long_call_is_shown_while_it_runs(terminal):
    with running("interpreting f", state := ["0 of 2"]):
        time.sleep(0.1)
        state[0] = "1 of 2"
        time.sleep(0.1)
    shown_first, *_, last = terminal.getvalue().split("\r")[1:]
    assert shown_first == "interpreting f['0 of 2'] ... 0 s"
    assert "interpreting f['1 of 2'] ... 0 s" in terminal.getvalue()
    assert terminal.getvalue().endswith(progress._ERASE)
    assert last == ""
    assert not progress._line.locked()


def test_calls_share_one_thread_which_ends(terminal):
    before = threading.active_count()
    for _ in range(100):
        with running("f"), running("g"):
            pass
    assert threading.active_count() <= before + 1
    for _ in range(200):
        if not progress._monitor._has_thread:
            break
        time.sleep(0.01)
    assert not progress._monitor._has_thread
    assert terminal.getvalue() == ""


def test_one_line_for_calls_and_compilations(terminal):
    with watch("compiling f"), running("running f"):
        time.sleep(0.1)
    assert "running" not in terminal.getvalue()
    with running("running f"), running("running g"):
        time.sleep(0.1)
    assert "running f" in terminal.getvalue()
    assert "running g" not in terminal.getvalue()


def test_a_call_that_raises_leaves_no_line(terminal):
    def fail():
        time.sleep(0.1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        shown(fail, "running f")()
    assert terminal.getvalue().endswith(progress._ERASE)


def test_a_variable_switches_it_off(terminal, monkeypatch):
    monkeypatch.setenv(progress.VARIABLE, "0")
    with watch("compiling f"), running("running f"):
        time.sleep(0.1)
    assert shown(len, "len") is len
    assert terminal.getvalue() == ""


def test_compiled_and_interpreted_calls_are_shown(terminal, monkeypatch):
    def long(x):
        return nm.fori_loop(0, 30_000_000, lambda i, s: nm.numpy.sin(s) + x, x)

    nm.jit(long)(0.5)
    assert "running" in terminal.getvalue()
    with nm.disable_jit():
        nm.grad(lambda x: (nm.numpy.sin(x) ** 2).sum())(np.ones(3_000_000))
    assert "interpreting grad" in terminal.getvalue()


def test_minimize_says_its_iteration(terminal):
    def rosenbrock(x):
        time.sleep(0.001)
        return ((1 - x[:-1]) ** 2 + 100 * (x[1:] - x[:-1] ** 2) ** 2).sum()

    nm.minimize(rosenbrock, -np.ones(20), method="newton-cg")
    assert "minimize, newton-cg: iteration " in terminal.getvalue()
    assert terminal.getvalue().endswith(" s\n")
