"""The classes by which custom rules see zero derivatives, with `symbolic_zeros=True`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nabla_mlir.base import pytree
from nabla_mlir.staging.specs import FLOAT0 as FLOAT0
from nabla_mlir.staging.specs import Spec, as_spec


@dataclass(frozen=True)
class SymbolicZero:
    """A tangent or a cotangent that is zero for all numbers. A rule may also return one.

    Attributes:
      aval: the shape of its primal, and its dtype; the dtype is `float0` if the primal has no derivative.

    Example:
      >>> import nabla_mlir as nm
      >>> SymbolicZero(nm.spec(2)).shape
      (2,)
    """

    aval: Spec

    @staticmethod
    def of(spec: Any) -> SymbolicZero:
        """The zero of a primal with a shape and a dtype."""
        return SymbolicZero(Spec(tuple(spec.shape), spec.dtype).to_tangent_aval())

    @staticmethod
    def from_primal_value(val: Any) -> SymbolicZero:
        """The zero of a value."""
        return SymbolicZero.of(as_spec(val))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of its primal."""
        return self.aval.shape

    @property
    def dtype(self) -> np.dtype:
        """The dtype of its primal, or `float0`."""
        return self.aval.dtype

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
        every floating-point value that depends on an argument of a function around the call.
    """

    value: Any
    perturbed: bool


def custom_vjp_primal_tree_values(tree: Any) -> Any:
    """The values in a pytree of `CustomVJPPrimal`.

    Example:
      >>> custom_vjp_primal_tree_values({"x": CustomVJPPrimal(3.0, True)})
      {'x': 3.0}
    """
    leaves, spec = pytree.flatten(tree)
    return pytree.unflatten(spec, [leaf.value for leaf in leaves])


def zero_from_primal(val: Any, symbolic_zeros: bool = False) -> Any:
    """The zero tangent of a pytree of values: arrays (for integers, of `float0`), or `SymbolicZero` with `symbolic_zeros`.

    Example:
      >>> zero_from_primal(np.ones(2)).tolist()
      [0.0, 0.0]
    """

    def zero(leaf: Any) -> Any:
        symbol = SymbolicZero.from_primal_value(leaf)
        return symbol if symbolic_zeros else np.zeros(symbol.shape, symbol.dtype)

    leaves, spec = pytree.flatten(val)
    return pytree.unflatten(spec, [zero(leaf) for leaf in leaves])
