import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import iree
import numpy as np
import pytest
from deploy_support import leaf, manifest

from nabla_mlir import targets
from nabla_mlir.base.errors import DeployError, DtypeError, ShapeError, TreeError
from nabla_mlir.runtime import load
from nabla_mlir.runtime.array import Array
from nabla_mlir.runtime.manifest import Argument, Code, EntryPoint, Estimate, Manifest
from nabla_mlir.runtime.storage import Artifact, save_artifact
from nabla_mlir.runtime.treespec import LEAF
from nabla_mlir.targets import CPU, CUDA, Vulkan, VulkanDevice

ones = np.ones(4, np.float32)


@pytest.fixture
def module(artifact):
    return load(artifact)


def edit(artifact, **changes):
    path = artifact.with_suffix(".json")
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def edit_code(artifact, **changes):
    (code,) = json.loads(artifact.with_suffix(".json").read_text())["code"]
    edit(artifact, code=[code | changes])


def test_manifest_round_trip(artifact):
    text = artifact.with_suffix(".json").read_text()
    data = json.loads(text)
    assert data["schema"] == 1
    assert data["entry_points"][0] == {
        "name": "add",
        "function": "add",
        "doc": "The sum of both parameters.",
        "arguments": [
            {
                "name": "params",
                "tree": {"dict": [["b", "*"], ["w", "*"]]},
                "leaves": [
                    {"name": "params['b']", "shape": [4], "dtype": "float32"},
                    {"name": "params['w']", "shape": [4], "dtype": "float32"},
                ],
            }
        ],
        "result": {"tree": "*", "leaves": [{"name": "", "shape": [4], "dtype": "float32"}]},
        "estimate": {"shared": 0.0, "serial": 0.0, "dispatches": 0},
    }
    assert Manifest.from_json(text).to_json() == text
    assert max(map(len, text.splitlines())) < 3000  # the features of the CPU are long; the rest fits a screen
    assert all(len(line) <= 100 for line in text.splitlines() if "features" not in line)


def test_any_of_its_names(artifact):
    for path in (artifact, artifact.with_suffix(".json"), artifact.with_suffix(""), str(artifact)):
        assert set(load(path).entry_points) == {"add", "total", "square", "update", "state", "count"}
    assert set(load(artifact.parent).entry_points) == set(load(artifact).entry_points)
    assert not [p for p in artifact.parent.iterdir() if p.name.startswith(".")]


def test_a_renamed_file_is_not_taken_for_another(artifact):
    """The manifest names its file. Before, `load` of the renamed one loaded that file."""
    other = artifact.with_name("other.vmfb")
    other.write_bytes(artifact.read_bytes()[:100])
    other.with_suffix(".json").write_text(artifact.with_suffix(".json").read_text())
    with pytest.raises(
        DeployError, match=rf"the manifest of other\.vmfb, got other\.json, which is that of {artifact.name}\."
    ) as error:
        load(other)
    assert "keep their names" in error.value.help


def test_calls_by_position_and_name_return_trees(module):
    params = {"w": ones, "b": Array.from_numpy(2 * ones)}
    for y in (module.add(params), module["add"](params), module.add(params=params)):
        assert y.tolist() == [3] * 4
    result = module.total(np.ones(1024, np.float32))
    assert float(result.total) == 1024
    assert type(result).__name__ == "Point"
    assert result.negated.shape == (1024,)
    assert module.update(ones) is None
    assert module.state().tolist() == [1] * 4
    assert module.clone().state().tolist() == [0] * 4


def test_python_scalars_are_weak_and_nothing_else_is(module):
    assert float(module.square(3.0)) == float(module.square(3)) == 9
    assert float(module.square(True)) == 1
    assert float(module.square(np.float64(3))) == 9
    with pytest.raises(DtypeError, match=r"x requires float64\[\], got float32\[\]"):
        module.square(np.float32(3))
    with pytest.raises(DtypeError, match=r"x requires float64\[\], got a Python complex"):
        module.square(3j)
    with pytest.raises(ShapeError, match=r"x requires uint8\[3\], got uint8\[\]"):
        module.count(3)
    with pytest.raises(DtypeError, match=r"x requires uint8\[3\], got 300, which is out of its range"):
        module.count(300)
    with pytest.raises(DtypeError, match=r"x requires uint8\[3\], got a Python float"):
        module.count(1.0)
    with pytest.raises(DtypeError, match=r"x requires float64\[\], got str"):
        module.square("three")


