"""nn and derivatives of composite functions against JAX: values, gradients, Hessian-vector products, vmap."""

import functools

import jax
import jax.numpy
import numpy as np
import pytest
from support import assert_same

import nabla_mlir as nm
import nabla_mlir.numpy as jnp
from nabla_mlir import nn
from nabla_mlir.base.errors import DtypeError, ShapeError

jax.config.update("jax_enable_x64", True)
rng = np.random.default_rng(3)
X, V = rng.normal(size=(2, 3, 4))
TARGET = rng.dirichlet(np.ones(4), size=3)
LABELS = np.array([0, 3, 1])

# name: (ours, JAX's), functions of one array of shape (3, 4).
ACTIVATIONS = {
    name: (getattr(nn, name), getattr(jax.nn, name))
    for name in "relu relu6 hard_tanh hard_sigmoid hard_silu sigmoid tanh silu softplus log_sigmoid gelu elu celu selu "
    "leaky_relu glu softmax log_softmax standardize".split()
}
SMOOTH = ACTIVATIONS | {
    "gelu exact": (lambda x: nn.gelu(x, approximate=False), lambda x: jax.nn.gelu(x, approximate=False)),
    "softmax axis 0": (lambda x: nn.softmax(x, axis=0), lambda x: jax.nn.softmax(x, axis=0)),
    "logsumexp": (nn.logsumexp, jax.nn.logsumexp),
    "logsumexp axis": (lambda x: nn.logsumexp(x, axis=1, keepdims=True), lambda x: jax.nn.logsumexp(x, axis=1, keepdims=True)),
    "logaddexp": (lambda x: jnp.logaddexp(x, x[::-1]), lambda x: jax.numpy.logaddexp(x, x[::-1])),
    "layer_norm": (lambda x: nn.layer_norm(x, 2.0, x[0]), lambda x: jax.nn.standardize(x, epsilon=1e-5) * 2.0 + x[0]),
    "rms_norm": (nn.rms_norm, lambda x: x * jax.lax.rsqrt(jax.numpy.mean(x * x, -1, keepdims=True) + 1e-6)),
    "mse": (lambda x: nn.mse(x, TARGET), lambda x: jax.numpy.mean((x - TARGET) ** 2)),
    "huber": (
        lambda x: nn.huber(x, TARGET, 0.7),
        lambda x: jax.numpy.where(abs(x - TARGET) <= 0.7, (x - TARGET) ** 2 / 2, 0.7 * (abs(x - TARGET) - 0.35)),
    ),
    "cross entropy": (lambda x: nn.softmax_cross_entropy(x, TARGET), lambda x: -jax.numpy.sum(TARGET * jax.nn.log_softmax(x), -1)),
    "integer cross entropy": (
        lambda x: nn.softmax_cross_entropy_with_integer_labels(x, LABELS),
        lambda x: -jax.numpy.take_along_axis(jax.nn.log_softmax(x), LABELS[:, None], 1)[:, 0],
    ),
    "binary cross entropy": (
        lambda x: nn.binary_cross_entropy_with_logits(x, TARGET),
        lambda x: -TARGET * jax.nn.log_sigmoid(x) - (1 - TARGET) * jax.nn.log_sigmoid(-x),
    ),
    "kl": (lambda x: nn.kl_divergence(x, TARGET), lambda x: jax.numpy.sum(TARGET * (np.log(TARGET) - x), -1)),
}

