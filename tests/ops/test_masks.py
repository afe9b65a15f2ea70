"""The mask of a cotangent: outside of it, selections made the cotangent zero, whatever the numbers are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nabla_mlir.numpy as nnp
from nabla_mlir.ops.logic import where_zero
from nabla_mlir.ops.shape import dynamic_slice, dynamic_update_slice, pad
from nabla_mlir.rules.masks import choice_of, remasked, selection_mask, shared_masks
from nabla_mlir.table.tensor import Tensor, full
from nabla_mlir.testing.checks import interpret

M = np.array([[True, False, True], [False, False, True]])
N = np.array([[True, True, False], [False, False, True]])
X = np.array([[np.nan, np.inf, 1.0], [-np.inf, 2.0, np.nan]])


def _index(i: int) -> Tensor:
    return full((), i, np.dtype(np.int32))


def _padded(x: Tensor) -> Tensor:
    return pad(x, full((), 0, x.dtype), edge_padding_low=(1, 0), edge_padding_high=(0, 2), interior_padding=(0, 0))


Case = tuple[Callable[[Any, Any, Any], Any], Callable[[Any, Any], Any]]
FOUND: dict[str, Case] = {  # the cotangent by two masks and numbers, and its mask
    "a selection": (lambda m, n, x: where_zero(m, x), lambda m, n: m),
    "the other side of a selection": (lambda m, n, x: nnp.where(m, 0.0, x), lambda m, n: ~m),
    "two selections": (lambda m, n, x: where_zero(n, where_zero(m, x)), lambda m, n: m & n),
    "a sum": (lambda m, n, x: where_zero(m, x) + where_zero(n, x), lambda m, n: m | n),
    "a reshaped value": (lambda m, n, x: where_zero(m, x).reshape(6), lambda m, n: m.reshape(6)),
    "a transposed value": (lambda m, n, x: where_zero(m, x).T, lambda m, n: m.T),
    "a part": (lambda m, n, x: where_zero(m, x)[1:, ::2], lambda m, n: m[1:, ::2]),
    "a padded value": (lambda m, n, x: _padded(where_zero(m, x)), lambda m, n: np.pad(m, ((1, 0), (0, 2)))),
    "rows that are repeated": (
        lambda m, n, x: nnp.broadcast_to(where_zero(m, x), (2, 2, 3)),
        lambda m, n: np.broadcast_to(m, (2, 2, 3)),
    ),
    "joined values": (lambda m, n, x: nnp.concatenate([where_zero(m, x), x]), lambda m, n: np.concatenate([m, np.ones_like(m)])),
    "gathered rows": (lambda m, n, x: where_zero(m, x)[np.array([1, 0, 1])], lambda m, n: m[[1, 0, 1]]),
    "a row": (lambda m, n, x: dynamic_slice(where_zero(m, x), _index(1), _index(0), slice_sizes=(1, 3)), lambda m, n: m[1:]),
    "a sum over an axis": (lambda m, n, x: nnp.sum(where_zero(m, x), axis=0), lambda m, n: m.any(0)),
    "scattered sums": (
        lambda m, n, x: nnp.zeros((4, 3)).at[np.array([3, 3])].add(where_zero(m, x)),
        lambda m, n: np.concatenate([np.zeros((3, 3), bool), m.any(0)[None]]),
    ),
}
NOT_FOUND: dict[str, Callable[[Any, Any, Any], Any]] = {
    "a value": lambda m, n, x: x,
    "a selection between values": lambda m, n, x: nnp.where(m, x, 1.0),
    "a sum with another value": lambda m, n, x: where_zero(m, x) + x,
    "a value that happens to be zero": lambda m, n, x: x * 0.0,
    "a product": lambda m, n, x: where_zero(m, x) * x,  # 0 * inf is NaN
    "a sum over an axis that starts with a number": lambda m, n, x: nnp.sum(where_zero(m, x), axis=0, initial=1.0),
}


@pytest.mark.parametrize("name", FOUND)
def test_the_mask_is_found_and_the_value_is_zero_outside(name: str) -> None:
    cotangent, expected = FOUND[name]

    def f(m: Any, n: Any, x: Any) -> Any:
        ct = cotangent(m, n, x)
        mask = selection_mask(ct)
        assert mask is not None
        return ct, mask

    with np.errstate(invalid="ignore"):
        value, mask = interpret(f, [M, N, X])
    np.testing.assert_array_equal(mask, expected(M, N))
    assert not value[~mask].any()


@pytest.mark.parametrize("name", NOT_FOUND)
def test_no_mask_is_found_without_a_selection(name: str) -> None:
    def f(m: Any, n: Any, x: Any) -> Any:
        ct = NOT_FOUND[name](m, n, x)
        assert selection_mask(ct) is None
        return ct

    with np.errstate(invalid="ignore"):
        interpret(f, [M, N, X])


def test_a_scalar_predicate_is_a_choice_of_the_whole_value() -> None:
    def f(p: Any, x: Any) -> Any:
        first, second = nnp.where(p, x, nnp.zeros_like(x)), nnp.where(p, nnp.zeros_like(x), x)
        choices = [choice_of(first), choice_of(second), choice_of(x)]
        assert choices[2] is None
        return choices[:2]

    for p in (True, False):
        assert [bool(c) for c in interpret(f, [np.array(p), np.ones(3)])] == [p, not p]


def test_results_of_a_region_get_the_mask_that_they_provably_have() -> None:
    def f(m: Any, n: Any, x: Any) -> Any:
        ct = where_zero(m, x)
        inside, outside = remasked([where_zero(m, x + x), x], [ct])
        assert selection_mask(outside) is None
        assert outside.value == x.value
        shared = shared_masks([ct, where_zero(n, x)])
        return selection_mask(inside), shared[M.shape]

    mask, shared = interpret(f, [M, N, np.ones((2, 3))])
    np.testing.assert_array_equal(mask, M)
    np.testing.assert_array_equal(shared, M | N)


def test_the_mask_of_a_row_that_is_written_to_a_tape_is_found_with_the_tape() -> None:
    """A tape whose rows share a mask: each row has it."""

    def f(m: Any, x: Any) -> Any:
        tape = where_zero(nnp.broadcast_to(m, (2, 3)), x)
        row = dynamic_slice(tape, _index(1), _index(0), slice_sizes=(1, 3))
        mask = selection_mask(row)
        assert mask is not None
        return mask, dynamic_update_slice(tape, row, _index(0), _index(0))

    mask, _ = interpret(f, [M[0], np.ones((2, 3))])
    np.testing.assert_array_equal(mask, M[:1])