def test_arrays_of_the_other_byte_order(module):
    swapped = np.arange(4.0).astype(">f4")
    np.testing.assert_array_equal(module.add({"w": swapped, "b": ones}), np.arange(4.0) + 1)


def test_wrong_arrays_are_all_named_and_never_cast(module):
    with pytest.raises(DeployError) as error:
        module.add({"w": ones.astype(np.float64), "b": ones[:2]})
    assert isinstance(error.value, (DtypeError, ShapeError))
    lines = str(error.value).splitlines()
    assert lines[0] == "add requires the arrays it was compiled for, got 2 other(s)."
    assert lines[1].strip() == "params['b'] requires float32[4], got float32[2]"
    assert lines[2].strip() == "params['w'] requires float32[4], got float64[4]"
    with pytest.raises(DtypeError, match="nothing is cast here"):
        module.add({"w": ones.astype(np.float64), "b": ones})


def test_wrong_structure(module):
    with pytest.raises(TreeError) as error:
        module.add({"w": ones, "c": ones})
    assert "params requires the structure {'b': *, 'w': *}, got {'c': *, 'w': *}." in str(error.value)
    assert "params['b'] is missing" in str(error.value)


def test_wrong_arguments(module):
    with pytest.raises(DeployError, match=r"add requires the arguments \(params\), got no params"):
        module.add()
    with pytest.raises(DeployError, match="got 2 positional arguments"):
        module.add(1, 2)
    with pytest.raises(DeployError, match="got an unknown argument parms, no params"):
        module.add(parms=1)
    with pytest.raises(DeployError, match="got params twice"):
        module.add({}, params={})
    with pytest.raises(DeployError, match=r"an entry point requires one of add, total, .* got 'hvp'"):
        module["hvp"]
    with pytest.raises(AttributeError, match="this module has the entry points add"):
        _ = module.hvp


def test_print(module):
    text = str(module)
    assert text.splitlines()[0].endswith("on local-sync")
    assert "add(params: {'b': *, 'w': *}) -> float32[4]" in text
    assert "The sum of both parameters." in text
    assert "params['w']: float32[4]" in text
    assert "total(x: float32[1024]) -> Point(total=*, negated=*)" in text
    assert "The sum of both" in module.add.__doc__
    assert "add" in dir(module)


def test_driver_choice(artifact, monkeypatch):
    assert load(artifact).driver == "local-sync"
    assert load(artifact, driver="local-task").driver == "local-task"
    edit_code(artifact, driver="local-task")
    assert load(artifact).driver == "local-task"
    entry = EntryPoint("f", (Argument("x", LEAF, (leaf("x", 1000, 1000),)),), LEAF, (leaf(""),))
    small, large = replace(entry, estimate=Estimate(1.0, 1.0, 2)), replace(entry, estimate=Estimate(1e4, 1.0, 20))
    cpu = Code(CPU("generic").to_json())
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(4))
    assert Manifest((small, small), ()).best_driver(cpu) == "local-sync"
    assert Manifest((small, large), ()).best_driver(cpu) == "local-task"
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(1))
    assert Manifest((small, large), ()).best_driver(cpu) == "local-sync"
    assert Manifest((entry,), ()).best_driver(Code(CUDA().to_json())) == "cuda"
    assert Manifest((small,), ()).best_driver(Code(CPU("generic", asynchronous=True).to_json())) == "local-task"


