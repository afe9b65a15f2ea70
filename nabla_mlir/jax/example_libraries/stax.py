"""Layers of neural networks as pairs of functions, under the names of `jax.example_libraries.stax`.

A layer is a pair ``(init_fun, apply_fun)``: ``init_fun(key, input_shape) -> (output_shape, params)`` and
``apply_fun(params, inputs, **kwargs) -> outputs``. A function of parameters returns such a pair; a constant is one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from nabla_mlir import nn
from nabla_mlir.nn import initializers
from nabla_mlir.numpy.joining import concatenate
from nabla_mlir.numpy.products import dot
from nabla_mlir.numpy.ufuncs import exp, tanh
from nabla_mlir.random import bernoulli, split

Layer = tuple[Callable[..., Any], Callable[..., Any]]


def Dense(  # noqa: N802  # the names of JAX
    out_dim: int,
    W_init: Any = initializers.glorot_normal(),  # noqa: B008
    b_init: Any = initializers.normal(),  # noqa: B008
) -> Layer:
    """A layer ``x @ W + b`` with `out_dim` outputs.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> init, apply = Dense(3)
      >>> shape, params = init(nm.random.key(0), (2, 4))
      >>> shape, apply(params, np.ones((2, 4), np.float32)).shape
      ((2, 3), (2, 3))
    """

    def init(rng: Any, input_shape: Sequence[int]) -> Any:
        """The shape of the result, and random weights and a random bias."""
        first, second = split(rng)
        weights = W_init(first, (input_shape[-1], out_dim)), b_init(second, (out_dim,))
        return (*input_shape[:-1], out_dim), weights

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        weights, bias = params
        return dot(inputs, weights) + bias

    return init, apply


def elementwise(fun: Callable[..., Any], **fun_kwargs: Any) -> Layer:
    """A layer that applies a function to each element, without parameters."""
    return (lambda rng, input_shape: (input_shape, ())), (lambda params, inputs, **kwargs: fun(inputs, **fun_kwargs))


Tanh: Layer = elementwise(tanh)
Relu: Layer = elementwise(nn.relu)
Exp: Layer = elementwise(exp)
LogSoftmax: Layer = elementwise(nn.log_softmax, axis=-1)
Softmax: Layer = elementwise(nn.softmax, axis=-1)
Softplus: Layer = elementwise(nn.softplus)
Sigmoid: Layer = elementwise(nn.sigmoid)
Elu: Layer = elementwise(nn.elu)
LeakyRelu: Layer = elementwise(nn.leaky_relu)
Selu: Layer = elementwise(nn.selu)
Gelu: Layer = elementwise(nn.gelu)
Identity: Layer = elementwise(lambda x: x)


def _flattened(rng: Any, input_shape: Sequence[int]) -> Any:
    """The init function of `Flatten`: the shape with all axes but the first joined, and no parameters."""
    return (input_shape[0], math.prod(input_shape[1:])), ()


Flatten: Layer = (_flattened, lambda params, inputs, **kwargs: inputs.reshape((inputs.shape[0], -1)))


def FanOut(num: int) -> Layer:  # noqa: N802
    """A layer with `num` copies of its input."""
    return (lambda rng, shape: ([shape] * num, ())), (lambda params, inputs, **kwargs: [inputs] * num)


FanInSum: Layer = (
    lambda rng, input_shape: (input_shape[0], ()),
    lambda params, inputs, **kwargs: functools.reduce(lambda x, y: x + y, inputs),
)


def FanInConcat(axis: int = -1) -> Layer:  # noqa: N802
    """A layer that joins its inputs along an axis."""

    def init(rng: Any, input_shape: Any) -> Any:
        """The shape of the joined inputs, and no parameters."""
        first = list(input_shape[0])
        first[axis] = sum(shape[axis] for shape in input_shape)
        return tuple(first), ()

    return init, lambda params, inputs, **kwargs: concatenate(inputs, axis)


def Dropout(rate: float, mode: str = "train") -> Layer:  # noqa: N802
    """A layer for training that sets random elements to zero; each is kept with probability `rate` and then divided by `rate`.

    With another `mode` than "train", it returns its inputs. In training, `apply_fun` requires the keyword argument `rng`, a key.
    """

    def apply(params: Any, inputs: Any, *, rng: Any = None, **kwargs: Any) -> Any:
        """Sets random elements of the inputs to zero in training, and returns the inputs otherwise."""
        if mode != "train":
            return inputs
        mask = bernoulli(rng, rate, inputs.shape)
        return _masked(mask, inputs / rate)

    return (lambda rng, input_shape: (input_shape, ())), apply


def _masked(mask: Any, x: Any) -> Any:
    """The array with zeros where the mask is False."""
    return x * mask.astype(x.dtype)


def serial(*layers: Layer) -> Layer:
    """A layer that applies several layers one after the other.

    Example:
      >>> import nabla_mlir as nm
      >>> init, _ = serial(Dense(8), Relu, Dense(2))
      >>> init(nm.random.key(0), (5, 3))[0]
      (5, 2)
    """

    def init(rng: Any, input_shape: Any) -> Any:
        """The shape after the last layer, and the list of the parameters of the layers."""
        params = []
        for init_fun, _ in layers:
            rng, key = split(rng)
            input_shape, param = init_fun(key, input_shape)
            params.append(param)
        return input_shape, params

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        """The outputs of the last layer."""
        for (_, apply_fun), param, key in zip(layers, params, _keys(kwargs, len(layers)), strict=True):
            inputs = apply_fun(param, inputs, **key)
        return inputs

    return init, apply


def parallel(*layers: Layer) -> Layer:
    """A layer that applies several layers side by side, each to its own entry of a list of inputs."""

    def init(rng: Any, input_shape: Any) -> Any:
        """The list of output shapes and the list of parameters, for a list of input shapes."""
        pairs = [layer[0](key, shape) for layer, key, shape in zip(layers, split(rng, len(layers)), input_shape, strict=True)]
        return [shape for shape, _ in pairs], [param for _, param in pairs]

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        """The list of the outputs of the layers."""
        keys = _keys(kwargs, len(layers))
        return [layer[1](p, x, **key) for layer, p, x, key in zip(layers, params, inputs, keys, strict=True)]

    return init, apply


def _keys(kwargs: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """The keyword arguments for each of several layers: each layer gets its own key."""
    rng = kwargs.get("rng")
    return [kwargs] * count if rng is None else [{**kwargs, "rng": key} for key in split(rng, count)]


def shape_dependent(make_layer: Callable[[Any], Layer]) -> Layer:
    """A layer whose functions are those of ``make_layer(input_shape)``."""
    return (
        lambda rng, input_shape: make_layer(input_shape)[0](rng, input_shape),
        lambda params, inputs, **kwargs: make_layer(inputs.shape)[1](params, inputs, **kwargs),
    )
