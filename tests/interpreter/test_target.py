"""nm.Interpreter() in the place of a target: called, moved and refused as compiled code is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import DeployError, NotFiniteError, RuleMissingError, ShapeError, TargetError, TraceError
from nabla_mlir.runtime import Array

X = np.linspace(0.5, 2.0, 6)


def loss(x: Any) -> Any:
    return (nnp.sin(x) * x).sum()


def test_entry_points_and_their_state() -> None:
    """A prepared product on the interpreter: by-products, versions, memory of the caller's, clones with a state of their own."""
    stage = nm.hvp_module(loss, nm.spec(6, "f64"), entry_points="all")
    module = stage.compile(nm.Interpreter()).loaded
    with pytest.raises(DeployError, match="apply requires a point, got a call before the first update"):
        module.apply(X)
    hessian = np.diag(2 * np.cos(X) - X * np.sin(X))
    state = module.update(X)
    np.testing.assert_allclose(state["gradient"], np.sin(X) + X * np.cos(X))
    product = module.apply(X)
    np.testing.assert_allclose(product, hessian @ X)
    assert product.version == 1
    stored = X.copy()
    X[:] = 0  # whose values the state has copied
    np.testing.assert_allclose(module.apply(stored), hessian @ stored)
    X[:] = stored
    out, device = np.zeros(6), Array.from_numpy(np.zeros(6))
    module.apply_into(X, out)
    module.apply_into(X, device)
    np.testing.assert_allclose(out, hessian @ X)
    np.testing.assert_allclose(device, hessian @ X)
    with pytest.raises(DeployError, match="memory of its own"):
        module.apply_into(out, out)
    other = module.clone()
    with pytest.raises(DeployError, match="before the first update"):
        other.apply(X)
    other.update(2 * X)
    np.testing.assert_allclose(module.apply(X), hessian @ X)
    assert module.driver == "interpreter"
    assert float(module.self_check()["symmetry"]) < 1e-12


def test_arguments_are_checked_as_elsewhere() -> None:
    f = nm.trace(loss, nm.spec(6, "f64"), name="loss").lower().compile(nm.Interpreter())
    for _ in range(2):
        np.testing.assert_allclose(f(X), (np.sin(X) * X).sum())
    np.testing.assert_allclose(f.loss(Array.from_numpy(X)), f(X))
    with pytest.raises(ShapeError, match="loss requires"):
        f(X[:5])
    assert f.describe().startswith("loss(")
    assert f.memory == {}
    assert f.driver == "interpreter"


def test_what_is_not_there_is_refused() -> None:
    traced = nm.trace(loss, nm.spec(6, "f64"), name="loss")
    with pytest.raises(TargetError, match="a traced stage requires nm"):
        traced.compile(nm.CPU())  # type: ignore[arg-type]
    with pytest.raises(TargetError, match="save requires code for a target"):
        traced.compile(nm.Interpreter()).save("nowhere.vmfb")
    with pytest.raises(TargetError, match="has no flags"):
        nm.Interpreter().flags()
    call = nm.from_stablehlo("""func.func @main(%x: tensor<2xf64>) -> tensor<2xf64> {
      %0 = stablehlo.custom_call @elsewhere(%x) : (tensor<2xf64>) -> tensor<2xf64>
      return %0 : tensor<2xf64> }""")
    with pytest.raises(RuleMissingError, match=r"the interpreter requires an evaluation .* got 'stablehlo.custom_call'"):
        nm.trace(call, np.ones(2)).lower().compile(nm.Interpreter())(np.ones(2))


def test_results_are_not_memory_of_arguments() -> None:
    f = nm.trace(lambda x: (x.T, x[1:], x), nm.spec((2, 3), "f64"), name="views").lower().compile(nm.Interpreter())
    x = np.arange(6.0).reshape(2, 3)
    views = f(x)
    x[:] = -1
    assert [np.asarray(v).tolist() for v in views] == [[[0, 3], [1, 4], [2, 5]], [[3, 4, 5]], [[0, 1, 2], [3, 4, 5]]]


def test_watching_sees_values() -> None:
    """Also in functions that are called, and in loops; not in what an operation is defined by."""
    steps: list[tuple[str, Any]] = []

    target = nm.Interpreter(watch=lambda op, xs, ys: steps.append((op.name, [np.asarray(y).tolist() for y in ys])))
    nm.trace(lambda x: nm.fori_loop(0, 2, lambda i, c: c * x, x), nm.spec((), "f64"), name="f").compile(target)(3.0)
    assert [values for name, values in steps if name == "stablehlo.multiply"] == [[9.0], [27.0]]
    assert steps[-1][0] == "stablehlo.while"


def test_where_numbers_cease_to_be_finite() -> None:
    before = nm.set_execution("auto")
    with nm.debug_nans():
        with pytest.raises(
            NotFiniteError, match=r"stablehlo.multiply requires operands .*, got inf at \(1,\) from 1\.\d+e\+217"
        ) as error:
            nm.jit(lambda x: (nnp.exp(x) * nnp.exp(x)).sum())(np.array([1.0, 500.0]))
        assert error.value.where is not None
        assert "test_target.py" in error.value.where.filename
        with pytest.raises(NotFiniteError, match=r"stablehlo.divide requires .* got inf at \(0,\) from 1\.0, 0\.0"):
            nm.grad(lambda x: nnp.log(x - x).sum())(np.array([1.0]))
        assert np.isnan(np.asarray(nnp.exp(np.array([np.nan])))).all()  # the argument was not finite
        masked = nm.jit(lambda x: nnp.where(x > 0, nnp.log(x), 0.0))(np.array([0.0, 1.0]))
        assert np.asarray(masked).tolist() == [0.0, 0.0]
        assert nm.jit(lambda i: i + 1)(np.arange(3)).tolist() == [1, 2, 3]
    assert nm.set_execution(before) == "auto"  # type: ignore[arg-type]


def test_there_are_three_ways_to_run() -> None:
    with pytest.raises(TraceError, match="set_execution requires one of auto, interpret, compile, got 'eager'"):
        nm.set_execution("eager")  # type: ignore[arg-type]
