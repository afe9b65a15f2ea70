"""A function that JAX differentiates by a rule keeps the rule when it is imported: values, gradients and second derivatives against JAX."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import nabla_mlir as nm
from nabla_mlir.base.errors import ImportIRError, RuleMissingError

pytestmark = pytest.mark.slow

X = np.array([0.3, -0.7, 1.2])
V = np.array([1.5, 0.4, -0.8])


@pytest.fixture(autouse=True)
def wide() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


# ---------------------------------------------------------------- functions whose rules are not their derivatives


@jax.custom_jvp
def tripled(x: Any) -> Any:
    """x², with 3 x in place of 2 x."""
    return x * x


tripled.defjvps(lambda t, y, x: 3.0 * t * y / x)  # which calls the function again


@jax.custom_vjp
def crossed(x: Any, y: Any) -> Any:
    return jnp.sin(x) * y


crossed.defvjp(lambda x, y: (crossed(x, y), (x, y)), lambda stored, ct: (ct * stored[0] * 5, ct * jnp.cos(stored[1])))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def power(n: int, x: Any) -> Any:
    return x * 1.0


@power.defjvp
def power_jvp(n: int, primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return power(n, x), n * t * (power(n - 1, x) if n else x)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def scaled(k: float, x: Any) -> Any:
    return x**2


scaled.defvjp(lambda k, x: (x**2, x), lambda k, x, ct: (k * ct * x,))


@jax.custom_jvp
def mixed(p: Any, n: Any) -> Any:
    """A function of a tree and an integer."""
    return {"y": p["x"] * n, "n": n + 1}


@mixed.defjvp
def mixed_jvp(primals: Any, tangents: Any) -> Any:
    out = mixed(*primals)
    return out, {"y": 7.0 * tangents[0]["x"] * primals[1], "n": tangents[1]}


@jax.custom_vjp
def chosen(x: Any, n: Any) -> Any:
    return x[n], n + 1


chosen.defvjp(
    lambda x, n: (chosen(x, n), (x, n)), lambda stored, cts: (jnp.zeros(3).at[stored[1]].set(cts[0] * 11 * stored[0][0]), None)
)


@functools.partial(jax.custom_jvp)
def aware(x: Any, y: Any) -> Any:
    return x * y


aware.defjvp(
    lambda primals, tangents: (
        aware(*primals),
        sum(
            (t * 2.0 * p for t, p in zip(tangents, primals, strict=True) if not isinstance(t, jax.custom_derivatives.SymbolicZero)),
            0.0 * primals[0],
        ),
    ),
    symbolic_zeros=True,
)


@jax.custom_jvp
def nested(x: Any) -> Any:
    return tripled(jnp.sin(x))


nested.defjvp(lambda primals, tangents: (nested(*primals), tripled(primals[0]) * tangents[0] * jnp.exp(nested(primals[0]))))

HIDDEN = jnp.array([2.0, 3.0, 5.0])


@jax.custom_vjp
def with_constants(x: Any) -> Any:
    return x * HIDDEN


with_constants.defvjp(lambda x: (x * HIDDEN, x), lambda x, ct: (ct * HIDDEN[::-1] * x,))


@jax.jit
def jitted(x: Any) -> Any:
    return tripled(x) + tripled(tripled(x))


def newton(f: Any, guess: Any) -> Any:
    return lax.fori_loop(0, 40, lambda _, y: y - f(y) / jax.jvp(f, (y,), (1.0,))[1], guess)


def system(x: Any) -> Any:
    return jnp.outer(x, x) + jnp.diag(jnp.array([1.0, 2.0, 3.0])) + jnp.triu(jnp.sin(x) + 0 * jnp.outer(x, x))


def loose(x: Any) -> Any:
    """A solver that ends far from the solution: its derivative is that of the system all the same."""
    return lax.custom_linear_solve(lambda v: system(x) @ v, x, lambda _, b: b / 2.0, lambda _, b: b / 3.0)


FORWARD: dict[str, Callable[..., Any]] = {
    "calls itself": lambda x: tripled(x).sum(),
    "jit": lambda x: (jitted(x) * jax.jit(jitted)(x + 1)).sum(),
    "vmap": lambda x: (jax.vmap(tripled)(x) * jax.vmap(lambda a, b: aware(a, b[0]), (0, None))(x, x)).sum(),
    "branches": lambda x: lax.cond(x[0] > 0, lambda x: tripled(x).sum() * x[0], lambda x: x.sum(), x),
    "switch": lambda x: lax.switch(1, [jnp.sum, lambda x: nested(x).sum() ** 2, jnp.max], x),
    "tree and integer": lambda x: jax.vmap(lambda x, n: mixed({"x": x}, n)["y"])(x**2, jnp.arange(3)).sum(),
    "within a rule": lambda x: (nested(x) * x).sum(),
    "options": lambda x: (power(3, x) * x).sum(),
    "stop_gradient": lambda x: (lax.stop_gradient(x**2) * x**3).sum(),
    "symbolic zeros": lambda x: aware(x, lax.stop_gradient(x)).sum() * aware(x[0], 2.0),
    "gradient": lambda x: (jax.grad(lambda x: (tripled(x) * x).sum())(x) ** 2).sum(),
    "relu, softplus": lambda x: (jax.nn.relu(x) * jax.nn.softplus(x) * jax.nn.silu(x) * jax.nn.gelu(x) * jax.nn.relu6(x)).sum(),
    "logsumexp": lambda x: jax.nn.logsumexp(x) * jax.nn.softmax(x)[1] * jnp.logaddexp(x[0], x[1]) * jnp.linalg.norm(x),
    "solve": lambda x: (jnp.linalg.solve(system(x), x) ** 2).sum() * jnp.linalg.inv(system(x))[0, 1],
    "cg": lambda x: jax.scipy.sparse.linalg.cg(lambda v: (system(x) @ system(x).T) @ v, x)[0][0],
    "root": lambda x: lax.custom_root(lambda y: y**3 - x[0] * y - 2 - x[1], 1.0, newton, lambda g, y: y / g(1.0)) * x[2],
    "sinc, gamma": lambda x: (jnp.sinc(x) * jax.scipy.special.gammaln(jnp.abs(x)) * jax.scipy.special.xlogy(x**2, x**2)).sum(),
    "checkpoint": lambda x: jax.checkpoint(lambda x: (tripled(x) * nested(x)).sum())(x),
}

REVERSE: dict[str, Callable[..., Any]] = {
    "custom_vjp": lambda x: (crossed(x, x * 2) * x).sum(),
    "vjp in vmap": lambda x: (jax.vmap(crossed, (0, None))(x, x[0]) * x).sum(),
    "vjp with options": lambda x: (scaled(3.0, x) * scaled(5.0, x)).sum(),
    "vjp with an integer": lambda x: chosen(x**2, 1)[0] * x[0],
    "vjp with constants": lambda x: (with_constants(x) * x).sum(),
    "vjp in branches": lambda x: lax.cond(x[0] > 5, lambda x: x.sum(), lambda x: (crossed(x, x**2) * x).sum(), x),
}


def jax_hvp(f: Callable[..., Any], x: Any) -> Any:
    return jax.grad(lambda x: jax.grad(f)(x) @ V)(x)


@pytest.mark.parametrize("name", [*FORWARD, *REVERSE])
def test_rules_are_imported(name: str) -> None:
    theirs = (FORWARD | REVERSE)[name]
    rows = np.stack([X, 2 * X[::-1]])

    @jax.jit
    def expected(x: Any, rows: Any) -> list[Any]:
        first = [theirs(x), jax.grad(theirs)(x), jax_hvp(theirs, x), jax.vmap(jax.grad(theirs))(rows)]
        return first if name in REVERSE else [*first, jax.jvp(theirs, (x,), (V,))[1], jax.jacfwd(jax.jacfwd(theirs))(x)]

    ours = nm.from_jax(theirs, X)
    second = nm.hvp(ours)(X, V) if name in FORWARD else nm.grad(lambda x: nm.grad(ours)(x) @ V)(X)
    got = [ours(X), nm.grad(ours)(X), second, nm.vmap(nm.grad(ours))(rows)]
    if name in FORWARD:
        got += [nm.jvp(ours, (X,), (V,))[1], nm.jacfwd(nm.jacfwd(ours))(X)]
    for mine, other in zip(got, expected(X, rows), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-12)


LOOPS: dict[str, Callable[..., Any]] = {
    "scan": lambda x: lax.scan(lambda c, row: (c * tripled(row) + jnp.sin(c), c), 1.0, x)[0],
    "fori_loop": lambda x: lax.fori_loop(0, 3, lambda _, c: tripled(c) * 0.5 + x, x).sum(),
}


@pytest.mark.parametrize("name", LOOPS)
def test_rules_in_loops(name: str) -> None:
    """Second derivatives in reverse mode are compared with forward mode: JAX 0.10 drops such a rule from a gradient in a loop."""
    theirs = LOOPS[name]
    ours = nm.from_jax(theirs, X)
    np.testing.assert_allclose(ours(X), theirs(X), rtol=1e-12)
    np.testing.assert_allclose(nm.grad(ours)(X), jax.grad(theirs)(X), rtol=1e-12)
    second = jax.jacfwd(jax.jacfwd(theirs))(X)
    np.testing.assert_allclose(nm.hessian(ours)(X), second, rtol=1e-10)
    np.testing.assert_allclose(nm.jacrev(nm.grad(ours))(X), second, rtol=1e-10)


def test_while_loops_in_forward_mode() -> None:
    theirs = lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, tripled(c[1]) + x), (0, x))[1].sum()  # noqa: E731
    ours = nm.from_jax(theirs, X)
    np.testing.assert_allclose(nm.jvp(ours, (X,), (V,))[1], jax.jvp(theirs, (X,), (V,))[1], rtol=1e-12)
    np.testing.assert_allclose(nm.grad(ours)(X), jax.jacfwd(theirs)(X), rtol=1e-12)


@pytest.mark.parametrize("second", [nm.hvp, None], ids=["forward over reverse", "reverse over reverse"])
def test_a_reverse_rule_that_is_a_factor_in_a_loop(second: Any) -> None:
    """A tape that stored the result of such a call named a value that was no more."""
    theirs = lambda x: lax.scan(lambda c, row: (c * crossed(row, c), c), 1.0, x)[0]  # noqa: E731
    ours = nm.from_jax(theirs, X)
    np.testing.assert_allclose(nm.grad(ours)(X), jax.grad(theirs)(X), rtol=1e-12)
    got = nm.hvp(ours)(X, V) if second else nm.grad(lambda x: nm.grad(ours)(x) @ V)(X)
    np.testing.assert_allclose(got, jax_hvp(theirs, X), rtol=1e-10)


def test_complex_arguments() -> None:
    @jax.custom_vjp
    def f(z: Any) -> Any:
        return jnp.abs(z * z).sum()

    f.defvjp(lambda z: (f(z), z), lambda z, ct: (ct * 3.0 * z.conj(),))
    theirs = lambda x: f(x + 1j * V) * x[0]  # noqa: E731
    np.testing.assert_allclose(nm.grad(nm.from_jax(theirs, X))(X), jax.grad(theirs)(X), rtol=1e-12)


def test_a_solver_may_say_more_than_the_solution() -> None:
    def theirs(x: Any) -> Any:
        solve = lambda matvec, b: (jnp.linalg.solve(system(x), b), b.sum())  # noqa: E731
        y, more = lax.custom_linear_solve(lambda v: system(x) @ v, x, solve, has_aux=True)
        return y[0] + 10.0 * more

    ours = nm.from_jax(theirs, X)
    np.testing.assert_allclose(ours(X), theirs(X), rtol=1e-12)
    np.testing.assert_allclose(nm.jvp(ours, (X,), (V,))[1], jax.jvp(theirs, (X,), (V,))[1], rtol=1e-10)
    with pytest.raises(RuleMissingError, match="no solver of the transposed system"):
        nm.grad(ours)(X)


def test_the_solution_is_differentiated_implicitly() -> None:
    ours = nm.from_jax(lambda x: loose(x).sum(), X)
    np.testing.assert_allclose(nm.grad(ours)(X), jax.grad(lambda x: loose(x).sum())(X), rtol=1e-12)
    np.testing.assert_allclose(nm.jvp(ours, (X,), (V,))[1], jax.jvp(lambda x: loose(x).sum(), (X,), (V,))[1], rtol=1e-12)


def test_what_cannot_be_imported_is_refused() -> None:
    doubled = lambda x: jax.custom_derivatives.linear_call(lambda r, x: r * x, lambda r, ct: 5 * r * ct, 2.0, x)  # noqa: E731
    with pytest.raises(ImportIRError, match="without a rule for transposition"):
        nm.from_jax(doubled, X)

    def endless(n: int) -> Any:
        f = jax.custom_jvp(lambda x: x * n)
        f.defjvp(lambda primals, tangents: (f(*primals), endless(n + 1)(primals[0]) * tangents[0]))
        return f


def test_what_has_no_rule_that_can_be_imported_is_refused_when_it_is_differentiated() -> None:
    def endless(n: int) -> Any:
        f = jax.custom_jvp(lambda x: x * n)
        f.defjvp(lambda primals, tangents: (f(*primals), endless(n + 1)(primals[0]) * tangents[0]))
        return f

    def failing(x: Any) -> Any:
        raise ValueError("not this one")

    wrong = jax.custom_vjp(lambda x: x * 2.0)
    wrong.defvjp(failing, failing)
    f, x = nm.from_jax(endless(2), X), X
    np.testing.assert_allclose(nm.jacfwd(nm.jacfwd(f))(X), jax.jacfwd(jax.jacfwd(endless(2)))(X))
    g = nm.from_jax(wrong, X)
    np.testing.assert_allclose(nm.vmap(g)(np.stack([x, x])), [2 * x, 2 * x])
    for mode in (lambda: nm.jvp(g, (x,), (x,)), lambda: nm.grad(lambda x: g(x).sum())(x)):
        with pytest.raises(RuleMissingError, match=r"the rule of .*lambda.*cannot be imported: not this one"):
            mode()


def test_a_value_from_outside_is_no_argument_of_the_rule() -> None:

    def theirs(x: Any) -> Any:
        f = jax.custom_vjp(lambda y: x * y)
        f.defvjp(lambda y: (x * y, None), lambda _, ct: (ct,))
        return f(jnp.sin(x)).sum()

    ours = nm.from_jax(jax.jit(theirs), X)
    np.testing.assert_allclose(ours(X), theirs(X), rtol=1e-12)
    with pytest.raises(RuleMissingError, match="requires every value that is differentiated as an argument"):
        nm.grad(ours)(X)


def test_a_loop_in_a_reverse_rule_in_forward_mode() -> None:
    """Its transpose replaces the loop by one with tapes, which the rule is made of from then on."""
    f = jax.custom_vjp(lambda x: jnp.sin(x))
    stored = lambda x, ct: (lax.fori_loop(0, 3, lambda _, c: c * jnp.cos(x), ct),)  # noqa: E731
    f.defvjp(lambda x: (jnp.sin(x), x), stored)
    ours = nm.from_jax(lambda x: (f(x) ** 2).sum(), X)
    slope = np.cos(X) ** 3
    np.testing.assert_allclose(nm.jvp(ours, (X,), (V,))[1], 2 * np.sin(X) * slope @ V, rtol=1e-12)
    curvature = 2 * np.cos(X) ** 4 - 6 * np.cos(X) ** 2 * np.sin(X) ** 2  # of 2 sin cos³: the value is differentiated as fwd says
    np.testing.assert_allclose(nm.hvp(ours)(X, V), curvature * V, rtol=1e-10)


SPECIAL: dict[str, Callable[..., Any]] = {
    "gammainc": lambda x: jax.scipy.special.gammainc(x, 1.2).sum() * jax.scipy.special.gammaincc(1.7, x)[0],
    "cumlogsumexp": lambda x: (lax.cumlogsumexp(x) * V).sum(),
}
SAMPLES: dict[str, Callable[..., Any]] = {
    "gamma": lambda x: (jax.random.gamma(jax.random.key(0), x, dtype="float64") * V).sum(),
    "dirichlet": lambda x: (jax.random.dirichlet(jax.random.key(2), x, dtype="float64") * V).sum(),
}


@pytest.mark.parametrize("name", [*SPECIAL, *(pytest.param(name, marks=pytest.mark.slow) for name in SAMPLES)])
def test_primitives_that_are_differentiated_by_a_formula(name: str) -> None:
    """A sample that was accepted does not say how it depends on the shape of its distribution."""
    theirs, x = (SPECIAL | SAMPLES)[name], np.abs(X)
    value, gradient = nm.jit(nm.value_and_grad(nm.from_jax(theirs, x)))(x)
    np.testing.assert_allclose(value, theirs(x), rtol=1e-12)
    np.testing.assert_allclose(gradient, jax.jit(jax.grad(theirs))(x), rtol=1e-9)


@pytest.mark.parametrize("name", SPECIAL)
def test_second_derivatives_of_a_formula(name: str) -> None:
    theirs, x = SPECIAL[name], np.abs(X)
    got = nm.jvp(nm.grad(nm.from_jax(theirs, x)), (x,), (V,))[1]
    h = 1e-5
    np.testing.assert_allclose(got, (jax.grad(theirs)(x + h * V) - jax.grad(theirs)(x - h * V)) / (2 * h), rtol=1e-6)


def test_a_rule_is_known_again_where_jax_has_taken_results_out_of_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not then, it was imported in itself six deep: 1,041 modules for a solver of Optimistix, and 513 now."""
    from jax._src.core import eval_jaxpr
    from jax._src.interpreters.partial_eval import dce_jaxpr

    from nabla_mlir.interop.jax_rules import Importer

    @jax.custom_jvp
    def pair(x: Any) -> Any:
        return jnp.sin(x), x * 2.0

    @pair.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        first, second = pair(*primals)
        return (first, second), (pair(*tangents)[1] * 3.0, tangents[0])

    whole = jax.make_jaxpr(pair)(X)
    part, _ = dce_jaxpr(whole.jaxpr, [False, True])
    f = lambda x: eval_jaxpr(part, whole.consts, x)[0].sum()  # noqa: E731
    modules, lowered = [], Importer._lowered
    monkeypatch.setattr(Importer, "_lowered", lambda self, part: modules.append(part) or lowered(self, part))
    imported = nm.from_jax(f, nm.spec(3, "f64"))
    assert len(modules) <= 3
    np.testing.assert_allclose(nm.grad(imported)(X), jax.grad(f)(X), rtol=1e-12)


def test_a_rule_may_call_what_applies_a_function() -> None:
    """The comparator of `approx_max_k` is a function of the rule's own module."""

    @jax.custom_jvp
    def largest(x: Any) -> Any:
        return lax.approx_max_k(x, 2)[0]

    largest.defjvp(lambda xs, ts: (largest(*xs), lax.approx_max_k(xs[0], 2)[0] * ts[0][:2]))
    f = lambda x: jnp.sum(largest(jnp.sin(x)))  # noqa: E731
    np.testing.assert_allclose(nm.grad(nm.from_jax(f, X))(X), jax.grad(f)(X), rtol=1e-12)
