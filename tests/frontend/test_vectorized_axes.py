"""Named axes themselves: given, taken away, exchanged and regrouped; what artifacts and IREE make of them; errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from vectorized_oracle import KINDS, check, inp, ours
from xla import run_traced

import nabla_mlir as nm
import nabla_mlir.numpy as jnp
from nabla_mlir.base.errors import ShapeError, TraceError, TreeError

R = np.random.default_rng(0)


def test_the_same_name_changes_its_meaning() -> None:
    # Case S1. Nx keeps the name on an axis of the entry and gives it away again; here that axis is the one in its place.
    for size in (3, 1):
        x = inp("x", np.arange(1.0, size + 1)[:, None])

        def f(x: Any, size: int = size) -> Any:
            again = nm.vectorize(nm.devectorize(x).reshape(1, size, 1), {"x": 1})
            assert (again.vectorized_axes, again.shape) == ({"x": 1}, (size, 1))
            return (again**2).sum()

        for kind in KINDS:
            check(ours(nm.grad(f, vectorized=kind), [x]), 2 * x.array, "x")


# Functions of a tensor over a and b that give axes another name, order or size, and return the whole; the same in JAX.
REGROUPED: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "names kept": (lambda x: nm.vectorize(nm.devectorize(x), list(x.vectorized_axes)), lambda x: x),
    "names exchanged": (lambda x: nm.vectorize(nm.devectorize(x), ["b", "a"]), lambda x: x),
    "order exchanged": (lambda x: nm.vectorize(jnp.swapaxes(nm.devectorize(x), 0, 1), ["b", "a"]), lambda x: x.swapaxes(0, 1)),
    "one name kept": (lambda x: nm.vectorize(nm.devectorize(x), "a"), lambda x: x),
    "one axis moved into the entry": (
        lambda x: nm.vectorize(jnp.moveaxis(nm.devectorize(x), 0, -1), "b"),
        lambda x: jax.numpy.moveaxis(x, 0, -1),
    ),
    "collapsed": (lambda x: nm.revectorize(x, {"ab": -1}, x.shape), lambda x: x.reshape(-1, x.shape[-1])),
    "expanded": (lambda x: nm.revectorize(x, {"a": 1, "b": -1, "c": 1}, x.shape), lambda x: x.reshape(1, -1, 1, x.shape[-1])),
    "aligned": (lambda x: nm.reshape_vectors([nm.vectorize(np.ones(1), "c"), x], align_ranks=True)[1], lambda x: x[None]),
}


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(2, 4), (3, 3), (1, 2), (1, 1)], ids=str)
def test_axes_are_regrouped(sizes: tuple[int, int]) -> None:
    given = inp("ab", R.random((*sizes, 3)))

    def run(x: Any) -> Any:
        def total(f: Any) -> Any:
            return lambda x: (jnp.sin(nm.devectorize(f(x))) * jnp.cumsum(nm.devectorize(f(x)), axis=0)).sum()

        return {name: (nm.devectorize(f(x)), nm.grad(total(f))(x)) for name, (f, _) in REGROUPED.items()}

    for name, (value, gradient) in ours(run, [given]).items():
        g = REGROUPED[name][1]
        want = jax.grad(lambda x, g=g: (jax.numpy.sin(g(x)) * jax.numpy.cumsum(g(x), axis=0)).sum())(given.array)
        np.testing.assert_allclose(value, g(given.array), err_msg=name)
        check(gradient, want, "ab")


def test_what_takes_axes_apart_is_differentiated_jointly() -> None:
    x = inp("x", R.random((3, 2)))
    check(ours(nm.grad(lambda x: (nm.devectorize(x) ** 2).sum()), [x]), 2 * x.array, "x")
    weights = np.arange(3.0)
    collapsed = ours(nm.grad(lambda x: (nm.revectorize(x, {"y": 6}) * nm.vectorize(np.arange(6.0), "y")).sum()), [x])
    check(collapsed, np.arange(6.0).reshape(3, 2), "x")
    renamed = ours(nm.grad(lambda x: (nm.revectorize(x, {"y": 3}, (2,)) * nm.vectorize(weights, "y")).sum()), [x])
    check(renamed, np.repeat(weights[:, None], 2, 1), "x")


def test_axes_made_inside_are_summed_over() -> None:
    y = R.random((4, 3))
    got = run_traced(nm.grad(lambda x: (nm.vectorize(y, "k") * x).sum()), [R.random(3)])
    np.testing.assert_allclose(got, y.sum(0))


def test_revectorize_and_reshape_vectors() -> None:
    x = nm.vectorize(np.arange(12.0).reshape(2, 3, 2), ["a", "b"])
    y = nm.revectorize(x, {"c": -1}, (3,))
    assert (y.vectorized_axes, y.shape) == ({"c": 4}, (3,))
    np.testing.assert_array_equal(nm.devectorize(y), np.arange(12.0).reshape(4, 3))
    z = nm.vectorize(np.arange(6.0).reshape(3, 2), ["b", "k"])
    one, two = nm.reshape_vectors([x, z], align_ranks=True)
    assert (one.vectorized_axes, one.shape) == ({"a": 2, "b": 3, "k": 1}, (2,))
    assert (two.vectorized_axes, two.shape) == ({"a": 1, "b": 3, "k": 2}, (1,))
    again, _ = nm.reshape_vectors([nm.vectorize(np.zeros((3, 2)), ["b", "a"]), x])
    assert list(again.vectorized_axes) == ["b", "a"]
    _, turned = nm.reshape_vectors([nm.vectorize(np.zeros((3, 2)), ["b", "a"]), x])
    np.testing.assert_array_equal(nm.devectorize(turned), np.arange(12.0).reshape(2, 3, 2).swapaxes(0, 1))


def test_names_go_behind_those_there_are() -> None:
    x = nm.vectorize(nm.vectorize(np.zeros((2, 3, 4)), "a"), {"b": 3})
    assert (list(x.vectorized_axes.items()), x.shape, x.ndim, x.size) == ([("a", 2), ("b", 3)], (4,), 1, 4)
    tree = nm.vectorize({"w": np.zeros((2, 3)), "b": np.zeros(2)}, "a")
    assert (tree["w"].shape, tree["b"].shape) == ((3,), ())


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"a": 3}, "vectorize requires axis 'a' of size 3, got 2"),
        (["a", "b", "c"], r"vectorize requires an axis for each name, got 3 names for shape \(2, 4\)"),
        (["a", "a"], r"vectorize requires different names, got \['a', 'a'\]"),
    ],
)
def test_errors_of_vectorize(axes: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        nm.vectorize(np.zeros((2, 4)), axes)


def test_errors() -> None:
    x = nm.vectorize(np.zeros((2, 4)), "a")
    with pytest.raises(ShapeError, match=r"vectorize requires an axis for each name, got 1 names for shape \(\)"):
        nm.vectorize(np.float64(1), "a")
    with pytest.raises(ShapeError, match="vectorize requires an unused name, got 'a'"):
        nm.vectorize(x, "a")
    with pytest.raises(ShapeError, match="an operation requires one size for each vectorised axis, got 2 and 3 for 'a'"):
        x + nm.vectorize(np.zeros((3, 4)), "a")
    with pytest.raises(ShapeError, match=r"revectorize requires sizes whose product is 8, got \(3, -1\)"):
        nm.revectorize(x, {"c": 3}, (-1,))
    with pytest.raises(ShapeError, match="reshape_vectors requires one size for each vectorised axis"):
        nm.reshape_vectors([x, nm.vectorize(np.zeros(3), "a")])
    with pytest.raises(TraceError, match=r"a NumPy function requires an array without vectorised axes, got axes \['a'\]"):
        np.asarray(x)
    with pytest.raises(TraceError, match="devectorize, revectorize and reshape_vectors require"):
        nm.while_loop(lambda c: c.sum() < 3, nm.devectorize, x)
    with pytest.raises(TraceError, match="grad requires vectorized='union' or 'parameter', got 'both'"):
        nm.grad(lambda x: x, vectorized="both")
    with pytest.raises(ShapeError, match="got shape"):
        nm.grad(lambda x: x)(x)


def test_artifacts_take_and_return_named_axes(tmp_path: Path) -> None:
    def f(w: Any, x: Any) -> dict[str, Any]:
        return {"gradient": nm.grad(lambda w: ((w * x) ** 2).sum())(w), "plain": w}

    compiled = nm.trace(f, nm.spec(2), nm.vectorize(nm.spec((3, 2)), "b")).lower().compile()
    loaded = nm.load(compiled.save(tmp_path / "f.vmfb"))
    w, x = np.ones(2, np.float32), np.arange(6, dtype=np.float32).reshape(3, 2)
    for run in (compiled, loaded.f, loaded.lower().compile()):
        got = run(w, nm.vectorize(x, "b"))
        assert got["gradient"].vectorized_axes == {"b": 3}
        np.testing.assert_allclose(nm.devectorize(got["gradient"]), 2 * x**2)
        np.testing.assert_array_equal(got["plain"], w)
    with pytest.raises(TreeError, match=r"x requires \* vectorized over {'b': 3}, got \* vectorized over {'c': 3}"):
        loaded.f(w, nm.vectorize(x, "c"))


def test_with_iree() -> None:
    x, y = nm.vectorize(np.array([[1.0, 2.0], [3.0, 4.0]], np.float32), "x"), nm.vectorize(np.ones(3, np.float32), "y")
    got = nm.grad(lambda x: (x**2 * y).sum())(x)
    assert list(got.vectorized_axes) == ["x", "y"]
    np.testing.assert_allclose(nm.devectorize(got)[:, 0], [[2, 4], [6, 8]])
    assert "vectorized over x: 2" in repr(x)


def test_broadcast_vectors() -> None:
    x, y = nm.vectorize(np.arange(2.0), "x"), nm.vectorize(np.arange(6.0).reshape(3, 2), "y")
    a, b = nm.broadcast_vectors([x, y], align_ranks=True)
    assert a.vectorized_axes == b.vectorized_axes == {"x": 2, "y": 3}
    assert nm.devectorize(a).tolist() == np.broadcast_to(np.arange(2.0)[:, None, None], (2, 3, 1)).tolist()
    assert nm.devectorize(b).tolist() == np.broadcast_to(np.arange(6.0).reshape(3, 2), (2, 3, 2)).tolist()
    with pytest.raises(nm.errors.ShapeError, match="broadcast_vectors"):
        nm.broadcast_vectors([x, nm.vectorize(np.ones(3), "x")])
