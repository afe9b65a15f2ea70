"""Operators of SciPy: products in every form, counts, points that move, errors."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.sparse import csr_matrix

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base import thresholds
from nabla_mlir.base.errors import DtypeError, NablaError, NotFiniteError, TraceError, TreeError
from nabla_mlir.prepared.instant import load_prepared
from nabla_mlir.prepared.operators import StalePointError

pytestmark = pytest.mark.slow

jax.config.update("jax_enable_x64", True)
RNG = np.random.default_rng(3)
BLOCK = 4


def loss(xp: Any, params: Any, rows: Any) -> Any:
    return xp.sum(xp.tanh(rows @ params["w"]) ** 2) + xp.sum(xp.exp(params["b"]) * params["w"][0])


def point() -> tuple[dict[str, np.ndarray], np.ndarray]:
    return {"w": RNG.normal(size=(2, 3)), "b": RNG.normal(size=3)}, RNG.normal(size=(7, 2))


def dense(params: Any, rows: Any) -> np.ndarray:
    flat, unravel = ravel_pytree(params)
    return np.asarray(jax.hessian(lambda x: loss(jnp, unravel(x), rows))(flat))


START = point()


@functools.cache
def shared(target: str | None) -> Any:
    return nm.HessianOperator(lambda p, rows: loss(nnp, p, rows), *START, block=BLOCK, target=target)


@pytest.fixture(params=[None, "cpu"])
def H(request: pytest.FixtureRequest) -> Any:
    """Interpreted, and compiled."""
    return shared(request.param).clone()


def test_products_in_every_form(H: Any) -> None:
    A = dense(*START)
    v = RNG.normal(size=9)
    assert H.shape == (9, 9)
    assert H.dtype == np.float64
    np.testing.assert_allclose(H @ v, A @ v, rtol=1e-10)
    np.testing.assert_allclose(H.T @ v, A @ v, rtol=1e-10)
    np.testing.assert_allclose(H.H @ v[:, None], (A @ v)[:, None], rtol=1e-10)
    np.testing.assert_allclose((2 * H + H) @ v, 3 * A @ v, rtol=1e-10)
    np.testing.assert_allclose(H.to_dense(), A, rtol=1e-9, atol=1e-10)
    for columns in (1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 3):
        V = RNG.normal(size=(9, columns))
        np.testing.assert_allclose(H @ V, A @ V, rtol=1e-9, atol=1e-10)
    tree = ravel_pytree(START[0])[1](v)
    out = H.apply(jax.tree.map(np.asarray, tree))
    np.testing.assert_allclose(np.concatenate([np.ravel(out["b"]), np.ravel(out["w"])]), A @ v, rtol=1e-10)
    assert out["w"].version == H.version


def test_counts_and_time(H: Any) -> None:
    assert (H.products, H.updates) == (0, 1)
    H @ np.ones(9)
    H @ np.ones((9, 6))
    assert H.products == 7
    H.update(H.x + 1)
    assert H.updates == 2
    assert 0 < H.seconds < 10


def test_it_moves(H: Any) -> None:
    params, rows = point()
    value, gradient = H.update(params, rows)
    want = jax.value_and_grad(lambda p: loss(jnp, p, rows))(params)
    assert value == pytest.approx(float(want[0]))
    np.testing.assert_allclose(gradient, ravel_pytree(want[1])[0], rtol=1e-10)
    np.testing.assert_allclose(H.to_dense(), dense(params, rows), rtol=1e-9, atol=1e-10)
    flat = ravel_pytree(params)[0] * 0.5
    H.update(np.asarray(flat))  # a vector, and the data as they are
    np.testing.assert_allclose(H.to_dense(), dense(jax.tree.map(lambda x: 0.5 * x, params), rows), rtol=1e-9, atol=1e-10)


def test_damping(H: Any) -> None:
    plain = H.to_dense()
    H.damping = 0.25
    np.testing.assert_allclose(H.to_dense(), plain + 0.25 * np.eye(9), rtol=1e-12)
    np.testing.assert_allclose(H @ np.ones(9), plain @ np.ones(9) + 0.25, rtol=1e-10)


def test_for_optimisers(H: Any) -> None:
    x = H.x + 0.1
    updates = H.updates
    value, gradient = H.objective(x)
    np.testing.assert_allclose(H.hessp(x, gradient), H.to_dense() @ gradient, rtol=1e-9)
    assert H.objective(x)[0] == value
    assert H.updates == updates + 1


def test_self_check(H: Any) -> None:
    report = H.self_check()
    assert report["symmetry"] <= report["rounding"]
    assert report["finite_difference"] <= report["expected_difference"] < 1e-6


def test_other_families() -> None:
    x = RNG.normal(size=3)
    stage = nm.ggnvp_module(lambda x: nnp.sin(x), lambda out: nnp.sum(out**3), nm.spec(3, "f64"))
    G = nm.HessianOperator(stage, x)
    np.testing.assert_allclose(G.to_dense(), np.diag(6 * np.sin(x) * np.cos(x) ** 2), rtol=1e-10, atol=1e-12)
    J = nm.JacobianOperator(lambda x: nnp.outer(x, x)[:2], x)
    want = np.asarray(jax.jacobian(lambda x: jnp.outer(x, x)[:2].ravel())(x))
    assert J.shape == (6, 3)
    np.testing.assert_allclose(J @ np.eye(3), want, rtol=1e-12)
    np.testing.assert_allclose(J.T @ np.eye(6), want.T, rtol=1e-12)
    np.testing.assert_allclose(J.H @ np.ones(6), want.T @ np.ones(6), rtol=1e-12)


def test_a_point_that_is_not_finite(H: Any) -> None:
    H.update(H.x * np.nan)  # not checked unless asked for
    with pytest.raises(NotFiniteError, match="got NaN or infinity in the value, gradient, point, linearisation"):
        H.update(H.x, check=True)
    H.update(np.zeros(9), check=True)


def test_threads_share_an_operator(H: Any) -> None:
    A, results = dense(*START), {}

    def work(i: int) -> None:
        results[i] = [H @ np.eye(9)[i] for _ in range(50)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(8):
        assert all(np.array_equal(r, results[i][0]) for r in results[i])
        np.testing.assert_allclose(results[i][0], A[i], rtol=1e-9, atol=1e-10)
    assert H.products == 400


def test_a_stale_point_is_an_error(H: Any) -> None:
    """Somebody moves the state behind the operator's back."""
    H._module["update"](*START)
    with pytest.raises(StalePointError, match="the point of the operator's update 1, got that of 2"):
        H @ np.ones(9)


