"""Vectorised tensors in transforms: one order of axes, that of the function's own result; functions that take axes apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import TraceError

pytestmark = pytest.mark.usefixtures("interpreted")  # the order is decided where functions are traced

# Equal sizes: another order would not be seen in the shape.
X = nm.vectorize(np.array([1.0, 2.0, 3.0]), "a")
Y = nm.vectorize(np.array([0.5, 0.25, 4.0]), "b")


def loop(x: Any, y: Any) -> Any:
    return nm.fori_loop(0, 2, lambda i, c: (c[0] * c[1], c[1]), (y, x))[0]


def branch(x: Any, y: Any) -> Any:
    return nm.cond(x > 2, lambda x, y: y * x, lambda x, y: nnp.sin(y) * x, x, y)


def scatter(x: Any, y: Any) -> Any:
    return nnp.stack([x, x * x]).at[(y > 1).astype(int)].set(3 * x)[0]


FUNCTIONS: list[tuple[Any, list[str]]] = [
    (lambda x, y: x * y, ["a", "b"]),
    (lambda x, y: y * x, ["b", "a"]),
    (lambda x, y: nnp.sin(y) + nnp.cos(x) * y, ["b", "a"]),
    (lambda x, y: nnp.where(y > 1, x, x * y), ["b", "a"]),
    (lambda x, y: nnp.sum(nnp.stack([y * y, y * x])), ["b", "a"]),
    (lambda x, y: nm.jit(lambda p, q: q * p)(x, y), ["b", "a"]),
    (loop, ["b", "a"]),
    (branch, ["a", "b"]),
    (scatter, ["a", "b"]),
]


def names(x: Any) -> list[str]:
    return list(x.vectorized_axes)


@pytest.mark.parametrize(
    ("f", "order"), [pytest.param(*case, marks=[pytest.mark.slow] * (i % 3 > 0)) for i, case in enumerate(FUNCTIONS)]
)
def test_axes_stand_in_the_order_of_the_result(f: Any, order: list[str]) -> None:
    value = f(X, Y)
    assert names(value) == order
    expected = np.asarray(nm.devectorize(value))
    maps: dict[str, Any] = {
        "jit": nm.jit(f),
        "union": lambda x, y: nm.value_and_grad(f)(x, y)[0],
        "parameter": lambda x, y: nm.value_and_grad(f, vectorized="parameter")(x, y)[0],
        "jvp": lambda x, y: nm.jvp(f, (x, y), (x, y))[0],
        "vjp": lambda x, y: nm.vjp(f, x, y)[0],
        "linearize": lambda x, y: nm.linearize(f, x, y)[0],
        "checkpoint": nm.checkpoint(f),
        "vmap": lambda x, y: nm.vmap(f, None, None, axis_size=1)(x, y),
        "cond": lambda x, y: nm.cond(True, f, f, x, y),
        "closure": lambda x, y: nm.value_and_grad(lambda y: f(x, y))(y)[0],
        "traced": nm.jit(lambda x, y: nm.value_and_grad(f)(x, y)[0]),
    }
    for name, g in maps.items():
        found = g(X, Y)
        assert names(found) == order, name
        np.testing.assert_allclose(nm.devectorize(found), expected, rtol=1e-6, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize(("f", "order"), FUNCTIONS)
def test_gradients_stand_in_that_order_too(f: Any, order: list[str]) -> None:
    for argnums in (0, 1):
        wanted = [[float(nm.grad(f, argnums)(x, y)) for y in Y.data.tolist()] for x in X.data.tolist()]
        outer = np.array(wanted) if order == ["a", "b"] else np.array(wanted).T
        for g in (nm.grad(f, argnums), nm.jacfwd(f, argnums), nm.jacrev(f, argnums), nm.jit(nm.grad(f, argnums))):
            found = g(X, Y)
            assert names(found) == order
            np.testing.assert_allclose(nm.devectorize(found), outer, rtol=1e-5)
        # With the sum over all entries each gradient has the axes of its own argument.
        sums = nm.grad(f, argnums, vectorized="parameter")(X, Y)
        assert names(sums) == ["ab"[argnums]]
        np.testing.assert_allclose(nm.devectorize(sums), np.sum(wanted, axis=1 - argnums), rtol=1e-5)


def test_second_derivatives_stand_in_that_order_too() -> None:
    f = lambda x, y: y * y * x * x  # noqa: E731
    wanted = 2 * np.asarray(Y.data)[:, None] ** 2 * np.ones(3)
    for h in (nm.hessian(f), lambda x, y: nm.hvp(f)(x, 1.0, y), nm.jit(nm.hessian(f))):
        found = h(X, Y)
        assert names(found) == ["b", "a"]
        np.testing.assert_allclose(nm.devectorize(found), wanted)


def test_each_leaf_has_its_own_order() -> None:
    f = lambda x, y: (x * y, y * x, x)  # noqa: E731
    for g in (nm.checkpoint(f), nm.jit(nm.checkpoint(f)), lambda x, y: nm.jvp(f, (x, y), (x, y))[1]):
        found = g(X, Y)
        assert [names(leaf) for leaf in found] == [["a", "b"], ["b", "a"], ["a", "b"]]
        product = np.outer(X.data, Y.data)
        scale = 1 if g(X, Y)[0].data.tolist() == product.tolist() else 2  # a tangent is twice the product
        np.testing.assert_allclose(nm.devectorize(found[0]), scale * product)
        np.testing.assert_allclose(nm.devectorize(found[1]), scale * product.T)


# ---------------------------------------------------------------- functions that take the axes apart

ROWS = np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.25]])
A = nm.vectorize(ROWS, "row")


def coupled(x: Any) -> Any:
    """A scalar of all entries together."""
    whole = nm.devectorize(x)
    return nnp.sum(whole[0] * whole[1] * whole[2] ** 2)


def plain_coupled(whole: Any) -> Any:
    return nnp.sum(whole[0] * whole[1] * whole[2] ** 2)


@pytest.mark.parametrize("wrap", [lambda f: f, nm.jit])
def test_derivatives_of_functions_that_take_axes_apart(wrap: Any) -> None:
    v = np.cos(ROWS)
    V = nm.vectorize(v, "row")
    wanted = np.asarray(nm.hvp(plain_coupled)(ROWS, v))
    for product in (nm.hvp(coupled), nm.hvp(coupled, vectorized="parameter"), lambda x, v: nm.jvp(nm.grad(coupled), (x,), (v,))[1]):
        found = wrap(product)(A, V)
        assert names(found) == ["row"]
        np.testing.assert_allclose(nm.devectorize(found), wanted, rtol=1e-12)
    for gradient in (nm.grad, nm.jacrev, nm.jacfwd):
        found = wrap(gradient(coupled))(A)
        assert names(found) == ["row"]
        np.testing.assert_allclose(nm.devectorize(found), nm.grad(plain_coupled)(ROWS), rtol=1e-12)
    pairs = lambda x: nm.devectorize(nm.jacrev(coupled)(x))  # noqa: E731
    full = np.asarray(nm.hessian(plain_coupled)(ROWS))  # row, column, row, column
    found = wrap(nm.jacfwd(pairs))(A)
    np.testing.assert_allclose(nm.devectorize(found), full.transpose(2, 0, 1, 3), rtol=1e-12)
    out = wrap(nm.ggnvp(lambda x: nm.devectorize(x), lambda o: nnp.sum(o**2) / 2))(A, V)
    np.testing.assert_allclose(nm.devectorize(out), v, rtol=1e-12)


@pytest.mark.parametrize("jacobian", [nm.jacfwd, nm.jacrev])
def test_jacobians_of_sums_have_the_axes_of_their_argument(jacobian: Any) -> None:
    w = np.array([[0.3, 1.0], [0.7, -0.4]])
    model = lambda w, x: nnp.tanh(w @ x)  # noqa: E731
    each = jacobian(model)(w, A)
    assert names(each) == ["row"]
    total = jacobian(model, vectorized="parameter")(w, A)
    assert total.shape == (2, 2, 2)
    np.testing.assert_allclose(total, np.asarray(nm.devectorize(each)).sum(0), rtol=1e-12)
    by_x = jacobian(model, 1, vectorized="parameter")(w, A)
    assert names(by_x) == ["row"]
    np.testing.assert_allclose(nm.devectorize(by_x), nm.devectorize(jacobian(model, 1)(w, A)), rtol=1e-12)


def test_hessians_of_sums() -> None:
    f = lambda w, x: nnp.sum(nnp.tanh(w * x) ** 2)  # noqa: E731
    w = np.array([0.3, -0.8])
    summed = nm.hessian(f, vectorized="parameter")(w, A)
    np.testing.assert_allclose(summed, np.asarray(nm.devectorize(nm.hessian(f)(w, A))).sum(0), rtol=1e-12)
    product = nm.hvp(f, vectorized="parameter")(w, np.ones(2), A)
    np.testing.assert_allclose(product, np.asarray(summed) @ np.ones(2), rtol=1e-12)


def test_a_hessian_between_entries_is_refused_with_a_way_out() -> None:
    for h in (nm.hessian(coupled), nm.jacfwd(nm.grad(coupled))):
        with pytest.raises(TraceError, match=r"requires a result without such axes(.|\n)*call nm\.devectorize on the"):
            h(A)


@pytest.mark.parametrize("transform", [nm.grad, nm.jacfwd, nm.jacrev, nm.hessian, nm.hvp])
def test_other_words_are_refused(transform: Any) -> None:
    with pytest.raises(TraceError, match=r"\w+ requires vectorized='union' or 'parameter', got 'both'"):
        transform(coupled, vectorized="both")
