"""Taylor mode against nested forward mode of JAX in f64, and against JAX's jet."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.experimental.jet
import jax.numpy as jnp
import numpy as np
import pytest

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.base import errors
from nabla_mlir.jax.experimental.jet import jet

rng = np.random.default_rng(0)
X = rng.uniform(0.2, 0.9, 4)
W = rng.normal(size=(4, 4))
SPD = W @ W.T + 4 * np.eye(4)
SERIES = [rng.normal(size=4) for _ in range(3)]


@pytest.fixture(autouse=True, scope="module")
def interpreted() -> Iterator[None]:
    before = nm.set_execution("interpret")
    yield
    nm.set_execution(before)


def nested(f: Callable[..., Any], x: Any, series: Any) -> list[Any]:
    """The derivatives by t of f(x + s1 t + s2 t²/2 + ...), by as many forward modes around each other."""

    def along(t: Any) -> Any:
        return f(x + sum(s * t**k / math.factorial(k) for k, s in enumerate(series, 1)))

    derivatives = []
    for _ in series:
        along = (lambda g: lambda t: jax.jvp(g, (t,), (1.0,))[1])(along)
        derivatives.append(along(0.0))
    return derivatives


ELEMENTWISE = ("sin", "tan", "exp", "log", "sqrt", "reciprocal", "log1p", "arctan", "arcsin", "abs", "floor")
FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    **{name: lambda lib, x, name=name: getattr(lib.numpy, name)(x) for name in ELEMENTWISE},
    "a quotient": lambda lib, x: (x + 1) / (x * x + 2),
    "a power": lambda lib, x: x**1.7 + x**3 + 2.0**x + x[0] ** x,
    "a network": lambda lib, x: lib.numpy.tanh(W @ lib.nn.softplus(W.T @ x)).sum(),
    "activations": lambda lib, x: lib.nn.gelu(x) + lib.nn.silu(x) + lib.nn.softmax(x) + lib.nn.sigmoid(x),
    "special functions": lambda lib, x: lib.scipy.special.erf(x) + lib.scipy.special.gammaln(x + 1),
    "reductions": lambda lib, x: lib.numpy.linalg.norm(x) * lib.numpy.prod(x) + lib.scipy.special.logsumexp(x),
    "products of itself": lambda lib, x: lib.numpy.outer(x, x) @ lib.numpy.sin(x),
    "choices": lambda lib, x: lib.numpy.where(x > 0.5, x**2, lib.numpy.sin(x)) + lib.numpy.maximum(x, 0.4),
    "places": lambda lib, x: lib.numpy.concatenate([x[::-1], x[1:3]]).at[0].set(x[2] ** 2)[lib.numpy.array([0, 3, 3])],
    "order": lambda lib, x: lib.numpy.sort(x) * lib.numpy.cumsum(x) + lib.numpy.max(x) * x,
    "a loop": lambda lib, x: lib.lax.fori_loop(0, 3, lambda i, c: lib.numpy.sin(c) + x * i, x),
    "a scan": lambda lib, x: lib.lax.scan(lambda c, y: (c * y, c + y), 1.0 * x[0], x)[1],
    "a map": lambda lib, x: lib.vmap(lambda a: a * lib.numpy.exp(a * x[0]))(x),
    "a gradient": lambda lib, x: lib.grad(lambda y: lib.numpy.sum(lib.numpy.sin(y) * y**2))(x),
    "a linear system": lambda lib, x: lib.numpy.linalg.solve(SPD + lib.numpy.diag(x), x),
    "complex numbers": lambda lib, x: lib.numpy.abs(lib.numpy.fft.fft(lib.numpy.exp(1j * x))) ** 2,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_are_those_of_nested_forward_modes(name: str) -> None:
    f = FUNCTIONS[name]
    value, derivatives = jet(lambda x: f(nm.jax, x), (X,), (SERIES,))
    with jax.enable_x64(True):
        f_of_x, expected = jax.jit(lambda x: (f(jax, x), nested(lambda x: f(jax, x), x, SERIES)))(jnp.asarray(X))
        np.testing.assert_allclose(value, f_of_x, rtol=1e-12, atol=1e-12)
    assert len(derivatives) == 3
    for got, wanted in zip(derivatives, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-9)


def test_trees_and_several_arguments_are_those_of_jax() -> None:
    def f(lib: Any, x: Any, p: Any) -> Any:
        return {"a": lib.numpy.tanh(x @ p["w"]), "b": lib.numpy.sum(x) * p["c"]}

    x, p = rng.normal(size=(2, 3)), {"w": rng.normal(size=3), "c": np.float64(2.0)}
    series = ([rng.normal(size=(2, 3)) for _ in range(3)], [{"w": rng.normal(size=3), "c": np.float64(k)} for k in (1, 2, 3)])
    value, derivatives = jet(lambda *a: f(nm.jax, *a), (x, p), series)
    flat = lambda a, w, c: f(jax, a, {"w": w, "c": c})  # noqa: E731  # JAX's takes no trees
    with jax.enable_x64(True):
        rows = (series[0], [s["w"] for s in series[1]], [s["c"] for s in series[1]])
        expected, wanted = jax.experimental.jet.jet(flat, (x, p["w"], p["c"]), rows)
        for name in ("a", "b"):
            np.testing.assert_allclose(value[name], expected[name], rtol=1e-12)
            np.testing.assert_allclose(np.stack(derivatives[name]), np.stack(wanted[name]), rtol=1e-10)


def test_it_is_mapped_differentiated_and_traced() -> None:
    third = lambda x: jet(nnp.sin, (x,), ((1.0, 0.0, 0.0),))[1][2]  # noqa: E731
    np.testing.assert_allclose(nm.vmap(third)(X), -np.cos(X), rtol=1e-12)
    np.testing.assert_allclose(nm.grad(lambda x: third(x).sum())(X[0]), np.sin(X[0]), rtol=1e-12)
    np.testing.assert_allclose(nm.jit(lambda x: third(x) * x)(X[1]), -np.cos(X[1]) * X[1], rtol=1e-12)
    captured = nm.jit(lambda a, x: jet(lambda y: a * y**2, (x,), ((1.0, 0.0),))[1])(3.0, 2.0)
    assert [float(v) for v in captured] == [12.0, 6.0]


def test_the_program_grows_slowly_with_the_order() -> None:
    def size(order: int) -> int:
        f = lambda x: jet(lambda y: nnp.tanh(W @ nnp.tanh(W @ y)), (x,), ([nnp.ones(4, dtype="f64")] + [0] * (order - 1),))[1]  # noqa: E731
        return str(nm.trace(f, nm.spec(4, "f64")).lower()).count(" = ")

    assert size(12) < 5 * size(6)  # a power of two for each would be 64 times as much


def test_errors() -> None:
    with pytest.raises(errors.TreeError, match=r"one series for each argument, got 2 for 1"):
        jet(nnp.sin, (1.0,), ((1.0,), (1.0,)))
    with pytest.raises(errors.TreeError, match=r"derivatives like their argument, got float64\[3\] for float64\[4\]"):
        jet(nnp.sin, (X,), ([np.ones(3)],))
    with pytest.raises(errors.RuleMissingError, match=r"jet requires a rule .*while.*: the number of its steps is not known"):
        jet(lambda x: nm.while_loop(lambda c: c < 9.0, lambda c: c * 2, x), (1.0,), ((1.0,),))
    with pytest.raises(errors.RuleMissingError, match=r"jet requires a rule .*it has no Taylor rule"):
        nm.jit(lambda p, x: jet(lambda y: nm.cond(p, nnp.sin, nnp.cos, y), (x,), ((1.0,),)))(True, 1.0)
