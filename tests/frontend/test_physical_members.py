"""Further members of the suites of Hessians: closed forms, products with vectors, other sizes and dtypes, ties."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import oracle
import pytest
from jax import numpy as xp
from test_physical import MODES, SUITES, V, W
from xla import run_traced

import nabla_mlir as nm
import nabla_mlir.numpy as jnp
from nabla_mlir.transforms import physical as ph

pytestmark = pytest.mark.slow
R = np.random.default_rng(5)


def blocks(x: np.ndarray, shared: tuple[int, ...], values: Callable[[Any, Any], np.ndarray]) -> np.ndarray:
    """The Hessian with `values(i, j)`, arrays over the shared axes, where two indices agree on these, else zero."""
    h = np.zeros((*x.shape, *x.shape))
    for i in np.ndindex(x.shape):
        for j in np.ndindex(x.shape):
            if all(i[d] == j[d] for d in shared):
                h[(*i, *j)] = values(i, j)
    return h


def diagonal(x: np.ndarray, values: Any) -> np.ndarray:
    return (np.diag(np.broadcast_to(values, x.shape).ravel())).reshape(*x.shape, *x.shape)


def of_sums(x: np.ndarray) -> np.ndarray:
    s = (x * x).sum(1)
    return blocks(x, (0, 2), lambda i, j: 8 * x[i] * x[j] + 4 * (i == j) * s[i[0], i[2]])


def of_means(x: np.ndarray) -> np.ndarray:
    n, m = x.shape[-1], (x * x).mean(-1)
    same = tuple(range(x.ndim - 1))
    return blocks(x, same, lambda i, j: np.exp(m[i[:-1]]) * (4 * x[i] * x[j] / n**2 + 2 * (i == j) / n))


def of_sines(x: np.ndarray) -> np.ndarray:
    s = (x**2).sum(0)
    return blocks(x, (1,), lambda i, j: -4 * np.sin(s[i[1]]) * x[i] * x[j] + 2 * np.cos(s[i[1]]) * (i == j))


def attained(x: np.ndarray, axis: int, extreme: Any) -> np.ndarray:
    y = x * x
    return np.asarray(y == extreme(y, axis=axis, keepdims=True), float)


# The Hessians of cases.md.
CLOSED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "moveaxis_physical": lambda x: diagonal(x, 2.0),
    "unsqueeze_squeeze": lambda x: diagonal(x, 6 * x),
    "broadcast_to_physical": lambda x: diagonal(x, 8.0),
    "reduce_sum_physical": of_sums,
    "mean_physical": of_means,
    "broadcast_batch_dims": lambda x: diagonal(x, 6.0),
    "move_axis_chain": lambda x: diagonal(x, 2.0),
    "reduce_max_physical": lambda x: diagonal(x, 2 * attained(x, 2, np.max)),
    "reduce_min_physical": lambda x: diagonal(x, 2 * attained(x, 1, np.min)),
    "exp": lambda x: diagonal(x, np.exp(x)),
    "exp_matrix": lambda x: diagonal(x, np.exp(x)),
    "cubic": lambda x: diagonal(x, 6 * x + 4),
    "cubic_without_constant": lambda x: diagonal(x, 6 * x + 4),
    "linear_layer": lambda x: 2 * W.T @ W,
    "sine_of_sums": of_sines,
    "sine_of_plain_sums": lambda x: blocks(x, (1,), lambda i, j: -np.sin(x.sum(0)[i[1]])),
    "weighted": lambda x: diagonal(x, 2 * V),
    "exp_of_means": of_means,
    "moved_cube": lambda x: diagonal(x, 6 * x),
    "moved_axis_cube": lambda x: diagonal(x, 6 * x),
    "reshaped_cube": lambda x: diagonal(x, 6 * x),
    "unsqueezed_cube": lambda x: diagonal(x, 6 * x),
    "broadcast_sine": lambda x: diagonal(x, 4 * np.cos(2 * x)),
    "broadcast_cube": lambda x: diagonal(x, 12 * x),
    "getitem": lambda x: np.array([[2 * x[1], 2 * x[0]], [2 * x[0], 6 * x[1]]]),
    "quadratic": lambda x: diagonal(x, 2.0),
    "quadratic_matrix": lambda x: diagonal(x, 2.0),
    "swapped": lambda x: diagonal(x, 2 * np.cos(x) - x * np.sin(x)),
    "composition": lambda x: diagonal(x, 2 * np.cos(x) - x * np.sin(x)),
}


def at(name: str, dtype: Any = np.float64) -> np.ndarray:
    """The point of a suite."""
    point = np.array([2.0, 3.0]) if name == "getitem" else R.normal(size=SUITES[name][2])
    return point.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_closed_forms_in_all_modes(dtype: Any) -> None:
    xs = [at(name, dtype) for name in CLOSED]

    def run(*xs: Any) -> Any:
        return [[nm.hessian(SUITES[name][0], mode=mode)(x) for mode in MODES] for name, x in zip(CLOSED, xs, strict=True)]

    bound = 1e-11 if dtype is np.float64 else 1e-4
    for name, x, hessians in zip(CLOSED, xs, run_traced(run, xs), strict=True):
        want = CLOSED[name](x.astype(np.float64))
        if name == "getitem":
            np.testing.assert_array_equal(want, [[6, 4], [4, 18]])
        for mode, got in zip(MODES, hessians, strict=True):
            # W and V are in float64, and so is what they are multiplied with.
            assert got.dtype == dtype or name in ("linear_layer", "weighted")
            np.testing.assert_allclose(got, want, rtol=bound, atol=bound, err_msg=f"{name} {mode}")


# Products with a vector, in the orders that users write.
PRODUCTS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "jvp of grad": lambda f, x, v: nm.jvp(nm.grad(f), (x,), (v,))[1],
    "vjp of grad": lambda f, x, v: nm.vjp(nm.grad(f), x)[1](v)[0],
    "grad of vdot": lambda f, x, v: nm.grad(lambda x: (nm.grad(f)(x) * v).sum())(x),
    "grad of jvp": lambda f, x, v: nm.grad(lambda x: nm.jvp(f, (x,), (v,))[1])(x),
    "jacfwd of grad": lambda f, x, v: jnp.tensordot(nm.jacfwd(nm.grad(f))(x), v, v.ndim),
    "jacrev of grad": lambda f, x, v: jnp.tensordot(nm.jacrev(nm.grad(f))(x), v, v.ndim),
}


@pytest.mark.parametrize("kind", PRODUCTS)
def test_products_alone_and_mapped(kind: str) -> None:
    points = {name: R.normal(size=(2, 2, *SUITES[name][2])) for name in SUITES}
    vectors = {name: R.normal(size=(2, 2, *SUITES[name][2])) for name in SUITES}

    def run(points: Any, vectors: Any) -> Any:
        found = {}
        for name, (f, _, _) in SUITES.items():
            product = lambda x, v, f=f: PRODUCTS[kind](f, x, v)  # noqa: E731
            x, v = points[name], vectors[name]
            found[name] = product(x[0, 0], v[0, 0]), nm.vmap(nm.vmap(product), 1)(x, v)
        return found

    names = list(SUITES)
    got = run_traced(
        lambda *a: run(dict(zip(names, a, strict=False)), dict(zip(names, a[len(names) :], strict=True))),
        [*points.values(), *vectors.values()],
    )
    for name, (_, g, _) in SUITES.items():
        product = lambda x, v, g=g: oracle.jvp(oracle.grad(g), (x,), (v,))[1]  # noqa: E731
        want = np.asarray(oracle.vmap(oracle.vmap(product))(points[name], vectors[name]))
        alone, twice = got[name]
        np.testing.assert_allclose(alone, want[0, 0], rtol=1e-9, atol=1e-9, err_msg=name)
        np.testing.assert_allclose(twice, want.swapaxes(0, 1), rtol=1e-9, atol=1e-9, err_msg=name)


def under_a_prefix(x: Any) -> Any:
    y = ph.incr_batch_dims(x)
    return (ph.decr_batch_dims(jnp.sin(y) * ph.reduce_sum_physical(y, -1, keepdims=True)) ** 2).sum()


def prefix_sum(x: Any) -> Any:
    y = ph.broadcast_batch_dims(x, (2,))
    return (ph.reduce_sum_physical(y * y * y, axis=0) ** 2).sum()


# For arguments of any three axes: ours, and the same in JAX.
ANY_SIZE: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "moveaxis": (lambda x: (ph.moveaxis_physical(x, 0, 2) ** 3).sum(), lambda x: (x**3).sum()),
    "unsqueeze": (lambda x: (ph.squeeze_physical(ph.unsqueeze_physical(x, 1), 1) ** 3).sum(), lambda x: (x**3).sum()),
    "broadcast_to": (lambda x: (ph.broadcast_to_physical(x, (2, *x.shape)) ** 3).sum(), lambda x: 2 * (x**3).sum()),
    "broadcast_from_1": (
        lambda x: (ph.broadcast_to_physical(x[:1], (3, *x.shape[1:])) ** 3).sum(),
        lambda x: 3 * (x[:1] ** 3).sum(),
    ),
    "sum": (lambda x: (ph.reduce_sum_physical(x * x, 1) ** 2).sum(), lambda x: ((x * x).sum(1) ** 2).sum()),
    "mean": (lambda x: jnp.exp(ph.mean_physical(x * x, 2)).sum(), lambda x: xp.exp((x * x).mean(2)).sum()),
    "max": (lambda x: (ph.reduce_max_physical(x * x, 2) ** 2).sum(), lambda x: ((x * x).max(2) ** 2).sum()),
    "min": (lambda x: (ph.reduce_min_physical(x * x, 1) ** 2).sum(), lambda x: ((x * x).min(1) ** 2).sum()),
    "prefix": (under_a_prefix, lambda x: ((xp.sin(x) * x.sum(-1, keepdims=True)) ** 2).sum()),
    "prefix_sum": (prefix_sum, lambda x: 4 * (x**6).sum()),
    "there_and_back": (
        lambda x: (ph.move_axis_from_batch_dims(jnp.sin(ph.move_axis_to_batch_dims(x, 2)), 0, 2) ** 2).sum(),
        lambda x: (xp.sin(x) ** 2).sum(),
    ),
}


@pytest.mark.parametrize(
    "x",
    [R.normal(size=(2, 2, 2, 2)), R.normal(size=(2, 1, 3, 1)), R.normal(size=(2, 1, 1, 1)), np.full((2, 2, 2, 2), 0.7)],
    ids=["equal", "different", "one", "ties"],
)
def test_sizes_and_ties(x: np.ndarray) -> None:

    def run(x: Any) -> Any:
        hessians = [[nm.hessian(f, mode=mode) for mode in MODES] for f, _ in ANY_SIZE.values()]
        return [[(h(x[0]), nm.vmap(h)(x)) for h in modes] for modes in hessians]

    for (name, (_, g)), modes in zip(ANY_SIZE.items(), run_traced(run, [x]), strict=True):
        want = oracle.vmap(oracle.hessian(g))(x)
        for mode, (alone, mapped) in zip(MODES, modes, strict=True):
            np.testing.assert_allclose(alone, want[0], rtol=1e-9, atol=1e-9, err_msg=f"{name} {mode}")
            np.testing.assert_allclose(mapped, want, rtol=1e-9, atol=1e-9, err_msg=f"{name} {mode}")
