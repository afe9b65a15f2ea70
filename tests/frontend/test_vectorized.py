"""Vectorised tensors: every operation per entry, and gradients under both readings, against one oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from vectorized_oracle import Input, Ours, Theirs, check, check_case, check_cases, inp, oracle, order_of, ours, value_and_gradients

import nabla_mlir as nm
import nabla_mlir.numpy as jnp

R = np.random.default_rng(0)
N = 3
SPD = [[[4, 2], [2, 5]], [[9, 3], [3, 5]], [[16, 4], [4, 8]]]

# The function, its inputs, and of how many of them, the first ones, the gradient is; the others are captured.
GRADIENTS: dict[str, tuple[Callable[..., Any], list[Input], int]] = {
    "S2_add": (lambda m, a, b: (a + b).sum(), [inp("x", [[1, 2], [3, 4]]), inp("y", [10, 20])], 2),
    "S3_multiply": (lambda m, a, b: (a * b).sum(), [inp("x", [[1, 2], [3, 4]]), inp("y", [10, 20])], 2),
    "S4_dot": (lambda m, x, w: m.np.dot(x, w), [inp("x", [[1, 2], [3, 4]]), inp("", [0.5, 0.5])], 1),
    "S4_dot_all_pairs": (
        lambda m, x, y: m.np.dot(x, y).sum(),
        [inp("a", np.arange(18).reshape(2, 3, 3)), inp("r", np.arange(18).reshape(2, 3, 3))],
        1,
    ),
    "S5_dot_two_axes": (lambda m, x, w: m.np.dot(x, w), [inp("ab", np.arange(1.0, 9).reshape(2, 2, 2)), inp("", [0.5, 0.5])], 1),
    "S6_three_axes": (lambda m, a, b, c: (a * b + c).sum(), [inp("x", [[1, 2], [3, 4]]), inp("y", [10, 20]), inp("z", [100])], 3),
    "S7_sine": (lambda m, a, b: m.np.sin(a + b).sum(), [inp("x", [[1, 2], [3, 4]]), inp("y", [0.5, 1])], 2),
    "S8_cholesky": (lambda m, a: m.cholesky(a).sum(), [inp("b", SPD)], 1),
    "S9_triangular_solve": (
        lambda m, a, b: m.solve(a, b).sum(),
        [inp("", [[1, 0], [2, 3]]), inp("b", [[4, 5], [2, 3], [1, 1]])],
        2,
    ),
    "S10_triangular_solve_both": (
        lambda m, a, b: m.solve(a, b).sum(),
        [inp("b", [[[1, 0], [2, 3]], [[1, 0], [1, 1]]]), inp("b", [[4, 5], [2, 3]])],
        2,
    ),
    "S11_cond": (
        lambda m, x: m.cond(x.sum() > 0, lambda s: s**2, lambda s: -s, x.sum()),
        [inp("b", [[2, 3], [-5, -6], [1, 1]])],
        1,
    ),
    "S12_qr": (
        lambda m, x: (m.np.linalg.qr(x)[0] @ m.np.linalg.qr(x)[1]).sum(),
        [inp("b", [[[1, 2], [3, 4]], [[5, 6], [7, 8]]])],
        1,
    ),
    "S13_take_along_axis": (
        lambda m, x: m.np.take_along_axis(x, m.np.array([2, 0, 1]), 0).sum(),
        [inp("b", [[3, 1, 2], [6, 4, 5]])],
        1,
    ),
    "take_along_axis_scaled": (
        lambda m, x: m.np.take_along_axis(x, m.np.array([2, 0, 1]), 0).sum() * x[0],
        [inp("b", [[3, 1, 2], [6, 4, 5]])],
        1,
    ),
    "M1_add_scalar": (lambda m, y, x: (x + y).sum(), [inp("", 1.0), inp("x", [[1, 2, 3], [4, 5, 6]])], 2),
    "M2_sine": (lambda m, y, x: (y + m.np.sin(x)).sum(), [inp("", 1.0), inp("x", [[1, 2, 3], [4, 5, 6]])], 2),
    "M3_vector": (lambda m, y, x: (x + y).sum(), [inp("", [1, 1]), inp("b", [[1, 2], [3, 4], [5, 6]])], 1),
    "M4_multiply": (lambda m, y, x: (x * y).sum(), [inp("", 2.0), inp("x", [[1, 2], [3, 4]])], 2),
    "M5_captured": (lambda m, y, x: m.np.sin(x + y), [inp("", 1.0), inp("b", [0.5, 1, 1.5])], 1),
    "M6_value_and_gradient": (lambda m, y, x: (x + y).sum(), [inp("", 1.0), inp("f", [0, 1])], 1),
    "M7_tuple": (lambda m, x, y: (x * y).sum(), [inp("b", [[1, 2], [3, 4]]), inp("", 2.0)], 2),
    "M8_layer": (
        lambda m, w, b, x: (1 / (1 + m.np.exp(-(m.np.dot(x, w) + b)))).sum(),
        [inp("", [[0.5, -0.3], [0.2, 0.8]]), inp("", [0.1, -0.1]), inp("b", [[1, 2], [3, 4], [-1, 0.5]])],
        3,
    ),
    "M9_transpose_first": (lambda m, y, x: (y.T * x).sum(), [inp("", np.ones((2, 3))), inp("b", [1, 2, 3])], 2),
    "M10_sizes_coincide": (lambda m, y, x: y.sum() * x, [inp("", [1, 2, 4]), inp("b", [1, 2, 3])], 2),
    "X1_pairs": (lambda m, x, y: x * y, [inp("f", [2, 5]), inp("b", [3, 4])], 2),
    "X2_sizes_differ": (lambda m, x, y: x + y, [inp("f", [2, 5]), inp("b", [3, 4, 5])], 2),
    "X3_sine": (lambda m, x, y: m.np.sin(x + y), [inp("f", [0.5, 1]), inp("b", [0, 0.3])], 2),
    "X4_square": (lambda m, x, y: x**2 * y, [inp("f", [2, 5]), inp("b", [3, 4])], 2),
    "X5_captured_other_axis": (lambda m, x, y: (x * y).sum(), [inp("a", R.random((2, 3))), inp("b", R.random((4, 3)))], 1),
    "X5_equal_sizes": (lambda m, x, y: (x * y).sum(), [inp("a", R.random((3, 3))), inp("b", R.random((3, 3)))], 1),
    "X5_size_one": (lambda m, x, y: (x * y).sum(), [inp("a", R.random((1, 3))), inp("b", R.random((1, 3)))], 1),
    "X6_one_name": (lambda m, x, y: (x * y).sum(), [inp("x", [[1, 2, 3], [4, 5, 6]]), inp("x", [10, 20])], 2),
    "X7_partly_shared": (lambda m, x, y: (x * y).sum(), [inp("ac", R.random((2, 3, 2))), inp("cb", R.random((3, 4, 2)))], 2),
    "other_order": (lambda m, x, y: (x * y).sum(), [inp("ac", R.random((2, 3, 2))), inp("ca", R.random((3, 2, 2)))], 2),
    "while": (
        lambda m, x, s: m.while_loop(lambda c: c[0].sum() < 50, lambda c: (c[0] * s + 1, c[1] + c[0].sum()), (x, 0.0))[1],
        [inp("b", [[1, 2], [30, 4], [60, 1]]), inp("s", [1.5, 2.5])],
        0,
    ),
    "fori": (
        lambda m, x, s: m.fori_loop(0, 4, lambda i, c: m.np.sin(c * s), x).sum(),
        [inp("b", R.random((3, 2))), inp("s", [0.5, 2])],
        2,
    ),
    "scan": (
        lambda m, x, s: m.scan(lambda c, r: (c * s + r, c * r), 0.5, x)[1].sum(),
        [inp("b", R.random((3, 4))), inp("s", [0.5, 2])],
        2,
    ),
    "cond_on_another_axis": (
        lambda m, p, x: m.cond(p > 0, lambda: x.sum() ** 2 * p, lambda: x[0]),
        [inp("b", [1, -1, 2]), inp("a", R.random((2, 3)))],
        2,
    ),
    "indexing": (lambda m, x, y: (x[1:] * y[0] + x[0] ** 2).sum(), [inp("a", R.random((2, 3))), inp("b", R.random((4, 2)))], 2),
    "cond_of_two_axes": (
        lambda m, p, q, x: m.cond((p > 0) & (q > 1), lambda: x * p * q, lambda: x**2),
        [inp("b", [1, -1, 2]), inp("c", [0.5, 1.5]), inp("", 3.0)],
        3,
    ),
    "norm_of_gradient": (
        lambda m, x, y: (m.grad(lambda z: (z**3 * y).sum())(x) ** 2).sum(),
        [inp("a", R.random((2, 3))), inp("b", [1, -1, 2])],
        2,
    ),
}


# The gradients that cases.md gives, of the union kind and of the parameter kind; None where it gives none.
NUMBERS: dict[str, tuple[Any, Any]] = {
    "S2_add": ([np.ones((2, 2, 2)), np.full((2, 2), 2)], [np.full((2, 2), 2), [4, 4]]),
    "S3_multiply": ([[[[10, 10], [20, 20]]] * 2, [[3, 3], [7, 7]]], [np.full((2, 2), 30), [10, 10]]),
    "S4_dot": ([[[0.5, 0.5]] * 2], [[[0.5, 0.5]] * 2]),
    "S4_dot_all_pairs": ([[[[[3, 12, 21]] * 3, [[30, 39, 48]] * 3]] * 2], [[[[33, 51, 69]] * 3] * 2]),
    "S5_dot_two_axes": ([np.full((2, 2, 2), 0.5)], [np.full((2, 2, 2), 0.5)]),
    "S6_three_axes": (
        [[[[[10, 10]], [[20, 20]]]] * 2, [[[3], [3]], [[7], [7]]], np.full((2, 2, 1), 2)],
        [np.full((2, 2), 30), [10, 10], [8]],
    ),
    "S7_sine": (
        [None, [[-0.73041, -1.40614], [-1.14725, -0.36998]]],
        [[[-0.34541, -1.79114], [-1.59010, 0.07287]], [-1.87766, -1.77612]],
    ),
    "S8_cholesky": (
        [[[[0.1875, 0.125], [0.125, 0.25]], [[0.13889, 0.08333], [0.08333, 0.25]], [[0.10556, 0.07775], [0.07775, 0.18898]]]],
        None,
    ),
    "S9_triangular_solve": (
        [[[[-4 / 3, 0], [-4 / 3, 1 / 3]], [[-2 / 3, 0], [-2 / 3, 1 / 9]], [[-1 / 3, 0], [-1 / 3, 1 / 9]]], np.full((3, 2), 1 / 3)],
        None,
    ),
    "S10_triangular_solve_both": ([None, [[1 / 3, 1 / 3], [0, 1]]], [None, [[1 / 3, 1 / 3], [0, 1]]]),
    "S11_cond": ([[[10, 10], [-1, -1], [4, 4]]], [[[10, 10], [-1, -1], [4, 4]]]),
    "S12_qr": ([np.ones((2, 2, 2))], [np.ones((2, 2, 2))]),
    "S13_take_along_axis": ([np.ones((2, 3))], [np.ones((2, 3))]),
    "M1_add_scalar": ([[3, 3], np.ones((2, 3))], [6, np.ones((2, 3))]),
    "M2_sine": ([[3, 3], np.cos([[1, 2, 3], [4, 5, 6]])], [6, np.cos([[1, 2, 3], [4, 5, 6]])]),
    "M3_vector": ([np.ones((3, 2))], [[3, 3]]),
    "M4_multiply": ([[3, 7], np.full((2, 2), 2)], [10, np.full((2, 2), 2)]),
    "M5_captured": ([np.cos([1.5, 2, 2.5])], [np.cos([1.5, 2, 2.5]).sum()]),
    "M6_value_and_gradient": ([[1, 1]], [2]),
    "M7_tuple": ([np.full((2, 2), 2), [3, 7]], [np.full((2, 2), 2), 10]),
    "M8_layer": (
        None,
        [[[0.18092, 0.21851], [0.82047, 0.82938]], None, [[0.04494, 0.18164], [0.01119, 0.08709], [0.05359, 0.23192]]],
    ),
    "M9_transpose_first": ([np.arange(1, 4)[:, None, None] * np.ones((3, 2, 3)), [6, 6, 6]], [np.full((2, 3), 6), [6, 6, 6]]),
    "M10_sizes_coincide": ([[[1] * 3, [2] * 3, [3] * 3], [7, 7, 7]], [[6, 6, 6], [7, 7, 7]]),
    "X1_pairs": ([[[3, 4], [3, 4]], [[2, 2], [5, 5]]], [[7, 7], [7, 7]]),
    "X2_sizes_differ": ([np.ones((2, 3)), np.ones((2, 3))], [[3, 3], [2, 2, 2]]),
    "X3_sine": ([np.cos([[0.5, 0.8], [1, 1.3]])] * 2, None),
    "X4_square": ([[[12, 16], [30, 40]], [[4, 4], [25, 25]]], [[28, 70], [29, 29]]),
    "X6_one_name": ([[[10] * 3, [20] * 3], [6, 15]], [[[10] * 3, [20] * 3], [6, 15]]),
}
FACTORISED = ("S12_qr",)  # whose custom call XLA would have to be told the layout of


@pytest.mark.slow
@pytest.mark.parametrize("name", GRADIENTS)
def test_values_and_gradients_of_both_kinds(name: str) -> None:
    f, inputs, count = GRADIENTS[name]
    found = ours(value_and_gradients(f, count), inputs, legalize=name in FACTORISED)
    check_case(f, inputs, count, found)
    for gradients, numbers in zip(found[1], NUMBERS.get(name, (None, None)), strict=False):
        for got, number in zip(gradients, numbers or (), strict=False):
            if number is not None:
                np.testing.assert_allclose(nm.devectorize(got), number, atol=2e-5)


# The same functions at other sizes of the axes, in order, and in another precision.
SIZES = {"equal": (3, 3, 3, 3), "different": (2, 4, 3, 1), "one": (1, 2, 1, 1)}


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in GRADIENTS if n not in ("S8_cholesky", "while", *FACTORISED)])
def test_other_sizes_and_float32(name: str) -> None:
    f, inputs, count = GRADIENTS[name]

    def drawn(sizes: tuple[int, ...], dtype: Any) -> list[Input]:
        size_of = dict(zip(order_of(inputs), sizes, strict=False))
        shapes = [(*(size_of[a] for a in i.axes), *i.array.shape[len(i.axes) :]) for i in inputs]
        return [Input(i.axes, R.uniform(0.5, 1.5, shape).astype(dtype)) for i, shape in zip(inputs, shapes, strict=True)]

    members = [
        (drawn(sizes, dtype), bound) for sizes in SIZES.values() for dtype, bound in ((np.float64, 1e-9), (np.float32, 1e-4))
    ]
    run = value_and_gradients(f, count)

    def together(*xs: Any) -> Any:
        return [run(*xs[i : i + len(inputs)]) for i in range(0, len(xs), len(inputs))]

    found = ours(together, [i for given, _ in members for i in given])
    check_cases(f, count, [(given, got, bound) for (given, bound), got in zip(members, found, strict=True)])


def test_value_and_gradient_and_containers() -> None:
    f = nm.vectorize(np.array([0.0, 1.0]), "foo")
    value, gradient = nm.value_and_grad(lambda y: (f + y).sum())(np.float64(1))
    assert (nm.devectorize(value).tolist(), nm.devectorize(gradient).tolist()) == ([1, 2], [1, 1])
    x = nm.vectorize(np.array([[1.0, 2.0], [3.0, 4.0]]), "batch")
    by_x, by_y = nm.grad(lambda pair: (pair[0] * pair[1]).sum())((x, np.float64(2)))
    assert (nm.devectorize(by_x).tolist(), nm.devectorize(by_y).tolist()) == ([[2, 2], [2, 2]], [3, 7])


SECOND_ORDER: dict[str, tuple[Callable[..., Any], list[Input]]] = {
    "hessian": (lambda m, x: m.hessian(lambda x: (x**3).sum() * x[0])(x), [inp("b", R.random((2, 3)))]),
    "hessian_captured": (
        lambda m, x, y: m.hessian(lambda x: (x**3 * y).sum() * x[0])(x),
        [inp("b", R.random((2, 3))), inp("c", R.random((4, 3)))],
    ),
    "hvp_other_axis": (
        lambda m, x, v: m.hvp(lambda x: (x**3).sum() * x[0])(x, v),
        [inp("b", R.random((2, 3))), inp("k", R.random((4, 3)))],
    ),
    "hvp_shared_point": (
        lambda m, x, v: m.hvp(lambda x: (x**3).sum() * x[0])(x, v),
        [inp("", R.random(3)), inp("k", R.random((4, 3)))],
    ),
    "jvp_other_axis": (
        lambda m, x, v: m.jvp(lambda x: m.np.sin(x) * x[0], (x,), (v,))[1],
        [inp("b", R.random((2, 3))), inp("k", R.random((4, 3)))],
    ),
    "vmap": (
        lambda m, x, y: m.vmap(lambda r: r * y, in_axes=1, out_axes=1)(x),
        [inp("b", R.random((2, 3, 4))), inp("c", R.random((2, 3)))],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SECOND_ORDER)
def test_transforms_act_per_entry(name: str) -> None:
    f, inputs = SECOND_ORDER[name]
    check(ours(lambda *a: f(Ours, *a), inputs), oracle(lambda *a: f(Theirs, *a), inputs), order_of(inputs))


LAPACK: dict[str, Callable[..., Any]] = {
    "qr": lambda a: jax.numpy.linalg.qr(a)[0] @ jax.numpy.linalg.qr(a)[1],
    "qr_r": lambda a: jax.numpy.abs(jax.numpy.linalg.qr(a)[1]),
    "eigh": lambda a: jax.numpy.linalg.eigh(a)[0],
    "svd": lambda a: jax.numpy.linalg.svd(a, full_matrices=False)[1],
    "inverse": jax.numpy.linalg.inv,
    "determinant": jax.numpy.linalg.det,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LAPACK)
def test_factorisations_per_entry(name: str) -> None:
    given = inp("b", SPD)
    f = nm.from_jax(LAPACK[name], given.array[0])
    value = ours(f, [given], legalize=True)
    check(value, oracle(LAPACK[name], [given]), "b")
    gradient = ours(nm.grad(lambda a: (f(a) ** 2).sum()), [given], legalize=True)
    check(gradient, oracle(jax.grad(lambda a: (LAPACK[name](a) ** 2).sum()), [given]), "b")


def test_a_stretched_axis() -> None:
    x, y = inp("a", R.random((1, 3))), inp("a", R.random((4, 3)))
    check(ours(lambda x, y: x * y, [x, y]), x.array * y.array, "a")


def test_the_target_is_never_copied() -> None:
    # Two layers of shared weights: their values appear in no operation of the size of weights times entries.
    def loss(w: Any, x: Any) -> Any:
        return (jnp.dot(jnp.tanh(w), x) ** 2).sum()

    lowered = nm.trace(
        lambda w, x: nm.devectorize(nm.grad(loss)(w, nm.vectorize(x, "b"))), nm.spec((5, 4)), nm.spec((7, 4))
    ).lower()
    tanh = [line for line in lowered.mlir().splitlines() if "stablehlo.tanh" in line]
    assert len(tanh) == 1
    assert "tensor<5x4xf32>" in tanh[0]
    assert "broadcast_in_dim %arg0" not in lowered.mlir()


@nm.custom_jvp
def damped(x: Any) -> Any:
    """The sine, with another derivative."""
    return jnp.sin(x)


@damped.defjvp
def _damped_jvp(primals: Any, tangents: Any) -> Any:
    return jnp.sin(primals[0]), 0.5 * tangents[0]


def test_functions_with_rules_of_their_own_act_per_entry() -> None:
    x, w = inp("b", R.random((2, 3))), inp("k", R.random(4))
    check(ours(lambda x, w: damped(x * w), [x, w]), oracle(lambda x, w: jax.numpy.sin(x * w), [x, w]), "bk")
    got = ours(nm.grad(lambda x, w: damped(x * w).sum()), [x, w])
    check(got, oracle(lambda x, w: 0.5 * w * jax.numpy.ones(3), [x, w]), "bk")
    stored = ours(nm.grad(lambda x, w: nm.checkpoint(lambda x: jnp.sin(x * w).sum())(x)), [x, w])
    check(stored, oracle(jax.grad(lambda x, w: jax.numpy.sin(x * w).sum()), [x, w]), "bk")


@pytest.mark.parametrize("name", ["qr", "inv", "det", "eigvalsh", "svdvals"])
def test_linear_algebra_per_entry(name: str) -> None:
    def f(lib: Any, a: Any) -> Any:
        if name == "qr":
            q, r = lib.linalg.qr(a)
            return q @ r * lib.abs(r)
        return getattr(lib.linalg, name)(a)

    given = inp("b", SPD)
    check(ours(lambda a: f(jnp, a), [given], legalize=True), oracle(lambda a: f(jax.numpy, a), [given]), "b")
    gradient = ours(nm.grad(lambda a: (f(jnp, a) ** 2).sum()), [given], legalize=True)
    check(gradient, oracle(jax.grad(lambda a: (f(jax.numpy, a) ** 2).sum()), [given]), "b")


def test_eager_linear_maps() -> None:
    x = nm.vectorize(np.array([1.0, 2.0], np.float32), "b")
    y, pull = nm.vjp(lambda x: x * x, x)
    _, push = nm.linearize(lambda x: x * x, x)
    for linear in (lambda v: pull(v)[0], push):
        got = linear(y)
        assert got.vectorized_axes == {"b": 2}
        np.testing.assert_allclose(nm.devectorize(got), [2, 16])
