"""Random nestings of transforms beside JAX: others every day, and those that were wrong once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import seed_of_the_day

from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.testing import fuzz, peers

pytest.importorskip("jax")

SAVED = [
    153,  # a rule of one's own that is the jvp of a root
    1199,  # numbers of repetitions of an axis without elements
    1474,  # such a rule with a checkpoint
    500009,  # such a rule with a loop whose tangents nobody reads
]


@pytest.mark.slow
def test_programs_that_were_wrong() -> None:
    assert [fault for seed in SAVED if (fault := peers.shortest(seed)[1]) not in ("", peers.NONE)] == []


@pytest.mark.slow
def test_programs_of_the_day() -> None:
    """The seed of one that is wrong is in what a failure says."""
    seed = seed_of_the_day()
    fates = {n: peers.shortest(n)[1] for n in range(seed, seed + 60)}
    assert {n: fate for n, fate in fates.items() if fate not in ("", peers.NONE)} == {}
    assert list(fates.values()).count("") > 40


@pytest.mark.slow
def test_compiled_programs_of_the_day() -> None:
    seed = seed_of_the_day()
    fates = {n: peers.shortest(n, "cpu")[1] for n in range(seed, seed + 12)}
    assert {n: fate for n, fate in fates.items() if fate not in ("", peers.NONE)} == {}


def test_a_wrong_rule_is_found_and_its_program_shrunk(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    tanh = REGISTRY["stablehlo.tanh"]
    monkeypatch.setattr(tanh, "partials", [lambda t, y, x: t * 3.0])
    seed = next(n for n in range(40) if peers.shortest(n)[1].startswith("VALUE"))
    program, _ = peers.shortest(seed)
    assert len(program.results) == 1
    assert fuzz.main(["--of", "peers", "--only", str(seed)]) == 1
    assert capsys.readouterr().out.endswith("1 tried, 1 faults\n")


def test_what_differs_is_said() -> None:
    x = np.array([1.0, np.nan])
    assert peers.difference([x], [x + [1e-12, 0]], 1e-9) == ""
    assert peers.difference([np.array([1.0, 7.0])], [x], 1e-9) == "", "nothing is said where JAX's number is not finite"
    assert peers.difference([x + 1], [x], 1e-9).startswith("VALUE result 0 is 2.0 instead of 1.0 at [0]")
    assert peers.difference([x.astype(np.float32)], [x], 1e-9) == "TYPE result 0 is float32[2] instead of float64[2]"


def test_writes_and_other_bits_are_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    program: Any = peers.Program(0)
    right, calls = peers.wanted(program), []
    assert right is not None

    def run(_lowered: Any) -> Any:
        def call(*xs: Any) -> Any:
            calls.append(xs)
            return [y + (len(calls) > 1) for y in right]

        return call

    monkeypatch.setattr(peers, "_interpreted", run)
    assert peers.fault_of(program).startswith("AGAIN")
