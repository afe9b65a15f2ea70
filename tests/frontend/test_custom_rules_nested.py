"""Custom rules that call functions with rules, and in control flow, against JAX: which derivative each value has."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from test_custom_rules import X, Y, check
from xla import run_traced

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.base import errors


def fixed_point_root(lib: Any, while_loop: Any, xp: Any) -> Callable[..., Any]:
    """JAX's fixed point: its adjoint is solved by the function itself, for a new function at each level."""

    @functools.partial(lib.custom_vjp, nondiff_argnums=(0,))
    def fixed_point(f: Any, a: Any, x: Any) -> Any:
        return while_loop(lambda c: abs(c[0] - c[1]) > 1e-12, lambda c: (c[1], f(a, c[1])), (x, f(a, x)))[1]

    def forward(f: Any, a: Any, x: Any) -> Any:
        x = fixed_point(f, a, x)
        return x, (a, x)

    def step(f: Any, packed: Any, u: Any) -> Any:
        a, x, ct = packed
        return ct + lib.vjp(lambda x: f(a, x), x)[1](u)[0]

    def backward(f: Any, stored: Any, ct: Any) -> Any:
        a, x = stored
        adjoint = fixed_point(functools.partial(step, f), (a, x, ct), ct)
        return lib.vjp(lambda a: f(a, x), a)[1](adjoint)[0], xp.zeros_like(x)

    fixed_point.defvjp(forward, backward)
    return lambda a: fixed_point(lambda a, x: 0.5 * (x + a / x), a, a)


def test_a_rule_that_calls_its_function_on_functions_of_its_own() -> None:
    ours = fixed_point_root(nm.jax, nm.while_loop, nnp)
    theirs = fixed_point_root(jax, jax.lax.while_loop, jnp)
    check(ours, theirs(2.0), np.float64(2.0))
    check(nm.grad(ours), oracle.grad(theirs)(2.0), np.float64(2.0))
    check(nm.grad(nm.grad(ours)), oracle.grad(oracle.grad(theirs))(2.0), np.float64(2.0))
    once = nm.trace(ours, nm.spec((), "f64"))
    assert "without_rule" in str(once)
    with pytest.raises(errors.RuleMissingError, match=r"rule of fixed_point_1 within its own rules, got a trace .* fewer"):
        nm.trace(nm.grad(nm.grad(nm.from_stablehlo(once.mlir()))), nm.spec((), "f64")).lower()


def test_a_loop_stores_what_a_reverse_rule_keeps() -> None:
    def network(lib: Any, scan: Any, xp: Any) -> Callable[..., Any]:
        f = lib.custom_vjp(lambda x, w: xp.sin(x) * w)
        f.defvjp(
            lambda x, w: (xp.sin(x) * w, (xp.floor(3 * x) + x, w)),
            lambda stored, ct: (ct * stored[0] * stored[1] * 1.3, ct * stored[0]),
        )
        return lambda x, w: (scan(lambda c, t: (f(c, w) + t * c, c), x, xp.arange(4.0))[1] ** 2).sum()

    ours, theirs = network(nm.jax, nm.scan, nnp), network(jax, jax.lax.scan, jnp)
    modes = [nm.grad(ours, (0, 1)), nm.hessian(ours, mode="rev_rev")]
    check(
        lambda x, w: [f(x, w) for f in modes], [oracle.grad(theirs, (0, 1))(X, Y), oracle.jacrev(oracle.grad(theirs))(X, Y)], X, Y
    )
    text = str(nm.trace(nm.grad(ours), X, Y).lower())
    assert text.count("floor") == 1  # cheap, and yet not computed again
    assert "floor" not in text[text.rindex("stablehlo.while") :]


