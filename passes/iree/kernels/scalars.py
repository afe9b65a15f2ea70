"""The elementwise operations of kernels: the text of each in `arith` and `math`, for scalars and vectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nabla_mlir.table.registry import REGISTRY

# The type of each dtype in memory. Only booleans have another type in computations.
_FLOATS, _INTEGERS = ("f32", "f64"), ("i8", "i16", "i32", "i64")
DTYPES = {**{t: t for t in (*_FLOATS, *_INTEGERS)}, **{f"u{t}": t for t in _INTEGERS}, "i1": "i8"}
BYTES = {dtype: int(kind[1:]) // 8 for dtype, kind in DTYPES.items()}


@dataclass(frozen=True)
class Scalar:
    """The text of an operation for each kind of operands; "" if there is none.

    In a text {0}, {1}, {2} are the operands, {t} is their type, and {d} is a value of `DIRECTIONS`.
    """

    floats: str = ""
    integers: str = ""
    booleans: str = ""
    unsigned: str = ""  # if it differs from that of signed integers

    def supports(self, dtype: str) -> bool:
        """True if there is code for operands of this dtype."""
        return bool(self.text(dtype))

    def text(self, dtype: str) -> str:
        """The template of the operation for operands of this dtype; "" if there is none."""
        if dtype[0] == "u" and self.unsigned:
            return self.unsigned
        return self.floats if dtype[0] == "f" else self.booleans if dtype == "i1" else self.integers


def _function(name: str) -> Scalar:
    """A function of MLIR's dialect `math` of one floating-point operand."""
    return Scalar(f"math.{name} {{0}} : {{t}}")


def _binary(floats: str, integers: str = "", booleans: str = "", unsigned: str = "") -> Scalar:
    """The templates of an operation of two operands, from the name of its MLIR operation for each kind of operands ("": none)."""
    names = floats, integers, booleans, unsigned
    texts = [f"{name} {{0}}, {{1}} : {{t}}" if name else "" for name in names]
    return Scalar(texts[0], texts[1], texts[2], texts[3])


ELEMENTWISE = {
    "add": _binary("arith.addf", "arith.addi", "arith.ori"),
    "subtract": _binary("arith.subf", "arith.subi"),
    "multiply": _binary("arith.mulf", "arith.muli", "arith.andi"),
    "divide": _binary("arith.divf", "arith.divsi", "", "arith.divui"),
    "remainder": _binary("arith.remf", "arith.remsi", "", "arith.remui"),
    "maximum": _binary("arith.maximumf", "arith.maxsi", "arith.ori", "arith.maxui"),
    "minimum": _binary("arith.minimumf", "arith.minsi", "arith.andi", "arith.minui"),
    "and": _binary("", "arith.andi", "arith.andi"),
    "or": _binary("", "arith.ori", "arith.ori"),
    "xor": _binary("", "arith.xori", "arith.xori"),
    "shift_left": _binary("", "arith.shli"),
    "shift_right_logical": _binary("", "arith.shrui"),
    "shift_right_arithmetic": _binary("", "arith.shrsi"),
    "negate": Scalar("arith.negf {0} : {t}"),
    "abs": Scalar("math.absf {0} : {t}", "math.absi {0} : {t}"),
    "sqrt": _function("sqrt"),
    "rsqrt": _function("rsqrt"),
    "exponential": _function("exp"),
    "log": _function("log"),
    "log_plus_one": _function("log1p"),
    "exponential_minus_one": _function("expm1"),
    "tanh": _function("tanh"),
    "sine": _function("sin"),
    "cosine": _function("cos"),
    "erf": _function("erf"),
    "power": _binary("math.powf"),
    "floor": _function("floor"),
    "ceil": _function("ceil"),
    "round_nearest_even": _function("roundeven"),
    "compare": Scalar(*("arith.cmp{d}, {0}, {1} : {t}",) * 3),
    "select": Scalar(*("arith.select {0}, {1}, {2} : {t}",) * 3),
}


