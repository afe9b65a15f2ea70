"""What people are used to: a log with reasons, reprs of a line or a screen, colors only where they are wanted, plots."""

from __future__ import annotations

import io
import logging
import subprocess
import sys

import numpy as np
import pytest

import nabla_mlir as nm
from nabla_mlir.base.errors import DeployError, TraceError
from nabla_mlir.runtime.outline import MOST, outline
from nabla_mlir.tools.terminal import colored


@pytest.fixture
def reasons(caplog):
    before = nm.set_execution("interpret")
    caplog.set_level(logging.INFO, "nabla_mlir.jit")
    yield lambda: [record.getMessage() for record in caplog.records if record.name == "nabla_mlir.jit"]
    nm.set_execution(before)


def test_each_compilation_has_its_reason(reasons):
    @nm.jit
    def total(x, options={}):  # noqa: B006
        return (x * 2.0).sum()

    total(np.ones(3))
    total(np.ones(3))
    total(np.ones(4))
    total(np.ones(4, np.float32))
    total(np.ones(4), options={"a": np.ones(2)})
    first, shape, dtype, structure = reasons()
    assert first == "total is compiled: its first call"
    assert shape == "total is compiled again: new shape (4,) where (3,) was compiled, in x"
    assert dtype == "total is compiled again: new dtype float32 where float64 was compiled, in x"
    assert structure.startswith("total is compiled again: new structure ")
    assert structure.count("where") == 1


def test_the_nearest_call_is_compared_with(reasons):
    f = nm.jit(lambda p, n: p["w"] * n, static_argnums=1)
    f({"w": np.ones(2)}, 3)
    f({"w": np.ones(5)}, 3)
    f({"w": np.ones(5)}, 4)
    assert reasons()[1].endswith("new shape (5,) where (2,) was compiled, in p['w']")
    assert reasons()[2].endswith("new static arguments 1=4 where 1=3 were compiled")


def test_a_scalar_where_an_array_was(reasons):
    f = nm.jit(lambda x: x * 2.0)
    f(np.float64(1.0) * np.ones(()))
    f(1.0)
    assert len(reasons()) == 2
    assert "in x" in reasons()[1]


def test_the_log_is_silent_until_it_is_asked_for():
    code = (
        "import nabla_mlir as nm, numpy as np; nm.set_execution('interpret'); f = nm.jit(lambda x: x); f(np.ones(2)); f(np.ones(3))"
    )
    silent = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert silent.stderr == ""
    import os

    loud = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ | {"NABLA_MLIR_LOG": "jit,compile"}
    )
    assert (
        loud.stderr.splitlines()[1] == "[nabla_mlir.jit] <lambda> is compiled again: new shape (3,) where (2,) was compiled, in x"
    )


def test_what_is_compiled_and_what_the_cache_had_is_logged(caplog, tmp_path, monkeypatch):
    monkeypatch.setenv("NABLA_MLIR_CACHE_DIR", str(tmp_path))
    caplog.set_level(logging.INFO, "nabla_mlir")
    lowered = nm.trace(lambda x: x * 1.2345, nm.spec(3), name="scaled").lower()
    lowered.compile()
    lowered.compile()
    messages = [(record.name, record.getMessage()) for record in caplog.records]
    assert messages[0][0] == "nabla_mlir.cache"
    assert messages[0][1].endswith("not in the cache, it is compiled")
    assert messages[1][0] == "nabla_mlir.compile"
    assert messages[1][1].startswith("scaled for cpu: ")
    draws = "small numbers of both signs, numbers around 1, numbers of both signs, large numbers of both signs"
    assert messages[2] == ("nabla_mlir.check", f"scaled: checked: on random arguments, {draws}")
    assert messages[3][1].endswith("compiled before in this process")
    caplog.clear()

    def scaled_twice(x, *, twice=2.0):
        return x * 1.2345 * twice

    for function in (nm.jit(scaled_twice), nm.jit(scaled_twice, donate_argnums=0)):
        function(nm.numpy.ones(3))
        assert any(record.getMessage().startswith("scaled_twice for cpu: ") for record in caplog.records)
        caplog.clear()


# ---------------------------------------------------------------- reprs


def test_many_parameters_are_a_screen():
    params = {f"layer{i}": {"w": nm.spec((3, 3)), "b": nm.spec(3)} for i in range(100)}
    traced = nm.trace(nm.grad(lambda p: sum((v["w"] @ v["b"]).sum() for v in p.values())), params, name="f")
    assert traced.describe().splitlines() == [
        "f(",
        "  p['layer0'] ... p['layer99']: 100 of ['b']: float32[3], ['w']: float32[3,3]",
        ")",
        "  -> result['layer0'] ... result['layer99']: 100 of ['b']: float32[3], ['w']: float32[3,3]",
    ]
    module = traced.lower().compile(nm.Interpreter())
    assert len(repr(module).splitlines()) < 8


