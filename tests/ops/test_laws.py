"""Every record obeys the laws: value, jvp, transpose, second order and batch, each against an oracle in f64."""

from __future__ import annotations

from typing import Any

import numpy as np
import optree
import pytest
from laws import STEP, LawCase, Laws, law_cases
from xla import run_traced

from nabla_mlir.table.registry import REGISTRY

CASES = law_cases()


def flat(tree: Any) -> np.ndarray:
    leaves = [np.ravel(x) for x in optree.tree_leaves(tree)]
    return np.concatenate(leaves) if leaves else np.zeros(0)


def assert_same(what: str, got: Any, expected: Any, tolerance: float) -> None:
    a, b = flat(got), flat(expected)
    assert a.shape == b.shape, f"{what}: {a.shape} instead of {b.shape}"
    scale = max(1.0, float(np.abs(b).max(initial=0.0)))
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * scale, err_msg=what)


def difference(samples: Any) -> Any:
    """The central difference of order 4 from values at -2, -1, 1 and 2 steps."""
    return optree.tree_map(lambda a, b, c, d: (a - 8 * b + 8 * c - d) / (12 * STEP), *samples)


def pairing(a: Any, b: Any) -> float:
    return float(sum(np.sum(x * y).real for x, y in zip(a, b, strict=True)))


# Their derivatives are long series, and statistics of each other.
LONG = ("zeta", "polygamma", "batch_norm")


def is_slow(law: LawCase) -> bool:
    """Three samples of each record are in the first stage."""
    return law.number > 2 or any(name in law.name for name in LONG)


@pytest.mark.parametrize("law", [pytest.param(law, marks=[pytest.mark.slow] * is_slow(law), id=law.name) for law in CASES])
def test_laws(law: LawCase) -> None:
    laws = Laws(law)
    got = run_traced(laws.trace, laws.inputs())
    reference = law.reference(laws.xs)
    if reference is not None:
        expected = list(reference) if isinstance(reference, (tuple, list)) else [reference]
        assert_same("value against NumPy", got["value"], [np.asarray(y) for y in expected], 1e-10)
    if "jvp" in got:
        assert_same("jvp against differences", got["jvp"], difference(got["moved"]), 1e-7)
        left, right = pairing(got["cts"], got["jvp"]), pairing(got["vjp"], laws.t)
        assert left == pytest.approx(right, rel=1e-10, abs=1e-12), "adjoint identity <ct, J t> = <Jᵀ ct, t>"
        assert_same("jvp of vjp against differences", got["hvp"], difference(got["pulled"]), 1e-6)
        assert_same("jvp of jvp against differences", got["jvp_jvp"], difference(got["pushed"]), 1e-6)
        uhv, vhu = pairing(got["hvp"], laws.u), pairing(got["hvu"], laws.t)
        assert uhv == pytest.approx(vhu, rel=1e-9, abs=1e-11), "symmetry"
        assert_same("vjp of vjp", got["vjp_vjp"], got["hvu"], 1e-9)
        assert_same("vjp of jvp", got["vjp_jvp"], got["hvp"], 1e-9)
    for key in got:
        if key.startswith("vmap"):
            assert_same(f"{key} against the loop", got[key], got[key.replace("vmap", "loop")], 1e-10)


def test_every_record_has_samples() -> None:
    without = [name for name, record in REGISTRY.items() if record.sample is None and record.kind != "control"]
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
