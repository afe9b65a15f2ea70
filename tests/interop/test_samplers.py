"""Posteriors sampled by packages that take our log densities, beside exact moments, and the same by their own gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import ShapeError, TraceError

SCHOOLS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
START = {"mu": 0.0, "log_tau": 0.0, "eta": np.zeros(8)}
# Of the posterior of mu and of tau: Gauss-Legendre over tau, with mu and eta integrated in closed form (`moments`).


def schools(p: Any, y: Any, sigma: Any, xp: Any = nnp) -> Any:
    """Rubin's eight schools, not centred: theta = mu + tau eta, mu ~ N(0, 5), tau ~ HalfCauchy(5)."""
    tau = xp.exp(p["log_tau"])
    prior = -0.5 * (p["mu"] / 5.0) ** 2 - xp.log1p((tau / 5.0) ** 2) + p["log_tau"] - 0.5 * (p["eta"] ** 2).sum()
    return prior - 0.5 * (((y - p["mu"] - tau * p["eta"]) / sigma) ** 2).sum()


def moments() -> dict[str, float]:
    """The posterior means of mu and tau, and their deviations, by quadrature: given tau, mu is normal."""
    u, weights = np.polynomial.legendre.leggauss(4000)
    log_tau = 12 * u - 4
    tau = np.exp(log_tau)[:, None]
    precision = 1 / (ERRORS**2 + tau**2)
    total = precision.sum(1) + 1 / 25
    mean = (precision * SCHOOLS).sum(1) / total
    log_p = 0.5 * np.log(precision).sum(1) - 0.5 * np.log(total) - 0.5 * (precision * SCHOOLS**2).sum(1) + 0.5 * mean**2 * total
    log_p += log_tau - np.log1p((tau[:, 0] / 5) ** 2)
    p = weights * np.exp(log_p - log_p.max())
    p /= p.sum()
    mu, t = p @ mean, p @ tau[:, 0]
    return {"mu": mu, "mu_sd": np.sqrt(p @ (mean**2 + 1 / total) - mu**2), "tau": t, "tau_sd": np.sqrt(p @ tau[:, 0] ** 2 - t**2)}


def density(target: Any = None) -> Any:
    return nm.interop.samplers.LogDensity(schools, START, SCHOOLS, ERRORS, target=target)


