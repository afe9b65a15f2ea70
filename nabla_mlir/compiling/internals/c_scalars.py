"""Types, constants and arithmetic expressions of a host program as C."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
from iree.compiler import ir

from nabla_mlir.base.errors import CompileError
from nabla_mlir.dialects.stablehlo import array_of

_INTEGERS = {"i1": "int32_t", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t", "index": "int64_t"}
_SCALARS = _INTEGERS | {"f32": "float", "f64": "double"}
_BINARY = {
    "arith.addi": "+",
    "arith.subi": "-",
    "arith.muli": "*",
    "arith.divsi": "/",
    "arith.remsi": "%",
    "arith.andi": "&",
    "arith.ori": "|",
    "arith.xori": "^",
    "arith.shli": "<<",
    "arith.shrsi": ">>",
    "arith.addf": "+",
    "arith.subf": "-",
    "arith.mulf": "*",
    "arith.divf": "/",
}
_UNSIGNED = {"arith.divui": "/", "arith.remui": "%", "arith.shrui": ">>"}
_EXTREMES = {"arith.maxsi": ">", "arith.minsi": "<", "arith.maxui": ">", "arith.minui": "<"}
_CASTS = {f"arith.{word}" for word in ("index_cast", "extsi", "trunci", "sitofp", "fptosi", "extf", "truncf")}
_UNSIGNED_CASTS = {"arith.index_castui", "arith.extui", "arith.uitofp"}
# By the number of the predicate; numbers from 6 on are unsigned.
_COMPARE = ("==", "!=", "<", "<=", ">", ">=", "<", "<=", ">", ">=")


def c_type(type: str, where: str) -> str:
    """The C type of a variable of an IR type such as "i64"; buffers are pointers. Raises CompileError for types without one.

    `where` is the name of the operation or variable, for the error.
    """
    if type.startswith(("!stream.resource", "!util.buffer", "!hal.buffer")):
        return "char *"
    if type not in _SCALARS:
        raise CompileError(
            f"a static library requires values of known types, got {type} in {where}.",
            help="load the module with IREE's runtime instead.",
        )
    return _SCALARS[type]


def is_time(type: str) -> bool:
    """True for a type of IREE that has no values in C: a program that runs in order waits for nothing."""
    return type in ("!stream.timepoint", "!stream.file")


def is_memory(type: str) -> bool:
    """True for the type of a buffer in the dialect stream; in C it is a pointer, and its size is a variable of its own."""
    return type.startswith("!stream.resource")


def global_name(name: str) -> str:
    """The name of a global in C: "x.0" -> "global_x_0"."""
    return "global_" + re.sub(r"\W", "_", name)


def stored(type: str) -> str:
    """The C type of a scalar in memory, where a boolean is one byte."""
    return "int8_t" if type == "i1" else c_type(type, "memory")


def number(value: ir.Attribute) -> str:
    """A scalar attribute (a boolean, an integer or a float) as a C expression: ``5 : i64`` -> ``((int64_t)5)``."""
    if isinstance(value, ir.BoolAttr):
        return str(int(value.value))
    if isinstance(value, ir.IntegerAttr):
        integer = value.value
        return f"((int64_t){integer})" if integer > -(2**63) else "INT64_MIN"
    real = ir.FloatAttr(value).value
    if np.isfinite(real):
        return float(real).hex()
    return "NAN" if np.isnan(real) else "INFINITY" if real > 0 else "(-INFINITY)"


def arithmetic(op: ir.Operation, names: Mapping[ir.Value, str]) -> str | None:
    """An operation of the dialect arith as a C expression on variables with these names; None for other operations.

    Example: ``arith.maxsi %a, %b : i64`` with the names v1 and v2 -> ``(int64_t)v1 > (int64_t)v2 ? v1 : v2``.
    """
    name = op.name
    if not name.startswith("arith."):
        return None
    values = [names[v] for v in op.operands]
    source, result = str(op.operands[0].type), str(op.results[0].type)
    if name in _BINARY:
        return f" {_BINARY[name]} ".join(values)
    if name == "arith.cmpi":
        predicate = ir.IntegerAttr(op.attributes["predicate"]).value
        cast = f"(u{_INTEGERS[source]})" if predicate >= 6 else ""
        return f" {_COMPARE[predicate]} ".join(cast + v for v in values)
    if name in _UNSIGNED:
        return f" {_UNSIGNED[name]} ".join(f"(u{_INTEGERS[result]}){v}" for v in values)
    if name in _EXTREMES:
        a, b = values
        cast = f"({'u' if name.endswith('ui') else ''}{_INTEGERS[result]})"
        return f"{cast}{a} {_EXTREMES[name]} {cast}{b} ? {a} : {b}"
    if name in _CASTS:
        return f"({_SCALARS[result]}){values[0]}"
    if name in _UNSIGNED_CASTS:
        value = f"({values[0]} & 1)" if source == "i1" else f"(u{_INTEGERS[source]}){values[0]}"
        return f"({_SCALARS[result]}){value}"
    return None


def constant_bytes(value: ir.Attribute) -> bytes:
    """The bytes of constant data: those of one array, or of several one after another."""
    text = str(value)
    if not text.startswith("#util.composite<"):
        return _dense_bytes(value)
    # One array on each line; padding has a vector type, which is parsed like a tensor.
    lines = text[text.index("[") + 1 : text.rindex("]")].replace(" : vector<", " : tensor<").splitlines()
    pieces = [line.strip().rstrip(",") for line in lines if line.strip()]
    return b"".join(_dense_bytes(ir.Attribute.parse(piece, value.context)) for piece in pieces)


def _dense_bytes(value: ir.Attribute) -> bytes:
    """The bytes of one array, in row-major order."""
    return np.ascontiguousarray(array_of(value)).tobytes()
