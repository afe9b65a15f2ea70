"""The rule table: what a record is, how it emits, reads back and is checked.

A record states for one operation its attributes, the type of its results where MLIR does not infer it, and its
jvp, transpose and batch rules, or the word that stands for a rule. An incomplete record does not load.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.dialects import stablehlo
from nabla_mlir.dialects.locations import source_of
from nabla_mlir.dialects.stablehlo import Codec, DimensionNumbers
from nabla_mlir.dialects.types import tensor_type
from nabla_mlir.errors import DtypeError, RuleMissingError, ShapeError, VerifyError, user_frame
from nabla_mlir.sparsity.operands import Rule
from nabla_mlir.sparsity.operands import dense as dense_pattern
from nabla_mlir.sparsity.operands import elementwise as elementwise_pattern
from nabla_mlir.table.tensor import Tensor, current_scope, full, set_scope, wrap
from nabla_mlir.table.vectorized import apply_per_entry


class Zero:
    """A tangent or cotangent that is zero by structure: nothing is emitted for it."""

    def __repr__(self) -> str:
        return "ZERO"


ZERO = Zero()


@dataclass(frozen=True)
class UNSUPPORTED:
    """Stands for a rule that does not exist, with the reason the user is told."""

    reason: str


MaybeZero = Tensor | Zero
Params = dict[str, Any]
ResultTypes = Callable[..., list[tuple[tuple[int, ...], np.dtype]]]


@dataclass(eq=False)
class Region:
    """A region that a record carries as a parameter: the source to clone from.

    Attributes:
      captures: replacements for values that the region uses from outside.
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
    """Clones `op` at the insertion point with its operands (nested ones too) replaced by `mapping`."""
    new = op.clone()
    new = new.operation
    _remap(new, mapping)
    for old_result, new_result in zip(op.results, new.results, strict=True):
        mapping[old_result] = new_result
    return new


def _remap(op: ir.Operation, mapping: dict[ir.Value, ir.Value]) -> None:
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
      kind: the word for the family that supplied the rules (`elementwise`, `structural`, ...).
      doc: one sentence; the row in the reference.
      attributes: codec of each attribute; a value of None means that the attribute is absent.
      defaults: values of parameters that callers may leave out.
      result: ``(*operands, **params) -> [(shape, dtype)]`` where MLIR cannot infer the result.
      result_params: parameters that live in the result type, read back from the operation.
      regions: names of the region parameters, in order.
      comparators: those of them that order elements, so that what they capture has no derivative.
      decomposition: ``(operands, **params) -> results``, the same by operations without regions: the derivatives and the maps by
        what the other regions capture are those of it. Without one they are refused.
      jvp: ``(outs, operands, tangents, **params) -> [tangent of each result]``, or ZERO, or UNSUPPORTED.
      transpose: ``(cotangents, i, operands, **params) -> cotangent of operand i``, for operations that are linear
        in operand i, or UNSUPPORTED.
      linear: the operands in which the operation is linear (indices, "all", or ``(xs, **params) -> indices``):
        jointly if `joint`, else each on its own.
      batch: ``(operands, mapped, size, **params) -> results`` with the mapped axis leading in every operand that
        is mapped and in every result, or UNSUPPORTED.
      partials: for each operand ``(t, y, *xs, **params) -> t * dy/dx_i`` or ZERO, of elementwise operations.
      constant_partials: the same for a t that does not vary with what is differentiated, if they differ: where it is 0, so
        is the product, though the derivative be infinite.
      vjp: only for control flow, whose rules get the operation itself: ``jvp(op, tangents)`` and
        ``batch(op, mapped, size, unmapped)`` extend the tables, ``vjp(op, active, cotangents)`` returns one.
      active: only for control flow: ``(op, varying values) -> indices of the results that vary with them``; all if not given.
      numpy: reference implementation, for the law tests and where constants are folded.
      sample: argument generator(s) for the law tests.
      singular: operands at which the formula of a derivative has no value, for the law of singular points.
      elementwise: each element of the result is made of those at its place; smaller operands are repeated.
      moves: each element of the result is one of an operand in which the operation is linear, or of any if it has none.
      free: no time and no memory of its own: a view, or made where it is read.
      view: the bits of its operand, in their order.
      part: reads a part of its first operand.
      reduces: many elements combined into one.
      pattern: how it moves a sparsity pattern: ``(operands, shapes of the results, **params) -> relations``, of
        nabla_mlir/sparsity; derived from the kind of elementwise operations, dense if it is not given.
      commutes: the operands may be exchanged.
      pure: may be dropped where no result is used, and merged with an equal one.
      sequential: what one thread does.
      runs: how often its regions run as they stand: "loop", "choice" (one of them) or "once"; "" if they say what is
        done with each element, or are rules.
      updates: ``op -> operands`` whose place in memory the results take.
      instructions: what an element takes, as a vector of additions takes one.
      flops: ``(outs, operands, **params) -> floating-point operations``; one for each element, or none of what moves
        them, if not given.
    """

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
    jvp: Any = None
    transpose: Any = None
    linear: Any = ()
    joint: bool = True
    batch: Any = None
    multi: bool = False
    partials: tuple[Any, ...] | None = None
    constant_partials: tuple[Any, ...] | None = None
    vjp: Any = None
    active: Callable[[ir.Operation, set[ir.Value]], Sequence[int]] | None = None
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
    commutes: bool = False
    pure: bool = True
    sequential: bool = False
    runs: str = ""
    updates: Callable[[ir.Operation], Sequence[int]] | None = None
    instructions: int = 1
    flops: Callable[..., int] | None = None

    def __post_init__(self) -> None:
        missing = [rule for rule in ("jvp", "batch") if getattr(self, rule) is None]
        if self.linear and self.transpose is None:
            missing.append("transpose")
        if not self.doc:
            missing.append("doc")
        if missing:
            raise TypeError(f"record {self.name!r} requires {', '.join(missing)} (a rule or the word for it).")
        if self.pattern is None:
            self.pattern = elementwise_pattern if self.elementwise else dense_pattern

    def __call__(self, *operands: Tensor, **params: Any) -> Any:
        """Emits the operation on tensors; a single result comes bare, several as a list."""
        outs = self.apply(operands, {**self.defaults, **params})
        return outs if self.multi else outs[0]

    def apply(self, operands: Sequence[Tensor], params: Params) -> list[Tensor]:
        """Emits the operation with all its parameters given."""
        has_axes = False
        for operand in operands:
            operand.check_open()
            has_axes = has_axes or bool(operand.axes)
        if has_axes:
            return apply_per_entry(lambda entries: self.apply(entries, params), operands)
        results = None
        if self.result is not None:
            results = [tensor_type(shape, dtype) for shape, dtype in self.result(*operands, **params)]
        attributes = {
            name: codec.encode(params[name]) for name, codec in self.attributes.items() if params[name] is not None
        }
        values = [operand.value for operand in operands]
        if not self.regions:
            op = self._create(values, results, attributes, operands)
        else:
            op = stablehlo.emit(self.name, values, results=results, attributes=attributes, regions=len(self.regions))
            for region, name in zip(op.regions, self.regions, strict=True):
                self._fill_region(region, params[name], operands)
        try:
            return [wrap(value) for value in op.results]
        except DtypeError as error:
            raise DtypeError(f"{self.name}: {error.message}", where=user_frame()) from None

    def _create(self, values: Any, results: Any, attributes: Any, operands: Sequence[Tensor]) -> ir.Operation:
        try:
            return stablehlo.emit(self.name, values, results=results, attributes=attributes)
        except (ir.MLIRError, ValueError) as error:
            raise ShapeError(
                f"{self.name} requires operands that fit together, got "
                f"{', '.join(f'{o.dtype}{list(o.shape)}' for o in operands)}. {_first_line(error)}",
                where=user_frame(),
            ) from None

    def _fill_region(self, region: ir.Region, body: Any, operands: Sequence[Tensor]) -> None:
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
        """The parameters of an operation of this record; with them `apply` makes it again.

        Raises:
          VerifyError: an attribute is of another kind, or of one that MLIR's bindings do not know.
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
        """Whether there is anything to read but operands."""
        return bool(self.attributes or self.result_params or self.regions)

    def linear_operands(self, xs: Sequence[Tensor], params: Params) -> tuple[int, ...]:
        """The indices of the operands in which an operation with these parameters is linear."""
        if callable(self.linear):
            return tuple(self.linear(xs, **params))
        return tuple(range(len(xs))) if self.linear == "all" else tuple(self.linear)


