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
    """Adds derivatives to a function `f` of parameters and, as the last one, an argument. The derivative by the argument is
    `density`; the derivatives by the parameters are those of the loops of `loops`, by default of `f`. A parameter that is a
    constant of the program has no derivative, so its loops are not traced, unless `has_constants` is False: a density that calls
    the function with other parameters would be traced once more.
    """
    inner = loops or f

    @functools.cache
    def with_constants(constants: tuple[int, ...]) -> Any:
        """The function with its derivatives, where the parameters at the positions `constants` are not differentiated."""
        whole = custom_jvp(f, constants)

        @whole.defjvp
        def rule(*args: Any) -> Any:
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
            return whole(*values), total

        return whole

    def call(*args: Tensor) -> Tensor:
        return with_constants(tuple(k for k, p in enumerate(args[:-1]) if has_constants and splat_of(p) is not None))(*args)

    return call
