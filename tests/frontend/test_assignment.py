"""``x[index] = value``: on arrays, whose memory nobody else sees changed, and on tensors of the same trace."""

import numpy as np
import pytest
from support import assert_same

import nabla_mlir as nm
import nabla_mlir.numpy as xp
from nabla_mlir.base.errors import DtypeError, TraceError
from nabla_mlir.runtime.array import Array

pytestmark = pytest.mark.usefixtures("interpreted")


PLACES = {
    "number": lambda x: (1, 5.0),
    "slice": lambda x: (slice(None, None, 2), 7.0),
    "row": lambda x: ((1, ...), np.arange(3.0)),
    "list": lambda x: ([0, 3], 1),
    "mask": lambda x: (x > 4, 0.0),
    "negative": lambda x: ((-1, -2), 3.0),
    "all": lambda x: (..., 2.0),
    "rows by mask": lambda x: (x[:, 0] > 2, np.arange(3.0)),
}


@pytest.mark.parametrize("name", PLACES)
def test_assignment_agrees_with_numpy(name) -> None:
    host = np.arange(12.0).reshape(4, 3)

    def changed(x):
        index, value = PLACES[name](x)
        x[index] = value
        return x

    want = changed(host.copy())
    assert_same(changed(Array.from_numpy(host)), want)
    assert_same(nm.jit(changed)(host), want)
    assert_same(nm.vmap(changed)(np.stack([host, host])), np.stack([want, want])) if "mask" not in name else None


def test_nothing_that_shares_memory_changes() -> None:
    host = np.arange(3.0)
    x = xp.from_dlpack(host)
    view, export, same, other = np.asarray(x), np.from_dlpack(x), x, x.copy()
    part = x[1:]
    x[1] = 9.0
    assert x.tolist() == same.tolist() == [0.0, 9.0, 2.0]
    for array in (host, view, export, other):
        assert array.tolist() == [0.0, 1.0, 2.0]
    assert part.tolist() == [1.0, 2.0]
    x += 1.0
    assert same.tolist() == [0.0, 9.0, 2.0]


def test_indices_and_values_may_be_arrays() -> None:
    x = xp.arange(4.0)
    x[xp.asarray([0, 2])] = xp.asarray([5.0, 6.0])
    x[x > 5.5] = xp.asarray(0.0)
    assert x.tolist() == [5.0, 1.0, 0.0, 3.0]


def test_values_of_a_higher_kind_are_refused() -> None:
    x = xp.arange(3)
    with pytest.raises(DtypeError, match=r"x\[...\] = v requires values of a dtype of the kind of int32, got float64"):
        x[0] = 1.5
    assert x.tolist() == [0, 1, 2]


def test_derivatives_pass_through_assignments() -> None:
    def f(x):
        y = xp.positive(x)
        y[0] = x[1] ** 3
        y[1:] *= 2.0
        return (y * x).sum()

    def same(x):
        return x[1] ** 3 * x[0] + 2.0 * (x[1:] ** 2).sum()

    x, v = np.array([1.0, 2.0, 3.0]), np.array([1.0, -1.0, 0.5])
    assert_same(nm.grad(f)(x), nm.grad(same)(x))
    assert_same(nm.hvp(f)(x, v), nm.hvp(same)(x, v))


def test_results_that_are_arguments_are_tensors_of_their_own() -> None:
    def f(x):
        others = [x.copy(), +x, x.astype(x.dtype), x.reshape(3), x[...]]
        x[0] = 5.0
        return others, x

    others, x = nm.jit(f)(np.zeros(3))
    assert x.tolist() == [5.0, 0.0, 0.0]
    assert all(other.tolist() == [0.0] * 3 for other in others)


def test_tensors_of_another_scope_are_refused() -> None:
    def f(x):
        def body(i, total):
            x[0] = 1.0
            return total + x

        return nm.fori_loop(0, 2, body, x)

    with pytest.raises(TraceError, match=r"x\[...\] = v requires an array of the function that is being traced") as error:
        nm.jit(f)(np.zeros(2))
    assert "x = x.at[...].set(v)" in error.value.help


def test_traced_masks() -> None:
    host = np.arange(4.0)
    assert nm.jit(lambda x: x.at[x > 1].add(10.0))(host).tolist() == [0.0, 1.0, 12.0, 13.0]
    assert nm.grad(lambda x: (x.at[x > 1].multiply(x[0])).sum())(host).tolist() == [6.0, 1.0, 0.0, 0.0]
    with pytest.raises(TraceError, match="a traced mask of the first axes"):
        nm.jit(lambda x: x.at[x > 1].set(x[:2]))(host)


def test_arrays_with_named_axes() -> None:
    x = nm.vectorize(np.arange(6.0).reshape(2, 3), "batch")
    other = x.copy()
    x[0] = nm.vectorize(np.array([7.0, 8.0]), "batch")
    assert nm.devectorize(x).tolist() == [[7.0, 1.0, 2.0], [8.0, 4.0, 5.0]]
    assert nm.devectorize(other).tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    y = xp.zeros(3)
    with pytest.raises(TraceError, match=r"x\[...\] = v requires known numbers"):
        y[0] = x[0]


def test_where_only_the_runtime_is_installed_it_is_the_same(monkeypatch) -> None:
    monkeypatch.setattr(Array, "functions", {})
    x = Array.from_numpy(np.arange(3.0))
    y = x.copy()
    x[1:] = 5.0
    assert (x.tolist(), y.tolist()) == ([0.0, 5.0, 5.0], [0.0, 1.0, 2.0])
    assert np.sum(x) == 10.0
    assert np.var(x, ddof=1) == np.var([0.0, 5.0, 5.0], ddof=1)
