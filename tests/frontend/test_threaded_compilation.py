"""Two threads may trace, transform, lower and compile at once."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.compiling.lowering import legalize
from nabla_mlir.targets import CPU, Vulkan


def attention(x: Any) -> Any:
    weights = nm.nn.softmax(x @ x.T)
    return nnp.sum(nnp.tanh(weights @ x) ** 2)


def loop(x: Any) -> Any:
    return nnp.sum(nm.fori_loop(0, 5, lambda i, y: nnp.sin(y) * x[i], x))


def factors(x: Any) -> Any:
    spd = x.T @ x + nnp.eye(x.shape[1])
    return nnp.sum(nnp.linalg.inv(spd)) + nnp.linalg.det(spd)


def sorted_(x: Any) -> Any:
    return nnp.sum(nnp.sort(x, axis=0) * x.at[1:].set(2.0))


PROGRAMS: list[Callable[[Any], Any]] = [attention, loop, factors, sorted_]


def legal(program: Callable[[Any], Any], target: Any, rows: int) -> str:
    lowered = nm.trace(nm.jacfwd(nm.grad(program)), nm.spec((rows, 3)), name="hessian").lower()
    return str(legalize(lowered.module, target))


@pytest.fixture
def eager_switches():
    """Threads that take turns after each few operations, and not only every five milliseconds."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("eager_switches")
@pytest.mark.slow
def test_each_thread_makes_the_code_that_one_alone_makes() -> None:
    cases = [(p, target, rows) for rows in (5, 6) for p in PROGRAMS for target in (CPU("generic"), Vulkan())]
    alone = [legal(*case) for case in cases]
    start = threading.Barrier(4)

    def work(k: int) -> list[str]:
        start.wait()
        order = [*range(k * 4, len(cases)), *range(k * 4)]
        made = {i: legal(*cases[i]) for i in order}
        return [made[i] for i in range(len(cases))]

    with ThreadPoolExecutor(4) as pool:
        for made in pool.map(work, range(4)):
            assert made == alone


@pytest.mark.slow
def test_two_threads_compile_and_call_at_once() -> None:
    x = np.linspace(0.1, 1.0, 15).reshape(5, 3)
    wanted = [np.asarray(nm.grad(p)(x)) for p in PROGRAMS]
    start = threading.Barrier(2)

    def work(k: int) -> list[Any]:
        start.wait()
        return [np.asarray(nm.jit(nm.grad(lambda x, p=p: p(x) + k))(x)) for p in PROGRAMS]

    with ThreadPoolExecutor(2) as pool:
        for found in pool.map(work, range(2)):
            for got, want in zip(found, wanted, strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-12)
