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
from nabla_mlir.base import pytree
from nabla_mlir.compiling.lowering import lower_module
from nabla_mlir.staging.specs import Spec
from nabla_mlir.staging.tracing import trace_function

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
    "vmap_of_hessian": (lambda j, xp: lambda x, w1, w2: j.vmap(lambda r: j.hessian(loss(xp))(r, w1, w2))(x), (X, W1, W2)),
    "hessian_of_vmap": (
        lambda j, xp: lambda a, x, w1, w2: j.hessian(lambda a: j.vmap(lambda r: loss(xp)(a * r, w1, w2))(x).mean())(a),
        (X[0], X, W1, W2),
    ),
    "gradients_per_example": (
        lambda j, xp: lambda x, w1, w2: j.vmap(lambda r: j.grad(loss(xp), (1, 2))(r, w1, w2))(x),
        (X, W1, W2),
    ),
    "products_with_many_vectors": (
        lambda j, xp: lambda x, v, w1, w2: j.vmap(lambda u: hvp(j, lambda x: loss(xp)(x, w1, w2))(x, u))(v),
        (X[0], V, W1, W2),
    ),
    "products_per_example": (
        lambda j, xp: lambda x, v, w1, w2: j.vmap(hvp(j, lambda x: loss(xp)(x, w1, w2)))(x, v),
        (X, X, W1, W2),
    ),
    "products_of_a_mean_with_many_vectors": (
        lambda j, xp: (
            lambda x, w1, v, w2: j.vmap(lambda u: hvp(j, lambda w: j.vmap(lambda r: loss(xp)(r, w, w2))(x).mean())(w1, u))(v)
        ),
        (X, W1, W1S, W2),
    ),
    "all_pairs": (lambda j, xp: lambda x, v: j.vmap(lambda r: j.vmap(lambda u: xp.exp(-((r - u) ** 2).sum()))(v))(x), (X, V)),
    "gradients_of_all_pairs": (
        lambda j, xp: lambda x, v: j.vmap(lambda r: j.vmap(lambda u: j.grad(lambda r: xp.tanh(xp.dot(r, u)))(r))(v))(x),
        (X, V),
    ),
}


def trees(f: Callable[..., Any], *args: Any) -> tuple[Callable[..., Any], list[Any]]:
    """A function of pytrees as one of arrays, and these."""
    leaves, spec = jax.tree.flatten(args)
    return lambda *flat: f(*jax.tree.unflatten(spec, flat)), leaves


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def layers(xp: Any, p: Any, x: Any) -> Any:
    return xp.dot(p[2], xp.tanh(xp.dot(p[0], x) + p[1])) + p[3]


def softmax(xp: Any, z: Any) -> Any:
    e = xp.exp(z - xp.max(z, axis=-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(xp: Any, p: Any, x: Any) -> Any:
    queries, keys, values = (xp.matmul(x, w) for w in p)
    return xp.matmul(softmax(xp, xp.matmul(queries, keys.T)), values).sum()


def normalised(xp: Any, p: Any, x: Any) -> Any:
    centred = x - x.mean()
    return ((centred / xp.sqrt((centred**2).mean() + 1e-5) * p[0] + p[1]) ** 3).sum()


def cross_entropy(xp: Any, p: Any, x: Any, y: Any) -> Any:
    z = layers(xp, p, x)
    most = xp.max(z)
    return most + xp.log(xp.exp(z - most).sum()) - xp.dot(z, y)


def convolve(x: Any, w: Any) -> Any:
    return jax.lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))


KEPT = np.array([True, False, True])
OURS = nm.from_jax(convolve, ones(1, 8, 9, 3), ones(2, 3, 3, 4))
DENSE = (ones(HIDDEN, WIDTH), ones(HIDDEN), ones(3, HIDDEN), ones(3))

