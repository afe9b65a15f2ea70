"""custom_jvp and custom_vjp against JAX: every mode, order and nesting, in control flow, on trees; and in the IR."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from xla import run_traced

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.base import errors
from nabla_mlir.numpy import bessel

rng = np.random.default_rng(0)
X, Y = rng.normal(size=3), rng.normal(size=3)
A, W, MANY = rng.normal(size=(2, 3)), rng.normal(size=(3, 3)), rng.normal(size=(4, 2, 3))


def check(ours: Callable[..., Any], expected: Any, *inputs: Any, tolerance: float = 1e-9) -> None:
    got = jax.tree.leaves(run_traced(ours, inputs))
    wanted = [np.asarray(x) for x in jax.tree.leaves(expected)]
    assert [x.shape for x in got] == [x.shape for x in wanted]
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def recursive(lib: Any, xp: Any) -> Callable[..., Any]:
    """A forward rule that calls its own function, on the arguments and on a tangent."""

    @lib.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return xp.sin(x) * y

    @f.defjvp
    def f_jvp(primals: Any, tangents: Any) -> Any:
        (x, y), (x_dot, y_dot) = primals, tangents
        return f(x, y), xp.cos(x) * y * x_dot + f(x, y_dot)

    return f


def scaled(lib: Any, xp: Any) -> Callable[..., Any]:
    """Rules that are not the derivative, so that taking another one shows."""
    f = lib.custom_jvp(lambda x, y: x * xp.cos(y))
    f.defjvps(lambda t, out, x, y: t * y * 3.0, lambda t, out, x, y: t * x + out * t)
    return f


def layer(lib: Any, xp: Any) -> Callable[..., Any]:
    @lib.custom_vjp
    def f(x: Any, w: Any) -> Any:
        return xp.tanh(x @ w)

    def fwd(x: Any, w: Any) -> Any:
        y = f(x, w)
        return y, (x, w, y)

    def bwd(residuals: Any, ct: Any) -> Any:
        x, w, y = residuals
        d = ct * (1.0 - y * y) * 1.25
        return d @ w.T, x.T @ d

    f.defvjp(fwd, bwd)
    return f


@pytest.mark.parametrize("make", [recursive, scaled])
def test_forward_rules(make: Any) -> None:
    f, g = make(nm.jax, nnp), make(jax, jnp)
    ours, theirs = lambda x, y: (f(x, y) ** 2).sum(), lambda x, y: (g(x, y) ** 2).sum()
    check(nm.grad(ours, (0, 1)), oracle.grad(theirs, (0, 1))(X, Y), X, Y)
    check(lambda x, t: nm.jvp(lambda x: f(x, Y), (x,), (t,)), oracle.jvp(lambda x: g(x, Y), (X,), (Y,)), X, Y)
    hessian = oracle.hessian(theirs)(X, Y)
    for mode in ("fwd_rev", "rev_rev", "rev_fwd", "fwd_fwd"):
        check(nm.hessian(ours, mode=mode), hessian, X, Y)


@pytest.mark.parametrize("make", [recursive, scaled])
def test_forward_rules_under_maps_and_loops(make: Any) -> None:
    f, g = make(nm.jax, nnp), make(jax, jnp)
    y = Y[0]
    check(
        nm.vmap(nm.grad(lambda x, y: f(x, y) ** 2), (0, None)),
        oracle.vmap(oracle.grad(lambda x, y: g(x, y) ** 2), (0, None))(X, y),
        X,
        y,
    )
    check(
        nm.grad(lambda x, y: (nm.vmap(f, (0, None))(x, y) ** 2).sum(), (0, 1)),
        oracle.grad(lambda x, y: (oracle.vmap(g, (0, None))(x, y) ** 2).sum(), (0, 1))(X, y),
        X,
        y,
    )
    ours = lambda x, y: nm.fori_loop(0, 4, lambda _, c: f(c, y), x).sum()  # noqa: E731
    theirs = lambda x, y: jax.lax.fori_loop(0, 4, lambda _, c: g(c, y), x).sum()  # noqa: E731
    check(nm.grad(ours, (0, 1)), oracle.grad(theirs, (0, 1))(X, Y), X, Y)
    check(nm.hessian(ours), oracle.hessian(theirs)(X, Y), X, Y)
    check(
        nm.grad(lambda x: nm.cond(x[0] > 0, lambda x: f(x, Y), lambda x: f(Y, x), x).sum()),
        oracle.grad(lambda x: jax.lax.cond(x[0] > 0, lambda x: g(x, Y), lambda x: g(Y, x), x).sum())(X),
        X,
    )


def test_reverse_rules() -> None:
    f, g = layer(nm.jax, nnp), layer(jax, jnp)
    ours, theirs = lambda x, w: (f(x, w) ** 2).sum(), lambda x, w: (g(x, w) ** 2).sum()
    check(nm.grad(ours, (0, 1)), oracle.grad(theirs, (0, 1))(A, W), A, W)
    second = oracle.jacrev(oracle.grad(theirs))(A, W)
    check(nm.hessian(ours, mode="rev_rev"), second, A, W)
    check(
        nm.grad(lambda m, w: nm.vmap(ours, (0, None))(m, w).sum(), (0, 1)),
        oracle.grad(lambda m, w: oracle.vmap(theirs, (0, None))(m, w).sum(), (0, 1))(MANY, W),
        MANY,
        W,
    )
    loop = lambda lib, f: lambda x, w: lib.fori_loop(0, 3, lambda _, c: f(c, w), x).sum()  # noqa: E731
    check(nm.grad(loop(nm, f), (0, 1)), oracle.grad(loop(jax.lax, g), (0, 1))(A, W), A, W)


def test_forward_mode_transposes_a_reverse_rule() -> None:
    f = layer(nm.jax, nnp)  # JAX refuses this
    expected = 1.25 * oracle.jvp(lambda x: jnp.tanh(x @ W), (A,), (A[::-1],))[1]
    check(lambda x, t: nm.jvp(lambda x: f(x, W), (x,), (t,))[1], expected, A, A[::-1])
    hessian = oracle.jacfwd(oracle.grad(lambda x: (jnp.tanh(x @ W) ** 2).sum()))
    ours = lambda x: (f(x, W) ** 2).sum()  # noqa: E731
    # The rule is 1.25 times the derivative wherever it is taken.
    exact = run_traced(nm.hessian(lambda x: (nnp.tanh(x @ W) ** 2).sum()), [A])
    np.testing.assert_allclose(exact, hessian(A), rtol=1e-9)
    second = oracle.jacrev(oracle.grad(lambda x: (layer(jax, jnp)(x, W) ** 2).sum()))(A)
    check(nm.hessian(ours), second, A)


def test_a_reverse_rule_that_is_not_linear() -> None:
    @nm.custom_vjp
    def clip_gradient(x: Any) -> Any:
        return x

    clip_gradient.defvjp(lambda x: (x, None), lambda _, ct: (nnp.clip(ct, -1.0, 1.0),))
    ours = lambda x: (clip_gradient(x) ** 2).sum()  # noqa: E731
    x = np.array([0.25, 3.0])
    check(nm.grad(ours), np.array([0.5, 1.0]), x)
    check(nm.hvp(ours), np.array([2.0, 0.0]), x, np.ones(2))
    with pytest.raises(errors.RuleMissingError, match=r"rule of clip_gradient requires a rule that is linear"):
        run_traced(lambda x: nm.jvp(clip_gradient, (x,), (x,))[1], [x])


def test_trees_integers_and_options() -> None:
    def make(lib: Any, xp: Any) -> Any:
        def f(power: Any, tree: Any, n: Any) -> Any:
            return {"y": power(tree["a"]) * n, "n": n + 1}

        f = lib.custom_vjp(f, nondiff_argnums=(0,))
        f.defvjp(
            lambda p, t, n: ({"y": p(t["a"]) * n, "n": n + 1}, (t, n)),
            lambda p, r, ct: ({"a": 7.0 * ct["y"] * r[1], "b": None if lib is nm else jnp.zeros(3)}, None),
        )
        return lambda a, n: f(lambda x: x**2, {"a": a, "b": a}, n)["y"].sum()

    n = np.int32(2)
    check(nm.grad(make(nm.jax, nnp)), oracle.grad(make(jax, jnp))(X, n), X, n)


def test_keyword_arguments_and_methods() -> None:
    class Scale:
        @nm.custom_jvp
        def double(self, x: Any, factor: Any = 2.0) -> Any:
            return x * factor

    Scale.double.nondiff_argnums = (0,)
    Scale.double.defjvp(lambda self, p, t: (p[0] * p[1], 5.0 * t[0]))
    check(nm.grad(lambda x: Scale().double(x, factor=3.0).sum()), np.full(3, 5.0), X)


def test_modules_keep_the_rules() -> None:
    f = scaled(nm.jax, nnp)
    text = str(nm.trace(lambda x, y: f(x, y), nm.spec(3, "f64"), nm.spec(3, "f64")))
    assert '"ad.custom_jvp"' in text
    again = nm.from_stablehlo(text)
    g = scaled(jax, jnp)
    check(nm.grad(lambda x, y: again(x, y).sum(), (0, 1)), oracle.grad(lambda x, y: g(x, y).sum(), (0, 1))(X, Y), X, Y)
    stopped = nm.from_stablehlo(str(nm.trace(lambda x: x * nm.stop_gradient(x), nm.spec(3, "f64"))))
    check(nm.grad(lambda x: stopped(x).sum()), X, X)


def test_rules_run_on_iree() -> None:
    f, g = layer(nm.jax, nnp), layer(jax, jnp)
    got = nm.jit(nm.grad(lambda x, w: (f(x, w) ** 2).sum(), (0, 1)))(A, W)
    for a, b in zip(got, oracle.grad(lambda x, w: (g(x, w) ** 2).sum(), (0, 1))(A, W), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def traced(f: Any, *specs: Any) -> None:
    nm.trace(f, *(specs or (nm.spec(3, "f64"),))).lower()


def test_errors() -> None:
    @nm.custom_jvp
    def f(x: Any) -> Any:
        return x * x

    with pytest.raises(errors.TraceError, match=r"custom_jvp requires a rule for f, got none"):
        traced(f)
    f.defjvp(lambda p, t: p[0])
    with pytest.raises(errors.TreeError, match=r"rule of f requires to return \(out, out_tangent\), got Tensor"):
        traced(f)
    f.defjvp(lambda p, t: (p[0].sum(), t[0]))
    with pytest.raises(errors.TreeError, match=r"value like that of the function, got float64\[\] instead of float64\[3\]"):
        traced(f)
    f.defjvp(lambda p, t: (p[0], t[0].sum()))
    with pytest.raises(errors.ShapeError, match=r"tangent requires the shape of its primal, got \(\) for \(3,\)"):
        traced(f)
    with pytest.raises(errors.TraceError, match=r"f requires its own arguments, got others"):
        traced(lambda x: f(x, x))
    f.defjvp(lambda p, t: (p[0], t[0] * t[0]))
    with pytest.raises(errors.RuleMissingError, match=r"rule of f requires a rule that is linear"):
        traced(nm.grad(lambda x: f(x).sum()))
    with pytest.raises(errors.TraceError, match=r"defjvps requires a function without nondiff_argnums, got \[0\]"):
        nm.custom_jvp(lambda n, x: x, nondiff_argnums=(0,)).defjvps(None)
    keyword = nm.custom_jvp(lambda x, *, k=1.0: x)
    keyword.defjvps(lambda t, out, x: t)
    with pytest.raises(errors.TraceError, match=r"requires arguments that can be given by position, got k"):
        traced(keyword)


def test_errors_of_reverse_rules() -> None:
    @nm.custom_vjp
    def f(x: Any) -> Any:
        return x * x

    with pytest.raises(errors.TraceError, match=r"custom_vjp requires a rule for f, got none"):
        traced(f)
    f.defvjp(lambda x: x, lambda r, ct: (ct,))
    with pytest.raises(errors.TreeError, match=r"requires fwd to return \(out, residuals\), got Tensor"):
        traced(f)
    f.defvjp(lambda x: (x, None), lambda r, ct: ct)
    with pytest.raises(errors.TreeError, match=r"requires bwd to return a tuple of 1 cotangents, got Tensor"):
        traced(f)
    f.defvjp(lambda x: (x, None), lambda r, ct: (ct, ct))
    with pytest.raises(errors.TreeError, match=r"requires bwd to return a tuple of 1 cotangents, got 2"):
        traced(f)


def test_values_from_outside_that_are_differentiated() -> None:
    def g(y: Any) -> Any:
        f = nm.custom_jvp(lambda x: x * y)
        f.defjvps(lambda t, out, x: t * y)
        return f(y).sum()

    with pytest.raises(errors.RuleMissingError, match=r"every value that is differentiated as an argument"):
        traced(nm.grad(g))


def test_a_rule_that_has_no_end() -> None:
    @nm.custom_jvp
    def f(x: Any) -> Any:
        return x * x

    f.defjvp(lambda p, t: (f(p[0]), nm.jvp(f, p, t)[1]))
    with pytest.raises(errors.RuleMissingError, match=r"differentiates the function it is the rule of has no end"):
        traced(f)
    f.defjvp(lambda p, t: (f(p[0]), nm.vmap(f)(nnp.stack([t[0], t[0]]))[0]))
    with pytest.raises(errors.RuleMissingError, match=r"call f on one entry at a time, got a call under vmap"):
        traced(nm.grad(lambda x: f(x).sum()))


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

    def backward(f: Any, kept: Any, ct: Any) -> Any:
        a, x = kept
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
            lambda x, w: (xp.sin(x) * w, (xp.floor(3 * x) + x, w)), lambda kept, ct: (ct * kept[0] * kept[1] * 1.3, ct * kept[0])
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
    """As in JAX: differentiated again, it is the code of `fwd`, whatever `bwd` says, and not the function with its rule."""

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
    """As above: the derivative of the value that a derivative returns is that of the code of the rule, wherever it is called."""

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


def test_linear_functions_with_a_transpose_of_their_own() -> None:
    """Which is none of theirs here: what is asked, and nothing else, tells the two apart."""
    x = np.array([1, 3], np.float32)

    def program(lib: Any) -> Any:
        there, back = lambda r, x: {"a": r["k"] * x}, lambda r, ct: 5 * r["k"] * ct["a"]
        f = lambda x: lib.custom_derivatives.linear_call(there, back, {"k": 2.0}, x)  # noqa: E731
        slope = lib.grad(lambda x: (f(x)["a"] ** 2).sum())
        transposed = lib.linear_transpose(f, x)
        again = lib.linear_transpose(lambda ct: transposed(ct)[0], {"a": x})
        return [
            f(x),
            lib.jit(f)(x),
            lib.jvp(f, (x,), (x,)),
            slope(x),
            lib.jvp(slope, (x,), (x,)),
            lib.grad(lambda x: (slope(x) ** 2).sum())(x),
            transposed({"a": x}),
            again(x),
        ]

    for got, wanted in zip(jax.tree.leaves(program(nm.jax)), jax.tree.leaves(program(jax)), strict=True):
        np.testing.assert_array_equal(got, wanted)
        assert got.dtype == wanted.dtype
    call = nm.jax.custom_derivatives.linear_call
    both = nm.grad(lambda r, x: call(lambda r, x: r * x, lambda r, ct: 5 * r * ct, r, x), (0, 1))
    rows = nm.vmap(both)(x, x)
    np.testing.assert_array_equal(rows, [[0, 0], 5 * x])  # no derivative by residuals, of which JAX makes an AssertionError


def test_values_of_functions_of_ours_ask_for_no_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    rule = bessel._i0e.rule
    monkeypatch.setattr(bessel._i0e, "rule", lambda *xs: asked.append(1) or rule(*xs))
    x = rng.normal(size=19)
    np.testing.assert_allclose(nnp.i0(x), np.i0(x), rtol=1e-14)
    assert not asked
    np.testing.assert_allclose(nm.grad(lambda x: nnp.i0(x).sum())(x), jax.vmap(jax.grad(jnp.i0))(x), rtol=1e-12)
    assert asked
