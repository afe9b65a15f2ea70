"""Files that users name are written whole or not at all, wherever the disk ends."""

from __future__ import annotations

import contextlib
import os
import resource
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.base.errors import SaveError
from nabla_mlir.base.files import write_files
from nabla_mlir.compiling import cache
from nabla_mlir.interop.casadi import save_external
from nabla_mlir.runtime.storage import store_artifact
from nabla_mlir.tools import main, opt

ROOM = 700  # bytes: less than any of the files below, and more than the small ones that lie beside some of them


def sums(x: Any) -> Any:
    return nnp.sum(nnp.sin(x * np.arange(400.0)) ** 2)


@pytest.fixture(scope="module")
def stages() -> dict[str, Any]:
    traced = nm.trace(nm.grad(sums), nm.spec(400, "f64"), name="f")
    compiled = traced.lower().compile()
    assert compiled.manifest.code, "which asks a program that reads a file, before there is no room for any"
    return {"traced": traced, "compiled": compiled, "explanation": nm.explain(traced)}


@contextlib.contextmanager
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Within it files end after `ROOM` bytes, but for those of the compiler."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    start = subprocess.Popen

    def unlimited(*arguments: Any, **options: Any) -> Any:
        return start(*arguments, **options, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard)))

    monkeypatch.setattr(subprocess, "Popen", unlimited)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # Python would leave half a file of a module that is imported now
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


SAVES: dict[str, Callable[[dict[str, Any], Path], object]] = {
    "f.mlir": lambda stages, path: stages["traced"].save_mlir(path),
    "f.mlirbc": lambda stages, path: stages["traced"].save_mlir(path),
    "f.zip": lambda stages, path: stages["compiled"].save(path),
    "f.vmfb": lambda stages, path: stages["compiled"].save(path),
    "store": lambda stages, path: store_artifact(path.parent, stages["compiled"].to_bytes()),
    "library.h": lambda stages, path: nm.save_static_library(stages["traced"].lower(), path),
    "f_casadi.c": lambda stages, path: save_external(sums, nm.spec(400, "f64"), path=path.with_name("f")),
    "f.html": lambda stages, path: stages["explanation"].save(path),
    "f.json": lambda stages, path: stages["explanation"].save(path),
    "f.trace.json": lambda stages, path: stages["explanation"].save(path),
    "f.graph.json": lambda stages, path: stages["explanation"].save(path),
    "cache.zip": lambda stages, path: cache.export(path),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SAVES)
def test_nothing_is_left_of_a_file_that_the_disk_has_no_room_for(
    monkeypatch: pytest.MonkeyPatch, stages: dict[str, Any], tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    path.write_bytes(b"before")
    message = r"save requires a path that can be written, got .*File too large"
    with full_disk(monkeypatch), pytest.raises(SaveError, match=message) as error:
        SAVES[name](stages, path)
    assert error.value.where is not None
    assert [file.name for file in tmp_path.iterdir()] == [name]
    assert path.read_bytes() == b"before"


def test_nothing_is_left_by_commands(monkeypatch: pytest.MonkeyPatch, stages: dict[str, Any], tmp_path: Path, capsys: Any) -> None:
    text, artifact = stages["traced"].save_mlir(tmp_path / "f.mlir"), stages["compiled"].save(tmp_path / "f.zip")
    x = tmp_path / "x.npy"
    np.save(x, np.ones(400))
    before = sorted(tmp_path.iterdir())
    with full_disk(monkeypatch):
        assert opt.main([str(text), "-o", str(tmp_path / "g.mlir")])
        assert main.main(["run", str(artifact), "--input", str(x), f"--output={tmp_path / 'y.npy'}"])
    assert "File too large" in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before


def test_results_are_where_the_command_says(stages: dict[str, Any], tmp_path: Path, capsys: Any) -> None:
    artifact, x = stages["compiled"].save(tmp_path / "f.zip"), tmp_path / "x.npy"
    np.save(x, np.ones(400))
    assert not main.main(["run", str(artifact), "--input", str(x), f"--output={tmp_path / 'y'}", "--json"])
    assert f'"file": "{tmp_path / "y.npy"}"' in capsys.readouterr().out
    assert np.load(tmp_path / "y.npy").shape == (400,)


def test_several_files_come_all_or_none(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"before")
    with pytest.raises(FileNotFoundError):
        write_files({tmp_path / "a": b"a", tmp_path / "b": b"b", tmp_path / "none" / "c": b"c"})
    with pytest.raises(KeyboardInterrupt):
        write_files({tmp_path / "a": b"a", tmp_path / "b": _interrupted})
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("b", b"before")]


def _interrupted(path: Path) -> None:
    path.write_bytes(b"half")
    raise KeyboardInterrupt


def test_links_modes_and_pipes(tmp_path: Path) -> None:
    """An existing file keeps its mode, a link stays a link, and a pipe is refused."""
    (tmp_path / "file").write_bytes(b"1")
    (tmp_path / "file").chmod(0o600)
    (tmp_path / "link").symlink_to("file")
    write_files({tmp_path / "link": b"2"})
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"2"
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_files({tmp_path / "pipe": b"3"})
    assert os.read(reader, 10) == b"3"
    os.close(reader)