def test_it_is_compiled_when_that_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its state moves over as it was, whatever the caller has done to the arrays since; versions count on."""
    monkeypatch.setattr(thresholds, "COMPILED_MODULE", 300 * thresholds.STEP)
    monkeypatch.setattr(thresholds, "COMPILED_OPERATION", 0.0)
    params, rows = point()
    want, v = dense(params, rows), RNG.normal(size=9)
    H = shared(None).clone()
    H.update({k: np.zeros_like(x) for k, x in params.items()}, rows)
    H.update(params, rows)
    rows[:] = np.nan
    params["w"][:] = np.nan
    drivers = []
    for _ in range(30):
        np.testing.assert_allclose(H @ v, want @ v, rtol=1e-10)
        drivers.append(H._module.driver)
        assert H.version == 3
    assert drivers[0] == "interpreter"
    assert drivers[-1] in ("local-sync", "local-task")
    assert H.self_check()["symmetry"] < 1e-12
    H.update(*START)
    assert H.version == 4
    np.testing.assert_allclose(H @ v, dense(*START) @ v, rtol=1e-10)
    H._module["update"](*START)
    with pytest.raises(StalePointError, match="update 4, got that of 5"):
        H @ v
    monkeypatch.setattr(thresholds, "COMPILED_MODULE", 0.0)  # before its first update
    np.testing.assert_allclose(nm.HessianOperator(lambda x: (x**4).sum(), np.ones(2)) @ np.ones(2), [12, 12])


def test_a_module_that_does_not_keep_its_point_is_compiled_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its functions read the residuals alone; what was said to it last is what the compiled code is moved to."""
    monkeypatch.setattr(thresholds, "COMPILED_MODULE", 100 * thresholds.STEP)
    monkeypatch.setattr(thresholds, "COMPILED_OPERATION", 0.0)
    stage = nm.hvp_module(lambda x: (nnp.sin(x) * x).sum(), nm.spec(3, "f64"), entry_points=("update", "apply"))
    module, x, v = load_prepared(stage, "hvp_module", (), None), np.array([0.3, 0.5, 2.0]), np.ones(3)
    module["update"](0 * x)
    module["update"](x)
    want, x[:] = 2 * np.cos(x) - np.sin(x) * x, np.nan
    drivers = []
    for _ in range(30):
        np.testing.assert_allclose(module["apply"](v), want, rtol=1e-12)
        drivers.append(module.driver)
    assert (drivers[0], drivers[-1] in ("local-sync", "local-task")) == ("interpreter", True)


