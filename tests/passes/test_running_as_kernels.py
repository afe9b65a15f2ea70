"""Running sums, products and extrema as kernels, against NumPy's in f64."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from legalize_support import Program, legalized

import nabla_mlir as nm
import nabla_mlir.numpy as nnp

pytestmark = pytest.mark.slow

rng = np.random.default_rng(4)
NUMPY: dict[str, Callable[..., Any]] = {
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
    "cummax": np.maximum.accumulate,
    "cummin": np.minimum.accumulate,
}
# Lengths about those of blocks; one element, less than a vector, and vectors with a rest behind the axis; rows one by one and by four.
SHAPES = {
    "line": ((70_000,), 0),
    "block": ((40, 128), 1),
    "one more": ((37, 129), 1),
    "two levels": ((3, 16_384), 1),
    "three": ((1, 16_385), 1),
    "few columns": ((900, 5), 0),
    "columns": ((257, 33), 0),
    "more columns": ((130, 150), 0),
    "middle": ((3, 140, 19), 1),
    "short": ((300, 17), 1),
    "long rows": ((16, 1000), 0),
}


def stage(functions: dict[str, Callable[..., Any]], arguments: dict[str, np.ndarray]) -> str:
    traced = {name: nm.trace(f, nm.spec(arguments[name].shape, arguments[name].dtype), name=name) for name, f in functions.items()}
    return str(nm.module(**traced).lower())


def numbers(shape: tuple[int, ...], name: str, dtype: str) -> np.ndarray:
    if name == "cumprod":
        return rng.choice([0.5, -2.0, 1.0, -1.0], shape, p=[0.002, 0.002, 0.5, 0.496]).astype(dtype)  # all products are exact
    return rng.normal(size=shape).astype(dtype)


@pytest.mark.parametrize("vector_bytes", [64, pytest.param(16, marks=pytest.mark.slow), pytest.param(32, marks=pytest.mark.slow)])
@pytest.mark.parametrize("dtype", [pytest.param("f4", marks=pytest.mark.slow), "f8"])
def test_values_are_numpys(dtype: str, vector_bytes: int) -> None:
    functions, arguments, wanted = {}, {}, {}
    for k, (where, (shape, axis)) in enumerate(SHAPES.items()):
        for j, (name, of_numpy) in enumerate(NUMPY.items()):
            reverse = (k + j) % 2 == 1
            case = f"{name}_{where.replace(' ', '_')}"
            x = numbers(shape, name, dtype)
            functions[case] = lambda x, name=name, axis=axis, reverse=reverse: getattr(nnp, name)(x, axis, reverse=reverse)
            turned = np.flip(x.astype("f8"), axis) if reverse else x.astype("f8")
            with np.errstate(over="ignore"):
                found = of_numpy(turned, axis=axis)
            arguments[case], wanted[case] = x, np.flip(found, axis) if reverse else found
    text = legalized(stage(functions, arguments), vector_bytes=vector_bytes)
    assert text.count("flow.dispatch @") == len(functions)
    assert "stablehlo.pad" not in text
    program = Program(text)
    for case, x in arguments.items():
        before = x.copy()
        for _ in range(2):
            found = program(case, x)
            if case.startswith("cumsum"):
                bound = 30 * np.finfo(dtype).eps * np.abs(wanted[case]).max()
                np.testing.assert_allclose(found, wanted[case], rtol=0, atol=bound, err_msg=case)
            else:
                np.testing.assert_array_equal(found, wanted[case].astype(dtype), err_msg=case)
        np.testing.assert_array_equal(x, before)


def test_long_sums_lose_no_more_than_in_pairs() -> None:
    x = np.full(1_000_000, 0.1, "f4")
    errors = np.abs(np.asarray(nm.jit(lambda x: nnp.cumsum(x))(x)) - np.cumsum(x.astype("f8"))) / np.cumsum(x.astype("f8"))
    assert errors.max() < 30 * np.finfo("f4").eps  # one after the other: about 8000


@pytest.mark.parametrize("name", NUMPY)
def test_what_is_not_finite_stays_where_it_is(name: str) -> None:
    x = np.ones((40, 150), "f4")
    x[3, 40], x[5, 130], x[6, 0] = np.nan, np.inf, -np.inf
    found = np.asarray(nm.jit(lambda x: getattr(nnp, name)(x, 1))(x))
    np.testing.assert_array_equal(found, NUMPY[name](x, axis=1))


def test_derivatives_are_kernels_too() -> None:
    x, v = rng.normal(size=(2, 60, 150))
    weights = rng.normal(size=(60, 150))
    loss = lambda x: (weights * nnp.cumsum(x, 1) ** 2).sum()  # noqa: E731
    text = legalized(stage({"hvp": lambda x: nm.hvp(loss)(x, x)}, {"hvp": x}), vector_bytes=64)
    assert text.count("flow.dispatch @") == 2
    assert "stablehlo.pad" not in text
    found = np.asarray(nm.jit(nm.hvp(loss))(x, v))
    np.testing.assert_allclose(found, np.flip(np.cumsum(np.flip(2 * weights * np.cumsum(v, 1), 1), 1), 1), rtol=1e-10, atol=1e-10)


def hvp_of_products(xp: Any, axis: int, reverse: bool, weights: np.ndarray) -> Callable[..., Any]:
    if xp is nnp:
        return lambda x, v: nm.hvp(lambda x: (weights * nnp.cumprod(x, axis, reverse=reverse) ** 2).sum())(x, v)
    loss = lambda x: (weights * jax.lax.cumprod(x, axis, reverse=reverse) ** 2).sum()  # noqa: E731
    return lambda x, v: jax.jvp(jax.grad(loss), (x,), (v,))[1]


@pytest.mark.parametrize("vector_bytes", [64, pytest.param(16, marks=pytest.mark.slow), pytest.param(32, marks=pytest.mark.slow)])
@pytest.mark.parametrize("dtype", ["f4", pytest.param("f8", marks=pytest.mark.slow)])
def test_derivatives_of_products_are_recurrences_in_kernels(dtype: str, vector_bytes: int) -> None:
    functions, arguments = {}, {}
    for where, reverse in (("block", False), ("few columns", True), ("middle", False), ("one more", True)):
        shape, axis = SHAPES[where]
        weights = rng.normal(size=shape).astype(dtype)
        case = where.replace(" ", "_")
        functions[case] = [hvp_of_products(xp, axis, reverse, weights.astype(d)) for xp, d in ((nnp, dtype), (jnp, "f8"))]
        arguments[case] = np.stack([1 + rng.normal(size=shape) / shape[axis] ** 0.5, rng.normal(size=shape)]).astype(dtype)
    ours = {name: (lambda x, f=f: f[0](x[0], x[1])) for name, f in functions.items()}
    text = legalized(stage(ours, arguments), vector_bytes=vector_bytes)
    # The products, their tangents, their cotangents and the tangents of these.
    assert text.count("flow.dispatch @running_mulf") == len(functions)
    assert text.count("flow.dispatch @recurrence") == 3 * len(functions)
    program = Program(text)
    for case, x in arguments.items():
        found = program(case, x)
        with jax.enable_x64(True):
            wanted = np.asarray(jax.jit(functions[case][1])(*x.astype("f8")))
        bound = 300 * np.finfo(dtype).eps * np.abs(wanted).max()
        np.testing.assert_allclose(found, wanted, rtol=0, atol=bound, err_msg=case)


def test_scans_of_affine_functions_are_kernels() -> None:
    """Each direction, coefficients of the element itself and of the one behind it."""
    a, b = rng.normal(size=(2, 300, 40))
    ab = np.stack([a, b])

    def scanned(reverse: bool) -> Callable[..., Any]:
        return lambda x: nm.associative_scan(lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (x[0], x[1]), reverse)[1]

    functions = {
        f"{name}_{reverse}": f
        for reverse in (False, True)
        for name, f in (
            ("value", scanned(reverse)),
            ("slope", nm.grad(lambda x, reverse=reverse: (scanned(reverse)(x) ** 2).sum())),
        )
    }
    text = legalized(stage(functions, dict.fromkeys(functions, ab)), vector_bytes=64)
    assert {*re.findall(r"flow.dispatch @(recurrence\w*?)_1x", text)} == {
        "recurrence",
        "recurrence_reversed",
        "recurrence_late",
        "recurrence_reversed_late",
    }
    program = Program(text)
    for reverse in (False, True):
        with jax.enable_x64(True):
            f = lambda x, reverse=reverse: jax.lax.associative_scan(  # noqa: E731
                lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (x[0], x[1]), reverse=reverse
            )[1]
            wanted = f(ab), jax.grad(lambda x, f=f: (f(x) ** 2).sum())(ab)
        for name, y in zip(("value", "slope"), wanted, strict=True):
            np.testing.assert_allclose(program(f"{name}_{reverse}", ab), y, rtol=1e-9, atol=1e-9 * np.abs(y).max())


def test_what_stays_shifts() -> None:
    """Few elements, short axes, other dtypes, parts that something else reads, loops, code without a known width."""
    functions: dict[str, tuple[Callable[..., Any], np.ndarray]] = {
        "few": (lambda x: nnp.cumsum(x, 1), np.zeros((2, 100), "f4")),
        "short": (lambda x: nnp.cumsum(x, 1), np.zeros((9000, 15), "f4")),
        "whole": (lambda x: nnp.cumsum(x, 1), np.zeros((200, 100), "i4")),
        "read": (lambda x: _shifted_by_hand(x), np.zeros((200, 100), "f4")),
        "loop": (lambda x: nm.fori_loop(0, 3, lambda i, c: nnp.cumsum(c, 1), x), np.zeros((200, 100), "f4")),
    }
    arguments = {name: x for name, (_, x) in functions.items()}
    text = legalized(stage({name: f for name, (f, _) in functions.items()}, arguments), vector_bytes=64)
    assert "running_" not in text
    x = {"sum": np.zeros((200, 100), "f4")}
    assert "running_" not in legalized(stage({"sum": lambda x: nnp.cumsum(x, 1)}, x), vector_bytes=0)
    assert "running_addf_200x100x1_f32" in legalized(stage({"sum": lambda x: nnp.cumsum(x, 1)}, x), vector_bytes=64)


def _shifted_by_hand(x: Any) -> Any:
    """A running sum one of whose parts is a result as well, and one whose shift brings ones."""
    parts = [x]
    for k in range(7):
        step = 1 << k
        parts.append(parts[-1] + nnp.pad(parts[-1], ((0, 0), (step, 0)))[:, :-step])
    other = x
    for k in range(7):
        step = 1 << k
        other = other + nnp.pad(other, ((0, 0), (step, 0)), constant_values=1.0)[:, :-step]
    return parts[-1], parts[3], other
