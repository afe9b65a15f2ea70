"""Sparse Jacobians and Hessians as artifacts: the entries in the order of a format, and where they stand."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nabla_mlir.errors import PatternError, user_frame
from nabla_mlir.sparse.derivatives import hessian, jacobian
from nabla_mlir.sparse.matrix import read
from nabla_mlir.sparse.pattern import Pattern
from nabla_mlir.sparse.trees import mirror
from nabla_mlir.staging.positions import Argnums
from nabla_mlir.staging.stages import Traced, module, trace
from nabla_mlir.table.tensor import constant
from nabla_mlir.transforms.gradients import grad


@dataclass(frozen=True)
class Form:
    """The entries of a pattern in the order of a format.

    Attributes:
      order: the entries, as the pattern numbers them.
      places: the arrays of indices of the format.
    """

    order: np.ndarray
    places: tuple[np.ndarray, np.ndarray]


def form_of(pattern: Pattern, format: str) -> Form:
    """The order and the indices of a format: csr, csc, coo, or lower, the coordinates of the lower triangle.

    Raises:
      PatternError: there is no such format, or the matrix is not square and must be.
    """
    row, column, every = pattern.row_of_entry, pattern.indices, np.arange(pattern.nnz)
    if format == "csr":
        return Form(every, (pattern.indptr, column))
    if format == "csc":
        order = mirror(pattern)
        return Form(order, (pattern.T.indptr, row[order]))
    if format == "coo":
        return Form(every, (row, column))
    if format != "lower":
        raise PatternError(f"a sparse module requires a format among csr, csc, coo, lower, got {format!r}.", where=user_frame())
    if pattern.shape[0] != pattern.shape[1]:
        raise PatternError(f"format 'lower' requires a square matrix, got {pattern!r}.", where=user_frame())
    lower = np.nonzero(row >= column)[0]
    return Form(lower, (row[lower], column[lower]))


def sparse_hessian_module(
    f: Callable[..., Any], x_spec: Any, *data_specs: Any, argnums: Argnums = 0, format: str = "csc", kind: str = "star",
    order: str | Sequence[int] = "best", pattern: Any = None,
) -> Traced:  # fmt: skip
    """The Hessian of a scalar function as one artifact, for a solver that wants sparse matrices again and again.

    Entry points: ``value(x, *data)`` and ``gradient(x, *data)``; ``hessian(x, *data)``, the entries in the order of the
    format; and ``structure()``, where they stand: (starts, indices) of csr and csc, (rows, columns) of coo and lower. A
    Lagrangian is a function of x with its multipliers as data: ``f(x, sigma, weights)``.

    Args:
      f: a scalar function.
      x_spec: the pytree of specs of the first argument.
      data_specs: those of the other arguments.
      argnums: the positional argument(s) to differentiate.
      format: csr, csc, coo, or lower: the coordinates of the lower triangle, which interior-point solvers take.
      kind, order, pattern: as in `nm.sparse.hessian`.

    Raises:
      PatternError: there is no such format, or as in `nm.sparse.hessian`.

    Example:
      >>> import nabla_mlir as nm
      >>> stage = nm.sparse_hessian_module(lambda x: (x[1:] * x[:-1] ** 2).sum(), nm.spec(3, "f64"), format="lower")
      >>> module = stage.lower().compile()
      >>> [places.tolist() for places in module.structure()]
      [[0, 1, 1, 2], [0, 0, 1, 1]]
      >>> module.hessian(np.array([1.0, 2.0, 3.0])).tolist()
      [4.0, 2.0, 6.0, 4.0]
    """
    entries = _Entries(hessian(f, argnums, kind=kind, order=order, pattern=pattern), format)
    specs = (x_spec, *data_specs)
    derivative = trace(entries, *specs, name="hessian")
    return module(
        value=trace(f, *specs), gradient=trace(grad(f, argnums), *specs), hessian=derivative,
        structure=trace(entries.structure, name="structure"),
    )  # fmt: skip


def sparse_jacobian_module(
    f: Callable[..., Any], x_spec: Any, *data_specs: Any, argnums: Argnums = 0, format: str = "csc", kind: str = "auto",
    order: str | Sequence[int] = "best", pattern: Any = None,
) -> Traced:  # fmt: skip
    """The Jacobian of a function as one artifact: ``value``, ``jacobian`` and ``structure``, as in `sparse_hessian_module`.

    Args:
      f: a function of pytrees of arrays, such as the constraints of a problem.
      x_spec, data_specs, argnums: as in `sparse_hessian_module`.
      format: csr, csc or coo.
      kind, order, pattern: as in `nm.sparse.jacobian`.

    Raises:
      PatternError: there is no such format, or as in `nm.sparse.jacobian`.

    Example:
      >>> import nabla_mlir as nm
      >>> stage = nm.sparse_jacobian_module(lambda x: x[1:] * x[:-1], nm.spec(3, "f64"), format="coo")
      >>> stage.lower().compile().jacobian(np.array([1.0, 2.0, 3.0])).tolist()
      [2.0, 1.0, 3.0, 2.0]
    """
    entries = _Entries(jacobian(f, argnums, kind=kind, order=order, pattern=pattern), format)
    specs = (x_spec, *data_specs)
    derivative = trace(entries, *specs, name="jacobian")
    return module(value=trace(f, *specs), jacobian=derivative, structure=trace(entries.structure, name="structure"))


class _Entries:
    """The entries of a sparse derivative in the order of a format; where they stand is known once it has been traced."""

    def __init__(self, derivative: Callable[..., Any], format: str):
        self._derivative, self._format = derivative, format
        self.__signature__ = inspect.signature(derivative)
        self._form: Form | None = None

    def __call__(self, *args: Any) -> Any:
        matrix = self._derivative(*args)
        self._form = form_of(matrix.pattern, self._format)
        if np.array_equal(self._form.order, np.arange(matrix.pattern.nnz)):
            return matrix.data
        return read(matrix.data, self._form.order)

    def structure(self) -> Any:
        assert self._form is not None
        return tuple(constant(places.astype(np.int32)) for places in self._form.places)
