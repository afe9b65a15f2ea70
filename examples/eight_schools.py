"""Rubin's eight schools in PyMC: priors of PyMC, a likelihood of ours, and NUTS on gradients of both."""

from __future__ import annotations

from typing import Any

import numpy as np

import nabla_mlir as nm

EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def log_likelihood(mu: Any, tau: Any, eta: Any) -> Any:
    """The log likelihood of the observed effects, if those of the schools are mu + tau * eta."""
    return -0.5 * (((EFFECTS - mu - tau * eta) / ERRORS) ** 2).sum()


def model() -> Any:
    """PyMC's model around it."""
    import pymc as pm

    likelihood = nm.interop.pytensor.function(log_likelihood, target=nm.CPU())
    with pm.Model() as schools:
        mu, tau, eta = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5), pm.Normal("eta", shape=8)
        pm.Potential("effects", likelihood(mu, tau, eta))
    return schools


def sample(draws: int = 1000, chains: int = 4) -> Any:
    """Draws from the posterior."""
    import pymc as pm

    with model():
        return pm.sample(draws, chains=chains, cores=1, random_seed=0, progressbar=False).posterior


if __name__ == "__main__":
    posterior = sample()
    print(f"mean effect {float(posterior['mu'].mean()):.1f}, deviation between schools {float(posterior['tau'].mean()):.1f}")
