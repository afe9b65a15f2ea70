"""Further members of the families of vectorised functions: each operation with each reading of gradients, per entry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from vectorized_oracle import Input, check_case, inp, ours, value_and_gradients

r = np.random.default_rng(3).random


def spd(*shape: int) -> np.ndarray:
    a = r((*shape, 3, 3))
    return a @ np.swapaxes(a, -1, -2) + 2 * np.eye(3)


# The function, its inputs, and of how many of them, the first ones, the gradient is.
MEMBERS: dict[str, tuple[Callable[..., Any], list[Input], int]] = {
    "sort": (lambda m, x, y: (m.np.sort(x) * m.np.arange(4.0) * y).sum(), [inp("a", r((2, 4))), inp("b", r(3))], 2),
    "argsort_take": (
        lambda m, x, y: (m.np.take_along_axis(x, m.np.argsort(y), 0) * m.np.arange(4.0)).sum(),
        [inp("a", r((2, 4))), inp("b", r((3, 4)))],
        1,
    ),
    "take_dup": (lambda m, x, y: (m.np.take(x, m.np.array([0, 0, 2]), 0) * y).sum(), [inp("a", r((2, 4))), inp("b", r((3, 3)))], 2),
    "at_add": (lambda m, x, y: (x.at[m.np.array([0, 0, 2])].add(y) ** 2).sum(), [inp("a", r((2, 4))), inp("b", r((3, 3)))], 2),
    "at_set": (lambda m, x, y: (x.at[1].set(y) ** 2).sum(), [inp("a", r((2, 4))), inp("b", r(3))], 2),
    "where": (lambda m, x, y: m.np.where(x > 0.5, x * y, y**2).sum(), [inp("a", r((2, 4))), inp("b", r(3))], 2),
    "max": (lambda m, x, y: m.np.max(x * y) * y, [inp("a", r((2, 4))), inp("b", r(3))], 2),
    "cumsum": (lambda m, x, y: (m.np.cumsum(x * y) ** 2).sum(), [inp("a", r((2, 4))), inp("b", r(3))], 2),
    "concat": (lambda m, x, y: (m.np.concatenate([x, y, x]) ** 2).sum(), [inp("a", r((2, 4))), inp("b", r((3, 2)))], 2),
    "stack": (lambda m, x, y: (m.np.stack([x, y]) ** 3).sum(), [inp("a", r((2, 4))), inp("b", r((3, 4)))], 2),
    "einsum": (lambda m, x, y: m.np.einsum("ij,jk->ik", x, y).sum() ** 2, [inp("a", r((2, 3, 4))), inp("b", r((3, 4, 2)))], 2),
    "outer": (lambda m, x, y: (m.np.outer(x, y) ** 2).sum(), [inp("a", r((2, 3))), inp("ba", r((3, 2, 4)))], 2),
    "norm": (lambda m, x, y: m.np.sqrt((x * x).sum()) * y, [inp("a", r((2, 3))), inp("b", r((1,)))], 2),
    "inv": (lambda m, x, y: (m.np.linalg.inv(x) @ y).sum(), [inp("a", spd(2)), inp("b", r((4, 3)))], 2),
    "solve": (lambda m, x, y: (m.np.linalg.solve(x, y) ** 2).sum(), [inp("a", spd(2)), inp("b", r((4, 3)))], 2),
    "det": (lambda m, x, y: m.np.linalg.det(x * y), [inp("a", spd(2)), inp("b", r(3) + 1)], 2),
    "grad_in_vmap": (
        lambda m, x, y: m.vmap(lambda e: m.grad(lambda e: (m.np.sin(e * y)).sum())(e))(x).sum(),
        [inp("a", r((2, 3, 4))), inp("b", r(3))],
        2,
    ),
    "vmap_in_grad": (
        lambda m, x, y: m.vmap(lambda e: (m.np.sin(e) * y).sum())(x).sum(),
        [inp("a", r((2, 3, 4))), inp("b", r((3, 4)))],
        2,
    ),
    "cond_in_vmap": (
        lambda m, x, y: m.vmap(lambda e: m.cond(e.sum() > 2, lambda: e.sum() * y, lambda: e[0]))(x).sum(),
        [inp("a", r((2, 3, 4))), inp("b", r(3))],
        2,
    ),
    "scan_grad": (
        lambda m, x, y: m.scan(lambda c, u: (m.np.tanh(c * y + u), c), 0.1, x)[0],
        [inp("a", r((2, 5))), inp("b", r(3))],
        2,
    ),
    "scan_vec_xs_other": (
        lambda m, x, y: m.scan(lambda c, u: (c * u + y, c * y), x[0] * 0 + 1, x)[1].sum(),
        [inp("a", r((2, 5, 2))), inp("b", r((3, 2)))],
        2,
    ),
    "nested_scan": (
        lambda m, x, y: m.scan(lambda c, u: (m.scan(lambda d, v: (d * v + y, d), c, u)[0], c), 0.5, x)[0],
        [inp("a", r((2, 3, 2))), inp("b", r(3))],
        2,
    ),
    "fori_dep": (
        lambda m, x, y: m.fori_loop(0, 3, lambda i, c: c * y + x.sum() * i, x[0]),
        [inp("a", r((2, 3))), inp("b", r(3))],
        2,
    ),
    "grad_norm2": (
        lambda m, x, y: m.np.sqrt((m.grad(lambda z: (z**3 * y).sum() * y)(x) ** 2).sum()),
        [inp("a", r((2, 3))), inp("b", r(3))],
        2,
    ),
    "hess_trace": (
        lambda m, x, y: m.np.trace(m.hessian(lambda z: (m.np.sin(z * y) ** 2).sum() * z[0])(x)),
        [inp("a", r((2, 3))), inp("b", r(3))],
        2,
    ),
    "three_same": (
        lambda m, x, y, z: (x * y * z).sum(),
        [inp("ab", r((2, 3, 2))), inp("bc", r((3, 2, 2))), inp("ca", r((2, 2)))],
        3,
    ),
    "size1": (lambda m, x, y, z: (x * y + z).sum(), [inp("a", r((1, 2))), inp("b", r((1, 2))), inp("c", r((3, 2)))], 3),
    "size0": (lambda m, x, y: (x * y).sum(), [inp("a", r((0, 2))), inp("b", r((3, 2)))], 2),
    "jvp_inside": (
        lambda m, x, y: m.jvp(lambda z: (z**2 * y).sum(), (x,), (x * 0 + 1,))[1],
        [inp("a", r((2, 3))), inp("b", r(3))],
        2,
    ),
    "gather2": (lambda m, x, y: x[m.np.array([0, 1]), m.np.array([1, 1])].sum() * y, [inp("a", r((2, 3, 2))), inp("b", r(3))], 2),
    "dyn_index": (lambda m, x, i: x[(i * 4).astype("int32")] * i, [inp("a", r((2, 4))), inp("b", r(3) * 0.9)], 1),
    "softmax_ce": (
        lambda m, w, x, y: -(y * m.np.log(m.np.exp(w @ x) / m.np.exp(w @ x).sum())).sum(),
        [inp("", r((3, 4))), inp("b", r((5, 4))), inp("b", r((5, 3)))],
        3,
    ),
    "matmul_batch": (lambda m, x, y: (m.np.matmul(x, y) ** 2).sum(), [inp("a", r((2, 4, 3, 2))), inp("b", r((3, 2, 2)))], 2),
    "kron_repeat": (
        lambda m, x, y: (m.np.repeat(x, 2) * m.np.tile(y, 2)).sum() ** 2,
        [inp("a", r((2, 3))), inp("b", r((2, 3)))],
        2,
    ),
    "while_per_entry": (
        lambda m, x, s: m.while_loop(lambda c: c[0] < 20 * s, lambda c: (c[0] * 2 + x.sum(), c[1] * 1.1), (1.0, x))[1],
        [inp("b", r((3, 2))), inp("s", [1.5, 2.5])],
        0,
    ),
    "argmax": (lambda m, x, y: x[m.np.argmax(x)] * y, [inp("a", r((2, 4))), inp("b", r(3))], 2),
    "prod": (lambda m, x, y: m.np.prod(x) * y, [inp("a", np.array([[0.0, 2, 3], [1, 2, 4]])), inp("b", r(3))], 2),
    "clip": (lambda m, x, y: m.np.clip(x, 0.3, 0.7).sum() * y, [inp("a", r((2, 4))), inp("b", r(3))], 2),
    "fft": (lambda m, x, y: (m.np.abs(m.np.fft.fft(x * y)) ** 2).sum(), [inp("a", r((2, 4))), inp("b", r(3))], 2),
    "order_cba": (
        lambda m, x, y, z: (m.np.exp(x * y) * z).sum(),
        [inp("cb", r((2, 3, 2))), inp("a", r((4, 2))), inp("ba", r((3, 4)))],
        3,
    ),
}
pytestmark = pytest.mark.slow
FACTORISED = ("inv", "solve", "det")  # whose custom calls XLA would have to be told the layouts of


@pytest.mark.parametrize("name", MEMBERS)
def test_value_and_gradients_of_both_kinds(name: str) -> None:
    f, inputs, count = MEMBERS[name]
    check_case(f, inputs, count, ours(value_and_gradients(f, count), inputs, legalize=name in FACTORISED))
