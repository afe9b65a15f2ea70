"""Wrong rules break the laws of their records, and a law that holds nothing lets them pass."""

from __future__ import annotations

import dataclasses

import pytest

from nabla_mlir.ops.elementwise import multiply, sine
from nabla_mlir.table.registry import REGISTRY, OpDef
from nabla_mlir.testing import mutations
from nabla_mlir.testing.mutations import Mutant, mutants_of, survives, survivors


def of(record: OpDef, rule: str) -> Mutant:
    return next(mutant for mutant in mutants_of(record) if mutant.rule == rule)


@pytest.mark.parametrize("rule", ["jvp", "batch", "partials[0]", "partials[1]"])
def test_a_wrong_rule_breaks_a_law_and_the_right_one_comes_back(rule: str) -> None:
    before = dataclasses.asdict(multiply)
    assert not survives(of(multiply, rule))
    assert dataclasses.asdict(multiply) == before


def test_a_rule_that_no_law_holds_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(mutations, "check_laws", lambda law: None)
    found, count = survivors([sine])
    assert [mutant.rule for mutant in found] == ["jvp", "batch", "partials[0]"]
    assert count == 3
    assert mutations.main(["stablehlo.sine"]) == 1
    assert "stablehlo.sine: no law fails if jvp is negated\n" in capsys.readouterr().out


def test_words_have_no_wrong_form() -> None:
    assert [mutant.rule for mutant in mutants_of(REGISTRY["stablehlo.sign"])] == ["batch"]
