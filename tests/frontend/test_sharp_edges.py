"""Mistakes of new users: each error names the fault, the user's line, and the remedy."""

import copy
import dataclasses
import pickle
from pathlib import Path

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as xp
from nabla_mlir.base.errors import (
    ConcretizationError,
    DtypeError,
    LeakedTracerError,
    OutOfMemoryError,
    SaveError,
    ShapeError,
    TraceError,
    TreeError,
)

HOST = np.array([1.0, 4.0, 3.0])


pytestmark = pytest.mark.usefixtures("interpreted")


def shows_the_line(error) -> bool:
    """True if the message has the line of this file that raised it."""
    return error.value.where.filename == __file__ and f"--> {__file__}" in str(error.value)


# ---------------------------------------------------------------- default dtypes


@pytest.mark.parametrize(
    "loop",
    [
        lambda: nm.scan(lambda c, x: (c + x, c), xp.zeros(()), HOST),
        lambda: nm.fori_loop(0, 3, lambda i, c: c + HOST, xp.zeros(3)),
        lambda: nm.while_loop(lambda c: c.sum() < 9, lambda c: c + HOST, xp.zeros(3)),
        lambda: nm.cond(True, lambda: xp.zeros(3), lambda: HOST),
    ],
)
def test_default_dtypes_that_do_not_fit_data_are_named(loop) -> None:
    with pytest.raises(TreeError, match=r"the same structure, shapes and dtypes, got .*float64") as error:
        loop()
    assert shows_the_line(error)
    assert 'zeros are float32, data of NumPy float64: call nm.set_default_dtypes(float="float64")' in error.value.help


def test_integers_and_other_differences() -> None:
    with pytest.raises(TreeError) as error:
        nm.scan(lambda c, x: (c + x, c), xp.zeros((), xp.int32), np.arange(3))
    assert 'nm.set_default_dtypes(int="int64")' in error.value.help
    with pytest.raises(TreeError) as error:
        nm.scan(lambda c, x: (c[None], c), xp.zeros(()), HOST)
    assert error.value.help == "convert with astype or reshape so that both agree."


# ---------------------------------------------------------------- tensors whose trace has ended

USES = {
    "format": lambda x: f"{x:.3f}",
    "float": float,
    "truth": bool,
    "operator": lambda x: x + 1,
    "negative": lambda x: -x,
    "quotient": lambda x: x / 2,
    "function": xp.sin,
    "numpy on the left": lambda x: HOST + x,
    "numpy's function": np.sin,
    "conversion": np.asarray,
    "index": lambda x: x[0],
    "method": lambda x: x.sum(),
    "assignment": lambda x: x.__setitem__(0, 1.0),
    "update": lambda x: x.at[0].set(1.0),
    "comparison": lambda x: x == x,
    "iteration": list,
    "list": lambda x: x.tolist(),
    "argument": lambda x: nm.jit(lambda y: y)(x),
    "gradient": lambda x: nm.grad(lambda y: y.sum())(x),
    "closure": lambda x: nm.jit(lambda y: y + x)(HOST),
    "result": lambda x: nm.jit(lambda y: x)(HOST),
    "pickle": pickle.dumps,
    "copy": copy.deepcopy,
    "operator of derivatives": lambda x: nm.HessianOperator(lambda y: (y**3).sum(), x),
}


@pytest.mark.parametrize("use", USES)
def test_a_tensor_whose_trace_has_ended(use) -> None:
    kept = []
    nm.jit(lambda x: kept.append(x) or x)(HOST)
    with pytest.raises(LeakedTracerError, match=r"Tensor\(float64\[3\]\) from the trace of main, which has ended") as error:
        USES[use](kept[0])
    assert shows_the_line(error)
    assert "return the value from the function" in error.value.help


def test_it_can_be_printed() -> None:
    kept = []
    nm.jit(lambda x: kept.append(x) or x)(HOST)
    assert f"{kept[0]} {kept[0]!r}" == "Tensor(float64[3]) Tensor(float64[3])"


def test_formats_and_copies_of_a_tensor() -> None:
    for use, message in ((lambda x: f"{x:.3f}", "a format requires a concrete"), (copy.deepcopy, "a copy or a pickle requires")):
        with pytest.raises(ConcretizationError, match=message):
            nm.jit(use)(HOST)


# ---------------------------------------------------------------- assignment


def test_elements_of_an_array_of_numpy() -> None:
    def f(x):
        y = np.zeros(3)
        y[0] = x[0]

    with pytest.raises(ValueError, match="setting an array element") as error:  # NumPy's own, caused by ours
        nm.jit(f)(HOST)
    assert "for y[i] = x make y with nabla_mlir.numpy" in str(error.value.__cause__)


