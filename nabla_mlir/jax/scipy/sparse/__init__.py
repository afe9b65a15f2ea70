"""The solvers of `scipy.sparse`; sparse matrices are those of `nabla_mlir.sparse`."""

from nabla_mlir.jax.scipy.sparse import linalg as linalg
