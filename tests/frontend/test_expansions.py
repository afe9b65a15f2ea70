"""Equal traces outside `jit` are expanded once, and again after anything that their expansion depends on has changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base import thresholds
from nabla_mlir.dialects.locations import source_of
from nabla_mlir.dialects.regions import nested
from nabla_mlir.ops.elementwise import sine
from nabla_mlir.staging import execution

X = np.linspace(0.2, 1.0, 5)


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The modules that are lowered, with an empty cache."""
    modules: list[Any] = []
    lower = execution.lower_module
    monkeypatch.setattr(execution, "_expansions", execution._Latest(4))
    monkeypatch.setattr(execution, "lower_module", lambda module: (modules.append(module), lower(module)))
    return modules


def test_equal_traces_are_expanded_once(lowered: list[Any]) -> None:
    for _ in range(3):
        np.testing.assert_allclose(nm.grad(lambda x: nnp.sum(nnp.sin(x)))(X), np.cos(X), rtol=1e-12)
    assert len(lowered) == 1
    np.testing.assert_allclose(nm.grad(lambda x: nnp.sum(nnp.sin(x)))(X[:3]), np.cos(X[:3]), rtol=1e-12)
    np.testing.assert_allclose(nm.grad(lambda x: nnp.sum(nnp.cos(x)))(X), -np.sin(X), rtol=1e-12)
    assert len(lowered) == 3


def test_each_line_has_its_own_expansion(lowered: list[Any]) -> None:
    """Errors and the explorer name the line of an operation."""
    nm.grad(lambda x: nnp.sum(nnp.sin(x)))(X)
    nm.grad(lambda x: nnp.sum(nnp.sin(x)))(X)
    cosines = [op for module in lowered for op in nested(module.operation) if op.name == "stablehlo.cosine"]
    lines = [source_of(op.location) for op in cosines]
    assert len(lines) == 2
    assert lines[1].line == lines[0].line + 1


def test_values_of_a_closure_count(lowered: list[Any]) -> None:
    scale, array = 2.0, np.ones(5)

    def f(x: Any) -> Any:
        return nnp.sum(scale * x * x * array)

    g = nm.grad(f)
    np.testing.assert_allclose(g(X), 4 * X)
    scale = 3.0
    np.testing.assert_allclose(g(X), 6 * X)
    array = 2 * array
    np.testing.assert_allclose(g(X), 12 * X)
    array[0] = 0.0
    np.testing.assert_allclose(g(X), np.where(np.arange(5) > 0, 12 * X, 0.0))


def test_branches_of_python_count(lowered: list[Any]) -> None:
    g = nm.grad(lambda x: x * x if x > 0 else -x)
    assert [float(g(x)) for x in (2.0, -2.0, 3.0, -3.0)] == [4.0, -1.0, 6.0, -1.0]
    assert len(lowered) == 2


def test_a_changed_record_counts(lowered: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    g = nm.grad(lambda x: nnp.sum(nnp.sin(x)))
    np.testing.assert_allclose(g(X), np.cos(X))
    monkeypatch.setattr(sine, "jvp", lambda xs, ts, *_: [ts[0] * 3.0])
    monkeypatch.setattr(sine, "partials", [lambda t, y, x: t * 3.0])
    np.testing.assert_allclose(g(X), np.full(5, 3.0))
    monkeypatch.undo()
    np.testing.assert_allclose(g(X), np.cos(X))


def test_a_changed_threshold_counts(lowered: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    g = nm.grad(lambda x: nnp.sum(nnp.sin(x)))
    g(X)
    monkeypatch.setattr(thresholds, "BLOCK", thresholds.BLOCK + 1000)
    g(X)
    assert len(lowered) == 2


def test_rules_of_a_custom_call_may_be_registered_again(lowered: list[Any]) -> None:
    def f(x: Any) -> Any:
        return nm.custom_call("test_expansions", x, results=nm.spec(5, "f64"))

    for factor in (2.0, 5.0):
        nm.register_custom_call("test_expansions", jvp=lambda outs, xs, ts, factor=factor, **_: [ts[0] * factor], batch="leading")
        tangent = nm.grad(lambda x: nnp.sum(nm.jvp(f, (X,), (x,))[1]))
        np.testing.assert_allclose(tangent(X), np.full(5, factor))
    assert len(lowered) == 2


def test_the_cache_is_bounded(lowered: list[Any]) -> None:
    for n in range(1, 9):
        nm.grad(lambda x: nnp.sum(x * x))(np.ones(n))
    assert len(execution._expansions._found) == 4


def test_threads_share_expansions(lowered: list[Any]) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda k: np.asarray(nm.hvp(lambda x: nnp.sum(x**4))(X + k, X)), range(16)))
    for k, product in enumerate(found):
        np.testing.assert_allclose(product, 12 * (X + k) ** 2 * X, rtol=1e-12)
