"""The names `core`, `linear_util` and `source_info_util` of `jax.extend`, for packages with primitives of their own."""

from nabla_mlir.jax.extend import core as core
from nabla_mlir.jax.extend import linear_util as linear_util
from nabla_mlir.jax.extend import random as random
from nabla_mlir.jax.extend import source_info_util as source_info_util
