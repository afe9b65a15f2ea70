"""The rules are closed: what a transform of a transform of any operation emits is in the table, with laws of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from laws import active_operands, law_cases

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.compiling.lowering import lower_module
from nabla_mlir.dialects.regions import nested
from nabla_mlir.passes.simplify.pattern import PATTERNS
from nabla_mlir.staging.specs import Spec
from nabla_mlir.staging.tracing import trace_function
from nabla_mlir.table.registry import REGISTRY, UNSUPPORTED

_STRUCTURE = {"builtin.module", "func.func", "func.return", "stablehlo.return", "stablehlo.constant"}
Function = Callable[..., Any]


def _jvp(f: Function, count: int) -> Function:
    return lambda *xs: nm.jvp(f, xs, xs)[1]


def _vjp(f: Function, count: int) -> Function:
    def pulled(*xs: Any) -> Any:
        ys, pullback = nm.vjp(f, *xs)
        return pullback(ys)

    return pulled


def _vmap(f: Function, count: int) -> Function:
    def mapped(*xs: Any) -> Any:
        return nm.vmap(f)(*(nnp.stack([x, x]) for x in xs))

    return mapped


TRANSFORMS = {"jvp": _jvp, "vjp": _vjp, "vmap": _vmap}


def emitted(law: Any, names: tuple[str, ...]) -> set[str]:
    """The operations in what transforms of a sample become; the first one is applied first."""
    xs = law.draw()
    active = active_operands(law, xs)

    def function(*inputs: Any) -> Any:
        def f(*own: Any) -> Any:
            full = list(inputs)
            for i, x in zip(active, own, strict=True):
                full[i] = x
            return law.apply(full)

        for name in names:
            f = TRANSFORMS[name](f, len(active))
        return [y for y in _leaves(f(*(inputs[i] for i in active))) if y is not None]

    module, _ = trace_function(function, [Spec(x.shape, x.dtype) for x in xs], "main")
    lower_module(module)
    return {op.name for op in nested(module.operation)}


def _leaves(tree: Any) -> list[Any]:
    return [leaf for item in tree for leaf in _leaves(item)] if isinstance(tree, (tuple, list)) else [tree]


@pytest.mark.parametrize("law", [law for law in law_cases() if active_operands(law, law.draw())], ids=lambda law: law.name)
def test_what_transforms_emit_has_rules(law: Any) -> None:
    found: set[str] = set()
    for names in itertools.product(TRANSFORMS, repeat=2):
        found |= emitted(law, names)
    _have_rules(found - _STRUCTURE)


def _have_rules(names: set[str]) -> None:
    assert names - set(REGISTRY) == set()
    for name in names:
        record = REGISTRY[name]
        assert not isinstance(record.jvp, UNSUPPORTED)
        assert not isinstance(record.batch, UNSUPPORTED)
        assert record.sample or record.kind == "control", f"{name} is emitted, but no sample tests its laws"


def test_what_simplification_emits_has_rules() -> None:
    """The names of operations in the modules of patterns: each is called as a record."""
    import inspect

    from nabla_mlir.ops import elementwise, shape
    from nabla_mlir.table.registry import OpDef

    modules = {inspect.getmodule(p) for patterns in PATTERNS.values() for p in patterns}
    records = {
        value.name
        for module in modules
        for value in [*vars(module).values(), *vars(elementwise).values(), *vars(shape).values()]
        if isinstance(value, OpDef)
    }
    assert len(records) > 50
    _have_rules(records)
    assert all(isinstance(name, str) and name in REGISTRY for name in PATTERNS)


def test_names_are_found() -> None:
    law = next(law for law in law_cases() if law.record.name == "stablehlo.sine")
    assert {"stablehlo.sine", "stablehlo.multiply"} <= emitted(law, ("vjp", "jvp"))
    assert "stablehlo.cosine" in emitted(law, ("jvp",))
