"""`experimental.ode.odeint` beside JAX's, step for step, in f64 and with the dtypes of 32 bits: values, gradients, maps, errors."""

from __future__ import annotations

from typing import Any

import jax
import jax.experimental.ode
import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.jax.experimental.ode
from nabla_mlir.base.errors import DtypeError, RuleMissingError

TIMES = np.linspace(0.0, 2.0, 4)
STATE = {"angle": np.array([1.0, 0.5]), "speed": np.array([0.2, 0.1])}
DAMPING = {"of": np.array([0.1, 0.2])}
TOLERANCES = {"rtol": 1e-5, "atol": 1e-5}


def _pendulum(lib: Any) -> Any:
    def slope(y: Any, t: Any, mass: Any, damping: Any) -> Any:
        speed = -mass * lib.numpy.sin(y["angle"]) - damping["of"] * y["speed"] + 0.1 * lib.numpy.cos(t)
        return {"angle": y["speed"], "speed": speed}

    return lambda y, ts, mass, damping: lib.experimental.ode.odeint(slope, y, ts, mass, damping, **TOLERANCES)


def _decay(lib: Any, times: Any = TIMES) -> Any:
    return lambda a: lib.experimental.ode.odeint(lambda y, t: -a * y * (t + 0.5), lib.numpy.ones(()), times, **TOLERANCES)[-1]


def _decay_to(lib: Any, power: Any) -> Any:
    slope = lambda y, t, rate, power: -rate * y * t ** (power - 1)  # noqa: E731
    return lambda y, ts, rate: lib.experimental.ode.odeint(slope, y, ts, rate, power, **TOLERANCES)


def _agree(got: Any, wanted: Any, tolerance: float) -> None:
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
        assert a.dtype == b.dtype


@pytest.mark.slow
@pytest.mark.parametrize("bits", [64, 32])
def test_values_and_gradients_are_those_of_jax(bits: int, interpreted: None) -> None:
    narrow = lambda x: x.astype(f"{x.dtype.kind}{bits // 8}")  # noqa: E731
    state, times, damping = jax.tree.map(narrow, (STATE, TIMES, DAMPING))

    def program(lib: Any) -> Any:
        f, mass = _pendulum(lib), narrow(np.array(2.0))
        loss = lambda *at: sum(lib.numpy.sin(v).sum() for v in f(*at).values())  # noqa: E731
        return f(state, times, mass, damping), lib.jit(lib.grad(loss, (0, 1, 2)))(state, times, mass, damping)

    with nm.enable_x64(bits == 64), jax.enable_x64(bits == 64):
        _agree(program(nm.jax), program(jax), 1e-11 if bits == 64 else 1e-5)


def test_gradients_by_what_is_read_around_maps_and_complex_numbers(interpreted: None) -> None:
    with nm.enable_x64(), jax.enable_x64(True):
        slopes = nm.vmap(nm.grad(_decay(nm.jax)))(np.array([0.7, 0.3]))
        _agree(slopes[0], jax.jit(jax.grad(_decay(jax)))(0.7), 1e-12)
        np.testing.assert_allclose(slopes, -3 * np.exp(-3 * np.array([0.7, 0.3])), rtol=1e-4)
        turns = lambda lib: lib.experimental.ode.odeint(lambda y, t: 1j * y, 1.0 + 0j, TIMES, hmax=0.25, mxstep=20)  # noqa: E731
        _agree(turns(nm.jax), turns(jax), 1e-11)


@pytest.mark.slow
def test_second_derivatives(interpreted: None) -> None:
    with nm.enable_x64(), jax.enable_x64(True):
        got = nm.grad(nm.grad(_decay(nm.jax)))(0.7)
        _agree(got, jax.jit(jax.grad(jax.grad(_decay(jax))))(0.7), 1e-10)
        np.testing.assert_allclose(got, 9 * np.exp(-2.1), rtol=1e-4)


@pytest.mark.slow
def test_compiled() -> None:
    """And by arguments among which there are integers, which JAX cannot."""
    f = lambda y, ts, rate, power: _decay_to(nm.jax, power)(y, ts, rate)  # noqa: E731
    both = nm.value_and_grad(lambda *at: (f(*at) ** 2).sum(), (0, 1, 2))
    at = np.array(1.0), TIMES[:3], np.array(0.7), np.array(2)
    with nm.enable_x64():
        compiled = nm.trace(both, *at, name="f").lower().compile("cpu")(*at)
        before = nm.set_execution("interpret")
        wanted = both(*at)
        nm.set_execution(before)
    _agree(compiled, wanted, 1e-10)
    np.testing.assert_allclose(wanted[0], (np.exp(-0.7 * TIMES[:3] ** 2 / 2) ** 2).sum(), rtol=1e-4)


def test_what_it_refuses(interpreted: None) -> None:
    with pytest.raises(DtypeError, match="odeint requires times of floating point, got int"):
        nm.jax.experimental.ode.odeint(lambda y, t: y, 1.0, np.arange(3))
    with pytest.raises(RuleMissingError, match="odeint"):
        nm.jvp(_decay(nm.jax), (0.7,), (1.0,))
