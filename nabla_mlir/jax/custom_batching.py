"""Custom rules for `vmap`, under the names of `jax.custom_batching`."""

from nabla_mlir.transforms.batching_rules import custom_vmap as custom_vmap
from nabla_mlir.transforms.batching_rules import sequential_vmap as sequential_vmap
