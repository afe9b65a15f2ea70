"""The rotations of `scipy.spatial`."""

from nabla_mlir.jax.scipy.spatial import transform as transform