def instructions(name: str) -> int:
    """The number of instructions for one element of an operation of stablehlo or chlo, given by its name without the dialect."""
    return (REGISTRY.get(f"stablehlo.{name}") or REGISTRY[f"chlo.{name}"]).instructions


# The ends of the names of `arith.cmpf` and `arith.cmpi`, with their predicates, by the kind of numbers (see `kind_of`) and the
# direction of `compare`. Floats are compared ordered (false for NaN), except NE.
DIRECTIONS = {
    "f": {"EQ": "f oeq", "NE": "f une", "LT": "f olt", "LE": "f ole", "GT": "f ogt", "GE": "f oge"},
    "i": {"EQ": "i eq", "NE": "i ne", "LT": "i slt", "LE": "i sle", "GT": "i sgt", "GE": "i sge"},
    "u": {"EQ": "i eq", "NE": "i ne", "LT": "i ult", "LE": "i ule", "GT": "i ugt", "GE": "i uge"},
}


def conversion(source: str, result: str) -> str | None:
    """The name of the `arith` operation that converts a dtype to another one; "" if the bits stay the same, None if to i1."""
    if source == result:
        return ""
    if result == "i1":
        return None
    wide, signed = BYTES[result] - BYTES[source], source[0] == "i" and source != "i1"
    if source[0] == result[0] == "f":
        return "arith.extf" if wide > 0 else "arith.truncf"
    if result[0] == "f":
        return "arith.sitofp" if signed else "arith.uitofp"
    if source[0] == "f":
        return "arith.fptosi" if result[0] == "i" else "arith.fptoui"
    if source == "i1":
        return "arith.extui"
    if wide == 0:
        return ""
    return ("arith.extsi" if signed else "arith.extui") if wide > 0 else "arith.trunci"


# The kinds of `vector.reduction`, by the operation of a reduction and the kind of numbers.
VECTOR_COMBINATIONS = {
    "add": {"f": "add", "i": "add", "u": "add", "i1": "or"},
    "multiply": {"f": "mul", "i": "mul", "u": "mul", "i1": "and"},
    "maximum": {"f": "maximumf", "i": "maxsi", "u": "maxui", "i1": "or"},
    "minimum": {"f": "minimumf", "i": "minsi", "u": "minui", "i1": "and"},
    "and": {"i": "and", "u": "and", "i1": "and"},
    "or": {"i": "or", "u": "or", "i1": "or"},
}


def kind_of(dtype: str) -> str:
    """The kind of numbers: f for floating point, i and u for integers, i1 for booleans."""
    return dtype if dtype == "i1" else dtype[0]


def literal(value: float | int | bool, dtype: str) -> str:
    """A number of a dtype in the syntax of `arith.constant`; floats are bits in hexadecimal, because they may be inf or NaN."""
    if dtype == "i1":
        return "true" if value else "false"
    if dtype[0] in "iu":
        return str(int(value))
    bits = np.array(value, f"f{BYTES[dtype]}").view(f"u{BYTES[dtype]}").item()
    return f"0x{bits:0{2 * BYTES[dtype]}X}"


def neutral(combine: str, dtype: str) -> str:
    """The literal of the number that does not change a reduction by the operation `combine`, such as 0 for "add"."""
    if combine in ("maximum", "minimum") and dtype != "i1":
        limits = (-np.inf, np.inf) if dtype[0] == "f" else np.iinfo(f"{dtype[0]}{BYTES[dtype]}")
        low, high = limits if isinstance(limits, tuple) else (limits.min, limits.max)
        return literal(high if combine == "minimum" else low, dtype)
    numbers = {"add": 0, "or": 0, "maximum": 0, "multiply": 1, "minimum": 1, "and": 1 if dtype == "i1" else -1}
    return literal(numbers[combine], dtype)
