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
    24894,  # the value of a function with rules inside a checkpoint
    26153,  # the same, with a derivative around it
]


@pytest.mark.slow
def test_programs_that_were_wrong() -> None:
    assert [fault for seed in SAVED if (fault := peers.shortest(seed)[1]) not in peers.FINE] == []


@pytest.mark.slow
def test_programs_of_the_day() -> None:
    """The seed of one that is wrong is in what a failure says."""
    seed = seed_of_the_day()
    fates = {n: peers.shortest(n)[1] for n in range(seed, seed + 60)}
    assert {n: fate for n, fate in fates.items() if fate not in peers.FINE} == {}
    assert list(fates.values()).count("") > 40


@pytest.mark.slow
def test_chains_of_complex_numbers_compile() -> None:
    """A dispatch of 36 buffers was loaded by no device; IREE doubles the code of a chain that is cut at its complex numbers."""
    assert peers.fault_of(peers.Program(7350028, depth=4, results=[0]), "cpu") in peers.FINE


@pytest.mark.slow
def test_compiled_programs_of_the_day() -> None:
    seed = seed_of_the_day()
    fates = {n: peers.shortest(n, "cpu")[1] for n in range(seed, seed + 12)}
    assert {n: fate for n, fate in fates.items() if fate not in peers.FINE} == {}


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


def test_a_module_in_f64() -> None:
    text = "stablehlo.constant dense<0xFF80> : tensor<2xbf16>; stablehlo.convert %1 : (tensor<3x4xf16>) -> tensor<f32>; tensor<i32>"
    wide = "stablehlo.constant dense<0xFFF0000000000000> : tensor<2xf64>; stablehlo.convert %1 : (tensor<3x4xf64>) -> tensor<f64>; tensor<i32>"
    assert peers.widened(text) == wide
    assert (
        peers.widened("tensor<2xcomplex<f32>>, dense<0x7F80> : tensor<i16>")
        == "tensor<2xcomplex<f64>>, dense<0x7F80> : tensor<i16>"
    )


@pytest.mark.slow
def test_rounding_is_told_from_faults() -> None:
    """JAX's bfloat16 is 0.7 off in this one, and ours 1.0; both programs agree in f64."""
    assert peers.shortest(24423)[1] == peers.ROUNDED


@pytest.mark.slow
def test_integers_beside_what_is_rounded_are_no_fault() -> None:
    """Where they are equal: the true value of the narrow result is 0, JAX's 0.09 and ours -0.03."""
    assert peers.shortest(926126063)[1] == peers.ROUNDED
