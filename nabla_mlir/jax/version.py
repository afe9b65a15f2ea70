"""The release of JAX whose names and meaning `nabla_mlir.jax` has."""

__version__ = "0.10.2"
__version_info__ = (0, 10, 2)
