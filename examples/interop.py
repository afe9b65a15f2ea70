"""Arrays of JAX, PyTorch and NumPy go in as they are; results go out by DLPack, without a copy where that is possible."""

from __future__ import annotations

import importlib.util

import numpy as np
from problems import network_data, network_loss

import nabla_mlir as nm


def prepared() -> nm.HessianOperator:
    """The Hessian of the network's loss."""
    return nm.HessianOperator(network_loss, *network_data())


def through_jax(H: nm.HessianOperator) -> dict[str, object]:
    """A product of JAX arrays as JAX arrays."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    params = network_data()[0]
    v = {name: jnp.asarray(np.ones_like(x)) for name, x in params.items()}
    return {name: jnp.from_dlpack(x) for name, x in H.apply(v).items()}


def through_torch(H: nm.HessianOperator) -> dict[str, object]:
    """A product of PyTorch tensors as PyTorch tensors."""
    import torch

    params = network_data()[0]
    v = {name: torch.ones(x.shape, dtype=torch.float64) for name, x in params.items()}
    return {name: torch.from_dlpack(x) for name, x in H.apply(v).items()}


if __name__ == "__main__":
    H = prepared()
    for name, through in (("jax", through_jax), ("torch", through_torch)):
        if importlib.util.find_spec(name) is not None:
            print(name, {k: type(x).__name__ for k, x in through(H).items()})
