"""Functions of ours inside JAX: its own checks of derivatives, and its own functions beside, in and outside jit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.optimize import minimize
from jax.test_util import check_grads

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.interop import jax_function

pytestmark = pytest.mark.slow

function = nm.interop.jax.function
KEYS = jax.random.split(jax.random.key(0), 4)


@pytest.fixture(autouse=True)
def wide() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def energy(xp: Any) -> Callable[..., Any]:
    def f(p: Any, scale: Any, count: Any) -> Any:
        values = xp.tanh(p["w"] @ p["b"]) * scale
        return {"sum": (values**2).sum() * count, "values": values, "signs": (values > 0).astype("int32")}

    return f


def inputs() -> tuple[Any, Any]:
    w, b, scale = (jax.random.normal(key, shape, "float64") for key, shape in zip(KEYS, ((3, 2), (2,), (3,)), strict=False))
    return {"w": w, "b": b}, scale


@pytest.mark.parametrize("is_jitted", [False, True])
def test_first_and_second_derivatives(is_jitted: bool) -> None:
    f = function(energy(nnp))
    whole = lambda p, scale: {k: v for k, v in f(p, scale, 3).items() if k != "signs"}  # noqa: E731
    check_grads(jax.jit(whole) if is_jitted else whole, inputs(), order=2)
    check_grads(jax.jit(whole) if is_jitted else whole, inputs(), order=3, modes=["fwd"])
    chosen, jax_s = (jax.jit(g) if is_jitted else g for g in (f, energy(jnp)))
    jax.tree.map(np.testing.assert_allclose, chosen(*inputs(), 3), jax_s(*inputs(), 3))


def test_maps() -> None:
    f, g = function(lambda x, y: (nnp.exp(x) * y).sum()), lambda x, y: (jnp.exp(x) * y).sum()
    x, y = jax.random.normal(KEYS[0], (4, 3), "float64"), jax.random.normal(KEYS[1], (3,), "float64")
    for transform in (
        lambda f: jax.vmap(jax.grad(f), (0, None))(x, y),
        lambda f: jax.grad(lambda y: jax.vmap(f, (1, None))(x.T, y).sum())(y),
    ):
        np.testing.assert_allclose(transform(f), transform(g), rtol=1e-12)


@pytest.mark.parametrize("is_jitted", [False, True])
def test_transforms_in_any_order(is_jitted: bool) -> None:
    f, g = function(lambda x, y: (nnp.exp(x) * y).sum() * y[0]), lambda x, y: (jnp.exp(x) * y).sum() * y[0]
    x, y = jax.random.normal(KEYS[0], (4, 3), "float64"), jax.random.normal(KEYS[1], (3,), "float64")
    for transform in (
        lambda f: jax.grad(f, (0, 1))(x[0], y),
        lambda f: jax.hessian(f, (0, 1))(x[0], y),
        lambda f: jax.jacrev(jax.jacrev(f))(x[0], y),
        lambda f: jax.jacrev(jax.jacfwd(jax.grad(f)))(x[0], y),
        lambda f: jax.vmap(f, (0, None))(x, y),
        lambda f: jax.vmap(jax.grad(f, 1), (0, None))(x, y),
        lambda f: jax.grad(lambda y: jax.vmap(f, (0, None))(x, y).sum())(y),
        lambda f: jax.vmap(jax.vmap(f, (0, None)), (None, 0))(x, jnp.stack([y, 2 * y])),
        lambda f: jax.vmap(f, (1, 0))(x.T, x),
        lambda f: jax.jvp(jax.grad(f), (x[0], y), (y, y)),
        lambda f: jax.vjp(jax.grad(f), x[0], y)[1](y),
        lambda f: jax.linearize(f, x[0], y)[1](y, y),
        lambda f: jax.checkpoint(jax.grad(f))(x[0], y),
        lambda f: jax.lax.scan(lambda c, row: (c + f(row, y), jax.grad(f)(row, y)), 0.0, x),
        lambda f: jax.vmap(jax.hessian(f), (0, None))(x, y),
    ):
        whole = [lambda f=f, transform=transform: transform(f) for f in (f, g)]
        ours, theirs = (jax.jit(h)() if is_jitted else h() for h in whole)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10), ours, theirs)


def test_only_active_arguments_have_derivatives() -> None:
    """Integers have none, and those that are held fixed are not differentiated."""
    f = function(lambda x, i, y: (x[i] * y, i * 2))
    x, i, y = jnp.arange(5.0), jnp.array([1, 3, 3]), jnp.ones(3)
    for transform in (jax.jacfwd, jax.jacrev):
        np.testing.assert_allclose(transform(lambda x: f(x, i, y)[0])(x), np.eye(5)[np.asarray(i)])
    assert jax.jvp(lambda x: f(x, i, y), (x,), (x,))[1][1].dtype == jax.dtypes.float0
    program = jax.make_jaxpr(lambda x, t: jax.jvp(lambda x: f(x, i, y), (x,), (t,)))(x, x)
    assert [len(eqn.invars) for eqn in program.eqns if eqn.primitive is jax_function._primitive()] == [3, 4]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex128"])
def test_dtypes(dtype: str) -> None:
    x = jnp.linspace(0.5, 1.0, 4).astype(dtype) * (1 + 2j if dtype == "complex128" else 1)
    real = lambda f: (lambda x: f(x).real) if dtype == "complex128" else f  # noqa: E731
    ours, theirs = function(real(lambda x: (x * x * x).sum())), real(lambda x: (x * x * x).sum())
    assert ours(x).dtype == theirs(x).dtype
    np.testing.assert_allclose(
        np.asarray(jax.grad(ours)(x), complex), np.asarray(jax.grad(theirs)(x), complex), rtol=1e-2 if dtype == "bfloat16" else 1e-6
    )
    if dtype == "complex128":
        check_grads(ours, (x,), order=2)


def test_without_64_bits() -> None:
    f = function(lambda x: (x * 2.0, x.astype("float64").sum()))
    with jax.enable_x64(False):
        for g in (f, jax.jit(f)):
            assert [y.dtype.name for y in g(np.ones(3))] == ["float32", "float32"]


class Point(NamedTuple):
    x: Any
    y: Any


def test_containers_memory_and_numbers() -> None:
    f = function(lambda p, *, scale: Point(p.x * scale, p.y))
    x = np.arange(3.0)
    x.setflags(write=False)
    result = f(Point(x, 1.0), scale=2)
    assert isinstance(result, Point)
    np.testing.assert_array_equal(result.x, [0.0, 2.0, 4.0])
    large = jnp.ones((300, 300))
    same, other = function(lambda x: (x, x))(large)
    assert len({a.unsafe_buffer_pointer() for a in (large, same, other)}) == 3
    assert float(function(lambda x: x.sum())(jnp.zeros((0, 3)))) == 0.0


def test_artifacts(tmp_path: Path) -> None:
    nm.trace(lambda x: {"l": (x**3).sum()}, nm.spec(3, "f64"), name="loss").lower().compile().save(tmp_path / "loss.vmfb")
    f = function(tmp_path / "loss.vmfb")
    x = jnp.arange(3.0)
    check_grads(jax.jit(f), (x,), order=2)
    np.testing.assert_allclose(jax.hessian(lambda x: f(x)["l"])(x), np.diag(6 * x))
    with pytest.raises(nm.errors.ShapeError, match=r"\(4,\)|\[4\]|f64"):
        f(jnp.zeros(4))


def test_errors() -> None:
    with pytest.raises(nm.errors.DtypeError, match="requires arrays and numbers, got str"):
        function(lambda x: x)("abc")
    with pytest.raises(nm.errors.TraceError, match="requires a function, or an artifact or stage with an entry, got int"):
        function(3)


def test_an_optimiser_of_jax_uses_it() -> None:
    """BFGS of `jax.scipy`, which is one compiled loop."""
    f = lambda x: ((x - 1) ** 4).sum() + (x**2).sum()  # noqa: E731
    ours, theirs = (jax.jit(lambda x, g=g: minimize(g, x, method="BFGS"))(jnp.array([-1.0, 2.0])) for g in (function(f), f))
    np.testing.assert_allclose(ours.x, theirs.x, rtol=1e-8)
    assert ours.nfev == theirs.nfev
    assert jax_function._primitive() is jax_function._primitive()
