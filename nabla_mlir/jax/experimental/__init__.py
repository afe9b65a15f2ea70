"""The names `checkify`, `enable_x64`, `hijax`, `io_callback`, `jet`, `ode` and `sparse` of `jax.experimental`."""

from nabla_mlir.jax.environment import enable_x64 as enable_x64
from nabla_mlir.jax.experimental import checkify as checkify
from nabla_mlir.jax.experimental import hijax as hijax
from nabla_mlir.jax.experimental import jet as jet
from nabla_mlir.jax.experimental import ode as ode
from nabla_mlir.jax.experimental import sparse as sparse
from nabla_mlir.jax.mirrored import mirrored as _mirrored
from nabla_mlir.transforms.callbacks import io_callback

io_callback = _mirrored(io_callback, __name__)
