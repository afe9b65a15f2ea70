"""Puts faults into programs, like those of a wrong compiler, to measure how many of them checked compilation detects.

A fault changes one operation of a lowered module in place; the module stays valid, with the same functions.
`bench/injections.py` compiles the changed module and checks it against the unchanged program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.regions import nested
from nabla_mlir.dialects.stablehlo import constant_array, emit
from nabla_mlir.dialects.types import is_complex, is_float, is_static_tensor, shape_and_dtype
from nabla_mlir.dialects.values import constant, full
from nabla_mlir.table.traits import CONSTANT, is_step, runs_regions

Numbers = np.random.RandomState
Change = Callable[[ir.Operation, Numbers], bool]  # changes an operation in place; returns False if the fault does not apply to it

_COMMUTATIVE = frozenset(f"stablehlo.{name}" for name in ("add", "multiply", "and", "or", "xor", "maximum", "minimum"))
_REVERSE = {"LT": "GE", "GE": "LT", "GT": "LE", "LE": "GT", "EQ": "NE", "NE": "EQ"}
_INDEXED = ("stablehlo.gather", "stablehlo.dynamic_slice", "stablehlo.scatter", "stablehlo.dynamic_update_slice")


@dataclass(frozen=True)
class Injection:
    """One fault in a module.

    Args:
      fault: the name of the fault.
      operation: the changed operation, and its index in the module.
    """

    fault: str
    operation: str

    def __str__(self) -> str:
        return f"{self.fault} of {self.operation}"


def inject(module: ir.Module, fault: str, rng: Numbers) -> Injection | None:
    """Puts a fault of the kind `fault` into a random operation of a module; returns its description, or None if no operation admits
    it.

    `rng` makes the random choices.
    """
    ops = [op for op in nested(module.operation) if is_step(op)]
    for k in rng.permutation(len(ops)):
        with context(), ir.Location.unknown():
            name = ops[k].name
            if FAULTS[fault](ops[k], rng):
                return Injection(fault, f"{name} {k}")
    return None


# ---------------------------------------------------------------- operands


def _exchange_two_operands(op: ir.Operation, rng: Numbers) -> bool:
    """Exchanges the two operands of an operation that is not commutative; returns True if the operation changed. `rng` is not
    used.
    """
    if len(op.operands) != 2 or op.name in _COMMUTATIVE or runs_regions(op):
        return False
    return _exchange(op, 0, 1)


def _exchange_values(op: ir.Operation, rng: Numbers) -> bool:
    """Exchanges two random operands of one type in an operation with more operands, a loop or a return; returns True if it changed.

    `rng` makes the random choices.
    """
    count = len(op.operands)
    pairs = [(i, j) for i in range(count) for j in range(i) if count > 2 or runs_regions(op)]
    return any(_exchange(op, *pairs[k]) for k in rng.permutation(len(pairs)))


def _exchange(op: ir.Operation, i: int, j: int) -> bool:
    """Exchanges the operands i and j; returns False if they are equal or have different types."""
    a, b = op.operands[i], op.operands[j]
    if a == b or a.type != b.type:
        return False
    op.operands[i], op.operands[j] = b, a
    return True


def _take_another_value(op: ir.Operation, rng: Numbers) -> bool:
    """Replaces a random operand by an earlier value of the same type; returns True if there is one.

    `rng` makes the random choices.
    """
    block = op.block
    before = [*block.arguments]
    for other in block.operations:
        if other.operation == op:
            break
        before += other.operation.results
    choices = [(i, v) for i, x in enumerate(op.operands) for v in before if v.type == x.type and v != x]
    if not choices:
        return False
    index, value = choices[rng.randint(len(choices))]
    op.operands[index] = value
    return True


def _shift_index(op: ir.Operation, rng: Numbers) -> bool:
    """Adds one to an index of a gather, a scatter or a slice; returns True if the operation has one.

    `rng` makes the random choices.
    """
    if op.name not in _INDEXED:
        return False
    indices = [i for i, v in enumerate(op.operands) if not is_float(dtype := shape_and_dtype(v.type)[1]) and not is_complex(dtype)]
    starts = {
        "stablehlo.gather": [1],
        "stablehlo.dynamic_slice": [*range(1, len(op.operands))],
        "stablehlo.dynamic_update_slice": [*range(2, len(op.operands))],
    }
    found = starts.get(op.name, [len(op.operands) // 2])
    found = [i for i in found if i in indices]
    if not found:
        return False
    index = found[rng.randint(len(found))]
    value = op.operands[index]
    with ir.InsertionPoint(op):
        op.operands[index] = emit("stablehlo.add", [value, _filled(value.type, 1)], results=[value.type]).results[0]
    return True


def _change_initial_value(op: ir.Operation, rng: Numbers) -> bool:
    """Changes the initial value of a reduction to a half, one, or true; returns False for another operation. `rng` is not used."""
    if op.name not in ("stablehlo.reduce", "stablehlo.reduce_window"):
        return False
    index = len(op.operands) // 2
    type_ = op.operands[index].type
    with ir.InsertionPoint(op):
        op.operands[index] = _filled(type_, 0.5 if is_float(shape_and_dtype(type_)[1]) else 1)
    return True


# ---------------------------------------------------------------- results


def _negate(op: ir.Operation, rng: Numbers) -> bool:
    """Negates a result, a number or a truth value; returns True if the operation changed. `rng` is not used."""
    if not _is_tensor(op):
        return False
    return _replace(op, lambda y: emit("stablehlo.not" if _is_truth(y) else "stablehlo.negate", [y], results=[y.type]))


def _drop_row(op: ir.Operation, rng: Numbers) -> bool:
    """Sets the last row of a result to zero; returns True if the operation changed. `rng` is not used."""
    if not _is_tensor(op) or not (shape := shape_and_dtype(op.results[0].type)[0]) or 0 in shape:
        return False
    rows = np.arange(shape[0]).reshape(-1, *(1,) * (len(shape) - 1)) < shape[0] - 1
    mask = np.broadcast_to(rows, shape)
    return _replace(op, lambda y: emit("stablehlo.select", [constant(mask).value, y, _filled(y.type, 0)], results=[y.type]))


def _skip(op: ir.Operation, rng: Numbers) -> bool:
    """Replaces the result of an operation by one of its operands, which `rng` draws; returns True if the result was used."""
    found = [v for v in op.operands if len(op.results) == 1 and v.type == op.results[0].type]
    if not found or op.name == "stablehlo.optimization_barrier":
        return False
    uses = list(op.results[0].uses)
    op.results[0].replace_all_uses_with(found[rng.randint(len(found))])
    return bool(uses)


# ---------------------------------------------------------------- attributes


def _change_constant(op: ir.Operation, rng: Numbers) -> bool:
    """Changes a random element of a constant by 1 per cent, by one, or to the other truth value; returns True if it changed.

    `rng` makes the random choices.
    """
    if op.name != CONSTANT or not is_static_tensor(op.results[0].type):
        return False
    x = np.array(constant_array(op))
    if not x.size or x.dtype.kind == "V":
        return False
    flat = x.reshape(-1)
    k = rng.randint(flat.size)
    flat[k] = ~flat[k] if x.dtype == bool else flat[k] + 1 if x.dtype.kind in "iu" else flat[k] * 1.01 or 0.01
    if np.array_equal(x, constant_array(op), equal_nan=x.dtype.kind in "fc"):
        return False
    with ir.InsertionPoint(op):
        op.results[0].replace_all_uses_with(constant(x).value)
    return True


def _reverse_comparison(op: ir.Operation, rng: Numbers) -> bool:
    """Makes a comparison true where it was false; returns False for another operation. `rng` is not used."""
    if op.name != "stablehlo.compare":
        return False
    text = str(op.attributes["comparison_direction"])
    old = next(word for word in _REVERSE if f" {word}>" in text)
    op.attributes["comparison_direction"] = ir.Attribute.parse(text.replace(f" {old}>", f" {_REVERSE[old]}>"))
    return True


def _is_tensor(op: ir.Operation) -> bool:
    return len(op.results) == 1 and is_static_tensor(op.results[0].type) and "quant" not in str(op.results[0].type)


def _is_truth(value: ir.Value) -> bool:
    return shape_and_dtype(value.type)[1] == np.dtype(bool)


def _replace(op: ir.Operation, by: Callable[[ir.Value], ir.Operation]) -> bool:
    """Replaces the uses of a result by a new value, which `by` computes from the result; returns False if there are none."""
    (result,) = op.results
    if not list(result.uses):
        return False
    with ir.InsertionPoint.after(op):
        before = {o.operation for o in op.block.operations}
        value = by(result).results[0]
        added = [o.operation for o in op.block.operations if o.operation not in before]
    result.replace_all_uses_except(value, added)
    return True


def _filled(type_: ir.Type, number: float) -> ir.Value:
    return full(number, *shape_and_dtype(type_)).value


FAULTS: dict[str, Change] = {
    change.__name__.strip("_").replace("_", " "): change
    for change in (
        _exchange_two_operands,
        _exchange_values,
        _take_another_value,
        _shift_index,
        _change_initial_value,
        _negate,
        _drop_row,
        _skip,
        _change_constant,
        _reverse_comparison,
    )
}
