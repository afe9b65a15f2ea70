"""The command nabla-mlir: what it writes, prints and says when something is wrong."""

from __future__ import annotations

import json
import os
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

from nabla_mlir.compiling import cache
from nabla_mlir.runtime import load
from nabla_mlir.tools import main as tool
from nabla_mlir.tools.requests import parse_options, parse_spec

MODEL = '''
import nabla_mlir.numpy as np

def cube(x):
    """The sum of cubes."""
    return (x ** 3).sum()

def squares(params, data):
    return ((data @ params["w"] + params["b"]) ** 2).sum()

def wrong(x):
    return x + np.zeros((7,))

def broken(x):
    raise RuntimeError("no such luck")

number = 3
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert tool.main(arguments) == 1
    error = capsys.readouterr().err
    assert "Traceback" not in error
    return error


def test_the_first_examples_of_the_help(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        tool.main(["--help"])
    lines = [line.split()[1:] for line in capsys.readouterr().out.splitlines() if line.startswith("  nabla-mlir")]
    (folder / "model.py").write_text("def loss(x):\n    return (x ** 3).sum()\n")
    x, v = np.arange(128, dtype=np.float32), np.ones(128, np.float32)
    np.save("x.npy", x)
    np.save("v.npy", v)
    assert [line[0] for line in lines[:2]] == ["compile", "run"]
    for line in lines[:2]:
        assert tool.main(line) == 0
    assert "[  0.   6.  12." in capsys.readouterr().out


class TestCompile:
    def test_the_prepared_hessian(self, folder: Path) -> None:
        specs = ["--spec", '{"w": f64[3], "b": f64}', "--spec", "data=f64[5,3]"]
        assert (
            tool.main(
                [
                    "compile",
                    "model.py:squares",
                    *specs,
                    "--hvp-module",
                    "2",
                    "--entry-points",
                    "update,apply,apply_block",
                    "-o",
                    "hvp",
                ]
            )
            == 0
        )
        module = load("hvp")
        data, v = np.arange(15.0).reshape(5, 3), {"w": np.ones(3), "b": np.zeros(())}
        module.update({"w": np.zeros(3), "b": np.zeros(())}, data)
        np.testing.assert_allclose(module.apply(v)["w"], 2 * data.T @ data.sum(1))
        assert module.entry_points["apply_block"].arguments[0].leaves[1].shape == (2, 3)

    def test_a_sparse_hessian(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        arguments = ["compile", "model.py:cube", "--spec=f64[3]", "--emit=stablehlo", "--sparse"]
        assert tool.main([*arguments, "hessian{format=coo, entry_points=('hessian', 'structure')}"]) == 0
        text = capsys.readouterr().out
        assert "func.func @hessian(%arg0: tensor<3xf64>) -> tensor<3xf64>" in text
        assert "func.func @structure() -> (tensor<3xi32>, tensor<3xi32>)" in text
        assert "--sparse requires one of hessian, jacobian, got 'lu'" in fails(capsys, *arguments, "lu")
        assert "hessian requires options among argnums, format, kind" in fails(capsys, *arguments, "hessian{size=3}")

    def test_to_a_file_that_runs(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        arguments = ["--spec", "f32[3]", "--spec", "v=f32[3]", "--transform", "hvp", "-o", "hvp.vmfb"]
        assert tool.main(["compile", "model.py:cube", *arguments]) == 0
        captured = capsys.readouterr()
        assert captured.out == captured.err == ""  # silent when nobody watches
        np.save("x.npy", np.array([1, 2, 3], np.float32))
        assert tool.main(["run", "hvp.vmfb", "hvp", "--input", "x.npy", "--input", "v=[1, 1, 1]"]) == 0
        assert "[ 6. 12. 18.]" in capsys.readouterr().out
        assert tool.main(["run", "hvp", "--input", "x.npy", "--input", "x.npy", "--output", "y.npy"]) == 0
        assert capsys.readouterr().out == ""
        assert np.load("y.npy").tolist() == [6.0, 24.0, 54.0]
        assert tool.main(["info", "hvp.vmfb"]) == 0
        text = capsys.readouterr().out
        assert "hvp: The sum of cubes." in text
        assert "argument  v       float32[3]" in text
        assert tool.main(["info", "hvp.json", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["entry_points"][0]["name"] == "hvp"

    def test_stages_as_text(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        arguments = ["compile", "model.py:cube", "--spec", "f64[4]", "--transform", "grad", "--name", "slope"]
        assert tool.main([*arguments, "--emit", "mlir"]) == 0
        assert "ad.vjp" in capsys.readouterr().out
        assert tool.main([*arguments, "--emit", "stablehlo", "-o", "out.mlir"]) == 0
        text = Path("out.mlir").read_text()
        assert "ad.vjp" not in text
        assert "func.func @slope(%arg0: tensor<4xf64>) -> tensor<4xf64>" in text

    @pytest.mark.parametrize(
        ("transforms", "specs", "result"),
        [
            (["jvp"], ["f32[3]", "x_dot=f32[3]"], "(tensor<f32>, tensor<f32>)"),
            (["vjp"], ["f32[3]", "f32"], "(tensor<f32>, tensor<3xf32>)"),
            (["hessian{mode=rev_fwd}"], ["f32[3]"], "tensor<3x3xf32>"),
            (["grad", "vmap{in_axes=1, out_axes=1}"], ["f32[3,5]"], "tensor<3x5xf32>"),
            (["hvp", "vmap{in_axes=(None, 0)}"], ["f32[3]", "f32[5,3]"], "tensor<5x3xf32>"),
        ],
    )
    def test_transforms_in_order(
        self, folder: Path, capsys: pytest.CaptureFixture[str], transforms: list[str], specs: list[str], result: str
    ) -> None:
        arguments = [f"--transform={t}" for t in transforms] + [f"--spec={s}" for s in specs]
        assert tool.main(["compile", "model.py:cube", "--emit=stablehlo", *arguments]) == 0
        assert f"-> {result} {{" in capsys.readouterr().out

    def test_trees(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        specs = ["--spec", '{"w": f32[3,4], "b": f32[4]}', "--spec", "data=f32[10,3]"]
        assert tool.main(["compile", "model.py:squares", *specs, "--transform", "grad", "--emit", "stablehlo"]) == 0
        assert "-> (tensor<4xf32>, tensor<3x4xf32>)" in capsys.readouterr().out

    def test_a_module_knows_its_arguments(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        text = "func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }"
        Path("model.mlir").write_text(text)
        assert tool.main(["compile", "model.mlir:f", "--transform", "jacfwd", "--emit", "stablehlo"]) == 0
        assert "-> tensor<3x3xf32>" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("transform", "signature"),
        [
            ("hvp{wrt=1}", "tensor<3xf32>, %arg1: tensor<3xf32>, %arg2: tensor<3xf32>) -> tensor<3xf32>"),
            ("jvp{wrt=0}", "tensor<3xf32>, %arg1: tensor<3xf32>, %arg2: tensor<3xf32>) -> (tensor<f32>, tensor<f32>)"),
            ("vjp{wrt=1}", "tensor<3xf32>, %arg1: tensor<3xf32>, %arg2: tensor<f32>) -> (tensor<f32>, tensor<3xf32>)"),
        ],
    )
    def test_a_module_with_what_a_transform_adds(
        self, folder: Path, capsys: pytest.CaptureFixture[str], transform: str, signature: str
    ) -> None:
        Path("model.mlir").write_text(DOT)
        assert tool.main(["compile", "model.mlir", "--transform", transform, "--emit", "stablehlo"]) == 0
        assert signature in capsys.readouterr().out

    def test_a_module_to_a_file_that_runs(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        Path("model.mlir").write_text(DOT)
        assert tool.main(["compile", "model.mlir", "--transform=hvp{wrt=0}", "--target=cpu", "-o", "hvp.vmfb"]) == 0
        arrays = [f"--input={values}" for values in ("[1,2,3]", "[1,2,3]", "[1,1,1]")]
        assert tool.main(["run", "hvp.vmfb", "hvp", *arrays]) == 0
        assert "[2. 4. 6.]" in capsys.readouterr().out


# The Hessian-vector product in x of sum(x * x * w) is 2 w v.
DOT = """func.func @f(%x: tensor<3xf32>, %w: tensor<3xf32>) -> tensor<f32> {
  %s = stablehlo.multiply %x, %x : tensor<3xf32>
  %0 = stablehlo.dot_general %s, %w, contracting_dims = [0] x [0] : (tensor<3xf32>, tensor<3xf32>) -> tensor<f32>
  return %0 : tensor<f32> }"""


class TestErrors:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["nowhere.py:f"], "MODEL requires a file, got 'nowhere.py', which does not exist."),
            (["model.py"], "MODEL requires a function, got 'model.py'."),
            (["model.py:number"], "MODEL requires a function of model.py, got 'number'.\n  help: it has cube"),
            (["."], "MODEL requires a file, got '.', which is a folder."),
            (["invalid.mlir"], "a module that can be read, got invalid.mlir: parsing requires valid MLIR"),
            (["empty.mlir"], "a module that can be read, got empty.mlir: importing requires one public function"),
            (["binary.mlir"], "a module that can be read, got binary.mlir: 'utf-8' codec"),
            (["model.py:cube"], "one --spec for each argument of (x), got 0: missing a required argument: 'x'."),
            (["model.py:cube", "--spec=f32[3"], "--spec requires a type such as f32[128,4] or a tree of them"),
            (["model.py:cube", "--spec=f32[n]"], "--spec requires a type such as f32[128,4] or a tree of them"),
            (["model.py:cube", "--spec=f33[3]"], "got 'f33[3]': an element type requires one of i1, i8, i16"),
            (["model.py:cube", "--transform=gradient"], "--transform requires one of grad, value_and_grad, hvp"),
            (["model.py:cube", "--transform=gradd"], "did you mean grad?"),
            (["model.py:cube", "--transform=grad{argnum=1}"], "did you mean argnums?"),
            (["model.py:cube", "--transform=grad{"], "--transform requires the form name{option=value ...}"),
            (["model.py:cube", "--transform=grad{0}"], "--transform requires options of the form name=value"),
            (["model.py:cube", "--transform=grad{n=0}"], "grad requires options among argnums, has_aux, holomorphic"),
            (["model.py:cube", "--target=tpu"], "--target requires one of cpu, vulkan, cuda, got 'tpu'."),
            (
                ["model.py:cube", "--target=cpu{arch=x}"],
                "target cpu requires options among options, asynchronous, checking, cpu, features",
            ),
        ],
    )
    def test_requests(self, folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
        Path("invalid.mlir").write_text("func.func @f(")
        Path("empty.mlir").write_text("")
        Path("binary.mlir").write_bytes(b"\xff\xfe")
        assert message in fails(capsys, "compile", *arguments)

    @pytest.mark.parametrize("emit", ["vmfb", "stablehlo"])
    def test_files_that_cannot_be_written(self, folder: Path, capsys: pytest.CaptureFixture[str], emit: str) -> None:
        error = fails(capsys, "compile", "model.py:cube", "--spec=f32[3]", f"--emit={emit}", "-o", "model.py/cube")
        assert "save requires a path that can be written, got 'model.py/cube'" in error

    def test_the_line_of_the_user(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        error = fails(capsys, "compile", "model.py:wrong", "--spec", "f32[3]")
        assert "model.py:12:12 in wrong" in error
        assert "^^^^^^" in error
        error = fails(capsys, "compile", "model.py:broken", "--spec", "f32[3]")
        assert "error: RuntimeError: no such luck" in error
        assert "model.py:15" in error

    def test_the_traceback_on_request(self, folder: Path) -> None:
        with pytest.raises(RuntimeError, match="no such luck"):
            tool.main(["compile", "model.py:broken", "--spec", "f32[3]", "--traceback"])

    def test_run(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert "which does not exist" in fails(capsys, "run", "nothing.vmfb")
        assert "which does not exist" in fails(capsys, "info", "nothing.vmfb")
        assert tool.main(["compile", "model.py:cube", "--spec", "f32[3]"]) == 0
        assert "no --input" not in fails(capsys, "run", "cube.vmfb", "sphere")
        assert "got none for x." in fails(capsys, "run", "cube.vmfb")
        assert "requires 1 inputs, got 2." in fails(capsys, "run", "cube.vmfb", "--input=[1,2,3]", "--input=0")
        assert "got 'y.npy'" in fails(capsys, "run", "cube.vmfb", "--input=y.npy").replace("y.npy:", "'y.npy'")
        assert "requires an argument among x, got y." in fails(capsys, "run", "cube.vmfb", "--input=y=3")
        assert "a number or a list for x: float32[3]" in fails(capsys, "run", "cube.vmfb", "--input=x+y")
        assert "float32[3], got float32[2]" in fails(capsys, "run", "cube.vmfb", "--input=[1, 2]")


def test_a_static_library(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["compile", "model.py:cube", "--spec=f32[3]", "--emit=static-library", "-o", "lib/cube"]
    assert tool.main([*arguments, "--target=cpu:generic"]) == 0
    assert "int cube_cube(const float *x, float *result);" in Path("lib/cube.h").read_text()
    assert {p.name for p in Path("lib").iterdir()} == {"cube.h", "cube.c", "cube.o", "cube-config.cmake"}
    error = fails(capsys, *arguments, "--target=cpu", "--target=cpu:generic")
    assert "--emit=static-library requires one --target, got 2." in error


class TestVerify:
    def test_several_targets(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        targets = ["--target=cuda:sm_90", "--target=cpu{cpu=generic}", "--target=cpu{cpu=generic reassociate=false}"]
        arguments = ["--spec=f32[3]", "--transform=value_and_grad", "-o", "cube.zip", *targets]
        assert tool.main(["compile", "model.py:cube", *arguments]) == 0
        assert tool.main(["verify", "cube.zip"]) == 0
        lines = [line.split(maxsplit=3) for line in capsys.readouterr().out.splitlines()]
        assert [line[0] for line in lines[2:]] == ["manifest", *["file"] * 4, *["target"] * 3, "value_and_grad", "value_and_grad"]
        text = "\n".join(map(" ".join, lines))
        assert "target cuda-sm_90 skipped the artifact requires a CUDA device, got none" in text
        assert "fits this machine" in text
        assert text.count("agrees with the interpreter (") == text.count("agrees with its StableHLO (") == 2
        assert tool.main(["info", "cube.zip"]) == 0
        text = capsys.readouterr().out
        assert [text.count(label) for label in ("cuda-sm_90", "reassociate=False")] == [
            2,
            1,
        ]  # code, and what is known of its numbers
        assert "its target does not run here" in text
        assert tool.main(["run", "cube.zip", "--target=cpu", "--input=[1,2,3]"]) == 0
        assert "[ 3. 12. 27.]" in capsys.readouterr().out

    def test_a_prepared_hessian_has_a_state(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert tool.main(["compile", "model.py:cube", "--spec=f64[3]", "--hvp-module=2", "--entry-points=all", "-o", "hvp"]) == 0
        assert tool.main(["verify", "hvp"]) == 0
        text = capsys.readouterr().out
        assert "apply_block on cpu" in text
        assert "failed" not in text

    def test_what_is_wrong(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        arguments = ["--spec=f32[3]", "--target=cpu{cpu=generic}"]
        assert tool.main(["compile", "model.py:cube", *arguments, "-o", "cube"]) == 0
        assert tool.main(["compile", "model.py:cube", *arguments, "--transform=grad", "--name=cube", "-o", "other"]) == 0
        code, good = Path("cube.vmfb"), Path("cube.vmfb").read_bytes()
        code.write_bytes(good[:-1] + b"!")
        assert tool.main(["verify", "cube"]) == 1
        assert "another SHA-256" in capsys.readouterr().out
        code.write_bytes(good)
        # A module that is whole, of its manifest, but not of its StableHLO.
        manifest, other = json.loads(Path("cube.json").read_text()), json.loads(Path("other.json").read_text())
        Path("cube.mlirbc").write_bytes(Path("other.mlirbc").read_bytes())
        Path("cube.json").write_text(json.dumps(manifest | {"stablehlo": other["stablehlo"]}))
        assert tool.main(["verify", "cube"]) == 1
        assert "cube on cpu-generic" in capsys.readouterr().out
        manifest["code"][0]["target"]["triple"] = "sparc-linux-gnu"
        Path("cube.json").write_text(json.dumps(manifest))
        assert tool.main(["verify", "cube"]) == 1
        assert "no target of 1 fits this machine" in capsys.readouterr().out
        assert "which does not exist" in fails(capsys, "verify", "nothing.zip")

    def test_without_the_compiler(self, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        assert tool.main(["compile", "model.py:cube", "--spec=f32[3]", "--target=cpu{cpu=generic}"]) == 0
        monkeypatch.setattr("nabla_mlir.tools.verify.importlib.util.find_spec", lambda name: None)
        assert tool.main(["verify", "cube.vmfb"]) == 0
        text = capsys.readouterr().out
        assert "agrees with the interpreter (" in text
        assert "StableHLO (" not in text
        manifest = json.loads(Path("cube.json").read_text())  # as an older release has saved it
        del manifest["entry_points"][0]["reference"]
        Path("cube.json").write_text(json.dumps(manifest))
        assert tool.main(["verify", "cube.vmfb"]) == 0
        text = " ".join(capsys.readouterr().out.split())
        assert "runs, finite results; not compared: it carries no reference values, and there is no compiler here" in text


def test_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "iree-base-compiler" in text
    assert "passed" in text
    assert "checked: on random arguments" in " ".join(text.split())
    assert "cheap" in text


def test_specs_and_options_are_read_as_written() -> None:
    assert str(parse_spec("x=f32")[1]) == "float32[]"
    name, tree = parse_spec("[f32[2], (i32[], {'a': None})]")
    assert name == ""
    assert [str(tree[0]), str(tree[1][0]), tree[1][1]] == ["float32[2]", "int32[]", {"a": None}]
    assert parse_options("cpu{cpu=generic,link_embedded=false}", "t") == ("cpu", {"cpu": "generic", "link_embedded": False})
    assert parse_options("hvp", "t") == ("hvp", {})


# ---------------------------------------------------------------- explain, diff, cache, and what programs read


def test_explain_writes_a_page(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["explain", "model.py:cube", "--spec", "f32[8]", "--spec", "f32[8]", "--transform", "hvp"]
    assert tool.main([*command, "-o", "page.html"]) == 0
    assert "model.py" in (folder / "page.html").read_text()
    assert tool.main([*command, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["title"] == "hvp"
    assert "model.py" in [file["name"] for file in document["files"]]
    assert tool.main([*command[:2], "--spec", "f32[8]", "--hvp-module", "-o", "halves.json"]) == 0
    assert json.loads((folder / "halves.json").read_text())["halves"]["residuals"]
    assert tool.main([*command[:2], "--spec", "f32[8]", "--sparsity", "hessian"]) == 0
    assert (folder / "cube.html").exists()


def test_diff_prints_the_lines_that_differ(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for transform in ("grad", "hvp"):
        specs = ["--spec", "f32[8]"] * (2 if transform == "hvp" else 1)
        command = ["compile", "model.py:cube", *specs, "--transform", transform, "--name", "f", "--emit", "stablehlo"]
        assert tool.main([*command, "-o", f"{transform}.mlir"]) == 0
    capsys.readouterr()
    assert tool.main(["diff", "grad.mlir", "grad.mlir"]) == 0
    assert capsys.readouterr().out == ""
    assert tool.main(["diff", "grad.mlir", "hvp.mlir"]) == 1
    lines = capsys.readouterr().out.splitlines()
    for signs, file in ((" +", "hvp.mlir"), (" -", "grad.mlir")):  # names of values may be those of the other one
        own = [re.sub(r"%\w+", "%", line[2:]) for line in lines if line[0] in signs]
        assert own[2:] == re.sub(r"%\w+", "%", (folder / file).read_text()).splitlines()[2:]
    assert tool.main(["diff", "grad.mlir", "hvp.mlir", "-o", "diff.html"]) == 1
    assert "hvp.mlir" in (folder / "diff.html").read_text()


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        tool.main(["--version"])
    assert end.value.code == 0
    assert re.fullmatch(r"nabla-mlir \d+\.\d+\S* \(IREE \d+\.\d+\S*\)\n", capsys.readouterr().out)


def test_a_wrong_command_line_is_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        tool.main(["compile"])
    assert end.value.code == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab")
    assert tool.main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "nabla-mlir" in script
    assert "--hvp-module" in script or shell == "tcsh"  # which knows the commands alone


def test_the_cache_is_listed_exported_and_pruned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NABLA_MLIR_CACHE_DIR", str(tmp_path / "cache"))
    for i, key in enumerate(("aa1", "bb2")):
        cache.write(key, bytes(100))
        os.utime(tmp_path / "cache" / "vmfb" / key[:2] / key, (1e9 + i, 1e9 + i))
    assert tool.main(["cache", "list", "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)["entries"]
    assert [(e["key"], e["bytes"], e["used"]) for e in entries] == [("bb2", 132, 1e9 + 1), ("aa1", 132, 1e9)]
    assert tool.main(["cache", "list"]) == 0
    assert "2 entries" in capsys.readouterr().out
    assert tool.main(["cache", "export", str(tmp_path / "cache.zip")]) == 0
    with zipfile.ZipFile(tmp_path / "cache.zip") as archive:
        archive.extractall(tmp_path / "other")
    assert tool.main(["cache", "prune", "--to", "200", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {"removed": 1, "bytes": 132}
    assert cache.read("aa1") is None
    assert cache.read("bb2") == bytes(100)
    monkeypatch.setenv("NABLA_MLIR_CACHE_DIR", str(tmp_path / "other"))
    assert cache.read("aa1") == bytes(100)
    assert "requires a size such as 500M, got 'much'" in fails(capsys, "cache", "prune", "--to", "much")


def test_every_command_has_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main(["compile", "model.py:cube", "--spec", "f32[2]", "--json", "-o", "cube.vmfb"]) == 0
    assert json.loads(capsys.readouterr().out)["entry_points"][0]["name"] == "cube"
    assert tool.main(["run", "cube.vmfb", "--input", "[1, 2]", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"name": "result", "dtype": "float32", "shape": [], "value": 9.0}]
    assert tool.main(["verify", "cube.vmfb", "--json"]) == 0
    assert {row["result"] for row in json.loads(capsys.readouterr().out)} == {"ok"}
    assert tool.main(["doctor", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["self_test"]["result"] == "passed"
    assert tool.main(["run", "cube.vmfb", "--input", "[1e30, 0]", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["value"] == "Infinity"
    assert tool.main(["compile", "model.py:cube", "--spec", "f32[2]", "--emit", "stablehlo", "--json"]) == 0
    assert "stablehlo.add" in json.loads(capsys.readouterr().out)["mlir"]
    assert tool.main(["explain", "model.py:cube", "--spec", "f32[2]", "--json", "-o", "cube.html"]) == 0
    assert json.loads(capsys.readouterr().out) == {"file": "cube.html", "bytes": Path("cube.html").stat().st_size}
    assert tool.main(["completion", "bash", "--json"]) == 0
    assert "nabla" in json.loads(capsys.readouterr().out)["script"]
    assert tool.main(["info", "absent.vmfb", "--json"]) == 1
    assert set(json.loads(capsys.readouterr().out)) == {"error", "message", "help"}
