"""Tracing: a Python function runs once on tensors, which record its operations as IR."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from iree.compiler import ir
from iree.compiler._mlir_libs import _mlir

from nabla_mlir.base import pytree, thresholds
from nabla_mlir.base.errors import INTERNAL_FOLDERS, TraceError
from nabla_mlir.base.progress import running
from nabla_mlir.dialects import stablehlo
from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.locations import user_lines
from nabla_mlir.dialects.regions import new_function, scratch_block
from nabla_mlir.dialects.types import tensor_type
from nabla_mlir.staging.advice import LongTrace, advised
from nabla_mlir.staging.known import Known, Role
from nabla_mlir.staging.specs import Spec
from nabla_mlir.table import promotion
from nabla_mlir.table.narrowing import follows_jax
from nabla_mlir.table.tensor import Scope, Tensor, constant, current_scope, set_reader, set_scope, wrap

# MLIR leaves out frames of this package in locations. Symbolic links may give a folder two paths, so both are excluded.
for _folder in {*INTERNAL_FOLDERS, os.path.join(os.path.dirname(os.path.abspath(__file__)), "")}:
    _mlir.globals.register_traceback_file_exclusion(_folder)  # type: ignore[attr-defined]  # not in the stubs


@dataclass
class Capture:
    """An array from outside that a traced function uses. It becomes an additional argument."""

    array: Any
    value: ir.Value


@dataclass
class Trace:
    """One function under construction.

    Attributes:
      block: the body of the function.
      is_value: the function runs without being differentiated, so no rules are needed.
      known: the values that the arguments determine, if the arguments are known.
      order: the number of derivatives of the code that is being traced.
      has_lines: operations know the user's lines.
      captures: the arrays from outside, by the identity of the object.
      scratch: a block that owns the regions which are not part of the code.
    """

    block: ir.Block
    is_value: bool = False
    known: Known | None = None
    order: int = 0
    has_lines: bool = True
    captures: dict[int, Capture] = field(default_factory=dict)
    scratch: ir.Block = field(default_factory=lambda: scratch_block(detached=True))

    def retire(self, holder: ir.Operation) -> None:
        """Moves `holder`, an operation with a traced region, out of the code. It lives until the trace ends.

        Other code may read its values. For example, the step of a scan is traced once to learn its types. A function that the step
        linearises is a separate region, which reads values of the step. It is cloned even after the trace of the step is no longer
        used.
        """
        self.scratch.append(holder)

    def close(self) -> None:
        """Erases the holders. They may read each other's values: MLIR drops the reads of a region before it erases the region."""
        self.scratch.owner.operation.erase()

    def capture(self, array: Any, shape: tuple[int, ...], dtype: np.dtype) -> Tensor:
        """A new tensor for an array that the traced function reads from outside; each array becomes one argument of the trace.

        Each call returns a new tensor, because an assignment to one must not change the others.
        """
        position = self.captures.get(id(array))
        if position is None:
            argument = self.block.add_argument(tensor_type(shape, dtype), ir.Location.unknown())
            position = self.captures[id(array)] = Capture(array, argument)
            if self.known is not None and pytree.is_array(array):
                self.known.assign([argument], [array])
        return Tensor(position.value)


class _Current(threading.local):
    trace: Trace | None = None
    suspended: tuple[Trace | None, Scope | None] = (None, None)  # outside of `ensure_compile_time_eval`


_current = _Current()


def current_trace() -> Trace | None:
    """The trace of this thread, or None."""
    return _current.trace


@contextlib.contextmanager
def ensure_compile_time_eval() -> Iterator[None]:
    """A context in which functions of concrete arrays are computed at once, even in a trace. Python may branch on the results.

    Functions of traced values are still traced.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> def f(x):
      ...     with nm.ensure_compile_time_eval():
      ...         n = int(nm.numpy.sum(np.arange(3)))
      ...     return x * n
      >>> float(nm.jit(f)(2.0))
      6.0
    """
    trace, scope, suspended = _current.trace, current_scope(), _current.suspended
    if trace is not None:
        _current.suspended = trace, scope
    _current.trace = None
    set_scope(None)
    try:
        yield
    finally:
        _current.trace, _current.suspended = trace, suspended
        set_scope(scope)


@contextlib.contextmanager
def resumed() -> Iterator[None]:
    """A context in which the trace around `ensure_compile_time_eval` is the current trace."""
    _current.trace = _current.suspended[0]
    set_scope(_current.suspended[1])
    try:
        yield
    finally:
        _current.trace = None
        set_scope(None)


