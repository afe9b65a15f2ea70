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
from jax_models import DIFFRAX, EQUINOX, FLAX, LINEAX, NARROW, OPTAX, OPTIMISTIX, linear, noisy, solve
from lineax import SVD

import nabla_mlir as nm
from nabla_mlir.errors import ImportIRError, RuleMissingError

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
def test_paths_of_noise_have_values_and_their_derivatives_are_refused_by_name() -> None:
    imported = nm.from_jax(noisy, nm.spec((), "f64"))
    np.testing.assert_allclose(imported(np.array(0.6)), jax.jit(noisy)(0.6), rtol=1e-12)
    with pytest.raises(RuleMissingError, match="the rule of _nondifferentiable, which cannot be imported: Unexpected tangent"):
        nm.grad(lambda y: imported(y).sum())(np.array(0.6))
