"""Python's collector of cycles waits while passes run, and is as it was behind them."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator

import pytest

from nabla_mlir.base.errors import PassError
from nabla_mlir.dialects.context import parse_module
from nabla_mlir.passes import pipeline
from nabla_mlir.passes.base import Pass
from nabla_mlir.passes.pipeline import Pipeline


@pytest.fixture(autouse=True)
def enabled() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


class Look(Pass):
    """Sees whether the collector is enabled, then does what it is told."""

    name = "nabla-look"

    def __init__(self, then=lambda: None):
        self.then, self.seen = then, []

    def run(self, module) -> None:
        self.seen.append(gc.isenabled())
        self.then()
        self.seen.append(gc.isenabled())


def run(*looks: Look) -> list[list[bool]]:
    Pipeline(looks).run(parse_module("func.func @f() { return }"))
    return [look.seen for look in looks]


def test_it_waits_and_is_enabled_again() -> None:
    assert run(Look(), Look()) == [[False, False]] * 2
    assert gc.isenabled()


def test_who_has_disabled_it_finds_it_so() -> None:
    gc.disable()
    assert run(Look()) == [[False, False]]
    assert not gc.isenabled()


def test_it_is_enabled_again_behind_an_error() -> None:
    def fail() -> None:
        raise PassError("no")

    with pytest.raises(PassError, match="no"):
        run(Look(fail))
    assert gc.isenabled()


def test_pipelines_within_one_and_in_other_threads() -> None:
    inner = Look()

    def elsewhere() -> None:
        thread = threading.Thread(target=run, args=(inner,))
        thread.start()
        thread.join()
        run(inner)

    assert run(Look(elsewhere)) == [[False, False]]
    assert inner.seen == [False] * 4
    assert gc.isenabled()


def test_a_fork_does_not_wait_for_the_threads_of_its_parent() -> None:
    with pipeline._collector.waits():
        assert not gc.isenabled()
        if (child := os.fork()) == 0:
            os._exit(0 if gc.isenabled() else 1)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert gc.isenabled()
