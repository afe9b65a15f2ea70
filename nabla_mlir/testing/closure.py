"""Finds the operations that derivatives and maps of an operation emit; these operations need rules themselves."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import optree

from nabla_mlir import numpy as nnp
from nabla_mlir.compiling.lowering import lower_module
from nabla_mlir.dialects.regions import nested
from nabla_mlir.staging.specs import Spec
from nabla_mlir.staging.tracing import trace_function
from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.table.rules import UNSUPPORTED
from nabla_mlir.testing.cases import LawCase, active_operands
from nabla_mlir.transforms import jvp, vjp, vmap

_STRUCTURE = {"builtin.module", "func.func", "func.return", "stablehlo.return", "stablehlo.constant"}
Function = Callable[..., Any]


def _jvp(f: Function) -> Function:
    return lambda *xs: jvp(f, xs, xs)[1]


def _vjp(f: Function) -> Function:
    """The function that applies the pullback of `f` to the value of `f`."""

    def pulled(*xs: Any) -> Any:
        """The cotangents of `xs`, with the value of `f` as the cotangent of its result."""
        ys, pullback = vjp(f, *xs)
        return pullback(ys)

    return pulled


def _vmap(f: Function) -> Function:
    return lambda *xs: vmap(f)(*(nnp.stack([x, x]) for x in xs))


TRANSFORMS = {"jvp": _jvp, "vjp": _vjp, "vmap": _vmap}


def emitted(law: LawCase, names: Sequence[str]) -> set[str]:
    """The names of the operations that a sample has after the transforms `names`, of which the first is applied first.

    `law` is the sample of an operation.
    """
    xs = law.draw()
    active = active_operands(law, xs)

    def function(*inputs: Any) -> Any:
        """The leaves of the sample's results after all transforms, as a function of all its operands."""

        def f(*own: Any) -> Any:
            """The results of the operation for the active operands `own`; the other operands are those of the sample."""
            full = list(inputs)
            for i, x in zip(active, own, strict=True):
                full[i] = x
            return law.apply(full)

        for name in names:
            f = TRANSFORMS[name](f)
        return optree.tree_leaves(f(*(inputs[i] for i in active)))

    module, _ = trace_function(function, [Spec(x.shape, x.dtype) for x in xs], "main")
    lower_module(module)
    return {op.name for op in nested(module.operation)} - _STRUCTURE


def unruled(law: LawCase) -> dict[str, str]:
    """The operations that two transforms of a sample emit and that a third transform cannot handle, each mapped to the rule that it
    lacks.

    `law` is the sample of an operation.
    """
    if not active_operands(law, law.draw()):
        return {}
    pairs = itertools.product(TRANSFORMS, repeat=2)
    problems = {name: missing(name) for name in set().union(*(emitted(law, names) for names in pairs))}
    return {name: problem for name, problem in problems.items() if problem}


def missing(name: str) -> str:
    """What an operation lacks for derivatives and maps, as text; "" if it has all rules."""
    record = REGISTRY.get(name)
    if record is None:
        return "no record"
    if isinstance(record.jvp, UNSUPPORTED):
        return "no jvp"
    if isinstance(record.batch, UNSUPPORTED):
        return "no batch rule"
    return "" if record.sample or record.control is not None else "no sample that its laws are tested by"
