"""Random programs of all dtypes beside NumPy: others every day, and those that were wrong once."""

from __future__ import annotations

import pytest
from support import seed_of_the_day

from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.testing import fuzz, mixtures

SAVED = [
    100232  # a slice without elements, of a slice, that starts behind the end of the source
]

COMPILED = [
    900003,  # sorts of the same numbers in two shapes, and a number that the host reads
    900224,  # a loop that converts its counter to f16
]


def test_programs_that_were_wrong() -> None:
    assert [fault for seed in SAVED if (fault := mixtures.fault_of(mixtures.Program(seed)))] == []


def test_programs_that_were_wrong_when_they_were_compiled() -> None:
    assert [fault for seed in COMPILED if (fault := mixtures.fault_of(mixtures.Program(seed), "cpu"))] == []


@pytest.mark.slow
def test_programs_of_the_day() -> None:
    """The seed of one that is wrong is in what a failure says."""
    seed = seed_of_the_day()
    faults = [(n, fault) for n in range(seed, seed + 150) if (fault := mixtures.fault_of(mixtures.Program(n)))]
    assert faults == []


def test_a_wrong_rule_is_found_and_its_program_shrunk(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    sine = REGISTRY["stablehlo.tanh"]
    monkeypatch.setattr(sine, "jvp", lambda xs, ts, *_: [ts[0] * 3.0])
    seeds = [n for n in range(0, 900, 3) if any(name == "tanh" for name, *_ in mixtures.Program(n).plan)]
    faults = [(n, fault) for n in seeds[:12] if (fault := mixtures.fault_of(mixtures.Program(n)))]
    assert faults
    seed, fault = faults[0]
    program, _ = mixtures.shortest(seed)
    assert len(program.plan) <= len(mixtures.Program(seed).plan)
    assert fuzz.main(["--of", "mixtures", "--only", str(seed)]) == 1
    assert capsys.readouterr().out.endswith("1 tried, 1 faults\n"), fault
