"""Waiting for the effects of programs, under its private name."""

from nabla_mlir.jax.environment import effects_barrier as wait_for_tokens

__all__ = ["wait_for_tokens"]
