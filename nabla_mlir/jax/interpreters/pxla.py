"""Shardings, under the older names of `jax.interpreters.pxla`."""

from nabla_mlir.jax.sharding import Mesh as Mesh
from nabla_mlir.jax.sharding import PartitionSpec as PartitionSpec