def _first_line(error: Exception) -> str:
    diagnostics = getattr(error, "error_diagnostics", None)
    return diagnostics[0].message if diagnostics else str(error).splitlines()[0]


REGISTRY: dict[str, OpDef] = {}


def register(record: OpDef) -> OpDef:
    """Adds a record to the table; a second one for the same operation is an error."""
    if record.name in REGISTRY:
        raise TypeError(f"record {record.name!r} exists already.")
    REGISTRY[record.name] = record
    return record


def operation(name: str) -> OpDef:
    """The record of an operation of StableHLO by its short name, for code that stands below the records: ``operation("add")``."""
    return REGISTRY[f"stablehlo.{name}"]


def record_of(op: ir.Operation, transform: str) -> OpDef:
    """The record of an operation. Raises RuleMissingError, with the user's line, if there is none."""
    record = REGISTRY.get(op.name)
    if record is None:
        raise missing_rule(op, transform, "the operation is not in the table")
    return record


def missing_rule(op: ir.Operation, transform: str, reason: str) -> RuleMissingError:
    """The error for an operation that has no rule for `transform`."""
    return RuleMissingError(
        f"{transform} requires a rule for every operation, got {op.name!r}: {reason}.",
        where=source_of(op.location),
        help="wrap the value with nm.stop_gradient, or add the rule to the record in nabla_mlir/ops.",
    )


def zeros(x: Tensor) -> Tensor:
    """A zero of the shape and dtype of `x`."""
    return full(x.shape, 0, x.dtype)


def materialize(tangent: MaybeZero, like: Tensor) -> Tensor:
    """The tangent itself, or a zero constant like its primal."""
    return zeros(like) if isinstance(tangent, Zero) else tangent


def add_any(a: MaybeZero, b: MaybeZero) -> MaybeZero:
    """a + b, where either may be a structural zero."""
    if isinstance(a, Zero):
        return b
    if isinstance(b, Zero):
        return a
    return wrap(stablehlo.emit("stablehlo.add", [a.value, b.value]).results[0])