def is_suspended(leaves: Sequence[Any]) -> bool:
    """True for values of the trace around `ensure_compile_time_eval`."""
    return _current.trace is None and _current.suspended[0] is not None and any(isinstance(leaf, Tensor) for leaf in leaves)


def is_tracing() -> bool:
    """True inside a traced function."""
    return _current.trace is not None


def _capture_array(array: np.ndarray) -> Tensor:
    """A tensor for an array from outside: a constant if it is small or no function is traced, else an argument of the trace."""
    trace = _current.trace
    if trace is None or array.size <= thresholds.CAPTURED:
        return constant(array)
    return trace.capture(array, array.shape, array.dtype)


promotion.set_capture(_capture_array)


def _number_of(tensor: Tensor) -> np.ndarray | None:
    """The numbers of a tensor of the open trace, if the values of its arguments determine them; None if they do not."""
    trace = _current.trace
    if trace is None or trace.known is None or tensor.axes:
        return None
    scope = current_scope()
    _current.trace = None  # the computation below is not part of the trace
    set_scope(None)
    try:
        return trace.known.read(tensor.value)
    finally:
        _current.trace = trace
        set_scope(scope)


def _is_followed(tensor: Tensor) -> bool:
    """True if an open derivative follows the tensor, so that results which Python computes from its numbers would lose it."""
    trace = _current.trace
    return trace is not None and trace.known is not None and trace.known.is_followed(tensor.value)


set_reader(_number_of, _is_followed)


@contextlib.contextmanager
def _scope(what: str) -> Iterator[Scope]:
    """A context with a new scope, in which tensors can be made; later uses raise an error that names `what`."""
    outer = current_scope()
    scope = Scope(what, outer)
    set_scope(scope)
    try:
        yield scope
    finally:
        scope.open = False
        set_scope(outer)


def trace_function(
    function: Callable[..., Sequence[Any]],
    specs: Sequence[Spec],
    name: str,
    is_value: bool = False,
    arrays: Sequence[Any] | None = None,
    has_lines: bool = True,
) -> tuple[ir.Module, list[Any]]:
    """Traces ``function(*tensors) -> tensors`` into a module with one public function.

    Args:
      function: the function.
      specs: the types of its arguments.
      name: the name of the public function.
      is_value: True if the function is never differentiated.
      arrays: the arguments, if they are known. Python may then read numbers that they determine (`if x > 0`), and the
        module holds only for these values.
      has_lines: True if operations know the user's lines, which takes a quarter of the time.

    Returns:
      The module and the captured arrays, which are the last arguments of the function, in order.
    """
    with context(), ir.Location.unknown():
        module = ir.Module.create()
        types = [tensor_type(s.shape, s.dtype) for s in specs]
        with ir.InsertionPoint(module.body):
            block = new_function(name, types)
        trace, outer = Trace(block, is_value, Known() if arrays is not None else None, has_lines=has_lines), _current.trace
        if trace.known is not None and arrays is not None:
            trace.known.assign(block.arguments, arrays)
        _current.trace = trace
        around, watch = current_scope(), LongTrace() if has_lines and outer is None else None
        try:
            with (
                around.waiting() if around is not None else contextlib.nullcontext(),
                ir.InsertionPoint(block),
                _scope(f"the trace of {name}") as scope,
            ):
                if watch is not None:
                    scope.count = watch
                arguments = [Tensor(a, scope) for a in block.arguments]
                for argument, spec in zip(arguments, specs, strict=True):
                    argument.weak = spec.weak
                work = "tracing a function" if name == "main" else f"tracing {name}"
                with running(work), advised(), _record_lines() if has_lines else contextlib.nullcontext():
                    outs = [checked_output(out) for out in function(*arguments)]
                ir.Operation.create("func.return", operands=[out.value for out in outs])
        finally:
            _current.trace = outer
            if watch is not None:
                watch.end()
            trace.close()
        inputs = [a.type for a in block.arguments]
        block.owner.operation.attributes["function_type"] = _function_type(inputs, [out.value.type for out in outs])
    return module, [c.array for c in trace.captures.values()]


