"""Models of NumPyro as log densities over their unconstrained parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import ImportIRError, user_frame
from nabla_mlir.interop.jax import from_jax


def log_density(model: Callable[..., Any], *args: Any, seed: int = 0, **kwargs: Any) -> tuple[Callable[[Any], Any], Any]:
    """The log density of a model of NumPyro at unconstrained values of its latent sites, and a point to start from.

    The density includes the Jacobians of NumPyro's transforms: it is minus the potential energy of its NUTS.

    Args:
      model: a model, with the observed data among its arguments.
      args: positional arguments of the model.
      seed: the seed of the first point, which NumPyro draws.
      kwargs: keyword arguments of the model.

    Returns:
      (f, x0): a function of a dict of arrays by the names of the sites, and such a dict.

    Raises:
      ImportIRError: NumPyro is not installed, or an operation cannot be imported.

    Example:
      >>> import nabla_mlir as nm, numpyro, numpyro.distributions as dist  # doctest: +SKIP
      >>> f, x0 = nm.interop.numpyro.log_density(lambda: numpyro.sample("x", dist.HalfNormal(2.0)))  # doctest: +SKIP
      >>> density = nm.interop.samplers.LogDensity(f, x0)  # doctest: +SKIP
    """
    try:
        import jax
        from numpyro.infer.util import initialize_model
    except ImportError:
        raise ImportIRError(
            "log_density requires NumPyro, got an environment without it.",
            where=user_frame(),
            help="pip install 'nabla-mlir[numpyro]'",
        ) from None
    found = initialize_model(jax.random.PRNGKey(seed), model, model_args=args, model_kwargs=kwargs)
    x0 = {name: np.asarray(value) for name, value in found.param_info.z.items()}
    f = from_jax(lambda x: -found.potential_fn(x), x0)
    _, spec = pytree.flatten(x0)
    return lambda x: f(*pytree.flatten_like(spec, x, "a point", "the sites of the model")), x0
