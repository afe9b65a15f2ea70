"""Functions of ours as Ops of PyTensor: its own checks of gradients, and models of PyMC sampled beside PyMC's own gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import DtypeError, ShapeError

pytensor = pytest.importorskip("pytensor")
CXX, pytensor.config.cxx = (
    pytensor.config.cxx,
    "",
)  # what PyTensor computes is compiled where models are sampled, not where it is little
pm = pytest.importorskip("pymc")
cloudpickle = pytest.importorskip("cloudpickle")

import pytensor.tensor as pt
from pytensor.gradient import Rop, hessian, hessian_vector_product, verify_grad
from pytensor.graph.replace import vectorize_graph
from test_samplers import ERRORS, SCHOOLS, check_moments, split_r_hat

function = nm.interop.pytensor.function
RNG = np.random.default_rng(0)


def energy(xp: Any) -> Callable[..., Any]:
    def f(p: Any, scale: Any, count: Any) -> Any:
        values = xp.tanh(xp.dot(p["w"], p["b"])) * scale
        return {"sum": (values**2).sum() * count, "values": values}

    return f


def variables() -> tuple[list[Any], list[np.ndarray]]:
    shapes = {"w": (3, 2), "b": (2,), "scale": (3,)}
    symbols = [pt.tensor(name, shape=shape, dtype="float64") for name, shape in shapes.items()]
    return symbols, [RNG.normal(size=shape) for shape in shapes.values()]


def both(symbols: list[Any]) -> list[dict[str, Any]]:
    """The function of ours, and of PyTensor."""
    w, b, scale = symbols
    return [f({"w": w, "b": b}, scale, 3) for f in (function(energy(nnp)), energy(pt))]


def test_values_gradients_and_products_are_pytensor_s() -> None:
    symbols, values = variables()
    outcomes = []
    for y in both(symbols):
        total = y["sum"] + (y["values"] * [1.0, 2.0, 3.0]).sum()
        vectors = [pt.constant(np.cos(x)) for x in values]
        outputs = [y["sum"], y["values"], *pytensor.grad(total, symbols), *hessian_vector_product(total, symbols, vectors)]
        outputs += [Rop(y["values"], symbols, vectors), Rop(y["sum"], symbols[1], vectors[1]), hessian(total, symbols[1])]
        outcomes.append(pytensor.function(symbols, outputs)(*values))
    for ours, theirs in zip(*outcomes, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-12)


def test_verify_grad() -> None:
    _, values = variables()
    f = function(energy(nnp))
    scalar = lambda w, b, scale: f({"w": w, "b": b}, scale, 2)["sum"]  # noqa: E731
    verify_grad(scalar, values, rng=RNG)
    verify_grad(lambda w, b, scale: pytensor.grad(scalar(w, b, scale), b), values, rng=RNG)


def test_maps() -> None:
    symbols, values = variables()
    w, b, scale = symbols
    rows = {
        b: pt.tensor("rows", shape=(None, None, 2), dtype="float64"),
        w: pt.tensor("matrices", shape=(None, 1, 3, 2), dtype="float64"),
    }
    stacks = [RNG.normal(size=(2, 4, 2)), RNG.normal(size=(2, 1, 3, 2))]
    outcomes = []
    for y in both(symbols):
        many = vectorize_graph([y["values"], pytensor.grad(y["sum"], b)], rows)
        outcomes.append(pytensor.function([*rows.values(), scale], many)(*stacks, values[2]))
    for ours, theirs in zip(*outcomes, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-11)


def test_lengths_that_change_and_integers() -> None:
    rows = pytensor.shared(RNG.normal(size=(4, 2)))
    labels, w = pt.constant(np.array([0, 1, 1, 0])), pt.vector("w", shape=(2,), dtype="float64")
    f = function(lambda w, rows: ((rows @ w) ** 2).sum())
    g = function(lambda w, k: w[k].sum())
    slope = pytensor.function([w], pytensor.grad(f(w, rows) + g(w, labels), w))
    for n in (4, 7):
        rows.set_value(RNG.normal(size=(n, 2)))
        x = rows.get_value()
        np.testing.assert_allclose(slope(np.ones(2)), 2 * x.T @ x @ np.ones(2) + 2.0, rtol=1e-12)


def test_an_op_travels() -> None:
    symbols, values = variables()
    y = both(symbols)[0]["sum"]
    slope = pytensor.function(symbols, pytensor.grad(y, symbols[1]))
    np.testing.assert_array_equal(cloudpickle.loads(cloudpickle.dumps(slope))(*values), slope(*values))


def test_errors() -> None:
    f = function(lambda x: x.sum())
    with pytest.raises(ShapeError, match=r"function requires arrays of known lengths, got x of shape \(None,\)\."):
        f(pt.vector("x"))
    with pytest.raises(DtypeError, match=r"function requires real variables of PyTensor, arrays and numbers, got str"):
        f("x")
    with pytest.raises(DtypeError, match=r"got an array of complex128"):
        f(pt.zvector("z"))
    rows = pytensor.shared(np.ones((3, 2)))
    g = pytensor.function([], function(lambda x: x if x.shape[0] == 3 else x.sum())(rows))
    rows.set_value(np.ones((2, 2)))
    with pytest.raises(ShapeError, match="requires results of the ranks that they had when the graph was made, got 0 for 2"):
        g()


# ---------------------------------------------------------------- PyMC


def eight_schools(likelihood: Callable[..., Any]) -> Any:
    """Priors of PyMC, and a likelihood."""
    with pm.Model() as model:
        mu, tau, eta = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5), pm.Normal("eta", shape=8)
        pm.Potential("y", likelihood(mu, tau, eta))
    return model


def normal(mu: Any, tau: Any, eta: Any) -> Any:
    return -0.5 * (((SCHOOLS - mu - tau * eta) / ERRORS) ** 2).sum()


X = np.random.default_rng(5).normal(size=(60, 3))
LABELS = np.random.default_rng(6).uniform(size=60) < 1 / (1 + np.exp(-X @ [1.0, -2.0, 0.5]))


def regression(is_ours: bool) -> Any:
    """Logistic, with what is observed by a density of its own."""

    def log_likelihood(xp: Any) -> Callable[..., Any]:
        return lambda labels, w: -xp.log1p(xp.exp(-(2.0 * labels - 1.0) * xp.dot(X, w)))

    ours = function(log_likelihood(nnp))
    with pm.Model() as model:
        w = pm.Normal("w", 0, 2, shape=3)
        pm.CustomDist("labels", w, logp=ours if is_ours else log_likelihood(pt), observed=LABELS.astype(float))
    return model


def derivatives(model: Any) -> list[Any]:
    outputs = [model.logp(), model.dlogp(), model.d2logp()]
    compiled = model.compile_fn(outputs, inputs=model.value_vars, point_fn=True, on_unused_input="ignore")
    point = model.initial_point()
    rng = np.random.default_rng(3)
    return compiled({name: np.asarray(x + rng.normal(size=np.shape(x))) for name, x in point.items()})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "models",
    [
        (lambda: eight_schools(function(normal)), lambda: eight_schools(normal)),
        (lambda: regression(True), lambda: regression(False)),
    ],
)
def test_derivatives_of_models_are_pymc_s(models: Any) -> None:
    for ours, theirs in zip(*(derivatives(make()) for make in models), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)


def sample(model: Any, draws: int = 500, cores: int = 1, **options: Any) -> Any:
    with model, pytensor.config.change_flags(cxx=CXX):
        return pm.sample(
            draws, tune=300, chains=2, cores=cores, random_seed=7, progressbar=False, compute_convergence_checks=False, **options
        ).posterior


@pytest.mark.filterwarnings("ignore")
def test_eight_schools() -> None:
    ours, theirs = (sample(eight_schools(f)) for f in (function(normal, target=nm.CPU()), normal))
    mu, tau = np.asarray(ours["mu"]), np.asarray(ours["tau"])
    assert max(split_r_hat(mu), split_r_hat(tau)) < 1.05
    check_moments(mu, tau)
    for name in ("mu", "tau", "eta"):
        assert float(ours[name].mean()) == pytest.approx(float(theirs[name].mean()), abs=0.35 * float(theirs[name].std()))


@pytest.mark.filterwarnings("ignore")
def test_logistic_regression() -> None:
    ours, theirs = (sample(regression(is_ours))["w"] for is_ours in (True, False))
    for i in range(3):
        assert split_r_hat(np.asarray(ours[..., i])) < 1.05
        assert float(ours[..., i].mean()) == pytest.approx(float(theirs[..., i].mean()), abs=0.25 * float(theirs[..., i].std()))
        assert float(ours[..., i].std()) == pytest.approx(float(theirs[..., i].std()), rel=0.2)


@pytest.mark.filterwarnings("ignore")
def test_chains_in_processes_of_their_own_draw_what_they_draw_in_one() -> None:
    """The model goes there with our Op in it, which is compiled again."""
    model = eight_schools(function(normal, target=nm.CPU()))
    alone, apart = (sample(model, 40, cores) for cores in (1, 2))
    for name in ("mu", "tau", "eta"):
        np.testing.assert_array_equal(apart[name], alone[name])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["jax", pytest.param("numba", marks=pytest.mark.slow)])
def test_nutpie_of_a_model(backend: str) -> None:
    nutpie = pytest.importorskip("nutpie")
    model = nutpie.compile_pymc_model(
        eight_schools(function(normal, target=nm.CPU())), backend=backend, gradient_backend="pytensor"
    )
    posterior = nutpie.sample(model, draws=300, tune=200, chains=2, cores=1, seed=3, progress_bar=False).posterior
    mu, tau = np.asarray(posterior["mu"]), np.asarray(posterior["tau"])
    assert max(split_r_hat(mu), split_r_hat(tau)) < 1.05
    check_moments(mu, tau)


def test_numba_calls_the_op_and_its_derivatives() -> None:
    """The mode that PyTensor chooses by itself from version 3: what Numba does not know runs as a call to Python."""
    symbols, values = variables()
    ours, theirs = both(symbols)
    outputs = [y for f in (ours, theirs) for y in (f["sum"], *pytensor.grad(f["sum"], symbols))]
    results = pytensor.function(symbols, outputs, mode="NUMBA")(*values)
    for a, b in zip(results[:4], results[4:], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)