@pytest.mark.parametrize("state", [False, True])
def test_each_entry_point_has_its_driver_where_there_is_no_state(tmp_path, vmfb, monkeypatch, state):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(4))
    add, total, *_ = manifest(CPU()).entry_points
    entries = (replace(add, estimate=Estimate(1e4, 1.0, 20)), replace(total, estimate=Estimate(1.0, 1.0, 2)))
    described = replace(manifest(CPU()), entry_points=entries, state=state)
    loaded = load(save_artifact(tmp_path / "mixed.vmfb", [vmfb], described))
    assert loaded.manifest.state == state
    for module in (loaded, loaded.clone()):
        assert (module.driver, module.driver_of("add")) == ("local-task", "local-task")
        assert module.driver_of("total") == ("local-task" if state else "local-sync")
        assert module.add({"w": module.add({"w": ones, "b": ones}), "b": ones}).tolist() == [3, 3, 3, 3]
        negated = module.total(np.ones(1024, np.float32)).negated
        assert negated.device.driver == module.driver_of("total")
        assert float(module.total(negated).total) == -1024


def test_missing_and_damaged_files(artifact):
    text, code = artifact.with_suffix(".json"), artifact.read_bytes()
    with pytest.raises(DeployError, match="which does not exist"):
        load(artifact.with_name("other.vmfb"))
    artifact.write_bytes(code[:-100])
    with pytest.raises(DeployError, match=r"got another SHA-256(.|\n)*save the artifact again"):
        load(artifact)
    artifact.write_bytes(code)
    good = text.read_text()
    for bad, got in {
        "{": "another text: .*: line 1 column 2",
        "[]": "another text",
        "3": "",
        '"x"': "",
        "{}": r"another text: KeyError\('schema'\)",
    }.items():
        text.write_text(bad)
        with pytest.raises(DeployError, match=f"requires the JSON of a manifest, got {got}"):
            load(artifact)
    with pytest.raises(DeployError, match="requires one manifest") as caught:
        load(code)
    assert "the bytes of an artifact are those of a .zip" in caught.value.help
    text.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DeployError, match="got binary data"):
        load(artifact)
    text.write_text(good)
    edit(artifact, entry_points=[{"name": "f"}])
    with pytest.raises(DeployError, match="requires the fields of schema 1, got KeyError: 'arguments'"):
        load(artifact)
    text.unlink()
    with pytest.raises(DeployError, match=r"without deploy.json(.|\n)*copy deploy.json too"):
        load(artifact)


def test_a_newer_schema(artifact):
    edit(artifact, schema=99, nabla_mlir="7.0")
    with pytest.raises(DeployError, match=r"requires schema 1 or older, got 99(.|\n)*upgrade nabla_mlir .*7.0"):
        load(artifact)


@pytest.mark.parametrize("version", ["3.12.1", "3.14.0rc20270101", "4.0.0"])
def test_another_version_of_iree(artifact, monkeypatch, version):
    monkeypatch.setattr("nabla_mlir.runtime.module.VERSION", version)
    with pytest.raises(DeployError, match=rf"from 3.13 to before 3.14, got {version}(.|\n)*pip install"):
        load(artifact)


def test_a_cpu_without_the_features(artifact, monkeypatch):
    edit_code(artifact, target=CPU("generic", features="+amx-tile,-xop").to_json())
    monkeypatch.setattr(targets.cpu, "cpu_features", lambda: {"amx-tile": False, "xop": False})
    with pytest.raises(DeployError, match=r"requires a CPU with amx-tile, got one without(.|\n)*CPU\('generic'\)"):
        load(artifact)


def test_a_target_without_its_device(artifact, monkeypatch):
    def none():
        raise OSError("no driver")

    edit_code(artifact, target=Vulkan("nvidia").to_json())
    monkeypatch.setattr(targets.vulkan, "vulkan_devices", none)
    with pytest.raises(DeployError, match="requires a Vulkan device, got none: no driver"):
        load(artifact)
    monkeypatch.setattr(targets.vulkan, "vulkan_devices", lambda: [Vulkan("lavapipe").resolve().device])
    with pytest.raises(DeployError, match=r"requires a Vulkan device of subgroup size 32, got 8 \(lavapipe\)"):
        load(artifact)
    monkeypatch.setattr(targets.vulkan, "vulkan_devices", lambda: [VulkanDevice("old", 32)])
    with pytest.raises(DeployError, match=r"requires a Vulkan device with b16, b64, b8, fp16, fp64, .* got old without"):
        load(artifact)


