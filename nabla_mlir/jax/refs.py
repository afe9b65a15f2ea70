"""The classes of mutable arrays, under the names of JAX. Programs have none: values do not change here."""

from __future__ import annotations

from typing import Any

from nabla_mlir.base.errors import TraceError, user_frame


class Ref:
    """A mutable array. No object is one, so `isinstance(x, Ref)` is False."""

    def __init__(self, *args: Any, **kwargs: Any):
        raise _refusal("Ref")


class AbstractRef:
    """The type of a mutable array."""

    def __init__(self, *args: Any, **kwargs: Any):
        raise _refusal("AbstractRef")


class Effect:
    """The base class of the effects of operations in JAX. Operations that print or call Python say so in the IR here."""


def new_ref(init_val: Any, *, memory_space: Any = None, kind: Any = None) -> Ref:
    """Raises TraceError: arrays are changed by ``x = x.at[i].set(v)``."""
    raise _refusal("new_ref")


def _refusal(who: str) -> TraceError:
    """The error for a use of mutable arrays."""
    return TraceError(
        f"{who} requires mutable arrays, got nabla_mlir, whose values do not change.",
        where=user_frame(),
        help="x = x.at[i].set(v) computes the changed array, and a loop carries it.",
    )
