"""Every record obeys the laws: value, jvp, transpose, second order and batch, each against an oracle in f64."""

from __future__ import annotations

from typing import Any

import pytest
from xla import run_traced

from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.testing.cases import LawCase, law_cases
from nabla_mlir.testing.checks import check_laws, check_prepared

CASES = law_cases()


# Their derivatives are long series, and statistics of each other.
LONG = ("zeta", "polygamma", "batch_norm")


def is_slow(law: LawCase) -> bool:
    """Three samples of each record are in the first stage."""
    return law.number > 2 or any(name in law.name for name in LONG)


@pytest.mark.parametrize("law", [pytest.param(law, marks=[pytest.mark.slow] * is_slow(law), id=law.name) for law in CASES])
def test_laws(law: LawCase) -> None:
    check_laws(law, run_traced)


@pytest.mark.parametrize("law", [pytest.param(law, marks=[pytest.mark.slow] * (law.number > 0), id=law.name) for law in CASES])
def test_prepared_products(law: LawCase) -> None:
    check_prepared(law)


def test_every_record_has_samples() -> None:
    without = [name for name, record in REGISTRY.items() if record.sample is None and record.control is None]
    assert without == []


@pytest.mark.parametrize("record", REGISTRY.values(), ids=lambda record: record.name)
def test_codecs_round_trip(record: Any) -> None:
    samples = record.sample if isinstance(record.sample, list) else []
    for sample in samples:
        for name, codec in record.attributes.items():
            value = sample.params.get(name, record.defaults.get(name))
            if value is None:
                continue
            decoded = codec.decode(codec.encode(value))
            if isinstance(value, dict):  # fields that are left out are empty
                assert decoded == {**decoded, **value}
            elif isinstance(value, float):
                assert decoded == pytest.approx(value)  # attributes of f32 round
            else:
                assert decoded == value
