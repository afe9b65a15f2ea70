"""The rule table: the class of records, which emit operations, read their parameters back and check themselves.

A record states for one operation its attributes, the types of its results if MLIR does not infer them, and its jvp,
transpose and batch rules. A rule that does not exist is stated, too (`UNSUPPORTED`). An incomplete record does not
load.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from iree.compiler import ir

from nabla_mlir.base.errors import DtypeError, RuleMissingError, ShapeError, VerifyError, user_frame
from nabla_mlir.dialects import stablehlo
from nabla_mlir.dialects.locations import source_of
from nabla_mlir.dialects.stablehlo import Codec, DimensionNumbers
from nabla_mlir.dialects.types import tensor_type
from nabla_mlir.sparsity.operands import Rule
from nabla_mlir.sparsity.operands import dense as dense_pattern
from nabla_mlir.sparsity.operands import elementwise as elementwise_pattern
from nabla_mlir.table.narrowing import follows_jax
from nabla_mlir.table.rules import (
    UNSUPPORTED,
    Augmented,
    BatchRule,
    CollectiveRule,
    ControlRules,
    Jvp,
    Linear,
    MaybeZero,
    Partial,
    Transpose,
    Zero,
)
from nabla_mlir.table.tensor import Tensor, current_scope, full, set_scope, wrap
from nabla_mlir.table.vectorized import apply_per_entry

Params = dict[str, Any]
ResultTypes = Callable[..., list[tuple[tuple[int, ...], np.dtype]]]


@dataclass(eq=False)
class Region:
    """A region as a parameter of a record: the region from which copies are made.

    Attributes:
      captures: replacements for values that the region captures.
    """

    source: ir.Region
    captures: Mapping[ir.Value, ir.Value] = field(default_factory=dict)

    def clone_into(self, target: ir.Region) -> None:
        """Copies the (single) block of the source into the empty region `target`."""
        block = self.source.blocks[0]
        types = [a.type for a in block.arguments]
        new = ir.Block.create_at_start(target, types, [ir.Location.unknown()] * len(types))
        mapping = {**self.captures, **dict(zip(block.arguments, new.arguments, strict=True))}
        with ir.InsertionPoint(new):
            for op in block.operations:
                clone_op(op.operation, mapping)


def clone_op(op: ir.Operation, mapping: dict[ir.Value, ir.Value]) -> ir.Operation:
    """Clones `op` at the insertion point; returns the clone.

    `mapping` replaces the operands of the clone and of the operations in its regions; the results of the clone are added to it.
    """
    new = op.clone()
    new = new.operation
    _remap(new, mapping)
    for old_result, new_result in zip(op.results, new.results, strict=True):
        mapping[old_result] = new_result
    return new


def _remap(op: ir.Operation, mapping: dict[ir.Value, ir.Value]) -> None:
    """Replaces the operands of an operation by their values in `mapping`, also in its regions."""
    operands = op.operands
    for i, operand in enumerate(operands):
        replacement = mapping.get(operand)
        if replacement is not None:
            operands[i] = replacement
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                _remap(inner.operation, mapping)


@dataclass(kw_only=True)
class OpDef:
    """One record of the table.

    Attributes:
      name: the operation, e.g. ``stablehlo.sine``.
      kind: the kind that supplied the rules (`elementwise`, `structural`, ...; see kinds.py).
      doc: one sentence for the reference pages.
      attributes: the codec of each attribute; the value None means that the attribute is absent.
      defaults: default values of parameters.
      result: ``(*operands, **params) -> [(shape, dtype)]``, if MLIR cannot infer the types of the results.
      result_params: a function that reads parameters from the result types of an operation.
      regions: names of the region parameters, in order.
      comparators: the names of regions that order elements; their captures have no derivative.
      decomposition: ``(operands, **params) -> results``, the same results by operations without regions. Derivatives
        and maps with respect to captured values use it; without a decomposition they are refused.
      jvp: ``(outs, operands, tangents, **params) -> [tangent of each result]``, or ZERO, or UNSUPPORTED. The protocols
        of the rules are in table/rules.py.
      augmented: ``(operands, **params) -> [*results, *residuals]``, if `jvp` needs residuals. Derivatives replace the
        operation by it, and `jvp` gets the residuals after the results.
      transpose: ``(cotangents, i, operands, **params) -> cotangent of operand i``, for operations that are linear
        in operand i, or UNSUPPORTED. Operations with partials need none.
      linear: the operands in which the operation is linear (indices, "all", or ``(xs, **params) -> indices``): in all
        of them together if `joint`, else in each separately.
      batch: ``(operands, mapped, size, **params) -> results``, or UNSUPPORTED; the mapped axis leads in every mapped
        operand and in every result.
      collective: of an operation over a named axis: ``(x, is_mapped, size, **params) -> (result, carries the axis)``, if a
        map over that axis is expanded. `batch` is its rule for other axes.
      control: the rules of control flow, which get the operation itself, in place of `jvp`, `transpose` and `batch`.
      partials: of elementwise operations: for each operand ``(t, y, *xs, **params) -> t * dy/dx_i``, or ZERO.
      constant_partials: partials for a t that does not vary with the variables, if they differ: the product is 0 where
        t is 0, even if the derivative is infinite.
      numpy: a reference implementation, for the law tests and for constant folding.
      sample: argument generator(s) for the law tests.
      singular: operands at which the formula of a derivative has no value, for the law of singular points.
      elementwise: each element of the result depends only on the elements at its own index; smaller operands are repeated.
      moves: each element of the result is an element of an operand in which the operation is linear, or of any operand
        if there is no such operand.
      free: it needs no time and no memory: a view, or a value that is computed by its readers.
      view: the result has the bits of its operand, in the same order.
      part: it reads a part of its first operand.
      reduces: it combines many elements into one.
      pattern: its sparsity pattern: ``(operands, shapes of the results, **params) -> relations`` (see
        nabla_mlir/sparsity). It is derived for elementwise operations, and dense by default for others.
      overflows: the result may be infinite where the operands are far from the largest number, as in a power.
      commutes: the operands may be exchanged.
      pure: it may be erased if no result is used, and merged with an equal operation.
      sequential: one thread executes it.
      runs: how often its regions run: "loop", "choice" (one of them) or "once"; "" if the regions act on elements, or
        are rules.
      updates: ``op -> indices of operands`` whose memory the results reuse.
      instructions: the cost of one element, on a scale where an addition costs 1.
      flops: ``(outs, operands, **params) -> floating-point operations``. The default is one for each element, and none
        for operations that move elements.
    """

    changes: ClassVar[int] = 0  # how often fields of records were set: a cache of emitted code is valid for one number

    name: str
    kind: str
    doc: str
    attributes: Mapping[str, Codec | DimensionNumbers] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    result: ResultTypes | None = None
    result_params: Callable[[ir.Operation], Params] | None = None
    regions: tuple[str, ...] = ()
    comparators: tuple[str, ...] = ()
    decomposition: Callable[..., list[Tensor]] | None = None
    emit_region: Callable[[ir.Region, Any, Sequence[Tensor]], None] | None = None
    read_region: Callable[[ir.Region], Any] | None = None
    jvp: Jvp | Zero | UNSUPPORTED | None = None
    augmented: Augmented | None = None
    transpose: Transpose | UNSUPPORTED | None = None
    linear: Linear = ()
    joint: bool = True
    batch: BatchRule | UNSUPPORTED | None = None
    collective: CollectiveRule | None = None
    control: ControlRules | None = None
    multi: bool = False
    partials: Sequence[Partial | Zero] | None = None
    constant_partials: Sequence[Partial | Zero] | None = None
    define: Callable[..., list[Tensor]] | None = None
    numpy: Callable[..., Any] | None = None
    sample: Any = None
    singular: tuple[tuple[float, ...], ...] = ()
    elementwise: bool = False
    moves: bool = False
    free: bool = False
    view: bool = False
    part: bool = False
    reduces: bool = False
    pattern: Rule | None = None
    overflows: bool = False
    commutes: bool = False
    pure: bool = True
    sequential: bool = False
    runs: str = ""
    updates: Callable[[ir.Operation], Sequence[int]] | None = None
    instructions: int = 1
    flops: Callable[..., int] | None = None

    def __post_init__(self) -> None:
        """Raises TypeError if the record lacks a rule or its documentation; adds the sparsity
        pattern of its kind if it has none.
        """
        missing = [rule for rule in ("jvp", "batch") if self.control is None and getattr(self, rule) is None]
        if self.linear and self.transpose is None and self.partials is None:
            missing.append("transpose")
        if not self.doc:
            missing.append("doc")
        if missing:
            raise TypeError(f"record {self.name!r} requires {', '.join(missing)} (a rule or the word for it).")
        if self.pattern is None:
            self.pattern = elementwise_pattern if self.elementwise else dense_pattern

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        OpDef.changes += 1

    def __call__(self, *operands: Tensor, **params: Any) -> Any:
        """Emits the operation on tensors; returns a single result as it is, and several as a list."""
        outs = self.apply(operands, {**self.defaults, **params})
        return outs if self.multi else outs[0]

    def apply(self, operands: Sequence[Tensor], params: Params) -> list[Tensor]:
        """Emits the operation on `operands`; returns its results. `params` has all its parameters by name."""
        has_axes = has_weak = False
        for operand in operands:
            operand.check_open()
            has_axes = has_axes or bool(operand.axes)
            has_weak = has_weak or operand.weak
        if has_axes:
            return apply_per_entry(lambda entries: self.apply(entries, params), operands)
        results = None
        if self.result is not None:
            results = [tensor_type(shape, dtype) for shape, dtype in self.result(*operands, **params)]
        attributes = {name: codec.encode(params[name]) for name, codec in self.attributes.items() if params[name] is not None}
        values = [operand.value for operand in operands]
        if not self.regions:
            op = self._create(values, results, attributes, operands)
        else:
            op = stablehlo.emit(self.name, values, results=results, attributes=attributes, regions=len(self.regions))
            for region, name in zip(op.regions, self.regions, strict=True):
                self._fill_region(region, params[name], operands)
        try:
            outs = [wrap(value) for value in op.results]
        except DtypeError as error:
            raise DtypeError(f"{self.name}: {error.message}", where=user_frame()) from None
        if has_weak and follows_jax() and self._is_weak(operands):
            for out in outs:
                out.weak = out.dtype.kind != "b"
        return outs

    def _is_weak(self, operands: Sequence[Tensor]) -> bool:
        """True if the result is weak: the operands from which its elements come are all weak. False for a conversion."""
        if self.name == "stablehlo.convert":
            return False
        if self.elementwise:
            return all(x.weak for x in operands if x.dtype.kind != "b")
        linear = self.linear if isinstance(self.linear, tuple) else ()
        return self.moves and len(linear) > 0 and all(operands[i].weak for i in linear)

    def _create(self, values: Any, results: Any, attributes: Any, operands: Sequence[Tensor]) -> ir.Operation:
        """Creates an operation without regions; raises ShapeError if MLIR refuses the operands."""
        try:
            return stablehlo.emit(self.name, values, results=results, attributes=attributes)
        except (ir.MLIRError, ValueError) as error:
            raise ShapeError(
                f"{self.name} requires operands that fit together, got "
                f"{', '.join(f'{o.dtype}{list(o.shape)}' for o in operands)}. {_first_line(error)}",
                where=user_frame(),
            ) from None

    def _fill_region(self, region: ir.Region, body: Any, operands: Sequence[Tensor]) -> None:
        """Fills a region of the operation with a copy of `body`, or with the body that the name `body` denotes, such as "add"."""
        if isinstance(body, Region):
            body.clone_into(region)
            return
        if self.emit_region is None:
            raise TypeError(f"{self.name} requires a Region, got {body!r}.")
        scope = current_scope()
        set_scope(None)
        try:
            self.emit_region(region, body, operands)
        finally:
            set_scope(scope)

    def read(self, op: ir.Operation) -> Params:
        """The parameters of an operation of this record; `apply` with them emits an equal operation.

        Raises:
          VerifyError: an attribute has the wrong kind, or a kind that MLIR's bindings do not know.
        """
        present = op.attributes
        try:
            params = {
                name: codec.decode(present[name]) if name in present else self.defaults.get(name)
                for name, codec in self.attributes.items()
            }
        except (TypeError, ValueError) as error:
            message = f"{op.name} requires attributes of the kinds of its record, got one where {_first_line(error)}"
            raise VerifyError(message, where=source_of(op.location)) from None
        if self.result_params is not None:
            params |= self.result_params(op)
        for region, name in zip(op.regions, self.regions, strict=True):
            combiner = self.read_region(region) if self.read_region is not None else None
            params[name] = Region(region) if combiner is None else combiner
        return params

    @property
    def has_params(self) -> bool:
        """True if an operation has parameters (attributes, result parameters, regions)."""
        return bool(self.attributes or self.result_params or self.regions)

    def linear_operands(self, xs: Sequence[Tensor], params: Params) -> tuple[int, ...]:
        """Indices of the operands `xs` in which the operation with the parameters `params` is linear."""
        if callable(self.linear):
            return tuple(self.linear(xs, **params))
        return tuple(range(len(xs))) if self.linear == "all" else self.linear


def _first_line(error: Exception) -> str:
    """The message of an error, without its notes."""
    diagnostics = getattr(error, "error_diagnostics", None)
    return diagnostics[0].message if diagnostics else str(error).splitlines()[0]


REGISTRY: dict[str, OpDef] = {}


def register(record: OpDef) -> OpDef:
    """Adds a record to the table. Raises TypeError if the operation already has a record."""
    if record.name in REGISTRY:
        raise TypeError(f"record {record.name!r} exists already.")
    REGISTRY[record.name] = record
    return record


def operation(name: str) -> OpDef:
    """The record of an operation of StableHLO by its short name, for modules that the records import: ``operation("add")``."""
    return REGISTRY[f"stablehlo.{name}"]


def record_of(op: ir.Operation, transform: str) -> OpDef:
    """The record of an operation; raises RuleMissingError, with the user's line, if there is none. `transform` is a name for the
    error.
    """
    record = REGISTRY.get(op.name)
    if record is None:
        raise missing_rule(op, transform, "the operation is not in the table")
    return record


def missing_rule(op: ir.Operation, transform: str, reason: str, help: str = "") -> RuleMissingError:
    """The error for an operation that has no rule for `transform`; `reason` and `help` are parts of its text."""
    return RuleMissingError(
        f"{transform} requires a rule for every operation, got {op.name!r}: {reason}.",
        where=source_of(op.location),
        help=help or "wrap the value with nm.stop_gradient, or add the rule to the record in nabla_mlir/ops.",
    )


def zeros(x: Tensor) -> Tensor:
    """A zero constant with the shape and dtype of `x`."""
    return full(x.shape, 0, x.dtype)


def materialize(tangent: MaybeZero, like: Tensor) -> Tensor:
    """The tangent itself; for a structural zero, a zero constant with the shape and dtype of `like`."""
    return zeros(like) if isinstance(tangent, Zero) else tangent


def add_any(a: MaybeZero, b: MaybeZero) -> MaybeZero:
    """a + b; either may be a structural zero."""
    if isinstance(a, Zero):
        return b
    if isinstance(b, Zero):
        return a
    return wrap(stablehlo.emit("stablehlo.add", [a.value, b.value]).results[0])
