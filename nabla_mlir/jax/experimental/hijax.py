"""Types with operations of their own, under the names of `jax.experimental.hijax`.

Packages may define such classes. Their use raises an error: arrays are the only values of a program here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nabla_mlir.base.errors import TraceError, user_frame
from nabla_mlir.jax.core import AbstractValue as AbstractValue
from nabla_mlir.jax.interpreters.ad import Zero as Zero
from nabla_mlir.jax.interpreters.ad import instantiate_zeros as instantiate_zeros
from nabla_mlir.jax.interpreters.ad import is_undefined_primal as is_undefined_primal


def _refuse(what: str) -> TraceError:
    """The error for the use `what` of JAX's types whose values are not arrays, which nabla_mlir does not have."""
    return TraceError(
        f"{what} requires types that are no arrays, got nabla_mlir, whose programs have arrays alone.", where=user_frame()
    )


class HiType:
    """The base class of types with operations of their own."""

    def __init__(self, *args: Any, **kwargs: Any):
        raise _refuse(type(self).__name__)


class MutableHiType(HiType):
    """The base class of types with operations of their own whose values change."""


class AvalQDD(HiType):
    """A type together with the state of its value."""


class AvalMutableQDD(AvalQDD):
    """A type together with the state of its value, which changes."""


class HiPrimitive:
    """The base class of operations on such types.

    Args:
      name: the name of the operation.
    """

    def __init__(self, name: str):
        self.name = name

    def bind(self, *args: Any, **params: Any) -> Any:
        """Raises TraceError."""
        raise _refuse(self.name)


class aval_property(property):  # noqa: N801  # a decorator of JAX
    """A property of values that their type computes."""


class aval_method:  # noqa: N801
    """A method of values that their type computes.

    Args:
      fun: the method.
    """

    def __init__(self, fun: Callable[..., Any]):
        self.fun = fun


class _Effects:
    """The kinds of effects that loops may have; every effect of a program keeps its order here."""

    def add_type(self, effect_type: type) -> None:
        """Accepts a kind."""


control_flow_allowed_effects: _Effects = _Effects()


def register_hitype(val_cls: type, typeof_fn: Callable[..., Any]) -> None:
    """Accepts the type of a class. Values of the class are still no arguments of a traced function."""
