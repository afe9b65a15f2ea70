"""The document of the explorer: states, differences, origins, costs, kernels, halves, and its files."""

from __future__ import annotations

import importlib
import json
import linecache
import re
import sys
from importlib import resources
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import numpy as np
import pytest
from explorer import programs

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import ImportIRError, PatternError, SaveError, TraceError
from nabla_mlir.explorer import compare, explain
from nabla_mlir.explorer.document import longest_increasing
from nabla_mlir.explorer.exports import reads_of_lines
from nabla_mlir.explorer.listing import lines_of
from nabla_mlir.tools import opt

SCHEMA = json.loads(resources.files("nabla_mlir.explorer").joinpath("document.schema.json").read_text())


@pytest.fixture(scope="module")
def hvp():
    params = programs.PARAMS
    return explain(nm.hvp(programs.loss), params, params, *programs.DATA, target="cpu", name="hvp").data


@pytest.fixture(scope="module")
def halves():
    stage = nm.hvp_module(programs.loss, programs.PARAMS, *programs.DATA, entry_points=("update", "apply"))
    return explain(stage).data


def texts(data, state):
    return [data["texts"][t] for t in data["states"][state]["text"]]


def lowered_state(data):
    return next(row["after"] for row in data["rows"] if row["name"] == "nabla-lower")


def operations(data, state):
    """(text, origin) of each operation that has a line."""
    chosen = data["states"][state]
    for text, number in zip(texts(data, state), chosen["operation"], strict=True):
        if number >= 0 and not text.startswith(("}", "^", "cond", "reducer")):
            yield text, data["origins"][chosen["origin"][number]]


def test_it_is_of_its_schema(hvp, halves):
    for data in (hvp, halves, explain(programs.chain, nm.spec(9), sparsity="hessian").data):
        jsonschema.validate(data, SCHEMA)
        for state in data["states"]:
            assert len(state["text"]) == len(state["depth"]) == len(state["operation"]) == len(state["same"])
            assert len(state["origin"]) == len(state["predecessors"]) == len(state["flops"]) == len(state["bytes"])
            assert max(state["operation"]) < len(state["origin"])
            assert max(state["text"]) < len(data["texts"])


def test_the_states_are_what_lower_makes(hvp):
    traced = nm.trace(nm.hvp(programs.loss), programs.PARAMS, programs.PARAMS, *programs.DATA, name="hvp")
    assert texts(hvp, 0) == [line.strip() for line in traced.mlir().splitlines()]
    assert texts(hvp, lowered_state(hvp)) == [line.strip() for line in traced.lower().mlir().splitlines()]


def test_every_state_parses_again(hvp):
    from nabla_mlir.dialects.context import parse_module

    for number, state in enumerate(hvp["states"]):
        text = "\n".join("  " * d + t for d, t in zip(state["depth"], texts(hvp, number), strict=True))
        assert parse_module(text)


def test_an_operation_leads_to_the_line_the_transforms_and_the_rule(hvp):
    tanh_line = next(i for i, line in enumerate(Path(programs.__file__).read_text().splitlines(), 1) if "tanh" in line)
    second = [
        text
        for text, origin in operations(hvp, lowered_state(hvp))
        if [s["name"] for s in origin["steps"] if s["name"] in ("jvp", "vjp")] == ["jvp", "vjp"]
        and origin["steps"][-1] == {"name": "vjp", "of": "stablehlo.tanh"}
        and origin["frames"][0]["line"] == tanh_line
    ]
    assert any("multiply" in text for text in second)
    frame = next(o["frames"] for t, o in operations(hvp, lowered_state(hvp)) if "stablehlo.tanh" in t)
    assert [f["function"] for f in frame[:2]] == ["predict", "loss"]
    file = hvp["files"][frame[0]["file"]]
    line = file["lines"][frame[0]["line"] - file["first"]]
    assert line[frame[0]["column"] - 1 :].startswith(("nnp.tanh(", "(rows"))
    record = hvp["records"]["stablehlo.tanh"]
    assert record["jvp"].startswith("partials")
    assert '"stablehlo.tanh"' in record["source"]


def test_the_primal_has_no_transform(hvp):
    (origin,) = [o for t, o in operations(hvp, lowered_state(hvp)) if "stablehlo.tanh" in t]
    assert origin["steps"] == []


