"""One artifact for several targets: how it is written, and which code a machine takes."""

import contextlib
import hashlib
import json
import re
import shutil
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import nabla_mlir as nm
from nabla_mlir import targets
from nabla_mlir.base.errors import DeployError
from nabla_mlir.runtime import fitting
from nabla_mlir.runtime.manifest import SCHEMA_FILE, Code
from nabla_mlir.runtime.storage import Artifact
from nabla_mlir.targets import CPU, CUDA, Vulkan, VulkanDevice

TARGETS = [CUDA("sm_80"), CPU("generic", triple="aarch64-linux-gnu"), CPU("generic"), Vulkan("nvidia")]
LABELS = ["cuda-sm_80", "cpu-generic-aarch64", "cpu-generic-x86_64", "vulkan-nvidia"]
x = np.arange(4, dtype=np.float32)


@pytest.fixture(scope="module")
def bundle():
    return nm.trace(nm.grad(lambda x: (x**3).sum()), nm.spec(4), name="slope").lower().compile(TARGETS)


@pytest.fixture(params=["slope", "slope/", "slope.zip"])
def saved(request, bundle, tmp_path):
    """Beside each other, in a folder, in an archive."""
    return bundle.save(f"{tmp_path}/{request.param}")


def problems(value, schema, root, where="$"):
    """The faults of a JSON value, by the part of JSON schema that our schema uses."""
    if "$ref" in schema:
        schema = schema | root["$defs"][schema["$ref"].rpartition("/")[2]]
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool}
    if "type" in schema and not isinstance(value, kinds[schema["type"]]):
        yield f"{where} is no {schema['type']}"
        return
    if value not in schema.get("enum", [value]) or value != schema.get("const", value):
        yield f"{where} is {value}"
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        yield f"{where} has another pattern"
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            yield f"{where} has {len(value)} items"
        for i, item in enumerate(value):
            yield from problems(item, schema.get("items", {}), root, f"{where}[{i}]")
    if isinstance(value, dict):
        known = schema.get("properties", {})
        yield from (f"{where}.{key} is missing" for key in schema.get("required", []) if key not in value)
        if schema.get("additionalProperties", True) is False:
            yield from (f"{where}.{key} is unknown" for key in value if key not in known)
        for key, item in value.items():
            yield from problems(item, known.get(key, {}), root, f"{where}.{key}")


def test_the_manifest_is_of_its_schema(saved):
    schema, data = json.loads(SCHEMA_FILE.read_text()), json.loads(Artifact(saved).manifest.to_json())
    assert list(problems(data, schema, schema)) == []
    del data["code"][0]["sha256"]
    data["entry_points"][0]["name"] = 3
    assert list(problems(data, schema, schema)) == ["$.code[0].sha256 is missing", "$.entry_points[0].name is no string"]


def test_this_machine_takes_what_it_runs(saved, monkeypatch):
    manifest = Artifact(saved).manifest
    assert [code.label for code in manifest.code] == LABELS
    monkeypatch.setattr(targets.cpu.platform, "machine", lambda: "x86_64")
    module = nm.load(saved)
    assert module.code.label == "cpu-generic-x86_64"
    assert module.slope(x).tolist() == (3 * x * x).tolist()
    monkeypatch.setattr(targets.cuda, "cuda_devices", lambda: ("sm_90",))
    assert fitting.choose(manifest).label == "cuda-sm_80"
    assert fitting.choose(manifest, driver="local-task").label == "cpu-generic-x86_64"


def test_every_target_is_there_and_checked(saved):
    artifact = Artifact(saved)
    codes = {code.label: artifact.vmfb(code) for code in artifact.manifest.code}
    assert b".target sm_80" in codes["cuda-sm_80"]
    assert b"embedded-elf-arm_64" in codes["cpu-generic-aarch64"]
    assert b"vulkan-spirv-fb" in codes["vulkan-nvidia"]
    again = nm.load(saved, target="cpu-generic-x86_64").lower()
    twice = nm.jit(nm.grad(lambda x: again.function()(x).sum()))
    assert twice(x).tolist() == (6 * x).tolist()


def test_what_is_known_by_its_hash(saved, monkeypatch):
    """The digest of the archive, or of the manifest, which has the hashes of all other files."""
    monkeypatch.setattr(targets.cpu.platform, "machine", lambda: "x86_64")
    place = Path(saved)
    file = place if place.suffix == ".zip" else place / "slope.json" if place.is_dir() else place.with_suffix(".json")
    known = hashlib.sha256(file.read_bytes()).hexdigest()
    for content in [saved, file.read_bytes()] if file.suffix == ".zip" else [saved]:
        assert nm.load(content, sha256=known.upper()).slope(np.ones(4, np.float32)).tolist() == [3.0] * 4
        with pytest.raises(DeployError, match=f"to have the SHA-256 {'0' * 64}, got {known}"):
            nm.load(content, sha256="0" * 64)


def test_entries_that_are_too_large_to_be_true(bundle, tmp_path, monkeypatch):
    path = bundle.save(f"{tmp_path}/slope.zip")
    monkeypatch.setattr("nabla_mlir.runtime.storage._LARGE", 1 << 20)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("slope.json", b" " * (1 << 24))
    with pytest.raises(DeployError, match=r"requires entries of plausible sizes, got slope.json of 16777216 bytes in \d+"):
        nm.load(path)


@pytest.mark.parametrize("name", ["../slope.vmfb", "/etc/passwd"])
def test_files_elsewhere_are_not_read(bundle, tmp_path, name):
    path = bundle.save(f"{tmp_path}/slope/")
    artifact = Artifact(path)
    with pytest.raises(DeployError, match="load requires files next to the manifest, got"):
        artifact.vmfb(replace(artifact.manifest.code[0], file=name))


