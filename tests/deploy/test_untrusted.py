"""Files from others: limits of size and time, pipes and devices, digests; see docs/howto/untrusted.md."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

import nabla_mlir as nm
from nabla_mlir.base.errors import DeployError, ImportIRError

TEXT = "func.func @f(%x: tensor<f32>) -> tensor<f32> { %y = stablehlo.sine %x : tensor<f32> return %y : tensor<f32> }"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return nm.trace(lambda x: x + x, nm.spec(), name="double").lower().compile().save(tmp_path_factory.mktemp("made") / "a.zip")


def test_files_have_a_largest_size(archive: Path, tmp_path: Path) -> None:
    assert float(nm.load(archive, max_bytes=10**6).double(2.0)) == 4.0
    with pytest.raises(DeployError, match=r"at most 100 bytes, as max_bytes says, got \d+ in"):
        nm.load(archive, max_bytes=100)
    with zipfile.ZipFile(archive) as file:
        file.extractall(tmp_path)
    with pytest.raises(DeployError, match=r"at most 5000 bytes, as max_bytes says, got \d+ in .*vmfb"):
        nm.load(tmp_path / "a", max_bytes=5000)
    with pytest.raises(DeployError, match="at most 10 bytes"):
        nm.load(archive.read_bytes(), max_bytes=10)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_pipes_and_devices_are_no_files(archive: Path, tmp_path: Path) -> None:
    """Reading one would never end."""
    with zipfile.ZipFile(archive) as file:
        file.extractall(tmp_path)
    (tmp_path / "a.vmfb").unlink()
    (tmp_path / "a.vmfb").symlink_to("/dev/zero")
    with pytest.raises(DeployError, match=r"load requires files, got .*a.vmfb, which is something else"):
        nm.load(tmp_path / "a.json")
    (tmp_path / "a.json").unlink()
    os.mkfifo(tmp_path / "a.json")
    with pytest.raises(DeployError, match=r"a.json, which is something else"):
        nm.load(tmp_path / "a.json", sha256="0" * 64)


def test_imports_have_a_largest_size_and_time() -> None:
    assert float(nm.from_stablehlo(TEXT, max_bytes=1000, time_limit=60)(0.0)) == 0.0
    with pytest.raises(ImportIRError, match="at most 10 bytes, as max_bytes says, got 1"):
        nm.from_stablehlo(TEXT, max_bytes=10)
    with pytest.raises(ImportIRError, match=r"at most 0.01 s, as time_limit says"):
        nm.from_stablehlo(TEXT, time_limit=0.01)
    with pytest.raises(ImportIRError, match="time_limit greater than 0, got -1"):
        nm.from_stablehlo(TEXT, time_limit=-1)
    with pytest.raises(ImportIRError, match=r"(?s)can be read, got: .*nonsense"):
        nm.from_stablehlo("nonsense", time_limit=60)