def test_transforms_are_rows_within_each_other(hvp):
    rows = {row["name"]: (i, row) for i, row in enumerate(hvp["rows"])}
    assert rows["ad.vjp"][1]["parent"] == rows["ad.jvp"][0]
    assert rows["ad.jvp"][1]["parent"] == rows["nabla-expand"][0]
    assert rows["nabla-expand"][1]["parent"] == rows["nabla-lower"][0]
    assert rows["ad.vjp"][1]["after"] < rows["ad.jvp"][1]["after"]
    assert all(row["before"] <= row["after"] for row in hvp["rows"])
    assert rows["nabla-verify"][1]["before"] == rows["nabla-verify"][1]["after"]


def test_what_is_the_same_reads_the_same_and_keeps_its_order(hvp):
    for number in range(1, len(hvp["states"])):
        state = hvp["states"][number]
        before, after = texts(hvp, number - 1), texts(hvp, number)
        saved = [(old, new) for new, old in enumerate(state["same"]) if old >= 0]
        assert saved == sorted(saved)
        assert len({old for old, _ in saved}) == len(saved)
        for old, new in saved:
            assert re.sub(r"%[\w#]+", "%", before[old]) == re.sub(r"%[\w#]+", "%", after[new])


def test_forerunners_are_operations_of_the_state_before(hvp):
    state = lowered_state(hvp)
    found = hvp["states"][state]["predecessors"]
    count = len(hvp["states"][state - 1]["origin"])
    flat = [n for one in found for n in (one if isinstance(one, list) else [one])]
    assert flat
    assert all(0 <= n < count for n in flat)


def test_costs_are_those_of_the_stage(hvp):
    lowered = nm.trace(nm.hvp(programs.loss), programs.PARAMS, programs.PARAMS, *programs.DATA, name="hvp").lower()
    state = hvp["states"][lowered_state(hvp)]
    assert sum(state["flops"]) == lowered.cost()["hvp"].flops
    assert sum(state["bytes"]) == lowered.cost()["hvp"].bytes


def test_a_loop_costs_as_often_as_it_runs():
    def f(x):
        return nm.fori_loop(0, 10, lambda i, c: nnp.sin(c), x)

    data = explain(f, nm.spec(4)).data
    state = data["states"][lowered_state(data)]
    assert sum(state["flops"]) == nm.trace(f, nm.spec(4)).lower().cost()["f"].flops
    assert max(state["flops"]) == 40  # a sine of four elements, ten times


def test_kernels_know_their_operations(hvp):
    last = hvp["states"][-1]
    assert hvp["target"] == "cpu"
    assert hvp["kernels"]
    assert [check["status"] for check in hvp["checks"]] == ["checked"]
    assert hvp["checks"][0]["text"].startswith("checked: on random arguments")
    names = " ".join(k["name"] for k in hvp["kernels"])
    assert "matmul" in names or "matvec" in names
    covered = {n for k in hvp["kernels"] for n in k["operations"]}
    tanh = [n for n, t in zip(last["operation"], texts(hvp, -1), strict=True) if "stablehlo.tanh" in t]
    assert set(tanh) <= covered
    assert all(k["seconds"] is not None and k["seconds"] > 0 and k["bytes"] > 0 for k in hvp["kernels"])
    assert sum(k["flops"] for k in hvp["kernels"]) > 0
    assert hvp["machine"]["bandwidth"] > 0


def test_halves_say_what_is_kept_and_why(halves):
    found = halves["halves"]
    assert {f["name"]: f["half"] for f in found["functions"]} == {"update": "known", "apply": "rest"}
    by_size = [r["nbytes"] for r in found["residuals"]]
    assert by_size == sorted(by_size, reverse=True)
    made = [r for r in found["residuals"] if r["flops"]]
    assert made
    assert all(r["made_by"] >= 0 and r["readers"] == ["apply"] for r in made)
    state = halves["states"][found["state"]]
    stored = {texts(halves, found["state"])[state["operation"].index(r["made_by"])] for r in made}
    assert any("stablehlo.tanh" in text for text in stored)
    assert state["state_bytes"] >= sum(by_size)


def test_what_is_made_again_is_what_the_point_decides():
    def again(**options):
        stage = nm.hvp_module(programs.loss, programs.PARAMS, *programs.DATA, entry_points=("update", "apply"), **options)
        return explain(stage).data

    assert again()["halves"]["recomputed"] == []
    data = again(max_residual_bytes=2600)
    (one,) = data["halves"]["recomputed"]
    assert (one["function"], one["nbytes"], one["flops"]) == ("apply", 30 * 8 * 4, 2 * 30 * 8)  # 1 - h * h of what is kept, h
    state = data["states"][data["halves"]["state"]]
    assert "stablehlo.subtract" in texts(data, data["halves"]["state"])[state["operation"].index(one["made_by"])]
    assert sum(r["nbytes"] for r in data["halves"]["residuals"]) <= 2600


