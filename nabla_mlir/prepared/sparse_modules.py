"""Sparse Jacobians and Hessians as artifacts: the entries in the order of a format, and their positions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from nabla_mlir.base import pytree, thresholds
from nabla_mlir.base.errors import PatternError, user_frame
from nabla_mlir.base.typing import PyTree
from nabla_mlir.prepared.checks import check_entry_points
from nabla_mlir.prepared.families import Family, hessian_family, jacobian_family, of_x
from nabla_mlir.prepared.modules import Methods, Prepared
from nabla_mlir.prepared.stateful import Method, assemble
from nabla_mlir.runtime.manifest import Sparsity
from nabla_mlir.sparse.coloring import Coloring, color
from nabla_mlir.sparse.curvature import lagrangian
from nabla_mlir.sparse.derivatives import cheapest, decompressed, hessian, jacobian, sources
from nabla_mlir.sparse.detection import flat, hessian_pattern, jacobian_pattern, parts
from nabla_mlir.sparse.matrix import SparseMatrix, read
from nabla_mlir.sparse.pattern import Pattern
from nabla_mlir.sparse.trees import mirror
from nabla_mlir.staging.positions import Argnums
from nabla_mlir.staging.specs import Spec, as_spec
from nabla_mlir.staging.stages import trace
from nabla_mlir.table.tensor import Tensor, constant


@dataclass(frozen=True)
class Form:
    """The entries of a pattern in the order of a format.

    Attributes:
      order: the indices of the entries in the pattern.
      positions: the index arrays of the format.
    """

    order: np.ndarray
    positions: tuple[np.ndarray, np.ndarray]


def form_of(pattern: Pattern, format: str) -> Form:
    """The order of the entries, and the index arrays, that a format requires for the nonzero entries of a pattern.

    The formats are csr, csc, coo, and lower: the coordinates of the lower triangle.

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
    f: Callable[..., Any],
    x_spec: PyTree,
    *data_specs: PyTree,
    argnums: Argnums = 0,
    format: str = "csc",
    kind: str = "star",
    order: str | Sequence[int] = "best",
    pattern: Pattern | None = None,
    constraints: Callable[..., Any] | None = None,
    entry_points: Sequence[str] = (),
) -> Prepared:
    """The sparse Hessian of a scalar function as one artifact, for solvers that need it at many points.

    Entry points:

    - ``value(x, *data)`` and ``gradient(x, *data)``;
    - ``hessian(x, *data)``: the entries, in the order of the format;
    - ``structure()``: the positions of the entries: (starts, indices) for csr and csc, (rows, columns) for coo and lower;
    - on request those of `hvp_module`, such as ``update(x, *data)``, which moves to a point and returns the value and the gradient
      there, and ``matrix()``: the entries at that point, from the stored residuals.

    With constraints, there are also:

    - ``constraints(x, *data)``;
    - ``jacobian(x, *data)``: the entries of their Jacobian (by coordinates if the format is lower), and
      ``jacobian_structure()``;
    - ``lagrangian_hessian(x, sigma, weights, *data)``: the entries of ``sigma ∇²f + Σ weights · ∇²constraints``, and
      ``lagrangian_structure()``.

    The manifest, and the header of a static library, have the arrays of `structure`, the colors, and the indices of the entries in
    the products.

    Args:
      f: a scalar function.
      x_spec: the pytree of specs of the argument at `argnums`; for several positions, a tuple of such pytrees.
      data_specs: the specs of the other arguments, in order.
      argnums: the positional argument(s) to differentiate; the other arguments are data.
      format: csr, csc, coo, or lower: the coordinates of the lower triangle, for interior-point solvers.
      kind, order, pattern: as in `nm.sparse.hessian`; the pattern is that of f alone.
      constraints: a function of the arguments of f that returns a pytree of arrays; the weights are a pytree like it.
      entry_points: the entry points to include; by default those without a state.

    Raises:
      PatternError: the format does not exist, or as in `nm.sparse.hessian`.
      TraceError: an entry point does not exist.

    Example:
      >>> import nabla_mlir as nm
      >>> f = lambda x: (x[1:] * x[:-1] ** 2).sum()
      >>> stage = nm.sparse_hessian_module(f, nm.spec(3, "f64"), format="lower", entry_points=("structure", "update", "matrix"))
      >>> module = stage.compile()
      >>> [indices.tolist() for indices in module.structure()]
      [[0, 1, 1, 2], [0, 0, 1, 1]]
      >>> float(module.update(np.array([1.0, 2.0, 3.0]))["value"]), module.matrix().tolist()
      (14.0, [4.0, 2.0, 6.0, 4.0])
    """
    g, names = of_x(f, argnums, len(data_specs))
    specs = (x_spec, *data_specs)
    where = hessian_pattern(g, *specs) if pattern is None else Pattern.of(pattern)
    coloring = color(where, kind, order)
    methods = _Methods(names, specs, coloring, form_of(where, format), format)
    more = (
        {} if constraints is None else _constraint_methods(g, of_x(constraints, argnums, len(data_specs))[0], methods, kind, order)
    )
    requested = entry_points or ("value", "gradient", "hessian", "structure", *more)
    return methods.module(hessian_family(g), "hessian", hessian(g, coloring=coloring), requested, more)


