"""Mutable arrays, under the private name of JAX."""

from nabla_mlir.jax.refs import AbstractRef as AbstractRef
