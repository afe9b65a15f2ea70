"""Physical operations: the suites of Hessians of cases.md, in every mode, alone and under one and two maps."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from jax import numpy as xp
from xla import run_traced

import nabla_mlir as nm
import nabla_mlir.numpy as jnp
from nabla_mlir.base.errors import ShapeError
from nabla_mlir.transforms import physical as ph

pytestmark = pytest.mark.slow

R = np.random.default_rng(1)
MODES = ("fwd_fwd", "fwd_rev", "rev_fwd", "rev_rev")


def batch_sum(x: Any) -> Any:
    """The chain that leaks its prefix in the other system: axis 0 is the axis of the prefix."""
    y = ph.broadcast_batch_dims(x, (3,))
    return ph.reduce_sum_physical(y * y, axis=0).sum()


def there_and_back(x: Any) -> Any:
    moved = ph.move_axis_to_batch_dims(x, 1)
    return (ph.move_axis_from_batch_dims(moved, batch_axis=0, logical_destination=1) ** 2).sum()


def under_a_prefix(x: Any) -> Any:
    """Products with another tensor for each entry of a prefix of two axes, which then comes back."""
    y = ph.incr_batch_dims(ph.incr_batch_dims(x))
    z = jnp.sin(y) * y.sum()
    return (ph.decr_batch_dims(ph.decr_batch_dims(z)) ** 2).sum()


W, V = R.random((3, 4)), R.random((2, 3))


def composition(lib: Any, x: Any) -> Any:
    y = lib.moveaxis(lib.expand_dims(x.reshape(3, 2), 0), 0, 2)
    return (lib.sin(y) * y).sum()


# ours, the same in JAX, and the shape of the argument
SUITES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], tuple[int, ...]]] = {
    "moveaxis_physical": (
        lambda x: (ph.moveaxis_physical(x, 0, 2) ** 2).sum(),
        lambda x: (xp.moveaxis(x, 0, 2) ** 2).sum(),
        (2, 3, 4),
    ),
    "unsqueeze_squeeze": (
        lambda x: (ph.squeeze_physical(ph.unsqueeze_physical(x, 0), 0) ** 3).sum(),
        lambda x: (x**3).sum(),
        (3, 4),
    ),
    "broadcast_to_physical": (lambda x: (ph.broadcast_to_physical(x, (4, 2, 3)) ** 2).sum(), lambda x: 4 * (x**2).sum(), (2, 3)),
    "reduce_sum_physical": (
        lambda x: (ph.reduce_sum_physical(x * x, 1) ** 2).sum(),
        lambda x: ((x * x).sum(1) ** 2).sum(),
        (2, 3, 4),
    ),
    "mean_physical": (lambda x: jnp.exp(ph.mean_physical(x * x, 2)).sum(), lambda x: xp.exp((x * x).mean(2)).sum(), (2, 3, 4)),
    "broadcast_batch_dims": (batch_sum, lambda x: 3 * (x * x).sum(), (2, 4)),
    "move_axis_chain": (there_and_back, lambda x: (x**2).sum(), (2, 3, 4)),
    "reduce_max_physical": (
        lambda x: ph.reduce_max_physical(x * x + 0.1, 2).sum(),
        lambda x: (x * x + 0.1).max(2).sum(),
        (2, 3, 4),
    ),
    "reduce_min_physical": (
        lambda x: ph.reduce_min_physical(x * x + 0.1, 1).sum(),
        lambda x: (x * x + 0.1).min(1).sum(),
        (2, 3, 4),
    ),
    "prefix_of_two": (under_a_prefix, lambda x: ((xp.sin(x) * x.sum(-1, keepdims=True)) ** 2).sum(), (2, 3, 2)),
    "size_one": (
        lambda x: (ph.decr_batch_dims(ph.reduce_sum_physical(ph.incr_batch_dims(x), 1, keepdims=True)) ** 3).sum(),
        lambda x: (x.sum(1) ** 3).sum(),
        (1, 3),
    ),
    # The sibling suites: ordinary functions, in all modes.
    "exp": (lambda x: jnp.exp(x).sum(), lambda x: xp.exp(x).sum(), (5,)),
    "cubic": (lambda x: (x**3 + 2 * x**2 - 5 * x + 3).sum(), lambda x: (x**3 + 2 * x**2 - 5 * x + 3).sum(), (4,)),
    "linear_layer": (lambda x: (jnp.dot(W, x) ** 2).sum(), lambda x: (xp.dot(W, x) ** 2).sum(), (4,)),
    "sine_of_sums": (lambda x: jnp.sin((x**2).sum(0)).sum(), lambda x: xp.sin((x**2).sum(0)).sum(), (3, 4)),
    "weighted": (lambda x: (V * x**2).sum(), lambda x: (V * x**2).sum(), (2, 3)),
    "exp_of_means": (lambda x: jnp.exp((x**2).mean(1)).sum(), lambda x: xp.exp((x**2).mean(1)).sum(), (3, 4)),
    "moved_cube": (lambda x: (jnp.swapaxes(jnp.moveaxis(x.reshape(3, 2), 0, 1), 0, 1) ** 3).sum(), lambda x: (x**3).sum(), (2, 3)),
    "broadcast_sine": (lambda x: (jnp.broadcast_to(jnp.sin(x), (2, 4)) ** 2).sum(), lambda x: 2 * (xp.sin(x) ** 2).sum(), (4,)),
    "getitem": (lambda x: x[0] ** 2 * x[1] + x[1] ** 3, lambda x: x[0] ** 2 * x[1] + x[1] ** 3, (2,)),
    "cubic_without_constant": (lambda x: (x**3 + 2 * x**2 - 5 * x).sum(), lambda x: (x**3 + 2 * x**2 - 5 * x).sum(), (4,)),
    "sine_of_plain_sums": (lambda x: jnp.sin(x.sum(0)).sum(), lambda x: xp.sin(x.sum(0)).sum(), (3, 4)),
    "broadcast_cube": (lambda x: (jnp.broadcast_to(x, (2, 4)) ** 3).sum(), lambda x: 2 * (x**3).sum(), (4,)),
    "moved_axis_cube": (lambda x: (jnp.moveaxis(x, 0, 1) ** 3).sum(), lambda x: (x**3).sum(), (3, 4)),
    "quadratic_matrix": (lambda x: (x**2 + 3 * x + 1).sum(), lambda x: (x**2 + 3 * x + 1).sum(), (2, 3)),
    "swapped": (lambda x: (jnp.sin(jnp.swapaxes(x, 0, 1)) * jnp.swapaxes(x, 0, 1)).sum(), lambda x: (xp.sin(x) * x).sum(), (3, 4)),
    "exp_matrix": (lambda x: jnp.exp(x).sum(), lambda x: xp.exp(x).sum(), (2, 3)),
    "quadratic": (lambda x: (x**2 + 3 * x + 1).sum(), lambda x: (x**2 + 3 * x + 1).sum(), (4,)),
    "reshaped_cube": (lambda x: (x.reshape(12) ** 3).sum(), lambda x: (x**3).sum(), (3, 4)),
    "unsqueezed_cube": (lambda x: (jnp.squeeze(jnp.expand_dims(x, 0), 0) ** 3).sum(), lambda x: (x**3).sum(), (4,)),
    "composition": (lambda x: composition(jnp, x), lambda x: composition(xp, x), (2, 3)),
}


ORDINARY = list(SUITES)[list(SUITES).index("exp") :]


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in ORDINARY or i % 3 > 0)) for i, n in enumerate(SUITES)]
)
def test_hessians_in_all_modes_alone_and_mapped(name: str) -> None:
    f, g, shape = SUITES[name]
    xs = R.normal(size=(2, 3, *shape))

    def run(xs: Any) -> Any:
        hessians = [nm.hessian(f, mode=mode) for mode in MODES]
        return [[h(xs[0, 0]), nm.vmap(h)(xs[0]), nm.vmap(nm.vmap(h))(xs), nm.vmap(nm.vmap(h), 1)(xs)] for h in hessians]

    want = jax.jit(jax.vmap(jax.vmap(jax.hessian(g))))(xs)
    for mode, (alone, mapped, twice, crosswise) in zip(MODES, run_traced(run, [xs]), strict=True):
        np.testing.assert_allclose(alone, want[0, 0], rtol=1e-9, atol=1e-9, err_msg=mode)
        np.testing.assert_allclose(mapped, want[0], rtol=1e-9, atol=1e-9, err_msg=mode)
        np.testing.assert_allclose(twice, want, rtol=1e-9, atol=1e-9, err_msg=mode)
        np.testing.assert_allclose(crosswise, want.swapaxes(0, 1), rtol=1e-9, atol=1e-9, err_msg=mode)


THIRD = {
    "sine_cosine": (lambda a: nm.vmap(lambda r: jnp.sin(r * r).sum())(a), lambda a: xp.sin(a * a).sum(1), (2, 3)),
    "chain": (lambda x: (jnp.sin(x) * batch_sum(x)).sum(), lambda x: (xp.sin(x) * 3 * (x * x).sum()).sum(), (2, 2)),
    "mean": (SUITES["mean_physical"][0], SUITES["mean_physical"][1], (1, 2, 2)),
    "there_and_back": (lambda x: there_and_back(jnp.sin(x)), lambda x: (xp.sin(x) ** 2).sum(), (1, 2, 2)),
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n != "sine_cosine")) for n in THIRD])
def test_third_order_in_all_eight_orders(name: str) -> None:
    f, g, shape = THIRD[name]
    xs = R.normal(size=(2, *shape))
    jacobians = {"fwd": nm.jacfwd, "rev": nm.jacrev}
    orders = list(itertools.product(jacobians, repeat=3))

    def run(xs: Any) -> Any:
        thirds = [jacobians[a](jacobians[b](jacobians[c](f))) for a, b, c in orders]
        return [(third(xs[0]), nm.vmap(third)(xs)) for third in thirds]

    want = jax.jit(jax.vmap(jax.jacfwd(jax.jacfwd(jax.jacrev(g)))))(xs)
    for order, (alone, mapped) in zip(orders, run_traced(run, [xs]), strict=True):
        np.testing.assert_allclose(alone, want[0], rtol=1e-9, atol=1e-9, err_msg=str(order))
        np.testing.assert_allclose(mapped, want, rtol=1e-9, atol=1e-9, err_msg=str(order))


def test_third_order_of_two_arguments_and_results() -> None:
    # The case of a public issue: jacfwd(jacrev(jacrev)) met another shape than jacrev(jacfwd(jacfwd)).
    def f(j: Any, lib: Any) -> Any:
        return j.vmap(lambda a, b: (lib.sin(a * b).sum(), lib.cos(a * b).sum()))

    a = np.arange(6.0).reshape(2, 3)
    jacobians = {"fwd": nm.jacfwd, "rev": nm.jacrev}
    orders = list(itertools.product(jacobians.values(), repeat=3))

    def run(a: Any, b: Any) -> Any:
        return [p(q(r(f(nm, jnp), (0, 1)), (0, 1)), (0, 1))(a, b) for p, q, r in orders]

    third = jax.jacfwd(jax.jacfwd(jax.jacfwd(f(jax, xp), (0, 1)), (0, 1)), (0, 1))
    want = jax.tree.leaves(jax.jit(third)(a, a))
    for got in run_traced(run, [a, a]):
        for one, other in zip(jax.tree.leaves(got), want, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


# Programs ``(transforms, numpy, x) -> results`` and the shape of x.
JACOBIANS: dict[str, tuple[Callable[[Any, Any, Any], Any], tuple[int, ...]]] = {
    "rev": (lambda j, lib, x: j.vmap(j.jacrev(lambda r: lib.sin(r) + r**2))(x), (4, 3)),
    "fwd": (lambda j, lib, x: j.vmap(j.jacfwd(lambda r: lib.sin(r) + r**2))(x), (4, 3)),
    "swapped": (
        lambda j, lib, x: j.vmap(j.jacrev(lambda r: (lib.squeeze(lib.expand_dims(lib.swapaxes(r, 0, 1), 0), 0) ** 2).sum()))(x),
        (4, 2, 3),
    ),
    "pullbacks": (lambda j, lib, x: j.vmap(lambda r: j.vjp(lambda w: lib.matmul(r, w), x[0, :2].T)[1](r[:, :2])[0])(x), (2, 3, 4)),
    "basis_under_a_map": (lambda j, lib, x: j.vmap(j.jacrev(lambda v: (v**3).sum()))(x), (2, 2)),
}


@pytest.mark.parametrize("name", JACOBIANS)
def test_maps_of_jacobians(name: str) -> None:
    f, shape = JACOBIANS[name]
    x = R.normal(size=shape)
    np.testing.assert_allclose(run_traced(lambda x: f(nm, jnp, x), [x]), f(jax, xp, x), rtol=1e-12, atol=1e-12)


def test_the_code_does_not_grow_with_the_size() -> None:
    counts = {
        nm.trace(nm.hessian(SUITES["reduce_sum_physical"][0]), nm.spec((2, n, 4))).lower().mlir().count("stablehlo.")
        for n in (3, 5, 50)
    }
    assert len(counts) == 1


REDUCTIONS = {
    "sum": (ph.reduce_sum_physical, np.sum),
    "max": (ph.reduce_max_physical, np.max),
    "min": (ph.reduce_min_physical, np.min),
    "mean": (ph.mean_physical, np.mean),
}


def table(x: Any) -> dict[str, Any]:
    """One call of every operation and more, most of them under a prefix of one axis."""
    y = ph.incr_batch_dims(x)
    z = ph.move_axis_to_batch_dims(y, 1)
    one = ph.unsqueeze_physical(y, 0)
    return {
        "incr": y,
        "decr": ph.decr_batch_dims(y),
        "to": z,
        "back": ph.move_axis_from_batch_dims(z, 0, 1),
        "inner": ph.move_axis_from_batch_dims(z, batch_axis=1),
        "exchanged": ph.moveaxis_physical(y, 0, -1),
        "wide": ph.broadcast_batch_dims(y, (5, 2)),
        "tall": ph.broadcast_to_physical(y, (5, 2, 3, 4)),
        "unsqueeze_0": one,
        "unsqueeze_1": ph.unsqueeze_physical(y, 1),
        "unsqueeze_-1": ph.unsqueeze_physical(y, -1),
        "squeeze": ph.squeeze_physical(one, 0),
        **{
            f"{name}_{axis}_{keep}": function(y, axis, keepdims=keep)
            for name, (function, _) in REDUCTIONS.items()
            for axis in (0, 1, -1)
            for keep in (False, True)
        },
    }


def test_the_table() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    got = run_traced(table, [x])
    # The data, and how many axes are prefix.
    want: dict[str, tuple[np.ndarray, int]] = {
        "incr": (x, 1),
        "decr": (x, 0),
        "to": (x.transpose(2, 0, 1), 2),
        "back": (x, 1),
        "inner": (x.transpose(2, 0, 1), 1),
        "exchanged": (x.transpose(1, 2, 0), 1),
        "wide": (np.broadcast_to(x, (5, 2, 3, 4)), 2),
        "tall": (np.broadcast_to(x, (5, 2, 3, 4)), 2),
        "unsqueeze_0": (x[None], 2),
        "unsqueeze_1": (x[:, None], 1),
        "unsqueeze_-1": (x[..., None], 1),
        "squeeze": (x, 1),
        **{
            f"{name}_{axis}_{keep}": (reference(x, axis=axis, keepdims=keep), int(keep or axis != 0))
            for name, (_, reference) in REDUCTIONS.items()
            for axis in (0, 1, -1)
            for keep in (False, True)
        },
    }
    assert got.keys() == want.keys()
    for name, (data, prefix) in want.items():
        assert ph.batch_dims(got[name]) == prefix, name
        np.testing.assert_allclose(nm.devectorize(got[name]), data, err_msg=name)


def test_prefixes_line_up_at_their_ends() -> None:
    x, y = np.arange(6.0).reshape(2, 3), np.arange(3.0)
    got = ph.incr_batch_dims(ph.incr_batch_dims(x)) * ph.incr_batch_dims(y)
    np.testing.assert_array_equal(nm.devectorize(got), x * y)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: ph.decr_batch_dims(x), "decr_batch_dims requires a prefix, got none"),
        (lambda x: ph.incr_batch_dims(ph.incr_batch_dims(ph.incr_batch_dims(x))), "requires a logical axis, got none"),
        (lambda x: ph.moveaxis_physical(x, 2, 0), "moveaxis_physical requires one of 2 axes, got 2"),
        (lambda x: ph.move_axis_from_batch_dims(x), "move_axis_from_batch_dims requires one of 0 axes, got 0"),
        (lambda x: ph.squeeze_physical(x, 0), "squeeze_physical requires an axis of size 1, got 2"),
        (lambda x: ph.broadcast_batch_dims(ph.incr_batch_dims(x), (3,)), r"that \(2,\) broadcasts to, got \(3,\)"),
        (lambda x: ph.broadcast_to_physical(x, (3,)), r"that \(2, 3\) broadcasts to, got \(3,\)"),
    ],
)
def test_errors(call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        call(np.zeros((2, 3)))
