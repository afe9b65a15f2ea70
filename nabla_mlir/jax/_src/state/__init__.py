"""Mutable arrays, under the private name of JAX."""