def _constraint_methods(
    f: Callable[..., Any], constraints: Callable[..., Any], own: _Methods, kind: str, order: Any
) -> dict[str, Method]:
    """The entry points of the constraints and of the Lagrangian, by name.

    Args:
      f: the objective, a function of (x, *data).
      constraints: a function of (x, *data).
      own: the entry points of the objective, which give the names and specs of the arguments, and the format of matrices.
      kind, order: the kind of coloring, and the order of its greedy algorithm.
    """
    args = dict(zip(own.names, own.specs, strict=True))
    entry = trace(constraints, *own.specs).entries[0]
    weights = pytree.unflatten(entry.out_spec, list(entry.outputs))
    where = jacobian_pattern(constraints, *own.specs)
    form = "coo" if own.format == "lower" else own.format  # a Jacobian is not symmetric, so it has no lower triangle
    first = _Methods(own.names, own.specs, cheapest(where, order), form_of(where, form), form)
    total = lagrangian(f, constraints)
    sigma = Spec((), as_spec(pytree.flatten(own.specs[0])[0][0]).dtype)
    specs = (own.specs[0], sigma, weights, *own.specs[1:])
    where = hessian_pattern(total, *specs)
    factors = [name if name not in own.names else f"{name}_of_lagrangian" for name in ("sigma", "weights")]
    second = _Methods(
        [own.names[0], *factors, *own.names[1:]], specs, color(where, kind, order), form_of(where, own.format), own.format
    )
    return {
        "constraints": Method("constraints", lambda _, *a: constraints(*a), args, doc="The values of the constraints."),
        **first.entries("jacobian", jacobian(constraints, coloring=first.coloring), "jacobian_structure"),
        **second.entries("lagrangian_hessian", hessian(total, coloring=second.coloring), "lagrangian_structure"),
    }


def sparse_jacobian_module(
    f: Callable[..., Any],
    x_spec: PyTree,
    *data_specs: PyTree,
    argnums: Argnums = 0,
    format: str = "csc",
    kind: str = "auto",
    order: str | Sequence[int] = "best",
    pattern: Pattern | None = None,
    entry_points: Sequence[str] = ("value", "jacobian", "structure"),
) -> Prepared:
    """The Jacobian of a function as one artifact: ``value``, ``jacobian`` and ``structure``, as in `sparse_hessian_module`.

    On request it also has those of `jacobian_module`, and ``matrix()``.

    Args:
      f: a function of pytrees of arrays, such as the constraints of a problem.
      x_spec, data_specs, argnums, entry_points: as in `sparse_hessian_module`.
      format: csr, csc or coo.
      kind, order, pattern: as in `nm.sparse.jacobian`.

    Raises:
      PatternError: the format does not exist, or as in `nm.sparse.jacobian`.
      TraceError: an entry point does not exist.

    Example:
      >>> import nabla_mlir as nm
      >>> stage = nm.sparse_jacobian_module(lambda x: x[1:] * x[:-1], nm.spec(3, "f64"), format="coo")
      >>> stage.compile().jacobian(np.array([1.0, 2.0, 3.0])).tolist()
      [2.0, 1.0, 3.0, 2.0]
    """
    g, names = of_x(f, argnums, len(data_specs))
    specs = (x_spec, *data_specs)
    where = jacobian_pattern(g, *specs) if pattern is None else Pattern.of(pattern)
    coloring = cheapest(where, order) if kind == "auto" else color(where, kind, order)
    methods = _Methods(names, specs, coloring, form_of(where, format), format)
    return methods.module(jacobian_family(g, x_spec, data_specs), "jacobian", jacobian(g, coloring=coloring), entry_points)


