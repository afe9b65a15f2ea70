"""The classes of traced values and of their types, under the names of `jax.core`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import TraceError, user_frame
from nabla_mlir.jax.environment import typeof as get_aval
from nabla_mlir.jax.interpreters.xla import pytype_aval_mappings as pytype_aval_mappings
from nabla_mlir.jax.jaxprs import DropVar as DropVar
from nabla_mlir.jax.jaxprs import Literal, Var
from nabla_mlir.jax.jaxprs import eval_jaxpr as eval_jaxpr
from nabla_mlir.jax.jaxprs import jaxpr_as_fun as jaxpr_as_fun
from nabla_mlir.staging.abstract import ShapeDtypeStruct
from nabla_mlir.staging.specs import Spec
from nabla_mlir.staging.tracing import current_trace, is_tracing
from nabla_mlir.staging.tracing import ensure_compile_time_eval as ensure_compile_time_eval
from nabla_mlir.table.promotion import is_scalar
from nabla_mlir.table.tensor import Tensor as Tracer
from nabla_mlir.table.tensor import current_scope

Atom = Var | Literal

__all__ = ["AbstractValue", "ShapedArray", "Tracer", "ensure_compile_time_eval", "get_aval", "trace_state_clean"]

AbstractValue = Spec


class ShapedArray(ShapeDtypeStruct):
    """The shape and the dtype of an array; `typeof` returns it.

    Example:
      >>> ShapedArray((2,), "float32").ndim, isinstance(get_aval(3.0), ShapedArray)
      (1, True)
    """


class Trace:
    """The base class of JAX's interpreters of primitives. There are none here, so making one is an error.

    Raises:
      TraceError: always.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        raise _refusal(type(self).__name__)


class TraceTag:
    """Marks the values of one of JAX's interpreters. Making one raises TraceError, because there are none here."""

    def __init__(self) -> None:
        raise _refusal("TraceTag")


def take_current_trace() -> Any:
    """Raises TraceError: a trace records IR here, and passes transform that."""
    raise _refusal("take_current_trace")


def set_current_trace(trace: Any) -> Any:
    """Raises TraceError, see `take_current_trace`."""
    raise _refusal("set_current_trace")


def _refusal(who: str) -> TraceError:
    """The error for a class or function that needs JAX's interpreters of primitives."""
    return TraceError(
        f"{who} requires JAX's interpreters of primitives, got nabla_mlir, where passes transform the IR.",
        where=user_frame(),
        help="jax.make_jaxpr(f)(*args).eqns lists the operations of a function.",
    )


@dataclass(frozen=True)
class OpaqueTraceState:
    """The trace and the transforms around some code. Two states are equal if the code is in the same trace and transforms."""

    trace: Any
    scope: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueTraceState) and self.trace is other.trace and self.scope is other.scope

    def __hash__(self) -> int:
        return hash((id(self.trace), id(self.scope)))


def get_opaque_trace_state(convention: str = "flax") -> OpaqueTraceState:
    """The trace and the transforms around the call, to compare with those of other code.

    Args:
      convention: accepted for programs of JAX.

    Example:
      >>> get_opaque_trace_state() == get_opaque_trace_state()
      True
    """
    return OpaqueTraceState(current_trace(), current_scope())


def valid_jaxtype(x: Any) -> bool:
    """True for an array or a number.

    Example:
      >>> valid_jaxtype(1.0), valid_jaxtype("x")
      (True, False)
    """
    return pytree.is_array(x) or is_scalar(x)


def trace_state_clean() -> bool:
    """True if no function is being traced.

    Example:
      >>> trace_state_clean()
      True
    """
    return not is_tracing()
