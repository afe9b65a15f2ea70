"""Blocks of operations as functions of NumPy: each operation is read once, and its operands and results get numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.base.errors import RuleMissingError
from nabla_mlir.dialects import stablehlo
from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.locations import source_of
from nabla_mlir.dialects.regions import functions_of, last_of, nested, scratch_block
from nabla_mlir.dialects.stablehlo import constant_array
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.interpreter.control import CONTROL
from nabla_mlir.interpreter.cost import cost_of_steps
from nabla_mlir.interpreter.evaluations import Evaluation, evaluation_of
from nabla_mlir.interpreter.frames import Arrays, Block, Body, Budget, Frame, Step
from nabla_mlir.interpreter.maps import collective, is_plain
from nabla_mlir.interpreter.state import initial_state, stateful
from nabla_mlir.passes.dce import erase_dead_in
from nabla_mlir.passes.expand import ExpandPass
from nabla_mlir.table.registry import REGISTRY, OpDef, Region
from nabla_mlir.table.tensor import current_scope, set_scope, wrap
from nabla_mlir.table.traits import is_elementwise

# A function that is called after each operation, with operands and results; it may replace results in the list.
Watch = Callable[[ir.Operation, Arrays, Arrays], None]
# Another evaluation of an operation, or None. It gets the operation, the numbers of values in a frame, and the blocks of regions.
Instead = Callable[[ir.Operation, Callable[[ir.Value], int], Callable[[int], Block]], Body | None]


class Function:
    """A function of a module, run by NumPy.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> module = nm.trace(lambda x: (x * x).sum(), nm.spec(3, "f64"), name="f").lower().module
      >>> interpreted(module.operation, "f")([np.array([1.0, 2.0, 2.0])])
      [array(9.)]
    """

    def __init__(self, func: ir.Operation, module: _Module):
        self.module = module  # the module whose operations watchers see
        self.run_block: Block = _Reader(module).block(func.regions[0].blocks[0])

    def __call__(self, arguments: Sequence[np.ndarray], budget: Budget | None = None) -> Arrays:
        """The results for arguments of the function's types. They may share memory with each other and the arguments.

        Raises:
          OutOfStepsError: it runs more operations than the budget has.
        """
        with np.errstate(all="ignore"):
            return self.run_block(Frame(budget), list(arguments))


class _Module:
    """The functions of a module, each read once, and its state."""

    operation: ir.Operation
    operations: dict[str, ir.Operation]
    state: dict[str, Any]
    watch: Watch | None
    instead: Instead | None

    def __init__(self, module: ir.Operation, watch: Watch | None, instead: Instead | None):
        """`module` is the MLIR module, `watch` is called after each operation, and `instead` replaces operations; both
        may be None.
        """
        self.operation, self.watch, self.instead = module, watch, instead
        self.operations, self.state = functions_of(module), initial_state(module)
        self.functions: dict[str, Function] = {}

    def has_version(self, name: str) -> bool:
        """True if a function returns the version of the state after its results, as a plain integer."""
        returns = last_of(self.operations[name].regions[0].blocks[0]).operands
        return bool(len(returns)) and isinstance(returns[len(returns) - 1].type, ir.IntegerType)

    def __getitem__(self, name: str) -> Function:
        """The function `name` of the module, which is read at its first use."""
        if name not in self.functions:
            with context(), ir.Location.unknown():
                self.functions[name] = Function(self.operations[name], self)
        return self.functions[name]


def interpreted(module: ir.Operation, name: str, watch: Watch | None = None) -> Function:
    """A function of a module, to be run by NumPy.

    Maps are run without expansion, one entry after the other. Derivatives are expanded in a copy of the module, because
    only their rules define them.

    Args:
      module: StableHLO, with regions of `ad` and `batch`.
      name: the name of the function.
      watch: called after each operation, with its operands and results.

    Raises:
      RuleMissingError: the interpreter does not know an operation; the error has the user's line.
    """
    return functions(module, watch)[name]


def functions(module: ir.Operation, watch: Watch | None = None, instead: Instead | None = None) -> _Module:
    """The functions of a module by name; they share its state.

    Args:
      module, watch: as for `interpreted`.
      instead: gives the evaluation of an operation that is not to be interpreted; None for all others.
    """
    if any(map(_is_expanded, nested(module))):
        with context(), ir.Location.unknown():
            module = module.clone()
            for block in module.regions[0].blocks:
                _expand_in(block)
    return _Module(module, watch, instead)


def _is_expanded(op: ir.Operation) -> bool:
    """True if the operation cannot run directly, so that a pass expands it before."""
    return op.name in ("ad.jvp", "ad.vjp") or (op.name == "batch.vmap" and not is_plain(op))


def _expand_in(block: ir.Block) -> None:
    """Expands the maps and derivatives in a block that cannot be interpreted directly, also those in its regions."""
    for op in [o.operation for o in block.operations]:
        if _is_expanded(op):
            ExpandPass().expand(op)
            continue
        for region in op.regions:
            for inner in region.blocks:
                _expand_in(inner)
    erase_dead_in(block)  # what an expansion leaves behind has no meaning


class _Reader:
    """Reads the blocks of one function; a region refers to outer values by their numbers."""

    def __init__(self, module: _Module):
        self.module = module
        self.watch = module.watch
        self.numbers: dict[ir.Value, int] = {}

    def number(self, value: ir.Value) -> int:
        return self.numbers.setdefault(value, len(self.numbers))

    def block(self, block: ir.Block, of_elements: bool = False) -> Block:
        """A block as a function. With `of_elements`, it has scalar operations, and is applied to whole arrays."""
        arguments = [self.number(argument) for argument in block.arguments]
        *ops, terminator = (op.operation for op in block.operations)
        steps = [collective(op, self.number) or self.step(op, of_elements) for op in ops]
        return Block(arguments, steps, [self.number(value) for value in terminator.operands], cost_of_steps(ops))

    def step(self, op: ir.Operation, of_elements: bool) -> Step:
        """A function that runs one operation: it reads the operands from a frame and writes the results to it.

        `of_elements` is True in the region of a reduction or sort, where whole arrays stand for the scalars of the operation's
        types.
        """
        operands = [self.number(value) for value in op.operands]
        results = [self.number(value) for value in op.results]
        if op.name == "stablehlo.constant":
            array = constant_array(op)
            return lambda frame: frame.__setitem__(results[0], array)
        run, watch = self.replaced(op) or self.control(op) or self.evaluation(op, of_elements), self.watch

        step = run.step(operands, results[0]) if isinstance(run, _Plain) else _step_of(run, operands, results)

        def step_and_tell(frame: Frame) -> None:
            """Runs the operation, and calls the watcher with its operands and results. `frame` maps values to arrays."""
            step(frame)
            found = [frame[i] for i in results]
            watch(op, [frame[i] for i in operands], found)  # type: ignore[misc]
            frame.update(zip(results, found, strict=True))  # the watcher may have replaced results in the list

        return step if watch is None else step_and_tell

    def replaced(self, op: ir.Operation) -> Body | None:
        """The evaluation that the caller of `functions` gives; None if it gives none."""
        instead = self.module.instead
        return None if instead is None else instead(op, self.number, lambda i: self.block(op.regions[i].blocks[0]))

    def control(self, op: ir.Operation) -> Body | None:
        """A function of the frame and the operands for an operation with regions, a call, or an access to the module's state; None
        for others.
        """
        if op.name == "func.call":
            name = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
            function = self.module[name]
            return lambda frame, xs: function(xs, frame.budget)
        if run := stateful(op, self.module.state):
            return lambda _, xs: run(xs)
        reader = CONTROL.get(op.name)
        return reader(op, lambda i: self.block(op.regions[i].blocks[0])) if reader else None

    def evaluation(self, op: ir.Operation, of_elements: bool) -> Body | _Plain:
        """A function of the operands for an operation on arrays; its results have the shapes and dtypes of the operation's types.

        `of_elements` is True in the region of a reduction or sort, where whole arrays stand for the scalars of these types. Raises
        RuleMissingError if the interpreter has no function for the operation.
        """
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
        if len(types) == 1 and not regions:
            return _Plain(op.name, evaluate, parameters, *types[0], of_elements)

        def run(frame: Frame, xs: Arrays) -> Arrays:
            """Evaluates the operation with its regions as functions; checks the shapes and converts to the dtypes of its types."""
            bodies = {name: lambda *ys, f=f: f(frame, list(ys)) for name, f in regions.items()}
            found = evaluate(*xs, **parameters, **bodies)
            outs = found if isinstance(found, list) else [found]
            arrays = [np.asarray(y) for y in outs]
            for array, (shape, _) in zip(arrays, types, strict=True):
                assert of_elements or array.shape == shape, f"{op.name} was evaluated to {array.shape}, its type says {shape}"
            return [y if y.dtype == dtype else y.astype(dtype) for y, (_, dtype) in zip(arrays, types, strict=True)]

        return run

    def definition(self, record: OpDef, op: ir.Operation) -> Body:
        """A function of the frame and the operands for an operation that its record defines by other operations."""
        block = scratch_block([value.type for value in op.operands])
        scope = current_scope()
        set_scope(None)
        try:
            with ir.InsertionPoint(block), op.location:
                outs = record.define([wrap(argument) for argument in block.arguments], **record.read(op))  # type: ignore[misc]
                stablehlo.emit("stablehlo.return", [out.value for out in outs], results=[])
        finally:
            set_scope(scope)
        watch, self.watch = self.watch, None  # watchers do not see operations that are erased
        run = self.block(block)
        self.watch = watch
        block.owner.erase()
        return run

    def parameters(self, record: OpDef, op: ir.Operation) -> tuple[dict[str, Any], dict[str, Body]]:
        """Two dicts by name: the parameters of an operation, and its regions as functions.

        `record` is the operation's entry in the table of operations.
        """
        values = record.read(op)
        regions: dict[str, Body] = {}
        for region, name in zip(op.regions, record.regions, strict=True):
            if isinstance(values[name], Region):
                block = region.blocks[0]
                body = self.block(block, of_elements=True)
                *inner, _ = (o.operation for o in block.operations)
                regions[name] = body if all(map(_is_of_each_element, inner)) else _one_by_one(body)
        return {name: value for name, value in values.items() if name not in regions}, regions


def _step_of(run: Body, operands: Sequence[int], results: Sequence[int]) -> Step:
    """A function that runs `run` on the operands in a frame, and stores the results there; `operands` and `results` are their
    numbers.
    """

    def step(frame: Frame) -> None:
        frame.update(zip(results, run(frame, [frame[i] for i in operands]), strict=True))

    return step


@dataclass(frozen=True)
class _Plain:
    """An operation without regions and with one result, the most frequent kind; it adds little time to that of NumPy."""

    name: str
    evaluate: Evaluation
    parameters: dict[str, Any]
    shape: tuple[int, ...]
    dtype: np.dtype
    of_elements: bool

    def step(self, operands: Sequence[int], result: int) -> Step:
        """A function that reads the operands from a frame, and writes the result to it."""
        evaluate, parameters, shape, dtype, of_elements = self.evaluate, self.parameters, self.shape, self.dtype, self.of_elements

        def step(frame: Frame) -> None:
            """Evaluates the operation, and stores its result in the frame, converted to the dtype of its type.

            The shape must be that of the type, but in regions of reductions and sorts arrays stand for scalars (`of_elements`).
            """
            y = evaluate(*[frame[i] for i in operands], **parameters)
            if type(y) is not np.ndarray:
                y = np.asarray(y[0] if type(y) is list else y)
            assert of_elements or y.shape == shape, f"{self.name} was evaluated to {y.shape}, its type says {shape}"
            frame[result] = y if y.dtype == dtype else y.astype(dtype)

        return step


def _is_of_each_element(op: ir.Operation) -> bool:
    return is_elementwise(op) or not len(op.operands)


def _one_by_one(body: Body) -> Body:
    """A function of arrays that applies `body`, a function of scalars, to each element."""

    def run(frame: Frame, xs: Arrays) -> Arrays:
        """The results of `body` for all elements, as arrays; arguments are broadcast to one shape."""
        xs = list(np.broadcast_arrays(*xs))
        rows = [body(frame, [x[position] for x in xs]) for position in np.ndindex(xs[0].shape)]
        return [np.array(column).reshape(xs[0].shape) for column in zip(*rows, strict=True)]

    return run
