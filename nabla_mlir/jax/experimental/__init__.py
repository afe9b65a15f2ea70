"""The names `jet`, `ode` and `io_callback` of `jax.experimental`."""

from nabla_mlir.jax.experimental import jet as jet
from nabla_mlir.jax.experimental import ode as ode
from nabla_mlir.transforms.callbacks import io_callback as io_callback
