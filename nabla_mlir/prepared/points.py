"""The base class of operators at a point: solvers move the point; products and times are counted."""

from __future__ import annotations

import numbers
import reprlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from nabla_mlir.base.conversion import rounded
from nabla_mlir.base.errors import ShapeError, TraceError, TreeError, user_frame
from nabla_mlir.base.exchange import readable
from nabla_mlir.base.locks import new_lock
from nabla_mlir.prepared.flat import Flat, is_same

try:
    from scipy.sparse import issparse
    from scipy.sparse.linalg import LinearOperator
except ImportError as error:  # pragma: no cover
    raise ImportError("operators require SciPy: pip install scipy") from error


_NAMES = 4  # the number of names of leaves in a repr and in errors


class TreeOperator(LinearOperator):
    """A linear operator on pytrees of one structure, with the interface of SciPy on flat vectors.

    A flat vector has the elements of the leaves, one leaf after the other in the order of `names`. `ravel` and `unravel`
    convert. `A @ v` accepts a vector, a matrix of columns, or a pytree, whose product is a pytree.
    """

    _inner: Flat  # the arguments of the map
    _outer: Flat  # the results of the map

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each leaf of the argument, in the order of flat vectors.

        A dict is ordered by its keys; an OrderedDict stays in its own order.
        """
        return self._inner.names

    @property
    def leaf_sizes(self) -> tuple[int, ...]:
        """The number of elements of each leaf of the argument, in the order of flat vectors."""
        return tuple(self._inner.sizes)

    def ravel(self, tree: Any) -> np.ndarray:
        """The flat vector of a pytree.

        Args:
          tree: a pytree like the argument of the function, for example PyTorch's parameters by their names.

        Raises:
          TreeError, ShapeError: its structure or the shape of a leaf differs.
        """
        return self._inner.ravel(tree, "v")

    def unravel(self, vector: Any) -> Any:
        """The pytree of a flat vector, with arrays of NumPy.

        Args:
          vector: the numbers of all leaves, in the order of `names`.

        Raises:
          ShapeError: the vector has another length.
        """
        return self._inner.unravel(self._factor(vector, self._inner, (1,)))

    def dot(self, x: Any) -> Any:
        """The product with a vector, a matrix of columns, or a pytree; `A @ x` and `A * x` call it.

        Args:
          x: the factor. A number or another operator gives an operator, as in SciPy.
        """
        x = readable(x)
        if isinstance(x, LinearOperator):
            _check_shapes("a product", self, x, self.shape[1] == x.shape[0])
            return _composed(super().dot(x), x._inner if isinstance(x, TreeOperator) else None, self._outer)
        if isinstance(x, numbers.Number):
            return _composed(super().dot(x), self._inner, self._outer)
        if self._inner.is_tree(x):
            return self._outer.unravel(self.matvec(self.ravel(x)))
        return super().dot(self._factor(x, self._inner, (1, 2)))

    def __matmul__(self, x: Any) -> Any:
        """The product `A @ x`; see `dot`."""
        return self.dot(self._factor(x, self._inner, (1, 2)) if isinstance(x, numbers.Number) else x)

    def __rmatmul__(self, x: Any) -> Any:
        """The product `x @ A` with a vector or a matrix of rows."""
        if isinstance(x, LinearOperator):
            return super().__rmatmul__(x)
        return self.__rmul__(self._factor(x, self._outer, (1, 2), axis=-1))

    def __add__(self, x: Any) -> Any:
        """The sum with another operator; its vectors are those of this operator. Raises ShapeError for another shape."""
        if isinstance(x, LinearOperator):
            _check_shapes("a sum", self, x, self.shape == x.shape)
        return _composed(super().__add__(x), self._inner, self._outer)

    def __rmul__(self, x: Any) -> Any:
        """The multiple of a number `x * A`, or the product with a vector or a matrix of rows."""
        if isinstance(x, numbers.Number):
            return _composed(super().__rmul__(x), self._inner, self._outer)
        return super().__rmul__(self._factor(x, self._outer, (1, 2), axis=-1))

    def __neg__(self) -> Any:
        """The operator with the opposite sign."""
        return _composed(super().__neg__(), self._inner, self._outer)

    def __truediv__(self, x: Any) -> Any:
        """The operator divided by a number."""
        return _composed(super().__truediv__(x), self._inner, self._outer)

    def __pow__(self, x: Any) -> Any:
        """The operator applied x times."""
        return _composed(super().__pow__(x), self._inner, self._outer)

    def matvec(self, x: Any) -> Any:
        """The product with a vector, of shape (n,) or (n, 1)."""
        return super().matvec(self._factor(x, self._inner, (1, 2)))

    def matmat(self, x: Any) -> Any:
        """The products with the columns of a matrix."""
        return super().matmat(self._factor(x, self._inner, (2,)))

    def rmatvec(self, x: Any) -> Any:
        """The product of the transposed matrix with a vector."""
        return super().rmatvec(self._factor(x, self._outer, (1, 2)))

    def rmatmat(self, x: Any) -> Any:
        """The products of the transposed matrix with the columns of a matrix."""
        return super().rmatmat(self._factor(x, self._outer, (2,)))

    def _factor(self, x: Any, flat: Flat, ranks: tuple[int, ...], axis: int = 0) -> np.ndarray:
        """A factor of a product as an array; raises an error that says what is expected if its shape does not fit.

        Args:
          x: the factor, as the user gave it.
          flat: the vectors that the operator multiplies.
          ranks: the numbers of axes that the factor may have.
          axis: the axis of a matrix that has the elements of a vector: 0 for columns, -1 for rows.

        Raises:
          TreeError: it is no array of numbers.
          ShapeError: it has another shape.
        """
        side = "columns" if axis else "rows"
        expected = {1: f"a vector of {flat.size} numbers", 2: f"a matrix with {flat.size} {side}"}
        requirement = f"{type(self).__name__} requires {' or '.join(expected[rank] for rank in ranks)}"
        holds = f"a vector holds {order_of(flat)}; ravel(tree) makes one, and @ also accepts such a pytree."
        if issparse(x):
            raise TreeError(
                f"{requirement}, got a sparse matrix of shape {x.shape}.",
                where=user_frame(),
                help="A.toarray() is a factor, and so is scipy.sparse.linalg.aslinearoperator(A).",
            )
        try:
            array = np.asarray(readable(x))
        except ValueError:  # rows of several lengths
            raise ShapeError(f"{requirement}, got rows of several lengths.", where=user_frame(), help=holds) from None
        if array.ndim == 0 and array.dtype.kind in "OSU":
            raise TreeError(f"{requirement}, got {reprlib.repr(x)}.", where=user_frame(), help=holds)
        if array.ndim not in ranks or array.shape[axis] != flat.size:
            raise ShapeError(f"{requirement}, got shape {array.shape}.", where=user_frame(), help=holds)
        return array


def order_of(flat: Flat) -> str:
    """The names of the first four leaves of a flat vector with their shapes, as text: ``b (), w (2,) and 3 more``."""
    parts = [f"{name or 'v'} {shape}" for name, shape in zip(flat.names, flat.shapes, strict=True)]
    return ", ".join(parts[:_NAMES]) + (f" and {len(parts) - _NAMES} more" if len(parts) > _NAMES else "")


class TransposedOperator(TreeOperator):
    """The transposed matrix of a real operator.

    Args:
      of: the operator.
    """

    def __init__(self, of: TreeOperator):
        """The transpose of an operator, whose arguments and results are exchanged."""
        self._of, self._inner, self._outer = of, of._outer, of._inner
        super().__init__(of.dtype, of.shape[::-1])

    def _matvec(self, v: np.ndarray) -> np.ndarray:
        return self._of.rmatvec(v)

    def _matmat(self, vs: np.ndarray) -> np.ndarray:
        return self._of.rmatmat(vs)

    def _rmatvec(self, u: np.ndarray) -> np.ndarray:
        return self._of.matvec(u)

    def _rmatmat(self, us: np.ndarray) -> np.ndarray:
        return self._of.matmat(us)

    def _adjoint(self) -> TreeOperator:
        return self._of

    _transpose = _adjoint


class CompositeOperator(TreeOperator):
    """A sum, product, multiple or power of operators. It computes as SciPy's operator `of`, and accepts the vectors of its parts.

    Args:
      of: SciPy's operator.
      inner, outer: its arguments and its results.
    """

    def __init__(self, of: LinearOperator, inner: Flat, outer: Flat):
        """The operator of SciPy with pytrees as vectors; the class describes the arguments."""
        self._of, self._inner, self._outer = of, inner, outer
        super().__init__(of.dtype, of.shape)

    def _matvec(self, v: np.ndarray) -> np.ndarray:
        return self._of.matvec(v)

    def _matmat(self, vs: np.ndarray) -> np.ndarray:
        return self._of.matmat(vs)

    def _rmatvec(self, u: np.ndarray) -> np.ndarray:
        return self._of.rmatvec(u)

    def _rmatmat(self, us: np.ndarray) -> np.ndarray:
        return self._of.rmatmat(us)

    def _adjoint(self) -> Any:
        return CompositeOperator(self._of.adjoint(), self._outer, self._inner)

    def _transpose(self) -> Any:
        return CompositeOperator(self._of.transpose(), self._outer, self._inner)


def _composed(of: Any, inner: Flat | None, outer: Flat) -> Any:
    """The operator of SciPy `of` as an operator on pytrees, whose arguments and results have the structures `inner` and `outer`.

    It is `of` itself if the structure of its arguments is not known, or if it is no operator.
    """
    return of if inner is None or not isinstance(of, LinearOperator) else CompositeOperator(of, inner, outer)


def _check_shapes(what: str, first: LinearOperator, second: LinearOperator, do_fit: bool) -> None:
    """Raises ShapeError, with the shapes of both operators, unless they fit; `what` is the operation, such as "a sum"."""
    if not do_fit:
        raise ShapeError(
            f"{what} of operators requires shapes that fit, got {type(first).__name__} {first.shape} and {type(second).__name__} "
            f"{second.shape}.",
            where=user_frame(),
        )


class PointOperator(TreeOperator):
    """A matrix A(x), given by its products, at a point x that `update` moves; see `PreparedOperator`."""

    damping: float
    block: int
    products: int
    updates: int
    seconds: float
    x: np.ndarray
    value: Any
    gradient: np.ndarray | None
    _x: Flat

    def __init__(self, dtype: np.dtype, shape: tuple[int, int]):
        """Sets the counts of products and updates to zero; a subclass moves the operator to its first point."""
        self.products, self.updates, self.seconds = 0, 0, 0.0
        self._lock = new_lock()
        super().__init__(dtype, shape)

    def update(self, x: Any, *data: Any, check: bool = False) -> tuple[Any, np.ndarray | None]:
        """Moves to another point, and returns the value and the gradient there."""
        raise NotImplementedError

    # Solvers pass the point with each call. The operator moves only if the point is another one, so calls at one point
    # share work.

    def fun(self, x: np.ndarray) -> Any:
        """The value at x: a number, or the results as one vector."""
        self._move(x)
        return self.value

    def at(self, x: np.ndarray) -> OperatorAt:
        """The matrix at x, as an operator that moves this one to x before each product; the point may move on in between."""
        return OperatorAt(self._prepare, x)

    def objective(self, x: np.ndarray) -> tuple[Any, np.ndarray]:
        """The value and the gradient at x, for optimisers (`jac=True`)."""
        self._move(x)
        return self.value, self.jac(x)

    def jac(self, x: np.ndarray) -> np.ndarray:
        """The gradient at x. The caller may change it. Raises TraceError if the module computes no gradient."""
        self._move(x)
        if self.gradient is None:
            raise TraceError("jac requires a module whose update gives the gradient, got one without.")
        return self.gradient.copy()

    def hess(self, x: np.ndarray) -> Any:
        """The matrix at x, as `matrix` returns it."""
        self._move(x)
        return self.matrix()

    def hessp(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """The product with v at x."""
        self._move(x)
        return self.matvec(np.asarray(v))

    def matrix(self) -> Any:
        """The matrix with its damping."""
        return self.to_dense()

    def __repr__(self) -> str:
        """The class, shape and dtype, the value and gradient norm at the point, the order of vectors, and the counts."""
        parts = [f"{self.shape[0]}x{self.shape[1]}, {self.dtype}"]
        value = getattr(self, "value", None)
        if isinstance(value, (int, float)):
            parts.append(f"value {float(value):.6g}")
        gradient = getattr(self, "gradient", None)
        if gradient is not None:
            parts.append(f"|gradient| {np.linalg.norm(gradient):.3g}")
        if len(self.names) > 1:
            parts.append(f"order {order_of(self._inner)}")
        parts.append(f"{self.products} products, {self.updates} updates in {self.seconds:.3g} s")
        return f"{type(self).__name__}({', '.join(parts)})"

    def _prepare(self, x: np.ndarray) -> PointOperator:
        """The operator itself, after a move to the point x."""
        self._move(x)
        return self

    def _move(self, x: np.ndarray) -> None:
        """Moves the operator to a flat vector, if this is another point; raises ShapeError if the vector has another length."""
        point = rounded(x, self._x.dtype, "x")
        if point.shape != self.x.shape:
            raise ShapeError(
                f"an operator requires a point of shape {self.x.shape}, got {point.shape}.",
                where=user_frame(),
                help=f"a point holds {order_of(self._x)}; update(tree) takes a pytree.",
            )
        if not is_same(point, self.x):
            self.update(point)

    def to_dense(self) -> np.ndarray:
        """The matrix as a NumPy array, from its products with unit vectors."""
        return self.matmat(np.eye(self.shape[1], dtype=self.dtype))

    def _timed(self, function: Any, *args: Any) -> Any:
        """The result of a function for the arguments; the time of the call is added to `seconds`."""
        start = time.perf_counter()
        result = function(*args)
        with self._lock:
            self.seconds += time.perf_counter() - start
        return result


class OperatorAt(TreeOperator):
    """A matrix at a fixed point; each product first moves a shared operator to this point.

    Args:
      prepare: a function that returns an operator at a given point.
      x: the point, a flat vector.
    """

    x: np.ndarray

    def __init__(self, prepare: Callable[[np.ndarray], PointOperator], x: np.ndarray):
        """Prepares the operator at the point, and copies its structure."""
        self.x, self._prepare = np.array(x), prepare
        operator = prepare(self.x)
        self._inner, self._outer = operator._inner, operator._outer
        super().__init__(operator.dtype, operator.shape)

    def _matvec(self, v: np.ndarray) -> np.ndarray:
        return self._prepare(self.x).matvec(v)

    def _matmat(self, vs: np.ndarray) -> np.ndarray:
        return self._prepare(self.x).matmat(vs)

    def _rmatvec(self, u: np.ndarray) -> np.ndarray:
        return self._prepare(self.x).rmatvec(u)

    def _rmatmat(self, us: np.ndarray) -> np.ndarray:
        return self._prepare(self.x).rmatmat(us)
