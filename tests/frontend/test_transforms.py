"""Every transform against JAX, in and outside of jit. A case is a function of a framework and of data."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from both_frameworks import JAX, NABLA, assert_same

import nabla_mlir as nm

CASES: dict[str, Callable[..., Any]] = {}


def case(f):
    assert f.__name__ not in CASES
    CASES[f.__name__] = f
    return f


def data(seed=0):
    rng = np.random.default_rng(seed)
    return {
        "x": rng.normal(size=5),
        "y": rng.normal(size=5),
        "s": np.asarray(rng.normal()),
        "a": rng.normal(size=(3, 4)),
        "b": rng.normal(size=(4, 3)),
        "square": rng.normal(size=(4, 4)),
        "t": rng.normal(size=(2, 3, 4)),
        "k": rng.integers(0, 5, size=3, dtype=np.int32),
        "mask": rng.random(5) < 0.5,
        "f32": rng.normal(size=3).astype(np.float32),
    }


@jax.tree_util.register_dataclass
@nm.register_dataclass
@dataclasses.dataclass
class Layer:
    w: Any
    b: Any


# ---------------------------------------------------------------- grad


@case
def grad_of_one_argument(m, d):
    return m.grad(lambda x: m.np.sum(m.np.sin(x) * x))(d["x"])


@case
def grad_of_a_scalar(m, d):
    return m.grad(lambda s: s**3 + 2.0 * s)(d["s"])


@case
def grad_argnums(m, d):
    f = lambda x, a, y: m.np.sum(x * y**2) + m.np.sum(a)  # noqa: E731
    g = lambda i: m.grad(f, i)(d["x"], d["a"], d["y"])  # noqa: E731
    return g(0), g(2), g(-1), g((0, 2)), g((2, 0)), g((1,))


@case
def grad_keeps_integers_and_keywords(m, d):
    def f(x, k, *, power, shift):
        return m.np.sum(x[k] ** power) + m.np.sum(x * shift)

    return m.grad(f)(d["x"], d["k"], power=3, shift=d["y"])


@case
def grad_of_a_pytree(m, d):
    params = {"w": d["a"], "layers": [Layer(d["b"], d["x"]), None], "t": (d["s"],)}

    def f(p):
        layer = p["layers"][0]
        return m.np.sum(m.np.tanh(p["w"] @ layer.w)) * p["t"][0] + m.np.sum(layer.b**2)

    return m.grad(f)(params)


@case
def grad_has_aux(m, d):
    f = lambda x: (m.np.sum(x**2), {"sine": m.np.sin(x), "none": None, "k": d["k"]})  # noqa: E731
    return m.grad(f, has_aux=True)(d["x"]), m.value_and_grad(f, has_aux=True)(d["x"])


@case
def value_and_grad(m, d):
    return m.value_and_grad(lambda x, y: m.np.sum(m.np.exp(x) * y), argnums=(0, 1))(d["x"], d["y"])


@case
def grad_of_an_unused_argument(m, d):
    return m.grad(lambda x, y: m.np.sum(y), argnums=(0, 1))(d["x"], d["y"])


@case
def grad_of_a_constant(m, d):
    return m.grad(lambda x: m.np.sum(d["y"]))(d["x"])


@case
def grad_keeps_float32(m, d):
    return m.grad(lambda x: m.np.sum(x * 2.0))(d["f32"])


@case
def grad_thrice(m, d):
    f = lambda s: m.np.sin(s) * s**2  # noqa: E731
    return m.grad(m.grad(m.grad(f)))(d["s"])


@case
def stop_gradient(m, d):
    f = lambda x: m.np.sum(x * m.stop_gradient(m.np.sin(x)) + m.stop_gradient({"y": x})["y"])  # noqa: E731
    return m.grad(f)(d["x"]), m.hvp(f)(d["x"], d["y"])


@case
def grad_of_a_closure_over_an_outer_variable(m, d):
    # d/dx (x * d/dy (x + y)) = 1: no confusion between the levels
    return m.grad(lambda x: x * m.grad(lambda y: x + y)(1.0))(d["s"])


@case
def the_same_value_as_argument_and_capture(m, d):
    return m.grad(lambda x: x * m.grad(lambda y: x * y**2)(x))(d["s"])


@case
def grad_of_power_at_a_negative_base(m, d):
    x = -m.np.abs(d["x"]) - 0.5
    power = lambda x: x**2  # noqa: E731
    return m.jvp(power, (x,), (d["y"],)), m.grad(lambda x: m.np.sum(x**3))(x), m.grad(lambda x: m.np.sum(x**2.0))(x)


# ---------------------------------------------------------------- jvp, vjp, linearize


@case
def jvp(m, d):
    f = lambda x, y: (m.np.sin(x) * y, {"sum": m.np.sum(x * y)})  # noqa: E731
    return m.jvp(f, (d["x"], d["y"]), (d["y"], d["x"]))


@case
def jvp_has_aux(m, d):
    return m.jvp(lambda x: (x**2, m.np.cos(x)), (d["x"],), (d["y"],), has_aux=True)


@case
def jvp_of_pytrees(m, d):
    layer = Layer(d["a"], d["b"])
    return m.jvp(lambda p, x: p.w @ p.b * x, (layer, d["s"]), (Layer(d["a"] + 1, d["b"] * 2), d["s"] + 1.0))


@case
def a_pullback_called_many_times(m, d):
    out, pull = m.vjp(lambda x, y: (m.np.sin(x) * y, x + y), d["x"], d["y"])
    x, y = d["x"], d["y"]
    return out, pull((x, y)), pull((y, x)), pull((x * 0.0, y))


@case
def vjp_has_aux(m, d):
    out, pull, aux = m.vjp(lambda p: (p["a"] @ p["b"], p["a"]), {"a": d["a"], "b": d["b"]}, has_aux=True)
    return out, pull(out), aux


@case
def vjp_of_vjp(m, d):
    def g(x, ct):
        return m.vjp(lambda x: m.np.tanh(x) * m.np.sum(x), x)[1](ct)[0]

    out, pull = m.vjp(g, d["x"], d["y"])
    return out, pull(d["x"])


@case
def a_linear_map_called_many_times(m, d):
    out, push = m.linearize(lambda x, a: (m.np.sum(a) * x**2, m.np.cos(x)), d["x"], d["a"])
    return out, push(d["y"], d["a"]), push(d["x"], d["a"] * 2), push(d["y"] * 0.0, d["a"])


@case
def a_pullback_under_vmap(m, d):
    _, pull = m.vjp(lambda x: m.np.sin(x) * m.np.sum(x), d["x"])
    return m.vmap(pull)(m.np.stack([d["x"], d["y"], d["y"] + 1]))


@case
def a_linear_map_under_vmap_and_grad(m, d):
    def f(x):
        _, push = m.linearize(lambda z: m.np.exp(z) * x, x)
        return m.np.sum(m.vmap(push)(m.np.stack([x, d["y"]])) ** 2)

    return m.grad(f)(d["x"])


# ---------------------------------------------------------------- vmap


@case
def vmap_axes(m, d):
    f = lambda x, y: m.np.sin(x) @ y  # noqa: E731
    a, b = d["a"], d["b"]
    return (
        m.vmap(f, in_axes=(0, None))(a, d["b"]),
        m.vmap(f, in_axes=(1, 1))(b, b),
        m.vmap(f, in_axes=(-1, 0))(b, a),
        m.vmap(f, in_axes=(None, 1))(a, b),
    )


@case
def vmap_out_axes(m, d):
    t = d["t"]
    f = lambda x: (x + 1.0, {"sum": m.np.sum(x, axis=0), "c": d["x"]})  # noqa: E731
    return (
        m.vmap(f, out_axes=(1, {"sum": -1, "c": 0}))(t),
        m.vmap(f, in_axes=1, out_axes=(-1, {"sum": 0, "c": None}))(t),
        m.vmap(lambda x: x * 2.0, in_axes=2, out_axes=1)(t),
    )


@case
def vmap_of_pytrees(m, d):
    tree = {"a": d["a"], "layer": Layer(d["b"], d["y"])}
    f = lambda p, x: {"out": m.np.sum(p["a"]) * p["layer"].w + x, "none": None, "b": p["layer"].b}  # noqa: E731
    axes = {"a": 1, "layer": Layer(0, None)}
    return m.vmap(f, in_axes=(axes, None), out_axes={"out": 1, "none": None, "b": 0})(tree, d["s"])


@case
def vmap_with_axis_size(m, d):
    return m.vmap(lambda x: x * 2.0, in_axes=None, axis_size=3)(d["x"])


@case
def vmap_of_keywords(m, d):
    return m.vmap(lambda x, y: x * y, in_axes=0)(d["a"], y=d["a"] + 1.0)


@case
def vmap_of_an_output_that_does_not_vary(m, d):
    return m.vmap(lambda x: (m.np.ones(3, dtype=x.dtype), d["k"], x))(d["x"])


@case
def vmap_nested_with_captures(m, d):
    k = lambda x, y: m.np.exp(-((x - y) ** 2)) * x  # noqa: E731
    return m.vmap(lambda x: m.vmap(lambda y: k(x, y))(d["a"][0]))(d["x"])


@case
def vmap_nested_with_captures_of_equal_sizes(m, d):
    return m.vmap(lambda x: m.vmap(lambda y: x - 2.0 * y)(d["y"]))(d["x"])


@case
def vmap_nested_over_a_captured_vector(m, d):
    pairs = lambda x, c: m.vmap(lambda row: m.vmap(lambda a, c: a * c)(row, c))(x)  # noqa: E731
    return pairs(d["a"], d["square"][0]), pairs(d["square"], d["square"][1])


@case
def vmap_of_grad_with_a_captured_mask(m, d):
    mask = d["mask"]
    per_row = m.vmap(m.grad(lambda x: m.np.sum(m.np.where(mask, x**2, 0.0))))
    return per_row(m.np.stack([d["x"], d["y"]])), per_row(m.np.stack([d["x"]] * 5))


@case
def vmap_of_grad_of_vmap(m, d):
    inner = lambda x: m.np.sum(m.vmap(lambda s: m.np.sin(s) * m.np.sum(x))(x))  # noqa: E731
    return m.vmap(m.grad(inner))(d["a"])


@case
def vmap_three_deep(m, d):
    f = lambda x, y: m.np.sum(x * y) + x[0]  # noqa: E731
    g = m.vmap(m.vmap(m.vmap(f, (0, None)), (None, 0)), (None, 0))
    return g(d["a"], m.np.stack([d["square"], d["square"] * 2]))


@case
def vmap_of_a_matrix_product(m, d):
    return m.vmap(lambda x: m.vmap(lambda y: x @ y, in_axes=1)(d["b"]))(d["a"]), m.vmap(lambda t: t @ d["b"])(d["t"])


@case
def gradients_per_sample(m, d):
    loss = lambda w, x: m.np.sum(m.np.tanh(x @ w) ** 2)  # noqa: E731
    return m.vmap(m.grad(loss), in_axes=(None, 0))(d["b"], d["a"])


# ---------------------------------------------------------------- Jacobians, Hessians


@case
def jacobians(m, d):
    f = lambda x: m.np.sin(x) * m.np.sum(x)  # noqa: E731
    return m.jacfwd(f)(d["x"]), m.jacrev(f)(d["x"])


@case
def jacobians_of_matrices(m, d):
    f = lambda a: m.np.tanh(a) @ d["b"]  # noqa: E731
    return m.jacfwd(f)(d["a"]), m.jacrev(f)(d["a"])


@case
def jacobians_of_pytrees(m, d):
    f = lambda p, s: {"u": p["a"] * s, "v": m.np.sum(p["a"] @ p["b"])}  # noqa: E731
    p = {"a": d["a"], "b": d["b"]}
    return [j(f, argnums=i)(p, d["s"]) for j in (m.jacfwd, m.jacrev) for i in (0, 1, (0, 1))]


@case
def jacobians_has_aux(m, d):
    f = lambda x: (x**2, m.np.cos(x))  # noqa: E731
    return m.jacfwd(f, has_aux=True)(d["x"]), m.jacrev(f, has_aux=True)(d["x"])


@case
def hessians_in_four_modes(m, d):
    f = lambda x: m.np.sum(m.np.sin(x) ** 2) * m.np.prod(x)  # noqa: E731
    return [m.hessian(f, mode=mode)(d["x"]) for mode in ("fwd_rev", "rev_rev", "rev_fwd", "fwd_fwd")]


@case
def hessian_of_a_pytree(m, d):
    f = lambda p: m.np.sum(m.np.tanh(p["a"] @ p["b"])) * p["s"]  # noqa: E731
    return m.hessian(f)({"a": d["a"], "b": d["b"], "s": d["s"]})


@case
def hessian_under_vmap(m, d):
    f = lambda x: m.np.sum(x**4) + m.np.prod(x)  # noqa: E731
    return [m.vmap(m.hessian(f, mode=mode))(d["a"]) for mode in ("fwd_rev", "rev_rev", "rev_fwd", "fwd_fwd")]


@case
def third_derivatives(m, d):
    f = lambda x: m.np.sum(m.np.sin(x) * x**2) * x[0]  # noqa: E731
    x = d["x"][:2]
    return [a(b(c(f)))(x) for a in (m.jacfwd, m.jacrev) for b in (m.jacfwd, m.jacrev) for c in (m.jacfwd, m.jacrev)]


@case
def hvp(m, d):
    f = lambda x, y: m.np.sum(m.np.exp(x) * y) ** 2  # noqa: E731
    return m.hvp(f)(d["x"], d["y"], d["y"]), m.hvp(f, argnums=1)(d["y"], d["x"], d["x"])


@case
def hvp_of_pytrees(m, d):
    f = lambda p, s: (m.np.sum(m.np.tanh(p["a"] @ p["b"]) ** 2) * s, p["a"])  # noqa: E731
    p = {"a": d["a"], "b": d["b"]}
    return m.hvp(f, has_aux=True)(p, {"a": d["a"] + 1.0, "b": d["b"] - 1.0}, d["s"])


@case
def hvp_of_many_vectors(m, d):
    f = lambda w: m.np.sum(m.np.log(1.0 + m.np.exp(d["a"] @ w)))  # noqa: E731
    return m.vmap(lambda v: m.hvp(f)(d["square"][0], v))(d["square"])


@case
def hvp_in_other_orders(m, d):
    f = lambda x: m.np.sum(m.np.sin(x) * x**2) ** 2  # noqa: E731
    x, v = d["x"], d["y"]
    reverse_over_reverse = m.grad(lambda x: m.np.sum(m.grad(f)(x) * v))(x)
    reverse_over_forward = m.grad(lambda x: m.jvp(f, (x,), (v,))[1])(x)
    return reverse_over_reverse, reverse_over_forward, m.vjp(m.grad(f), x)[1](v)


@case
def a_peers_second_derivatives(m, d):
    # sum over i, j of x_i^4 x_j^6, with a Hessian in closed form; hcat(g(x), g(3x)); [sin x; cos x]
    f = lambda x: m.np.sum(x**4) * m.np.sum(x**6)  # noqa: E731
    g = lambda x: m.np.concatenate([m.np.sin(x), m.np.cos(x)])  # noqa: E731
    x = d["x"]
    return (m.hessian(f)(x), m.hvp(f)(x, d["y"]), m.jacfwd(lambda x: m.np.concatenate([g(x), g(3 * x)]))(x), m.jacrev(g)(x))


# ---------------------------------------------------------------- jit


@case
def jit_in_every_place(m, d):
    f = m.jit(lambda x: m.np.sum(m.np.sin(x) ** 2))
    g = m.jit(m.grad(f))
    return m.grad(f)(d["x"]), m.vmap(g)(m.np.stack([d["x"], d["y"]])), m.jit(m.hessian(f))(d["x"])


@case
def jit_with_static_arguments(m, d):
    f = m.jit(lambda x, n, flag=True: x**n if flag else x, static_argnums=1, static_argnames="flag")
    return f(d["x"], 2), f(d["x"], 3), f(d["x"], 3, flag=False)


@case
def jit_of_pytrees(m, d):
    f = m.jit(lambda p, *, scale: (Layer(p.b * scale, None), [p.w, {"n": None}]))
    return f(Layer(d["a"], d["x"]), scale=d["s"])


# ---------------------------------------------------------------- the runs


@pytest.fixture(scope="module")
def compiled():
    """All cases as one jitted function: the results for two sets of data, and what tracing raised."""
    errors = {}

    def every(d):
        errors.clear()
        results = {}
        for name, f in CASES.items():
            try:
                results[name] = f(NABLA, d)
            except Exception as error:
                errors[name] = error
        return results

    f = nm.jit(every)
    return f(data(0)), f(data(1)), errors


@functools.cache
def wanted(name):
    """The results of JAX for two sets of data. Each case is compiled once: operation by operation, JAX takes twice as long."""
    with jax.enable_x64(True):
        f = jax.jit(lambda d: CASES[name](JAX, d))
        return f(data(0)), f(data(1))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_in_jit(name, compiled):
    first, second, errors = compiled
    if name in errors:
        raise errors[name]
    assert_same(first[name], wanted(name)[0])
    assert_same(second[name], wanted(name)[1])  # nothing of the first call was baked in


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_outside_jit(name):
    before = data(0)
    found = CASES[name](NABLA, before)
    assert_same(found, wanted(name)[0])
    assert_same(before, data(0))  # arguments are never changed
