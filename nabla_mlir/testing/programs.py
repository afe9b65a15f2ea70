"""Random programs for tests of passes: operations of every kind on arrays of some shapes, with maps, loops and derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir import numpy as nnp
from nabla_mlir.staging.stages import trace
from nabla_mlir.transforms import grad, jvp, vmap
from nabla_mlir.transforms.control import cond, fori_loop

Numbers = np.random.Generator
Maker = Callable[[Numbers, list[Any]], Any]  # from values of a program to one more

_UNARY = (nnp.sin, nnp.tanh, nnp.negative, nnp.abs, nnp.exp, lambda x: x * x, lambda x: nnp.log1p(x * x))
_BINARY = (nnp.add, nnp.subtract, nnp.multiply, nnp.maximum, lambda x, y: x / (1.0 + y * y))
_SHAPES = ((3,), (2, 3), (3, 2), (4,), (1, 3), ())


def random_module(seed: int, steps: int = 8) -> ir.Module:
    """A module with one function, `main`, of three arrays in f64; the same for a seed in every run.

    Its values are finite for small arguments. Of a value that nothing reads later nothing is said: passes for dead code
    have something to do.

    Args:
      seed: of the choices.
      steps: how many operations are chosen; one is a line of Python, which may be many operations of the IR.

    Example:
      >>> str(random_module(3)) == str(random_module(3)), str(random_module(3)) == str(random_module(4))
      (True, False)
    """
    rng = np.random.default_rng(seed)
    specs = [np.zeros(_SHAPES[i]) for i in rng.choice(len(_SHAPES), 3)]
    choices = rng.integers(0, 2**31, steps)

    def program(*arguments: Any) -> Any:
        values = list(arguments)
        for choice in choices:
            own = np.random.default_rng(choice)
            values.append(nnp.tanh(_MAKERS[own.integers(len(_MAKERS))](own, values)))
        return values[-1], values[own.integers(3, len(values))]

    return trace(program, *specs, name="main").module


def _pick(rng: Numbers, values: list[Any]) -> Any:
    return values[rng.integers(len(values))]


def _elementwise(rng: Numbers, values: list[Any]) -> Any:
    return _UNARY[rng.integers(len(_UNARY))](_pick(rng, values))


def _combined(rng: Numbers, values: list[Any]) -> Any:
    x = _pick(rng, values)
    others = [y for y in values if y.shape in (x.shape, ())]
    return _BINARY[rng.integers(len(_BINARY))](x, _pick(rng, others))


def _moved(rng: Numbers, values: list[Any]) -> Any:
    x = _pick(rng, values)
    if not x.shape:
        return nnp.stack([x, x * 2.0])
    axis = int(rng.integers(len(x.shape)))
    ways: list[Callable[[], Any]] = [
        lambda: nnp.transpose(x), lambda: nnp.flip(x, axis), lambda: x.reshape(-1), lambda: nnp.sum(x, axis),
        lambda: nnp.concatenate([x, x], axis), lambda: nnp.cumsum(x, axis), lambda: nnp.sort(x, axis),
        lambda: x.at[0].set(0.5), lambda: x.at[0].add(1.0), lambda: x[np.array([0, -1])], lambda: nnp.max(x, axis),
    ]  # fmt: skip
    return ways[rng.integers(len(ways))]()


def _product(rng: Numbers, values: list[Any]) -> Any:
    x = _pick(rng, [v for v in values if v.shape] or [nnp.ones(3, dtype=np.float64)])
    return x @ nnp.transpose(x) if len(x.shape) == 2 else nnp.outer(x, x)


def _map(rng: Numbers, values: list[Any]) -> Any:
    x, y = _pick(rng, [v for v in values if v.shape] or [nnp.ones(3, dtype=np.float64)]), _pick(rng, values)
    f, g = (_UNARY[i] for i in rng.integers(len(_UNARY), size=2))
    return vmap(lambda row: f(row) + nnp.sum(g(y)) * 0.1)(x)


def _derivative(rng: Numbers, values: list[Any]) -> Any:
    x, f = _pick(rng, values), _UNARY[rng.integers(len(_UNARY))]
    return grad(lambda y: nnp.sum(f(y)))(x) if rng.integers(2) else jvp(f, (x,), (nnp.sin(x),))[1]


def _loop(rng: Numbers, values: list[Any]) -> Any:
    x, f = _pick(rng, values), _UNARY[rng.integers(len(_UNARY))]
    return fori_loop(0, int(rng.integers(1, 4)), lambda i, c: nnp.tanh(f(c)) + x * 0.1, x)


def _choice(rng: Numbers, values: list[Any]) -> Any:
    x, f, g = _pick(rng, values), *(_UNARY[i] for i in rng.integers(len(_UNARY), size=2))
    return cond(nnp.sum(x) > 0.0, f, g, x)


_MAKERS: tuple[Maker, ...] = (_elementwise, _combined, _combined, _moved, _moved, _product, _map, _derivative, _loop, _choice)
