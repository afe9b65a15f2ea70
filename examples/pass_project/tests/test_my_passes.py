"""The pass on random programs, and the operation under the laws of every operation."""

import my_passes

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.testing import check_pass, check_record


def test_the_pass_changes_no_values() -> None:
    negations = nm.trace(lambda x: nnp.negative(nnp.negative(x)), nm.spec(3, "f64"), name="main")
    assert check_pass(my_passes.DoubleNegationPass(), [negations.module]) >= 1


def test_the_operation() -> None:
    costs = check_record(my_passes.gauss)
    assert all(cost.vjp <= 4 * cost.value + 8 for cost in costs)
