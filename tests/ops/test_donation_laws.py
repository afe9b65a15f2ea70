"""A donated first argument changes no number of any record: compiled, in one module for many records."""

from __future__ import annotations

import pytest

from nabla_mlir.passes.simplify.pattern import PATTERNS
from nabla_mlir.testing.cases import LawCase, law_cases
from nabla_mlir.testing.checks import LawError
from nabla_mlir.testing.donations import check_donation

FIRST = [law for law in law_cases() if law.number == 0]
LONG = ("zeta", "polygamma", "batch_norm")  # their series are most of the code of all records


def is_long(law: LawCase) -> bool:
    return any(name in law.name for name in LONG)


@pytest.mark.slow
def test_values() -> None:
    """The values of the records that IREE compiles in a moment. Nearly all write to the donated memory."""
    assert check_donation([law for law in FIRST if not is_long(law)], derivatives=False) > 90


@pytest.mark.slow
def test_values_of_long_series() -> None:
    assert check_donation([law for law in FIRST if is_long(law)], derivatives=False)


@pytest.mark.slow
def test_derivatives() -> None:
    assert check_donation([law for law in FIRST if not is_long(law)]) > 90


def test_a_wrong_number_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the pattern, IREE returns the operand of `reduce_precision` after its first element was overwritten."""
    (law,) = [law for law in FIRST if law.record.name == "stablehlo.reduce_precision"]
    assert check_donation([law], derivatives=False) == 1
    monkeypatch.setitem(PATTERNS.by_name, law.record.name, [])
    with pytest.raises(LawError, match="the results without a donation"):
        check_donation([law], derivatives=False)
