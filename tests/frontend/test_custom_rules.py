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
    of_f = lambda x: nm.jvp(f, (x,), (x,))  # noqa: E731  # a call without derivatives does not use the rule
    f.defjvp(lambda p, t: p[0])
    traced(f)
    with pytest.raises(errors.TreeError, match=r"rule of f requires to return \(out, out_tangent\), got Tensor"):
        traced(of_f)
    f.defjvp(lambda p, t: (p[0].sum(), t[0]))
    with pytest.raises(errors.TreeError, match=r"value like that of the function, got float64\[\] instead of float64\[3\]"):
        traced(of_f)
    f.defjvp(lambda p, t: (p[0], t[0].sum()))
    with pytest.raises(errors.ShapeError, match=r"tangent requires the shape of its primal, got \(\) for \(3,\)"):
        traced(of_f)
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
    of_f = nm.grad(lambda x: f(x).sum())
    f.defvjp(lambda x: x, lambda r, ct: (ct,))
    traced(f)
    with pytest.raises(errors.TreeError, match=r"requires fwd to return \(out, residuals\), got Tensor"):
        traced(of_f)
    f.defvjp(lambda x: (x, None), lambda r, ct: ct)
    with pytest.raises(errors.TreeError, match=r"requires bwd to return a tuple of 1 cotangents, got Tensor"):
        traced(of_f)
    f.defvjp(lambda x: (x, None), lambda r, ct: (ct, ct))
    with pytest.raises(errors.TreeError, match=r"requires bwd to return a tuple of 1 cotangents, got 2"):
        traced(of_f)


def test_values_from_outside_that_are_differentiated() -> None:
    def g(y: Any) -> Any:
        f = nm.custom_jvp(lambda x: x * y)
        f.defjvps(lambda t, out, x: t * y)
        return f(y).sum()

    for kind in (errors.RuleMissingError, nm.jax.errors.UnexpectedTracerError):
        with pytest.raises(kind, match=r"every value that is differentiated as an argument"):
            traced(nm.grad(g))


def test_a_partial_is_a_function_of_its_other_arguments() -> None:
    line = functools.partial(lambda x, y, a: x + y * a, a=0.5)
    f = nm.custom_jvp(line)
    f.defjvp(lambda p, t: nm.jvp(line, p, t))
    assert [float(x) for x in nm.grad(f, argnums=(0, 1))(1.0, 2.0)] == [1.0, 0.5]


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


def test_linear_functions_with_a_transpose_of_their_own() -> None:
    """The transpose is not the true one, so that a missing call of the rule is visible."""
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
    rule = bessel._near_i0e.rule
    monkeypatch.setattr(bessel._near_i0e, "rule", lambda *xs: asked.append(1) or rule(*xs))
    x = rng.normal(size=19)
    np.testing.assert_allclose(nnp.i0(x), np.i0(x), rtol=1e-14)
    assert not asked
    np.testing.assert_allclose(nm.grad(lambda x: nnp.i0(x).sum())(x), jax.vmap(jax.grad(jnp.i0))(x), rtol=1e-12)
    assert asked
