"""Programs that hold no more memory than they may: the plan, the rewritten IR by the interpreter, and compiled code."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nabla_mlir as nm
import nabla_mlir.nn as nn
from nabla_mlir.base import thresholds
from nabla_mlir.base.errors import MemoryLimitError, TargetError
from nabla_mlir.compiling import limits
from nabla_mlir.compiling.lowering import clone_module
from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.regions import functions_of, nested
from nabla_mlir.dialects.stablehlo import COMPUTE_BARRIERS
from nabla_mlir.passes.iree.scheduling.limit_memory import LIMIT, LimitMemoryPass, held_at_once, set_limits
from nabla_mlir.passes.iree.scheduling.rematerialization import Step, rematerialized
from nabla_mlir.passes.pipeline import Pipeline
from nabla_mlir.staging.stages import Lowered
from nabla_mlir.table.traits import bytes_of


def network(w, x):
    for layer in w:
        x = nn.gelu(x @ layer)
    return (x * x).sum()


def inputs(layers, width, rows, dtype):
    rng = np.random.default_rng(5)
    w, v = ([rng.normal(size=(width, width)).astype(dtype) / width**0.5 for _ in range(layers)] for _ in range(2))
    return w, v, rng.normal(size=(rows, width)).astype(dtype)


@st.composite
def programs(draw):
    """Steps that each make a value of some before, the sizes of all values, and which stay."""
    count = draw(st.integers(1, 25))
    steps = [
        Step(tuple(draw(st.lists(st.integers(0, i), max_size=3))), (i + 1,), draw(st.integers(1, 9)), draw(st.booleans()))
        for i in range(count)
    ]
    sizes = [0, *draw(st.lists(st.integers(1, 5), min_size=count, max_size=count))]
    return steps, sizes, draw(st.lists(st.integers(1, count), max_size=2)), draw(st.integers(0, 40))


def held_at_most(steps, sizes, results, again):
    """The bytes of a program with repeated steps, of which each result is there until the last that reads it."""
    order = [n for i in range(len(steps)) for n in (*again.get(i, []), i)]
    last = {}  # what each step of the order makes, and the place of its last reader
    made = {}
    for place, number in enumerate(order):
        for value in steps[number].reads:
            if value:
                last[value, made[value]] = place  # KeyError: it was never made
        for value in steps[number].makes:
            made[value] = place
            last[value, place] = place
    for value in results:
        last[value, made[value]] = len(order)
    return max(sum(sizes[value] for (value, start), end in last.items() if start <= place <= end) for place in range(len(order)))


@settings(max_examples=300, deadline=None)
@given(programs())
def test_a_plan_holds_what_it_says(program):
    steps, sizes, results, limit = program
    plan = rematerialized(steps, sizes, results, limit)
    assert all(steps[n].repeats for numbers in plan.recomputed.values() for n in numbers)
    assert held_at_most(steps, sizes, results, plan.recomputed) <= plan.peak
    free = rematerialized(steps, sizes, results, 10**9)
    assert not free.recomputed
    assert plan.peak <= max(limit, free.peak) + sum(sizes) * bool(plan.recomputed)
    assert free.peak > limit or not plan.recomputed


def test_a_long_chain_needs_a_root_of_its_length():
    n = 400
    there = [Step((i,), (i + 1,)) for i in range(n)]
    back = [Step((n + i, n - 1 - i), (n + 1 + i,)) for i in range(n)]
    assert rematerialized(there + back, [1] * (2 * n + 1), [2 * n], 10**9).peak == n + 1
    plan = rematerialized(there + back, [1] * (2 * n + 1), [2 * n], 60)
    assert plan.peak == 60
    assert sum(map(len, plan.recomputed.values())) < n  # each step once more, at most


@pytest.mark.parametrize("part", [0.8, 0.5, 0.2])
def test_the_rewritten_program_is_the_same(part):
    w, v, x = inputs(5, 8, 16, np.float64)
    lowered = nm.trace(nm.hvp(network), w, v, x, name="f").lower()
    module = clone_module(lowered.module)
    func = functions_of(module.operation)["f"]
    size = sum(map(bytes_of, held_at_once(func)))
    with context():
        set_limits(module.operation, {"f": int(part * size)})
    Pipeline((LimitMemoryPass(),)).run(module)
    for op in list(nested(func)):
        if op.name in COMPUTE_BARRIERS:  # which the interpreter does not know
            op.results[0].replace_all_uses_with(op.operands[0])
            op.erase()
    assert LIMIT not in func.attributes
    assert str(module) != str(lowered.module)
    for left, right in zip(
        Lowered(module, lowered.entries).compile(nm.Interpreter())(w, v, x), lowered.compile(nm.Interpreter())(w, v, x), strict=True
    ):
        np.testing.assert_array_equal(left, right)


@pytest.mark.slow
def test_compiled_code_keeps_to_its_limit():
    w, v, x = inputs(4, 128, 1024, np.float32)
    lowered = nm.trace(nm.hvp(network), w, v, x, name="f").lower()
    free = lowered.compile(nm.CPU())
    limit = int(0.7 * free.memory["f"].allocated)
    held = lowered.compile(nm.CPU(memory_limit=limit))
    assert held.memory["f"].allocated <= limit
    before = [np.copy(a) for a in (*w, *v, x)]
    first = held(w, v, x)
    jitted = nm.jit(nm.hvp(network), memory_limit=limit)
    for got, want in zip(jitted(w, v, x), first, strict=True):
        np.testing.assert_array_equal(got, want)
    for got, again, want in zip(first, held(w, v, x), free(w, v, x), strict=True):
        np.testing.assert_array_equal(got, again)
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())
    for array, copy in zip((*w, *v, x), before, strict=True):
        np.testing.assert_array_equal(array, copy)
    assert lowered.compile(nm.CPU(memory_limit=10**9)).vmfb == free.vmfb


@pytest.mark.slow
def test_a_limit_that_cannot_be_held_names_the_largest_values(monkeypatch):
    monkeypatch.setattr(thresholds, "LIMIT_ATTEMPTS", 2)
    w, v, x = inputs(2, 64, 128, np.float32)
    lowered = nm.trace(nm.hvp(network), w, v, x, name="product").lower()
    with pytest.raises(MemoryLimitError, match=r"product requires 0\.\d MB in the smallest form .*memory_limit=1000") as error:
        lowered.compile(nm.CPU(memory_limit=1000))
    assert "tensor<128x64xf32> (0.0 MB, line" in error.value.help
    assert error.value.where.function == "network"


def test_a_limit_is_a_number_of_bytes():
    for limit in (0, -1, 2.0, True, "1 GB"):
        with pytest.raises(TargetError, match="positive number of bytes as memory_limit"):
            nm.CPU(memory_limit=limit).resolve()
        with pytest.raises(TargetError, match="positive number of bytes as memory_limit"):
            nm.jit(lambda x: x + x, memory_limit=limit)(np.ones(3))


def test_without_a_schedule_there_is_one_form(monkeypatch):
    seen, allocated = [], limits._allocated
    monkeypatch.setattr(limits, "_allocated", lambda *xs: seen.append(1) or allocated(*xs))
    with pytest.raises(MemoryLimitError, match="f requires"):
        nm.trace(lambda x: x + x, nm.spec(3, "f32"), name="f").lower().compile(nm.CPU(schedule=False, memory_limit=1))
    assert len(seen) == 1