def test_cuda_without_a_gpu(artifact):
    edit_code(artifact, target=CUDA().to_json())
    with pytest.raises(DeployError, match="requires a CUDA device, got none: the library libcuda"):
        load(artifact)


@pytest.mark.vulkan
def test_vulkan(tmp_path, vulkan_vmfb):
    path = save_artifact(tmp_path / "gpu", [vulkan_vmfb], manifest(Vulkan()))
    module = load(path)
    assert module.driver == "vulkan"
    assert module.add({"w": ones, "b": ones}).tolist() == [2] * 4
    assert float(module.total(np.arange(1024, dtype=np.float32)).total) == 1023 * 512


ALONE = """
import sys, time
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("optree", "jax", "ml_dtypes_") or name.startswith("iree.compiler"):
            raise ImportError(f"{name} is not there where an artifact is deployed")
sys.meta_path.insert(0, Refuse())
start = time.perf_counter()
import numpy as np
from nabla_mlir.runtime import load
took = time.perf_counter() - start
ours = sorted(m for m in sys.modules if m.startswith("nabla_mlir"))
module = load(sys.argv[1])
ones = np.ones(4, np.float32)
assert module.add({"w": ones, "b": ones}).tolist() == [2, 2, 2, 2]
ramp = module.add({"w": np.array([3, 1, 2, 0], np.float32), "b": ones}).reshape(2, 2)
assert ramp.argsort(axis=None).tolist() == [3, 1, 2, 0] and ramp.compress([False, True]).tolist() == [2]
assert [x.tolist() for x in ramp.nonzero()] == [[0, 0, 1, 1], [0, 1, 0, 1]] and ramp.argpartition(3, axis=None)[3] == 0
assert "subprocess" not in ours and not any(m.startswith(("iree.compiler", "optree")) for m in sys.modules)
print(took, *ours)
"""


def test_a_process_with_the_runtime_alone(artifact):
    done = subprocess.run([sys.executable, "-c", ALONE, artifact], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    took, *ours = done.stdout.split()
    print(f"importing nabla_mlir.runtime took {float(took) * 1e3:.0f} ms")
    others = {name for name in ours if name.split(".")[1:2] not in (["runtime"], ["targets"])}
    base = (
        "array_methods",
        "array_operators",
        "conversion",
        "errors",
        "exchange",
        "files",
        "locks",
        "names",
        "plugins",
        "progress",
        "thresholds",
    )
    names = ("", ".base", *(f".base.{name}" for name in base))
    assert others == {f"nabla_mlir{name}" for name in names}


def test_asynchronous_calls_of_an_artifact(tmp_path, asynchronous_vmfb):
    target = CPU(asynchronous=True)
    module = load(save_artifact(tmp_path / "later.vmfb", [asynchronous_vmfb], manifest(target)))
    total = module.add({"w": ones, "b": ones})
    assert total.pending is not None
    assert module.add({"w": total, "b": ones}).tolist() == [3, 3, 3, 3]
    module.update(ones)
    assert module.state().tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("code", ["vmfb", "asynchronous_vmfb"])
def test_iree_run_module_runs_it(request, tmp_path, code):
    artifact = save_artifact(tmp_path / "deploy.vmfb", [request.getfixturevalue(code)], manifest(CPU()))
    tool = next(p for root in iree.__path__ for p in Path(root).glob("_runtime_libs/iree-run-module*"))
    np.save(tmp_path / "x.npy", ones)
    command = [tool, "--device=local-sync", f"--module={artifact}", "--function=add"]
    done = subprocess.run([*command, *[f"--input=@{tmp_path}/x.npy"] * 2], capture_output=True, text=True, check=True)
    assert "4xf32=2 2 2 2" in done.stdout


def test_reading_gives_back_what_was_saved(artifact, vmfb):
    found = Artifact(artifact)
    assert found.vmfb(found.manifest.code[0]) == vmfb
    assert [e.name for e in found.manifest.entry_points] == ["add", "total", "square", "update", "state", "count"]
