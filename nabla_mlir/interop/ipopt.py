"""Nonlinear programs for Ipopt: exact sparse derivatives in the form of its Python package, cyipopt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import DeployError, DtypeError, user_frame
from nabla_mlir.interop.vectors import Vectors
from nabla_mlir.runtime.array import Array
from nabla_mlir.sparse import cheapest, color, hessian, hessian_pattern, jacobian, jacobian_pattern, lagrangian
from nabla_mlir.sparse.matrix import read
from nabla_mlir.sparse.pattern import Pattern
from nabla_mlir.staging.compiled import Compiled
from nabla_mlir.staging.specs import Spec, spec
from nabla_mlir.staging.stages import module, trace
from nabla_mlir.transforms import grad

Bounds = tuple[Any, Any]
_QUIET = {"print_level": 0, "sb": "yes"}


@dataclass(frozen=True)
class Solution:
    """The solution that Ipopt found.

    Attributes:
      x: the point, a pytree like the first one.
      value: the value of the objective.
      constraints: the values of the constraints; None without constraints.
      multipliers: those of the constraints, a pytree like them: ∇f + Σ multipliers · ∇constraints - lower + upper = 0.
      lower_multipliers, upper_multipliers: those of the bounds, pytrees like x.
      status: Ipopt's code: 0 means solved, 1 solved to its acceptable tolerance.
      message: the status in words.
      iterations: the number of iterations of Ipopt.
      calls: the number of calls of each function.
    """

    x: Any
    value: float
    constraints: Any
    multipliers: Any
    lower_multipliers: Any
    upper_multipliers: Any
    status: int
    message: str
    iterations: int
    calls: Mapping[str, int]


class Problem:
    """The problem ``min f(x, *data)`` with ``lower <= constraints(x, *data) <= upper``, as an object for `cyipopt.Problem`.

    The patterns of the constraints' Jacobian and of the Lagrangian's Hessian are found on the IR and colored, and the five
    functions that Ipopt calls are compiled into one module: value, gradient, constraints, the entries of the Jacobian, and
    those of the lower triangle of ``sigma ∇²f + Σ weights · ∇²constraints``.

    Args:
      f: a scalar function of (x, *data).
      x: the unknowns, a pytree of f64 arrays or of `nm.spec`.
      data: further arguments, arrays.
      constraints: a function of the same arguments that returns a pytree of f64 arrays.

    Attributes:
      n, m: the numbers of unknowns and constraints.
      jacobian_pattern, hessian_pattern: the positions of their entries; that of the Hessian has both triangles.

    Raises:
      DtypeError: an array of x, or of the constraints, is not f64.
      PatternError: a pattern is too large.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> from nabla_mlir.interop import ipopt
      >>> problem = ipopt.Problem(lambda x: ((x[:-1] - x[1:] ** 2) ** 2).sum(), nm.spec(4, "f64"), constraints=lambda x: x.sum())
      >>> problem.n, problem.m, problem.jacobian_pattern
      (4, 1, Pattern(1x4, nnz=4))
      >>> [len(indices) for indices in problem.hessianstructure()]
      [7, 7]
    """

    def __init__(self, f: Callable[..., Any], x: Any, *data: Any, constraints: Callable[..., Any] | None = None):
        """Finds the sparsity patterns, and compiles the five functions that Ipopt calls."""
        self._x = Vectors(x)
        _check_wide("x", self._x.specs)
        specs = (self._x.like, *data)
        self._rows = Vectors(())
        weighted_sum = lambda x, sigma, weights, *data: sigma * f(x, *data)  # noqa: E731
        functions = {"value": trace(f, *specs), "gradient": trace(grad(f), *specs)}
        if constraints is not None:
            functions["constraints"] = trace(constraints, *specs)
            entry = functions["constraints"].entries[0]
            self._rows = Vectors(pytree.unflatten(entry.out_spec, entry.outputs))
            _check_wide("the constraints", self._rows.specs)
            self.jacobian_pattern: Pattern = jacobian_pattern(constraints, *specs)
            entries = jacobian(constraints, coloring=cheapest(self.jacobian_pattern))
            functions["jacobian"] = trace(lambda *args: entries(*args).data, *specs)
            weighted_sum = lagrangian(f, constraints)
        specs = (self._x.like, spec((), "f64"), self._rows.like, *data)
        self.hessian_pattern: Pattern = hessian_pattern(weighted_sum, *specs)
        rows = self.hessian_pattern.row_of_entry
        self._lower = np.nonzero(rows >= self.hessian_pattern.indices)[0]
        second = hessian(weighted_sum, coloring=color(self.hessian_pattern, "star"))
        functions["hessian"] = trace(lambda *args: read(second(*args).data, self._lower), *specs)
        self.compiled: Compiled = module(**functions).lower().compile()
        self._entries: dict[str, Any] = {name: self.compiled.entry(name) for name in functions}
        first = self._x.tree(np.zeros(self.n))
        self._data: list[Any] = self._entries["value"].leaves(first, *data)[len(self._x.specs) :]  # checked once, here
        self.calls: dict[str, int] = dict.fromkeys(functions, 0)
        self.iterations: int = 0

    @property
    def n(self) -> int:
        """The number of unknowns."""
        return self._x.size

    @property
    def m(self) -> int:
        """The number of constraints."""
        return self._rows.size

    # The names and signatures of the following methods are those that cyipopt calls.

    def objective(self, x: np.ndarray) -> float:
        """The value of f at a vector of all unknowns."""
        return float(self._call("value", *self._x.leaves(x))[0])

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """∇f, shape (n,)."""
        return self._x.joined(self._call("gradient", *self._x.leaves(x)))

    def constraints(self, x: np.ndarray) -> np.ndarray:
        """The values of the constraints, shape (m,)."""
        return self._rows.joined(self._call("constraints", *self._x.leaves(x))) if self.m else np.zeros(0)

    def jacobianstructure(self) -> tuple[np.ndarray, np.ndarray]:
        """The row and the column of each entry of the constraints' Jacobian, in the order in which `jacobian` returns them."""
        if not self.m:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        return self.jacobian_pattern.row_of_entry, self.jacobian_pattern.indices

    def jacobian(self, x: np.ndarray) -> np.ndarray:
        """The entries of the constraints' Jacobian."""
        return np.array(self._call("jacobian", *self._x.leaves(x))[0]) if self.m else np.zeros(0)

    def hessianstructure(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows and columns of the entries of the Lagrangian's Hessian in its lower triangle."""
        return self.hessian_pattern.row_of_entry[self._lower], self.hessian_pattern.indices[self._lower]

    def hessian(self, x: np.ndarray, lagrange: np.ndarray, obj_factor: float) -> np.ndarray:
        """The entries of ``obj_factor ∇²f + Σ lagrange · ∇²constraints`` in the lower triangle."""
        sigma = np.array(obj_factor, np.float64)
        return np.array(self._call("hessian", *self._x.leaves(x), sigma, *self._rows.leaves(lagrange))[0])

    def intermediate(self, alg_mod: int, iter_count: int, *_: Any) -> bool:
        """Counts the iterations; the solver continues while it returns True."""
        self.iterations = iter_count
        return True

    def solve(
        self,
        x0: Any,
        *,
        bounds: Bounds = (None, None),
        constraint_bounds: Bounds = (0.0, 0.0),
        options: Mapping[str, Any] | None = None,
    ) -> Solution:
        """Runs Ipopt from a starting point.

        Args:
          x0: a pytree like x, of arrays.
          bounds: the lower and upper bounds of x: pytrees like x, or a number for all; None means no bound.
          constraint_bounds: the bounds of the constraints: pytrees like them, or numbers; 0 and 0 if all are equations.
          options: options of Ipopt, such as ``{"tol": 1e-10, "print_level": 5}``; by default it prints nothing.

        Raises:
          DeployError: cyipopt is not installed.
          TreeError, ShapeError: x0 or a bound does not fit.
        """
        try:
            import cyipopt
        except ImportError:
            raise DeployError(
                "solve requires cyipopt, got an environment without it.",
                help="pip install 'nabla-mlir[ipopt]', with Debian's coinor-libipopt-dev",
            ) from None
        start = self._x.spread("solve", "x0", x0, 0.0)
        lower, upper = (self._x.spread("solve", "bounds", b, d) for b, d in zip(bounds, (-np.inf, np.inf), strict=True))
        least, most = (
            self._rows.spread("solve", "constraint_bounds", b, d) if self.m else np.zeros(0)
            for b, d in zip(constraint_bounds, (-np.inf, np.inf), strict=True)
        )
        self.calls, self.iterations = dict.fromkeys(self.calls, 0), 0
        solver = cyipopt.Problem(n=self.n, m=self.m, problem_obj=self, lb=lower, ub=upper, cl=least, cu=most)
        for name, value in {**_QUIET, **(options or {})}.items():
            solver.add_option(name, value)
        x, info = solver.solve(start)
        tree = lambda values: self._rows.tree(values) if self.m else None  # noqa: E731
        message = info["status_msg"]
        return Solution(
            self._x.tree(x),
            float(info["obj_val"]),
            tree(info["g"]),
            tree(info["mult_g"]),
            self._x.tree(info["mult_x_L"]),
            self._x.tree(info["mult_x_U"]),
            int(info["status"]),
            message.decode() if isinstance(message, bytes) else message,
            self.iterations,
            dict(self.calls),
        )

    def _call(self, name: str, *leaves: Any) -> list[Array]:
        """The leaves of the results of a compiled function; the arguments are not checked, because they have the shapes of the
        specs.
        """
        self.calls[name] += 1
        return self._entries[name].run([*leaves, *self._data])


def _check_wide(what: str, specs: Sequence[Spec]) -> None:
    """Raises DtypeError unless all of `specs` are float64; `what` names the arrays in the message."""
    narrow = [s for s in specs if s.dtype != np.float64]
    if narrow:
        raise DtypeError(
            f"a problem for Ipopt requires {what} of float64, got {narrow[0]}.",
            where=user_frame(),
            help="x.astype('float64'): Ipopt works in double precision.",
        )