def test_phases_of_iree_know_the_operations_they_got(hvp):
    phases = {phase["name"]: phase for phase in hvp["compiler"]["phases"]}
    assert list(phases)[:5] == ["input", "abi", "preprocessing", "global-optimization", "dispatch-creation"]
    assert list(phases)[-1] == "vm"
    assert all(phase["seconds"] >= 0 and phase["length"] > 0 and phase["doc"] for phase in phases.values())
    last = texts(hvp, -1)
    first_line = dict(reversed(list(zip(hvp["states"][-1]["operation"], last, strict=True))))
    for name in ("input", "dispatch-creation"):
        phase = phases[name]
        products = [n for n, t in zip(phase["operation"], phase["text"], strict=True) if "linalg.matmul" in hvp["texts"][t]]
        assert products
        assert all("stablehlo.dot_general" in first_line[n] for n in products)
    shown = [phase for phase in phases.values() if "text" in phase]
    for before, after in pairwise(shown):
        saved = [line for line in after["same"] if line >= 0]
        assert saved == sorted(saved)
        assert all(line < len(before["text"]) for line in saved)
    assert sum(phase["seconds"] for phase in phases.values()) > 0.05
    assert any(one["name"] == "CanonicalizerPass" for one in hvp["compiler"]["passes"])


def test_numbers_are_found_through_aliases():
    text = """#loc1 = loc("a.mlir":1:2)
#loc2 = loc("@7"(#loc1))
func.func @f() {
  %0 = tensor.empty() : tensor<2xf32> loc(#loc3)
  %1 = tensor.empty() : tensor<2xf32> loc(#loc4)
  %2 = tensor.empty() : tensor<2xf32> loc(#loc1)
} loc(#loc1)
#loc3 = loc(callsite(#loc2 at #loc1))
#loc4 = loc(fused[#loc1, #loc2])
"""
    assert [line.operation for line in lines_of(text)] == [-1, 7, 7, -1, -1]


def test_mapped_axes():
    data = explain(nm.grad(programs.distances), nm.spec((5, 3)), nm.spec(5)).data
    state = data["states"][0]
    (subtract,) = [n for n, t in zip(state["operation"], texts(data, 0), strict=True) if "stablehlo.subtract" in t]
    assert state["axes"][subtract] == ["i"]
    assert [] in state["axes"]
    assert None in state["axes"]
    assert "axes" not in data["states"][lowered_state(data)]


def test_a_pattern_and_its_coloring():
    pattern = explain(programs.chain, nm.spec(6), sparsity="hessian").data["pattern"]
    dense = np.zeros((6, 6), bool)
    dense[pattern["row"], pattern["column"]] = True
    np.testing.assert_array_equal(dense, nm.sparse.hessian_pattern(programs.chain, nm.spec(6)).to_dense())
    assert pattern["colors"] == 3


def test_a_program_of_jax():
    jax = pytest.importorskip("jax")

    def squares(x):
        y = jax.numpy.sin(x)
        return jax.numpy.sum(y**2)

    f = nm.from_jax(squares, np.ones(3, np.float32))
    data = explain(nm.grad(f), nm.spec(3), name="slope").data
    jsonschema.validate(data, SCHEMA)
    frames = {text: o["frames"][0] for text, o in operations(data, lowered_state(data)) if o["frames"]}
    (cosine,) = [frame for text, frame in frames.items() if "stablehlo.cosine" in text]  # knows the line of JAX's function
    assert (cosine["line"], cosine["function"]) == (squares.__code__.co_firstlineno + 1, "test_a_program_of_jax.<locals>.squares")
    assert data["files"][cosine["file"]]["path"] == __file__


@pytest.mark.slow
@pytest.mark.parametrize("name", ["logistic", "conv", "rnn", "attention", "mixture", "process"])
def test_workloads_of_the_benchmark(name, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "bench"))
    frameworks, workloads = importlib.import_module("frameworks"), importlib.import_module("workloads")
    workload = next(w for w in workloads.WORKLOADS if w.name == name)
    x, *data = workload.inputs()
    document = explain(nm.hvp(workload.function(frameworks.nabla())), x, x, *data, name="hvp").data
    jsonschema.validate(document, SCHEMA)
    names = [Path(file["path"]).stem for file in document["files"]]
    first, last = (
        {
            frame["line"]
            for _, origin in operations(document, state)
            for frame in origin["frames"]
            if names[frame["file"]].startswith("workloads")
        }
        for state in (0, -1)
    )
    assert last == first, "operations know the user's lines to the end, all of them"
    patterns = {s["of"] for _, o in operations(document, -1) for s in o["steps"] if s["name"] == "legalize"}
    assert patterns or name != "process", "a Cholesky factorisation is not IREE's"


