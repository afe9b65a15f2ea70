"""The forecast of running times that chooses between one thread and many."""

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as jnp
from nabla_mlir import nn
from nabla_mlir.compiling.estimates import estimate


def of(f, *shapes):
    module = nm.trace(f, *map(nm.spec, shapes), name="f").lower().module
    return estimate(module.body.operations[0].operation)


def test_large_work_is_shared_and_small_is_not():
    assert of(lambda a: a @ a, (512, 512)).gain(2) > 0
    assert of(lambda a: a @ a, (16, 16)).gain(64) < 0
    assert of(lambda a: jnp.exp(a), (1_000_000,)).gain(2) > 0


def test_a_product_is_two_operations_for_each_of_its_terms():
    small, large = of(lambda a, b: a @ b, (256, 256), (256, 256)), of(lambda a, b: a @ b, (512, 512), (512, 512))
    assert large.shared / small.shared == pytest.approx(8, rel=0.1)


def test_the_body_of_a_loop_counts_as_often_as_it_runs():
    def steps(n):
        return of(lambda w, h: nm.fori_loop(0, n, lambda i, h: jnp.tanh(h @ w), h), (32, 32), (16, 32))

    assert steps(1000).dispatches == 10 * steps(100).dispatches
    assert steps(1000).gain(64) < 0  # every step is too small for threads


def test_large_steps_of_a_loop_are_shared():
    loop = of(lambda w, h: nm.fori_loop(0, 100, lambda i, h: jnp.tanh(h @ w), h), (512, 512), (512, 512))
    assert loop.gain(2) > 0
    assert loop.shared == pytest.approx(100 * of(lambda w, h: jnp.tanh(h @ w), (512, 512), (512, 512)).shared, rel=0.1)


def test_branches_and_functions_without_work():
    assert of(lambda x: nm.cond(x[0] > 0, lambda x: x @ x, lambda x: x[0], x), (4,)).dispatches >= 1
    assert of(lambda x: x, (4,)).dispatches == 0


def test_jit_uses_threads_where_they_pay(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(2))
    assert nm.jit(lambda a: a @ a)(np.ones((400, 400), np.float32)).device.driver == "local-task"
    assert nm.jit(lambda a: a @ a)(np.ones((40, 40), np.float32)).device.driver == "local-sync"


def test_products_of_slices_and_blocks_are_counted():
    def slope(x, k):
        return nm.grad(lambda k: jnp.sum(nn.conv(x, k) ** 2))(k)

    image, kernel = nm.spec((8, 16, 16, 32)), nm.spec((3, 3, 32, 32))
    value = of(lambda x, k: jnp.sum(nn.conv(x, k) ** 2), image.shape, kernel.shape)
    assert of(slope, image.shape, kernel.shape).dispatches >= value.dispatches + 2 * 9 - 1
    factor = jnp.linalg.cholesky
    assert of(factor, (256, 256)).dispatches >= 4 * of(factor, (64, 64)).dispatches - 8
