"""An annotation: the inputs on which each value depends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.base.errors import PassError
from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.regions import functions_of, is_private, nested
from nabla_mlir.dialects.types import is_differentiable, shape_and_dtype
from nabla_mlir.passes.base import Pass, register
from nabla_mlir.passes.dependence.analysis import Dependence, dependence_of, results_of

PATTERN, RETURNS, DENSE = "sparsity.pattern", "sparsity.returns", "sparsity.dense"


@register
@dataclass(frozen=True)
class SparsityPass(Pass):
    """Annotate each value with its sparsity pattern with respect to some arguments of its function.

    An operation gets `sparsity.pattern`, a text for each of its results: how many boxes (index maps with offsets and strides) or
    entries the pattern has, and on how many columns an element depends at most. A function gets `sparsity.returns`, the same for
    its results. It also gets `sparsity.dense`, the operations that first made an element depend on all columns, with their lines.
    For a derivative, with its tangent as the argument, the results have the pattern of the Jacobian or the Hessian. Nothing else
    changes.

    Example: tests/filecheck/passes/sparsity.mlir
    """

    name: ClassVar[str] = "nabla-sparsity"
    arguments: tuple[int, ...] = ()  # whose elements are the columns; all that can be differentiated if empty

    def run(self, module: ir.Operation) -> None:
        for function in functions_of(module).values():
            if not is_private(function) and len(function.regions[0].blocks):
                self._annotate(function, module)

    def _annotate(self, function: ir.Operation, module: ir.Operation) -> None:
        """Writes the patterns of the values of one function as attributes; `module` has the functions that it calls."""
        types = [a.type for a in function.regions[0].blocks[0].arguments]
        smooth = [i for i, t in enumerate(types) if is_differentiable(shape_and_dtype(t)[1])]
        if not set(self.arguments) <= set(smooth):
            raise PassError(f"{self.name} requires arguments of floating point among {smooth}, got {self.arguments}.")
        found = dependence_of(function, self.arguments or smooth, module)
        for op in nested(function):
            if any(r in found.relations for r in op.results):
                op.attributes[PATTERN] = _texts([str(found.of(r)) for r in op.results])
        function.attributes[RETURNS] = _texts([str(r) for r in results_of(function, found)])
        if found.causes:
            function.attributes[DENSE] = _texts(causes(found))


def causes(found: Dependence) -> list[str]:
    """The operations that made values dense, each as a text with its line if that is known: ``stablehlo.sort at f.py:3``."""
    return [
        cause.operation if cause.where is None else f"{cause.operation} at {cause.where.filename}:{cause.where.line}"
        for cause in found.causes
    ]


def _texts(texts: list[str]) -> ir.Attribute:
    """An array attribute of strings."""
    return ir.ArrayAttr.get([ir.StringAttr.get(text, context()) for text in texts], context())
