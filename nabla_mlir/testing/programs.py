"""Random programs for tests of passes and targets: operations of every kind on small arrays, maps, loops and derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir import numpy as nnp
from nabla_mlir.staging.stages import trace
from nabla_mlir.transforms import grad, jvp, vmap
from nabla_mlir.transforms.control import cond, fori_loop
from nabla_mlir.transforms.scans import scan

Numbers = np.random.Generator
Maker = Callable[[Numbers, list[Any]], Any]  # (random numbers, the values of a program) -> one more value
Function = Callable[..., Any]

_UNARY = (
    nnp.sin,
    nnp.tanh,
    nnp.negative,
    nnp.abs,
    nnp.exp,
    lambda x: x * x,
    lambda x: nnp.log1p(x * x),
    nnp.arctan,
    lambda x: nnp.sqrt(1.0 + x * x),
    lambda x: nnp.where(x > 0.0, x, 0.25 * x),
    lambda x: nnp.clip(x, -0.5, 0.5),
)
_BINARY = (
    nnp.add,
    nnp.subtract,
    nnp.multiply,
    nnp.maximum,
    nnp.minimum,
    lambda x, y: x / (1.0 + y * y),
    nnp.hypot,
    lambda x, y: nnp.where(x > y, x * y, y),
)
_SIZES = (0, 1, 1, 2, 3, 3, 5, 7)
MOST_ELEMENTS = 2000  # the largest size of a value; a program then runs in milliseconds


def random_function(seed: int, dtype: Any = "float64", steps: int = 8) -> tuple[Function, list[np.ndarray]]:
    """A random function of three arrays, and arguments for it; equal seeds give equal programs.

    All its values are in (-1, 1). Some shapes have axes of size 0 and 1.

    Args:
      seed: the seed of the random choices.
      dtype: the real floating-point dtype of all values.
      steps: the number of steps. One step is a line of Python and may be many operations of the IR. A program with fewer
        steps is the beginning of the longer program with the same seed.

    Example:
      >>> f, xs = random_function(1)
      >>> [np.shape(y) == np.shape(z) for y, z in zip(f(*xs), f(*xs))]
      [True, True]
    """
    rng = np.random.default_rng(seed)
    arguments = [rng.uniform(-1, 1, _shape(rng)).astype(dtype) for _ in range(3)]
    choices = np.random.default_rng([seed, 1]).integers(0, 2**31, steps)

    def program(*inputs: Any) -> Any:
        """The last value of the program, and a random earlier value."""
        values = [nnp.asarray(x) for x in inputs]
        for choice in choices:
            step_rng = np.random.default_rng(choice)
            value = _MAKERS[step_rng.integers(len(_MAKERS))](step_rng, values)
            if value.size <= MOST_ELEMENTS:
                values.append(nnp.tanh(value))
        return values[-1], values[np.random.default_rng(seed).integers(len(values))]

    return program, arguments


def random_module(seed: int, steps: int = 8) -> ir.Module:
    """The program of `random_function` in f64 as a module with one function, `main`.

    Example:
      >>> str(random_module(3)) == str(random_module(3)), str(random_module(3)) == str(random_module(4))
      (True, False)
    """
    program, arguments = random_function(seed, steps=steps)
    return trace(program, *arguments, name="main").module


def _shape(rng: Numbers) -> tuple[int, ...]:
    """A random shape of rank 0 to 3."""
    return tuple(int(n) for n in rng.choice(_SIZES, rng.integers(4)))


def _pick(rng: Numbers, values: list[Any]) -> Any:
    return values[rng.integers(len(values))]


def _array(rng: Numbers, values: list[Any]) -> Any:
    """A random value with at least one axis."""
    return _pick(rng, [v for v in values if v.shape] or [nnp.stack([values[0], values[-1] * 0.5])])


def _elementwise(rng: Numbers, values: list[Any]) -> Any:
    return _UNARY[rng.integers(len(_UNARY))](_pick(rng, values))


def _combined(rng: Numbers, values: list[Any]) -> Any:
    """The result of a random binary operation on two of `values` whose shapes fit. `rng` makes the random choices."""
    x = _pick(rng, values)
    others = [y for y in values if y.shape in (x.shape, ())]
    return _BINARY[rng.integers(len(_BINARY))](x, _pick(rng, others) if others else x)


def _moved(rng: Numbers, values: list[Any]) -> Any:
    """One of `values` with its elements moved, repeated or padded, chosen at random. `rng` makes the random choices."""
    x = _array(rng, values)
    axis = int(rng.integers(len(x.shape)))
    shift = int(rng.integers(-3, 4))
    forms: list[Callable[[], Any]] = [
        lambda: nnp.transpose(x),
        lambda: nnp.flip(x, axis),
        lambda: x.reshape(-1),
        lambda: nnp.concatenate([x, x], axis),
        lambda: nnp.roll(x, shift, axis),
        lambda: nnp.expand_dims(x, axis),
        lambda: nnp.moveaxis(x, axis, 0),
        lambda: nnp.pad(x, 1),
        lambda: nnp.repeat(x, 2, axis),
        lambda: nnp.stack([x, x * 0.5], axis),
    ]
    return forms[rng.integers(len(forms))]()


def _reduced(rng: Numbers, values: list[Any]) -> Any:
    """A random reduction, running sum or sort of one of `values`. `rng` makes the random choices."""
    x = _array(rng, values)
    axis = int(rng.integers(len(x.shape)))
    forms: list[Callable[[], Any]] = [
        lambda: nnp.sum(x, axis),
        lambda: nnp.sum(x),
        lambda: nnp.cumsum(x, axis),
        lambda: nnp.sort(x, axis),
        lambda: nnp.sum(x, axis, keepdims=True) - x,
        lambda: nnp.prod(x, axis),
    ]
    if x.size:
        forms += [lambda: nnp.max(x, axis), lambda: nnp.min(x), lambda: nnp.mean(x, axis), lambda: nnp.var(x, axis)]
    return forms[rng.integers(len(forms))]()


def _indexed(rng: Numbers, values: list[Any]) -> Any:
    """Elements of one of `values` at random indices, or that value with new elements there. `rng` makes the random choices."""
    x = _array(rng, values)
    if not x.shape[0]:
        return x[1:] if rng.integers(2) else x[::2]
    n = x.shape[0]
    row, rows = int(rng.integers(n)), rng.integers(-n, n, 3)
    forms: list[Callable[[], Any]] = [
        lambda: x[row],
        lambda: x[rows],
        lambda: x[::-1],
        lambda: x[row:],
        lambda: x[..., None, row % max(x.shape[-1], 1) :],
        lambda: x.at[row].set(0.5),
        lambda: x.at[rows].add(0.25),
        lambda: x.at[row].multiply(x[row]),
        lambda: x.at[rows].set(0.125),
        lambda: x.at[: row + 1].add(x[n - row - 1 :]),
        lambda: x.at[rows].max(0.0),
    ]
    return forms[rng.integers(len(forms))]()


def _product(rng: Numbers, values: list[Any]) -> Any:
    """A random product of one of `values` with itself. `rng` makes the random choices."""
    x = _array(rng, values)
    if len(x.shape) == 1:
        return nnp.outer(x, x) if rng.integers(2) else x @ x
    y = nnp.moveaxis(x, -1, -2)
    return x @ y if rng.integers(2) else nnp.einsum("...ij,...ik->...jk", x, x)


def _map(rng: Numbers, values: list[Any]) -> Any:
    """The results of a random function of the rows of one of `values`, mapped along a random axis.

    `rng` makes the random choices.
    """
    x, y = _array(rng, values), _pick(rng, values)
    f, g = (_UNARY[i] for i in rng.integers(len(_UNARY), size=2))
    axis = int(rng.integers(len(x.shape)))
    return vmap(lambda row: f(row) + nnp.sum(g(y)) * 0.1, axis, int(rng.integers(len(x.shape))))(x)


def _derivative(rng: Numbers, values: list[Any]) -> Any:
    """A gradient or a jvp of random functions at one of `values`. `rng` makes the random choices."""
    x, f, g = _pick(rng, values), *(_UNARY[i] for i in rng.integers(len(_UNARY), size=2))
    if rng.integers(2):
        return grad(lambda y: nnp.sum(f(y) * g(x)))(x)
    return jvp(lambda y: f(y) * g(y), (x,), (nnp.sin(x),))[1]


def _loop(rng: Numbers, values: list[Any]) -> Any:
    """The result of a random function of one of `values` in a scan over its rows, or in a counted loop.

    `rng` makes the random choices.
    """
    x, f = _pick(rng, values), _UNARY[rng.integers(len(_UNARY))]
    if x.shape and rng.integers(2):
        return scan(lambda c, row: (nnp.tanh(c + f(row)), c), x[0] * 0.0 if x.shape[0] else nnp.sum(x, 0), x)[1]
    return fori_loop(0, int(rng.integers(1, 4)), lambda i, c: nnp.tanh(f(c)) + x * 0.1, x)


def _choice(rng: Numbers, values: list[Any]) -> Any:
    """The result of one of two random functions of one of `values`; the sign of the sum of its elements selects the function."""
    x, f, g = _pick(rng, values), *(_UNARY[i] for i in rng.integers(len(_UNARY), size=2))
    return cond(nnp.sum(x) > 0.01, f, g, x)


_MAKERS: tuple[Maker, ...] = (
    _elementwise,
    _combined,
    _combined,
    _moved,
    _moved,
    _reduced,
    _indexed,
    _indexed,
    _product,
    _map,
    _derivative,
    _loop,
    _choice,
)
