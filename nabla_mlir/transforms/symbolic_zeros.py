"""The classes by which custom rules see zero derivatives, with `symbolic_zeros=True`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nabla_mlir.base import pytree
from nabla_mlir.dialects.types import is_differentiable
from nabla_mlir.staging.specs import Spec, as_spec

FLOAT0: np.dtype[Any] = np.dtype([("float0", np.void, 0)])


@dataclass(frozen=True)
class SymbolicZero:
    """A tangent or a cotangent that is zero for all numbers. A rule may also return one.

    Attributes:
      shape: the shape of its primal.
      dtype: the dtype of its primal; `float0` if the primal has no derivative.

    Example:
      >>> SymbolicZero((2,), np.dtype("float32")).shape
      (2,)
    """

    shape: tuple[int, ...]
    dtype: np.dtype

    @staticmethod
    def of(spec: Any) -> SymbolicZero:
        """The zero of a primal with a shape and a dtype."""
        return SymbolicZero(tuple(spec.shape), spec.dtype if is_differentiable(spec.dtype) else FLOAT0)

    @staticmethod
    def from_primal_value(val: Any) -> SymbolicZero:
        """The zero of a value."""
        return SymbolicZero.of(as_spec(val))

    @property
    def aval(self) -> Spec:
        """The shape and dtype, as one object."""
        return Spec(self.shape, self.dtype)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)


@dataclass(frozen=True)
class CustomVJPPrimal:
    """An argument, in the form in which the first function of a reverse rule gets it.

    Attributes:
      value: the argument.
      perturbed: True if it may be differentiated. A rule is traced once for all possible derivatives, so this is True for
        every floating-point value, and False otherwise.
    """

    value: Any
    perturbed: bool

    @staticmethod
    def of(value: Any) -> CustomVJPPrimal:
        """The object of a tensor."""
        return CustomVJPPrimal(value, is_differentiable(value.dtype))


def custom_vjp_primal_tree_values(tree: Any) -> Any:
    """The values in a pytree of `CustomVJPPrimal`.

    Example:
      >>> custom_vjp_primal_tree_values({"x": CustomVJPPrimal(3.0, True)})
      {'x': 3.0}
    """
    leaves, spec = pytree.flatten(tree)
    return pytree.unflatten(spec, [leaf.value for leaf in leaves])


def zero_from_primal(val: Any, symbolic_zeros: bool = False) -> Any:
    """The zero tangent of a value: an array (for an integer, of `float0`), or a `SymbolicZero` with `symbolic_zeros`.

    Example:
      >>> zero_from_primal(np.ones(2)).tolist()
      [0.0, 0.0]
    """
    zero = SymbolicZero.from_primal_value(val)
    return zero if symbolic_zeros else np.zeros(zero.shape, zero.dtype)
