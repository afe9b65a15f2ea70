"""The name of `scipy.spatial`: rotations."""

from nabla_mlir.jax.scipy.spatial import transform as transform
