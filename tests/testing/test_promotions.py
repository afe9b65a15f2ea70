"""Random programs of operands of different dtypes beside JAX, and what they found."""

from __future__ import annotations

import numpy as np
import pytest
from support import seed_of_the_day

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.testing import fuzz, peers, promotions

pytest.importorskip("jax")


@pytest.mark.slow
@pytest.mark.parametrize("target", ["interpreter", "cpu"])
def test_programs_of_the_day(target: str) -> None:
    """The seed of one that is wrong is in what a failure says."""
    seed, count = seed_of_the_day(), 40 if target == "interpreter" else 10
    fates = {n: promotions.shortest(n, target)[1] for n in range(seed, seed + count)}
    assert {n: fate for n, fate in fates.items() if fate not in peers.FINE} == {}
    assert list(fates.values()).count("") > count // 2


def test_a_wrong_dtype_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    floor_divide = promotions.STEPS[[name for name, _ in promotions.STEPS].index("floor_divide")]
    monkeypatch.setattr(promotions, "STEPS", [floor_divide])
    monkeypatch.setattr("nabla_mlir.table.promotion._promote_all", lambda dtypes: np.dtype(np.float32))
    seed = next(n for n in range(40) if promotions.shortest(n)[1].startswith("TYPE floor_divide"))
    assert fuzz.main(["--of", "promotions", "--only", str(seed)]) == 1


def test_numbers_are_appended_in_the_dtype_of_the_array() -> None:
    assert nnp.append(np.ones(2, np.float16), 0.5).dtype == np.float16
    assert nnp.append(np.ones(2, np.float32), np.sqrt(2)).dtype == np.float32
    assert nnp.append([1, 2], [3.5]).tolist() == [1.0, 2.0, 3.5]


def test_a_number_is_no_dtype_of_a_polynomial() -> None:
    assert nnp.polyval(np.ones(2, np.int16), 2).dtype == np.int16
    assert nnp.polyval(np.ones(2, np.float16), 0.5).dtype == np.float16


def test_an_initial_number_beside_truth_values_is_one() -> None:
    assert nnp.max(np.array([False, False]), initial=1).tolist() is True
    assert nnp.min(np.array([True]), initial=0).dtype == bool


@pytest.mark.parametrize("dtype", [np.dtype(np.float64), np.dtype(np.int64), np.float64, float, int])
def test_the_dtype_of_64_bits_is_not_pythons_type(dtype: object) -> None:
    wanted = {float: np.float32, int: np.int32}.get(dtype, dtype)  # type: ignore[call-overload]
    assert nm.jax.lax.convert_element_type(np.ones(2, np.int8), dtype).dtype == wanted