def test_what_is_interpreted_as_it_stands():
    stage = nm.trace(nm.grad(programs.chain), nm.spec(6), name="slope").compile(nm.Interpreter())
    data = explain(stage).data
    assert data["first"] == "as traced"
    assert not any('"ad.' in text for text in texts(data, lowered_state(data)))


def test_a_file_without_source(tmp_path):
    stage = nm.trace(programs.chain, nm.spec(6))
    path = stage.lower().save_mlir(tmp_path / "chain.mlirbc")
    data = explain(nm.grad(nm.interop.stablehlo.from_stablehlo(path.read_bytes())), nm.spec(6), name="slope").data
    jsonschema.validate(data, SCHEMA)
    assert all(o["frames"] == [] or data["files"][o["frames"][0]["file"]] for _, o in operations(data, 0))


def test_two_files(tmp_path):
    nm.trace(nm.grad(programs.chain), nm.spec(6), name="f").lower().save_mlir(tmp_path / "a.mlir")
    nm.trace(nm.hvp(programs.chain), nm.spec(6), nm.spec(6), name="f").lower().save_mlir(tmp_path / "b.mlir")
    data = compare(tmp_path / "a.mlir", tmp_path / "b.mlir").data
    jsonschema.validate(data, SCHEMA)
    assert len(data["states"]) == 2
    assert texts(data, 0) == [line.strip() for line in (tmp_path / "a.mlir").read_text().splitlines()]
    assert texts(data, 1) == [line.strip() for line in (tmp_path / "b.mlir").read_text().splitlines()]
    assert 0 < sum(1 for n in data["states"][1]["same"] if n >= 0) < len(data["states"][1]["same"])
    assert [f["name"] for f in data["files"]] == ["a.mlir", "b.mlir"]
    assert len(compare(tmp_path / "a.mlir", tmp_path / "a.mlir").data["states"]) == 1


def test_what_cannot_be_compared(tmp_path):
    with pytest.raises(ImportIRError, match=r"diff requires a file of MLIR, got .*none.mlir"):
        compare(tmp_path / "none.mlir", tmp_path / "none.mlir")
    (tmp_path / "bad.mlir").write_text("func.func @f( {")
    with pytest.raises(ImportIRError, match=r"diff requires valid IR, got .*bad.mlir"):
        compare(tmp_path / "bad.mlir", tmp_path / "bad.mlir")


def test_what_cannot_be_explained():
    stage = nm.trace(programs.chain, nm.spec(6))
    with pytest.raises(TraceError, match=r"either a stage or a function with specs(.|\n)*nm\.explain"):
        explain(stage, nm.spec(6))
    with pytest.raises(PatternError, match="requires a sparsity of hessian, jacobian, got 'full'"):
        explain(programs.chain, nm.spec(6), sparsity="full")
    with pytest.raises(PatternError, match="requires a function with specs, got a stage"):
        explain(stage, sparsity="hessian")
    with pytest.raises(PatternError, match="at most 200000 entries, got 250000"):
        explain(lambda x: x * x.sum(), nm.spec(500), sparsity="jacobian")


# ---------------------------------------------------------------- the parts


def test_lines_of_regions():
    text = """module {
  func.func @f(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32> loc(#loc2)
    %0:2 = stablehlo.while(%iterArg = %c, %iterArg_4 = %arg0) : tensor<i32>, tensor<4xf32>
    cond {
      %2 = stablehlo.compare LT, %iterArg, %c : (tensor<i32>, tensor<i32>) -> tensor<i1> loc(#loc3)
      stablehlo.return %2 : tensor<i1> loc(#loc4)
    } do {
      stablehlo.return %iterArg, %iterArg_4 : tensor<i32>, tensor<4xf32> loc(#loc5)
    } loc(#loc6)
    return %0#1 : tensor<4xf32> loc(#loc7)
  } loc(#loc8)
} loc(#loc)
#loc = loc(unknown)
#loc2 = loc("@0"(#loc))
#loc3 = loc("@1"("@7"(#loc)))
#loc4 = loc("@2"(#loc))
#loc5 = loc("@3"(#loc))
#loc6 = loc("@4"(#loc))
#loc7 = loc("@5"(#loc))
#loc8 = loc("@6"(#loc))
"""
    lines = lines_of(text)
    assert [line.operation for line in lines] == [-1, 6, 0, 4, 4, 1, 2, 4, 3, 4, 5, 6, -1]
    assert [line.is_first for line in lines] == [True, True, True, True, False, True, True, False, True, False, True, False, False]
    assert [line.depth for line in lines][:6] == [0, 1, 2, 2, 2, 3]
    reads = reads_of_lines([line.text for line in lines], [line.depth for line in lines])
    assert reads[3] == [1, 2]
    assert reads[5] == [2, 3]
    assert reads[8] == [3]
    assert reads[10] == [3]