def test_stages_say_what_they_offer():
    traced = nm.trace(lambda x, y: {"sum": x + y, "product": x * y}, nm.spec(3), nm.spec(3), name="both")
    compiled = traced.lower().compile(nm.CPU("generic"))
    signature = "  both(x: float32[3], y: float32[3]) -> float32[3], float32[3]"
    assert repr(traced) == f"Traced module\n{signature}"
    assert repr(traced.compile(nm.Interpreter())) == f"Module that NumPy interprets\n{signature}"
    title, *rest = repr(compiled).splitlines()
    assert title == f"Compiled module for {compiled.code.label}, {len(compiled.vmfb):,} bytes"
    assert rest == [signature]


def test_a_stage_of_many_entry_points_is_a_screen():
    each = nm.trace(lambda x: x, nm.spec(3))
    lines = repr(nm.module(**{f"f{i}": each for i in range(40)})).splitlines()
    assert len(lines) == 1 + MOST
    assert lines[-1] == "  ... and 17 lines more (40 entry points)"


def test_few_parameters_are_a_line_each():
    assert outline(["p['a']", "p['b']"], ["f32[1]", "f32[2]"], "> ") == ["> p['a']: f32[1]", "> p['b']: f32[2]"]


def test_what_looks_different_is_cut():
    names = [f"x[{i}]" for i in range(60)]
    lines = outline(names, [f"f32[{i}]" for i in range(60)])
    assert len(lines) == MOST
    assert lines[-1] == "... and 37 lines more (60 arrays)"


def test_operators_say_where_they_stand():
    hessian = nm.HessianOperator(lambda x: (x**3).sum(), np.ones(3))
    assert repr(hessian).startswith("HessianOperator(3x3, float64, value 3, |gradient| 5.2, 0 products, 1 updates in ")
    hessian @ np.ones(3)
    assert ", 1 products, " in repr(hessian)
    assert repr(nm.JacobianOperator(lambda x: x**3, np.ones(3))).startswith("JacobianOperator(3x3, float64, 0 products")


# ---------------------------------------------------------------- colors and plots


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_colors(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert colored(Terminal())
    assert not colored(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colored(Terminal())


@pytest.fixture
def pyplot():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    yield plt
    plt.close("all")


def test_spectra(pyplot):
    hessian = nm.HessianOperator(lambda x: (x**3).sum(), np.array([1.0, 2.0]))
    *_, spectrum = nm.stochastic_lanczos(hessian, steps=2, probes=4)
    assert repr(spectrum) == "Spectrum(2 eigenvalues from 6 to 12, 4 probes of 2 steps)"
    (line,) = spectrum.plot(width=0.1).lines
    at, density = line.get_data()
    assert np.trapezoid(density, at) == pytest.approx(1.0, abs=1e-3)
    assert abs(at[np.argmax(np.where(at < 9, density, 0))] - 6) < 0.1


def test_patterns_and_colorings(pyplot):
    pattern = nm.sparse.hessian_pattern(lambda x: (x[1:] * x[:-1]).sum(), nm.spec(5))
    points = pattern.plot().collections[0].get_offsets()
    assert {(int(r), int(c)) for c, r in points} == set(zip(*np.nonzero(pattern.to_dense()), strict=True))
    coloring = nm.sparse.color(pattern)
    axes = coloring.plot()
    assert len(set(axes.collections[0].get_array().tolist())) == coloring.num_colors
    arrow = np.eye(6, dtype=bool)
    arrow[0], arrow[:, 0] = True, True
    both = nm.sparse.color(nm.sparse.Pattern.of(arrow), "bidirectional")
    colors = np.asarray(both.plot().collections[0].get_array())
    rows, columns = np.nonzero(arrow)
    # What the columns' products have alone is read there, the rest from those with rows.
    from_rows = [both.num_column_colors + both.rows[r] for r in rows]
    expected = [both.columns[c] if alone else other for c, alone, other in zip(columns, both.by_column, from_rows, strict=True)]
    np.testing.assert_array_equal(colors, expected)
    assert len(set(colors.tolist())) == both.num_colors


def test_rooflines(pyplot):
    page = nm.explain(lambda a: a @ a, nm.spec((64, 64)), target="cpu", name="square")
    axes = page.plot()
    assert len(axes.collections[0].get_offsets()) == len([k for k in page.data["kernels"] if k["seconds"]])
    with pytest.raises(TraceError, match="requires kernels that were measured, got none"):
        nm.explain(lambda a: a @ a, nm.spec((64, 64))).plot()


def test_plots_name_what_they_need(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(DeployError, match=r"plot requires Matplotlib(.|\n)*nabla-mlir\[plots\]"):
        nm.sparse.Pattern.of(np.eye(2)).plot()
