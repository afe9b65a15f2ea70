"""Equal values, which IREE computes once into one buffer, even if their shapes differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects.regions import function_around, made_by, nested
from nabla_mlir.dialects.stablehlo import OPTIMIZATION_BARRIER, constant_attribute, constant_splat
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.passes.iree.faults.ownership import root_of
from nabla_mlir.passes.iree.internals.barriers import HOST_BARRIER
from nabla_mlir.table.traits import is_elementwise, is_free, size_of

_BARRIERS = (OPTIMIZATION_BARRIER, HOST_BARRIER)  # IREE does not merge their results
_DEPTH = 64  # the depth up to which values are compared; beyond it they count as equal, which costs at most a copy


class EqualValues:
    """Finds equal values in the functions of a module; it sees the module as it is at the first query.

    IREE merges equal operations. Before that, it moves reshapes and makes elementwise operations one-dimensional, so
    `sin(x)` and `sin(reshape(x))` share one buffer, which two updates may write.
    """

    def __init__(self) -> None:
        """Starts with no known answers."""
        # Candidates for equal operations: for each function, the operations of one name, number of results and number of elements.
        self._alike: dict[ir.Operation, dict[tuple[str, int, int], list[ir.Operation]]] = {}
        self._known: dict[tuple[ir.Value, ir.Value], bool] = {}  # the results of `_are_equal`
        self._constants: dict[ir.Value, bool] = {}  # the results of `_is_known`

    def of(self, root: ir.Value) -> Iterator[ir.Value]:
        """The values that other operations compute and that equal `root` up to their shape; `root` must not be a view."""
        maker = made_by(root)
        if maker is None or self._is_known(root):  # IREE folds it to a constant, to which nothing writes
            return
        position = list(maker.results).index(root)
        for other in self._operations_like(maker):
            if other != maker and self._are_equal(root, other.results[position]):
                yield other.results[position]

    def _is_known(self, value: ir.Value, depth: int = 0) -> bool:
        """True if a value is computed from constants only."""
        op = made_by(value)
        if op is None or op.name in _BARRIERS or len(op.regions) or depth == _DEPTH:
            return False
        if value not in self._constants:
            self._constants[value] = all(self._is_known(x, depth + 1) for x in op.operands)
        return self._constants[value]

    def _operations_like(self, op: ir.Operation) -> list[ir.Operation]:
        """The operations in the same function with the same name, number of results and number of elements."""
        function = function_around(op)
        if function not in self._alike:  # computed lazily, because most functions have no update whose buffer is in doubt
            self._alike[function] = defaultdict(list)
            for each in nested(function):
                if len(each.results):
                    self._alike[function][_kind(each)].append(each)
        return self._alike[function].get(_kind(op), [])

    def _are_equal(self, a: ir.Value, b: ir.Value, depth: int = 0) -> bool:
        """True if two values are equal up to their shape, or if they are computed by too many operations (`_DEPTH`) to compare.

        `depth` is the number of operations between them and the values that were asked for.
        """
        a, b = root_of(a), root_of(b)
        if a == b or depth == _DEPTH:
            return True
        if (a, b) not in self._known:
            self._known[a, b] = self._are_made_alike(a, b, depth)
        return self._known[a, b]

    def _are_made_alike(self, a: ir.Value, b: ir.Value, depth: int) -> bool:
        """True if equal operations on equal operands make both values."""
        one, other = made_by(a), made_by(b)
        if one is None or other is None or _kind(one) != _kind(other) or one.name in _BARRIERS:
            return False
        if one.name == "stablehlo.constant":
            return _are_equal_constants(one, other)
        if list(one.results).index(a) != list(other.results).index(b) or len(one.operands) != len(other.operands):
            return False
        if a.type != b.type and not (is_elementwise(one) or _is_splat(one)):
            return False
        # A broadcast number or an elementwise result may have another shape: the values in memory are the same.
        is_flat = a.type != b.type
        if _details(one, is_flat) != _details(other, is_flat):
            return False
        if not all(self._are_equal(x, y, depth + 1) for x, y in zip(one.operands, other.operands, strict=True)):
            return False
        return not len(one.regions) or _text(one) == _text(other)


def _kind(op: ir.Operation) -> tuple[str, int, int]:
    """The name of an operation, the number of its results, and the number of elements of the first result."""
    type = op.results[0].type
    return op.name, len(op.results), size_of(op.results[0]) if isinstance(type, ir.RankedTensorType) else 0


def _is_splat(op: ir.Operation) -> bool:
    """True if an operation fills an array with one number."""
    return is_free(op) and len(op.operands) == 1 and size_of(op.operands[0]) == 1


def _are_equal_constants(one: ir.Operation, other: ir.Operation) -> bool:
    """True if two constants have equal elements, even if their shapes differ."""
    dtype, other_dtype = (shape_and_dtype(op.results[0].type)[1] for op in (one, other))
    if dtype != other_dtype:
        return False
    splats = constant_splat(one), constant_splat(other)
    if splats != (None, None):
        return repr(splats[0]) == repr(splats[1])  # 0.0 is not -0.0, and NaN is NaN
    a, b = constant_attribute(one), constant_attribute(other)
    if one.results[0].type == other.results[0].type:
        return bool(a == b)
    try:
        return np.array_equal(np.ravel(np.array(a)), np.ravel(np.array(b)))
    except (TypeError, ValueError):  # of numbers that NumPy does not read
        return True  # counts as equal, which costs at most a copy


def _details(op: ir.Operation, is_flat: bool) -> object:
    """The attributes of an operation; None if it fills an array with one number and the shape does not matter (`is_flat`)."""
    if is_flat and _is_splat(op):
        return None
    return str(op.attributes)


def _text(op: ir.Operation) -> str:
    """The text of an operation and its regions without the names of captured values, so that equal operations have equal texts."""
    return op.clone(ip=False).operation.get_asm(use_local_scope=True, enable_debug_info=False)
