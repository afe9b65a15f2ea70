"""Tapes that are written over what nothing needs any more: numbers beside JAX's, in calls again, on both drivers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from unchanged import call_again, compiled

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir import runtime

N, D = 24, 16
rng = np.random.default_rng(5)
XS, W = rng.normal(size=(N, D)), rng.normal(size=(D, D)) / 4
OURS = SimpleNamespace(np=nnp, scan=nm.scan, grad=nm.grad, jvp=nm.jvp)
JAX = SimpleNamespace(np=jnp, scan=jax.lax.scan, grad=jax.grad, jvp=jax.jvp)

Program = Callable[[Any, Any, Any], Any]


def rows(step: Callable[[Any, Any, Any, Any], Any], reverse: bool = False) -> Program:
    """A scan over rows that are computed; `step(lib, h, row, w)` gives the next state and a row of the result."""

    def program(lib: Any, xs: Any, w: Any) -> Any:
        h, ys = lib.scan(lambda h, row: step(lib, h, row, w), xs[0], lib.np.sin(xs @ w), reverse=reverse)
        return h, ys

    return program


def read_again(lib: Any, xs: Any, w: Any) -> Any:
    made = lib.np.sin(xs @ w)
    h, ys = lib.scan(lambda h, row: (lib.np.tanh(h @ w + row), row * h), xs[0], made)
    return h, ys, made


def read_before(lib: Any, xs: Any, w: Any) -> Any:
    made = lib.np.sin(xs @ w)
    h, _ = lib.scan(lambda h, row: (lib.np.tanh(h @ w + row), None), xs[0], made)
    return lib.scan(lambda h, _: (lib.np.cos(h @ w), h), h, None, length=N)


def three_in_a_row(lib: Any, xs: Any, w: Any) -> Any:
    made = lib.np.sin(xs @ w)
    h, _ = lib.scan(lambda h, row: (lib.np.tanh(h @ w + row), None), xs[0], made)
    h, one = lib.scan(lambda h, _: (lib.np.cos(h @ w), h), h, None, length=N)
    h, two = lib.scan(lambda h, _: (lib.np.sin(h @ w), h), h, None, length=N)
    return h, one, two


def updated_before(lib: Any, xs: Any, w: Any) -> Any:
    made = lib.np.sin(xs @ w)
    other = made.at[0].set(w[0])
    h, ys = lib.scan(lambda h, _: (lib.np.cos(h @ w), h), other.sum(0), None, length=N)
    return h, ys, other


def neighbours(lib: Any, xs: Any, w: Any) -> Any:
    made = lib.np.sin(xs @ w)

    def step(i: Any, _: Any) -> Any:
        return i + 1, made[i] + made[lib.np.minimum(i + 1, N - 1)]

    return lib.scan(step, lib.np.int32(0), None, length=N)


def inside(lib: Any, xs: Any, w: Any) -> Any:
    def outer(h: Any, row: Any) -> Any:
        made = lib.np.sin(xs * row)
        h, ys = lib.scan(lambda h, r: (lib.np.tanh(h @ w + r), r[::-1] * h), h, made)
        return h, ys.sum(0)

    return lib.scan(outer, xs[0], xs)


def gated(lib: Any, xs: Any, w: Any) -> Any:
    def loss(w: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            a, b = x @ w, h @ w
            z = 0.5 + 0.5 * lib.np.tanh(a + b)
            return (1 - z) * h + z * lib.np.sin(a + z * b), None

        h, _ = lib.scan(step, xs[0], xs)
        return (h * h).sum()

    return lib.jvp(lib.grad(loss), (w,), (lib.np.cos(w),))


PROGRAMS: dict[str, Program] = {
    "each element": rows(lambda lib, h, row, w: (lib.np.tanh(h @ w + row), row * 2)),
    "turned": rows(lambda lib, h, row, w: (lib.np.tanh(h @ w + row), row[::-1] + h)),
    "from last to first": rows(lambda lib, h, row, w: (lib.np.tanh(h @ w + row), (row + h) @ w), reverse=True),
    "not computed from it": rows(lambda lib, h, row, w: (lib.np.tanh(h @ w + row), h)),
    "read again": read_again,
    "read before": read_before,
    "three in a row": three_in_a_row,
    "updated before": updated_before,
    "neighbours": neighbours,
    "inside": inside,
    "gated": gated,
}


@pytest.fixture(scope="module")
def artifact() -> Any:
    programs = {name.replace(" ", "_"): (lambda xs, w, f=f: f(OURS, xs, w), [XS, W]) for name, f in PROGRAMS.items()}
    return compiled(programs)


@pytest.mark.parametrize("driver", ["local-sync", "local-task"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_beside_jax_s(artifact: Any, name: str, driver: str, tmp_path: Path) -> None:
    artifact.save(tmp_path / "tapes.vmfb")
    module = runtime.load(tmp_path / "tapes.vmfb", driver)
    found = call_again(name, module[name.replace(" ", "_")], [XS, W])
    with jax.enable_x64(True):
        wanted = jax.jit(lambda xs, w: PROGRAMS[name](JAX, xs, w))(XS, W)
    for a, b in zip(jax.tree.leaves(found, is_leaf=lambda x: isinstance(x, nm.Array)), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-11, atol=1e-11)
