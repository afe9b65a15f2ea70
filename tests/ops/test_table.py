"""The table is complete: every operation of StableHLO and CHLO has a record, is rewritten, or is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from iree.compiler import ir

import nabla_mlir.ops  # noqa: F401
from nabla_mlir.base.errors import ImportIRError
from nabla_mlir.dialects.context import context, parse_module
from nabla_mlir.passes.normalize.normalize import REFUSED, REWRITTEN, NormalizePass
from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.table.rules import UNSUPPORTED
from nabla_mlir.tools import coverage

# The operations of the specifications (and the older ones that the dialects still hold).
_STABLEHLO = """
abs add after_all all_gather all_reduce all_to_all and async_done async_start atan2 batch_norm_grad
batch_norm_inference batch_norm_training bitcast_convert broadcast broadcast_in_dim case cbrt ceil cholesky clamp
collective_broadcast collective_permute collective_reduce compare complex composite concatenate constant convert
convolution cosine count_leading_zeros create_token cross-replica-sum custom_call divide dot dot_general dynamic_broadcast_in_dim
dynamic_conv dynamic_gather dynamic_iota dynamic_pad dynamic_reshape dynamic_slice dynamic_update_slice einsum
exponential exponential_minus_one fft floor gather get_dimension_size get_tuple_element if imag infeed iota
is_finite log log_plus_one logistic map maximum minimum multiply negate not optimization_barrier or outfeed pad
partition_id popcnt power real real_dynamic_slice recv reduce reduce_precision reduce_scatter reduce_window
remainder replica_id reshape return reverse rng rng_bit_generator round_nearest_afz round_nearest_even rsqrt scatter
select select_and_scatter send set_dimension_size shift_left shift_right_arithmetic shift_right_logical sign sine
slice sort sqrt subtract tan tanh torch_index_select transpose triangular_solve tuple unary_einsum
uniform_dequantize uniform_quantize while xor
"""
_CHLO = """
_asin_acos_kernel acos acosh asin asinh atan atanh bessel_i1e broadcast_add broadcast_and broadcast_atan2
broadcast_compare broadcast_complex broadcast_divide broadcast_maximum broadcast_minimum broadcast_multiply
broadcast_next_after broadcast_or broadcast_polygamma broadcast_power broadcast_remainder broadcast_select
broadcast_shift_left broadcast_shift_right_arithmetic broadcast_shift_right_logical broadcast_subtract broadcast_xor
broadcast_zeta conj constant constant_like cosh digamma erf erf_inv erfc is_inf is_neg_inf is_pos_inf lgamma mulhi
next_after polygamma ragged_dot scan sinh square tan top_k zeta
"""
ALL = [f"stablehlo.{name}" for name in _STABLEHLO.split()] + [f"chlo.{name}" for name in _CHLO.split()]
STRUCTURE = {"stablehlo.constant", "stablehlo.return"}  # no operands to differentiate; the end of a region


@pytest.mark.parametrize("name", ALL)
def test_every_operation_has_its_place(name: str) -> None:
    assert context().is_registered_operation(name)
    positions = [name in REGISTRY, name in REFUSED, name in STRUCTURE]
    assert sum(positions) == 1 or (name in REWRITTEN and not positions[1])


def test_refusals_give_a_reason() -> None:
    words = [r for record in REGISTRY.values() for r in (record.jvp, record.transpose, record.batch)]
    reasons = [w.reason for w in words if isinstance(w, UNSUPPORTED)] + list(REFUSED.values())
    assert all(reason and not reason.endswith(".") for reason in reasons)


def test_the_list_is_that_of_the_dialects() -> None:
    """The operations that the bindings know: an operation of a new version needs a record, or a reason."""
    from jaxlib.mlir.dialects import _chlo_ops_gen, _stablehlo_ops_gen

    dialects = [vars(module).values() for module in (_chlo_ops_gen, _stablehlo_ops_gen)]
    known = {cls.OPERATION_NAME for views in dialects for cls in views if hasattr(cls, "OPERATION_NAME")}
    assert len(known) > 150
    assert known - set(ALL) == set()


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_is_refused_is_named_with_the_reason(name: str) -> None:
    module = parse_module("func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }")
    with context(), ir.Location.unknown():
        with ir.InsertionPoint.at_block_begin(module.body.operations[0].regions[0].blocks[0]):
            ir.Operation.create(name)
        with pytest.raises(ImportIRError, match=f"{name} in f: {REFUSED[name]}"):
            NormalizePass().run(module.operation)


def test_every_operation_was_measured() -> None:
    root = Path(__file__).parents[2]
    measured = json.loads((root / coverage.MEASURED).read_text())
    assert sorted(measured) == coverage.measurable(), "run python -m nabla_mlir.tools.coverage . OPERATION"
    for name, words in measured.items():
        assert "yes" in words["cpu"].values(), name
        wrong = {dtype for target in words.values() for dtype, word in target.items() if word == "no: wrong numbers"}
        assert not wrong, f"{name} is wrong silently"


@pytest.mark.parametrize("name", ["stablehlo.abs", "stablehlo.and"])
def test_what_is_measured_holds(name: str) -> None:
    """A sample of what the command does in the better part of an hour."""
    root = Path(__file__).parents[2]
    measured = json.loads((root / coverage.MEASURED).read_text())
    assert coverage.measure(name, (root / coverage.PROGRAMS).read_text(), "cpu") == measured[name]["cpu"]


def test_wrong_numbers_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(REGISTRY["stablehlo.add"], "numpy", np.subtract)
    words = coverage.measure("stablehlo.add", "", "cpu")
    assert {"f64", "f32", "i32", "c64"} <= set(words)
    assert set(words.values()) == {"no: wrong numbers"}
