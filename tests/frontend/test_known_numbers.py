"""Derivatives that are computed at once know the numbers of their arguments: Python decides by them, as outside of a trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp

pytestmark = pytest.mark.usefixtures("interpreted")


@pytest.fixture
def interpreted() -> Any:
    before = nm.set_execution("interpret")
    yield
    nm.set_execution(before)


def two_pieces(x: Any) -> Any:
    return x**2 if x > 3 else 3 * x


def root_by_newton(a: Any) -> Any:
    x = a
    while abs(x * x - a) > 1e-12:
        x = 0.5 * (x + a / x)
    return x


@pytest.mark.parametrize(
    "derivative",
    [
        nm.grad,
        nm.jacrev,
        nm.jacfwd,
        lambda f: lambda x: nm.jvp(f, (x,), (1.0,))[1],
        lambda f: lambda x: nm.vjp(f, x)[1](1.0)[0],
        lambda f: lambda x: nm.linearize(f, x)[1](1.0),
    ],
)
def test_a_branch_of_python(derivative: Callable[..., Any]) -> None:
    assert float(derivative(two_pieces)(4.0)) == 8
    assert float(derivative(two_pieces)(2.0)) == 3


def test_second_derivatives() -> None:
    assert float(nm.grad(nm.grad(two_pieces))(4.0)) == 2
    assert float(nm.hessian(two_pieces)(2.0)) == 0


def test_a_loop_of_python() -> None:
    with nm.enable_x64():
        np.testing.assert_allclose(nm.grad(root_by_newton)(2.0), 0.5 / np.sqrt(2), rtol=1e-12)
        np.testing.assert_allclose(nm.grad(nm.grad(root_by_newton))(2.0), -0.25 * 2**-1.5, rtol=1e-9)


def test_a_loop_runs_each_operation_once() -> None:
    calls = []

    def counted(x: Any) -> Any:
        return nm.pure_callback(lambda x: calls.append(1) or x * 0.5, nm.ShapeDtypeStruct(x.shape, x.dtype), x)

    def f(x: Any) -> Any:
        y = nm.stop_gradient(x)
        while y > 1.0:
            y = counted(y)
        return x * y

    assert float(nm.grad(f)(np.float32(8.0))) == 1
    assert len(calls) <= 6  # three to decide, and at most three of the derivative


def test_large_arrays_from_outside() -> None:
    weights = np.arange(5000.0)
    f = lambda x: (x * weights).sum() if nnp.dot(weights, x * weights) > 0 else x.sum()  # noqa: E731
    np.testing.assert_array_equal(nm.grad(f)(np.ones(5000)), weights)
    np.testing.assert_array_equal(nm.grad(f)(-np.ones(5000)), np.ones(5000))


def test_numbers_of_python() -> None:
    f = lambda x: sum(x * k for k in range(int(nnp.round(x)))) + float(nnp.sign(x)) * nnp.zeros(int(nnp.floor(x))).size  # noqa: E731
    assert float(nm.grad(f)(3.25)) == 3
    assert nm.jvp(lambda x: x * np.arange(3.0)[(x > 0).astype("int32")], (2.0,), (1.0,))[1].shape == ()


def test_custom_rules() -> None:
    @nm.custom_jvp
    def f(x: Any) -> Any:
        return x * x if x > 0 else -x

    f.defjvp(lambda primals, tangents: (f(*primals), (7 if primals[0] > 0 else 5) * tangents[0]))
    assert float(f(-3.0)) == 3
    assert float(nm.grad(f)(2.0)) == 7
    assert float(nm.grad(f)(-2.0)) == 5


def test_functions_and_texts_are_arguments() -> None:
    assert float(nm.grad(lambda f, x, mode: f(x) if mode == "on" else x, argnums=1)(lambda x: x**3, 2.0, "on")) == 12
    assert float(nm.grad(lambda x, f: f(x))(2.0, lambda x: x**3)) == 12


def _of_loop(x: Any) -> Any:
    return nm.fori_loop(0, 3, lambda i, c: two_pieces(c), x)


@pytest.mark.parametrize(
    "run",
    [
        lambda: nm.jit(two_pieces)(4.0),
        lambda: nm.jit(nm.grad(two_pieces))(4.0),
        lambda: nm.vmap(two_pieces)(np.ones(3)),
        lambda: nm.vmap(nm.grad(two_pieces))(np.ones(3)),
        lambda: nm.trace(nm.grad(two_pieces), 4.0),
        lambda: nm.grad(_of_loop)(4.0),
    ],
)
def test_no_numbers_where_there_are_many(run: Callable[[], Any]) -> None:
    with pytest.raises(nm.errors.ConcretizationError):
        run()
