"""Linear solves and roots that are differentiated implicitly, against JAX and against the closed form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from test_custom_rules import check, traced

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.base import errors

pytestmark = pytest.mark.slow

rng = np.random.default_rng(1)
A, B = rng.normal(size=(4, 4)) + 4 * np.eye(4), rng.normal(size=4)


def iterate(a: Any, b: Any) -> Any:
    """Gradient descent on |a x - b|^2 until convergence: a loop of unknown length."""
    rate = 0.7 / (a * a).sum()
    return nm.while_loop(lambda x: ((a @ x - b) ** 2).sum() > 1e-22, lambda x: x - a.T @ (a @ x - b) * rate, 0.0 * b)


def solved(a: Any, b: Any, symmetric: bool = False) -> Any:
    transposed = None if symmetric else lambda _, b: iterate(a.T, b)
    return nm.custom_linear_solve(lambda x: a @ x, b, lambda _, b: iterate(a, b), transposed, symmetric)


@pytest.mark.parametrize("symmetric", [False, True])
def test_linear_solve(symmetric: bool) -> None:
    def both(solve: Any, eye: Any) -> Callable[..., Any]:
        def f(a: Any, b: Any) -> Any:
            a = a + b * eye
            return (solve(a + a.T if symmetric else a, b) ** 2).sum()

        return f

    ours = both(lambda a, b: solved(a, b, symmetric), np.eye(4))
    theirs = both(jnp.linalg.solve, np.eye(4))
    many = np.stack([B, 2 * B, B**2])
    near = {"tolerance": 1e-6}
    check(nm.grad(ours, (0, 1)), oracle.grad(theirs, (0, 1))(A, B), A, B, **near)
    hessian = oracle.hessian(theirs, 1)(A, B)
    for mode in ("fwd_rev", "rev_rev"):
        check(nm.hessian(ours, 1, mode=mode), hessian, A, B, **near)
    check(nm.jacfwd(ours), oracle.grad(theirs)(A, B), A, B, **near)
    check(nm.vmap(nm.grad(ours, 1), (None, 0)), oracle.vmap(oracle.grad(theirs, 1), (None, 0))(A, many), A, many, **near)
    check(
        nm.grad(lambda a, m: nm.vmap(ours, (None, 0))(a, m).sum()),
        oracle.grad(lambda a, m: oracle.vmap(theirs, (None, 0))(a, m).sum())(A, many),
        A,
        many,
        **near,
    )


def test_the_transposed_operator_is_derived() -> None:
    def solve(operator: Any, b: Any) -> Any:
        a = nnp.stack([operator(e) for e in np.eye(4)]).T
        return iterate(a, b)

    ours = lambda a, b: (nm.custom_linear_solve(lambda x: a @ x, b, solve, solve) ** 2).sum()  # noqa: E731
    theirs = lambda a, b: (jnp.linalg.solve(a, b) ** 2).sum()  # noqa: E731
    check(nm.grad(ours, (0, 1)), oracle.grad(theirs, (0, 1))(A, B), A, B, tolerance=1e-6)


def root(a: Any) -> Any:
    def newton(f: Any, x: Any) -> Any:
        return nm.while_loop(lambda x: nnp.abs(f(x)) > 1e-14, lambda x: x - f(x) / nm.grad(f)(x), x)

    return nm.custom_root(lambda x: x**3 - a * x - 2.0, np.float64(2.0), newton, lambda g, y: y / g(np.float64(1.0)))


def their_root(a: Any) -> Any:
    def newton(f: Any, x: Any) -> Any:
        return jax.lax.while_loop(lambda x: jnp.abs(f(x)) > 1e-14, lambda x: x - f(x) / oracle.grad(f)(x), x)

    return jax.lax.custom_root(lambda x: x**3 - a * x - 2.0, 2.0, newton, lambda g, y: y / g(1.0))


def test_root_to_third_order() -> None:
    ours, theirs, a = root, their_root, np.float64(1.3)
    for _ in range(4):
        check(ours, theirs(a), a)
        ours, theirs = nm.grad(ours), oracle.grad(theirs)
    check(nm.hessian(root), oracle.hessian(their_root)(a), a)


def test_root_in_a_map() -> None:
    many = np.array([1.3, 0.2, 2.0])
    expected = oracle.vmap(oracle.grad(their_root))(many)
    check(nm.vmap(nm.grad(root)), expected, many)
    check(nm.grad(lambda a: nm.vmap(root)(a).sum()), expected, many)


def test_newton_differentiated_through_the_loop_agrees() -> None:
    def through(a: Any) -> Any:
        f = lambda x: x**3 - a * x - 2.0  # noqa: E731
        return nm.while_loop(lambda x: nnp.abs(f(x)) > 1e-14, lambda x: x - f(x) / (3.0 * x * x - a), 0.0 * a + 2.0)

    a = np.float64(1.3)
    check(nm.grad(through), oracle.grad(their_root)(a), a, tolerance=1e-7)


def test_errors() -> None:
    with pytest.raises(errors.TreeError, match=r"requires of matvec a result like b, got float64\[\] instead of float64\[3\]"):
        traced(lambda b: nm.custom_linear_solve(lambda x: x.sum(), b, lambda _, b: b))
    with pytest.raises(errors.DtypeError, match=r"custom_linear_solve requires b of floating point, got int32"):
        traced(lambda b: nm.custom_linear_solve(lambda x: x, b, lambda _, b: b), nm.spec(3, "i32"))
    one_way = lambda b: nm.custom_linear_solve(lambda x: 2.0 * x, b, lambda _, b: b / 2.0).sum()  # noqa: E731
    with pytest.raises(errors.RuleMissingError, match=r"no solver of the transposed system"):
        traced(nm.grad(one_way))


@pytest.mark.parametrize(
    "solve",
    [
        lambda lib, a: lambda f, x: lib.lax.fori_loop(0, 20, lambda _, x: x - f(x) / (2 * x), x),
        lambda lib, a: lambda f, x: lib.lax.while_loop(lambda x: abs(x * x - a) > 1e-12, lambda x: (x + a / x) / 2, x),
    ],
)
def test_the_guess_and_the_solver_may_use_what_is_differentiated(solve: Any) -> None:
    def slopes(lib: Any) -> Any:
        def root(a: Any) -> Any:
            return lib.lax.custom_root(lambda x: x * x - a, a / 2, solve(lib, a), lambda g, y: y / g(1.0))

        return [lib.grad(root)(2.0), lib.grad(lib.grad(root))(2.0), lib.jit(lib.vmap(lib.grad(root)))(np.array([2.0, 9.0]))]

    with jax.enable_x64(True), nm.enable_x64():
        for mine, theirs in zip(slopes(nm.jax), slopes(jax), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-9)