def test_the_one_asked_for_or_a_reason(saved, monkeypatch):
    monkeypatch.setattr(targets.cpu.platform, "machine", lambda: "x86_64")
    assert nm.load(saved, target="cpu-generic-x86_64").driver == "local-sync"
    with pytest.raises(DeployError, match="requires a CPU of the architecture aarch64, got x86_64"):
        nm.load(saved, target="cpu-generic-aarch64")
    with pytest.raises(DeployError, match=f"a target that the artifact has, got 'tpu'(.|\n)*{', '.join(LABELS)}"):
        nm.load(saved, target="tpu")


def test_why_none_fits(saved, monkeypatch):
    def none():
        raise OSError("no library")

    monkeypatch.setattr(targets.cpu.platform, "machine", lambda: "riscv64")
    monkeypatch.setattr(targets.cuda, "cuda_devices", none)
    monkeypatch.setattr(targets.vulkan, "vulkan_devices", lambda: (VulkanDevice("tiny", 4),))
    with pytest.raises(DeployError) as error:
        nm.load(saved)
    lines = [line.strip() for line in str(error.value).splitlines()]
    assert lines[0] == "load requires code that fits this machine, got none among 4:"
    assert lines[1] == "cuda-sm_80: the artifact requires a CUDA device, got none: no library."
    assert lines[3] == "cpu-generic-x86_64: the artifact requires a CPU of the architecture x86_64, got riscv64."
    assert lines[4] == "vulkan-nvidia: the artifact requires a Vulkan device of subgroup size 32, got 4 (tiny)."
    assert lines[5].startswith("help: compile it for this machine too")


@pytest.mark.parametrize(
    ("arch", "device", "fits"),
    [
        ("sm_80", "sm_80", True),
        ("sm_80", "sm_120", True),
        ("sm_90", "sm_89", False),
        ("sm_90a", "sm_90", True),
        ("sm_90a", "sm_100", False),
        ("sm_100f", "sm_103", True),
        ("sm_100f", "sm_120", False),
    ],
)
def test_ptx_runs_on_newer_devices(monkeypatch, arch, device, fits):
    monkeypatch.setattr(targets.cuda, "cuda_devices", lambda: (device,))
    refused = pytest.raises(DeployError, match=f"requires a CUDA device of {arch} or newer, got {device}")
    with contextlib.nullcontext() if fits else refused:
        fitting.check_fit(CUDA(arch).to_json())


def test_a_device_with_less(monkeypatch):
    device = Vulkan("nvidia").resolve().device
    small = VulkanDevice(**device.to_json() | {"shared_memory": 1024})
    monkeypatch.setattr(targets.vulkan, "vulkan_devices", lambda: (small,))
    with pytest.raises(DeployError, match="a Vulkan device with shared_memory 49152, got 1024"):
        fitting.check_fit(Vulkan("nvidia").to_json())
    with pytest.raises(DeployError, match="subgroup size 64, got 32"):  # also in the process that compiled it
        nm.trace(lambda x: x + x, nm.spec(4)).lower().compile(Vulkan("amd"))(x)


def test_damaged_archives_and_folders(bundle, tmp_path):
    path = bundle.save(tmp_path / "a" / "slope.zip")
    assert bundle.save(tmp_path / "b" / "slope.zip").read_bytes() == path.read_bytes()
    assert zipfile.ZipFile(path).testzip() is None
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    # A .vmfb ends as archives do, so half of an archive may look like one.
    with pytest.raises(DeployError, match=r"requires (an archive, got|one manifest in) .*slope.zip"):
        nm.load(path)
    path.write_bytes(content.replace(b".target sm_80", b".target sm_81"))
    with pytest.raises(DeployError, match=r"requires a whole archive|another SHA-256"):
        Artifact(path).vmfb(Artifact(path).manifest.code[0])
    folder = bundle.save(f"{tmp_path}/c/").parent
    shutil.copy(folder / "c.json", folder / "d.json")
    with pytest.raises(DeployError, match=r"requires one manifest in .*c, got c.json, d.json"):
        nm.load(folder)
    with pytest.raises(DeployError, match=r"no.zip, which does not exist"):
        nm.load(tmp_path / "no.zip")


def test_two_of_one_label(bundle, tmp_path):
    lowered = nm.load(bundle.save(tmp_path / "x.zip")).lower()
    path = lowered.compile([CPU("generic"), CPU("generic", reassociate=False)]).save(tmp_path / "two")
    files = sorted(p.name for p in tmp_path.glob("two.*"))
    label = Code(CPU("generic").to_json()).label
    assert files == [f"two.{label}-1.vmfb", f"two.{label}-2.vmfb", "two.json", "two.mlirbc"]
    assert nm.load(path).slope(x).tolist() == (3 * x * x).tolist()


def test_unzip_reads_an_archive(bundle, tmp_path):
    path = bundle.save(tmp_path / "slope.zip")
    subprocess.run(["python3", "-m", "zipfile", "-e", path, tmp_path / "out"], check=True)
    assert nm.load(tmp_path / "out", target="cpu-generic-x86_64").slope(x).tolist() == (3 * x * x).tolist()


def test_only_entry_points_are_called_by_name(bundle):
    """The other attributes of a compiled program are those of the program of a target."""
    assert np.allclose(bundle.slope(x), 3 * x**2)
    with pytest.raises(AttributeError, match="vmfb"):
        _ = bundle.vmfb


def test_called_where_it_was_compiled(bundle, monkeypatch):
    monkeypatch.setattr(targets.cpu.platform, "machine", lambda: "x86_64")
    assert bundle(x).tolist() == bundle.entry("slope")(x).tolist() == (3 * x * x).tolist()
