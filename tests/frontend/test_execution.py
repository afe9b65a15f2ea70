"""Functions outside jit run by NumPy until compiling pays; the values before and after are the same, and each form can be forced."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from vulkan import need_vulkan

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base import thresholds
from nabla_mlir.base.errors import DeployError, RuleMissingError
from nabla_mlir.runtime import Array, Device
from nabla_mlir.staging import execution

X = np.linspace(-1, 1, 5)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The programs that are compiled while the test runs; no program is known before."""
    names: list[str] = []
    compile_checked = execution.compile_checked

    def count(module: Any, *args: Any, **kwargs: Any) -> Any:
        names.append(str(module))
        return compile_checked(module, *args, **kwargs)

    monkeypatch.setattr(execution, "compile_checked", count)
    monkeypatch.setattr(execution, "_runners", execution._Latest(8))
    before = execution.Execution.mode
    yield names
    execution.Execution.mode = before


def test_little_work_is_not_compiled(compiled: list[str]) -> None:
    a = nnp.arange(5.0)
    values = [float(a[i]) for i in range(5)] + [(a * s).tolist()[-1] for s in (1.5, 2.5)]
    assert values == [0, 1, 2, 3, 4, 6.0, 10.0]
    x = X
    for rate in (0.1, 0.2, 0.3):  # with a closure that is new each time
        x = np.asarray(x - rate * nm.grad(lambda y, r=rate: (y * y * r).sum())(x))
    np.testing.assert_allclose(x, X * (1 - 0.02) * (1 - 0.08) * (1 - 0.18))
    _, push = nm.linearize(nnp.sin, X)
    np.testing.assert_allclose(push(X), np.cos(X) * X)
    np.testing.assert_allclose(nm.hessian(lambda y: (y**3).sum())(X), np.diag(6 * X))
    np.testing.assert_allclose(nnp.linalg.solve(np.eye(5) * 2, X), X / 2)
    assert compiled == []


