"""Arguments that are given away: written where they lie, never if anything else can see it, and refused afterwards."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from random_writes import Library, random_program

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import CopyError, DeletedArrayError, TraceError
from nabla_mlir.runtime import Array
from nabla_mlir.runtime.donation import address

NUMBERS = np.arange(12.0).reshape(4, 3)


def start(a: Any) -> Any:
    return a.at[0].set(-1.0)


@pytest.fixture(scope="module")
def start_in_place() -> Callable[[Any], Array]:
    return nm.jit(start, donate_argnums=0)


def expected(x: np.ndarray = NUMBERS) -> np.ndarray:
    x = np.array(x)
    x[0] = -1.0
    return x


def test_the_result_lies_where_the_argument_did(start_in_place: Callable[[Any], Array]) -> None:
    x = Array.from_numpy(NUMBERS)
    place = address(x)
    for _ in range(3):
        y = start_in_place(x)
        assert address(y) == place
        assert x.is_deleted()
        assert not y.is_deleted()
        x = y
    np.testing.assert_array_equal(np.asarray(y), expected())


def test_large_arrays_are_copied_once(start_in_place: Callable[[Any], Array]) -> None:
    x = nnp.zeros((1024, 1024))
    y = start_in_place(x)
    place = address(y)
    y = start_in_place(start_in_place(y))
    assert address(y) == place
    np.testing.assert_array_equal(np.asarray(y), expected(np.zeros((1024, 1024))))


def a_view(x: Array) -> Any:
    return np.asarray(x)


def another_driver(x: Array) -> Any:
    return x.to("local-task")


def by_dlpack(x: Array) -> Any:
    return np.from_dlpack(x)


def through_a_call(x: Array) -> Any:
    return nm.jit(lambda x: x.reshape(-1))(x)


def a_closure(x: Array) -> Any:
    return nm.jit(lambda: x.reshape(-1))()


def state(x: Array) -> Any:
    return nm.HessianOperator(lambda x: (x**3).sum(), x)


@pytest.mark.parametrize("hold", [a_view, another_driver, by_dlpack, through_a_call, a_closure, state])
def test_what_others_hold_stays(start_in_place: Callable[[Any], Array], hold: Callable[[Array], Any]) -> None:
    x = Array.from_numpy(NUMBERS)
    held = hold(x)
    before = held.tolist() if hold is not state else (held @ np.ones(12)).tolist()
    y = start_in_place(x)
    assert (held.tolist() if hold is not state else (held @ np.ones(12)).tolist()) == before
    np.testing.assert_array_equal(np.asarray(y), expected())


def test_numpy_arrays_and_scalars_are_not_written() -> None:
    x, large = NUMBERS.copy(), np.zeros((600, 600))
    step = nm.jit(lambda a, b, c: (a.at[0].set(c), b.at[0].set(c)), donate_argnums=(0, 1, 2))
    for _ in range(2):
        y, z = step(x, large, 7.0)
        assert float(y[0, 0]) == float(z[0, 0]) == 7.0
        np.testing.assert_array_equal(x, NUMBERS)
        assert not large.any()


def test_results_that_share_memory_are_not_given_on() -> None:
    x = Array.from_numpy(NUMBERS)
    split = nm.jit(lambda a: (a, a, a.reshape(-1)[1:5], a.reshape(-1)[3:7]), donate_argnums=0)
    results = split(x)
    before = [np.array(np.asarray(y)) for y in results]
    assert not any(y.is_alone for y in results)
    nm.jit(start, donate_argnums=0)(results[0])
    for y, values in zip(results[1:], before[1:], strict=True):
        np.testing.assert_array_equal(np.asarray(y), values)


def test_trees_and_names() -> None:
    @nm.jit(donate_argnames=("state",), static_argnums=0)
    def step(rate: float, state: dict[str, Any], slope: dict[str, Any]) -> dict[str, Any]:
        return {k: state[k] - rate * slope[k] for k in state}

    state = {"w": Array.from_numpy(np.ones(3)), "b": Array.from_numpy(np.zeros(2))}
    slope = {"w": Array.from_numpy(np.ones(3)), "b": Array.from_numpy(np.ones(2))}
    new = step(0.5, state, slope=slope)
    newer = step(0.5, state=new, slope=slope)
    assert newer["w"].tolist() == [0.0] * 3
    assert newer["b"].tolist() == [-1.0] * 2
    assert all(x.is_deleted() for x in (*state.values(), *new.values()))
    assert not any(x.is_deleted() for x in slope.values())


@pytest.mark.parametrize("mode", ["interpret", "compile"])
def test_every_mode_deletes(mode: Any) -> None:
    before = nm.set_execution(mode)
    try:
        x = Array.from_numpy(NUMBERS)
        np.testing.assert_array_equal(np.asarray(nm.jit(start, donate_argnums=0)(x)), expected())
        assert x.is_deleted()
    finally:
        nm.set_execution(before)


def test_functions_that_print_delete(capsys: pytest.CaptureFixture[str]) -> None:
    def write(a: Any) -> Any:
        nm.jax.debug.print("first {}", a[0, 0])
        return start(a)

    x = Array.from_numpy(NUMBERS)
    np.testing.assert_array_equal(np.asarray(nm.jit(write, donate_argnums=0)(x)), expected())
    assert x.is_deleted()
    assert capsys.readouterr().out == "first 0.0\n"


def test_inside_a_trace_nothing_is_given_away(start_in_place: Callable[[Any], Array]) -> None:
    f = nm.jit(lambda a: start_in_place(a) + a)
    np.testing.assert_array_equal(np.asarray(f(NUMBERS)), expected() + NUMBERS)


READS: dict[str, Callable[[Array], Any]] = {
    "numpy": np.asarray,
    "arithmetic": lambda x: x + 1,
    "jit": lambda x: nm.jit(lambda x: x * 2)(x),
    "item": lambda x: x[0, 0],
    "copy": Array.copy,
    "to": lambda x: x.to("local-task"),
    "delete": Array.delete,
    "assignment": lambda x: x.__setitem__(0, 1.0),
    "again": nm.jit(start, donate_argnums=0),
    "out": Array.to_write,
}


@pytest.mark.parametrize("read", READS)
def test_the_old_handle_refuses(start_in_place: Callable[[Any], Array], read: str) -> None:
    x = Array.from_numpy(NUMBERS)
    start_in_place(x)
    with pytest.raises(DeletedArrayError, match=r"requires its memory, got float64\[4, 3\]"):
        READS[read](x)
    assert (x.shape, x.dtype, x.nbytes) == ((4, 3), np.float64, 96)
    assert repr(x) == "Array(float64[4, 3], deleted)"


def test_zero_size() -> None:
    x = Array.from_numpy(np.zeros((0, 3)))
    y = nm.jit(lambda a: a + 1.0, donate_argnums=0)(x)
    assert y.shape == (0, 3)
    assert x.is_deleted()


def test_an_array_is_given_away_once() -> None:
    x = Array.from_numpy(NUMBERS)
    add = nm.jit(lambda a, b: a + b, donate_argnums=0)
    for kind in (CopyError, RuntimeError):
        with pytest.raises(kind, match="got one as leaves 0 and 1"):
            add(x, x)
    np.testing.assert_array_equal(np.asarray(x), NUMBERS)
    captured = nm.jit(lambda a: a.at[0].set(-1.0) + x, donate_argnums=0)  # its numbers are in the program
    for _ in range(2):
        np.testing.assert_array_equal(np.asarray(captured(Array.from_numpy(NUMBERS))), expected() + NUMBERS)


@pytest.mark.parametrize(
    ("words", "match"),
    [
        ({"donate_argnums": 2}, "among the 2 positional"),
        ({"donate_argnums": 0.5}, "integers as donate_argnums"),
        ({"donate_argnums": 0, "static_argnums": 0}, "static as well"),
        ({"donate_argnames": ("b", "c")}, "donate_argnames requires names of arguments, got 'c'"),
        ({"donate_argnames": "a", "static_argnames": "a"}, "static"),
    ],
)
def test_arguments_that_cannot_be_given_away(words: dict[str, Any], match: str) -> None:
    with pytest.raises(TraceError, match=match):
        nm.jit(lambda a, b: a, **words)


def test_one_argument_may_be_named_twice() -> None:
    x = Array.from_numpy(NUMBERS)
    nm.jit(lambda a, b: a + b, donate_argnums=(0, -2))(x, 1.0)
    assert x.is_deleted()
    with pytest.raises(DeletedArrayError):
        nm.jax.device_put(x)


def test_of_two_threads_one_is_refused(start_in_place: Callable[[Any], Array]) -> None:
    for _ in range(20):
        x, outcomes = Array.from_numpy(NUMBERS), []

        def give(x: Array = x, outcomes: list[Any] = outcomes) -> None:
            try:
                outcomes.append(start_in_place(x).tolist())
            except DeletedArrayError as error:
                outcomes.append(error)

        threads = [threading.Thread(target=give) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        values = [o for o in outcomes if isinstance(o, list)]
        assert len(outcomes) == 3
        assert values == [expected().tolist()]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_random_programs_do_as_without(seed: int) -> None:
    rng = np.random.default_rng(seed)
    captured, x, y = (rng.normal(size=(5, 5)).astype(np.float32) for _ in range(3))
    f = random_program(seed, Library(nnp, nm, nm), captured)
    plain, giving = nm.jit(lambda x, y: f(x, y)), nm.jit(lambda x, y: f(x, y), donate_argnums=(0, 1))
    a, b, wanted, held = Array.from_numpy(x), Array.from_numpy(y), x, []
    for _ in range(3):
        wanted, *others = (np.asarray(z) for z in plain(wanted, y))
        a, *results = giving(a, b)
        held += zip(others, results, strict=True)
        for values, result in held:
            np.testing.assert_array_equal(np.asarray(result), values)
        b = Array.from_numpy(y)
    np.testing.assert_array_equal(np.asarray(a), wanted)


def test_copies_of_whole_arguments_are_named(caplog: pytest.LogCaptureFixture) -> None:
    def write(a: Any, b: Any, i: Any) -> Any:
        return a.at[i].add(1.0), b.at[0].set(2.0), b.sum()

    stage = nm.trace(write, nm.spec((100, 10)), nm.spec(50), nm.spec((), "i32"), name="write").lower()
    (copy,) = stage.copies()["write"]  # b is read once more: it is copied in any case
    assert (copy.argument, copy.bytes, copy.written) == (0, 4000, 40)
    assert copy.where is not None
    assert copy.where.filename == __file__
    assert "copies 4,000 bytes of argument 0 to write 40" in str(copy)
    page = nm.explain(stage)
    assert [found["text"] for found in page.data["copies"]] == [str(copy)]
    with caplog.at_level(logging.INFO, "nabla_mlir.jit"):
        nm.jit(start)(NUMBERS)
        assert "start copies 96 bytes of argument 0 to write 24" in caplog.text
        caplog.clear()
        nm.jit(start, donate_argnums=0)(NUMBERS)
        assert "copies" not in caplog.text
