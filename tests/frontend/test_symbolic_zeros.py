"""Symbolic zeros of custom rules, and integers among differentiated arguments, against JAX."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
import pytest

import nabla_mlir as nm
from nabla_mlir.base import errors


@pytest.mark.parametrize("order", [1, 2])
def test_symbolic_zeros_of_forward_rules(order: int) -> None:
    def program(lib: Any) -> Any:
        f = lib.custom_jvp(lambda x, y, n: x**3 * y * n)

        def rule(primals: Any, tangents: Any) -> Any:
            (x, y, n), (dx, dy, dn) = primals, tangents
            assert type(dn) is lib.custom_derivatives.SymbolicZero
            assert (dn.dtype, dn.shape, dn.ndim) == (lib.dtypes.float0, (), 0)
            return f(x, y, n), dx * y * n * 10.0 + (0.0 if type(dy) is type(dn) else dy * x * n)

        f.defjvp(rule, symbolic_zeros=True)
        nothing = lib.custom_jvp(lambda x: x)
        nothing.defjvp(lambda p, t: (p[0], lib.custom_derivatives.zero_from_primal(p[0], symbolic_zeros=True)), symbolic_zeros=True)
        gradient = lib.grad(lambda x, y: f(x, y, 3) + nothing(x), (0, 1))
        return gradient(2.0, 4.0) if order == 1 else lib.jacfwd(gradient, (0, 1))(2.0, 4.0)

    np.testing.assert_allclose(jax.tree.leaves(program(nm.jax)), jax.tree.leaves(program(jax)))


def test_symbolic_zeros_of_reverse_rules() -> None:
    def program(lib: Any) -> Any:
        rules = lib.custom_derivatives

        @functools.partial(lib.custom_vjp, nondiff_argnums=(0,))
        def g(scale: float, x: Any, n: Any) -> Any:
            return scale * x["a"] * n, n

        def fwd(scale: float, x: Any, n: Any) -> Any:
            assert isinstance(x["a"], rules.CustomVJPPrimal)
            assert (x["a"].perturbed, n.perturbed) == (True, False)
            x, n = rules.custom_vjp_primal_tree_values((x, n))
            return g(scale, x, n), n

        def bwd(scale: float, n: Any, ct: Any) -> Any:
            assert type(ct[1]) is rules.SymbolicZero
            return {"a": ct[0] * n * 7.0 * scale}, rules.SymbolicZero.from_primal_value(n) if lib is nm else None

        g.defvjp(fwd, bwd, symbolic_zeros=True)
        return lib.grad(lambda x, n: g(2.0, x, n)[0])({"a": 2.0}, 3)

    np.testing.assert_allclose(jax.tree.leaves(program(nm.jax)), jax.tree.leaves(program(jax)))


def test_integers_among_what_is_differentiated() -> None:
    tree = {"w": np.float32(2), "n": np.int32(3), "mask": np.array([True, False])}
    loss = lambda t: t["w"] ** 2 * t["n"] * t["mask"].sum()  # noqa: E731
    want = jax.grad(lambda w: loss({**tree, "w": w}))(tree["w"])
    for call in (nm.grad(loss, allow_int=True), nm.jit(nm.grad(loss, allow_int=True))):
        got = call(tree)
        assert got["n"] is got["mask"] is None
        np.testing.assert_allclose(got["w"], want)
    value, slopes = nm.value_and_grad(lambda n, x: n * x, (0, 1), allow_int=True)(3, 2.0)
    assert (float(value), slopes[0], float(slopes[1])) == (6.0, None, 3.0)
    with pytest.raises(errors.DtypeError, match=r"floating point, got int32(.|\n)*allow_int=True gives None"):
        nm.grad(lambda n: n * 1.0)(3)


def test_integers_among_what_a_jacobian_is_of() -> None:
    tree, x = {"n": np.int32(3), "w": np.float32(2)}, np.array([1, 2], np.float32)
    f = lambda t, x: {"y": x**2 * t["n"], "z": x.sum() * t["w"]}  # noqa: E731
    wanted, spec = jax.tree.flatten(jax.jacrev(f, (0, 1), allow_int=True)(tree, x))
    for call in (nm.jacrev(f, (0, 1), allow_int=True), nm.jit(nm.jacobian(f, argnums=(0, 1), allow_int=True))):
        got, own = jax.tree.flatten(call(tree, x))
        assert own == spec
        for a, b in zip(got, wanted, strict=True):
            np.testing.assert_array_equal(a, b)
            assert a.dtype == b.dtype
    assert nm.jacrev(lambda m: m * x, allow_int=True)(np.array(True)).tolist() == [False, False]
    with pytest.raises(errors.DtypeError, match=r"floating point, got int32(.|\n)*allow_int=True gives zeros"):
        nm.jacrev(f)(tree, x)
