"""JAX's transforms as one program for each function, in the place of one for each operation of it.

Outside `jax.jit` each operation on each shape is a program of its own that JAX compiles and keeps: a Hessian takes five times as
long so, and holds 26 MB. Functions that Python decides by values, or that read integers, are left to JAX as they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax


def _whole(transform: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(transform)
    def apply(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return jax.jit(transform(f, *args, **kwargs))

    return apply


grad, value_and_grad, hessian = _whole(jax.grad), _whole(jax.value_and_grad), _whole(jax.hessian)
jacfwd, jacrev, vmap = _whole(jax.jacfwd), _whole(jax.jacrev), _whole(jax.vmap)


def jvp(f: Callable[..., Any], primals: Any, tangents: Any) -> Any:
    """As `jax.jvp`."""
    return jax.jit(lambda x, t: jax.jvp(f, tuple(x), tuple(t)))(tuple(primals), tuple(tangents))
