"""Convolution and pooling against JAX: values, gradients by every input, Hessian-vector products, vmap."""

import jax
import jax.numpy
import numpy as np
import oracle
import pytest
from jax import lax
from support import assert_same
from xla import run_traced

import nabla_mlir as nm
import nabla_mlir.numpy as jnp
from nabla_mlir import nn
from nabla_mlir.base import pytree
from nabla_mlir.base.errors import ShapeError

jax.config.update("jax_enable_x64", True)
rng = np.random.default_rng(5)


def jax_conv(x, kernel, strides, padding, dilation=None, groups=1):
    spatial = "DHW"[-(x.ndim - 2) :]
    numbers = (f"N{spatial}C", f"{spatial}IO", f"N{spatial}C")
    return lax.conv_general_dilated(
        x, kernel, strides, padding, rhs_dilation=dilation, dimension_numbers=numbers, feature_group_count=groups
    )


def jax_pool(x, init, join, window, strides, padding):
    return lax.reduce_window(x, init, join, (1, *window, 1), (1, *strides, 1), padding)


def jax_mean(x, window, strides, padding):
    return jax_pool(x, 0.0, lax.add, window, strides, padding) / jax_pool(
        jax.numpy.ones_like(x), 0.0, lax.add, window, strides, padding
    )


# name: ours, JAX's, the shape of x, the shape of a second input.
CASES = {
    "same": (nn.conv, lambda x, k: jax_conv(x, k, (1, 1), "SAME"), (2, 5, 6, 2), (3, 3, 2, 3)),
    "one axis, strides": (
        lambda x, k: nn.conv(x, k, strides=2, padding="VALID"),
        lambda x, k: jax_conv(x, k, (2,), "VALID"),
        (2, 8, 3),
        (2, 3, 2),
    ),
    "same, strides, even window": (
        lambda x, k: nn.conv(x, k, strides=(2, 3)),
        lambda x, k: jax_conv(x, k, (2, 3), "SAME"),
        (1, 7, 8, 2),
        (2, 4, 2, 2),
    ),
    "dilation, pairs": (
        lambda x, k: nn.conv(x, k, dilation=(2, 1), padding=((1, 2), (0, -1))),
        lambda x, k: jax_conv(x, k, (1, 1), ((1, 2), (0, -1)), (2, 1)),
        (1, 6, 5, 2),
        (2, 2, 2, 1),
    ),
    "groups": (lambda x, k: nn.conv(x, k, groups=2), lambda x, k: jax_conv(x, k, (1,), "SAME", groups=2), (2, 5, 4), (3, 2, 6)),
    "three axes": (nn.conv, lambda x, k: jax_conv(x, k, (1, 1, 1), "SAME"), (1, 3, 4, 3, 1), (2, 2, 2, 1, 2)),
    "max": (
        lambda x, k: nn.max_pool(x * k, 2),
        lambda x, k: jax_pool(x * k, -np.inf, lax.max, (2, 2), (2, 2), "VALID"),
        (2, 5, 4, 2),
        (2,),
    ),
    "max, overlapping, same": (
        lambda x, k: nn.max_pool(x * k, (3, 2), 1, "SAME"),
        lambda x, k: jax_pool(x * k, -np.inf, lax.max, (3, 2), (1, 1), "SAME"),
        (1, 5, 4, 2),
        (2,),
    ),
    "mean": (
        lambda x, k: nn.avg_pool(x * k, 2) ** 2,
        lambda x, k: (jax_pool(x * k, 0.0, lax.add, (2, 2), (2, 2), "VALID") / 4) ** 2,
        (1, 4, 6, 2),
        (2,),
    ),
    "mean without padding": (
        lambda x, k: nn.avg_pool(x * k, 3, 2, "SAME", count_padding=False) ** 2,
        lambda x, k: jax_mean(x * k, (3,), (2,), "SAME") ** 2,
        (2, 6, 2),
        (2,),
    ),
}
INPUTS = {name: tuple(rng.normal(size=(3, *shape)) for shape in case[2:]) for name, case in CASES.items()}


@pytest.fixture(scope="module")
def results():
    """For every case the value, the gradient and the HVP by both inputs, and mapped gradients: one module for all, on XLA."""

    def run(inputs):
        out = {}
        for name, (f, *_) in CASES.items():
            loss = lambda p, f=f: jnp.sum(jnp.sin(f(*p)))  # noqa: E731
            first, second = (tuple(x[i] for x in inputs[name]) for i in range(2))
            out[name] = (f(*first), nm.grad(loss)(first), nm.hvp(loss)(first, second), nm.vmap(nm.grad(loss))(inputs[name]))
        return out

    leaves, spec = pytree.flatten(INPUTS)
    return run_traced(lambda *leaves: run(pytree.unflatten(spec, leaves)), leaves)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_against_jax(results, name):
    f = CASES[name][1]
    loss = lambda p: jax.numpy.sum(jax.numpy.sin(f(*p)))  # noqa: E731
    first, second = (tuple(jax.numpy.asarray(x[i]) for x in INPUTS[name]) for i in range(2))

    @jax.jit  # one operation after the other compiles dozens
    def expected(first, second, both):
        slope = oracle.grad(loss)
        return f(*first), slope(first), oracle.jvp(slope, (first,), (second,))[1], oracle.vmap(slope)(both)

    wanted = expected(first, second, INPUTS[name])
    for found, right in zip(jax.tree.leaves(results[name]), jax.tree.leaves(wanted), strict=True):
        assert_same(found, right, 1e-9)


def test_ties_of_max_pool():
    x = np.ones((1, 4, 1))
    wanted = oracle.grad(lambda x: jax_pool(x, -np.inf, lax.max, (2,), (2,), "VALID").sum())(x)
    assert_same(nm.grad(lambda x: jnp.sum(nn.max_pool(x, 2)))(x), wanted)


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda: nn.conv(np.ones((4, 3)), np.ones((3, 3, 1))), r"conv requires x of shape \(batch, \*spatial, channels\)"),
        (lambda: nn.conv(np.ones((1, 4, 3)), np.ones((3, 3))), r"kernel of 3 axes .* got shape \(3, 3\)"),
        (lambda: nn.conv(np.ones((1, 4, 3)), np.ones((3, 2, 1))), r"3 channels of x .* got kernel \(3, 2, 1\) and groups=1"),
        (lambda: nn.conv(np.ones((1, 4, 3)), np.ones((3, 3, 1)), strides=(1, 2)), r"strides >= 1, one number or 1 .* got \(1, 2\)"),
        (lambda: nn.conv(np.ones((1, 4, 3)), np.ones((3, 3, 1)), padding="FULL"), r'padding "SAME", "VALID" or 1 pairs'),
        (lambda: nn.max_pool(np.ones((1, 4, 3)), 0), r"max_pool requires window >= 1"),
    ],
)
def test_errors(f, message):
    with pytest.raises(ShapeError, match=message) as caught:
        f()
    assert caught.value.where.filename == __file__


def test_on_iree():
    x, kernel = (np.ascontiguousarray(a[0]) for a in INPUTS["same"])
    loss = lambda x, k, conv: (conv(x, k) ** 2).sum()  # noqa: E731
    found = nm.jit(nm.grad(lambda x, k: loss(x, k, nn.conv), (0, 1)))(x, kernel)
    wanted = oracle.grad(lambda x, k: loss(x, k, CASES["same"][1]), (0, 1))(jax.numpy.asarray(x), jax.numpy.asarray(kernel))
    for a, b in zip(found, wanted, strict=True):
        assert_same(a, b, 1e-9)
