"""Clusters under the name of `scipy.cluster`."""

from nabla_mlir.jax.scipy.cluster import vq as vq