def test_clones_move_alone(H: Any) -> None:
    other = H.clone()
    before = H.to_dense()
    other.update(np.zeros(9))
    assert np.array_equal(H.to_dense(), before)
    assert not np.array_equal(other.to_dense(), before)


def test_from_a_file_without_the_compiler(tmp_path: Path) -> None:
    x = np.array([0.5, -1.0, 2.0])
    f = lambda p, scale: nnp.sum(p["x"] ** 4) * scale + p["x"][0] * p["x"][1]  # noqa: E731
    used = ("update", "apply", "apply_block")
    stage = nm.hvp_module(f, {"x": nm.spec(3, "f64")}, nm.spec((), "f64"), block=2, entry_points=used)
    path = stage.compile().save(tmp_path / "f.vmfb")
    code = f"""
import sys, numpy as np, nabla_mlir as nm
H = nm.HessianOperator({str(path)!r}, {{"x": np.array({x.tolist()})}}, np.float64(2.0), damping=0.5)
other = H.clone()
other.update(np.ones(3))
assert not [m for m in sys.modules if m.startswith("iree.compiler") or m == "optree"]
print([H.to_dense().tolist(), other.to_dense().tolist(), H.value])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, second, value = ast.literal_eval(done.stdout)
    cross = 0.0 + np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]])
    np.testing.assert_allclose(first, np.diag(24 * x**2 + 0.5) + cross)
    np.testing.assert_allclose(second, np.diag(24 * np.ones(3) + 0.5) + cross)
    assert value == pytest.approx(2 * np.sum(x**4) + x[0] * x[1])
    H = nm.HessianOperator(nm.load(path), {"x": x}, np.float64(1.0))  # a loaded module is taken over
    np.testing.assert_allclose(H.to_dense(), np.diag(12 * x**2) + cross)


def test_errors(H: Any) -> None:
    with pytest.raises(ValueError, match=r"requires a vector of \d+ numbers or a matrix with \d+ rows, got shape"):
        H @ np.ones(8)
    with pytest.raises(TreeError, match="requires the structure"):
        H.update({"w": START[0]["w"]}, START[1])
    with pytest.raises(DtypeError, match=r"requires leaves of one dtype, got p\[0\] float32, p\[1\] float64"):
        nm.HessianOperator(lambda p: p[0] * p[1].astype("f64"), (np.float32(1.0), np.float64(1.0)))
    stage = nm.hvp_module(lambda x: nnp.sum(x), nm.spec(2, "f64"), entry_points=("update", "apply"))
    with pytest.raises(TraceError, match="requires the entry point self_check, got update, apply"):
        nm.HessianOperator(stage, np.ones(2)).self_check()


def _tree_operator() -> nm.HessianOperator:
    f = lambda p: nnp.sum(p["w"] ** 3) + nnp.sum(p["w"]) * p["b"][0] * p["b"][1]  # noqa: E731
    return nm.HessianOperator(f, {"w": np.arange(1.0, 4.0), "b": np.array([2.0, 3.0])})


def test_an_operator_states_the_order_of_its_vectors() -> None:
    H = _tree_operator()
    v = {"w": np.array([1.0, 2.0, 3.0]), "b": np.array([4.0, 5.0])}
    assert H.names == ("b", "w")
    assert "order b (2,), w (3,)" in repr(H)
    assert H.ravel(v).tolist() == [4.0, 5.0, 1.0, 2.0, 3.0]
    back = H.unravel(H.ravel(v))
    assert all(np.array_equal(back[key], v[key]) for key in v)
    product = H @ v
    # the Hessian of sum(w**3) + sum(w) b0 b1 at w = (1, 2, 3), b = (2, 3)
    cross = 4.0 * 3.0 + 2.0 * 5.0
    np.testing.assert_allclose(product["w"], 6.0 * np.array([1.0, 2.0, 3.0]) * v["w"] + cross)
    np.testing.assert_allclose(product["b"], [6.0 * 5.0 + 3.0 * 6.0, 6.0 * 4.0 + 2.0 * 6.0])
    np.testing.assert_allclose(H @ H.ravel(v), H.ravel(product))


def test_an_ordered_dict_keeps_its_order_in_vectors() -> None:
    f = lambda p: nnp.sum(p["w"] ** 2) + 5.0 * nnp.sum(p["b"] ** 2)  # noqa: E731
    H = nm.HessianOperator(f, OrderedDict(w=np.ones(2), b=np.ones(1)))
    assert H.names == ("w", "b")
    assert (H @ np.ones(3)).tolist() == [2.0, 2.0, 10.0]


def test_jacobians_multiply_pytrees_on_both_sides() -> None:
    J = nm.JacobianOperator(lambda p: {"r": p["w"] * 2.0, "s": p["b"] ** 2}, {"w": np.ones(3), "b": np.array([1.0, 2.0])})
    assert (J @ {"w": np.ones(3), "b": np.ones(2)})["s"].tolist() == [2.0, 4.0]
    assert (J.T @ {"r": np.ones(3), "s": np.ones(2)})["w"].tolist() == [2.0, 2.0, 2.0]
    assert J.T.names == ("r", "s")
    assert J.T.T is J
    np.testing.assert_allclose((J.T @ np.eye(5)).T, J @ np.eye(5))
    assert "order b (2,), w (3,)" in repr(J)


def test_a_matrix_argument_is_multiplied_in_its_shape() -> None:
    H = nm.HessianOperator(lambda x: nnp.sum(x**3), np.ones((2, 3)))
    assert (H @ np.ones((2, 3))).tolist() == [[6.0] * 3] * 2
    assert (H @ np.ones(6)).tolist() == [6.0] * 6
    assert (H @ np.ones((6, 2))).shape == (6, 2)


@pytest.mark.parametrize(
    ("v", "message"),
    [
        (np.ones(4), r"HessianOperator requires a vector of 5 numbers or a matrix with 5 rows, got shape \(4,\)"),
        (np.ones((4, 2)), r"a matrix with 5 rows, got shape \(4, 2\)"),
        ({"w": np.ones(3), "b": np.ones(3)}, r"b requires shape \(2,\), got \(3,\)"),
        ({"w": np.ones(3)}, "v requires the structure of"),
    ],
)
def test_a_factor_of_another_shape_is_refused_with_the_order(v: Any, message: str) -> None:
    H = _tree_operator()
    with pytest.raises(NablaError, match=message) as caught:
        H @ v
    assert "test_operators.py" in str(caught.value)
    if not isinstance(v, dict):
        assert "a vector holds b (2,), w (3,)" in str(caught.value)


@pytest.mark.parametrize(
    "v", ["v", b"v", None, 2.0, {1, 2}, np.sin, iter([1.0]), [[1.0, 2.0], [3.0]], csr_matrix(np.eye(5)), np.array(3.0)]
)
def test_what_is_no_factor_is_refused_with_the_expected_shape(v: Any) -> None:
    H, J = nm.HessianOperator(lambda x: nnp.sum(x**3), np.ones(5)), nm.JacobianOperator(lambda x: x * x, np.ones(5))
    products = {
        "H @ v": lambda: H @ v,
        "v @ H": lambda: v @ H,
        "H.matvec": lambda: H.matvec(v),
        "H.rmatvec": lambda: H.rmatvec(v),
        "H.matmat": lambda: H.matmat(v),
        "J.T @ v": lambda: J.T @ v,
        "H.at": lambda: H.at(np.ones(5)) @ v,
    }
    for name, product in products.items():
        with pytest.raises(NablaError, match=r"Operator.* requires a (vector of|matrix with) 5 .*, got") as caught:
            product()
        assert "test_operators.py" in str(caught.value), name
        assert caught.value.help, name  # type: ignore[attr-defined]


def test_pytrees_of_another_kind_are_refused() -> None:
    H = nm.HessianOperator(lambda x: nnp.sum(x**3), np.ones(5))
    with pytest.raises(TreeError, match=r"v requires numbers of shape \(5,\), got \{'w': array"):
        H @ {"w": np.ones(5)}
    H = _tree_operator()
    with pytest.raises(TreeError, match=r"w requires numbers of shape \(3,\), got 'no'"):
        H @ {"w": "no", "b": np.ones(2)}
    for v in ("v", None, 2.0, {1, 2}, lambda: 0, iter([1.0])):
        with pytest.raises(NablaError, match="requires a vector of 5 numbers or a matrix with 5 rows, got"):
            H @ v


def test_lists_of_numbers_are_vectors() -> None:
    H = _tree_operator()
    assert (H @ [1.0, 2.0, 3.0, 4.0, 5.0]).tolist() == (H @ np.arange(1.0, 6.0)).tolist()
    assert ([1, 2, 3, 4, 5] @ H).tolist() == (H @ np.arange(1.0, 6.0)).tolist()
    numbers = nm.HessianOperator(lambda p: p[0] ** 2 * p[1], [np.array(1.0), np.array(2.0)])
    assert [float(x) for x in numbers @ [1.0, 0.0]] == [4.0, 2.0]  # a pytree of this structure
    assert (2 * H).shape == (H * 2.0).shape == (H @ H).shape == (5, 5)
