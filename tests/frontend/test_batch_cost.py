"""Nothing that does not vary is copied: maps of derivatives and derivatives of maps, counted against what JAX emits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from cost import copies, cost, jax_module

import nabla_mlir as nm
import nabla_mlir.numpy as jnp
from nabla_mlir import pytree
from nabla_mlir.lowering import lower_module
from nabla_mlir.tracing import Spec, trace_function

# All sizes differ, so that an axis is known by its size.
ROWS, WIDTH, HIDDEN, VECTORS = 11, 5, 7, 13
X, V = np.ones((ROWS, WIDTH), np.float32), np.ones((VECTORS, WIDTH), np.float32)
W1, W2 = np.ones((HIDDEN, WIDTH), np.float32), np.ones((HIDDEN, HIDDEN), np.float32)
W1S = np.ones((VECTORS, HIDDEN, WIDTH), np.float32)


def lowered(f: Callable[..., Any], *args: Any) -> Any:
    specs = [Spec(np.shape(x), np.asarray(x).dtype) for x in args]
    module, _ = trace_function(lambda *a: pytree.flatten(f(*a))[0], specs, "main")
    lower_module(module)
    return module


def loss(xp: Any) -> Callable[..., Any]:
    return lambda x, w1, w2: (xp.tanh(xp.dot(w2, xp.tanh(xp.dot(w1, x)))) ** 2).sum()


def hvp(j: Any, f: Any) -> Any:
    return lambda x, v: j.jvp(j.grad(f), (x,), (v,))[1]


# Programs ``(transforms, numpy) -> function``, and its arguments.
PROGRAMS: dict[str, tuple[Callable[[Any, Any], Callable[..., Any]], tuple[np.ndarray, ...]]] = {
    "vmap_of_hessian": (
        lambda j, xp: lambda x, w1, w2: j.vmap(lambda r: j.hessian(loss(xp))(r, w1, w2))(x), (X, W1, W2)),
    "hessian_of_vmap": (
        lambda j, xp: lambda a, x, w1, w2: j.hessian(
            lambda a: j.vmap(lambda r: loss(xp)(a * r, w1, w2))(x).mean())(a), (X[0], X, W1, W2)),
    "gradients_per_example": (
        lambda j, xp: lambda x, w1, w2: j.vmap(lambda r: j.grad(loss(xp), (1, 2))(r, w1, w2))(x), (X, W1, W2)),
    "products_with_many_vectors": (
        lambda j, xp: lambda x, v, w1, w2: j.vmap(lambda u: hvp(j, lambda x: loss(xp)(x, w1, w2))(x, u))(v),
        (X[0], V, W1, W2)),
    "products_per_example": (
        lambda j, xp: lambda x, v, w1, w2: j.vmap(hvp(j, lambda x: loss(xp)(x, w1, w2)))(x, v), (X, X, W1, W2)),
    "products_of_a_mean_with_many_vectors": (
        lambda j, xp: lambda x, w1, v, w2: j.vmap(
            lambda u: hvp(j, lambda w: j.vmap(lambda r: loss(xp)(r, w, w2))(x).mean())(w1, u))(v), (X, W1, W1S, W2)),
    "all_pairs": (
        lambda j, xp: lambda x, v: j.vmap(lambda r: j.vmap(lambda u: xp.exp(-((r - u) ** 2).sum()))(v))(x), (X, V)),
    "gradients_of_all_pairs": (
        lambda j, xp: lambda x, v: j.vmap(
            lambda r: j.vmap(lambda u: j.grad(lambda r: xp.tanh(xp.dot(r, u)))(r))(v))(x), (X, V)),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_never_more_than_jax(name: str) -> None:
    make, arguments = PROGRAMS[name]
    module, theirs = lowered(make(nm, jnp), *arguments), jax_module(make(jax, jax.numpy), *arguments)
    assert cost(module) <= cost(theirs)
    assert copies(module, ROWS) == []
    assert copies(module, VECTORS) == []


@pytest.mark.parametrize(
    "make",
    [
        lambda f: nm.grad(lambda w, x: f(w, nm.vectorize(x, "b"))),
        lambda f: nm.grad(lambda w, x: f(w, nm.vectorize(x, "b")), vectorized="parameter"),
    ],
    ids=["union", "parameter"],
)
def test_gradients_of_vectorised_functions_copy_no_weights(make: Any) -> None:
    gradient = make(lambda w, x: loss(jnp)(x, w, W2))
    module = lowered(lambda w, x: nm.devectorize(gradient(w, x)), W1, X)
    assert copies(module, ROWS) == []
    assert f"tensor<{ROWS}x{HIDDEN}x{HIDDEN}" not in str(module)


@pytest.mark.parametrize("name", ["value", "gradient", "product"])
def test_a_batched_loop_stays_one_loop(name: str) -> None:
    def steps(x: Any, w: Any) -> Any:
        return nm.fori_loop(0, 100, lambda _, c: jnp.tanh(jnp.dot(w, c)), x).sum()

    f: Any = {"value": steps, "gradient": nm.grad(steps), "product": lambda x, w: nm.hvp(steps)(x, x, w)}[name]
    w = np.ones((WIDTH, WIDTH), np.float32)
    one, many = lowered(f, X[0], w), lowered(nm.vmap(f, (0, None)), X, w)
    assert str(many).count("stablehlo.while") == str(one).count("stablehlo.while")
    assert str(many).count("stablehlo.dot_general") == str(one).count("stablehlo.dot_general")
    assert f"tensor<{ROWS}x{WIDTH}xf32>" in str(many)
    assert f"tensor<{ROWS}x{WIDTH}x{WIDTH}xf32>" not in str(many)  # the weights
