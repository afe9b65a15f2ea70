"""The signatures of the rules of a record, one protocol for each field, and the words for rules that emit nothing.

Rules of most operations get operands and parameters. Rules of control flow (`ControlRules`) get the operation itself,
because they rewrite its regions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeVar

from iree.compiler import ir

from nabla_mlir.table.tensor import Tensor, wrap


class Zero:
    """A tangent or cotangent that is structurally zero: no operation is emitted for it."""

    def __repr__(self) -> str:
        return "ZERO"


ZERO = Zero()


@dataclass(frozen=True)
class UNSUPPORTED:
    """A rule that does not exist, with the reason for the error message."""

    reason: str


MaybeZero = Tensor | Zero
Tensors = Sequence[Tensor]  # operands or results of an operation
MaybeZeros = Sequence[MaybeZero]  # tangents of operands
Tangents = dict[ir.Value, Tensor]  # by primal value; a structural zero has no entry
Cotangents = dict[ir.Value, Tensor]  # by primal value; a structural zero has no entry

# ``(t, y, *xs, **params) -> t * dy/dx_i``. One function per operand serves forward and reverse mode, because a diagonal
# linear map is its own transpose. The product is written out, so that a rule can say `t / y` instead of `t * (1 / y)`.
Partial = Callable[..., MaybeZero]


# ---------------------------------------------------------------- operations without control flow


class Augmented(Protocol):
    """The operation with residuals: values that its forward rule needs, and that are computed with the results."""

    def __call__(self, xs: Sequence[Tensor], /, *args: Any, **params: Any) -> Sequence[Tensor]:
        """Emits the results and the residuals; returns the results, then the residuals.

        Args:
          xs: the operands.
          params: the parameters of the operation.
        """


class Jvp(Protocol):
    """The tangents of the results: for y = f(x), dy = f'(x) dx."""

    def __call__(
        self, outs: Sequence[Tensor], xs: Sequence[Tensor], tangents: Sequence[MaybeZero], /, *args: Any, **params: Any
    ) -> Sequence[MaybeZero]:
        """Emits the tangents; returns one for each result.

        Args:
          outs: the results; if the record has `augmented`, also the residuals.
          xs: the operands.
          tangents: of each operand.
          params: the parameters of the operation.
        """


class Transpose(Protocol):
    """The transpose of an operation that is linear in one operand: for y = A x, the cotangent A^T c."""

    def __call__(self, cts: Sequence[Tensor], i: int, xs: Sequence[Tensor], /, *args: Any, **params: Any) -> MaybeZero:
        """Emits the cotangent of operand `i`.

        Args:
          cts: the cotangent of each result.
          i: the index of an operand in which the operation is linear.
          xs: the operands. The value of operand `i` must not be used, only its type.
          params: the parameters of the operation.
        """


class BatchRule(Protocol):
    """The operation on all entries of a map: y[k] = f(x[k])."""

    def __call__(self, xs: Sequence[Tensor], mapped: Sequence[bool], size: int, /, *args: Any, **params: Any) -> Sequence[Tensor]:
        """Emits the results, each with the mapped axis in front.

        Args:
          xs: the operands.
          mapped: for each operand, True if it carries the axis, in front; at least one does.
          size: the number of entries.
          params: the parameters of the operation on one entry.
        """


class CollectiveRule(Protocol):
    """The expansion of a collective over its own axis: y = f(x[0], x[1], ...)."""

    def __call__(self, x: Tensor, is_mapped: bool, size: int, /, *args: Any, **params: Any) -> tuple[Tensor, bool]:
        """Emits the result; returns it, and True if it carries the axis, in front.

        Args:
          x: the operand.
          is_mapped: True if the operand carries the axis, in front; otherwise all entries have the same value.
          size: the number of entries.
          params: the parameters of the operation, without the axis.
        """


Linear = tuple[int, ...] | Literal["all"] | Callable[..., Sequence[int]]
R = TypeVar("R")


def as_rule(rule: R | Zero | UNSUPPORTED | None) -> R:
    """The rule of a field. The caller has excluded the fields that hold ZERO, UNSUPPORTED or None in place of a rule."""
    if rule is None or isinstance(rule, (Zero, UNSUPPORTED)):
        raise TypeError(f"a record requires a rule here, got {rule!r}.")
    return rule


