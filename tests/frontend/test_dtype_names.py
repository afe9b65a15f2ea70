"""The meaning of names of dtypes: that of NumPy if it has the name, otherwise that of MLIR, also on the command line."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.nn as nn
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import DtypeError
from nabla_mlir.tools.requests import RequestError, parse_spec

# In Python, on the command line; "" where a name means nothing.
NAMES = {
    "i1": ("int8", "bool"),
    "i2": ("int16", "int2"),
    "i4": ("int32", "int4"),
    "i8": ("int64", "int8"),
    "i16": ("int16", "int16"),
    "i32": ("int32", "int32"),
    "i64": ("int64", "int64"),
    "u1": ("uint8", ""),
    "u2": ("uint16", ""),
    "u4": ("uint32", ""),
    "u8": ("uint64", ""),
    "ui2": ("uint2", "uint2"),
    "ui4": ("uint4", "uint4"),
    "ui8": ("uint8", "uint8"),
    "ui16": ("uint16", "uint16"),
    "ui32": ("uint32", "uint32"),
    "ui64": ("uint64", "uint64"),
    "f2": ("float16", ""),
    "f4": ("float32", ""),
    "f8": ("float64", ""),
    "f16": ("float16", "float16"),
    "f32": ("float32", "float32"),
    "f64": ("float64", "float64"),
    "bf16": ("bfloat16", "bfloat16"),
    "f8E4M3FN": ("float8_e4m3fn", "float8_e4m3fn"),
    "c8": ("complex64", ""),
    "c16": ("complex128", ""),
    "complex<f32>": ("complex64", ""),
    "b1": ("bool", ""),
    "?": ("bool", ""),
    "bool": ("bool", "bool"),
    "b": ("int8", ""),
    "d": ("float64", ""),
    "float": ("float32", ""),
    "int": ("int32", ""),
    "complex": ("complex64", ""),
    "single": ("float32", ""),
    ">f4": ("float32", ""),
    "float32": ("float32", "float32"),
    "int8": ("int8", "int8"),
    "int4": ("int4", "int4"),
    "complex64": ("complex64", "complex64"),
    "bfloat16": ("bfloat16", "bfloat16"),
    "x": ("", ""),
    "u16": ("", ""),
    "f128": ("", ""),
    "": ("", ""),
}
RUN = [name for name, (meaning, _) in NAMES.items() if meaning and meaning not in ("int2", "uint2", "int4", "uint4")]


def expected(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, name))


@pytest.mark.parametrize("name", NAMES)
def test_a_name_means_the_same_wherever_it_is_read(name: str) -> None:
    meaning = NAMES[name][0]
    readers: list[Any] = [
        lambda: nm.spec(3, name).dtype,
        lambda: nnp.dtype(name),
        lambda: nnp.result_type(name, name),
        lambda: nnp.promote_types(name, name),
    ]
    for read in readers:
        if not meaning:
            with pytest.raises(DtypeError, match="a dtype requires a name of NumPy or MLIR, or a type, got"):
                read()
            continue
        assert read() == expected(meaning)


def make(name: str) -> list[Any]:
    """Arrays of the dtype of a name."""
    made = [nnp.zeros(3, name), nnp.full((), 1, name), nnp.asarray([1], name), nnp.ones(2).astype(name)]
    if expected(NAMES[name][0]).kind != "b" and expected(NAMES[name][0]).itemsize > 1:
        made += [nnp.arange(3, dtype=name), nn.one_hot(np.array([1]), 3, name)]
    return made


@pytest.fixture(scope="module")
def compiled() -> Any:
    """One program with the dtypes of all names."""
    return nm.jit(lambda: {name: make(name) for name in RUN})()


@pytest.mark.parametrize("name", RUN)
def test_arrays_are_made_by_name(name: str, compiled: Any) -> None:
    made = [nnp.zeros(3, name), *compiled[name]]
    assert [x.dtype for x in made] == [expected(NAMES[name][0])] * len(made)


@pytest.mark.parametrize("name", [n for n in NAMES if n.isidentifier()])
def test_types_of_the_command_line_are_in_the_words_of_mlir(name: str) -> None:
    meaning = NAMES[name][1]
    if meaning:
        assert parse_spec(f"{name}[3]")[1].dtype == parse_spec(f"({name}, None)")[1][0].dtype == expected(meaning)
        return
    with pytest.raises((DtypeError, RequestError), match=rf"an element type requires one of .*, got '{name}'"):
        parse_spec(f"{name}[3]")


def test_default_dtypes_are_named_alike() -> None:
    try:
        nm.set_default_dtypes(float="f8", int="i8")
        assert (nnp.zeros(1).dtype, nnp.asarray([1]).dtype) == (np.float64, np.int64)
    finally:
        nm.set_default_dtypes(float="f4", int="i4")


def test_inputs_of_the_command_line_are_not_cut() -> None:
    from nabla_mlir.runtime.manifest import Leaf
    from nabla_mlir.tools.inputs import read_value

    read = lambda text, dtype: read_value(text, Leaf("x", (), dtype))  # noqa: E731
    assert read("5", "uint8") == read("5", "float32") == read("5.0", "complex64") == 5
    assert read("[0.1]", "float32") == np.float32(0.1)
    for text, dtype in (
        ("300", "int8"),
        ("-1", "uint8"),
        ("1.5", "int32"),
        ("1j", "float32"),
        ("1e39", "float32"),
        ("3", "bool"),
        (str(2**24 + 1), "float32"),
    ):
        with pytest.raises(DtypeError, match=f"--input x requires .* {dtype}"):
            read(text, dtype)
