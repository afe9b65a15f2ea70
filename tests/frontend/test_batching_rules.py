"""Rules of the user's own for vmap, and closures made arguments, beside JAX: the same source, the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.custom_batching
import numpy as np
import pytest
from function_laws import agree

import nabla_mlir as nm
from nabla_mlir.base.errors import TraceError, TreeError

pytestmark = pytest.mark.usefixtures("interpreted_in_f64")

X, Y = np.arange(6.0).reshape(2, 3) / 7, np.linspace(1, 2, 6).reshape(2, 3)


def _ruled(j: Any) -> Any:
    """A function whose rule says which arguments it was given for all entries."""

    @j.custom_batching.custom_vmap
    def f(x, y):
        return j.numpy.sin(x["a"]) * y, y

    @f.def_vmap
    def rule(axis_size, in_batched, xs, ys):
        assert isinstance(in_batched, list)
        given = 100.0 * in_batched[0]["a"] + 10.0 * in_batched[1] + axis_size
        out = j.numpy.sin(xs["a"]) * ys + given
        return (out, ys), (in_batched[0]["a"] or in_batched[1], in_batched[1])

    return f


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda j: _ruled(j)({"a": X}, y=Y),
    "both": lambda j: j.vmap(_ruled(j))({"a": X}, Y),
    "one": lambda j: j.vmap(_ruled(j), (0, None))({"a": X}, 2.0),
    "other": lambda j: j.vmap(lambda y: _ruled(j)({"a": 0.5}, y), out_axes=1)(Y),
    "made of what is shared": lambda j: j.vmap(lambda x, y: _ruled(j)({"a": j.numpy.cos(y) * 2}, x), (0, None))(X, 0.3),
    "neither": lambda j: j.vmap(lambda x, y: (x, *_ruled(j)({"a": y}, y + 1)), (0, None))(X, 0.3),
    "nested": lambda j: j.vmap(j.vmap(_ruled(j), (0, None)), (0, 0))({"a": X}, Y[:, 0]),
    "gradient of a map": lambda j: j.grad(lambda x: j.numpy.sum(j.vmap(_ruled(j))({"a": x}, Y)[0] ** 2))(X),
    "map of a tangent": lambda j: j.vmap(lambda x, y: j.jvp(_ruled(j), ({"a": x}, y), ({"a": y}, x)))(X, Y),
    "in a loop": lambda j: j.vmap(lambda x: j.lax.fori_loop(0, 3, lambda i, c: _ruled(j)({"a": c}, x)[0], x))(X),
    "jitted": lambda j: j.jit(j.vmap(j.jit(lambda x: _ruled(j)({"a": x}, x * 2)[0])))(X),
    "sequential": lambda j: j.vmap(j.custom_batching.sequential_vmap(lambda x, y: (x * y, y)), (0, None))(X, Y[0]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_rules_are_followed_as_by_jax(name: str) -> None:
    agree(PROGRAMS[name](nm.jax), PROGRAMS[name](jax))


def test_a_rule_beside_a_reverse_rule() -> None:
    def program(j: Any) -> Any:
        @j.custom_vjp
        @j.custom_batching.custom_vmap
        def f(x):
            return x * x

        f.def_vmap(lambda axis_size, in_batched, xs: (xs * 5, True))
        f.defvjp(lambda x: (f(x), x), lambda x, ct: (3 * ct * x,))
        return j.vmap(f)(X[0]), j.grad(f)(2.0)

    agree(program(nm.jax), program(jax))


def test_compiled_rules() -> None:
    nm.set_execution("compile")
    got = nm.jit(lambda x, y: nm.vmap(_ruled(nm.jax), (0, None))({"a": x}, y))(X, 2.0)
    nm.set_execution("interpret")
    agree(got, PROGRAMS["one"](nm.jax))


def test_rules_that_do_not_fit_are_refused() -> None:
    f = nm.jax.custom_batching.custom_vmap(lambda x: x)
    with pytest.raises(TraceError, match="requires a rule for <lambda>, got none"):
        f(1.0)
    for rule in (lambda n, batched, x: x, lambda n, batched, x: (x, [True]), lambda n, batched, x: (x[:1], True)):
        f.def_vmap(rule)
        with pytest.raises(TreeError):
            nm.vmap(f)(X)


def _fixed_point(j: Any) -> Any:
    """A solver with a rule of its own, which is given functions of parameters that it knows nothing of."""

    def solve(f, x, n):
        return j.lax.fori_loop(0, n, lambda _, x: f(x), x)

    def call(f, x):
        converted, values = j.closure_convert(f, x)
        return ruled(converted, x, values)

    @partial(j.custom_vjp, nondiff_argnums=(0,))
    def ruled(f, x, values):
        return solve(lambda x: f(x, *values), x, 60)

    def forward(f, x, values):
        y = ruled(f, x, values)
        return y, (y, values)

    def backward(f, stored, ct):
        y, values = stored
        u = solve(lambda u: ct + j.vjp(lambda y: f(y, *values), y)[1](u)[0], ct, 60)
        return j.numpy.zeros_like(y), j.vjp(lambda values: f(y, *values), values)[1](u)[0]

    ruled.defvjp(forward, backward)
    return call


def test_closures_become_arguments() -> None:
    def program(j: Any) -> Any:
        def loss(a, b):
            k = j.numpy.arange(3)
            return j.numpy.sum(_fixed_point(j)(lambda x: j.numpy.cos(a * x) * b["c"] + 0.1 * k, j.numpy.ones(3)) ** 2)

        return j.value_and_grad(loss, (0, 1))(0.4, {"c": np.array([0.3, 0.5, 0.7])})

    agree(program(nm.jax), program(jax))
    converted, values = nm.closure_convert(lambda x: 2 * x, 1.0)
    assert values == []
    assert float(converted(3.0)) == 6.0
