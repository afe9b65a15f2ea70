"""Flax NNX, Equinox, Optax and Diffrax through `nm.from_jax`: value, gradient and HVP by weights and inputs are JAX's, in f64."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

for package in ("flax", "equinox", "optax", "diffrax"):
    pytest.importorskip(package)

import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)  # before the tables are made

import diffrax
import equinox.internal
from jax_models import DIFFRAX, EQUINOX, FLAX, LINEAX, NARROW, OPTAX, OPTIMISTIX, linear, solve
from lineax import QR, SVD, MatrixLinearOperator, linear_solve

import nabla_mlir as nm
from nabla_mlir.base.errors import ImportIRError, RuleMissingError

TABLES = {"flax": FLAX, "equinox": EQUINOX, "optax": OPTAX, "diffrax": DIFFRAX, "lineax": LINEAX, "optimistix": OPTIMISTIX}
PAGE = (Path(__file__).parents[2] / "docs" / "frameworks.md").read_text()


@pytest.fixture(autouse=True)
def _interpreted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import equinox._errors

    monkeypatch.setattr(equinox._errors, "EQX_ON_ERROR", "nan")  # else each check of a solve is a callback to Python
    before = nm.set_execution("interpret")
    yield
    nm.set_execution(before)


def _floats(y: Any) -> list[Any]:
    return [a for a in jax.tree.leaves(y) if jnp.issubdtype(a.dtype, jnp.floating)]


def test_the_page_counts_them() -> None:
    assert all(f"{len(table)} of {name.capitalize()}" in PAGE for name, table in TABLES.items())


@pytest.mark.parametrize(("table", "name"), [(table, name) for table, cases in TABLES.items() for name in cases])
@pytest.mark.filterwarnings("ignore")
def test_models(table: str, name: str) -> None:
    f, weights, inputs = TABLES[table][name]()
    xs = [np.asarray(x) for x in inputs]
    wrt = [i for i, x in enumerate(xs) if x.dtype == np.float64]
    rng = np.random.default_rng(1)
    shapes = jax.eval_shape(lambda w, *xs: _floats(f(w, *xs)), weights, *xs)
    factors = [rng.normal(size=y.shape) for y in shapes]

    def loss(of: Any) -> Any:
        def value(weights: Any, active: Any) -> Any:
            point = list(xs)
            for i, x in zip(wrt, active, strict=True):
                point[i] = x
            results = of(weights, *point)
            return sum(((y * y * 0.5 + y) * c).sum() for y, c in zip(results, factors, strict=True)), results

        return value

    at = weights, [xs[i] for i in wrt]
    along = jax.tree.map(lambda x: rng.normal(size=x.shape), at)
    slopes = jax.grad(loss(lambda w, *xs: _floats(f(w, *xs))), (0, 1), has_aux=True)
    (gradient, values), (product, _) = jax.jit(lambda at, along: jax.jvp(slopes, at, along))(at, along)

    spec = lambda x: nm.spec(x.shape, str(x.dtype))  # noqa: E731
    imported = nm.from_jax(f, [spec(w) for w in weights], *map(spec, xs))

    def ours(weights: Any, *xs: Any) -> list[Any]:
        y = imported(*weights, *xs)
        return [y for y in (y if isinstance(y, tuple) else (y,)) if y.dtype.kind == "f"]

    own = nm.jvp(nm.grad(loss(ours), (0, 1), has_aux=True), at, along)
    rtol = 1e-5 if name in NARROW else 1e-9
    for got, wanted in ((own[0], (gradient, values)), (own[1][0], product)):
        for a, b in zip(jax.tree.leaves(jax.tree.map(np.asarray, got)), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(a, b, rtol=100 * rtol, atol=10 * rtol)


@pytest.mark.filterwarnings("ignore")
def test_a_pseudoinverse_is_differentiated_forward_and_refused_by_name_in_reverse() -> None:
    f, _, (m, b) = linear(SVD())()
    imported = nm.from_jax(lambda m, b: f([], m, b), nm.spec((4, 4), "f64"), nm.spec(4, "f64"))
    wanted = jax.jvp(lambda m: f([], m, b), (m,), (m @ m,))[1]
    np.testing.assert_allclose(nm.jvp(lambda m: imported(m, b), (m,), (m @ m,))[1], wanted, rtol=1e-10)
    with pytest.raises(RuleMissingError, match="the rule of linear_solve requires a rule that is linear"):
        nm.grad(lambda m: imported(m, b).sum())(m)


@pytest.mark.filterwarnings("ignore")
def test_callbacks_to_python_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import equinox._errors

    monkeypatch.setattr(equinox._errors, "EQX_ON_ERROR", "raise")
    end = solve(diffrax.Euler(), diffrax.DirectAdjoint(), max_steps=17)  # of which no other test has a trace
    with pytest.raises(ImportIRError, match=r"without callbacks to Python, got .*callback(.|\n)*EQX_ON_ERROR=nan"):
        nm.from_jax(end, nm.spec(2, "f64"), nm.spec((), "f64"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("checkpoints", "steps"), [(None, 16), (3, None)])
def test_the_default_adjoint_of_diffrax_has_derivatives_of_both_modes_and_orders(checkpoints: Any, steps: Any) -> None:
    """Also those that JAX refuses, forward mode and HVP; there its other adjoint gives the numbers."""
    chosen = diffrax.PIDController(1e-2, 1e-3)
    recursive = solve(diffrax.Heun(), diffrax.RecursiveCheckpointAdjoint(checkpoints), chosen, steps)
    direct = solve(diffrax.Heun(), diffrax.DirectAdjoint(), chosen, 16)
    imported = nm.from_jax(recursive, nm.spec(2, "f64"), nm.spec((), "f64"))
    at = np.array([0.7, -0.4]), np.array(0.7)

    def slopes(system: Any, f: Any) -> Any:
        return system.grad(lambda y, a: (f(y, a) ** 2).sum(), (0, 1))

    pairs = [
        (slopes(nm, imported)(*at), slopes(jax, recursive)(*at)),
        (nm.jvp(imported, at, at)[1], jax.jvp(direct, at, at)[1]),
        (nm.jvp(slopes(nm, imported), at, at)[1], jax.jvp(slopes(jax, direct), at, at)[1]),
    ]
    for ours, theirs in pairs:
        for a, b in zip(jax.tree.leaves(jax.tree.map(np.asarray, ours)), jax.tree.leaves(theirs), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("solver", [diffrax.Tsit5(), diffrax.Dopri8()], ids=["Tsit5", "Dopri8"])
def test_the_usual_solve_of_diffrax(solver: Any) -> None:
    """With the defaults of its manual: the loops of the gradient are compiled, and IREE's code for them is mended."""
    f = solve(solver, diffrax.RecursiveCheckpointAdjoint(), diffrax.PIDController(1e-6, 1e-8), 4096)
    at = np.array([0.7, -0.4]), np.array(0.7)
    imported = nm.from_jax(f, nm.spec(2, "f64"), nm.spec((), "f64"))
    ours, theirs = (system.grad(lambda y, a, g=g: (g(y, a) ** 2).sum(), (0, 1))(*at) for system, g in ((nm, imported), (jax, f)))
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_adjoint_equation_of_diffrax_gives_its_own_gradient_not_that_of_the_steps() -> None:
    f, at = solve(diffrax.Euler(), diffrax.BacksolveAdjoint()), (np.array([0.7, -0.4]), np.array(0.7))
    imported = nm.from_jax(f, nm.spec(2, "f64"), nm.spec((), "f64"))
    of_steps = jax.grad(lambda y, a: (solve(diffrax.Euler(), diffrax.DirectAdjoint())(y, a) ** 2).sum(), (0, 1))(*at)
    ours = nm.grad(lambda y, a: (imported(y, a) ** 2).sum(), (0, 1))(*at)
    for a, b, other in zip(ours, jax.grad(lambda y, a: (f(y, a) ** 2).sum(), (0, 1))(*at), of_steps, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
        assert abs(np.asarray(a) - other).max() > 1e-3


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_steady_state_of_diffrax_is_differentiated_forward_and_refused_by_name_in_reverse() -> None:
    def steady(a: Any) -> Any:
        term = diffrax.ODETerm(lambda t, y, a: jnp.stack([y[1] - y[0], a * (1 - y[0]) - 2 * y[1]]))
        still = diffrax.Event(diffrax.steady_state_event(1e-4, 1e-4))
        options = {
            "stepsize_controller": diffrax.PIDController(1e-3, 1e-5),
            "adjoint": diffrax.ImplicitAdjoint(),
            "max_steps": None,
        }
        return diffrax.diffeqsolve(term, diffrax.Tsit5(), 0.0, jnp.inf, 0.1, jnp.ones(2), args=a, event=still, **options).ys

    a = np.array(0.7)
    imported = nm.from_jax(steady, nm.spec((), "f64"))
    np.testing.assert_allclose(imported(a), steady(a), rtol=1e-12)
    np.testing.assert_allclose(
        nm.jvp(imported, (a,), (np.ones(()),))[1], np.full((1, 2), 2 / (a + 2) ** 2), rtol=1e-4
    )  # of a / (a + 2)
    with pytest.raises(RuleMissingError, match="requires a rule that is linear in its tangents"):
        nm.grad(lambda a: imported(a).sum())(a)


@pytest.mark.filterwarnings("ignore")
def test_what_equinox_declares_to_have_no_derivative_is_refused_by_name_where_it_has_a_tangent() -> None:
    f = lambda x, y: equinox.internal.nondifferentiable(x, name="x") * y  # noqa: E731
    imported = nm.from_jax(f, nm.spec((), "f64"), nm.spec((), "f64"))
    at = np.array(2.0), np.array(3.0)
    assert float(nm.grad(imported, 1)(*at)) == 2.0
    with pytest.raises(RuleMissingError, match=r"the rule of _nondifferentiable, .* Unexpected tangent\. x cannot"):
        nm.grad(imported)(*at)


@pytest.mark.filterwarnings("ignore")
def test_a_solve_that_comes_again_is_imported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from nabla_mlir.interop.jax_rules import Importer

    parts: list[Any] = []
    own = Importer.module
    monkeypatch.setattr(Importer, "module", lambda self, part: parts.append(part) or own(self, part))
    rng = np.random.default_rng(0)
    m, b = rng.normal(size=(5, 3)), rng.normal(size=5)

    def least_squares(count: int) -> Any:
        def f(m: Any, b: Any) -> Any:
            operator = MatrixLinearOperator(m)
            return sum((i + 1.0) * linear_solve(operator, b * b**i, QR()).value.sum() for i in range(count))

        return f

    sizes = []
    for count in (1, 3):
        parts.clear()
        f = nm.from_jax(least_squares(count), m, b)
        sizes.append(len(parts))
        wanted = jax.jvp(least_squares(count), (m, b), (m * m, b * b))[1]
        np.testing.assert_allclose(nm.jvp(f, (m, b), (m * m, b * b))[1], wanted, rtol=1e-10)
    assert sizes[1] - sizes[0] < 2 * (sizes[0] - 1)  # else the program and three times what a solve is made of
