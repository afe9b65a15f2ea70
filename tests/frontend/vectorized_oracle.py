"""The oracle of vectorised functions: for each index of all named axes, the plain function on the entries there.

That is jax.vmap, one axis after the other. A gradient of the parameter kind is its sum over the axes that the argument
does not carry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from xla import run_traced

import nabla_mlir as nm
import nabla_mlir.numpy as jnp
from nabla_mlir.ops.linalg import cholesky, triangular_solve
from nabla_mlir.table.promotion import as_tensor


class Ours:
    """The functions of a case in this library ..."""

    np, grad, hessian, hvp, jvp, vmap = jnp, nm.grad, nm.hessian, nm.hvp, nm.jvp, nm.vmap
    cond, while_loop, fori_loop, scan = nm.cond, nm.while_loop, nm.fori_loop, nm.scan

    @staticmethod
    def cholesky(a: Any) -> Any:
        return jnp.tril(cholesky(as_tensor((a + a.T) / 2), lower=True))

    @staticmethod
    def solve(a: Any, b: Any) -> Any:
        params = {"left_side": True, "lower": True, "unit_diagonal": False, "transpose_a": "NO_TRANSPOSE"}
        return triangular_solve(as_tensor(a), jnp.expand_dims(b, 1), **params)[:, 0]


class Theirs:
    """... and in JAX."""

    np, grad, hessian, jvp, vmap = jax.numpy, jax.grad, jax.hessian, jax.jvp, jax.vmap
    cond, while_loop, fori_loop, scan = jax.lax.cond, jax.lax.while_loop, jax.lax.fori_loop, jax.lax.scan

    @staticmethod
    def hvp(f: Any) -> Any:
        return lambda x, v: jax.jvp(jax.grad(f), (x,), (v,))[1]

    @staticmethod
    def cholesky(a: Any) -> Any:
        return jax.numpy.tril(jax.lax.linalg.cholesky(a))

    @staticmethod
    def solve(a: Any, b: Any) -> Any:
        return jax.lax.linalg.triangular_solve(a, b[:, None], left_side=True, lower=True)[:, 0]


@dataclass(frozen=True)
class Input:
    """The names of the leading axes of an array, in order."""

    axes: str
    array: np.ndarray


def inp(axes: str, values: Any) -> Input:
    return Input(axes, np.asarray(values, np.float64))


def order_of(inputs: Sequence[Input]) -> str:
    return "".join(dict.fromkeys("".join(i.axes for i in inputs)))


def oracle(f: Callable[..., Any], inputs: Sequence[Input]) -> Any:
    """``f`` at each index of all axes."""
    return mapped(f, inputs)(*(i.array for i in inputs))


def mapped(f: Callable[..., Any], inputs: Sequence[Input]) -> Callable[..., Any]:
    """``f`` for arrays with the axes of the inputs."""
    axes = order_of(inputs)
    moves = [(range(len(i.axes)), [sorted(i.axes, key=axes.index).index(a) for a in i.axes]) for i in inputs]
    for name in reversed(axes):
        positions = tuple(0 if name in i.axes else None for i in inputs)
        f = jax.vmap(f, positions)
    return lambda *arrays: f(*(jax.numpy.moveaxis(jax.numpy.asarray(x), *move) for x, move in zip(arrays, moves, strict=True)))


def check(got: Any, want: Any, axes: str, bound: float = 1e-9) -> None:
    flat = jax.tree.leaves(got, is_leaf=lambda x: isinstance(x, nm.VectorizedArray))
    for one, other in zip(flat, jax.tree.leaves(want), strict=True):
        assert "".join(getattr(one, "vectorized_axes", {})) == axes
        np.testing.assert_allclose(nm.devectorize(one), other, rtol=bound, atol=bound / 1000)


def ours(f: Callable[..., Any], inputs: Sequence[Input], *, legalize: bool = False) -> Any:
    def run(*arrays: Any) -> Any:
        return f(*(nm.vectorize(x, list(i.axes)) if i.axes else x for x, i in zip(arrays, inputs, strict=True)))

    return run_traced(run, [i.array for i in inputs], legalize=legalize)


Case = tuple[Callable[..., Any], list[Input]]


def plain_gradient(f: Any, count: int) -> Any:
    return jax.grad(lambda *a: f(Theirs, *a), tuple(range(count)))


def summed(union: Any, axes: str, own: str) -> Any:
    """The gradient of the parameter kind from that of the union kind: summed over the axes that are not its own."""
    total = np.sum(union, axis=tuple(i for i, a in enumerate(axes) if a not in own))
    stored = [a for a in axes if a in own]
    return np.moveaxis(total, range(len(stored)), [own.index(a) for a in stored])


KINDS = ("union", "parameter")


def value_and_gradients(f: Any, count: int) -> Callable[..., Any]:
    """The value, and the gradient of each kind, of a case."""

    def run(*xs: Any) -> Any:
        def of(*targets: Any) -> Any:
            return f(Ours, *targets, *xs[count:])

        targets = tuple(range(count))
        return f(Ours, *xs), [nm.grad(of, targets, vectorized=k)(*xs[:count]) for k in KINDS if count]

    return run


def check_case(f: Any, inputs: Sequence[Input], count: int, found: Any, bound: float = 1e-9) -> None:
    """Compares the results of `value_and_gradients` with the oracle."""
    check_cases(f, count, [(inputs, found, bound)])


def check_cases(f: Any, count: int, members: Sequence[tuple[Sequence[Input], Any, float]]) -> None:
    """Compares the results of `value_and_gradients` for several inputs with the oracle, which XLA compiles as one program."""

    def both(inputs: Sequence[Input], arrays: Sequence[Any]) -> tuple[Any, Any]:
        value = mapped(lambda *xs: f(Theirs, *xs), inputs)(*arrays)
        return value, mapped(plain_gradient(f, count), inputs)(*arrays) if count else None

    given = [[i.array for i in inputs] for inputs, _, _ in members]
    wanted = jax.jit(lambda given: [both(inputs, xs) for (inputs, _, _), xs in zip(members, given, strict=True)])(given)
    for (inputs, (value, gradients), bound), (want, slopes) in zip(members, wanted, strict=True):
        axes = order_of(inputs)
        check(value, want, axes, bound)
        if count:
            check(gradients[0], slopes, axes, bound)
            for one, other, i in zip(gradients[1], slopes, inputs, strict=False):
                check(one, summed(other, axes, i.axes), i.axes, bound)
