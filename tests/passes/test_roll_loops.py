"""Equal consecutive blocks as loops: the periods that are found, and the numbers of programs with loops of Python."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base import pytree
from nabla_mlir.compiling.lowering import clone_module
from nabla_mlir.dialects.regions import nested
from nabla_mlir.interop.portable import parse
from nabla_mlir.passes.pipeline import Pipeline
from nabla_mlir.passes.roll.periods import Run, runs
from nabla_mlir.passes.roll.roll_loops import RollLoopsPass
from nabla_mlir.tools.values import results_of

pytestmark = pytest.mark.slow

STEPS = 60
X, Y = (np.random.default_rng(seed).normal(size=4).astype(np.float32) * 0.5 for seed in (1, 2))
WEIGHTS = np.random.default_rng(3).normal(size=(2 * STEPS, 4)).astype(np.float32)


def _runs_by_definition(items: list[int], repetitions: int) -> set[Run]:
    """All maximal stretches of a period that no shorter period has."""
    found = set()
    for period in range(1, len(items)):
        equal = [items[i] == items[i + period] for i in range(len(items) - period)]
        start = 0
        for i, is_equal in enumerate([*equal, False]):
            if is_equal:
                continue
            length = i - start + period
            shorter = any(
                all(items[j] == items[j + q] for j in range(start, start + length - q)) for q in range(1, period) if not period % q
            )
            if i > start and length >= repetitions * period and not shorter:
                found.add(Run(start, period, length))
            start = i + 1
    return found


def test_runs_are_those_of_the_definition() -> None:
    rng = np.random.default_rng(0)
    count = 0
    for _ in range(500):
        block = rng.integers(0, 3, rng.integers(1, 9)).tolist()
        items = [*rng.integers(0, 3, 5).tolist(), *(block * int(rng.integers(1, 7))), *rng.integers(0, 3, 7).tolist()]
        repetitions = int(rng.integers(3, 6))
        expected = _runs_by_definition(items, repetitions)
        assert set(runs(items, repetitions)) == expected
        count += len(expected)
    assert count > 300


def _loss(x: Any) -> Any:
    return nnp.sum(nnp.sin(x) ** 2) + nnp.sum((x[1:] - x[:-1]) ** 2)


def descent(x: Any, y: Any) -> Any:
    for _ in range(STEPS):
        x = x - 0.1 * nm.grad(_loss)(x)
    return x


def momentum(x: Any, y: Any) -> Any:
    velocity, losses = nnp.zeros(4, np.float32), []
    for i in range(STEPS):
        loss, slope = nm.value_and_grad(_loss)(x)
        velocity = 0.9 * velocity + slope
        x = x - 0.1 / (i + 1) * velocity
        losses.append(loss)
    return x, nnp.stack(losses)


def runge_kutta(x: Any, y: Any) -> Any:
    def slope(t: float, x: Any) -> Any:
        return nnp.sin(x * y) - nnp.cos(t * x)

    h = 0.01
    for i in range(STEPS):
        t = i * h
        a = slope(t, x)
        b = slope(t + h / 2, x + h / 2 * a)
        c = slope(t + h / 2, x + h / 2 * b)
        x = x + h / 6 * (a + 2 * b + 2 * c + slope(t + h, x + h * c))
    return x


def adjoint(x: Any, y: Any) -> Any:
    return nm.grad(lambda x: nnp.sum(runge_kutta(x, y) ** 2))(x)


def two_steps(x: Any, y: Any) -> Any:
    before = y
    for _ in range(STEPS):
        slope = nnp.sin(x) * y - nnp.cos(x) * x + nnp.tanh(x * y)
        x, before = x + 0.01 * (1.5 * slope - 0.5 * before), slope
    return x, before


def nests(x: Any, y: Any) -> Any:
    for _ in range(20):
        z = x
        for _ in range(30):
            z = nnp.sin(z) + y * nnp.cos(z) * 0.5
        x = nnp.tanh(x + z * y)
    return x


def trajectory(x: Any, y: Any) -> Any:
    states = [x]
    for _ in range(STEPS):
        x = x - 0.1 * nnp.sin(x) * y + 0.1 * nnp.cos(x) * nnp.tanh(x) - nnp.exp(-x * x) / 3
        states.append(x)
    return states[7], nnp.array(states), nnp.concatenate(states[::-1])


def anchor(x: Any, y: Any) -> Any:
    start = x
    for _ in range(STEPS):
        x = x - 0.1 * (nnp.sin(x) - start * y) + nnp.cos(x) * nnp.tanh(x) - nnp.exp(-(x - start) * x) / 3
    return x


def rows(x: Any, y: Any) -> Any:
    table = nnp.sin(nnp.arange(2 * STEPS, dtype=np.float32)[:, None] * y)
    for i in range(2 * STEPS):
        x = nnp.tanh(table[i] * x) + nnp.sin(x) * nnp.cos(x) - table[-1 - i] * x[3 - i % 4] * WEIGHTS[i] - nnp.exp(-x * x)
    return x


def batches(x: Any, y: Any) -> Any:
    parts = [nnp.sin(y), nnp.cos(y), y]
    for i in range(STEPS):
        x = nnp.tanh(x * parts[i % 3]) + nnp.sin(x + 1.0) * nnp.cos(x) - nnp.exp(-x * x) * x
    return x


def branches(x: Any, y: Any) -> Any:
    for _ in range(STEPS):
        x = nm.cond(nnp.sum(x) > 1.0, lambda x: nnp.sin(x) * y, lambda x: nnp.cos(x) - y, x)
        x = nm.fori_loop(0, 3, lambda _, x: x * y + nnp.sin(x), x)
        x = nnp.tanh(x + y) * nnp.exp(-x * x) + x / 2 + nnp.sin(x + 1.0)
    return x


def pendulum(x: Any, y: Any) -> Any:
    def mean(scale: Any) -> Any:
        u, states = x, []
        for _ in range(2 * STEPS):
            u = u + 0.01 * nnp.stack([scale * (u[1] - u[0]), u[0] * (3.0 - u[2]) - u[1], u[0] * u[1] - u[2], -u[3] * u[0]])
            states.append(u)
        return nnp.mean(nnp.stack(states)[:, 0])

    return nm.grad(mean)(y[0])


# By program, the number of loops in it when its loops of Python are rolled; `branches` has another in its body.
LOOPS: dict[Callable[..., Any], int] = {
    descent: 1, momentum: 1, runge_kutta: 1, adjoint: 2, two_steps: 1, nests: 1, trajectory: 1, anchor: 1, rows: 2, batches: 1,
    branches: 2,
}  # fmt: skip


@pytest.mark.parametrize("function", LOOPS, ids=lambda f: f.__name__)
def test_rolled_loops_have_the_same_numbers(function: Callable[..., Any]) -> None:
    lowered = nm.trace(function, nm.spec(4), nm.spec(4)).lower()
    rolled = clone_module(lowered.module)
    Pipeline(("cse", RollLoopsPass())).run(rolled)
    names = [op.name for op in nested(rolled.operation)]
    assert names.count("stablehlo.while") == LOOPS[function]
    assert len(names) < 300
    _check_equal(lowered.module, rolled, function.__name__)


def _check_equal(module: Any, rolled: Any, name: str) -> None:
    for before, after in zip(*(results_of(m, name, [X, Y]) for m in (module, rolled)), strict=True):
        np.testing.assert_array_equal(before, after)


def test_several_results_of_a_block_are_read_later() -> None:
    # The gradient slices the cotangent of the stack before its own blocks, so that only the forward loop is rolled.
    lowered = nm.trace(pendulum, nm.spec(4), nm.spec(4)).lower()
    rolled = clone_module(lowered.module)
    Pipeline(("cse", RollLoopsPass())).run(rolled)
    assert str(rolled).count("stablehlo.while") == 1
    _check_equal(lowered.module, rolled, "pendulum")


def test_compiled_loops_agree_with_the_interpreter() -> None:
    functions = (momentum, rows)
    lowered = nm.module(**{f.__name__: nm.trace(f, nm.spec(4), nm.spec(4)) for f in functions}).lower()
    compiled = lowered.compile(nm.CPU("host", checking="off"))
    for f in functions:
        found = pytree.flatten(getattr(compiled, f.__name__)(X, Y))[0]
        for after, before in zip(found, results_of(lowered.module, f.__name__, [X, Y]), strict=True):
            np.testing.assert_allclose(np.asarray(after), before, rtol=1e-4, atol=1e-5)


def test_rows_that_the_pass_reads_are_not_rolled_again() -> None:
    def states(x: Any, y: Any) -> Any:
        found = []
        for i in range(8):
            x = nnp.tanh(x * y) + 0.1 * i
            found.append(x)
        return found

    module = nm.trace(states, nm.spec(4), nm.spec(4)).lower().module
    Pipeline((RollLoopsPass(repetitions=3, operations=4),)).run(module)
    assert [op.name for op in nested(module.operation)].count("stablehlo.while") == 1


def test_few_steps_are_not_rolled() -> None:
    def few(x: Any, y: Any) -> Any:
        for _ in range(14):
            x = x - 0.1 * nm.grad(_loss)(x) + nnp.sin(nnp.cos(x * y)) * nnp.tanh(x)
        return x

    module = nm.trace(few, nm.spec(4), nm.spec(4)).lower().module
    Pipeline((RollLoopsPass(operations=100),)).run(module)
    assert "stablehlo.while" not in str(module)


def test_the_time_of_the_pass_is_proportional_to_the_operations() -> None:
    def seconds(steps: int) -> float:
        text = "\n".join(
            f"%b{i} = stablehlo.sine %a{i} : tensor<4xf32>\n%a{i + 1} = stablehlo.multiply %b{i}, %a0 : tensor<4xf32>"
            for i in range(steps)
        )
        source = f"func.func @f(%a0: tensor<4xf32>) -> tensor<4xf32> {{\n{text}\nreturn %a{steps} : tensor<4xf32>\n}}"
        module = parse(source)
        start = time.process_time()
        Pipeline((RollLoopsPass(),)).run(module)
        end = time.process_time()
        assert len(nested(module.operation)) < 20
        return end - start

    assert seconds(20_000) < 12 * seconds(4_000)  # 5 if it is linear, 25 if it is quadratic
