"""Calls of jit after the first: what is like the call before goes on without more ado, anything else is seen."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from vulkan import need_vulkan

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import DtypeError, TraceError
from nabla_mlir.jax import lax
from nabla_mlir.runtime import Array

F32, F64 = np.float32, np.float64
ROW = np.arange(3, dtype=F32)


def double(x: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf * 2, x)


def device(x: Any) -> Array:
    return Array.from_numpy(np.asarray(x))


ARGUMENTS: dict[str, Callable[[], Any]] = {
    "array": lambda: device(ROW),
    "numpy": lambda: ROW,
    "another dtype": lambda: ROW.astype(F64),
    "another shape": lambda: ROW[:2],
    "a stride": lambda: np.arange(6, dtype=F32)[::2],
    "read-only": lambda: np.broadcast_to(F32(2), (3,)),
    "bytes swapped": lambda: ROW.astype(">f4"),
    "no elements": lambda: ROW[:0],
    "a half": lambda: ROW.astype("f2"),
    "an integer": lambda: 3,
    "a number": lambda: 1.5,
    "truth": lambda: True,
    "complex": lambda: 2j,
    "an array of it": lambda: device(F32(1.5)),
    "a scalar of NumPy": lambda: F64(1.5),
    "a list": lambda: [ROW, 2.0],
    "a tuple": lambda: (ROW, 2.0),
    "nothing": lambda: None,
    "a dict": lambda: {"a": ROW, "b": device(ROW)},
    "the other order": lambda: {"b": device(ROW), "a": ROW},
    "another key": lambda: {"a": ROW, "c": ROW},
    "a deeper dict": lambda: {"a": {"a": ROW}, "b": ROW},
    "a list in it": lambda: {"a": [ROW], "b": ROW},
    "JAX": lambda: jnp.asarray(ROW),
    "strided and large": lambda: np.ones((3, 2, 400_000), F32)[:, 1],
}


def kinds(tree: Any) -> list[tuple[Any, ...]]:
    leaves = jax.tree.leaves(tree, is_leaf=lambda x: isinstance(x, Array))
    return [(np.asarray(x).dtype, np.asarray(x).shape, np.asarray(x).tolist()) for x in leaves]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["interpret", pytest.param("auto", marks=pytest.mark.slow)])
def test_any_argument_after_any_other(mode: Any) -> None:
    before = nm.set_execution(mode)
    try:
        f = nm.jit(double)
        wanted = {name: kinds(nm.jit(double)(make())) for name, make in ARGUMENTS.items()}
        for first in ARGUMENTS:
            for second in ARGUMENTS:
                assert [kinds(f(ARGUMENTS[name]())) for name in (first, second)] == [wanted[first], wanted[second]], (first, second)
    finally:
        nm.set_execution(before)


@pytest.fixture(scope="module")
def scaled() -> Callable[..., Any]:
    f = nm.jit(lambda x, rate: x * rate)
    f(ROW, 2.0)
    return f


def test_scalars_stay_weak(scaled: Callable[..., Any]) -> None:
    assert scaled(ROW, 2.0).dtype == F32
    assert scaled(ROW, np.asarray(2.0)).dtype == F64  # of shape () as the scalar, but an array
    assert scaled(ROW, device(F64(2.0))).dtype == F64
    assert scaled(ROW, rate=3.0).tolist() == [0.0, 3.0, 6.0]
    assert scaled(ROW, 4.0).tolist() == [0.0, 4.0, 8.0]
    assert scaled(ROW, float("inf")).tolist()[1:] == [np.inf] * 2
    with pytest.raises(DtypeError, match="range of float32, got 1e\\+300"):
        scaled(ROW, 1e300)
    assert scaled(ROW, 2).tolist() == [0.0, 2.0, 4.0]
    assert scaled(ROW, True).tolist() == [0.0, 1.0, 2.0]


def test_defaults_and_modes_are_looked_at() -> None:
    f = nm.jit(lambda x: (x, x + 1.0))
    assert [y.dtype for y in f(2.0)] == [F32, F32]
    nm.set_default_dtypes(float="f64")
    try:
        assert [y.dtype for y in f(2.0)] == [F64, F64]
    finally:
        nm.set_default_dtypes(float="f32")
    assert [y.dtype for y in f(2.0)] == [F32, F32]
    with nm.debug_nans(), pytest.raises(nm.errors.NotFiniteError):
        nm.jit(lambda x: 1.0 / x)(0.0)
    g = nm.jit(lambda x: 1.0 / x)
    assert float(g(0.0)) == np.inf
    with nm.debug_nans(), pytest.raises(nm.errors.NotFiniteError):
        g(0.0)
    with nm.disable_jit():
        assert nm.jit(lambda x: type(x))(2.0) is float


def test_arguments_are_not_written_and_results_stay(scaled: Callable[..., Any]) -> None:
    x, y = device(ROW), ROW.copy()
    first, second = scaled(x, 2.0), scaled(y, 3.0)
    y[:] = 7.0
    third = scaled(y, 1.0)
    assert [z.tolist() for z in (first, second, third, x)] == [[0, 2, 4], [0, 3, 6], [7, 7, 7], [0, 1, 2]]


@pytest.mark.parametrize("mode", ["interpret", "compile"])
@pytest.mark.parametrize("kind", [np.array, device])
def test_what_is_captured_has_the_values_of_the_trace(kind: Callable[[Any], Any], mode: Any) -> None:
    before = nm.set_execution(mode)
    try:
        small, large = kind(ROW), kind(np.ones(3000, F32))
        f = nm.jit(lambda x: x + small.sum() + large.sum())
        wanted = f(ROW).tolist()
        small[0] = 100.0
        large[:] = 0.0
        assert [f(ROW).tolist() for _ in range(2)] == [wanted] * 2
        assert f(ROW.astype(F64)).tolist() == (ROW + 103.0).tolist()
    finally:
        nm.set_execution(before)


def test_wrong_numbers_of_arguments(scaled: Callable[..., Any]) -> None:
    for args in ((), (ROW,), (ROW, 2.0, 3.0)):
        with pytest.raises(TypeError):
            scaled(*args)
    with pytest.raises(TraceError, match="arrays, scalars"):
        scaled(ROW, "two")
    assert scaled(ROW, 2.0).tolist() == [0.0, 2.0, 4.0]


@pytest.mark.vulkan
def test_arrays_of_a_device_go_there() -> None:
    need_vulkan()
    f = nm.jit(lambda x: x + 1)
    assert f(device(ROW)).device.is_host
    assert f(device(ROW).to("vulkan")).device.driver == "vulkan"
    assert f(device(ROW)).device.is_host


def test_what_is_in_the_trace_of_another_function(scaled: Callable[..., Any]) -> None:
    assert nm.jit(lambda x: scaled(x, 2.0) + nnp.sum(x))(ROW).tolist() == [3.0, 5.0, 7.0]
    np.testing.assert_allclose(nm.vmap(lambda r: scaled(ROW, r))(np.ones(2, F32)), np.stack([ROW, ROW]))


@pytest.mark.slow
def test_static_arguments_of_other_types_are_other_programs() -> None:
    f = nm.jit(lambda x, n, *, flag=False: x * n if not flag else x - n, static_argnums=1, static_argnames="flag")
    whole = np.arange(3, dtype=np.int32)
    for _ in range(2):
        assert [f(whole, n).dtype.name for n in (1, 1.0, 2, 2.0)] == ["int32", "float32"] * 2
    for _ in range(2):
        assert f(whole, 2, flag=True).tolist() == [-2, -1, 0]
        assert f(whole, 2, flag=False).tolist() == f(whole, 2).tolist() == f(x=whole, n=2).tolist() == [0, 2, 4]
        assert f(whole, 3).tolist() == [0, 3, 6]
    with pytest.raises(TraceError, match="hashed"):
        f(whole, [1])


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, 40])
def test_trees_of_few_and_of_many_leaves(count: int) -> None:
    """Calls of four kinds of trees in turn, as training and validation make them; what is missing, too much or elsewhere is seen."""
    f = nm.jit(lambda tree, scale=1.0: jax.tree.map(lambda leaf: leaf * scale, tree))
    rows = [device(ROW + i) for i in range(count)]
    trees = [rows, tuple(rows), {str(i): row for i, row in enumerate(rows)}, [{"w": row, "b": (row, None)} for row in rows]]
    for _ in range(3):
        for tree in trees:
            for scale in (2.0, device(F32(3.0))):
                got = f(tree, scale=scale)
                assert jax.tree.structure(got) == jax.tree.structure(jax.tree.map(np.asarray, tree))
                wanted = [np.asarray(x) * F32(scale) for x in jax.tree.leaves(tree)]
                assert [x.tolist() for x in jax.tree.leaves(got)] == [x.tolist() for x in wanted]
    assert len(f(rows[:-1])) == count - 1
    assert list(f({**trees[2], "more": ROW})) == sorted([*trees[2], "more"])
    assert f([*rows[:-1], {"a": ROW}])[-1]["a"].tolist() == ROW.tolist()
    assert f([*rows[:-1], np.float64(2)])[-1].dtype == F64


def test_a_deleted_argument_is_refused(scaled: Callable[..., Any]) -> None:
    x = device(ROW)
    assert scaled(x, 2.0).tolist() == [0.0, 2.0, 4.0]
    x.delete()
    with pytest.raises(nm.errors.DeletedArrayError):
        scaled(x, 2.0)


def test_results_go_back_in_as_they_are(scaled: Callable[..., Any]) -> None:
    x = scaled(device(ROW), 2.0)
    assert scaled(scaled(x, 2.0), 2.0).tolist() == [0.0, 8.0, 16.0]
    assert x.tolist() == np.asarray(x).tolist() == [0.0, 2.0, 4.0]
    assert float(scaled(x, 0.5)[1]) == 1.0


@pytest.mark.vulkan
@pytest.mark.parametrize("cure", ["code", "device"])
def test_copies_of_later_calls(cure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """IREE 3.13 replayed copies with the buffers of an earlier call. The flags of the code prevent it, and so does the device."""
    need_vulkan()
    options = ("--iree-hal-indirect-command-buffers=true",) if cure == "device" else ()
    if cure == "code":
        monkeypatch.setattr(nm.Vulkan, "open_as", lambda driver: driver)
        devices = sys.modules["nabla_mlir.runtime.device"]
        monkeypatch.setattr(devices, "_open", functools.cache(devices._open.__wrapped__))
    compiled = (
        nm.trace(lambda x: (lax.pad(x, x[5], ((1, 0, 0),)), x + 3), nm.spec(8, "f4")).lower().compile(nm.Vulkan(options=options))
    )
    for call in range(12):
        host = np.arange(8, dtype=F32) + call
        x = Array.from_numpy(host, "vulkan")
        padded, more = map(np.asarray, compiled(x))
        np.testing.assert_array_equal(padded, [host[5], *host])
        np.testing.assert_array_equal(more, host + 3)
        np.testing.assert_array_equal(x, host)
