"""What is said of work that takes long: one line, to those who watch."""

import io
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

import nabla_mlir as nm
from nabla_mlir.compiling import progress
from nabla_mlir.compiling.progress import own_line, watch


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))  # pytest has its own between setup and call
    monkeypatch.setattr(progress, "_AFTER", 0.01)
    return stream


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
    """Of the outer one of two, of one of two threads, and none within another display."""
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