def test_the_longest_part_in_order():
    rng = np.random.default_rng(0)
    for _ in range(50):
        numbers = rng.integers(-1, 9, 12).tolist()
        positions = longest_increasing(numbers)
        part = [numbers[i] for i in positions]
        assert part == sorted(set(part))
        assert -1 not in part
        assert positions == sorted(positions)
        best = [1] * 12
        for i in range(12):
            best[i] = 0 if numbers[i] < 0 else 1 + max((best[j] for j in range(i) if 0 <= numbers[j] < numbers[i]), default=0)
        assert len(part) == max(best)


# ---------------------------------------------------------------- files


def test_files(tmp_path, hvp):
    explanation = nm.explain(nm.grad(programs.chain), nm.spec(6), name="slope")
    page = explanation.save(tmp_path / "slope.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "default-src 'none'" in page
    assert "@@" not in page.split('id="data"')[0]
    assert not re.search(r'(src|href)="', page), "it asks for nothing"
    data = page.split('id="data">')[1].split("</script>")[0]
    assert json.loads(data) == explanation.data
    assert json.loads(explanation.save(tmp_path / "slope.json").read_text()) == explanation.data
    with pytest.raises(SaveError):
        explanation.save(tmp_path / "none" / "slope.html")
    assert repr(explanation).startswith("<Explanation of slope: ")


def test_a_script_in_the_source_stays_text():
    assert "<script>alert" not in nm.explain(lambda x: x * 2.0, nm.spec(2), name="a</script><script>alert(1)").html()


def test_chrome_trace(hvp, tmp_path):
    events = nm.explorer.Explanation(hvp).chrome_trace()["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    assert {e["pid"] for e in spans} == {1, 2}
    by_name = {e["name"]: e for e in spans}
    outer, inner = by_name["nabla-lower"], by_name["nabla-expand"]
    assert outer["ts"] <= inner["ts"]
    assert inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + 1
    kernels = [e for e in spans if e["pid"] == 2]
    assert all(a["ts"] + a["dur"] <= b["ts"] + 1e-6 for a, b in pairwise(kernels))


def test_model_explorer(hvp):
    (graph,) = nm.explorer.Explanation(hvp).model_explorer(lowered_state(hvp))["graphs"]
    nodes = {node["id"]: node for node in graph["nodes"]}
    (tanh,) = [node for node in nodes.values() if node["label"] == "stablehlo.tanh"]
    (source,) = [nodes[edge["sourceNodeId"]]["label"] for edge in tanh["incomingEdges"]]
    assert source == "stablehlo.add"
    assert tanh["namespace"].endswith("loss/predict")
    assert all(edge["sourceNodeId"] in nodes for node in nodes.values() for edge in node["incomingEdges"])


def test_passes_as_a_tree_of_files(tmp_path):
    nm.trace(nm.grad(programs.chain), nm.spec(6), name="f").save_mlir(tmp_path / "f.mlir")
    command = [
        str(tmp_path / "f.mlir"),
        "--nabla-lower",
        f"--mlir-print-ir-tree-dir={tmp_path / 'tree'}",
        "-o",
        str(tmp_path / "out.mlir"),
    ]
    assert opt.main(command) == 0
    files = sorted(path.name for path in (tmp_path / "tree").rglob("*.mlir"))
    assert any("nabla-simplify" in name for name in files)
    assert len(files) > 5


def test_a_stage_shows_itself():
    for stage in (nm.trace(programs.chain, nm.spec(6)), nm.trace(programs.chain, nm.spec(6)).lower()):
        assert stage._repr_html_().startswith('<iframe title="chain" srcdoc="&lt;!doctype html&gt;')


def test_cells_of_a_notebook_are_called_as_there_and_what_runs_them_is_no_source(monkeypatch):
    cell, code = "/tmp/ipykernel_1/77.py", "import nabla_mlir as nm\npage = nm.explain(lambda x: x * x, nm.spec(3))\n"
    monkeypatch.setitem(linecache.cache, cell, (len(code), None, code.splitlines(keepends=True), cell))
    compiler = SimpleNamespace(format_code_name=lambda name: ("Cell", "In[3]") if name == cell else None)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace(compile=compiler)))
    names = {}
    exec(compile(code, cell, "exec"), names)
    assert [file["name"] for file in names["page"].data["files"]] == ["In[3]", "test_document.py"]