def test_it_is_compiled_when_that_pays(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """After as many calls as cost what compiling would: the same number in every run, with the same values."""
    monkeypatch.setattr(thresholds, "COMPILED_MODULE", 40 * thresholds.STEP)
    monkeypatch.setattr(thresholds, "COMPILED_OPERATION", 0.0)
    f = lambda x: (nnp.sin(x) * x).sum()  # noqa: E731
    counts, values = [], []
    for _ in range(40):
        values.append(np.asarray(nm.grad(f)(X)))
        counts.append(len(compiled))
    assert counts[0] == 0
    assert counts[-1] == 1
    assert 2 < counts.index(1) < 20
    for value in values:
        np.testing.assert_allclose(value, np.sin(X) + X * np.cos(X), rtol=1e-14)
        assert isinstance(nm.grad(f)(X), nm.Array)


def test_much_work_is_compiled_at_once(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thresholds, "COMPILED_MODULE", 5000.0)
    monkeypatch.setattr(thresholds, "COMPILED_OPERATION", 0.0)
    a = np.ones((600, 600), np.float32)
    assert nnp.matmul(a, a).tolist()[0][:2] == [600, 600]
    assert len(compiled) == 1
    assert nnp.matmul(a[:20], a).tolist()[0][:2] == [600, 600]
    assert len(compiled) == 1


def test_a_loop_that_takes_long_is_abandoned_and_compiled(compiled: list[str]) -> None:
    """How many steps it takes the values say: nobody knows before."""

    def count(limit: Any) -> Any:
        return nm.while_loop(lambda c: c[0] < limit, lambda c: (c[0] + 1, c[1] * 1.0000001), (0, 1.0))

    few = count(np.int32(10))
    assert int(few[0]) == 10
    assert compiled == []
    many = count(np.int32(3_000_000))
    assert int(many[0]) == 3_000_000
    assert len(compiled) == 1
    assert int(count(np.int32(7))[0]) == 7
    assert len(compiled) == 1


def test_each_way_can_be_forced(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    f = nm.jit(lambda x: nnp.cumsum(nnp.exp(x)))
    nm.set_execution("interpret")
    monkeypatch.setattr(thresholds, "COMPILED_MODULE", 0.0)
    monkeypatch.setattr(thresholds, "COMPILED_OPERATION", 0.0)
    values = [f(X), nnp.exp(X), nm.grad(lambda x: nnp.exp(x).sum())(X)]
    operator = nm.HessianOperator(lambda x: nnp.exp(x).sum(), X)
    assert compiled == []
    np.testing.assert_allclose(operator @ X, np.exp(X) * X)
    assert nm.set_execution("compile") == "interpret"
    again = [f(X), nnp.exp(X), nm.grad(lambda x: nnp.exp(x).sum())(X)]
    assert len(compiled) == 3 - 1  # exp and the derivative of its sum are one program
    for a, b in zip(values, again, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-15)
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
    assert nm.set_execution("auto") == "compile"
    np.testing.assert_allclose(f(X), again[0])
    assert len(compiled) == 2


def test_what_numpy_does_not_know_is_compiled_or_refused(compiled: list[str]) -> None:
    call = nm.from_stablehlo("""func.func @main(%x: tensor<2xf64>) -> tensor<2xf64> {
      %0 = stablehlo.custom_call @elsewhere(%x) : (tensor<2xf64>) -> tensor<2xf64>
      return %0 : tensor<2xf64> }""")
    with pytest.raises(Exception, match="elsewhere"):
        call(np.ones(2))
    assert len(compiled) == 1
    nm.set_execution("interpret")
    with pytest.raises(RuleMissingError, match="interpreter requires an evaluation"):
        call(np.ones(2))


def test_the_programs_used_last_are_kept(compiled: list[str]) -> None:
    runners, makings = execution._Latest(2), []

    def get(key: str) -> str:
        return str(runners.get(key, lambda: makings.append(key) or key))

    assert [get(key) for key in "abacab"] == list("abacab")
    assert makings == ["a", "b", "c", "b"]


def test_loops_over_numbers_keep_few_programs(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thresholds, "CACHED_FUNCTIONS", 5)
    programs = inspect.getclosurevars(nnp.multiply).nonlocals["programs"]
    programs.clear()
    assert [nnp.multiply(X, s).tolist()[-1] for s in np.linspace(0.5, 4.0, 8).tolist()] == np.linspace(0.5, 4.0, 8).tolist()
    assert len(programs) == 5
    assert nnp.multiply(X, 0.5).tolist()[-1] == 0.5
    assert compiled == []


def test_arguments_and_results_keep_their_memory(compiled: list[str]) -> None:
    x = np.arange(6.0).reshape(2, 3)
    turned, part = nnp.transpose(x), nnp.asarray(x)[1:]
    written = nnp.asarray(x).at[0].set(9.0)
    x[:] = -1
    assert turned.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert part.tolist() == [[3, 4, 5]]
    assert written.tolist() == [[9, 9, 9], [3, 4, 5]]
    read_only = np.arange(4.0)
    read_only.flags.writeable = False
    assert nnp.flip(read_only).tolist() == [3, 2, 1, 0]
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(turned)[0] = 1
    assert nnp.add(read_only, read_only).tolist() == [0, 2, 4, 6]
    assert compiled == []


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64", "int8", "uint64", "bool"])
def test_dtypes_are_those_of_compiled_code(compiled: list[str], dtype: str) -> None:
    x = nnp.asarray(np.array([0, 1, 3]).astype(nnp.bfloat16 if dtype == "bfloat16" else dtype))
    functions = [lambda x: x + x, lambda x: nnp.sum(x), lambda x: x[::-1], lambda x: nnp.stack([x, x]), lambda x: x == x[0]]
    got = [f(x) for f in functions]
    assert compiled == []
    wanted = nm.jit(lambda x: [f(x) for f in functions])(x)
    for a, b in zip(got, wanted, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.vulkan
def test_arrays_of_a_device_are_computed_there() -> None:
    need_vulkan()
    x = Array.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3), "vulkan")
    _, push = nm.linearize(lambda a: a**3, x)
    results = {
        "operation": (x + 1, x.numpy() + 1),
        "with an array of the host": (x * nnp.asarray(x.numpy()), x.numpy() ** 2),
        "jit": (nm.jit(lambda a, b: nnp.tanh(a) @ b)(x, np.ones((3, 2), np.float32)), np.tanh(x.numpy()) @ np.ones((3, 2))),
        "derivative": (nm.grad(lambda a: nnp.sum(a**3))(x), 3 * x.numpy() ** 2),
        "linearised": (push(x), 3 * x.numpy() ** 3),
    }
    for what, (got, want) in results.items():
        assert got.device.driver == "vulkan", what
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, err_msg=what)
    before = nm.set_execution("interpret")
    try:
        assert (x + 1).device.is_host
    finally:
        nm.set_execution(before)


def test_arrays_of_two_devices_are_refused() -> None:
    arrays = [Array.from_numpy(np.ones(2)) for _ in range(3)]
    for array, driver in zip(arrays, ("vulkan", "cuda"), strict=False):
        array.device = Device(driver, array.device.hal, array.device.pool)
    assert execution.device_of(arrays[1:]) is arrays[1].device
    assert execution.device_of(arrays[2:]) is None
    with pytest.raises(DeployError, match=r"(?s)arrays of one device, got some on cuda and vulkan.*x\.to\(driver\)"):
        execution.device_of(arrays)


@pytest.mark.slow
def test_compiled_functions_of_captured_arrays_outside_jit() -> None:
    before, large = nm.set_execution("compile"), np.arange(100.0)
    try:
        np.testing.assert_array_equal(nm.grad(lambda x: (x * large).sum())(np.ones(100)), large)
    finally:
        nm.set_execution(before)