# Losses ``(transforms, numpy, parameters, *entry) -> scalar`` with their parameters and batches.
LOSSES: dict[str, tuple[Callable[..., Any], Any, tuple[Any, ...]]] = {
    "squares": (lambda j, xp, p, x, y: ((layers(xp, p, x) - y) ** 2).sum(), DENSE, (X, ones(ROWS, 3))),
    "masked": (lambda j, xp, p, x, y: xp.where(KEPT, (layers(xp, p, x) - y) ** 2, 0.0).sum(), DENSE, (X, ones(ROWS, 3))),
    "cross_entropy": (lambda j, xp, p, x, y: cross_entropy(xp, p, x, y), DENSE, (X, ones(ROWS, 3))),
    "attention": (lambda j, xp, p, x: attention(xp, p, x), (ones(4, WIDTH), ones(4, WIDTH), ones(4, 6)), (ones(ROWS, 9, 4),)),
    "normalised": (lambda j, xp, p, x: normalised(xp, p, x), (ones(WIDTH), ones(WIDTH)), (X,)),
    "convolution": (
        lambda j, xp, w, x: (xp.tanh((convolve if j is jax else OURS)(x[None], w)) ** 2).sum(),
        ones(2, 3, 3, 4),
        (ones(ROWS, 8, 9, 3),),
    ),
    "scan": (
        lambda j, xp, w, x: (jax.lax.scan if j is jax else nm.scan)(
            lambda c, u: (xp.tanh(xp.dot(w, c) + u), c.sum()), np.zeros(WIDTH, np.float32), x
        )[0].sum(),
        ones(WIDTH, WIDTH),
        (ones(ROWS, 6, WIDTH),),
    ),
}

# What is made of a loss ``f(parameters, *entry)``: a function of parameters, tangents of them, and a batch.
MAPS: dict[str, Callable[[Any, Any], Callable[..., Any]]] = {
    "gradient_per_example": lambda j, f: lambda p, _, *batch: j.vmap(lambda *e: j.grad(f)(p, *e))(*batch),
    "product_per_example": lambda j, f: (
        lambda p, vs, *batch: j.vmap(lambda *e: hvp(j, lambda p: f(p, *e))(p, jax.tree.map(lambda v: v[0], vs)))(*batch)
    ),
    "many_products_of_the_mean": lambda j, f: (
        lambda p, vs, *batch: j.vmap(lambda v: hvp(j, lambda p: j.vmap(lambda *e: f(p, *e))(*batch).mean())(p, v))(vs)
    ),
    "hessian_per_example": lambda j, f: (
        lambda p, _, x, *batch: j.vmap(lambda x, *e: j.hessian(lambda x: f(p, x, *e))(x))(x, *batch)
    ),
}
LARGE = ("attention", "convolution", "scan")  # whose Hessians in the entries are


@pytest.mark.parametrize(("name", "kind"), [(n, k) for n in LOSSES for k in MAPS if k != "hessian_per_example" or n not in LARGE])
def test_losses_never_cost_more_than_in_jax(name: str, kind: str) -> None:
    loss_of, parameters, batch = LOSSES[name]
    tangents = jax.tree.map(lambda w: ones(VECTORS, *w.shape), parameters)

    def module(j: Any, xp: Any, lower: Callable[..., Any]) -> Any:
        f, flat = trees(MAPS[kind](j, lambda p, *e: loss_of(j, xp, p, *e)), parameters, tangents, *batch)
        return lower(f, *flat)

    ours, theirs = module(nm, jnp, lowered), module(jax, jax.numpy, jax_module)
    assert cost(ours) <= cost(theirs)
    assert copies(ours, ROWS) == []
    assert copies(ours, VECTORS) == []


@jax.custom_jvp
def angle_of_large(y: Any, x: Any) -> Any:
    """Returns `jax.numpy.arctan2(y, x)`, whose derivative in JAX is 0 where x**2 + y**2 overflows, with one that is as exact as ours."""
    return jax.numpy.arctan2(y, x)


@angle_of_large.defjvp
def _(primals: Any, tangents: Any) -> Any:
    (y, x), (dy, dx) = primals, tangents
    length = jax.numpy.hypot(x, y)
    return angle_of_large(y, x), (x / length * dy - y / length * dx) / length


