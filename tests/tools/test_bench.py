"""nabla-mlir bench, and tuning."""

from __future__ import annotations

import json

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import DeployError, TargetError
from nabla_mlir.compiling import checking
from nabla_mlir.staging import tuning
from nabla_mlir.staging.tuning import Trial, _difference
from nabla_mlir.tools import bench
from nabla_mlir.tools import main as tool


@pytest.fixture(scope="module")
def artifact(tmp_path_factory):
    a, x = np.ones((300, 200), np.float32), np.ones(200, np.float32)
    lowered = nm.module(
        product=nm.trace(lambda a, x: a @ x, a, x, name="product"), twice=nm.trace(lambda x: 2 * x, x, name="twice")
    ).lower()
    return lowered.compile("cpu").save(tmp_path_factory.mktemp("bench") / "products.vmfb")


def test_every_dispatch_is_timed(artifact, capsys):
    assert tool.main(["bench", str(artifact), "--driver", "local-sync", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    product, twice = found["entry_points"]
    assert found["driver"] == "local-sync"
    assert min(found["bandwidth"], found["peak"]) > 1e8
    assert (product["bytes"], product["flops"]) == (4 * (300 * 200 + 200 + 300), 2 * 300 * 200)
    assert [d["count"] for entry in (product, twice) for d in entry["dispatches"]] == [1, 1]
    assert sum(d["seconds"] for d in product["dispatches"]) > 0
    assert product["bound"] == max(product["bytes"] / found["bandwidth"], product["flops"] / found["peak"])


def test_the_tables(artifact, capsys, monkeypatch):
    monkeypatch.setattr(bench, "measured_machine", lambda: bench.Machine(1e10, 1e11))
    assert tool.main(["bench", str(artifact), "twice"]) == 0
    text = capsys.readouterr().out
    assert "10 GB/s, 100 GFLOP/s" in text
    assert "twice_dispatch_0" in text
    assert "product" not in text.split("\n", 1)[1]


def test_an_entry_point_that_is_not_there(artifact):
    with pytest.raises(DeployError, match="bench requires an entry point among product, twice, got 'thrice'"):
        bench.run(str(artifact), "thrice", None, as_json=True)


def test_the_fastest_form_is_kept(tmp_path, monkeypatch):
    """Also where a form is refused, and one is fast and wrong."""
    forms = {"default": ({}, ()), "without nabla-schedule": ({"schedule": False}, ()), "broken": ({}, ("--no-such-flag",))}
    monkeypatch.setattr(tuning, "FORMS", forms)
    timed = tuning._time_functions
    seconds = iter([3.0, 4.0, 2.0, 1.0])

    def fake(vmfb, functions, driver):
        now = next(seconds)
        results = timed(vmfb, functions, driver)[1]
        return now, [r + (now == 1.0) for r in results], ""

    monkeypatch.setattr(tuning, "_time_functions", fake)
    lowered = nm.trace(lambda a, x: a @ x, nm.spec((64, 48)), nm.spec(48), name="product").lower()
    compiled = lowered.compile("cpu", tune=True)
    assert (compiled.target.schedule, compiled.driver) == (False, "local-sync")
    assert [(t.form, t.driver, bool(t.refused)) for t in compiled.trials] == [
        ("default", "local-sync", False),
        ("default", "local-task", False),
        ("without nabla-schedule", "local-sync", False),
        ("without nabla-schedule", "local-task", True),
        ("broken", "", True),
    ]
    module = nm.load(compiled.save(tmp_path / "product.vmfb"))
    assert module.driver == "local-sync"
    assert [trial["form"] for trial in module.code.trials] == [t.form for t in compiled.trials]
    np.testing.assert_allclose(module.product(np.ones((64, 48), "f4"), np.ones(48, "f4")), np.full(64, 48.0))


@pytest.mark.parametrize("cache", [False, True])
def test_each_form_is_compiled_once(monkeypatch, cache):
    """The artifact that was timed is the one that is checked and returned."""
    monkeypatch.setattr(tuning, "FORMS", {name: tuning.FORMS[name] for name in ("default", "larger workgroups")})
    compiled_by, artifacts = checking.compile_lowered, []
    monkeypatch.setattr(checking, "compile_lowered", lambda *a, **k: artifacts.append(compiled_by(*a, **k)) or artifacts[-1])
    compiled = nm.trace(lambda x: x * 3, nm.spec(5), name="thrice").lower().compile("cpu", tune=True, cache=cache)
    assert len(artifacts) == 2
    assert any(compiled.vmfb is artifact for artifact in artifacts)
    assert compiled.checks["thrice"].status == "checked"


def test_a_form_is_timed():
    lowered = nm.trace(lambda x: x * 2, nm.spec(4), name="twice").lower()
    (seconds, (result,), refused) = tuning._time_functions(
        lowered.compile().vmfb, {"twice": lowered.entries[0].inputs}, "local-sync"
    )
    assert 0 < seconds < 1
    assert result.shape == (4,)
    assert not refused


def test_differences():
    x = np.array([1.0, 2.0, np.inf])
    assert not _difference([x + [1e-12, 0, 0]], [x])
    assert "differ by 1.0e-02" in _difference([x + [1e-2, 0, 0]], [x])
    assert _difference([np.array([1.0, np.nan, np.inf])], [x])
    assert Trial("default", "local-sync").refused == ""


def test_a_gpu_is_not_tuned():
    with pytest.raises(TargetError, match="tuning requires a target of kind cpu, got cuda"):
        nm.trace(lambda x: x, nm.spec(), name="f").lower().compile("cuda", tune=True)


def test_no_dispatch_of_a_long_loop_is_lost(tmp_path):
    """IREE keeps some thousand events and drops others; each counts, wherever it ran, and after the loop too."""
    x, steps = np.ones((96, 96), np.float32) / 96, 5000

    def f(x):
        y, _ = nm.scan(lambda y, _: (nnp.tanh(y @ x), None), x, None, length=steps)
        return nnp.exp(y).T @ x

    path = nm.trace(f, x, name="f").lower().compile(nm.CPU(schedule=False)).save(tmp_path / "loop.vmfb")
    module = nm.runtime.load(path)
    found = bench.dispatches_of(bench.Artifact(path).vmfb(module.code), module.entry_points["f"], calls=2)
    assert sum(d.count for d in found if "matmul" in d.name) == steps + 1, found
    assert min(d.seconds for d in found) > 0
