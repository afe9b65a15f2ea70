"""Decorators for functions that draw real numbers: they check the arguments and run one program."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from nabla_mlir.numpy.axes import shape_of
from nabla_mlir.random.arguments import float_dtype, parameters, shape_for, spread
from nabla_mlir.random.keys import key_of, words_of
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.tensor import Tensor

Draw = Callable[..., Any]


def standard(draw: Draw) -> Draw:
    """Decorator of a distribution without parameters; ``draw(key, shape, dtype)`` gets the words of the key."""
    name = draw.__name__

    @library
    def program(key: Any, shape: Static[Any], dtype: np.dtype) -> Tensor:
        """The numbers that `draw` computes from the words of a checked key."""
        return draw(words_of(key), shape, dtype)

    @functools.wraps(draw)
    def call(key: Any, shape: Any = (), dtype: Any = None) -> Any:
        """Random numbers with the shape and dtype of a call, after these have been checked."""
        return program(key_of(name, key), shape_of(name, shape), float_dtype(name, dtype))

    return _with_types(call)


def parametrized(draw: Draw) -> Draw:
    """Decorator of a distribution; ``draw(key, *parameters, shape, dtype)`` gets parameters that are broadcast to the shape.

    The default shape is the shape to which the parameters broadcast.
    """
    name, signature = draw.__name__, inspect.signature(draw)

    @library
    def program(key: Any, xs: Any, shape: Static[Any], dtype: np.dtype) -> Tensor:
        """The numbers that `draw` computes from the words of a key and the parameters `xs`, broadcast to the shape."""
        return draw(words_of(key), *spread(name, xs, dtype, shape), shape, dtype)

    @functools.wraps(draw)
    def call(*args: Any, **kwargs: Any) -> Any:
        """Random numbers with the dtype, shape and parameters of a call, after these have been checked."""
        try:
            arguments = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}() {error}") from None
        arguments.apply_defaults()
        key, *xs, shape, dtype = arguments.arguments.values()
        dtype = float_dtype(name, dtype)
        xs = parameters(name, dtype, *xs)
        return program(key_of(name, key), xs, shape_for(name, shape, *xs), dtype)

    return _with_types(call)


_GIVEN = {"key": "KeyArray | ArrayLike", "shape": "ShapeLike | None", "dtype": "DTypeLike | None"}  # what callers give


def _with_types(call: Any) -> Any:
    """The same function `call`, whose signature has the types that callers may pass; those in its code are after conversions."""
    signature = inspect.signature(call)
    given = [p.replace(annotation=_GIVEN.get(p.name, "ArrayLike")) for p in signature.parameters.values()]
    call.__signature__ = signature.replace(parameters=given)
    return call
