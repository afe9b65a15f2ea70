"""The one generator of random numbers, under the names of `jax.extend.random`."""

from nabla_mlir.random import key_impl as key_impl
from nabla_mlir.random import wrap_key_data as wrap_key_data

__all__ = ["key_impl", "wrap_key_data"]