def _twice(f: Callable[[Any], Any]) -> dict[str, Callable[[Any], Any]]:
    """f(f(x)), written with every kind of control flow."""
    return {
        "plain": lambda x: f(f(x)),
        "scan": lambda x: nm.scan(lambda c, _: (f(c), None), x, None, length=2)[0],
        "while": lambda x: nm.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, f(c[1])), (0, x))[1],
        "scan of scans": lambda x: nm.scan(
            lambda c, _: (nm.scan(lambda d, _: (f(d), None), c, None, length=1)[0], None), x, None, length=2
        )[0],
        "scan of choices": lambda x: nm.scan(lambda c, _: (nm.cond(c[0] > 0, f, lambda y: y, c), None), x, None, length=2)[0],
        "choice": lambda x: nm.cond(x[0] > 0, lambda y: f(f(y)), lambda y: y, x),
        "checkpoint": lambda x: nm.checkpoint(lambda y: f(f(y)))(x),
    }


def _other_rule(kind: str) -> Callable[[Any], Any]:
    """A function whose rule calls another function with a rule; neither rule is the true derivative."""
    g = nm.custom_jvp(nnp.sin)
    g.defjvp(lambda p, t: (g(p[0]), 3.0 * t[0] * p[0]))
    if kind == "reverse":
        f = nm.custom_vjp(lambda x: g(x) * x)
        f.defvjp(lambda x: (g(x) * x, (x, g(x))), lambda r, ct: (ct * r[1] * 2.0 + r[0] * ct,))
        return f
    h = nm.custom_jvp(lambda x: g(x) * x)
    h.defjvp(lambda p, t: (g(p[0]) * p[0], t[0] * (g(p[0]) + 7 * p[0])))
    return h


@pytest.mark.parametrize("kind", ["forward", "reverse"])
def test_a_rule_that_calls_a_function_with_a_rule_is_applied_alike_in_control_flow(kind: str) -> None:
    """A later derivative differentiates the code of the outer rule, and applies the inner rule in it."""

    def orders(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def value_and_slope(x: Any) -> Any:
            value, slope = nm.value_and_grad(lambda x: f(x).sum())(x)
            return value + (slope**2).sum()

        first = nm.grad(value_and_slope)
        return lambda x: (first(x), nm.jvp(value_and_slope, (x,), (x,))[1], nm.grad(lambda x: first(x).sum())(x))

    x = np.array([0.3, 0.7])
    plain, *others = (orders(f) for f in _twice(_other_rule(kind)).values())
    expected = run_traced(plain, [x])
    for other in others:
        check(other, expected, x)


_LINEARIZED = {
    "sqrt": lambda lib: lambda x: lib.numpy.sqrt(x * x + 1),
    "hypot": lambda lib: lambda x: lib.numpy.hypot(x, x * x + 1),
    "norm": lambda lib: lambda x: lib.numpy.linalg.norm(lib.numpy.stack([x, 2 * x])),
    "scan": lambda lib: lambda x: lib.lax.scan(lambda c, _: (lib.numpy.sin(c) * x, None), x, None, length=3)[0],
    "loop": lambda lib: lambda x: lib.lax.fori_loop(0, 3, lambda i, c: lib.numpy.sin(c) * x, x),
    "branch": lambda lib: lambda x: lib.lax.cond(x > 0, lib.numpy.sin, lib.numpy.cos, x),
    "checkpoint": lambda lib: lib.checkpoint(lib.numpy.sin),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", _LINEARIZED)
def test_rules_made_of_jvp(name: str) -> None:
    """Loops compute values beside tangents, and roots ask whether a tangent is zero: the rule is linear all the same."""

    def all_orders(lib: Any) -> Callable[..., Any]:
        f = _LINEARIZED[name](lib)
        g = lib.custom_jvp(f)
        g.defjvp(lambda xs, ts: (g(*xs), lib.jvp(f, xs, (2 * ts[0],))[1]))
        return lambda x: (lib.grad(g)(x), lib.grad(lib.grad(g))(x), lib.jacfwd(lib.grad(g))(x))

    check(all_orders(nm.jax), all_orders(jax)(0.7), np.float64(0.7))


def test_a_root_in_a_rule_is_zero_where_its_cotangent_is() -> None:
    root = nm.custom_jvp(nnp.sqrt)
    root.defjvp(lambda xs, ts: nm.jvp(nnp.sqrt, xs, ts))
    for ct, slope in ((0.0, 0.0), (1.0, np.inf)):
        assert float(run_traced(lambda x: nm.vjp(root, x)[1](ct)[0], [np.float64(0)])) == slope  # noqa: B023


@pytest.mark.parametrize("way", ["vjp", "linearize", "jit"])
def test_the_value_of_a_pullback_is_that_of_the_rule(way: str) -> None:
    """A second derivative differentiates the code of `fwd`, as in JAX. It does not use `bwd` for that."""

    def program(lib: Any, xp: Any) -> Any:
        f = lambda x: xp.sin(3 * x)  # noqa: E731
        h = lib.custom_vjp(f)
        h.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * xp.sin(x),))
        d = lib.custom_jvp(f)
        d.defjvp(lambda xs, ts: (f(*xs), ts[0] * xp.sin(xs[0])))

        def both(x: Any) -> Any:
            if way == "linearize":
                y, push = lib.linearize(d, x)
                return xp.sum(xp.cos(y) * push(x))
            y, pull = lib.vjp(lib.jit(h) if way == "jit" else h, x)
            return xp.sum(pull(xp.cos(y))[0] * y)

        return lib.grad(both), lib.grad(
            lambda x: xp.sum((lib.linearize if way == "linearize" else lib.vjp)(h if way == "vjp" else d, x)[0])
        )

    x = np.array([0.3, 0.7, 1.1])
    for ours, theirs in zip(program(nm.jax, nnp), program(jax, jnp), strict=True):
        check(ours, theirs(x), x)


