"""Log densities for samplers: functions of flat vectors, with gradients, products with the Hessian, and many points at once."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import DeployError, ShapeError, user_frame
from nabla_mlir.interop.scipy.problems import check_scalar, start_of
from nabla_mlir.interop.vectors import Vectors
from nabla_mlir.prepared.instant import load_prepared
from nabla_mlir.staging.specs import Spec
from nabla_mlir.staging.stages import module, trace
from nabla_mlir.transforms import hvp, value_and_grad, vmap


class LogDensity:
    """The logarithm of a density over a pytree, for samplers that work on flat vectors of float64.

    Call it with a vector of shape (n,), or with k vectors of shape (k, n), as emcee does with `vectorize`. Several threads may call
    it at the same time.

    Args:
      f: a scalar function of (x, *data), up to a constant.
      x0: a pytree: the shapes and dtypes of x, and a point to start from.
      data: further arguments, arrays.
      target: where it runs, such as ``nm.CPU()``. With None it is interpreted until compiling pays.

    Attributes:
      vectors: the flattening of pytrees; `vectors.tree(x)` is the pytree of a vector.
      x0: the first point as a vector.
      size: n.

    Raises:
      TraceError: the result of the function is not a floating-point scalar.

    Example:
      >>> p = LogDensity(lambda x: -0.5 * (x["a"] ** 2).sum() - x["b"], {"a": np.zeros(2), "b": 0.0})
      >>> p(np.array([1.0, 2.0, 3.0])), p.value_and_grad(np.array([1.0, 2.0, 3.0]))[1].tolist()
      (-5.5, [-1.0, -2.0, -1.0])
      >>> p.hessp(p.x0, np.ones(3)).tolist(), p(np.zeros((5, 3))).shape
      ([-1.0, -1.0, 0.0], (5,))
    """

    vectors: Vectors
    x0: np.ndarray
    size: int

    def __init__(self, f: Callable[..., Any], x0: Any, *data: Any, target: Any = None):
        """Traces the value, the gradient and the product with the Hessian; raises if the result of f is no scalar."""
        tree = start_of("a log density", x0)
        self.vectors, self._target = Vectors(tree), target
        self.x0, self.size = self.vectors.vector(tree), self.vectors.size
        check_scalar("a log density", f, self.vectors.like, data)
        self._f = lambda x, *data: f(self._tree(x), *data).astype("float64")
        flat = Spec((self.size,), np.dtype(np.float64))
        stage = module(
            value=trace(self._f, flat, *data),
            both=trace(value_and_grad(self._f), flat, *data),
            hessp=trace(hvp(self._f), flat, flat, *data),
        )
        entries = load_prepared(stage.lower(), "", (), target)
        self._value, self._both, self._hessp = (entries[name] for name in ("value", "both", "hessp"))
        self._specs, self._data = data, self._value.leaves(self.x0, *data)[1:]
        self._batches: dict[int, Any] = {}  # by the number of points: the function of the values at so many points

    def __repr__(self) -> str:
        return f"LogDensity({self.size} numbers: {', '.join(name or 'x' for name in self.names)})"

    def _tree(self, x: Any) -> Any:
        """The pytree of the flat tensor `x`, inside a traced function."""
        ends = [0, *itertools.accumulate(int(np.prod(s.shape)) for s in self.vectors.specs)]
        parts = zip(ends, ends[1:], self.vectors.specs, strict=False)
        return pytree.unflatten(self.vectors.spec, [x[a:b].reshape(s.shape).astype(s.dtype) for a, b, s in parts])

    def __call__(self, x: np.ndarray) -> Any:
        """The value at x, a number; or of each row of x, shape (k,).

        Args:
          x: of shape (n,) or (k, n).

        Raises:
          ShapeError: it has another one.
        """
        x = self._point("x", x, "(n,) or (k, n)", ndims=(1, 2))
        if x.ndim == 1:
            return float(self._value.run([x, *self._data])[0])
        if len(x) not in self._batches:
            batch = vmap(self._f, in_axes=(0, *(None for _ in self._specs)))
            stage = module(batch=trace(batch, Spec(x.shape, x.dtype), *self._specs)).lower()
            self._batches[len(x)] = load_prepared(stage, "", (), self._target)["batch"]
        return np.array(self._batches[len(x)].run([x, *self._data])[0])

    def value_and_grad(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """The value and the gradient at x, shape (n,).

        Args:
          x: of shape (n,).
        """
        value, gradient = self._both.run([self._point("x", x), *self._data])
        return float(value), np.array(gradient)

    def grad(self, x: np.ndarray) -> np.ndarray:
        """The gradient at x, shape (n,).

        Args:
          x: of shape (n,).
        """
        return self.value_and_grad(x)[1]

    def hessp(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """The product of the Hessian at x with v, shape (n,).

        Args:
          x: of shape (n,).
          v: of shape (n,).
        """
        return np.array(self._hessp.run([self._point("x", x), self._point("v", v), *self._data])[0])

    def nutpie(self, spread: float = 1.0) -> Any:
        """A model for `nutpie.sample`, with a variable for each leaf, named by its path.

        Args:
          spread: chains start at x0 plus a uniform number between plus and minus this.

        Raises:
          DeployError: nutpie is not installed.
        """
        try:
            from nutpie.compiled_pyfunc import from_pyfunc
        except ImportError:
            raise DeployError(
                "nutpie requires nutpie, got an environment without it.",
                where=user_frame(),
                help="pip install 'nabla-mlir[samplers]'",
            ) from None
        names = self.names
        expand = lambda x: dict(zip(names, self.vectors.leaves(x), strict=True))  # noqa: E731
        start = lambda seed: self.x0 + np.random.default_rng(seed).uniform(-spread, spread, self.size)  # noqa: E731
        return from_pyfunc(
            self.size,
            lambda: self.value_and_grad,
            lambda *_: expand,
            [s.dtype for s in self.vectors.specs],
            [s.shape for s in self.vectors.specs],
            names,
            make_initial_point_fn=start,
        )

    @property
    def names(self) -> list[str]:
        """The names of the leaves, such as ``w.0``; x for a bare array."""
        return [name or "x" for name in pytree.names(self.vectors.spec)]

    def _point(self, what: str, x: Any, shape: str = "(n,)", ndims: tuple[int, ...] = (1,)) -> np.ndarray:
        """The array x as float64; raises ShapeError unless its last axis has the size of the density and its rank is in `ndims`.

        `what` and `shape` are for the message.
        """
        point = np.asarray(x, np.float64)
        if point.ndim not in ndims or point.shape[-1] != self.size:
            raise ShapeError(
                f"a log density requires {what} of shape {shape} with n = {self.size}, got {point.shape}.", where=user_frame()
            )
        return point
