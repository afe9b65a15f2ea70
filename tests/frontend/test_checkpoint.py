"""checkpoint: the same derivatives, by a second computation, of what the policy does not let be kept."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from test_custom_rules import check, traced

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.base import errors

rng = np.random.default_rng(2)
X, W = rng.normal(size=(2, 4)), rng.normal(size=(4, 4)) / 2
POLICIES = nm.checkpoint_policies


def block(xp: Any, name: Any = lambda x, _: x) -> Any:
    def f(x: Any, w: Any) -> Any:
        return xp.tanh(name(xp.tanh(x @ w), "middle") @ w)

    return f


def loss(wrapped: Any) -> Any:
    return lambda x, w: (wrapped(wrapped(x, w), w) ** 2).sum()


OURS, THEIRS = loss(nm.checkpoint(block(nnp))), loss(block(jnp))


def test_derivatives() -> None:
    check(nm.grad(OURS, (0, 1)), oracle.grad(THEIRS, (0, 1))(X, W), X, W)
    hessian = oracle.hessian(THEIRS)(X, W)
    for mode in ("fwd_rev", "rev_rev", "rev_fwd"):
        check(nm.hessian(OURS, mode=mode), hessian, X, W)
    many = np.stack([X, -X, 2 * X])
    check(nm.vmap(nm.grad(OURS), (0, None)), oracle.vmap(oracle.grad(THEIRS), (0, None))(many, W), many, W)
    check(
        nm.grad(lambda m, w: nm.vmap(OURS, (0, None))(m, w).sum(), 1),
        oracle.grad(lambda m, w: oracle.vmap(THEIRS, (0, None))(m, w).sum(), 1)(many, W),
        many,
        W,
    )


def lowered(f: Any, *shapes: Any) -> str:
    return str(nm.trace(f, *(nm.spec(s) for s in shapes or ((2, 4), (4, 4)))).lower())


@pytest.mark.parametrize(
    ("policy", "tanhs", "dots"),
    [
        (None, 8, 16),
        (POLICIES.everything_saveable, 4, 12),
        (POLICIES.dots_saveable, 8, 12),
        (POLICIES.dots_with_no_batch_dims_saveable, 8, 12),
        (POLICIES.save_only_these_names("middle"), 6, 14),
        (POLICIES.save_any_names_but_these("middle"), 8, 16),
        (POLICIES.save_anything_except_these_names("other"), 4, 12),
        (POLICIES.save_from_both_policies(POLICIES.dots_saveable, POLICIES.save_only_these_names("middle")), 6, 12),
    ],
)
def test_policies_decide_what_is_computed_again(policy: Any, tanhs: int, dots: int) -> None:
    f = loss(nm.checkpoint(block(nnp, nm.checkpoint_name), policy=policy))
    text = lowered(nm.value_and_grad(f, (0, 1)))
    assert (text.count("stablehlo.tanh"), text.count("stablehlo.dot_general")) == (tanhs, dots)
    check(nm.grad(f, (0, 1)), oracle.grad(THEIRS, (0, 1))(X, W), X, W)


def test_the_second_computation_stands_behind_a_barrier() -> None:
    text = lowered(nm.grad(OURS))
    assert text.count("optimization_barrier") == 2
    shared = lowered(nm.grad(loss(nm.checkpoint(block(nnp), prevent_cse=False))))
    assert "optimization_barrier" not in shared
    assert shared.count("stablehlo.tanh") < text.count("stablehlo.tanh")


def loop(lib: Any, wrap: Any, xp: Any, **options: Any) -> Any:
    def f(x: Any, w: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            c = wrap(block(xp), **options)(c, w)
            return c, c.sum()

        last, sums = lib.scan(step, x, None, length=5)
        return (last**2).sum() + sums.sum()

    return f


def test_in_a_loop_the_tapes_hold_what_the_policy_keeps() -> None:
    expected = oracle.grad(loop(jax.lax, jax.checkpoint, jnp), (0, 1))(X, W)
    rows = {}
    for policy in (POLICIES.nothing_saveable, POLICIES.dots_saveable):
        f = loop(nm, nm.checkpoint, nnp, policy=policy)
        check(nm.grad(f, (0, 1)), expected, X, W)
        rows[policy] = len(re.findall(r"dynamic_update_slice .* -> tensor<5x2x4xf32>", lowered(nm.grad(f, (0, 1)))))
    assert list(rows.values()) == [1, 3]  # the state, and the two products
    check(nm.hessian(loop(nm, nm.checkpoint, nnp)), oracle.hessian(loop(jax.lax, jax.checkpoint, jnp))(X, W), X, W)


def test_static_arguments_and_trees() -> None:
    f = nm.checkpoint(lambda n, tree, scale=1.0: {"y": tree["x"] ** n * scale}, static_argnums=0)
    check(nm.grad(lambda x: f(3, {"x": x}, scale=2.0)["y"].sum()), 6.0 * X**2, X)


def test_modules_keep_it() -> None:
    text = str(nm.trace(nm.checkpoint(block(nnp, nm.checkpoint_name)), nm.spec((2, 4), "f64"), nm.spec((4, 4), "f64")))
    assert '"ad.checkpoint"' in text
    again = loss(nm.from_stablehlo(text))
    check(nm.grad(again, (0, 1)), oracle.grad(THEIRS, (0, 1))(X, W), X, W)


def test_it_runs_on_iree() -> None:
    got = nm.jit(nm.grad(OURS))(X, W)
    np.testing.assert_allclose(got, oracle.grad(THEIRS)(X, W), rtol=1e-9)


def test_an_unknown_policy() -> None:
    with pytest.raises(errors.VerifyError, match=r"policies among nothing_saveable, .*, got some"):
        traced(nm.checkpoint(nnp.sin, policy=(("some",),)))


def test_policies_that_move_values_elsewhere_keep_them() -> None:
    policies = nm.checkpoint_policies
    names = {
        "names_which_can_be_saved": ["a"],
        "names_which_can_be_offloaded": ["b"],
        "offload_src": "device",
        "offload_dst": "pinned_host",
    }
    assert policies.save_and_offload_only_these_names(**names) == policies.save_only_these_names("a", "b")
    assert policies.offload_dot_with_no_batch_dims("device", "pinned_host") == policies.dots_with_no_batch_dims_saveable
