"""Idioms of programs for JAX: rules that raise, residuals of Python, constants in traces, scalar types, policies by functions."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.jax as jax
import nabla_mlir.jax.numpy as jnp
from nabla_mlir.base.errors import ConcretizationError, RuleMissingError, ShapeError, TraceError, TreeError


# ---------------------------------------------------------------- custom rules
def _refusing() -> Any:
    @nm.custom_jvp
    def f(x: Any) -> Any:
        return x * 2

    @f.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        raise RuntimeError("no derivative here")

    return f


def test_the_error_of_a_rule_is_that_of_the_derivative() -> None:
    f = _refusing()
    assert float(f(2.0)) == float(nm.jit(f)(2.0)) == 4.0
    assert float(nm.grad(lambda x: x * f(nm.stop_gradient(x)))(2.0)) == 4.0
    for derivative in (nm.grad(f), nm.jit(nm.grad(f)), lambda x: nm.vmap(nm.grad(f))(np.ones(2)), lambda x: nm.jvp(f, (x,), (x,))):
        with pytest.raises(RuntimeError, match="no derivative here"):
            derivative(2.0)
    text = str(nm.trace(f, nm.spec()))
    assert "RuntimeError: no derivative here" in text


def test_the_error_of_a_rule_is_in_the_ir_for_other_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    from nabla_mlir.rules import custom_regions

    traced = nm.trace(nm.grad(_refusing()), nm.spec())
    monkeypatch.setattr(custom_regions, "_errors", {})
    with pytest.raises(RuleMissingError, match="requires the rule of f, got RuntimeError: no derivative here"):
        traced.lower()


def test_a_rule_may_be_called_with_an_integer() -> None:
    @nm.custom_jvp
    def f(x: Any) -> Any:
        return x * 2

    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * 3.0))
    assert (int(f(3)), float(nm.grad(f)(2.0))) == (6, 3.0)


def test_the_backward_half_may_branch_on_known_residuals() -> None:
    @nm.custom_vjp
    def f(x: Any) -> Any:
        return x * x

    f.defvjp(lambda x: (f(x), x), lambda r, ct: (ct * (10.0 if r > 0 else -1.0),))
    assert [float(nm.grad(f)(x)) for x in (2.0, -2.0)] == [10.0, -1.0]
    with pytest.raises(ConcretizationError):
        nm.jit(nm.grad(f))(2.0)

    @nm.custom_vjp
    def g(x: Any) -> Any:
        return x * x

    g.defvjp(lambda x: (x * x, x), lambda r, ct: (ct * float(r) * 3,))
    assert float(nm.grad(g)(2.0)) == 6.0
    with pytest.raises(ConcretizationError, match="no derivative follows"):
        nm.grad(nm.grad(g))(2.0)  # the number would lose its derivative


@pytest.mark.parametrize("wrap", [lambda f: f, nm.jit])
def test_residuals_of_python_reach_the_backward_half(wrap: Any) -> None:
    seen = []

    @nm.custom_vjp
    def f(x: Any) -> Any:
        return x * x

    def backward(residuals: Any, ct: Any) -> Any:
        flag, word, count, x = residuals
        seen.append((flag, word, count))
        return (ct * x * count if flag else ct,)

    f.defvjp(lambda x: (x * x, (True, "word", 5, x)), backward)
    assert float(wrap(nm.grad(f))(3.0)) == 15.0
    assert seen[0] == (True, "word", 5)
    assert float(wrap(nm.grad(nm.grad(f)))(3.0)) == 5.0


def test_symbolic_zeros_where_no_derivative_reaches() -> None:
    seen: list[Any] = []

    @jax.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return x * y

    def rule(primals: Any, tangents: Any) -> Any:
        seen.append([isinstance(t, jax.custom_derivatives.SymbolicZero) for t in tangents])
        x, y = primals
        dx, dy = (0.0 if isinstance(t, jax.custom_derivatives.SymbolicZero) else t for t in tangents)
        return f(x, y), dx * y + x * dy

    f.defjvp(rule, symbolic_zeros=True)
    assert float(nm.grad(lambda x: f(x, jnp.sin(2.0)))(3.0)) == pytest.approx(np.sin(2.0))
    assert seen[0] == [False, True]
    assert float(nm.grad(lambda x: f(x, nm.stop_gradient(x)))(3.0)) == 3.0
    assert float(nm.jit(nm.grad(lambda x: f(x, x)))(3.0)) == 6.0
    assert float(nm.grad(nm.grad(lambda x: f(x, x)))(3.0)) == 2.0
    zero = jax.custom_derivatives.SymbolicZero(nm.spec(2))
    assert (zero.shape, zero.ndim) == ((2,), 1)
    assert jax.custom_derivatives.zero_from_primal((1.0, 2))[1].dtype == jax.float0


def test_arguments_without_derivatives_by_name() -> None:
    @jax.tree_util.Partial(jax.custom_jvp, nondiff_argnames=("word",))
    def f(x: Any, word: str) -> Any:
        return x * len(word)

    f.defjvp(lambda word, primals, tangents: (f(primals[0], word), tangents[0] * 10.0 * len(word)))
    assert float(nm.grad(lambda x: f(x, "abc"))(2.0)) == 30.0
    with pytest.raises(TraceError, match="nondiff_argnames requires names of arguments, got 'z'"):
        jax.custom_vjp(lambda x: x, nondiff_argnames=["z"])


# ---------------------------------------------------------------- constants in traces
@pytest.mark.parametrize("execution", ["interpret", "compile"])
def test_traced_values_within_ensure_compile_time_eval(execution: Any) -> None:
    def f(x: Any) -> Any:
        with jax.ensure_compile_time_eval():
            count = int(jnp.sum(np.arange(3)))
            y = (jnp.sin(x) + jnp.ones(3)[count - 3]) * count
            z = jnp.asarray(x == x) & (x * 2 + np.float32(1) > 0)
            slope = nm.grad(jnp.sin)(x)
        return y + slope + z

    before = nm.set_execution(execution)
    try:
        assert float(nm.jit(f)(2.0)) == pytest.approx(3 * (np.sin(2.0) + 1) + np.cos(2.0) + 1, rel=1e-5)
        assert float(nm.grad(f)(2.0)) == pytest.approx(3 * np.cos(2.0) - np.sin(2.0), rel=1e-5)
        np.testing.assert_allclose(nm.vmap(f)(np.full(2, 2.0)), np.full(2, 3 * (np.sin(2.0) + 1) + np.cos(2.0) + 1))
    finally:
        nm.set_execution(before)


def test_linearize_with_aux() -> None:
    def f(x: Any) -> Any:
        return x * x, {"twice": 2 * x}

    out, push, aux = nm.linearize(f, 3.0, has_aux=True)
    assert [float(v) for v in (out, push(2.0), aux["twice"])] == [9.0, 12.0, 6.0]

    def inside(x: Any) -> Any:
        out, push, aux = nm.linearize(f, x, has_aux=True)
        return out + push(2.0) + aux["twice"]

    assert float(nm.jit(inside)(3.0)) == 27.0


def test_shapes_of_functions_that_return_specs() -> None:
    assert jax.eval_shape(lambda: (nm.spec((2, 3)), np.ones(4)))[0] == nm.spec((2, 3))


# ---------------------------------------------------------------- scalar types
def test_scalar_types_make_arrays_and_are_dtypes() -> None:
    assert int(nm.jit(lambda x: jnp.int32(x))(2.7)) == 2
    assert float(nm.grad(lambda x: jnp.float32(x) ** 2)(3.0)) == 6.0
    assert jnp.float32(1).dtype == np.float32
    np.testing.assert_array_equal(jnp.int8([1, 2]), [1, 2])
    assert jnp.float32 == np.float32
    assert np.dtype("f4") == jnp.float32
    assert {np.float32: 1}[jnp.float32] == 1
    assert jnp.float32 != np.float64
    assert jnp.zeros(2, jnp.float16).dtype == np.zeros(2, jnp.float16).dtype == np.float16
    assert isinstance(np.float32(1), jnp.float32)
    assert issubclass(np.float32, jnp.float32)
    assert jnp.issubdtype(jnp.float32, jnp.floating)
    assert jnp.issubdtype(np.float32, jnp.float32)
    assert jnp.result_type(jnp.float32, jnp.int8) == np.float32
    assert isinstance(jnp.dtype, type)


# ---------------------------------------------------------------- parameters
@pytest.mark.parametrize(("unroll", "loops"), [(0, 0), (True, 0), (False, 1), (2, 1)])
def test_unroll(unroll: Any, loops: int) -> None:
    f = lambda xs: nm.scan(lambda c, x: (c + x, c * x), 0.0, xs, unroll=unroll)  # noqa: E731
    total, ys = f(np.arange(5.0, dtype=np.float32))
    assert float(total) == 10.0
    np.testing.assert_array_equal(ys, [0, 0, 2, 9, 24])
    assert str(nm.trace(f, nm.spec(5)).lower()).count("stablehlo.while") == loops
    np.testing.assert_array_equal(nm.grad(lambda xs: f(xs)[1].sum())(np.arange(3.0)), [3.0, 2.0, 1.0])
    with pytest.raises(ShapeError, match="scan requires unroll of at least 0, got -1"):
        nm.scan(lambda c, x: (c, x), 0.0, np.ones(2), unroll=-1)


def test_a_policy_may_be_a_function() -> None:
    seen = set()

    def policy(primitive: Any, *avals: Any, **params: Any) -> bool:
        seen.add((str(primitive), tuple(a.shape for a in avals)))
        return primitive is jax.lax.sin_p

    plain = lambda x: jnp.exp(jnp.sin(x)) * x  # noqa: E731
    saved, recomputed = jax.checkpoint(plain, policy=policy), jax.remat(plain, policy=lambda *_, **__: False)
    for f in (saved, recomputed):
        for derivative in (nm.grad, lambda g: nm.grad(nm.grad(g)), lambda g: nm.jit(nm.grad(g))):
            np.testing.assert_allclose(derivative(f)(0.3), derivative(plain)(0.3), rtol=1e-6)
        np.testing.assert_allclose(nm.vmap(nm.grad(f))(np.full(2, 0.3)), [nm.grad(plain)(0.3)] * 2, rtol=1e-6)
    assert ("sin", ((),)) in seen
    count = lambda f: str(nm.trace(f, nm.spec())).count("ad.name")  # noqa: E731
    assert (count(saved), count(recomputed)) == (1, 0)


def test_positions_and_axes_of_other_kinds() -> None:
    parts = jnp.split(np.arange(5.0), np.array([1, 3]))
    assert [p.tolist() for p in parts] == [[0.0], [1.0, 2.0], [3.0, 4.0]]
    assert jnp.expand_dims(np.ones(3), range(2)).shape == (1, 1, 3)


# ---------------------------------------------------------------- values, trees and names
def test_members_of_an_enum_are_numbers() -> None:
    level = enum.IntEnum("level", {"low": 1, "high": 2})
    out = jax.jit(lambda x: (x * level.high, level.low))(3.0)
    assert [float(x) for x in out] == [6.0, 1.0]


def test_arrays_that_may_not_be_shared() -> None:
    x = jnp.ones(2)
    assert jax.device_put(x) is jax.device_put(x, may_alias=True) is x
    assert jax.device_put(x, may_alias=False) is not x
    with pytest.raises(ValueError, match="one of may_alias and donate, got both"):
        jax.device_put(x, may_alias=True, donate=True)
    with pytest.raises(ValueError, match="device_put requires a prefix of the structure"):
        jax.device_put({"a": x, "b": x}, device={"a": None, "b": (None, None)})
    started: list[int] = []
    tree = [x, "text", type("Leaf", (), {"copy_to_host_async": lambda self: started.append(1)})()]
    assert jax.copy_to_host_async(tree) is tree
    assert started == [1]
    assert jax.vmap(lambda x: (jax.lax.dce_sink(x), x)[1])(x).tolist() == [1.0, 1.0]


def test_one_device_maps_over_one_entry() -> None:
    f = jax.pmap(lambda x, y, *, z: (jax.lax.psum(x * y, "i") + z, y), "i", in_axes=(1, None), out_axes=(1, None))
    total, y = f(np.ones((2, 1)), 3.0, z=np.ones(1))
    assert (total.tolist(), float(y)) == ([[4.0], [4.0]], 3.0)
    with pytest.raises(ShapeError, match="an axis of length 2"):
        f(np.ones((1, 2)), 3.0, z=np.ones(1))


def test_nodes_of_any_class() -> None:
    class Pair:
        def __init__(self, x: Any, unit: str):
            self.x, self.unit = x, unit

    with pytest.raises(TreeError, match="requires a dataclass, or data_fields and meta_fields, got Pair"):
        jax.tree_util.register_dataclass(Pair)
    jax.tree_util.register_dataclass(Pair, data_fields=["x"], meta_fields=["unit"])
    doubled = jax.tree.map(lambda x: 2 * x, Pair(3.0, "m"))
    assert (doubled.x, doubled.unit) == (6.0, "m")
    assert hash(jax.tree_util.FlattenedIndexKey(1)) != hash(jax.tree_util.SequenceKey(1))


def test_transposition_of_a_node_that_keeps_what_is_in_it() -> None:
    class Flat:  # its metadata is the structure of all that is in it
        def __init__(self, tree: Any):
            self.tree = tree

    rebuilt = lambda spec, leaves: Flat(jax.tree.unflatten(spec, leaves))  # noqa: E731
    jax.tree_util.register_pytree_node(Flat, lambda f: jax.tree.flatten(f.tree), rebuilt)
    outer, inner = jax.tree.structure(Flat({"a": 0, "b": 0})), jax.tree.structure([0, 0])
    got = jax.tree.transpose(outer, inner, Flat({"a": [1, 2], "b": [3, 4]}))
    assert [f.tree for f in got] == [{"a": 1, "b": 3}, {"a": 2, "b": 4}]


def test_a_rule_for_maps_around_a_rule_for_derivatives() -> None:
    f = jax.custom_batching.custom_vmap(jax.custom_jvp(lambda x: 2.0 * x))
    with pytest.raises(AttributeError, match="custom_vmap requires a rule for <lambda>, got none"):
        f(1.0)
    f.def_vmap(lambda size, is_batched, xs: (3.0 * xs, True))
    f.defjvp(lambda p, t: (f.fun(*p), 5.0 * t[0]))
    assert (float(jax.grad(f)(1.0)), jax.vmap(f)(np.ones(2)).tolist()) == (5.0, [3.0, 3.0])
