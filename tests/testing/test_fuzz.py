"""Random programs against the interpreter: some in every run, and what the fuzzer does with a fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import seed_of_the_day

from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.testing import fuzz
from nabla_mlir.testing.fuzz import Sample

# What was found, and mended.
SAVED = [
    500218  # the derivative of a sort of rows without elements
]


@pytest.mark.parametrize("seed", [*range(24), *SAVED])
def test_programs_as_traced_and_lowered(seed: int) -> None:
    _, inputs, wanted, fault = fuzz.interpret(Sample(seed))
    assert fault is None, str(fault)
    assert all(np.isfinite(y).all() for y in wanted)
    assert len(inputs) == 3


@pytest.mark.slow
def test_programs_as_compiled() -> None:
    """Of the same seeds; also those that were found to be wrong once."""
    assert [str(fault) for fault in fuzz.run([Sample(seed) for seed in [*range(24), *SAVED]])] == []


# Beside the programs of the day, and files, in the modules next to this one.
@pytest.mark.slow
@pytest.mark.minutes
@pytest.mark.parametrize(("subject", "minutes"), [("programs", 1.5), ("mixtures", 1.5), ("peers", 2)])
def test_minutes_of_programs(subject: str, minutes: float, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Others every day; the seed of one that is wrong is in what a failure says."""
    options = ["--minutes", str(minutes), "--seed", str(100 * seed_of_the_day()), "--out", str(tmp_path)]
    status = fuzz.main(["--of", subject, "--target", "interpreter", *options])
    assert status == 0, "\n".join(capfd.readouterr())


def test_a_wrong_rule_is_found_and_its_program_shrunk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tanh = REGISTRY["stablehlo.tanh"]
    monkeypatch.setattr(tanh, "batch", lambda xs, mapped, size: [-tanh(xs[0])])
    faults = [(s, fault) for s in range(5, 37, 8) if (fault := fuzz.interpret(Sample(s))[3])]  # mapped ones
    assert faults
    seed, fault = faults[0]
    assert fuzz.main(["--only", str(seed), "--target", "interpreter", "--out", str(tmp_path)]) == 1
    output = capsys.readouterr()
    assert output.out == "1 programs, 1 faults\n"
    assert output.err.startswith(f"{seed} (")
    assert (tmp_path / f"{seed}.mlir").read_text().startswith(f"// {seed} (")
    assert fault.sample.steps == fuzz.STEPS
    short = fuzz.shrunk(fault, "cpu")
    assert short.sample.steps <= fault.sample.steps


def test_what_differs_is_said() -> None:
    x = np.array([1.0, 2.0])
    assert fuzz.difference([x], [x * (1 + 1e-12)], "float64") == ""
    assert fuzz.difference([x], [x + [0, 1]], "float64") == "result 0 is 2.0 instead of 3.0 at [1]"
    assert fuzz.difference([x], [x[:1]], "float64") == "result 0 is float64[2] instead of float64[1]"
    assert fuzz.difference([np.array(np.nan)], [np.array(1.0)], "float64") == "result 0 is nan instead of 1.0 at []"


def test_calls_that_change_arguments_or_fail() -> None:
    x = np.array([1.0, 2.0])

    def writes(y: Any) -> Any:
        result = y.copy()
        y[0] = 7.0
        return result

    assert fuzz._error_of_calls(writes, [x.copy()], [x], "float64") == "the first call changes its arguments"
    assert fuzz._error_of_calls(lambda y: y + 1, [x], [x], "float64").startswith("in the first call result 0 is 2.0 instead of 1.0")
    assert fuzz._error_of_calls(lambda y: [y], [x], [x], "float64") == ""


def test_a_seed_is_a_program() -> None:
    first, second = (str(Sample(12).traced()[0]) for _ in range(2))
    assert first == second
    assert len(str(Sample(12, 2).traced()[0])) < len(first)
    assert [s.steps for s in Sample(12, 3).shorter()] == [1, 2]