ROWS, COLUMNS = np.array([0, 2, 1, 2]), np.array([1, 3, 3, 0])
# The same text for both: xp is our namespace or jax.numpy.
COMPOSITES = {
    "cumsum": lambda xp, x: xp.cumsum(x, axis=1) ** 2,
    "cumprod": lambda xp, x: xp.cumprod(x, axis=0),
    "sort": lambda xp, x: xp.sort(x, axis=1) * xp.arange(4.0),
    "max": lambda xp, x: xp.max(x, axis=1) ** 2,
    "prod": lambda xp, x: xp.prod(x, axis=0),
    "var": lambda xp, x: xp.var(x, axis=1),
    "std": lambda xp, x: xp.std(x),
    "index": lambda xp, x: x[ROWS, COLUMNS] ** 3,
    "negative step": lambda xp, x: x[::-1, ::2] ** 3,
    "mixed index": lambda xp, x: x[1:, COLUMNS] ** 2,
    "add": lambda xp, x: x.at[ROWS, COLUMNS].add(x[0] ** 2) ** 2,
    "set": lambda xp, x: x.at[1].set(x[0] ** 2) ** 2,
    "set rows": lambda xp, x: x.at[np.array([2, 0])].set(x[:2] ** 2) * x,
    "multiply": lambda xp, x: x.at[:, 1].multiply(x[:, 0]) ** 2,
    "einsum": lambda xp, x: xp.einsum("ij,kj,kl->il", x, x, x),
    "einsum trace": lambda xp, x: xp.einsum("ij,ij->", x, x**2),
    "matmul": lambda xp, x: x @ x.T @ x,
    "pad edge": lambda xp, x: xp.pad(x, 2, mode="edge") ** 2,
    "pad reflect": lambda xp, x: xp.pad(x, ((1, 2), (2, 1)), mode="reflect") ** 2,
    "pad wrap": lambda xp, x: xp.pad(x, 1, mode="wrap") ** 3,
    "pad constant": lambda xp, x: xp.pad(x, 1) ** 2,
    "roll": lambda xp, x: xp.roll(x, 1, axis=1) * x,
    "tile": lambda xp, x: xp.tile(x, (2, 1)) ** 2,
    "where": lambda xp, x: xp.where(x > 0, x**2, xp.sin(x)),
    "clip": lambda xp, x: xp.clip(x, -0.5, 0.5) * x,
    "power": lambda xp, x: xp.abs(x) ** 1.7 + x**3 + x**-2 + 2.0**x,
    "arctan2": lambda xp, x: xp.arctan2(x, x[::-1] + 3),
    "hypot": lambda xp, x: xp.hypot(x, x[::-1]),
    "remainder": lambda xp, x: (x % 0.7) ** 2,
    "kron": lambda xp, x: xp.kron(x[0], x[1]),
    "diag": lambda xp, x: xp.diag(x[0]) @ x.T,
    "diagonal": lambda xp, x: xp.diagonal(x) ** 2,
    "tril": lambda xp, x: xp.tril(x) ** 2,
    "median": lambda xp, x: xp.median(x, axis=1) ** 2,
    "take_along_axis": lambda xp, x: xp.take_along_axis(x, xp.argsort(x, axis=1), axis=1) ** 2 * xp.arange(4.0),
    "concatenate": lambda xp, x: xp.concatenate([x, x**2], axis=1) ** 2,
    "transposes": lambda xp, x: (x.T.reshape(2, 6) @ x.reshape(6, 2)) ** 2,
    "squeeze": lambda xp, x: xp.squeeze(x[None]) * xp.expand_dims(x[0], 0),
    "relu at 0": lambda xp, x: xp.maximum(x, 0.25 * x),
}
PAIRS = SMOOTH | {name: (lambda x, f=f: f(jnp, x), lambda x, f=f: f(jax.numpy, x)) for name, f in COMPOSITES.items()}


def loss_of(f, total):
    return lambda x: total(f(x) * 1.5)


DOZENS = [list(PAIRS)[i : i + 12] for i in range(0, len(PAIRS), 12)]


@functools.cache
def results(dozen):
    """Value, gradient, HVP, and HVP mapped over two directions of a dozen functions, from one module."""

    def run(x, v):
        out = {}
        for name in DOZENS[dozen]:
            f = PAIRS[name][0]
            loss = loss_of(f, jnp.sum)
            out[name] = (f(x), nm.grad(loss)(x), nm.hvp(loss)(x, v[0]), nm.vmap(lambda u: nm.hvp(loss)(x, u))(v))  # noqa: B023
        return out

    return nm.jit(run)(X, np.stack([V, X]))