@contextlib.contextmanager
def _record_lines() -> Iterator[None]:
    """A context in which operations know their lines. MLIR reads them from the stack, and accepts only file names in UTF-8."""
    try:
        with user_lines():
            yield
    except RuntimeError as error:
        frames = itertools.chain(traceback.walk_tb(error.__traceback__), traceback.walk_stack(None))
        names = [frame.f_code.co_filename for frame, _ in frames if not _is_utf8(frame.f_code.co_filename)]
        if "bad_cast" not in str(error) or not names:
            raise
        raise TraceError(
            f"tracing requires files whose names are UTF-8, got {names[0]!a}.",
            help="run Python with -X utf8 (or PYTHONUTF8=1), or rename the file or its folder.",
        ) from None


def _is_utf8(text: str) -> bool:
    """True if UTF-8 can encode the text: a lone surrogate, as in some file names, has no encoding."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _function_type(inputs: Sequence[ir.Type], results: Sequence[ir.Type]) -> ir.Attribute:
    return ir.TypeAttr.get(ir.FunctionType.get(list(inputs), list(results), context=context()))


def checked_output(out: Any) -> Tensor:
    """The result `out` of a traced function, a tensor or number, as a tensor; raises an error if its trace has ended."""
    tensor = promotion.as_tensor(out)
    tensor.check_open()
    return tensor


def trace_region(
    function: Callable[..., Sequence[Any]],
    specs: Sequence[Spec],
    what: str,
    is_differentiated: bool = False,
    operands: Sequence[Tensor] = (),
    role: Role = "plain",
) -> tuple[ir.Block, ir.Operation, list[Tensor]]:
    """Traces a function into a block inside the current trace; values from outside are captured as they are.

    Args:
      function: the function, from tensors to tensors.
      specs: the types of its arguments.
      what: the name of the function, for errors.
      is_differentiated: True if the block belongs to an operation that differentiates it.
      operands: the tensors whose values the first arguments have.
      role: the role of the region in an operation with custom rules; it decides which derivatives follow the arguments.

    Returns:
      The block (ending in `stablehlo.return`), the operation that holds it until it is moved, and the results. The holder
      belongs to the trace, also if the function raises an error. The caller may move the block out of it, but never erases it.
    """
    trace = _current.trace
    assert trace is not None, "regions are traced inside a trace"
    block = scratch_block([tensor_type(s.shape, s.dtype) for s in specs])
    holder = block.owner.operation
    is_value, trace.is_value = trace.is_value, trace.is_value and not is_differentiated
    trace.order += is_differentiated
    if trace.known is not None:
        level = trace.order if is_differentiated else None
        trace.known.bind(list(block.arguments)[: len(operands)], [x.value for x in operands], level, role)
    try:
        with ir.InsertionPoint(block), _scope(what) as scope:
            arguments = [Tensor(a, scope) for a in block.arguments]
            for argument, spec in zip(arguments, specs, strict=True):
                argument.weak = spec.weak
            outs = [checked_output(out) for out in function(*arguments)]
            stablehlo.emit("stablehlo.return", [out.value for out in outs], results=[])
    finally:
        trace.retire(holder)
        trace.is_value = is_value
        trace.order -= is_differentiated
    return block, holder, outs


def stands_for(argument: Tensor, value: Tensor) -> None:
    """States that an argument of the open region has a value, and that the region's derivative does not follow the argument."""
    trace = _current.trace
    if trace is not None and trace.known is not None:
        trace.known.bind([argument.value], [value.value])


def results_of(op: ir.Operation, *like: Sequence[Tensor]) -> list[Tensor]:
    """The results of an operation as tensors of the current scope.

    `like` holds lists of operands. By JAX's rules, result i is weakly typed if element i of each list is; others are not weak.
    """
    outs = [wrap(r) for r in op.results]
    if follows_jax() and like:
        for out, *tensors in zip(outs, *like, strict=False):
            out.weak = all(t.weak for t in tensors)
    return outs


def bake_captures(module: ir.Module, count: int, captures: Sequence[Any]) -> None:
    """Replaces the arguments after the first `count` of the function in `module` by constants, the arrays `captures`."""
    if not captures:
        return
    func = module.body.operations[0].operation
    block = func.regions[0].blocks[0]
    with context(), ir.InsertionPoint.at_block_begin(block), ir.Location.unknown():
        for argument, array in zip(list(block.arguments)[count:], captures, strict=True):
            value = stablehlo.emit("stablehlo.constant", [], attributes={"value": stablehlo.elements(np.asarray(array))})
            argument.replace_all_uses_with(value.results[0])
        for i in reversed(range(count, len(block.arguments))):
            block.erase_argument(i)
        inputs = [a.type for a in block.arguments]
        results = list(ir.FunctionType(ir.TypeAttr(func.attributes["function_type"]).value).results)
        func.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))
