"""Vectorised arrays that functions use from outside: returned untouched, as indices, and what tangents and cotangents carry."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import MaskError, TraceError, TreeError

P, B, T = np.array([1.0, 0.0, 2.0]), np.array([1.0, 10.0]), np.arange(5.0)
ROWS = np.arange(6.0).reshape(3, 2)


@pytest.fixture(autouse=True, params=["interpret", pytest.param("compile", marks=pytest.mark.slow)])
def execution(request: pytest.FixtureRequest) -> Any:
    before = nm.set_execution(request.param)
    with nm.enable_x64():
        yield request.param
    nm.set_execution(before)


def p() -> Any:
    return nm.vectorize(P, "p")


def b() -> Any:
    return nm.vectorize(B, "b")


# Each gives a result that is the captured array; the expected data of all its results.
OVER = np.broadcast_to(P[:, None], (3, 4))
UNTOUCHED: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
    "grad": (lambda p: nm.grad(lambda y: (y * y, p), has_aux=True)(p), [2 * P, P]),
    "grad of a number": (lambda p: nm.grad(lambda y: (y * y, p), has_aux=True)(3.0), [np.full(3, 6.0), P]),
    "value_and_grad": (lambda p: nm.value_and_grad(lambda y: (y * y, (p, {"a": p})), has_aux=True)(p), [P * P, P, P, 2 * P]),
    "jacfwd": (lambda p: nm.jacfwd(lambda y: (y * y, p), has_aux=True)(p), [2 * P, P]),
    "jacrev": (lambda p: nm.jacrev(lambda y: (y * y, p), has_aux=True)(p), [2 * P, P]),
    "hessian": (lambda p: nm.hessian(lambda y: (y * y, p), has_aux=True)(p), [np.full(3, 2.0), P]),
    "jvp": (lambda p: nm.jvp(lambda x: (x * p, p), (p,), (p,)), [P * P, P, P * P, 0 * P]),
    "linearize": (lambda p: nm.linearize(lambda x: (x, p), 2.0)[0], [2.0, P]),
    "vjp": (lambda p: nm.vjp(lambda x: (x * p, p), 2.0)[0], [2 * P, P]),
    "pullback": (lambda p: nm.vjp(lambda x: (x * p, p), 2.0)[1]((p, p)), [(P * P).sum()]),
    "vmap": (lambda p: nm.vmap(lambda x: (x * p, p))(np.ones(4)), [OVER, OVER]),
    "vmap alone": (lambda p: nm.vmap(lambda x: p)(np.ones(4)), [OVER]),
    "vmap, out_axes": (lambda p: nm.vmap(lambda x: p, out_axes=None)(np.ones(4)), [P]),
    "map": (lambda p: nm.map(lambda x: p, np.ones(4)), [OVER]),
    "checkpoint": (lambda p: nm.checkpoint(lambda x: [x, p])(p), [P, P]),
    "checkpoint alone": (lambda p: nm.checkpoint(lambda x: p)(3.0), [P]),
    "gradient of checkpoint": (lambda p: nm.grad(lambda x: nm.checkpoint(lambda x: (x * x, p)[0])(x))(p), [2 * P]),
    "scan": (lambda p: nm.scan(lambda c, x: (c + x * p, p), p, np.ones(4)), [5 * P, OVER]),
    "scan's carry": (lambda p: nm.scan(lambda c, x: (p, x), p, np.ones(4)), [P, np.ones((3, 4))]),
    "cond": (lambda p: nm.cond(p > 0, lambda: p * 2, lambda: p), [2 * P]),
    "cond of both": (lambda p: nm.cond(p > 1, lambda: p, lambda: p), [P]),
    "switch": (lambda p: nm.switch((p > 0).astype("int32"), [lambda: p * 2, lambda: p]), [P]),
    "while_loop": (lambda p: nm.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, p), (p, 0 * p)), [np.full(3, 3.0), P]),
    "fori_loop": (lambda p: nm.fori_loop(0, 3, lambda i, c: p, 0 * p), [P]),
    "custom_jvp": (lambda p: _custom(p), [P, P]),
    "jit": (lambda p: nm.jit(lambda x: (x, p))(3.0), [3.0, P]),
    "grad of vmap": (lambda p: nm.grad(lambda x: nm.vmap(lambda y: (p, y * x)[1])(np.ones(4)).sum())(p), [np.full(3, 4.0)]),
    "vmap of grad": (lambda p: nm.vmap(nm.grad(lambda y: (y * y, p), has_aux=True))(np.ones(4)), [np.full((3, 4), 2.0), OVER]),
}


def _custom(p: Any) -> Any:
    f = nm.custom_jvp(lambda x: (x, p))
    f.defjvp(lambda primals, tangents: (f(*primals), (tangents[0], 0 * p)))
    return f(p)


@functools.cache
def _compiled_untouched() -> Any:
    """All of them, compiled as one program."""
    return nm.jit(lambda p: {name: run(p) for name, (run, _) in UNTOUCHED.items()})(p())


@pytest.mark.parametrize("name", UNTOUCHED)
@pytest.mark.parametrize("inside", [False, True], ids=["array", "tensor"])
def test_a_captured_array_that_is_returned_untouched(name: str, inside: bool, execution: str) -> None:
    run, expected = UNTOUCHED[name]
    f = nm.jit(run) if inside else run
    out = _compiled_untouched()[name] if inside and execution == "compile" else f(p())
    leaves = nm.jax.tree.leaves(out)
    assert [np.shape(x) for x in leaves] == [np.shape(e) for e in expected]
    for x, e in zip(leaves, expected, strict=True):
        np.testing.assert_allclose(x, e, rtol=1e-14)


def test_names_of_what_is_returned_untouched() -> None:
    outer = p()
    gradient, aux = nm.grad(lambda y: (y * y, outer), has_aux=True)(b())
    assert list(gradient.axes) == [("b", 2), ("p", 3)]
    assert list(aux.axes) == [("p", 3), ("b", 2)]  # each in the order in which its own operations meet them
    np.testing.assert_array_equal(aux.data, np.broadcast_to(P[:, None], (3, 2)))
    np.testing.assert_array_equal(gradient.data, np.broadcast_to(2 * B[:, None], (2, 3)))
    inner = b()
    assert list(nm.cond(outer > 0, lambda: inner, lambda: inner).axes) == [("p", 3), ("b", 2)]


def test_names_that_a_function_gives_stand_before_the_mapped_axis() -> None:
    f = lambda x: x * nm.vectorize(P, "p")  # noqa: E731
    rows = np.arange(1.0, 9.0).reshape(4, 2)
    for out in (
        nm.vmap(f)(rows),
        nm.map(f, rows),
        nm.map(f, rows, batch_size=3),
        nm.scan(lambda c, x: (c, f(x)), 0.0, rows)[1],
        nm.scan(lambda c, x: (c, f(x)), 0.0, rows, unroll=4)[1],
    ):
        assert out.vectorized_axes == {"p": 3}
        np.testing.assert_allclose(out.data, P[:, None, None] * rows)
    np.testing.assert_allclose(nm.vmap(f, out_axes=-1)(rows).data, P[:, None, None] * rows.T)
    diagonal = nm.hessian_diagonal(lambda x: (f(x) ** 3).sum())(rows[0])
    np.testing.assert_allclose(diagonal.data, 6 * P[:, None] ** 3 * rows[0])


# ---------------------------------------------------------------- indices


I = np.array([1, 0, 2])  # noqa: E741  # indices
HOT = np.eye(5)[I]
INDICES: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "take": (lambda y, i: nnp.take(y, i), T[I]),
    "getitem": (lambda y, i: y[i], T[I]),
    "of a tuple": (lambda y, i: y[None, i], T[I][:, None]),
    "of two": (lambda y, i: nnp.outer(y, y)[i, i], T[I] ** 2),
    "in a list": (lambda y, i: y[[i, i]], np.stack([T[I], T[I]], 1)),
    "take_along_axis": (lambda y, i: nnp.take_along_axis(y, nnp.reshape(i, (1,)), 0), T[I][:, None]),
    "at get": (lambda y, i: y.at[i].get(), T[I]),
    "at get, clip": (lambda y, i: y.at[i + 9].get(mode="clip"), np.full(3, 4.0)),
    "at add": (lambda y, i: y.at[i].add(1.0), T + HOT),
    "at set": (lambda y, i: y.at[i].set(7.0), np.where(HOT == 1, 7.0, T)),
    "at mul": (lambda y, i: y.at[i].mul(3.0), T * (1 + 2 * HOT)),
    "dynamic_slice": (lambda y, i: nm.jax.lax.dynamic_slice(y, (i,), (2,)), np.stack([T[I], T[I + 1]], 1)),
    "dynamic_index_in_dim": (lambda y, i: nm.jax.lax.dynamic_index_in_dim(y, i, 0, keepdims=False), T[I]),
}


def _weights(name: str) -> np.ndarray:
    entry = INDICES[name][1][0]
    return np.arange(1.0, 1 + entry.size).reshape(entry.shape)


def _read(name: str, is_captured: bool, y: Any, index: Any) -> tuple[Any, Any, Any]:
    """The value, the gradient and the tangent of a program."""
    read, captured = INDICES[name][0], nm.vectorize(I, "p")
    f = (lambda y: read(y, captured)) if is_captured else read
    args = (y,) if is_captured else (y, index)
    loss = lambda *args: (f(*args) * _weights(name)).sum()  # noqa: E731
    return nm.jit(f)(*args), nm.grad(loss)(*args), nm.jvp(loss, args, (T, *[None] * (len(args) - 1)))[1]


@functools.cache
def _compiled_reads() -> Any:
    """All of them, compiled as one program: on its own each would take a second."""
    every = nm.jit(lambda y, index: {(n, c): _read(n, c, y, index) for n in INDICES for c in (True, False)})
    return every(T, nm.vectorize(I, "p"))


@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("is_captured", [True, False], ids=["captured", "argument"])
def test_indices_with_names(name: str, is_captured: bool, execution: str) -> None:
    index = nm.vectorize(I, "p")
    found = _compiled_reads()[name, is_captured] if execution == "compile" else _read(name, is_captured, T, index)
    value, gradient, tangent = found
    assert value.vectorized_axes == {"p": 3}
    np.testing.assert_allclose(value.data, INDICES[name][1])
    nm.set_execution("interpret")  # the oracle
    slope = np.stack([_slope(lambda y, i=i: (nnp.asarray(INDICES[name][0](y, int(i))) * _weights(name)).sum()) for i in I])
    np.testing.assert_allclose(gradient.data, slope, atol=1e-7)
    np.testing.assert_allclose(tangent.data, slope @ T, atol=1e-6)


def _slope(f: Callable[[Any], Any]) -> np.ndarray:
    step = 1e-5
    return np.array([float(f(nnp.asarray(T + step * e)) - f(nnp.asarray(T - step * e))) / (2 * step) for e in np.eye(5)])


def test_masks_and_slices_with_names_are_refused() -> None:
    with pytest.raises(MaskError, match="a mask with known values"):
        nm.jit(lambda y: y[p() > 0])(P)
    with pytest.raises(TraceError, match="a slice requires known bounds"):
        nm.jit(lambda y: y[: nm.vectorize(I, "p")])(T)


# ---------------------------------------------------------------- second derivatives along unit vectors


def test_the_diagonal_of_a_hessian_for_each_entry() -> None:
    x = nm.vectorize(ROWS, "p")
    f = lambda x: (x**3).sum() + x[0] * x[1] ** 2  # noqa: E731
    diagonal = np.stack([6 * ROWS[:, 0], 6 * ROWS[:, 1] + 2 * ROWS[:, 0]], 1)
    found = nm.hessian_diagonal(f)(x)
    assert found.vectorized_axes == {"p": 3}
    np.testing.assert_allclose(found.data, diagonal)
    np.testing.assert_allclose(nm.laplacian(f)(x).data, diagonal.sum(1))
    np.testing.assert_allclose(nm.jit(nm.hessian_diagonal(f))(x).data, diagonal)
    np.testing.assert_allclose(nm.hessian_diagonal(lambda x, s: f(x) * s)(ROWS[1], b()).data, B[:, None] * diagonal[1])
    weights = b()
    np.testing.assert_allclose(nm.hessian_diagonal(lambda y: f(y) * weights)(ROWS[1]).data, B[:, None] * diagonal[1])
    tree = nm.hessian_diagonal(lambda t: f(t["x"]) + t["s"] ** 4)({"x": x, "s": p()})
    np.testing.assert_allclose(tree["x"].data, diagonal)
    np.testing.assert_allclose(tree["s"].data, 12 * P**2)
    np.testing.assert_allclose(nm.vmap(nm.hessian_diagonal(f))(ROWS), diagonal)


def test_the_diagonal_of_functions_that_take_axes_apart() -> None:
    with pytest.raises(TraceError, match="devectorize, revectorize and reshape_vectors require"):
        nm.hessian_diagonal(lambda x: (nm.devectorize(x) ** 3).sum())(nm.vectorize(ROWS, "p"))


# ---------------------------------------------------------------- axes that the function names itself


def _named_inside(y: Any) -> Any:
    return y * y * nm.vectorize(P, "p")


INSIDE: dict[str, tuple[Callable[[Any], Any], np.ndarray]] = {
    "value of jvp": (lambda x: nm.jvp(_named_inside, (x,), (1.0,))[0], B[:, None] ** 2 * P),
    "jvp": (lambda x: nm.jvp(_named_inside, (x,), (1.0,))[1], 2 * B[:, None] * P),
    "linearize": (lambda x: nm.linearize(_named_inside, x)[1](x), 2 * B[:, None] ** 2 * P),
    "vjp": (lambda x: nm.vjp(_named_inside, x)[0], B[:, None] ** 2 * P),
    "value_and_grad": (lambda x: nm.value_and_grad(_named_inside)(x)[0], B[:, None] ** 2 * P),
    "aux of grad": (lambda x: nm.grad(lambda y: (y, _named_inside(y)), has_aux=True)(x)[1], B[:, None] ** 2 * P),
    "hessian_diagonal": (lambda x: nm.hessian_diagonal(_named_inside)(x), 0 * B[:, None] + 2 * P),
    "laplacian": (lambda x: nm.laplacian(_named_inside)(x), 0 * B[:, None] + 2 * P),
    "cond": (lambda x: nm.cond(x > 2, _named_inside, lambda y: -_named_inside(y), x), np.array([-1, 100])[:, None] * P),
    "scan": (
        lambda x: nm.scan(lambda c, t: (c + t, _named_inside(c)), x, np.ones(2))[1],
        np.stack([B[:, None] ** 2 * P, (B[:, None] + 1) ** 2 * P], -1),
    ),
    "checkpoint": (lambda x: nm.checkpoint(_named_inside)(x), B[:, None] ** 2 * P),
}


@pytest.mark.parametrize("name", INSIDE)
def test_axes_that_a_function_names_follow_those_of_its_entries(name: str) -> None:
    run, expected = INSIDE[name]
    for out in (run(b()), nm.jit(run)(b())):
        assert list(out.axes) == [("b", 2), ("p", 3)]
        np.testing.assert_allclose(out.data, expected)


def test_axes_that_a_function_names_of_a_plain_argument() -> None:
    rows = lambda x: (x**3 * nm.vectorize(P, "p")).sum()  # noqa: E731
    np.testing.assert_allclose(nm.laplacian(rows)(np.array([1.0, 2.0])).data, 18 * P)
    assert nm.laplacian(rows)(np.array([1.0, 2.0])).vectorized_axes == {"p": 3}
    tree = nm.laplacian(lambda t: rows(t["x"]) * t["y"] ** 2)({"x": np.array([1.0, 2.0]), "y": np.float64(3)})
    np.testing.assert_allclose(tree.data, (9 * 18 + 2 * 9) * P)


@pytest.mark.parametrize("of", ["grad", "jacfwd", "jacrev", "hessian"])
def test_gradients_are_sums_over_axes_that_the_function_names(of: str) -> None:
    slope = 2.0 if of == "hessian" else 2 * B
    out = getattr(nm, of)(_named_inside)(b())
    assert out.vectorized_axes == {"b": 2}
    np.testing.assert_allclose(out.data, slope * P.sum() * np.ones(2))
    np.testing.assert_allclose(nm.hvp(_named_inside)(b(), 1.0).data, 2 * P.sum() * np.ones(2))


# ---------------------------------------------------------------- what tangents and cotangents carry


def test_tangents_of_jvp_and_hvp_carry_any_axes() -> None:
    f = lambda x: x * x  # noqa: E731
    for tangent, expected in ((p(), 2 * P * P), (1.0, 2 * P), (b(), 2 * P[:, None] * B)):
        y, out = nm.jvp(f, (p(),), (tangent,))
        np.testing.assert_allclose(out.data, expected)
        np.testing.assert_allclose(y.data, np.broadcast_to((P * P).reshape(3, *[1] * (expected.ndim - 1)), expected.shape))
    np.testing.assert_allclose(nm.jvp(f, (np.array(3.0),), (b(),))[1].data, 6 * B)
    np.testing.assert_allclose(nm.hvp(lambda x: x**3)(p(), b()).data, 6 * P[:, None] * B)
    np.testing.assert_allclose(nm.hvp(lambda x: x**3)(np.array(2.0), b()).data, 12 * B)
    np.testing.assert_allclose(nm.hvp(lambda x: x**3)(p(), 1.0).data, 6 * P)


@pytest.mark.parametrize("of", [nm.linearize, nm.vjp])
def test_linear_maps_take_the_axes_of_their_primals_and_results(of: Any) -> None:
    linear = of(lambda x: x * x, p())[1]
    out = linear(p())
    np.testing.assert_allclose((out if of is nm.linearize else out[0]).data, 2 * P * P)
    for other in (1.0, b(), nm.vectorize(ROWS, ["p", "b"])):
        with pytest.raises(TreeError, match="structure"):
            linear(other)


def test_the_cotangent_of_a_plain_argument_is_a_sum_over_entries() -> None:
    y, pull = nm.vjp(lambda w, q: w * q * p(), np.array(3.0), b())
    assert y.vectorized_axes == {"b": 2, "p": 3} or y.vectorized_axes == {"p": 3, "b": 2}
    ones = nm.vectorize(np.ones([*y.vectorized_axes.values()]), list(y.vectorized_axes))
    w, q = pull(ones)
    assert float(w) == B.sum() * P.sum()
    np.testing.assert_allclose(q.data, np.full(2, 3 * P.sum()))
