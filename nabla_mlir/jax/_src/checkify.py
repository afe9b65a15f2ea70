"""`jax.experimental.checkify` under its private name."""

from nabla_mlir.jax.experimental.checkify import Error as Error
from nabla_mlir.jax.experimental.checkify import ErrorCategory
from nabla_mlir.jax.experimental.checkify import check as check
from nabla_mlir.jax.experimental.checkify import checkify as checkify
from nabla_mlir.jax.experimental.checkify import user_checks as user_checks

JaxException = ErrorCategory
Out = object