def sole(tangents: Sequence[MaybeZero]) -> Tensor:
    """The only tangent that is not a structural zero, for an operation with one differentiable operand.

    Other operands, such as the order of the columns of a pivoted QR factorisation, have none. No rule is called without a tangent,
    so there is one. `tangents` are those of the operands.
    """
    (tangent,) = (t for t in tangents if isinstance(t, Tensor))
    return tangent


# ---------------------------------------------------------------- control flow


@dataclass
class Batch:
    """The expansion of one axis of a map: the values that carry the axis, and those that do not.

    Attributes:
      size: the number of entries.
      mapped: the values that carry the axis, in front, by the value that they have inside the map.
      unmapped: replacements for values that are the same for all entries.
      live: the mask of the entries that use the results; None if all do. A loop must end for the other entries, too.
    """

    size: int
    mapped: dict[ir.Value, Tensor] = field(default_factory=dict)
    unmapped: dict[ir.Value, ir.Value] = field(default_factory=dict)
    live: Tensor | None = None

    def __contains__(self, value: ir.Value) -> bool:
        """True if a value inside the map carries the axis."""
        return value in self.mapped

    def __getitem__(self, value: ir.Value) -> Tensor:
        """The value outside of the map: with the axis in front if it carries the axis."""
        return self.mapped[value] if value in self.mapped else wrap(self.unmapped.get(value, value))

    def bind(self, value: ir.Value, new: Tensor, carries: bool = True) -> None:
        """Records the value `new` outside of the map that belongs to a value inside.

        `carries` is True if `new` has the mapped axis, in front.
        """
        if carries:
            self.mapped[value] = new
        else:
            self.unmapped[value] = new.value

    def inner(self, live: Tensor | None = None) -> Batch:
        """A copy for a region: values that are bound in it are not visible outside of the region.

        Args:
          live: the mask of the entries that use the region; by default the mask of the outer batch.
        """
        return replace(self, mapped=dict(self.mapped), unmapped=dict(self.unmapped), live=self.live if live is None else live)


@dataclass(frozen=True)
class Pushed:
    """The results of an operation, computed together with their tangents."""

    values: Sequence[Tensor]
    tangents: Sequence[MaybeZero]


@dataclass(frozen=True)
class Pulled:
    """The cotangents of the values that an operation reads, and its results if they were computed with residuals."""

    cotangents: Cotangents
    values: Sequence[Tensor] | None = None  # None: the results of the operation itself


class ControlJvp(Protocol):
    """The forward rule of control flow. It does not change the operation."""

    def __call__(self, op: ir.Operation, tangents: Tangents, /) -> Pushed:
        """Emits the operation with tangents, before `op`; `push_forward` then replaces `op` by the values.

        Args:
          op: the operation.
          tangents: of the values that the operation reads: operands, and captures of its regions.
        """


class ControlVjp(Protocol):
    """The reverse rule of control flow. It does not change the operation."""

    def __call__(self, op: ir.Operation, active: set[ir.Value], cts: Sequence[MaybeZero], /) -> Pulled:
        """Emits the cotangents of the active values that the operation reads, at the insertion point.

        If they need residuals, it emits the operation with residuals before `op`; `pull_back` then replaces `op` by the
        values.

        Args:
          op: the operation.
          active: the values that are differentiated.
          cts: the cotangent of each result.
        """


class ControlBatch(Protocol):
    """The batch rule of control flow."""

    def __call__(self, op: ir.Operation, batch: Batch, /) -> None:
        """Emits the operation on all entries, and binds its results in `batch`.

        Args:
          op: the operation.
          batch: the values that the operation reads.
        """


class ActiveResults(Protocol):
    """The activity of the results of control flow."""

    def __call__(self, op: ir.Operation, varying: set[ir.Value], /) -> Sequence[int]:
        """The indices of the results that depend differentiably on `varying`: operands, and captures of regions."""


@dataclass(frozen=True)
class ControlRules:
    """The rules of an operation whose regions they rewrite. They get the operation itself."""

    jvp: ControlJvp
    vjp: ControlVjp
    batch: ControlBatch
    active: ActiveResults | None = None  # None: all results depend on every value
