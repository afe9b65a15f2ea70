"""Blocks of operations, read once: for each what it does, where it finds its operands and where its results go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects import stablehlo
from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.locations import source_of
from nabla_mlir.dialects.regions import block_aside, functions_of
from nabla_mlir.dialects.stablehlo import constant_array
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.errors import RuleMissingError
from nabla_mlir.interpreter.evaluations import evaluation_of
from nabla_mlir.table.registry import REGISTRY, OpDef, Region
from nabla_mlir.table.tensor import current_scope, set_scope, wrap
from nabla_mlir.table.traits import is_elementwise

Arrays = list[np.ndarray]

class OutOfStepsError(Exception):
    """A call has run more operations than it may."""


class Budget:
    """How many operations calls may still run. Every loop of a program is charged for each iteration."""

    __slots__ = ("steps",)

    def __init__(self, steps: float):
        self.steps = steps

    def spend(self, steps: int) -> None:
        """Raises OutOfStepsError if there are not so many left."""
        self.steps -= steps
        if self.steps < 0:
            raise OutOfStepsError


class Frame(dict[int, np.ndarray]):
    """The values of a call, by number, and what it may spend."""

    __slots__ = ("budget",)

    def __init__(self, budget: Budget | None):
        super().__init__()
        self.budget = budget


Step = Callable[[Frame], None]
Body = Callable[[Frame, Arrays], Arrays]  # of the values around a block, and its arguments


class Function:
    """A function of a module, run by NumPy.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> module = nm.trace(lambda x: (x * x).sum(), nm.spec(3, "f64"), name="f").lower().module
      >>> interpreted(module.operation, "f")([np.array([1.0, 2.0, 2.0])])
      [array(9.)]
    """

    def __init__(self, func: ir.Operation, others: _Functions):
        reader = _Reader(others)
        self.run_block = reader.block(func.regions[0].blocks[0])

    def __call__(self, arguments: Sequence[np.ndarray], budget: Budget | None = None) -> Arrays:
        """The results for arguments of the function's types. They may share memory with each other and the arguments.

        Raises:
          OutOfStepsError: it runs more operations than the budget has.
        """
        with np.errstate(all="ignore"):
            return self.run_block(Frame(budget), list(arguments))


class _Functions:
    """The functions of a module, each read once."""

    def __init__(self, module: ir.Operation):
        self.operations = functions_of(module)
        self.functions: dict[str, Function] = {}

    def __getitem__(self, name: str) -> Function:
        if name not in self.functions:
            with context(), ir.Location.unknown():
                self.functions[name] = Function(self.operations[name], self)
        return self.functions[name]


def interpreted(module: ir.Operation, name: str) -> Function:
    """A function of a module of plain StableHLO, to be run by NumPy.

    Raises:
      RuleMissingError: the interpreter does not know an operation, with the user's line.
    """
    return _Functions(module)[name]


class _Reader:
    """Reads the blocks of one function; a region sees the values around it, by their numbers."""

    def __init__(self, functions: _Functions):
        self.functions = functions
        self.numbers: dict[ir.Value, int] = {}

    def number(self, value: ir.Value) -> int:
        return self.numbers.setdefault(value, len(self.numbers))

    def block(self, block: ir.Block, of_elements: bool = False) -> Body:
        """The function of a block: of the values around it, and its arguments; one of elements takes arrays of them."""
        places = [self.number(argument) for argument in block.arguments]
        *ops, terminator = (op.operation for op in block.operations)
        steps = [self.step(op, of_elements) for op in ops]
        returns = [self.number(value) for value in terminator.operands]

        def run(frame: Frame, arguments: Arrays) -> Arrays:
            if frame.budget is not None:
                frame.budget.spend(len(steps))
            frame.update(zip(places, arguments, strict=True))
            for step in steps:
                step(frame)
            return [frame[i] for i in returns]

        return run

    def step(self, op: ir.Operation, of_elements: bool) -> Step:
        """What an operation does."""
        operands = [self.number(value) for value in op.operands]
        results = [self.number(value) for value in op.results]
        if op.name == "stablehlo.constant":
            array = constant_array(op)
            return lambda frame: frame.__setitem__(results[0], array)
        run = self.control(op) or self.evaluation(op, of_elements)

        def step(frame: Frame) -> None:
            frame.update(zip(results, run(frame, [frame[i] for i in operands]), strict=True))

        return step

    def control(self, op: ir.Operation) -> Body | None:
        """What runs its regions, or another function."""
        if op.name == "func.call":
            name = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
            function = self.functions[name]
            return lambda frame, xs: function(xs, frame.budget)
        control = _CONTROL.get(op.name)
        return control([self.block(region.blocks[0]) for region in op.regions]) if control else None

    def evaluation(self, op: ir.Operation, of_elements: bool) -> Body:
        """What an operation on arrays does, with results of its types."""
        record = REGISTRY.get(op.name)
        evaluate = evaluation_of(record, op) if record else None
        if record is not None and record.define is not None and evaluate is None:
            return self.definition(record, op)
        if record is None or evaluate is None:
            raise RuleMissingError(
                f"the interpreter requires an evaluation for every operation, got {op.name!r}.",
                where=source_of(op.location),
                help="compile the function instead, or say what the operation does in nabla_mlir/interpreter.",
            )
        types = [shape_and_dtype(value.type) for value in op.results]
        parameters, regions = self.parameters(record, op)

        def run(frame: Frame, xs: Arrays) -> Arrays:
            bodies = {name: lambda *ys, f=f: f(frame, list(ys)) for name, f in regions.items()}
            found = evaluate(*xs, **parameters, **bodies)
            outs = found if isinstance(found, list) else [found]
            arrays = [np.asarray(y) for y in outs]
            for array, (shape, _) in zip(arrays, types, strict=True):
                assert of_elements or array.shape == shape, f"{op.name} was evaluated to {array.shape}, its type says {shape}"
            return [y if y.dtype == dtype else y.astype(dtype) for y, (_, dtype) in zip(arrays, types, strict=True)]

        return run

    def definition(self, record: OpDef, op: ir.Operation) -> Body:
        """An operation that others define."""
        block = block_aside([value.type for value in op.operands])
        scope = current_scope()
        set_scope(None)
        try:
            with ir.InsertionPoint(block), op.location:
                outs = record.define([wrap(argument) for argument in block.arguments], **record.read(op))  # type: ignore[misc]
                stablehlo.emit("stablehlo.return", [out.value for out in outs], results=[])
        finally:
            set_scope(scope)
        run = self.block(block)
        block.owner.erase()
        return run

    def parameters(self, record: OpDef, op: ir.Operation) -> tuple[dict[str, Any], dict[str, Body]]:
        """The parameters of an operation, and those that are regions, as functions of the values around it and arrays."""
        values = record.read(op)
        regions: dict[str, Body] = {}
        for region, name in zip(op.regions, record.regions, strict=True):
            if isinstance(values[name], Region):
                block = region.blocks[0]
                body = self.block(block, of_elements=True)
                *inner, _ = (o.operation for o in block.operations)
                regions[name] = body if all(map(_is_of_each_element, inner)) else _one_by_one(body)
        return {name: value for name, value in values.items() if name not in regions}, regions


def _is_of_each_element(op: ir.Operation) -> bool:
    return is_elementwise(op) or not len(op.operands)


def _one_by_one(body: Body) -> Body:
    """A function of elements, which can do no more than one of each at a time, as one of arrays of them."""

    def run(frame: Frame, xs: Arrays) -> Arrays:
        xs = list(np.broadcast_arrays(*xs))
        rows = [body(frame, [x[place] for x in xs]) for place in np.ndindex(xs[0].shape)]
        return [np.array(column).reshape(xs[0].shape) for column in zip(*rows, strict=True)]

    return run


# ---------------------------------------------------------------- regions that run as they stand


def _while(regions: Sequence[Body]) -> Body:
    condition, body = regions

    def run(frame: Frame, carry: Arrays) -> Arrays:
        while condition(frame, carry)[0]:
            carry = body(frame, carry)
        return carry

    return run


def _if(regions: Sequence[Body]) -> Body:
    then, otherwise = regions
    return lambda frame, xs: (then if xs[0] else otherwise)(frame, [])


def _case(regions: Sequence[Body]) -> Body:
    """An index that is out of range means the last one."""

    def run(frame: Frame, xs: Arrays) -> Arrays:
        index = int(xs[0])
        return regions[index if 0 <= index < len(regions) else -1](frame, [])

    return run


_CONTROL: dict[str, Callable[[Sequence[Body]], Body]] = {"stablehlo.while": _while, "stablehlo.if": _if, "stablehlo.case": _case}
