"""Derivatives of functions of parameters and an argument that are computed by loops."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from nabla_mlir.table.tensor import Tensor, full_like, splat_of
from nabla_mlir.transforms.custom import custom_jvp
from nabla_mlir.transforms.linear import jvp


def with_slopes(
    f: Callable[..., Tensor], density: Callable[..., Tensor], loops: Callable[..., Tensor] | None = None, has_constants: bool = True
) -> Any:
    """Returns `f` with derivatives; `f` is a function of parameters and, last, an argument.

    The derivative by the argument is `density`. The derivatives by the parameters are those of `loops`, by default of `f`.
    Parameters that are constants of the program are not differentiated, and their loops are not traced. With
    `has_constants=False`, all parameters are differentiated; this is for a density that calls the function with other parameters.
    """
    inner = loops or f

    @functools.cache
    def with_constants(constants: tuple[int, ...]) -> Any:
        """The function with its derivatives; the parameters at the positions `constants` are not differentiated."""
        with_rule = custom_jvp(f, constants)

        @with_rule.defjvp
        def rule(*args: Any) -> Any:
            """The value, and the tangent as a sum over the argument and the parameters with tangents."""
            *fixed, primals, tangents = args
            values, seeds = list(primals), list(tangents)
            for k, constant in zip(constants, fixed, strict=True):
                values.insert(k, constant)
                seeds.insert(k, None)
            total = seeds[-1] * density(*values)
            for k, t in enumerate(seeds[:-1]):
                if t is not None:
                    along = lambda p, k=k: inner(*values[:k], p, *values[k + 1 :])  # noqa: E731
                    total = total + t * jvp(along, (values[k],), (full_like(values[k], 1),))[1]
            return with_rule(*values), total

        return with_rule

    def call(*args: Tensor) -> Tensor:
        """The value of `f`, by the form that does not differentiate the parameters that are constants of the program."""
        return with_constants(tuple(k for k, p in enumerate(args[:-1]) if has_constants and splat_of(p) is not None))(*args)

    return call
