"""Calls of functions with custom rules, while they are traced: the types of arguments, results and tangents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import TreeError, user_frame
from nabla_mlir.dialects.types import is_differentiable
from nabla_mlir.staging.specs import Spec
from nabla_mlir.table.promotion import as_tensor
from nabla_mlir.table.registry import materialize
from nabla_mlir.table.rules import ZERO
from nabla_mlir.table.tensor import Tensor
from nabla_mlir.transforms.arguments import seed_of
from nabla_mlir.transforms.symbolic_zeros import SymbolicZero


@dataclass
class Call:
    """One call of a custom function while it is traced. Its rules are traced for the types of this call."""

    function: Any  # the custom function
    fixed: list[Any]  # the arguments at nondiff_argnums
    args_spec: pytree.TreeSpec
    specs: list[Spec]
    constant: frozenset[int] = frozenset()  # the leaves that no derivative can reach, for rules with symbolic zeros
    label: str = ""
    outs: list[Tensor] = field(default_factory=list)
    out_spec: Any = None

    def matches(self, other: Call) -> bool:
        """True if the other call has the same function and the same types."""
        return (
            self.function is other.function
            and all(a is b for a, b in zip(self.fixed, other.fixed, strict=True))
            and self.args_spec == other.args_spec
            and self.constant == other.constant
            and [(s.shape, s.dtype) for s in self.specs] == [(s.shape, s.dtype) for s in other.specs]
        )

    @property
    def wrt(self) -> list[int]:
        """The leaves of the arguments that have tangents."""
        return [i for i, s in enumerate(self.specs) if is_differentiable(s.dtype) and i not in self.constant]

    @property
    def of(self) -> list[int]:
        """The leaves of the result that have tangents."""
        return [i for i, out in enumerate(self.outs) if is_differentiable(out.dtype)]

    def result(self, what: str, out: Any) -> list[Tensor]:
        """The leaves of the value `out` that a rule returns; raises TreeError unless it has the type of the function's result.

        `what` names the rule for the error.
        """
        leaves, spec = pytree.flatten(out)
        tensors = [as_tensor(x, None if pytree.is_array(x) else o.dtype) for x, o in zip(leaves, self.outs, strict=False)]
        got = [(t.shape, t.dtype) for t in tensors]
        if spec != self.out_spec or got != [(o.shape, o.dtype) for o in self.outs]:
            values = f"{_describe(spec, leaves)} instead of {_describe(self.out_spec, self.outs)}"
            raise TreeError(f"{what} requires a value like that of the function, got {values}.", where=user_frame())
        return tensors

    def seeds(self, word: str, values: Sequence[Any], likes: Sequence[Tensor], at: Sequence[int], names: Any) -> Any:
        """The tangents or cotangents that a rule returns, as tensors, for the leaves with the indices `at`.

        Args:
          word: "tangent" or "cotangent", for errors.
          values: what the rule returned for each leaf; None and `SymbolicZero` mean zero.
          likes: the primal of each leaf.
          at: the indices of the leaves.
          names: the path of each leaf, for errors.
        """
        result = [None if isinstance(values[i], SymbolicZero) else seed_of(word, values[i], likes[i], names[i]) for i in at]
        return [materialize(ZERO if s is None else s, likes[i]) for s, i in zip(result, at, strict=True)]


def _describe(spec: pytree.TreeSpec, leaves: Sequence[Any]) -> str:
    """The text of a tree of arrays, with types in place of leaves. `spec` is the structure of the tree."""
    texts = [str(Spec(t.shape, t.dtype)) for t in map(as_tensor, leaves)]
    return str(pytree.unflatten(spec, texts)).replace("'", "")