def _within(lib: Any, xp: Any, h: Any) -> dict[str, Any]:
    """Ways to call a function in a region."""
    lax = lib.lax
    return {
        "checkpoint": lib.checkpoint(lambda x: h(h(x)) * x),
        "cond": lambda x: lax.cond(xp.sum(x) > 0, lambda x: h(x) * h(h(x)), lambda x: x, x),
        "loop": lambda x: lax.fori_loop(0, 2, lambda i, c: h(c) * c + x, x),
        "scan": lambda x: lax.scan(lambda c, r: (lax.cond(r > 0.5, lambda c: h(c) * c, lambda c: c, c), h(c + r)), x[0], x)[1],
        "aux": lambda x: lib.grad(lambda x: (xp.sum(x**2), lib.checkpoint(h)(x)), has_aux=True)(x)[1],
    }


@pytest.mark.slow
@pytest.mark.parametrize("way", ["checkpoint", "cond", "loop", "scan", "aux"])
@pytest.mark.parametrize("rule", ["custom_jvp", "custom_vjp"])
def test_the_value_in_a_region_is_that_of_the_rule(way: str, rule: str) -> None:
    """The value that a derivative returns is differentiated by the code of the rule, too, wherever the function is called."""

    def program(lib: Any, xp: Any) -> Any:
        f = lambda x: xp.sin(3 * x)  # noqa: E731
        h = getattr(lib, rule)(f)
        if rule == "custom_vjp":
            h.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * xp.sin(x),))
        else:
            h.defjvp(lambda xs, ts: (f(*xs), ts[0] * xp.sin(xs[0])))
        g = _within(lib, xp, h)[way]
        number = lambda x: xp.sum(xp.cos(g(x)) * x)  # noqa: E731
        return lib.grad(lambda x: xp.sum(lib.grad(number)(x) ** 2) + lib.value_and_grad(number)(x)[0])

    x = np.array([0.3, 0.7, 1.1])
    np.testing.assert_allclose(run_traced(program(nm.jax, nnp), [x]), program(jax, jnp)(x), rtol=1e-9)
