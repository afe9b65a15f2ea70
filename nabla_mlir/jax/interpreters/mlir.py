"""Implementations of primitives in compiled programs, under the names of `jax.interpreters.mlir`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nabla_mlir.base.errors import RuleMissingError, user_frame
from nabla_mlir.jax.primitives import Primitive, lowerings


class _Lowered:
    """Marks a lowering that is an ordinary function, which can be traced."""

    def __init__(self, function: Callable[..., Any]):
        self.lowered = function

    def __call__(self, *args: Any, **params: Any) -> Any:
        return self.lowered(*args, **params)


def lower_fun(fun: Callable[..., Any], multiple_results: bool = True) -> Callable[..., Any]:
    """A lowering that traces `fun`; pass it to `register_lowering`."""
    return _Lowered(fun)


def register_lowering(prim: Primitive, rule: Callable[..., Any], platform: str | None = None, **kwargs: Any) -> Callable[..., Any]:
    """Sets the implementation that programs use for a primitive.

    One from `lower_fun` is traced. One that builds MLIR for JAX's compiler is not used: programs contain the implementation
    that `def_impl` sets.
    """
    if platform in (None, "cpu"):
        lowerings[prim] = rule
    return rule


def emit_python_callback(*args: Any, **kwargs: Any) -> Any:
    """Raises RuleMissingError: a primitive that calls Python is written with `pure_callback`."""
    raise RuleMissingError(
        "emit_python_callback requires JAX's compiler, got nabla_mlir.", where=user_frame(), help="use jax.pure_callback."
    )
