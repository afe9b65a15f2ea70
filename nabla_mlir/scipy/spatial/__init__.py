"""The name of `scipy.spatial`: rotations."""

from nabla_mlir.scipy.spatial import transform as transform
