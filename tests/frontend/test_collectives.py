"""Collectives over mapped axes against those of jax.lax, forward, reverse and of second order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from jax import lax
from xla import run_traced

import nabla_mlir as nm
from nabla_mlir.base.errors import ShapeError, UnboundAxisError

X = np.arange(12.0).reshape(4, 3) * 0.3 + 0.1

# Each case is one program ``(transforms, collectives and control flow, x) -> results`` for both frameworks.
CASES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "psum": lambda j, c, x: j.vmap(lambda r: c.psum(r, "i") * r, axis_name="i")(x),
    "pmean": lambda j, c, x: j.vmap(lambda r: c.pmean({"a": r}, "i")["a"] * r, axis_name="i")(x),
    "pmax_pmin": lambda j, c, x: j.vmap(lambda r: c.pmax(r, "i") - 2 * c.pmin(r, "i"), axis_name="i")(x),
    "all_gather": lambda j, c, x: j.vmap(lambda r: c.all_gather(r, "i", axis=1), axis_name="i")(x),
    "axis_index": lambda j, c, x: j.vmap(lambda r: r * c.axis_index("i") + c.axis_size("i"), axis_name="i")(x),
    "second_axis": lambda j, c, x: j.vmap(lambda r: c.psum(r, "i") * r, in_axes=1, axis_name="i")(x),
    "out_axes_none": lambda j, c, x: j.vmap(lambda r: c.psum(r, "i"), axis_name="i", out_axes=None)(x),
    "of_what_does_not_vary": lambda j, c, x: j.vmap(
        lambda r: c.psum(2.0, "i") + c.psum(x.sum(), "i") + c.pmax(x[0, 0], "i") + c.all_gather(x[0], "i").sum() + r, axis_name="i"
    )(x),
    "grad_psum": lambda j, c, x: j.vmap(j.grad(lambda r: (c.psum(r**2, "i") * r).sum()), axis_name="i")(x),
    "grad_pmean": lambda j, c, x: j.vmap(j.grad(lambda r: (c.pmean(r**2, "i") * r).sum()), axis_name="i")(x),
    "grad_all_gather": lambda j, c, x: j.vmap(j.grad(lambda r: (c.all_gather(r, "i") ** 3).sum() * r.sum()), axis_name="i")(x),
    "grad_outside": lambda j, c, x: j.grad(lambda x: j.vmap(lambda r: (c.psum(r**3, "i") * r).sum(), axis_name="i")(x).sum())(x),
    "jvp": lambda j, c, x: j.vmap(lambda r: j.jvp(lambda r: c.psum(r**2, "i") * r, (r,), (r,)), axis_name="i")(x),
    "vjp": lambda j, c, x: j.vmap(
        lambda r: j.vjp(lambda r: c.all_gather(r**2, "i") * r, r)[1](r * c.axis_index("i") + c.all_gather(r, "i")), axis_name="i"
    )(x),
    "hessian_psum": lambda j, c, x: j.vmap(j.hessian(lambda r: (c.psum(r**3, "i") * r).sum()), axis_name="i")(x),
    "hessian_pmean": lambda j, c, x: j.vmap(j.hessian(lambda r: (c.pmean(r**3, "i") * r).sum()), axis_name="i")(x),
    "hessian_all_gather": lambda j, c, x: j.vmap(j.hessian(lambda r: (c.all_gather(r, "i") ** 3).sum() * r.sum()), axis_name="i")(
        x
    ),
    "two_axes": lambda j, c, x: j.vmap(
        lambda r: j.vmap(lambda e: c.psum(e, "i") * c.pmean(e * c.axis_index("i"), "j") + c.psum(e, ("i", "j")), axis_name="j")(r),
        axis_name="i",
    )(x),
    "one_name_twice": lambda j, c, x: j.vmap(
        lambda r: j.vmap(lambda e: c.psum(e, "i"), axis_name="i")(r) + c.psum(r, "i"), axis_name="i"
    )(x),
    "through_a_map_without_name": lambda j, c, x: j.vmap(
        lambda r: j.vmap(j.grad(lambda e: c.psum(e * e, "i") * e))(r), axis_name="i"
    )(x),
    "loop": lambda j, c, x: j.vmap(
        lambda r: c.fori_loop(0, 3, lambda _, s: s * 0.5 + c.psum(s, "i") * 0.1 + c.axis_index("i"), r), axis_name="i"
    )(x),
    "grad_of_loop": lambda j, c, x: j.grad(
        lambda x: (
            j.vmap(lambda r: c.fori_loop(0, 3, lambda _, s: s * 0.5 + c.psum(s * s, "i") * 0.1, r), axis_name="i")(x) ** 2
        ).sum()
    )(x),
    "while_all_agree": lambda j, c, x: j.vmap(
        lambda r: c.while_loop(lambda s: c.psum(s, "i")[0] < 100, lambda s: s * 1.5 + c.psum(s, "i") * 0.1, r), axis_name="i"
    )(x),
    "while_per_entry": lambda j, c, x: j.vmap(
        lambda r: c.while_loop(lambda s: s[0] < 20, lambda s: s * 1.5 + c.psum(s, "i") * 0.01, r), axis_name="i"
    )(x),
    "cond_per_entry": lambda j, c, x: j.vmap(
        lambda r: c.cond(r[0] > 1, lambda r: r * c.psum(r, "i"), lambda r: r + c.axis_index("i"), r), axis_name="i"
    )(x),
    "cond_shared": lambda j, c, x: j.vmap(
        lambda r: c.cond(x[0, 0] > -1, lambda: x[0] * c.axis_index("i"), lambda: x[1]) + r, axis_name="i"
    )(x),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_against_jax(case: Callable[[Any, Any, Any], Any]) -> None:
    got, want = run_traced(lambda x: case(nm, nm, x), [X]), jax.jit(lambda x: case(jax, lax, x))(X)
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("transform", [nm.grad, nm.hessian], ids=["grad", "hessian"])
def test_the_derivative_of_extremes_is_shared_by_ties(transform: Any) -> None:
    # jax.lax has no derivative of pmax; that of a maximum over an axis of an array is the same.
    x = np.array([[1.0, 3.0], [2.0, 3.0], [2.0, 0.5]])
    for ours, theirs in ((nm.pmax, "max"), (nm.pmin, "min")):

        def f(x: Any, ours: Any = ours) -> Any:
            return nm.vmap(lambda r: ours(r, "i") ** 2 * r, axis_name="i")(x).sum()

        def g(x: Any, theirs: str = theirs) -> Any:
            return (getattr(x, theirs)(0) ** 2 * x).sum()

        got = run_traced(transform(f), [x])
        np.testing.assert_allclose(got, getattr(jax, transform.__name__)(g)(x), rtol=1e-12)


def test_a_pullback_keeps_its_axis_inside_a_map_of_the_same_name() -> None:
    # The scope is lexical. JAX sums over the inner axis here, of which the function knows nothing.
    def rows(r: Any) -> Any:
        _, pull = nm.vjp(lambda r: nm.psum(r * r, "i"), r)
        return nm.vmap(lambda ct: pull(ct)[0], axis_name="i")(X)

    got = run_traced(lambda x: nm.vmap(rows, axis_name="i")(x), [X])
    np.testing.assert_allclose(got, 2 * X[:, None] * len(X) * X[None], rtol=1e-12)


def test_an_unbound_name() -> None:
    message = "psum requires the name of an axis of an enclosing map, got 'k'; bound are \\['i'\\]"
    with pytest.raises(UnboundAxisError, match=message) as caught:
        run_traced(lambda x: nm.vmap(lambda r: nm.vmap(lambda e: nm.psum(e, "k"))(r), axis_name="i")(x), [X])
    assert caught.value.where is not None
    assert caught.value.where.filename == __file__
    for collective in (nm.psum, nm.pmean, nm.pmax, nm.pmin, nm.all_gather):
        with pytest.raises(NameError, match="bound are \\[\\]"):
            collective(1.0, "i")
    for query in (nm.axis_index, nm.axis_size):
        with pytest.raises(UnboundAxisError, match="requires the name of an axis"):
            query("i")


def test_the_axis_of_all_gather_is_checked() -> None:
    with pytest.raises(ShapeError, match="all_gather requires an axis of its result of rank 2, got 2"):
        run_traced(lambda x: nm.vmap(lambda r: nm.all_gather(r, "i", axis=2), axis_name="i")(x), [X])


def test_with_iree() -> None:
    share = nm.vmap(lambda r: r / nm.psum(r, "i"), axis_name="i")(X.astype(np.float32))
    np.testing.assert_allclose(share, X / X.sum(0), rtol=1e-6)
