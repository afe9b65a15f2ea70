"""The steps from a Python function to compiled code: tracing, the stages, and calls of functions on concrete arrays."""

import nabla_mlir.rules  # noqa: F401  (loads every record)