def test_elements_of_a_known_array() -> None:
    known = xp.zeros(3)
    with pytest.raises(TraceError, match=r"x\[...\] = v requires known numbers for an array of known numbers") as error:
        nm.jit(lambda x: known.__setitem__(0, x[0]))(HOST)
    assert shows_the_line(error)
    assert error.value.help == "write x = x.at[...].set(v)."


@pytest.mark.parametrize("size", [3, 1000])
def test_what_is_assigned_to_a_copy_in_a_trace_is_not_in_the_array(size) -> None:
    known = np.zeros(size)

    def f(x):
        y = xp.asarray(known)
        y[0] = 9.0
        return y[:2] + x[:2], xp.asarray(known)[:2] + x[:2], (known + x[0])[:2]

    def summed(x):
        def step(total, e):
            y = xp.asarray(known)
            y[0] = total
            return total + e, y[:2]

        return nm.scan(step, 0.0, x)[1]

    assert [y.tolist() for y in nm.jit(f)(np.zeros(3))] == [[9.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    assert nm.jit(summed)(np.ones(3)).tolist() == [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]
    assert not known.any()


# ---------------------------------------------------------------- arguments


@dataclasses.dataclass
class Weights:
    w: object


@pytest.mark.parametrize(
    "call",
    [
        lambda p: nm.jit(lambda p: p.w)(p),
        lambda p: nm.grad(lambda p: p.w.sum())(p),
        lambda p: nm.vmap(lambda p: p.w)(p),
        lambda p: nm.trace(lambda p: p.w, p),
        lambda p: xp.sin(p),
        lambda p: nm.jit(lambda x: p)(HOST),
    ],
)
def test_a_dataclass_that_is_not_registered(call) -> None:
    with pytest.raises((TraceError, DtypeError), match="got Weights") as error:
        call(Weights(HOST))
    assert shows_the_line(error)
    assert "decorate Weights with nm.register_dataclass" in error.value.help


def test_other_arguments_that_are_no_arrays() -> None:
    for value, name in (({1.0}, "set"), (np.sin, "ufunc"), ("text", "str")):
        with pytest.raises(TraceError, match=rf"^an argument requires arrays, scalars or nm\.spec, got {name}\.") as error:
            nm.jit(lambda x: x)(value)
        assert "static arguments" in error.value.help
    with pytest.raises(DtypeError, match="a tensor requires a numeric dtype, got <U1") as error:
        nm.jit(lambda x: x)(np.array(["a"]))
    assert shows_the_line(error)


def test_vectors_of_another_shape_or_dtype() -> None:
    H = nm.HessianOperator(lambda x: (x**3).sum(), np.ones(3, np.float32))
    for v, kind, message in ((np.ones(4, np.float32), ShapeError, r"got float32\[4\]"), (HOST, DtypeError, r"got float64\[3\]")):
        with pytest.raises(
            kind, match=r"apply requires the arrays it was compiled for(.|\n)*v requires float32\[3\], " + message
        ) as error:
            H.apply(v)
        assert shows_the_line(error)
        assert error.value.help


# ---------------------------------------------------------------- memory, files


@pytest.mark.parametrize("mode", ["interpret", "compile"])
def test_arrays_that_do_not_fit_in_memory(mode) -> None:
    nm.set_execution(mode)
    huge = nm.jit(lambda x: xp.zeros((10**13,)) + x)
    for call in (lambda: huge(1.0), lambda: xp.zeros((10**13,)))[: 2 if mode == "interpret" else 1]:
        with pytest.raises(OutOfMemoryError, match="a function requires memory for its arrays, got: ") as error:
            call()
        assert isinstance(error.value, MemoryError)
        assert shows_the_line(error)
        assert "nm.hvp" in error.value.help
    stage = nm.trace(lambda x: xp.zeros((10**13,)) + x, nm.spec(()), name="huge")
    with pytest.raises(OutOfMemoryError, match="huge requires memory"):
        stage.compile(nm.Interpreter())(1.0)
    with pytest.raises(OutOfMemoryError, match=r"Array\.empty requires memory for its arrays, got: 40000000000000 bytes"):
        nm.Array.empty((10**13,), np.float32)


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    traced = nm.trace(lambda x: x, nm.spec(3), name="f")
    compiled = traced.lower().compile()
    for path in (file / "f.vmfb", file / "f.zip", file / "f" / "g"):
        for save in (compiled.save, traced.save_mlir, lambda path: nm.save_static_library(traced.lower(), path)):
            with pytest.raises(SaveError, match=r"save requires a path that can be written, got '.*file/f") as error:
                save(path)
            assert isinstance(error.value, OSError)
            assert shows_the_line(error)
            assert "check that its folder exists" in error.value.help
    assert list(tmp_path.iterdir()) == [file]
