"""The optimizers and layers of `jax.example_libraries`, which packages such as NumPyro use."""

from nabla_mlir.jax.example_libraries import optimizers as optimizers
from nabla_mlir.jax.example_libraries import stax as stax
