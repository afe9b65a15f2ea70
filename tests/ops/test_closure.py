"""The rules are closed: what a transform of a transform of any operation emits is in the table, with laws of its own."""

from __future__ import annotations

from typing import Any

import pytest

from nabla_mlir.passes.simplify.pattern import PATTERNS
from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.testing.cases import active_operands, law_cases
from nabla_mlir.testing.closure import emitted, missing, unruled


@pytest.mark.parametrize("law", [law for law in law_cases() if active_operands(law, law.draw())], ids=lambda law: law.name)
def test_what_transforms_emit_has_rules(law: Any) -> None:
    assert unruled(law) == {}


def test_what_simplification_emits_has_rules() -> None:
    """The names of operations in the modules of patterns: each is called as a record."""
    import inspect

    from nabla_mlir.ops import elementwise, shape
    from nabla_mlir.table.registry import OpDef

    modules = {inspect.getmodule(p) for patterns in PATTERNS.by_name.values() for p in patterns}
    records = {
        value.name
        for module in modules
        for value in [*vars(module).values(), *vars(elementwise).values(), *vars(shape).values()]
        if isinstance(value, OpDef)
    }
    assert len(records) > 50
    assert [name for name in records if missing(name)] == []
    assert all(isinstance(name, str) and name in REGISTRY for name in PATTERNS.by_name)


def test_names_are_found() -> None:
    law = next(law for law in law_cases() if law.record.name == "stablehlo.sine")
    assert {"stablehlo.sine", "stablehlo.multiply"} <= emitted(law, ("vjp", "jvp"))
    assert "stablehlo.cosine" in emitted(law, ("jvp",))