@functools.cache
def expected(dozen):
    """The same in JAX, as one program too: one operation after the other compiles hundreds."""

    def run(x, v):
        out = {}
        for name in DOZENS[dozen]:
            f = PAIRS[name][1]
            slope = jax.grad(loss_of(f, jax.numpy.sum))
            out[name] = (f(x), slope(x), *(jax.jvp(slope, (x,), (v[i],))[1] for i in range(2)))
        return out

    return jax.jit(run)(X, np.stack([V, X]))


@pytest.mark.parametrize(
    ("name", "dozen"),
    [pytest.param(n, k, marks=[pytest.mark.slow] * (k > 1), id=n) for k, names in enumerate(DOZENS) for n in names],
)
def test_against_jax(name, dozen):
    value, gradient, product, products = results(dozen)[name]
    y, slope, *seconds = expected(dozen)[name]
    assert_same(value, y, 1e-9)
    assert_same(gradient, slope, 1e-8)
    assert_same(product, seconds[0], 1e-7)
    assert_same(products, np.stack(seconds), 1e-7)


def test_conventions():
    kinks = np.array([-1.0, 0.0, 2.0, np.nan, np.inf, -np.inf])
    f = nm.jit(lambda x: (nn.relu(x), nm.vmap(nm.grad(nn.relu))(x), nn.softplus(x), nn.sigmoid(x), nn.softmax(x[:3] * 1e4)))
    relu, slope, softplus, sigmoid, softmax = (np.asarray(r) for r in f(kinks))
    np.testing.assert_array_equal(relu, [0, 0, 2, np.nan, np.inf, 0])
    np.testing.assert_array_equal(slope[:3], [0, 0, 1])
    np.testing.assert_allclose(softplus, [np.log1p(np.exp(-1)), np.log(2), 2 + np.log1p(np.exp(-2)), np.nan, np.inf, 0])
    np.testing.assert_allclose(sigmoid[[1, 4, 5]], [0.5, 1, 0])
    np.testing.assert_array_equal(softmax, [0, 0, 1])


def test_one_hot():
    assert nn.one_hot(np.array([0, 2, 5]), 3).tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 0]]
    assert nn.one_hot(np.array([1, 0]), 2, dtype=np.int32, axis=0).tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    ("f", "error", "message"),
    [
        (
            lambda: nn.mse(np.zeros((3, 1)), np.zeros(3)),
            ShapeError,
            r"mse requires two arrays of one shape, got \(3, 1\) and \(3,\)",
        ),
        (lambda: nn.glu(np.zeros(3)), ShapeError, r"even length along axis 0, got shape \(3,\)"),
        (lambda: nn.one_hot(np.zeros(3), 2), DtypeError, r"integer labels, got float64"),
        (
            lambda: nn.softmax_cross_entropy_with_integer_labels(np.zeros((3, 4)), np.zeros(4, int)),
            ShapeError,
            r"without axis 1, got \(3, 4\) and \(4,\)",
        ),
        (lambda: nn.softmax(np.zeros(3), axis=1), ShapeError, r"softmax requires an axis of an array with 1 axes, got 1"),
    ],
)
def test_errors(f, error, message):
    with pytest.raises(error, match=message) as caught:
        f()
    assert caught.value.where.filename == __file__


@pytest.mark.parametrize("keepdims", [False, True])
def test_logsumexp_of_nothing(keepdims):
    x = np.zeros((2, 0, 4))
    found = nm.jit(lambda x: nm.nn.logsumexp(x, 1, keepdims=keepdims))(x)
    np.testing.assert_array_equal(found, np.full((2, 1, 4) if keepdims else (2, 4), -np.inf))