# Losses ``(numpy, w, x)`` of two vectors, in which small parts of derivatives stand alone.
SMALL: dict[str, Callable[[Any, Any, Any], Any]] = {
    "norm": lambda xp, w, x: xp.sqrt(((w * x) ** 2).sum()),
    "root": lambda xp, w, x: xp.sqrt(1 + (w * x) ** 2).sum(),
    "hinge": lambda xp, w, x: xp.maximum(0, 1 - xp.dot(w, x)) ** 2,
    "huber": lambda xp, w, x: xp.where(xp.abs(xp.dot(w, x)) < 1, 0.5 * xp.dot(w, x) ** 2, xp.abs(xp.dot(w, x)) - 0.5),
    "sigmoid": lambda xp, w, x: 1 / (1 + xp.exp(-xp.dot(w, x))),
    "softplus": lambda xp, w, x: xp.log1p(xp.exp(-xp.abs(xp.dot(w, x)))) + xp.maximum(xp.dot(w, x), 0),
    "variance": lambda xp, w, x: ((w * x - (w * x).mean()) ** 2).mean(),
    "entropy": lambda xp, w, x: -(softmax(xp, w * x) * xp.log(softmax(xp, w * x) + 1e-6)).sum(),
    "quadratic": lambda xp, w, x: xp.dot(x - w, x - w),
    "cubic": lambda xp, w, x: ((x - w) ** 3).sum(),
    "power": lambda xp, w, x: (xp.abs(x * w) ** 1.5).sum(),
    "reciprocal": lambda xp, w, x: (1 / (1 + (x * w) ** 2)).sum(),
    "ratio": lambda xp, w, x: (w * x).sum() / (1 + (w**2 * x**2).sum()),
    "well": lambda xp, w, x: (1 / ((x - w) ** 2).sum()) ** 6 - (1 / ((x - w) ** 2).sum()) ** 3,
    "gauss": lambda xp, w, x: xp.exp(-0.5 * ((x - w) ** 2).sum()),
    "gelu": lambda xp, w, x: (0.5 * w * x * (1 + xp.tanh(0.8 * (w * x + 0.04 * (w * x) ** 3)))).sum(),
    "square_of_square": lambda xp, w, x: ((w * x) * (w * x) * (w * x) * (w * x)).sum(),
    "angle": lambda xp, w, x: (angle_of_large if xp is jax.numpy else xp.arctan2)(w, x).sum(),
    "trigonometric": lambda xp, w, x: (xp.sin(w * x) * xp.cos(w + x)).sum(),
    "signs": lambda xp, w, x: -(-w * x - (-x)).sum() + (-((w * x) ** 2)).sum(),
    "clip": lambda xp, w, x: (xp.clip(w * x, -1, 1) ** 2).sum(),
    "range": lambda xp, w, x: (w * x).max() - (w * x).min(),
    "differences": lambda xp, w, x: (((w * x)[1:] - (w * x)[:-1]) ** 2).sum(),
    "roll": lambda xp, w, x: (xp.roll(w * x, 1) * x * w).sum(),
    "outer": lambda xp, w, x: xp.tanh(xp.outer(w, x) @ w).sum(),
    "triangle": lambda xp, w, x: (xp.tril(xp.outer(w, x)) ** 2).sum(),
    "gather": lambda xp, w, x: (w[np.array([0, 0, 2, 4])] * xp.sin(x[np.array([1, 1, 2, 3])])).sum(),
    "invariant_parts": lambda xp, w, x: xp.sin(w.sum() * x).sum() * xp.cos(w).sum(),
}
OF_MEAN: Any = lambda j, f: lambda p, _, x: j.hessian(lambda p: j.vmap(lambda x: f(p, x))(x).mean())(p)  # noqa: E731


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_small_losses_never_cost_more_than_in_jax(name: str) -> None:
    for kind, make in {**MAPS, "hessian_of_the_mean": OF_MEAN}.items():
        ours, theirs = (
            lower(make(j, lambda w, x, xp=xp: SMALL[name](xp, w, x)), X[0], V, X)
            for j, xp, lower in ((nm, jnp, lowered), (jax, jax.numpy, jax_module))
        )
        assert cost(ours) <= cost(theirs), kind
        assert len(copies(ours, ROWS)) <= len(copies(theirs, ROWS)), kind
        assert len(copies(ours, VECTORS)) <= len(copies(theirs, VECTORS)), kind


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