def split_r_hat(draws: np.ndarray) -> float:
    """Gelman's split R-hat of draws of shape (chains, n)."""
    halves = np.concatenate(np.split(draws[:, : draws.shape[1] // 2 * 2], 2, axis=1))
    n = halves.shape[1]
    within, between = halves.var(axis=1, ddof=1).mean(), n * halves.mean(axis=1).var(ddof=1)
    return float(np.sqrt(((n - 1) / n * within + between / n) / within))


def check_moments(mu: np.ndarray, tau: np.ndarray, scale: float = 1.0) -> None:
    """Means of draws within five standard errors, of 1/10 as many draws as there are, for they are correlated."""
    want = moments()
    for name, draws in (("mu", mu), ("tau", tau)):
        error = want[f"{name}_sd"] / np.sqrt(draws.size / 10) * scale
        assert abs(draws.mean() - want[name]) < 5 * error, (name, draws.mean(), want[name], error)
        assert draws.std() == pytest.approx(want[f"{name}_sd"], rel=0.25)


@pytest.mark.slow
def test_values_and_derivatives_are_jax_s() -> None:
    p = density()
    x = np.random.default_rng(0).normal(size=(4, p.size))
    with jax.enable_x64(True):
        f = (  # noqa: E731
            lambda x: schools(
                p.vectors.tree(x) if isinstance(x, np.ndarray) else {"eta": x[:8], "log_tau": x[8], "mu": x[9]},
                SCHOOLS,
                ERRORS,
                jnp,
            )
        )
        np.testing.assert_allclose(p(x), [f(row) for row in jnp.asarray(x)], rtol=1e-13)
        value, gradient = p.value_and_grad(x[0])
        assert p(x[0]) == pytest.approx(value, rel=1e-14)
        np.testing.assert_allclose(gradient, jax.grad(f)(jnp.asarray(x[0])), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(p.grad(x[0]), gradient)
        np.testing.assert_allclose(p.hessp(x[0], x[1]), jax.hessian(f)(jnp.asarray(x[0])) @ x[1], rtol=1e-11, atol=1e-11)
    assert p.names == ["eta", "log_tau", "mu"]


def test_leaves_of_other_dtypes_and_names() -> None:
    tree = {"w": [np.ones(2, np.float32), np.zeros((1, 2))]}
    p = nm.interop.samplers.LogDensity(lambda t: -(t["w"][0] ** 2).sum() - (t["w"][1] ** 2).sum() * 2.0, tree)
    assert p(np.array([1.0, 2.0, 3.0, 0.0])) == -23
    assert p.value_and_grad(np.array([1.0, 2.0, 3.0, 0.0]))[1].tolist() == [-2, -4, -12, 0]
    assert p.names == ["w.0", "w.1"]
    assert nm.interop.samplers.LogDensity(lambda x: -x * x, 0.5).names == ["x"]


def test_errors() -> None:
    with pytest.raises(TraceError, match=r"a log density requires one scalar of floating point as its result, got .*2"):
        nm.interop.samplers.LogDensity(lambda x: x, np.zeros(2))
    p = density()
    with pytest.raises(ShapeError, match=r"a log density requires x of shape \(n,\) or \(k, n\) with n = 10, got \(3,\)"):
        p(np.zeros(3))
    with pytest.raises(ShapeError, match=r"requires v of shape \(n,\) with n = 10, got \(2, 10\)"):
        p.hessp(np.zeros(10), np.zeros((2, 10)))


def test_emcee() -> None:
    emcee = pytest.importorskip("emcee")
    p = density(nm.CPU())
    rng = np.random.default_rng(1)
    np.random.seed(1)
    sampler = emcee.EnsembleSampler(60, p.size, p, vectorize=True)
    sampler.run_mcmc(rng.normal(size=(60, p.size)), 1500)
    draws = sampler.get_chain(discard=500)
    check_moments(draws[..., 9], np.exp(draws[..., 8]), 3.0)


@pytest.fixture
def wide() -> Iterator[None]:
    """For all threads: those of JAX that call back do not know what is said by `with`."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("wide")
def test_blackjax() -> None:
    blackjax = pytest.importorskip("blackjax")
    f = nm.interop.jax.function(lambda p: schools(p, SCHOOLS, ERRORS), target=nm.CPU())
    x = jax.tree.map(jnp.asarray, START)
    key, warm = jax.random.split(jax.random.key(2))
    (state, parameters), _ = blackjax.window_adaptation(blackjax.nuts, f).run(warm, x, 200)
    step = jax.jit(blackjax.nuts(f, **parameters).step)
    own = jax.jit(blackjax.nuts(lambda p: schools(p, SCHOOLS, ERRORS, jnp), **parameters).step)
    same, draws = state, []
    for i, number in enumerate(jax.random.split(key, 300)):
        state, _ = step(number, state)
        draws.append(state.position)
        if i < 10:
            same, _ = own(number, same)
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), state.position, same.position)
    check_moments(np.array([d["mu"] for d in draws]), np.exp([d["log_tau"] for d in draws]))


def test_nutpie() -> None:
    nutpie = pytest.importorskip("nutpie")
    trace = nutpie.sample(density(nm.CPU()).nutpie(), draws=400, tune=300, chains=2, cores=2, seed=3, progress_bar=False)
    mu, log_tau = (np.asarray(trace.posterior[name]) for name in ("mu", "log_tau"))
    assert trace.posterior["eta"].shape == (2, 400, 8)
    assert max(split_r_hat(mu), split_r_hat(log_tau)) < 1.05
    check_moments(mu, np.exp(log_tau))