@dataclass(frozen=True)
class _Methods:
    """The entry points of a sparse derivative with a known pattern and coloring."""

    names: list[str]
    specs: tuple[Any, ...]
    coloring: Coloring
    form: Form
    format: str

    def entries(self, name: str, derivative: Callable[..., SparseMatrix], structure: str) -> dict[str, Method]:
        """Two entry points by name: one returns the entries of a derivative in the order of the format, the other their positions.

        Args:
          name: the name of the first, such as "hessian".
          derivative: a function of (x, *data) that returns the sparse matrix.
          structure: the name of the second.
        """
        values = Method(
            name,
            lambda _, *a: self._ordered(derivative(*a).data),
            dict(zip(self.names, self.specs, strict=True)),
            sparsity=self._sparsity(),
            doc=f"The {len(self.form.order)} entries in the order of {self.format}.",
        )
        return {name: values, structure: Method(structure, lambda _: self._structure(), {}, doc="The positions of the entries.")}

    def module(
        self,
        family: Family,
        name: str,
        derivative: Callable[..., SparseMatrix],
        entry_points: Sequence[str],
        more: Mapping[str, Method] = MappingProxyType({}),
    ) -> Prepared:
        """The stage with the requested entry points; it has a state only if one of them needs it, such as `update` or `matrix`.

        Args:
          family: the products that define the matrix.
          name: the name of the entry point with the entries, "hessian" or "jacobian".
          derivative: a function of (x, *data) that returns the sparse matrix.
          entry_points: the requested names; raises TraceError if one does not exist.
          more: further entry points by name, those of constraints.
        """
        args = dict(zip(self.names, self.specs, strict=True))
        available = {n: Method(n, lambda _, *a, f=f: f(*a), args, doc=f"The {n}.") for n, f in family.direct.items()}
        available |= {**self.entries(name, derivative, "structure"), **more}
        state: dict[str, Any] = {}
        if set(entry_points) - set(available):
            point = Methods(family, self.names, self.specs[0], self.specs[1:], thresholds.BLOCK, None)
            matrix = Method(
                "matrix",
                lambda state: self._entries(point, state),
                {},
                point.read_names,
                sparsity=self._sparsity(),
                doc=f"The entries of {name} at the point of the last update.",
            )
            available, state = {**point.all(), **available, "matrix": matrix}, point.state
        check_entry_points(available, entry_points)
        return Prepared(*assemble(state, [available[n] for n in entry_points]))

    def _ordered(self, data: Any) -> Any:
        """The entries in the order of the format, from those in the order of the pattern, a vector `data`."""
        is_in_order = np.array_equal(self.form.order, np.arange(self.coloring.pattern.nnz))
        return data if is_in_order else read(data, self.form.order)

    def _structure(self) -> Any:
        """The index arrays of the format, as constants of type i32."""
        return tuple(constant(positions.astype(np.int32)) for positions in self.form.positions)

    def _entries(self, point: Methods, state: dict[str, Tensor]) -> Any:
        """The entries of the matrix in the order of the format, from products with the residuals in the state.

        The vectors of the coloring are multiplied, and each product is divided into the entries that add up in it. `point` has the
        entry points with a state, and `state` its tensors by name.
        """

        def product(v: Tensor, which: int) -> Tensor:
            """The product with a flat vector, as a flat vector: of the matrix (`which` is 0) or of its transpose (1)."""
            leaves, spec = pytree.flatten(point.likes[which])
            return flat("matrix", point.apply(state, pytree.unflatten(spec, parts(v, leaves)), which))

        x_dtype, out_dtype = (pytree.flatten(like)[0][0].dtype for like in (point.likes[0], point.likes[-1]))
        return self._ordered(decompressed(self.coloring, x_dtype, lambda v: product(v, 0), out_dtype, lambda u: product(u, 1)))

    def _sparsity(self) -> Sparsity:
        """The structure of the entries for the manifest: format, shape, index arrays and colors."""
        names = ("starts", "indices") if self.format in ("csr", "csc") else ("rows", "columns")
        indices = dict(zip(names, self.form.positions, strict=True))
        coloring = self.coloring
        if coloring.num_column_colors:
            indices["column_colors"] = coloring.columns
        if coloring.num_row_colors:
            indices["row_colors"] = coloring.rows
        if coloring.kind != "acyclic":
            indices["positions"] = sources(coloring)[self.form.order]
        numbers = {name: tuple(np.asarray(positions).tolist()) for name, positions in indices.items()}
        return Sparsity(self.format, coloring.pattern.shape, numbers)
